"""Properties of the posterior's parts: slopes, bag means, within-bag likelihood, curved means."""

from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import central_differences
from targets import PLAIN, build_from_bags, build_from_data
from unshuffle import Bag, Histogram, Likelihood, ShuffledLinearRegression, make_shuffled
from unshuffle.core.mean_function import TERMS
from unshuffle.data.bags import join_bags, make_bags
from unshuffle.model.bag_means import CONTEXTS, DECLARED_OFFSETS, OFFSETS, BagMeans
from unshuffle.model.kept_bags import KeptWithinBag
from unshuffle.model.points import predict
from unshuffle.model.within_bag import PairedWithinBag
from unshuffle.objectives.noise import GaussianNoise, StudentNoise

OPEN = Likelihood()
STUDENT = StudentNoise(0.4, 5.0)


def make_parts(sizes, seed=2):
    """Return the rows and linked labels of bags, a little offset against each other."""
    rng = np.random.default_rng(seed)
    parts = []
    for n in sizes:
        X = rng.exponential(size=(n, 2))
        y = X @ [1.0, -0.6] + 0.2 * rng.normal() + 0.4 * rng.normal(size=n)
        parts.append((X, y))
    return parts


def count_labels(y):
    """Return labels as a histogram with open ends."""
    inner = np.linspace(y.min(), y.max(), 7)[1:-1]
    edges = np.concatenate([[-np.inf], inner, [np.inf]])
    return Histogram(edges, np.histogram(y, np.concatenate([[-99.0], inner, [99.0]]))[0])


def make_kind(kind, sizes=(12, 15, 9)):
    """Return bags of one kind."""
    parts = make_parts(sizes)
    if kind == "histogram":
        return join_bags([Bag(X, count_labels(y)) for X, y in parts])
    if kind == "subset":
        return join_bags([Bag(X, y[: len(y) - 3]) for X, y in parts], same_individuals=True)
    if kind == "draws":
        return join_bags([Bag(X, y[: len(y) - 3]) for X, y in parts], same_individuals=False)
    return join_bags([Bag(X, y) for X, y in parts])


# Kind, labels and rows of bags, noise: small plain bags have exact permanents; a hundred rows are
# laid on a grid.
KINDS = {
    "small plain bags": ("plain", (5, 8, 10), None),
    "shaped noise": ("plain", (12, 15, 9), STUDENT),
    "shaped noise in small bags": ("plain", (5, 8, 7), STUDENT),
    "histogram": ("histogram", (12, 15, 9), None),
    "histogram of many rows": ("histogram", (12, 100), None),
    "subset": ("subset", (12, 15, 9), None),
    "small subset": ("subset", (9, 10, 7), None),
    "draws": ("draws", (12, 15, 9), None),
}


def make_target_of_kind(kind, has_intercept=True):
    """Return a target with curve and offsets at a power below one."""
    name, sizes, noise = KINDS[kind]
    target = build_from_bags(make_kind(name, sizes), OPEN, has_intercept, noise)[0]
    return replace(target.with_effects(0.3, None, 0.4), power=0.6)


def place(target, w=(0.5, -0.4), log_sigma=-0.9, curve=0.1, level=0.05):
    """Return the coordinates of a point at which nothing is stationary."""
    theta = target.join(np.array(w), log_sigma)
    theta[target.term_places] = curve
    if target.has_level:
        theta[-1] = level
    return theta


@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_that_of_the_value(kind, has_intercept):
    target = make_target_of_kind(kind, has_intercept)
    is_shaped = KINDS[kind][2] is not None
    assert target.dim == 2 + len(TERMS) + (not is_shaped) + target.has_level
    assert target.has_level is (has_intercept and kind != "small plain bags")
    theta = place(target)
    gradient = target(theta)[1]
    seen = central_differences(lambda at: target(at)[0], theta, 1e-6)
    # Values to 1e-9 nats over the step, which seldom meets a kink of a table.
    assert_allclose(gradient, seen, atol=1e-4 * np.linalg.norm(gradient))


@pytest.mark.parametrize("n", [30, 300])
def test_gradient_of_large_plain_bags_is_that_of_the_value(n):
    """Scaled permanents and grids stop within 1e-4 nats: a hundredth of a nat per posterior sd."""
    data = make_shuffled(n, 2, noise=0.4, bags=3, rng=1)
    target = replace(build_from_data(data, OPEN)[0].with_effects(0.3, None, 0.4), power=0.6)
    theta = place(target)
    unit = np.full(target.dim, exp(-0.9) / sqrt(n))
    gradient = target(theta)[1] * unit
    seen = central_differences(lambda at: target(theta + at * unit)[0], np.zeros(target.dim), 0.01)
    assert np.abs(gradient - seen).max() < max(1e-3 * np.linalg.norm(gradient), 0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_add_up_to_the_value(kind):
    target = make_target_of_kind(kind)
    theta = place(target)
    within, means, prior = target.parts(theta[None])[0]
    total = target.mix(within, means) + prior
    alone = target.evaluate_tempered(theta[None])[0] + target.evaluate_rest(theta)[0]
    assert total == pytest.approx(alone, rel=1e-12)
    # Without slopes a coupling ends a few thousandths of a nat earlier: see `WithinBag.tolerance`.
    assert total == pytest.approx(target(theta)[0], abs=5e-3)
    if target.log_sigma is None:
        theta[target.p] = 2.0  # outside the prior's support
        assert target.parts(theta[None])[0, 0] < -1e299


# ---- bag means -----------------------------------------------------------------------------------

GAPS = np.array([0.3, -0.2, 0.5, 0.1, -0.6, 0.2])
VARIANCES, LOG_SIGMA = np.array([0.8, 1.1, 0.6, 0.0, 0.0, 0.9]), -0.4
M = np.array([4.0, 9.0, 6.0, 1.0, 1.0, 12.0])
ROWS = np.array([[0.5, -0.2], [0.1, 0.4], [-0.3, 0.2], [1.0, 1.5], [-0.8, 0.1], [-0.2, -0.5]])
MEANS_OPTIONS = [
    {},
    {"offset_share": 0.3},
    {"offset_share": 1.0, "context_share": 0.4},
    {"offset_share": 0.2, "context_share": 0.4},
    {"offset_sd": 0.4, "context_share": 0.3},
]


def make_means(has_intercept=True, **options):
    """Return the distribution of the mean gaps of six bags, two of one row."""
    fixed, factors = np.array([[0.01, 0.0, 0.03, 0, 0, 0], [0.1, 0.0, 0.2, 0, 0, 0]])
    return BagMeans(M, fixed, factors, has_intercept, ROWS, **options)


def density_by_matrices(means, gaps, variances, log_sigma):
    """Return the log density by dense covariance matrices, one for every pair of sizes.

    √2π is left out once for every gap, and once put back for an intercept.
    """
    share, context = means.offset_share, means.context_share
    has_effect = M > 1
    offsets = {means.offset_sd: 1.0}
    if means.offset_sd is None:
        sizes = DECLARED_OFFSETS if share == 1.0 else OFFSETS
        prior = np.where(sizes > 0, share / (sizes > 0).sum(), 1.0 - share)
        offsets = dict(zip(sizes * exp(log_sigma), prior, strict=True))
    contexts = dict.fromkeys(CONTEXTS, context / (len(CONTEXTS) - 1)) | {0.0: 1.0 - context}
    densities = {}
    for sd, offset_prior in offsets.items():
        for tau, context_prior in contexts.items():
            rows = ROWS * has_effect[:, None]
            covariance = tau**2 * rows @ rows.T + np.diag(
                exp(2 * log_sigma) / M + means.fixed + means.factors * variances
                + sd**2 * has_effect
            )  # fmt: skip
            inverse, ones = np.linalg.inv(covariance), np.ones(len(M))
            value, square = -0.5 * np.linalg.slogdet(covariance)[1], gaps @ inverse @ gaps
            if means.has_intercept:
                total = ones @ inverse @ ones
                value -= 0.5 * log(total)
                square -= (ones @ inverse @ gaps) ** 2 / total
            if offset_prior * context_prior > 0:
                densities[sd, tau] = exp(value - 0.5 * square) * offset_prior * context_prior
    return densities


@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("options", MEANS_OPTIONS, ids=str)
def test_bag_means_have_the_density_of_dense_matrices(options, has_intercept):
    means = make_means(has_intercept, **options)
    value, by_gap, by_variance, slope = means.evaluate(GAPS, VARIANCES, LOG_SIGMA)
    densities = density_by_matrices(means, GAPS, VARIANCES, LOG_SIGMA)
    total = sum(densities.values())
    assert value == pytest.approx(log(total), abs=1e-10)
    many = means.evaluate_many(GAPS[None], VARIANCES[None], np.array([LOG_SIGMA]))
    assert many[0] == pytest.approx(log(total), abs=1e-10)
    sds, shares = means.size_shares(GAPS, VARIANCES, LOG_SIGMA)
    for sd, share in zip(sds, shares, strict=True):
        own = sum(mass for (each, _), mass in densities.items() if np.isclose(each, sd))
        assert share == pytest.approx(own / total, abs=1e-10)

    def value_at(at):
        return means.evaluate(at[:6], at[6:12], at[12])[0]

    at = np.concatenate([GAPS, VARIANCES, [LOG_SIGMA]])
    # Second differences of a smooth function: 1e-9.
    seen = central_differences(value_at, at, 1e-5)
    assert_allclose(np.concatenate([by_gap, by_variance, [slope]]), seen, atol=1e-7)


@pytest.mark.parametrize("has_intercept", [True, False])
def test_effects_are_drawn_from_their_conditional_distribution(has_intercept):
    """Against the formulas of the multivariate normal, averaged over sizes."""
    means = make_means(has_intercept, offset_share=0.3, context_share=0.4)
    densities = density_by_matrices(means, GAPS, VARIANCES, LOG_SIGMA)
    total, n = sum(densities.values()), 20_000
    many = [np.tile(values, (n, 1)) for values in (GAPS, VARIANCES)]
    drawn = means.draw_effects(*many, np.full(n, LOG_SIGMA), np.random.default_rng(0))
    rows = ROWS * (M > 1)[:, None]
    noise = exp(2 * LOG_SIGMA) / M + means.fixed + means.factors * VARIANCES
    # The intercept has a flat prior: an sd of a thousand stands for it.
    level_sd = 1e3 if has_intercept else 0.0
    expected = np.zeros(9)
    for (sd, tau), mass in densities.items():
        prior = np.diag([level_sd**2, tau**2, tau**2, *(sd**2 * (M > 1))])
        design = np.column_stack([np.ones(6), rows, np.eye(6)])
        covariance = design @ prior @ design.T + np.diag(noise)
        expected += mass / total * prior @ design.T @ np.linalg.solve(covariance, GAPS)
    found = np.column_stack([drawn.levels, drawn.contexts, drawn.offsets])
    # Five standard errors: one false alarm in 10⁵.
    assert np.all(np.abs(found.mean(axis=0) - expected) <= 5 * found.std(axis=0) / sqrt(n) + 1e-6)
    seen = {(sd, tau): mass / total for (sd, tau), mass in densities.items()}
    without = sum(mass for (sd, _), mass in seen.items() if sd == 0.0)
    assert (drawn.offset_sds == 0.0).mean() == pytest.approx(without, abs=0.02)


def test_the_intercept_is_integrated_out():
    """Against a sum over a fine grid of levels; √2π is left out once for every gap but one."""
    means = make_means()
    variance = exp(2 * LOG_SIGMA) / M + means.fixed + means.factors * VARIANCES
    levels = np.linspace(-8.0, 8.0, 20_001)
    gaps = GAPS - levels[:, None]
    density = np.exp(-0.5 * (gaps**2 / variance).sum(axis=1)).sum() * (levels[1] - levels[0])
    expected = log(density / sqrt(2 * np.pi)) - 0.5 * np.log(variance).sum()
    assert means.evaluate(GAPS, VARIANCES, LOG_SIGMA)[0] == pytest.approx(expected, abs=1e-9)


# ---- within-bag likelihood -----------------------------------------------------------------------

# Student's t with so many degrees of freedom is Gaussian, but takes the general way.
GAUSSIAN, SAME = GaussianNoise(0.4), StudentNoise(0.4, 1e7)


@pytest.mark.parametrize("sizes", [(60,), (20, 25, 15), (6,) * 10])
def test_two_ways_to_the_within_bag_likelihood_agree_up_to_a_constant(sizes):
    bags = join_bags([Bag(X, y) for X, y in make_parts(sizes)])
    first, second = (build_from_bags(bags, OPEN, False, noise)[0] for noise in (GAUSSIAN, SAME))
    assert isinstance(first.within_bag, KeptWithinBag)
    assert isinstance(second.within_bag, PairedWithinBag)
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(8):
        w, curve = 0.7 * rng.normal(size=2), 0.1 * rng.normal(size=len(first.terms))
        values = [t.likelihood(w, t.log_sigma, curve)[0] for t in (first, second)]
        gaps.append(values[0] - values[1])
    # Both correct entropic transport alike: measured 2e-3, and 0.7 where one takes a grid (a bag of
    # 60). Tables of a density end at 40 sds, beyond which larger weights would come.
    assert np.ptp(gaps) < (1.0 if sizes == (60,) else 0.02)


def test_two_ways_to_the_within_bag_likelihood_give_one_answer():
    data = make_shuffled(60, 2, noise=0.4, bags=3, rng=4)
    found = []
    for noise in (GAUSSIAN, SAME):
        model = ShuffledLinearRegression(OPEN, noise=noise, random_state=0)
        posterior = model.fit(data.X, data.y, data.groups).posterior_
        mean = posterior.mean[:2]
        sd = np.sqrt(posterior.shares @ (posterior.draws[:, :2] - mean) ** 2)
        found.append((mean, sd, model.coef_))
    (mean, sd, estimate), (other, spread, same) = found
    # An effective sample size of 300 on either side: 0.08 sd, four times over.
    assert_allclose((mean - other) / sd, 0.0, atol=0.33)
    assert_allclose((estimate - same) / sd, 0.0, atol=0.33)
    assert_allclose(sd / spread, 1.0, atol=0.25)


# ---- curved mean functions -----------------------------------------------------------------------


@pytest.mark.parametrize("has_intercept", [True, False])
def test_slopes_of_a_curved_mean_function_are_those_of_ordinary_regression(has_intercept):
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(100_000, 3)) @ np.array([[1.0, 0.5, 0], [0, 1.0, 0], [0.2, 0, 1.0]])
    bags = make_bags(X, rng.normal(size=100_000), np.arange(100_000) % 2)
    target = build_from_bags(bags, OPEN, has_intercept)[0]
    theta = target.join(np.array([0.6, -0.5, 0.3]), -1.0)
    theta[target.term_places] = 0.4 * 0.5 ** np.arange(len(TERMS))
    design = target.within_bag.rows.T
    if has_intercept:
        design = np.column_stack([design, np.ones(len(design))])
    means = predict(target.within_bag.rows, target.read_points(theta[None]), 0)
    expected = np.linalg.lstsq(design, means, rcond=None)[0][:3]
    found = target.slopes(theta[None])[0]
    assert_allclose(found, expected, atol=1e-9)
    assert np.abs(found - theta[:3]).max() > 0.1  # the curve matters
    # Labels around the means have these slopes up to their noise: five standard errors.
    labels = means + exp(-1.0) * rng.normal(size=len(means))
    seen = np.linalg.lstsq(design, labels, rcond=None)[0][:3]
    assert_allclose(seen, found, atol=5 * 1.6 * exp(-1.0) / sqrt(len(means)))


def test_a_closed_curve_leaves_the_weights_as_they_are():
    data = make_shuffled(20, 2, bags=2, rng=0)
    target = build_from_data(data, PLAIN)[0]
    assert not target.terms and target.dim == 3
    theta = np.array([[0.3, -0.2, -1.0]])
    assert_allclose(target.slopes(theta), theta[:, :2])
    assert not build_from_data(make_shuffled(20, 2, rng=0), OPEN)[0].terms  # one bag
