"""Coupling kernels: Sinkhorn, permanents, binning, and their slopes."""

from itertools import pairwise, permutations
from math import lgamma

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bands import (
    correct,
    scale_alone,
    scale_beside,
    solve_bag,
    solve_bags,
    spread_on_nodes,
)
from oracles import central_differences, couple_densely, log_permanent
from targets import PLAIN, build_from_data, evaluate_bags, make_parameters
from unshuffle import make_shuffled

SCALERS = {"alone": scale_alone, "side by side": lambda *args: scale_beside([args])[0]}


def make_samples(n, noise, variance, seed):
    """Return ascending predictions and labels in units of the sd that the kernels assume."""
    rng = np.random.default_rng(seed)
    z = np.sort(rng.exponential(size=n))
    y = np.sort(z + noise * rng.normal(size=n))
    return z / np.sqrt(variance), y / np.sqrt(variance)


def couple(how, z, y):
    """Return the kernel's dual value, potentials of z and y, and its coupling as a matrix."""
    return SCALERS[how](z, np.ones(len(z)), y, np.ones(len(y)))


def approximate(z, y, n_passes=5000):
    """Return log(perm/m!) by dense Sinkhorn and the correction."""
    coupled, dual = couple_densely(z, y, 1.0, n_passes)
    rows, columns = (coupled**2).sum(axis=1), (coupled**2).sum(axis=0)
    return dual + 0.5 * (correct(rows).sum() + correct(columns).sum()) - lgamma(len(z) + 1.0)


def log_kernel(z, y):
    return -((y[None, :] - z[:, None]) ** 2) / 2


# --- values ------------------------------------------------------------


@pytest.mark.parametrize("way", ["points", "large points"])
@pytest.mark.parametrize("variance", [0.01, 0.1, 1.0])
def test_kernel_equals_dense_sinkhorn_plus_its_correction(variance, way):
    z, y = make_samples(25, 0.3, variance, seed=1)
    # The dual is stationary, the correction is not.
    assert_allclose(solve_bag(way, z, y)[0], approximate(z, y), atol=1e-4)


@pytest.mark.parametrize("how", SCALERS)
@pytest.mark.parametrize("variance", [0.01, 0.1, 1.0])
def test_scaling_equals_dense_sinkhorn(variance, how):
    z, y = make_samples(25, 0.3, variance, seed=1)
    coupled, dual = couple_densely(z, y, 1.0)
    value, _, _, found = couple(how, z, y)
    assert_allclose(found, coupled, atol=1e-4)
    assert_allclose(value, dual, atol=1e-6)
    # Rows are exact whenever the scaling ends.
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("way", ["exact", "points", "large points"])
@pytest.mark.parametrize("kind", ["predictions", "labels", "both", "all predictions", "pairs"])
def test_ties_are_values_like_others(kind, way):
    rng = np.random.default_rng(3)
    n = 8 if way == "exact" else 24
    z, y = np.sort(rng.normal(size=n)), np.sort(rng.normal(size=n))
    if kind in ("predictions", "both"):
        z = np.sort(np.round(z))
    if kind in ("labels", "both"):
        y = np.sort(np.round(y))
    if kind == "all predictions":
        z = np.full(n, 0.4)
    if kind == "pairs":
        y = z.copy()
    expected = approximate(z, y)
    if way == "exact":
        expected = log_permanent(log_kernel(z, y)) - lgamma(n + 1.0)
    value, slopes, by_sigma = solve_bag(way, z, y)
    assert_allclose(value, expected, atol=1e-10 if way == "exact" else 1e-4)
    assert np.isfinite(slopes).all() and np.isfinite(by_sigma)


@pytest.mark.parametrize("way", ["points", "large points"])
@pytest.mark.parametrize("gap", [6.0, 9.0, 40.0])
def test_two_clusters_with_hardly_a_link_are_as_good_as_apart(gap, way):
    z, y = make_samples(24, 0.3, 0.3, seed=5)
    z[12:] += gap
    y[12:] += gap
    apart = approximate(z[:12], y[:12]) + approximate(z[12:], y[12:])
    expected = apart + 2.0 * lgamma(13.0) - lgamma(25.0)
    assert_allclose(solve_bag(way, z, y)[0], expected, atol=1e-3)


def test_bags_are_scaled_side_by_side_as_if_each_were_alone():
    """Of any size, good fits and bad ones: no bag waits for another, and none hurries."""
    rng = np.random.default_rng(6)
    sizes = rng.integers(11, 30, 40)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    z, y = rng.normal(size=(2, offsets[-1]))
    for k, (start, stop) in enumerate(pairwise(offsets)):
        z[start:stop] *= [0.1, 1.0, 8.0][k % 3]
        y[start:stop].sort()
    values = solve_bags("points", z, y, offsets, sigma=0.4)[0]
    for value, (start, stop) in zip(values, pairwise(offsets), strict=True):
        own = np.sort(z[start:stop]) / 0.4, y[start:stop] / 0.4
        alone = solve_bag("large points", *own)[0]
        assert_allclose(value, alone, atol=1e-4, rtol=1e-9)


# --- scaling ------------------------------------------------------------


@pytest.mark.parametrize(("n", "how"), [(2, "alone"), (30, "alone"), (400, "alone"),
                                        (2, "side by side"), (30, "side by side")])  # fmt: skip
@pytest.mark.parametrize("level", [-7.0, -4.0, -1.0, 1.0])
@pytest.mark.parametrize("factor", [0.05, 1.0, 4.0])
def test_scaling_ends_at_the_margins_however_bad_the_fit(n, how, level, factor):
    """Heavy tails, isolated labels, predictions far too narrow or wide: no start is too poor."""
    rng = np.random.default_rng(n)
    z = rng.standard_t(2, size=n)
    y = np.sort(z + 0.1 * rng.normal(size=n))
    found = couple(how, np.sort(z) * factor * np.exp(-level), y * np.exp(-level))[3]
    # Fifty passes that do not converge leave gaps of whole labels.
    assert np.abs(found.sum(axis=0) - 1.0).sum() < 0.01


@pytest.mark.parametrize("how", SCALERS)
@pytest.mark.parametrize("variance", [0.05, 0.5])
def test_slope_of_the_dual_is_the_gap_of_the_barycentres(variance, how):
    """The envelope theorem, which the analytic gradient rests on, on the dense twin."""
    z, y = make_samples(12, 0.3, variance, seed=2)
    slopes = central_differences(lambda at: couple_densely(at, y, 1.0, 500)[1], z, 1e-4)
    assert_allclose(couple(how, z, y)[3] @ y - z, slopes, atol=1e-3)


@pytest.mark.parametrize("how", SCALERS)
def test_potentials_are_the_slopes_of_the_dual_in_the_masses(how):
    z, y = make_samples(40, 0.3, 0.1, seed=4)
    (z, mz), (y, my) = (spread_on_nodes(part) for part in (z, y))
    scale, rng = SCALERS[how], np.random.default_rng(0)
    for masses, potential in ((mz, 1), (my, 2)):
        move = masses * rng.normal(size=len(masses))
        move -= masses * move.sum() / masses.sum()
        ends = []
        for step in (1e-4, -1e-4):
            moved = masses + step * move
            ends.append(scale(*((z, moved, y, my) if masses is mz else (z, mz, y, moved)))[0])
        expected = (ends[0] - ends[1]) / 2e-4
        # Both values are good to 1e-7 nats, their difference over 2e-4 to 1e-3.
        assert_allclose(scale(z, mz, y, my)[potential] @ move, expected, atol=3e-3)


# --- slopes ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fits", "narrow", "far"])
@pytest.mark.parametrize(
    ("way", "n", "sigma"),
    [("exact", 3, 0.2), ("exact", 9, 1.0), ("points", 14, 0.2), ("points", 40, 0.5),
     ("grid", 60, 0.5), ("large points", 40, 0.5), ("large grid", 150, 0.4)],
)  # fmt: skip
def test_slopes_in_every_prediction_and_in_log_sigma_are_differences(way, n, sigma, kind):
    rng = np.random.default_rng(n)
    z = rng.exponential(size=n)
    y = np.sort(z + sigma * rng.normal(size=n))
    z, y = (z - z.mean()) * {"fits": 1.0, "narrow": 0.1, "far": 3.0}[kind], y - y.mean()
    _, slopes, by_sigma = solve_bag(way, z, y, sigma=sigma)

    def value(at, factor=1.0):
        return solve_bag(way, at, y, sigma=sigma * factor)[0]

    chosen = rng.choice(n, min(n, 6), replace=False)
    step = 1e-5 if way == "exact" else 3e-3 * sigma
    seen = [(value(z + d) - value(z - d)) / (2.0 * step) for d in step * np.eye(n)[chosen]]
    # Up to 1e-6 nats a value over the step, and its second order.
    share, rest = (1e-6, 1e-8) if way == "exact" else (3e-3, 2e-3 / sigma)
    assert_allclose(slopes[chosen], seen, rtol=share, atol=rest)
    moved = [value(z, np.exp(s * step)) for s in (1.0, -1.0)]
    assert_allclose(by_sigma, (moved[0] - moved[1]) / (2.0 * step), rtol=share, atol=rest)


@pytest.mark.parametrize("way", ["exact", "points", "grid", "large points", "large grid"])
def test_predictions_come_in_any_order(way):
    rng = np.random.default_rng(7)
    n = 9 if way == "exact" else 70
    z, y = rng.normal(size=n), np.sort(rng.normal(size=n))
    order = rng.permutation(n)
    value, slopes, by_sigma = solve_bag(way, z, y, sigma=0.5)
    again, moved, same = solve_bag(way, z[order], y, sigma=0.5)
    # On points of the same order no bit changes, on a grid sums of masses round.
    assert_allclose([again, same], [value, by_sigma], rtol=1e-11)
    assert_allclose(moved, slopes[order], atol=1e-9)


# --- binning ------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "sigma", "kind"),
    [(400, 0.3, "exponential"), (1500, 0.2, "exponential"), (1500, 0.4, "normal"),
     (4000, 0.4, "exponential"), (4000, 0.1, "uniform")],
)  # fmt: skip
def test_binned_likelihood_agrees_with_that_of_the_points(n, sigma, kind):
    rng = np.random.default_rng(11)
    z = getattr(rng, kind)(size=n)
    y = np.sort(z + sigma * rng.normal(size=n))
    z, y = np.sort(z - z.mean()) / sigma, (y - y.mean()) / sigma
    value, grid, slope = solve_bag("large grid", z, y)
    expected, points, expected_slope = solve_bag("large points", z, y)
    # Measured: up to 0.8 nats; 2.6 in the slope in log sigma, whose posterior sd is a hundredth;
    # 4 % of the slopes in z, all of it from row to row: weights see sums of them.
    assert abs(value - expected) < 1.0
    assert abs(slope - expected_slope) < 4.0
    assert np.linalg.norm(grid - points) < 0.05 * np.linalg.norm(points)
    assert abs((grid - points) @ z) < 2e-3 * np.linalg.norm(points) * np.linalg.norm(z)


@pytest.mark.parametrize("side", [-0.4, 0.0, 0.3])
def test_binning_keeps_the_mean_and_adds_a_third_of_a_squared_cell(side):
    values = side + np.array([0.0, 0.07, 1.9, -3.14])
    nodes, mass = spread_on_nodes(values)
    cell = np.diff(nodes).min()
    assert_allclose(mass.sum(), 4.0)
    assert_allclose(mass @ nodes, values.sum(), atol=1e-12)
    assert_allclose(mass @ nodes**2, (values**2).sum() + 4 * cell**2 / 3)


# --- permanents ------------------------------------------------------------


@pytest.mark.parametrize("variance", [0.01, 0.1, 0.5, 2.0])
def test_approximate_permanent_is_close_to_the_exact_one(variance):
    """The correction is within 0.08 nats a row of exact permanents (Bethe's: up to 0.26)."""
    rng = np.random.default_rng(2)
    z = np.sort(rng.normal(size=8)) / np.sqrt(variance)
    y = np.sort(z + rng.normal(size=8))
    exact = log_permanent(log_kernel(z, y)) - lgamma(9.0)
    # Nine terms of the exponential, squared ten times.
    assert_allclose(solve_bag("exact", z, y)[0], exact, rtol=1e-11)
    for way in ("points", "large points"):
        assert abs(solve_bag(way, z, y)[0] - exact) < 0.08 * 8


@pytest.mark.parametrize("n", [2, 5, 7])
@pytest.mark.parametrize("sigma", [0.05, 0.7, 20.0])
def test_permanents_and_their_slopes_equal_sums_over_permutations(n, sigma):
    rng = np.random.default_rng(n)
    z, y = rng.normal(size=n), np.sort(rng.normal(size=n))
    every = np.array(list(permutations(range(n))))
    gaps = (y[every] - z) / sigma
    logs = -0.5 * (gaps**2).sum(axis=1)
    shares = np.exp(logs - logs.max())
    expected = np.log(shares.sum()) + logs.max() - lgamma(n + 1.0)
    shares /= shares.sum()
    value, slopes, by_sigma = solve_bag("exact", z, y, sigma=sigma)
    assert_allclose(value, expected, rtol=1e-10, atol=1e-10)
    assert_allclose(slopes * sigma, shares @ gaps, rtol=1e-9, atol=1e-9)
    assert_allclose(by_sigma, shares @ (gaps**2).sum(axis=1), rtol=1e-9)


def make_target_of(n, n_bags):
    """Return the standardised target of simulated data in small bags."""
    data = make_shuffled(n, 2, noise=0.3, bags=n_bags, rng=3)
    return build_from_data(data, PLAIN)[0]


@pytest.mark.parametrize("sizes", [[4, 4, 4], [1, 2, 3, 6], [8, 5]])
def test_the_likelihood_is_the_sum_of_log_permanents_of_bags(sizes):
    target = make_target_of(sum(sizes), sizes)
    w, log_sigma = np.array([0.7, -0.4]), -0.8
    labels, means = target.label_items()[0], target.bag_labels
    expected = -(sum(sizes) - len(sizes)) * log_sigma
    for r, (start, stop) in enumerate(pairwise(target.within_bag.offsets)):
        z = w @ target.within_bag.rows[:, start:stop]
        z, y = z - z.mean(), labels[start:stop] - means[r]
        expected += log_permanent(log_kernel(z, y) / np.exp(2 * log_sigma))
        expected -= lgamma(stop - start + 1.0)
    for wants_slopes in (True, False):
        found = target.within_bag.evaluate(make_parameters(w, log_sigma), 1.0, wants_slopes, 1)
        assert_allclose(found.values[0], expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("way", "n", "sigma"),
    [("exact", 2, 0.5), ("exact", 10, 3.0), ("points", 11, 0.5), ("points", 20, 5.0),
     ("points", 90, 0.02), ("grid", 60, 0.5), ("grid", 250, 0.5), ("large points", 130, 0.02),
     ("large grid", 300, 0.07)],
)  # fmt: skip
def test_a_bag_is_matched_the_way_of_its_size_and_noise(way, n, sigma):
    """Exactly, on rows or on a grid with its spreading taken out; side by side where it may."""
    z, y = make_samples(n, 0.4, 1.0, seed=n)
    found = evaluate_bags(z, y, np.array([0, n]), sigma)
    z, y = z - z.mean(), y - y.mean()
    large = way if way == "exact" or way.startswith("large") else f"large {way}"
    value, slopes, by_sigma = solve_bag(large, z, y, sigma=sigma)
    assert_allclose(found.values[0], value - (n - 1) * np.log(sigma), atol=1e-4, rtol=1e-9)
    assert_allclose(found.gradients[0, 0], slopes @ z, rtol=2e-3, atol=0.02)
    assert_allclose(found.by_sigmas[0], by_sigma - (n - 1), rtol=2e-3, atol=0.02)


def test_tiny_and_large_bags_add_up_as_if_each_were_alone():
    """They go to different kernels."""
    rng = np.random.default_rng(4)
    offsets = np.cumsum([0, 4, 30, 1, 10, 11, 200])
    z = rng.normal(size=offsets[-1])
    y = z + 0.5 * rng.normal(size=offsets[-1])
    found = evaluate_bags(z, y, offsets, 0.55)
    alone = [
        evaluate_bags(z[start:stop], y[start:stop], np.array([0, stop - start]), 0.55)
        for start, stop in pairwise(offsets)
    ]
    # Sums of the same numbers in another order.
    for name in found._fields:
        total = sum(getattr(each, name) for each in alone)
        assert_allclose(getattr(found, name), total, rtol=1e-9, atol=1e-9)
