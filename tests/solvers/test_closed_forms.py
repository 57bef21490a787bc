"""The closed forms: they solve the equations they are derived from."""

import numpy as np
import pytest

from moment_gaps import moment_gaps
from registry_examples import all_weights, fit_quietly
from unshuffle.core.solution import Status
from unshuffle.estimator import ShuffledLinearRegression
from unshuffle.objectives.losses import Moments
from unshuffle.simulate import make_shuffled, shuffle_labels


def test_one_weight_is_the_ratio_of_sums():
    data = make_shuffled(50, 1, noise=0.5, rng=0)
    model = fit_quietly("sm", data.X, data.y, fit_intercept=False)
    # Two sums of fifty numbers.
    assert model.coef_[0] == pytest.approx(data.y.sum() / data.X.sum(), rel=1e-13)
    assert model.solution_.status is Status.EXACT


def test_one_weight_ignores_noise_of_mean_zero_and_subtracts_its_mean():
    data = make_shuffled(50, 1, noise=0.5, rng=0)
    plain = fit_quietly("sm", data.X, data.y, fit_intercept=False)
    adjusted = fit_quietly("sm", data.X, data.y, fit_intercept=False, noise=2.0)
    assert adjusted.coef_[0] == plain.coef_[0]
    shifted = fit_quietly("sm", data.X, data.y, fit_intercept=False, noise=[0.3, 1.0])
    expected = (data.y.mean() - 0.3) / data.X.mean()
    assert shifted.coef_[0] == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("noise", [None, 0.2], ids=["no noise", "noise"])
@pytest.mark.parametrize("seed", range(5))
def test_two_weights_meet_both_moments_with_both_roots(seed, noise):
    data = make_shuffled(200, 2, noise=noise or 0.0, features="normal", rng=seed)
    model = fit_quietly("sm", data.X, data.y, fit_intercept=False, noise=noise)
    candidates = model.solution_.candidates
    assert len(candidates) == 2
    variance = (noise or 0.0) ** 2
    for candidate in candidates:
        gaps = moment_gaps(data.X, data.y, candidate.weights, 2, (0.0, variance, 0.0))
        # Roots of a quadratic with coefficients of order one.
        np.testing.assert_allclose(gaps, 0, atol=1e-12 * np.mean(data.y**2))
    gap = [np.mean((np.sort(data.X @ c.weights) - np.sort(data.y)) ** 2) for c in candidates]
    assert gap[0] <= gap[1]  # least squares picks the root


@pytest.mark.parametrize("noise", [None, 0.1], ids=["no noise", "noise"])
def test_one_feature_and_an_intercept_meet_mean_and_variance(noise):
    data = make_shuffled(300, 1, noise=0.1, intercept=3.0, weights=[-2.0], rng=0)
    model = fit_quietly("sm", data.X, data.y, noise=noise)
    variance = data.y.var() - (noise or 0.0) ** 2
    # The closed form of the textbook: |w| = sd(Xw)/sd(x), the sign by the skewness.
    assert model.coef_[0] == pytest.approx(-np.sqrt(variance) / data.X.std(), rel=1e-10)
    assert model.intercept_ == pytest.approx(
        data.y.mean() - model.coef_[0] * data.X.mean(), rel=1e-10
    )


def test_two_weights_pivot_on_the_larger_mean():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.exponential(size=300) - 1.0, rng.exponential(size=300) + 5.0])
    X[:, 0] -= X[:, 0].mean()  # the first mean is nothing but rounding
    y = rng.permutation(X @ [1.0, 2.0])
    # Noiseless data meet their moments, so that a root is the truth itself.
    for columns, truth in (([0, 1], [1.0, 2.0]), ([1, 0], [2.0, 1.0])):
        model = fit_quietly("sm", X[:, columns], y, fit_intercept=False)
        np.testing.assert_allclose(model.coef_, truth, rtol=1e-10)


def test_without_a_real_root_the_nearest_weights_are_taken_and_said():
    # Far too much noise is claimed: no weights leave so little variance.
    data = make_shuffled(200, 2, noise=0.1, features="normal", rng=0)
    X, y, noise = data.X, data.y, 50.0
    with pytest.warns(UserWarning, match="No real weights meet the moment conditions"):
        model = ShuffledLinearRegression("sm", noise=noise, fit_intercept=False).fit(X, y)
    assert model.solution_.status is Status.UNMET_MOMENTS
    gaps = moment_gaps(X, y, model.coef_, 2, (0.0, noise**2, 0.0))
    assert gaps[0] == pytest.approx(0, abs=1e-12)
    # Nearest on the mean's line: a step along it either way only adds to the second moment.
    along = np.array([-X[:, 1].mean(), X[:, 0].mean()])
    for step in (1e-3, -1e-3):
        other = moment_gaps(X, y, model.coef_ + step * along, 2, (0.0, noise**2, 0.0))
        assert other[1] > gaps[1] > 0


def test_bag_means_are_weighted_least_squares_on_means():
    data = make_shuffled(100, 2, noise=0.3, bags=[10, 15, 20, 25, 30], intercept=1.0, rng=0)
    model = fit_quietly("means", data.X, data.y, data.groups)
    rows = np.array([data.X[data.groups == r].mean(axis=0) for r in range(5)])
    labels = np.array([data.y[data.groups == r].mean() for r in range(5)])
    design = np.column_stack([rows, np.ones(5)])
    size = np.diag([10.0, 15.0, 20.0, 25.0, 30.0])
    expected = np.linalg.solve(design.T @ size @ design, design.T @ size @ labels)
    # Five equations for three weights, means that differ by a tenth of their size.
    np.testing.assert_allclose(all_weights(model), expected, rtol=1e-9)


def test_bags_of_one_row_are_linked_data():
    data = make_shuffled(40, 2, noise=0.3, bags=40, intercept=1.0, rng=0)
    design = np.column_stack([data.X, np.ones(40)])
    expected = np.linalg.lstsq(design, data.linked_y, rcond=None)[0]
    for method in ("ls", "means"):
        model = fit_quietly(method, data.X, data.y, data.groups)
        np.testing.assert_allclose(all_weights(model), expected, rtol=1e-7)


def test_first_moment_with_ridge_solves_its_normal_equations():
    data = make_shuffled(90, 2, noise=0.1, bags=3, rng=0)
    l2 = 0.05
    model = fit_quietly(Moments(1), data.X, data.y, data.groups, l2=l2, fit_intercept=False)
    rows = np.array([data.X[data.groups == r].mean(axis=0) for r in range(3)])
    labels = np.array([data.y[data.groups == r].mean() for r in range(3)])
    # SM is measured in units of the root mean square label; the penalty is on plain weights.
    unit = np.mean(data.y**2)
    expected = np.linalg.solve(rows.T @ rows / unit + l2 * np.eye(2), rows.T @ labels / unit)
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-9)


@pytest.mark.parametrize("n_bags", [2, 4])
def test_noiseless_moments_of_bags_vanish_at_the_weights_found(n_bags):
    data = make_shuffled(400, 3, noise=0.0, bags=n_bags, rng=3)
    y = shuffle_labels(data.y, data.groups, rng=9)
    model = fit_quietly(Moments(3), data.X, y, data.groups, fit_intercept=False)
    for r in range(n_bags):
        part = data.groups == r
        gaps = moment_gaps(data.X[part], y[part], model.coef_, 3)
        # A sum of squares driven to 1e-18 leaves gaps of 1e-9 in units of the labels.
        np.testing.assert_allclose(gaps, 0, atol=1e-6 * np.mean(np.abs(y) ** 3))
