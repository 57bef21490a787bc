"""The paper's theorems, on simulated data with fixed seeds and stated false-alarm rates.

A false-alarm rate is the chance that a correct library fails the test with a fresh seed.
"""

import numpy as np
import pytest

import oracles
from registry_examples import fit_quietly
from unshuffle.data.bags import make_bags
from unshuffle.objectives.losses import Moments
from unshuffle.objectives.noise import GaussianNoise, noise_from_calibration
from unshuffle.objectives.penalties import no_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.simulate import make_shuffled, shuffle_labels


@pytest.mark.parametrize(
    ("mu", "sx", "w", "sigma"), [(1.0, 1.0, 1.0, 1.0), (0.0, 2.0, -0.5, 1.0), (-3.0, 1.0, 2.0, 4.0)]
)
def test_least_squares_reaches_the_amplified_limit_of_theorem_1(mu, sx, w, sigma):
    rng = np.random.default_rng(0)
    n = 10**6
    x = rng.normal(mu, sx, n)
    y = rng.permutation(w * x + rng.normal(0, sigma, n))
    model = fit_quietly("ls", x[:, None], y, fit_intercept=False)
    limit = w * (mu**2 + sx * np.sqrt(sx**2 + sigma**2 / w**2)) / (mu**2 + sx**2)
    # The sampling error at n = 10⁶ is below 0.3 % in all three cases: 1 % is over three of its
    # standard deviations, a false-alarm rate below 0.3 % each. With mean zero the sign is open.
    found = model.coef_[0] if mu else abs(model.coef_[0]) * np.sign(w)
    assert found == pytest.approx(limit, rel=0.01)


def test_one_moment_is_unbiased_as_theorem_2_says():
    rng = np.random.default_rng(1)
    n, w, sigma = 30, 1.5, 2.0
    X = rng.normal(1, 1, (n, 1))
    errors = [
        fit_quietly(
            "sm", X, rng.permutation(X[:, 0] * w + rng.normal(0, sigma, n)), fit_intercept=False
        ).coef_[0]
        - w
        for _ in range(1000)
    ]
    # Given X the estimate is Gaussian with sd σ/(√n |x̄|): both moments are tested exactly.
    sd = sigma / (np.sqrt(n) * abs(X.mean()))
    # 4 standard errors of the mean: false-alarm rate 6e-5.
    assert abs(np.mean(errors)) < 4 * sd / np.sqrt(1000)
    # The sample sd of 1000 has a relative sd of 1/√2000: 4 of them, false-alarm rate 6e-5.
    assert np.std(errors) == pytest.approx(sd, rel=4 / np.sqrt(2000))


def test_least_squares_is_biased_where_one_moment_is_not():
    # The same setting as above must catch LS, or the test of Theorem 2 could not fail.
    rng = np.random.default_rng(1)
    n, w, sigma = 30, 1.5, 2.0
    X = rng.normal(1, 1, (n, 1))
    errors = [
        fit_quietly(
            "ls", X, rng.permutation(X[:, 0] * w + rng.normal(0, sigma, n)), fit_intercept=False
        ).coef_[0]
        - w
        for _ in range(200)
    ]
    assert np.mean(errors) > 4 * np.std(errors) / np.sqrt(200)


def loss_at_truth(n, is_adjusted, rng):
    """Return the moment loss at the true weights for fresh data of n rows."""
    w, sigma = np.array([1.0, -1.0, 0.5]), 0.7
    X = rng.normal(1, 1, (n, 3))
    y = X @ w + rng.normal(0, sigma, n)
    noise = GaussianNoise(sigma) if is_adjusted else None
    return Problem(make_bags(X, y), Moments(3), noise, no_penalty(3))(w)[0]


def test_adjusted_moment_loss_at_the_truth_falls_like_one_over_n():
    rng = np.random.default_rng(2)
    means = {
        (n, adjusted): np.mean([loss_at_truth(n, adjusted, rng) for _ in range(300)])
        for n in (100, 10_000)
        for adjusted in (True, False)
    }
    # A loss is a sum of squares of near-Gaussian gaps, heaviest in one: its relative sd is below
    # 2.5, so that a mean of 300 is within 15 % and the ratio within 21 %. Bounds at a factor of
    # two are over three standard deviations: a false-alarm rate below 0.1 %.
    assert 50 < means[100, True] / means[10_000, True] < 200
    # Without the adjustment the loss has a floor: E[e²]² f(2) = 0.49²/2 and more.
    assert means[10_000, False] > 0.49**2 / 2
    assert means[100, False] / means[10_000, False] < 3


def median_error(n, make, n_trials, **options):
    """Return the median relative error over trials of fresh data."""
    errors = []
    for trial in range(n_trials):
        rng = np.random.default_rng([n, trial])
        X, y, groups, w = make(n, rng)
        model = fit_quietly("sm", X, y, groups, fit_intercept=False, **options)
        errors.append(np.linalg.norm(model.coef_ - w) / np.linalg.norm(w))
    return np.median(errors)


def two_skewed_columns(n, rng):
    w = np.array([1.0, -1.0])
    X = rng.exponential(size=(n, 2)) * [1.0, 2.0]
    return X, rng.permutation(X @ w + rng.normal(0, 1.0, n)), None, w


def four_columns_in_bags(n, rng):
    """Four columns in six bags whose means differ by a standard deviation."""
    w = np.array([1.0, -1.0, 0.5, 2.0])
    groups = np.repeat(np.arange(6), n // 6)
    centres = 1 + np.random.default_rng(0).standard_normal((6, 4))
    X = centres[groups] + rng.normal(0, 1, (len(groups), 4))
    return X, shuffle_labels(X @ w + rng.normal(0, 1.0, len(X)), groups, rng), groups, w


# Errors fall like 1/√n: a hundred times the rows bring a factor of ten, and a median of twelve
# trials is good to a factor of 1.5 either way. Four is out of reach of that by 2 standard
# deviations of both medians together on the log scale: false-alarm rate 1 %. Without the
# adjustment the error has a floor, and the factor stays below two.
FALLS = 4


@pytest.mark.parametrize("make", [two_skewed_columns, four_columns_in_bags])
def test_adjusted_moments_converge_to_the_truth(make):
    small, large = (median_error(n, make, 12, noise=1.0) for n in (600, 60_000))
    assert small / large > FALLS
    # σ/|w| is at most 0.7, and 60 000 rows leave a few times 0.7/√60 000 of it.
    assert large < 0.05


def test_moments_without_adjustment_keep_a_floor():
    small, large = (median_error(n, two_skewed_columns, 12) for n in (600, 60_000))
    assert small / large < FALLS
    assert large > 0.1


def test_noise_given_as_sd_moments_or_sample_agree():
    rng = np.random.default_rng(5)
    X, y, _, _ = two_skewed_columns(50_000, rng)
    sd = fit_quietly("sm", X, y, fit_intercept=False, noise=1.0).coef_
    given = [oracles.gaussian_moment(k, 1.0) for k in (1, 2, 3, 4)]
    moments = fit_quietly("sm", X, y, fit_intercept=False, noise=given).coef_
    np.testing.assert_allclose(moments, sd, rtol=1e-6)
    sample = noise_from_calibration(5.0 + rng.normal(0, 1.0, 50_000))
    measured = fit_quietly("sm", X, y, fit_intercept=False, noise=sample).coef_
    # The variance of 50 000 labels is known to 0.6 %, and the weights move by as much.
    np.testing.assert_allclose(measured, sd, rtol=0.05)


# The gradients and values of both losses with atoms are compared with their definitions.
@pytest.mark.parametrize("method", ["ls", pytest.param("emd", marks=pytest.mark.slow)])
def test_noise_atoms_remove_the_amplification(method):
    plain, adjusted = [], []
    for trial in range(10):
        rng = np.random.default_rng(trial)
        x = rng.normal(1, 1, 1000)
        y = rng.permutation(x + rng.normal(0, 1.0, 1000))
        options = {"fit_intercept": False}
        plain.append(fit_quietly(method, x[:, None], y, **options).coef_[0])
        adjusted.append(fit_quietly(method, x[:, None], y, noise=1.0, **options).coef_[0])
    # Theorem 1: the plain limit is (1 + √2)/2 = 1.207. The estimates have an sd near 0.03, their
    # means of ten 0.01; 0.05 is five of these, a false-alarm rate below 1e-5.
    assert np.mean(adjusted) == pytest.approx(1.0, abs=0.05)
    assert np.mean(plain) > 1.1


@pytest.mark.slow
@pytest.mark.parametrize("n_bags", [16, 32])
def test_error_falls_with_the_number_of_bags(n_bags):
    # Figure 3: n fixed, more bags, less error; d = 4.
    def mean_error(bags):
        errors = []
        for seed in range(40):
            data = make_shuffled(
                1200, 4, noise=0.5, bags=bags, weights=np.ones(4), features="normal", rng=seed
            )
            model = fit_quietly("sm", data.X, data.y, data.groups, fit_intercept=False)
            errors.append(np.linalg.norm(model.coef_ - 1.0) / 2.0)
        return np.mean(errors), np.std(errors) / np.sqrt(40)

    (one, one_se), (many, many_se) = mean_error(1), mean_error(n_bags)
    # Three standard errors of the difference: false-alarm rate 0.1 % if they were equal.
    assert one - many > 3 * np.hypot(one_se, many_se)


@pytest.mark.slow
@pytest.mark.parametrize("make", [two_skewed_columns, four_columns_in_bags])
def test_adjusted_moments_converge_at_the_root_of_n(make):
    sizes = np.array([600, 6_000, 60_000, 600_000])
    errors = [median_error(int(n), make, 30, noise=1.0) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    # Medians of thirty have a relative sd near 20 %, so that the slope over three decades has an
    # sd of 0.04: 0.15 is over three of these, a false-alarm rate below 0.1 %.
    assert slope == pytest.approx(-0.5, abs=0.15)


@pytest.mark.slow
def test_bag_means_are_unbiased():
    rng = np.random.default_rng(3)
    w, n_bags = np.array([1.0, -2.0]), 5
    groups = np.repeat(np.arange(n_bags), 20)
    X = rng.standard_normal((n_bags, 2))[groups] + rng.normal(0, 1, (100, 2))
    found = []
    for _ in range(2000):
        y = shuffle_labels(X @ w + rng.normal(0, 1, 100), groups, rng)
        found.append(fit_quietly("means", X, y, groups).coef_)
    # Two means of 2000, each within 4.2 standard errors: false-alarm rate 5e-5 together.
    gap = np.abs(np.mean(found, axis=0) - w)
    assert np.all(gap < 4.2 * np.std(found, axis=0) / np.sqrt(2000))
