"""Coupling kernels: Sinkhorn, permanents, binning, and the two parts' powers."""

from itertools import pairwise, permutations
from math import lgamma

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose

from oracles import central_differences, couple_densely, log_permanent
from targets import build_from_data
from unshuffle import kernels, make_shuffled
from unshuffle.kernels.transport import coupling, permanent
from unshuffle.kernels.transport.coupling import PRECISE
from unshuffle.kernels.transport.grid import CELLS_PER_SIGMA
from unshuffle.kernels.transport.likelihood import match_nodes
from unshuffle.kernels.transport.splines import spread_rows


# Python cannot call functions that only kernels call.
@njit(cache=True)
def scale(z, mz, y, my, tolerance):
    return coupling.scale(z, mz, y, my, tolerance)


@njit(cache=True)
def match_exactly(z, y, order, wants_slopes, slopes):
    return permanent.match_exactly(z, y, order, wants_slopes, slopes)


@njit(cache=True)
def match_subsets(matrix):
    table, count = permanent.sum_over_subsets(matrix)
    return table, permanent.match_probabilities(matrix, table, count)


def match_points(z, y, wants_slopes, slopes):
    """Return value and slope of the points themselves, which ascend."""
    return match_nodes(z, y, np.arange(len(z)), False, wants_slopes, PRECISE, slopes)


def make_samples(n, noise, variance, seed):
    """Return ascending predictions and labels in units of the sd that the kernels assume."""
    rng = np.random.default_rng(seed)
    z = np.sort(rng.exponential(size=n))
    y = np.sort(z + noise * rng.normal(size=n))
    return z / np.sqrt(variance), y / np.sqrt(variance)


def couple(z, y):
    """Return the kernel's dual value, potentials of z and y, and its coupling as a matrix."""
    value, potential_z, potential_y, band, start, ptr = scale(
        z, np.ones(len(z)), y, np.ones(len(y)), PRECISE
    )
    matrix = np.zeros((len(z), len(y)))
    for i in range(len(z)):
        columns = np.arange(start[i], start[i] + ptr[i + 1] - ptr[i])
        matrix[i, columns] = band[ptr[i] : ptr[i + 1]]
    return value, potential_z, potential_y, matrix


def correct(q):
    """The correction of one row or column, from its collision probability."""
    return -1.0 + 1.306 * q - 0.112 * q**2 - 0.194 * q**3


@pytest.mark.parametrize("variance", [0.01, 0.1, 1.0])
def test_kernel_equals_dense_sinkhorn_plus_its_correction(variance):
    z, y = make_samples(25, 0.3, variance, seed=1)
    coupled, dual = couple_densely(z, y, 1.0)
    rows, columns = (coupled**2).sum(axis=1), (coupled**2).sum(axis=0)
    expected = dual + 0.5 * (correct(rows).sum() + correct(columns).sum())
    value, _ = match_points(z, y, False, np.empty(25))
    # The dual is stationary, the correction is not: measured 2e-5.
    assert_allclose(value, expected, atol=1e-4)


@pytest.mark.parametrize("variance", [0.01, 0.1, 1.0])
def test_scaling_equals_dense_sinkhorn(variance):
    z, y = make_samples(25, 0.3, variance, seed=1)
    coupled, dual = couple_densely(z, y, 1.0)
    value, _, _, found = couple(z, y)
    # Measured: 3e-5 and 4e-8.
    assert_allclose(found, coupled, atol=1e-4)
    assert_allclose(value, dual, atol=1e-6)
    # Rows are exact whenever the scaling ends.
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 30, 400])
@pytest.mark.parametrize("level", [-7.0, -4.0, -1.0, 1.0])
@pytest.mark.parametrize("factor", [0.05, 1.0, 4.0])
def test_scaling_ends_at_the_margins_however_bad_the_fit(n, level, factor):
    """Heavy tails, isolated labels, predictions far too narrow or wide: no start is too poor."""
    rng = np.random.default_rng(n)
    z = rng.standard_t(2, size=n)
    y = np.sort(z + 0.1 * rng.normal(size=n))
    found = couple(np.sort(z) * factor * np.exp(-level), y * np.exp(-level))[3]
    # Fifty passes that do not converge leave gaps of whole labels.
    assert np.abs(found.sum(axis=0) - 1.0).sum() < 0.01


@pytest.mark.parametrize("variance", [0.05, 0.5])
def test_slope_of_the_dual_is_the_gap_of_the_barycentres(variance):
    """The envelope theorem, which the analytic gradient rests on, on the dense twin."""
    z, y = make_samples(12, 0.3, variance, seed=2)
    slopes = central_differences(lambda at: couple_densely(at, y, 1.0, 500)[1], z, 1e-4)
    assert_allclose(couple(z, y)[3] @ y - z, slopes, atol=1e-3)


def test_potentials_are_the_slopes_of_the_dual_in_the_masses():
    z, y = make_samples(40, 0.3, 0.1, seed=4)
    (z, mz, _, _), (y, my, _, _) = (spread_rows(part, CELLS_PER_SIGMA) for part in (z, y))
    rng = np.random.default_rng(0)
    for masses, potential in ((mz, 1), (my, 2)):
        move = masses * rng.normal(size=len(masses))
        move -= masses * move.sum() / masses.sum()
        ends = []
        for step in (1e-4, -1e-4):
            moved = masses + step * move
            args = (z, moved, y, my) if masses is mz else (z, mz, y, moved)
            ends.append(scale(*args, PRECISE)[0])
        expected = (ends[0] - ends[1]) / 2e-4
        # Both values are good to 1e-7 nats, their difference over 2e-4 to 1e-3.
        assert_allclose(scale(z, mz, y, my, PRECISE)[potential] @ move, expected, atol=3e-3)


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
    grid, points = np.empty(n), np.empty(n)
    value, slope = match_nodes(z, y, np.arange(n), True, True, PRECISE, grid)
    expected, expected_slope = match_points(z, y, True, points)
    # Measured: up to 0.8 nats; 2.6 in the slope in log sigma, whose posterior sd is a hundredth;
    # 4 % of the slopes in z, all of it from row to row: weights see sums of them.
    assert abs(value - expected) < 1.0
    assert abs(slope - expected_slope) < 4.0
    assert np.linalg.norm(grid - points) < 0.05 * np.linalg.norm(points)
    assert abs((grid - points) @ z) < 2e-3 * np.linalg.norm(points) * np.linalg.norm(z)


@pytest.mark.parametrize("side", [-0.4, 0.0, 0.3])
def test_binning_keeps_the_mean_and_adds_a_third_of_a_squared_cell(side):
    values = side + np.array([0.0, 0.07, 1.9, -3.14])
    nodes, mass, _, _ = spread_rows(values, CELLS_PER_SIGMA)
    cell = np.diff(nodes).min()
    assert_allclose(mass.sum(), 4.0)
    assert_allclose(mass @ nodes, values.sum(), atol=1e-12)
    assert_allclose(mass @ nodes**2, (values**2).sum() + 4 * cell**2 / 3)


@pytest.mark.parametrize("variance", [0.01, 0.1, 0.5, 2.0])
def test_approximate_permanent_is_close_to_the_exact_one(variance):
    """The correction is within 0.08 nats a row of exact permanents (Bethe's: up to 0.26)."""
    rng = np.random.default_rng(2)
    z = np.sort(rng.normal(size=8)) / np.sqrt(variance)
    y = np.sort(z + rng.normal(size=8))
    exact = log_permanent(-((y[None, :] - z[:, None]) ** 2) / 2)
    assert_allclose(match_exactly(z, y, np.arange(8), False, np.empty(8))[0], exact, rtol=1e-12)
    assert abs(match_points(z, y, False, np.empty(8))[0] - exact) < 0.08 * 8


def test_permanent_and_its_slopes_equal_sums_over_permutations():
    matrix = np.random.default_rng(0).random((5, 5))
    every = list(permutations(range(5)))
    weights = np.array([np.prod([matrix[i, p[i]] for i in range(5)]) for p in every])
    table, found = match_subsets(matrix)
    assert_allclose(table[-1], weights.sum(), rtol=1e-12)
    shares = np.zeros((5, 5))
    for permutation, weight in zip(every, weights / weights.sum(), strict=True):
        shares[np.arange(5), permutation] += weight
    assert_allclose(found, shares, rtol=1e-12)


def make_target_of(n, n_bags):
    """Return the standardised target of simulated data in small bags."""
    data = make_shuffled(n, 2, noise=0.3, bags=n_bags, rng=3)
    return build_from_data(data)[0]


def test_the_likelihood_is_the_sum_of_log_permanents_of_bags():
    target = make_target_of(12, 3)
    w, log_sigma = np.array([0.7, -0.4]), -0.8
    variance = np.exp(2 * log_sigma)
    expected = -9 * log_sigma  # 12 - 3 factors of 1/sigma
    for start, stop in zip(target.offsets[:-1], target.offsets[1:], strict=True):
        z, y = w @ target.within[:, start:stop], target.shapes.labels[start:stop]
        expected += log_permanent(-((y[None, :] - z[:, None]) ** 2) / (2 * variance)) - lgamma(5.0)
    value = kernels.log_likelihood(
        target.within, target.shapes.labels, target.offsets, w, log_sigma, False
    )[0]
    assert_allclose(value, expected, rtol=1e-12, atol=1e-12)


def test_tiny_and_large_bags_add_up_as_if_each_were_alone():
    """They go to different kernels; what is surely below its floor is so for all of them."""
    rng = np.random.default_rng(4)
    offsets = np.cumsum([0, 4, 30, 10, 11, 200])
    columns, w, log_sigma = rng.normal(size=(2, offsets[-1])), np.array([0.7, -0.4]), -0.6
    y = w @ columns + 0.5 * rng.normal(size=offsets[-1])
    parts = [slice(*ends) for ends in pairwise(offsets)]
    labels = np.concatenate([np.sort(y[part]) for part in parts])
    value, gradient, slope = kernels.log_likelihood(columns, labels, offsets, w, log_sigma, True)
    alone = []
    for part in parts:
        own, ends = np.ascontiguousarray(columns[:, part]), np.array([0, part.stop - part.start])
        alone.append(kernels.log_likelihood(own, labels[part], ends, w, log_sigma, True))
    # Sums of the same numbers in another order.
    assert_allclose(value, sum(each[0] for each in alone), rtol=1e-12)
    assert_allclose(gradient, sum(each[1] for each in alone), rtol=1e-9, atol=1e-9)
    assert_allclose(slope, sum(each[2] for each in alone), rtol=1e-9, atol=1e-9)
    values = np.empty(3)
    floors = np.array([-np.inf, value - 1.0, 1e9])
    kernels.log_likelihoods(
        np.tile(w @ columns, (3, 1)),
        labels,
        offsets,
        np.full(3, log_sigma),
        floors,
        PRECISE,
        values,
    )
    assert_allclose(values, [value, value, -np.inf], rtol=1e-9)
