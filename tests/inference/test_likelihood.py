"""Properties of the likelihood: permanents, slopes, bins, and the posterior by enumeration."""

import warnings
from itertools import pairwise, permutations, product
from math import exp, log

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import enumerate_posterior, least_mean_distance, log_permanent
from targets import PLAIN, build_from_data, log_constant
from unshuffle import (
    Likelihood,
    ModelMisfitWarning,
    ShuffledLinearRegression,
    kernels,
    make_shuffled,
)
from unshuffle.core.solution import Status
from unshuffle.inference.importance import find_centre
from unshuffle.inference.proposals import flatten, normalise


def make_case(n, p, n_bags, seed, noise=0.3):
    """Return the target of simulated data."""
    return build_from_data(make_shuffled(n, p, noise=noise, bags=n_bags, rng=seed))[0]


def log_likelihood_by_permanents(target, w, log_sigma):
    """Evaluate the likelihood bag by bag with permanents over every permutation."""
    variance = exp(2 * log_sigma)
    value = (1.0 - target.n) * log_sigma
    z, y = w @ target.within_bag.rows, target.label_items()[0]
    for start, stop in pairwise(target.within_bag.offsets):
        gaps = y[start:stop][None, :] - z[start:stop][:, None]
        kernel = -(gaps**2) / (2 * variance)
        value += log_permanent(kernel) - sum(log(k) for k in range(1, stop - start + 1))
    return value


@pytest.mark.parametrize("log_sigma", [-4.0, -2.0, -0.5, 0.5])
@pytest.mark.parametrize("sizes", [1, 2, 3])
def test_small_bags_equal_the_sum_over_every_permutation(sizes, log_sigma):
    target = make_case(6, 2, sizes, seed=3)
    w = np.array([0.7, -0.4])
    value = target.likelihood(w, log_sigma)[0] - log_constant(target)
    assert_allclose(value, log_likelihood_by_permanents(target, w, log_sigma), rtol=1e-11)


def test_prior_slopes_match_differences():
    target = make_case(40, 3, 2, seed=1)
    rng = np.random.default_rng(4)
    w, log_sigma, step = rng.normal(size=3), -0.8, 1e-6
    _, gradient, slope = target.prior(w, log_sigma)
    for j in range(3):
        move = step * np.eye(3)[j]
        ends = [target.prior(w + s * move, log_sigma)[0] for s in (1, -1)]
        assert_allclose(gradient[j], (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-6)
    ends = [target.prior(w, log_sigma + s * step)[0] for s in (1, -1)]
    assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-6)


# Eight more cases are compared with every matching in test_sampler.py.
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))])
def test_posterior_agrees_with_enumeration_of_every_permutation(seed):
    """Mean and sd of the weight, against numerical integration of the exact posterior (n = 6)."""
    data = make_shuffled(6, 1, noise=0.3, bags=1, rng=seed)
    target, _, _, scaling = build_from_data(data)
    mean, sd = enumerate_posterior(target, log_likelihood_by_permanents)
    # One bag has neither curve nor offsets, and so few rows count in full.
    model = ShuffledLinearRegression(PLAIN, random_state=0).fit(data.X, data.y)
    assert model.solution_.stats["likelihood_power"] == 1.0
    posterior = model.posterior_
    unit = scaling.label_scale / scaling.scale[0]
    draws = posterior.draws[:, 0] / unit
    found = posterior.shares @ draws
    spread = np.sqrt(posterior.shares @ (draws - found) ** 2)
    # An effective sample size of several hundred: a mean is within 0.2 sd with false-alarm rate
    # below 1e-4, a sd within 15 %. A minor mode of a few per cent that no start reaches adds to it.
    assert abs(found - mean) < 0.25 * sd
    assert 0.7 < spread / sd < 1.3


def test_the_estimate_is_the_spatial_median_of_the_draws_of_the_intervals():
    """Clear and noisy data, one bag and several: in the middle, at no higher error."""
    errors = []
    for case, seed in product([(60, 2, 4, -5), (60, 2, 1, 15), (300, 3, 8, 10)], range(3)):
        n, d, n_bags, snr_db = case
        data = make_shuffled(n, d, snr_db=snr_db, bags=n_bags, rng=1000 + seed)
        model = ShuffledLinearRegression("likelihood", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data.X, data.y, data.groups)
        low, high = model.conf_int(0.6).T
        assert (low <= model.coef_).all() and (model.coef_ <= high).all()
        truth, mean = data.weights, model.posterior_.mean[:d]
        errors.append([np.linalg.norm(each - truth) for each in (model.coef_, mean)])
        answers = np.array([each.weights for each in model.solution_.candidates])
        shares = np.array([each.share for each in model.solution_.candidates])
        assert shares.sum() == pytest.approx(1.0, abs=0.02)
        # Competing answers are groups of the same draws: together they have their mean.
        spread = np.sqrt(model.posterior_.shares @ (model.posterior_.draws[:, :d] - mean) ** 2)
        assert (np.abs(shares @ answers[:, :d] - mean) < 0.1 * spread + 1e-9).all()
    mine, means = np.mean(errors, axis=0)
    assert mine < 1.05 * means


def test_a_posterior_that_cannot_be_explored_is_said():
    """Thirty columns in one bag at 10 dB, and one round of draws alone."""
    data = make_shuffled(60, 30, snr_db=10, rng=1000)
    options = Likelihood(n_starts=12, n_refined=4, n_draws=100, max_rounds=1)
    model = ShuffledLinearRegression(options, random_state=0)
    with pytest.warns(UserWarning, match="hard to sample"):
        model.fit(data.X, data.y)
    assert model.solution_.status is Status.THIN_POSTERIOR
    assert model.identified_ is False
    assert np.isfinite(model.solution_.stats["log_evidence"])


@pytest.mark.parametrize(
    "change",
    [
        dict(power=-1.0), dict(power=2.0), dict(power="half"), dict(n_starts=0), dict(n_draws=0),
        dict(n_draws=2.5), dict(share_low=0.0), dict(weight_scale=float("nan")),
        dict(min_rounds=31),
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused_by_name(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        Likelihood(**change)


def test_flattening_keeps_good_weights_and_mends_bad_ones():
    rng = np.random.default_rng(0)
    good = rng.normal(size=500) * 0.1
    assert_allclose(flatten(good, 40.0), normalise(good)[0])
    bad = np.append(np.zeros(500), 50.0)
    assert normalise(bad)[1] < 1.01
    assert 1.0 / (flatten(bad, 40.0) ** 2).sum() >= 40.0


def test_centre_has_the_least_mean_distance():
    rng = np.random.default_rng(0)
    for _ in range(5):
        x, shares = rng.normal(size=(8, 2)), rng.dirichlet(np.ones(8))
        found = float(shares @ np.sqrt(((x - find_centre(x, shares)) ** 2).sum(axis=1)))
        # No worse than the best of many points, up to the stopping rule.
        assert found <= least_mean_distance(x, shares) * (1 + 1e-4)


def test_centre_stays_with_the_majority():
    """Six tenths of the mass at one point hold the centre there, however far the rest is."""
    x = np.array([[1.0, 2.0], [-1e6, 0.0]])
    centre = find_centre(np.repeat(x, 2, axis=0), np.array([0.3, 0.3, 0.2, 0.2]))
    assert_allclose(centre, x[0], atol=1e6 * 1e-3)
    assert_allclose(find_centre(x[:1], np.ones(1)), x[0])


def test_bag_means_outlive_a_misfit():
    """Skewed noise in large bags that differ: a misfit, and yet the bag means decide.

    The noise is exponential with twice the signal's spread. At the power of the within-bag
    likelihood they would count 1 to 14 here and the error be three times theirs (measured on these
    seeds: 0.23 against 0.08, and 0.10 as it is).
    """
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(1000 + seed)
        X = rng.normal(size=(2000, 2)) + np.repeat(rng.normal(size=(20, 2)), 100, axis=0)
        y = X @ [1.0, -1.0] + 4.0 * rng.exponential(size=2000)
        groups = np.repeat(np.arange(20), 100)
        truth = np.linalg.lstsq(np.column_stack([X, np.ones(2000)]), y, rcond=None)[0][:2]
        both = []
        for method in ("likelihood", "means"):
            model = ShuffledLinearRegression(method, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the misfit is the point
                model.fit(X, y, groups)
            both.append(np.linalg.norm(model.coef_ - truth) / np.linalg.norm(truth))
        errors.append(both)
    mine, means = np.mean(errors, axis=0)
    assert mine < 1.5 * means


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("noiseless", dict(noise=0.0)),
        ("noise above the signal", dict(noise=10.0)),
        ("one bag", dict(bags=1)),
        ("bags of one row", dict(bags=40)),
        ("one column", dict(d=1)),
    ],
)
def test_extremes_end_in_a_finite_answer_with_intervals(name, change):
    data = make_shuffled(**(dict(n=40, d=2, noise=0.2, bags=4, rng=1) | change))
    model = ShuffledLinearRegression("likelihood", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on the fit, tested elsewhere
        model.fit(data.X, data.y, data.groups)
    intervals = model.conf_int()
    assert np.isfinite(model.coef_).all() and np.isfinite(intervals).all()
    assert (intervals[:, 0] <= intervals[:, 1]).all()
    assert model.noise_ >= 0
    if name == "noise above the signal":
        assert model.identified_ is False
    if name == "bags of one row":
        # Linked data: ordinary least squares.
        design = np.column_stack([data.X, np.ones(40)])
        ols = np.linalg.lstsq(design, data.y, rcond=None)[0]
        assert_allclose(model.coef_, ols[:2], rtol=1e-9)


def test_fewer_rows_than_weights_gives_wide_intervals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 6))
    model = ShuffledLinearRegression("likelihood", random_state=0)
    with pytest.warns(UserWarning):
        model.fit(X, X @ np.ones(6))
    assert model.identified_ is False
    assert np.isfinite(model.conf_int()).all()


def test_constant_label_says_that_nothing_is_known():
    rng = np.random.default_rng(0)
    model = ShuffledLinearRegression("likelihood", random_state=0)
    with pytest.warns(UserWarning):
        model.fit(rng.normal(size=(20, 2)), np.full(20, 3.0))
    assert model.intercept_ == pytest.approx(3.0)
    assert not model.coef_.any()
    assert model.identified_ is False
    assert (np.ptp(model.conf_int(), axis=1) > 1.0).all()  # as wide as the prior


def test_constant_label_without_an_intercept_is_informative():
    rng = np.random.default_rng(0)
    X = 1.0 + 0.1 * rng.normal(size=(50, 1))
    model = ShuffledLinearRegression("likelihood", fit_intercept=False, random_state=0)
    with pytest.warns(UserWarning):
        model.fit(X, np.full(50, 3.0))
    # The mean alone says w = 3 / x̄.
    assert model.coef_[0] == pytest.approx(3.0, rel=0.1)


def test_noise_with_a_mean_moves_the_intercept():
    data = make_shuffled(200, 2, noise=0.1, bags=10, rng=0)
    model = ShuffledLinearRegression("likelihood", noise=[5.0, 25.01], random_state=0)
    model.fit(data.X, data.y + 5.0, data.groups)
    assert model.intercept_ == pytest.approx(0.0, abs=0.2)
    assert_allclose(model.coef_, data.weights, atol=0.1)


def test_linked_rows_get_the_intervals_of_ordinary_regression():
    """Bags of one row are exact: no weakening, so the widths are those of OLS with known noise."""
    data = make_shuffled(200, 2, noise=0.5, bags=200, rng=3)
    model = ShuffledLinearRegression("likelihood", noise=0.5, random_state=0)
    with pytest.warns(UserWarning, match="linked pairs"):
        model.fit(data.X, data.y, data.groups)
    design = np.column_stack([data.X, np.ones(200)])
    sd = 0.5 * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))[:2]
    # An effective sample size of a thousand: quantiles at 2.5 % are within 10 % of their distance.
    assert_allclose(np.ptp(model.conf_int(), axis=1), 2 * 1.96 * sd, rtol=0.1)


def test_match_probabilities_of_long_bags_are_not_inflated():
    """One bag of 1500 rows with noise above the signal: hardly any match can be known."""
    data = make_shuffled(1500, 1, noise=3.0, weights=[1.0], rng=0)
    model = ShuffledLinearRegression("likelihood", noise=3.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        match = model.fit(data.X, data.y).match(data.X, data.y)
    # A uniform match has probability 1/1500, a rank match a little more; a window of 512 that is
    # normalised to itself gives 1/512 and more.
    assert 1 / 1500 < match.probability.mean() < 2 / 1500


def test_known_noise_is_used_and_reported():
    data = make_shuffled(60, 2, noise=0.2, bags=6, rng=0)
    model = ShuffledLinearRegression("likelihood", noise=0.2, random_state=0)
    model.fit(data.X, data.y, data.groups)
    assert model.noise_ == 0.2
    assert np.allclose(model.posterior_.sigma, 0.2)
    assert "given" in str(model.summary())


def test_penalties_are_refused_with_the_way_out():
    data = make_shuffled(30, 2, rng=0)
    with pytest.raises(ValueError, match="method 'ls'"):
        ShuffledLinearRegression("likelihood", l2=0.1).fit(data.X, data.y)


@pytest.mark.slow
def test_intervals_cover_at_their_level():
    """n = 60, d = 2, one bag of exponential features, 15 dB: at least 90 % of 200 fits.

    At a true coverage of 95 % and 400 coefficients (pairs correlated) the standard error is 1.5
    points, so that 90 % is missed by chance less than once in a thousand runs. The power of one
    bag is that of real tables, so more than 99 % are covered on data that obey the model. Intervals
    must still be narrower than ±|w|.
    """
    hits, widths = [], []
    for seed in range(200):
        data = make_shuffled(60, 2, snr_db=15, rng=1000 + seed)
        model = ShuffledLinearRegression("likelihood", random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelMisfitWarning)
            low, high = model.fit(data.X, data.y).conf_int().T
        hits.append((low <= data.weights) & (data.weights <= high))
        widths.append(np.mean(high - low) / np.linalg.norm(data.weights))
    assert np.mean(hits) >= 0.90
    assert np.mean(widths) < 2.0


@pytest.mark.slow
def test_match_probabilities_are_calibrated():
    """Exponential features, d = 3, six bags of 20, 20 dB: ten bins, mean gap at most 0.05."""
    stated, right = [], []
    for seed in range(40):
        data = make_shuffled(120, 3, snr_db=20, bags=6, rng=1000 + seed)
        model = ShuffledLinearRegression("likelihood", random_state=seed)
        match = model.fit(data.X, data.y, data.groups).match(data.X, data.y, data.groups)
        stated.append(match.probability)
        right.append(data.y[match.order] == data.linked_y)
    stated, right = np.concatenate(stated), np.concatenate(right)
    bins = np.minimum((stated * 10).astype(int), 9)
    gaps = [
        abs(stated[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean()
        for b in range(10)
        if (bins == b).any()
    ]
    assert sum(gaps) <= 0.05


def test_matching_without_a_posterior_gives_no_probability():
    data = make_shuffled(30, 2, noise=0.01, bags=3, rng=0)
    model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, data.groups)
    match = model.match(data.X, data.y, data.groups)
    assert match.probability is None
    assert sorted(match.order) == list(range(30))


def test_matching_noiseless_data_finds_every_pair():
    data = make_shuffled(60, 2, noise=1e-6, bags=3, rng=0)
    model = ShuffledLinearRegression("likelihood", random_state=0)
    model.fit(data.X, data.y, data.groups)
    match = model.match(data.X, data.y, data.groups)
    # 0.1 % of sd(y) is the least noise the posterior admits: near neighbours may be swapped.
    assert (data.y[match.order] == data.linked_y).mean() > 0.9
    assert match.probability.mean() > 0.9


def test_swapping_agrees_with_enumeration():
    """Match probabilities at known weights and noise, against every permutation of five rows."""
    rng = np.random.default_rng(3)
    z, y = rng.normal(size=5), np.sort(rng.normal(size=5))
    variance = 0.3
    weights, exact = 0.0, np.zeros((5, 5))
    for p in permutations(range(5)):
        mass = np.exp(-((y[list(p)] - z) ** 2).sum() / (2 * variance))
        weights += mass
        exact[np.arange(5), list(p)] += mass
    counts = np.zeros((5, 5))
    uniforms = rng.random((4000, 5, 2))
    order = np.argsort(z)
    totals = np.zeros(5)
    first = np.zeros(5, np.int64)
    kinds = np.arange(5)
    kernels.swap_counts(z, y, kinds, order, first, variance, 2.0, uniforms, 200, counts, totals)
    found = counts / totals[:, None]
    # 4000 sweeps with correlation time of a few: standard error about 0.01 in each entry.
    assert_allclose(found, exact / weights, atol=0.05)
