"""The hybrid estimators: every candidate meets the first dp moments of the pooled data."""

import numpy as np
import pytest

from moment_gaps import moment_gaps
from pairs import cover_pairs
from registry_examples import fit_quietly
from unshuffle.core.solution import Status
from unshuffle.simulate import make_shuffled
from unshuffle.solvers.projection import Projection

CASES = {
    "one bag": {"bags": 1},
    "unequal bags": {"bags": [20, 80, 100]},
    "gaussian features": {"bags": 2, "features": "normal"},
}
# E[e], E[e²], E[e³] of each noise given below.
NOISE_MOMENTS = {
    "None": (0.0, 0.0, 0.0),
    "0.2": (0.0, 0.04, 0.0),
    "[0.05, 0.05, 0.01]": (0.05, 0.05, 0.01),
}


NOISES = [None, 0.2, [0.05, 0.05, 0.01]]


@pytest.mark.parametrize(
    ("dp", "case", "fit_intercept", "noise", "l2"),
    cover_pairs([1, 2, 3], list(CASES), [True, False], NOISES, [0.0, 0.05]),
)
def test_every_candidate_meets_the_pooled_moments(dp, case, fit_intercept, noise, l2):
    data = make_shuffled(200, 4, noise=0.2, intercept=1.0, rng=1, **CASES[case])
    options = {"fit_intercept": fit_intercept, "noise": noise, "l2": l2, "n_starts": 20}
    model = fit_quietly(Projection(dp), data.X, data.y, data.groups, **options)
    assert model.method_ == f"p{dp}"
    assert model.solution_.status is not Status.UNMET_MOMENTS
    X = np.column_stack([data.X, np.ones(200)]) if fit_intercept else data.X
    errors = NOISE_MOMENTS[str(noise)]
    unit = np.sqrt(np.mean(data.y**2)) ** np.arange(1, dp + 1)
    for candidate in model.solution_.candidates:
        gaps = moment_gaps(X, data.y, candidate.weights, dp, errors)
        # Newton stops at 1e-9 in standard units; the rounding of third powers is far below.
        np.testing.assert_allclose(gaps / unit, 0, atol=1e-8)


@pytest.mark.parametrize("dp", [1, 2, 3])
def test_collinear_and_constant_columns_meet_the_moments_too(dp):
    data = make_shuffled(200, 3, noise=0.2, rng=1)
    X = np.column_stack([data.X, data.X[:, 0] - data.X[:, 1], np.full(200, 4.0)])
    model = fit_quietly(Projection(dp), X, data.y, n_starts=20)
    full = np.column_stack([X, np.ones(200)])
    unit = np.sqrt(np.mean(data.y**2)) ** np.arange(1, dp + 1)
    for candidate in model.solution_.candidates:
        gaps = moment_gaps(full, data.y, candidate.weights, dp)
        # As above; directions without effect must not take a share of the sphere.
        np.testing.assert_allclose(gaps / unit, 0, atol=1e-8)


@pytest.mark.parametrize("dp", [1, 2, 3])
def test_candidates_come_best_first_by_least_squares(dp):
    data = make_shuffled(120, 4, noise=0.3, features="normal", rng=0)
    model = fit_quietly(Projection(dp), data.X, data.y, fit_intercept=False, n_starts=40)
    values = [
        np.mean((np.sort(data.X @ c.weights) - np.sort(data.y)) ** 2)
        for c in model.solution_.candidates
    ]
    # Distinct answers, so that rounding cannot exchange them.
    assert values == sorted(values)
    np.testing.assert_allclose(values, [c.value for c in model.solution_.candidates], rtol=1e-9)


def test_more_conditions_never_lower_the_least_squares_value():
    data = make_shuffled(150, 3, noise=0.3, features="lognormal", rng=4)
    free = fit_quietly("ls", data.X, data.y).solution_.value
    values = [fit_quietly(Projection(dp), data.X, data.y).solution_.value for dp in (1, 2, 3)]
    # Each set of conditions contains the next; minima are found to rounding.
    for lower, higher in zip([free, *values], values, strict=False):
        assert lower <= higher * (1 + 1e-9)


def test_p1_is_stationary_on_its_plane():
    data = make_shuffled(150, 3, noise=0.3, rng=0)
    model = fit_quietly("p1", data.X, data.y, fit_intercept=False)

    def value(w):
        return np.mean((np.sort(data.X @ w) - np.sort(data.y)) ** 2)

    mean = data.X.mean(axis=0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        move = rng.standard_normal(3)
        move -= mean * (move @ mean) / (mean @ mean)
        assert value(model.coef_ + 1e-4 * move) > model.solution_.value


def test_one_feature_with_p1_and_no_intercept_is_the_ratio_of_means():
    data = make_shuffled(50, 1, noise=0.5, rng=0)
    model = fit_quietly("p1", data.X, data.y, fit_intercept=False)
    assert model.coef_[0] == pytest.approx(data.y.mean() / data.X.mean(), rel=1e-12)


def test_claimed_noise_beyond_the_labels_spread_is_said():
    data = make_shuffled(100, 3, noise=0.1, rng=0)
    model = fit_quietly("p2", data.X, data.y, noise=100.0)
    assert model.solution_.status is Status.UNMET_MOMENTS
    # The mean can still be met, and is.
    fitted = np.mean(data.X @ model.coef_ + model.intercept_)
    assert fitted == pytest.approx(data.y.mean(), rel=1e-10)
