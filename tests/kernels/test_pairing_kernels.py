"""Properties of the kernels of every pairing: sums by enumeration, slopes by differences."""

from math import lgamma

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oracles
from couplings import (
    couple,
    couple_all,
    draw_bag,
    draw_kernel,
    score_bag,
    score_bags,
    score_without_grid,
)
from unshuffle.data.labels import Labels
from unshuffle.kernels.transport import pairings
from unshuffle.objectives.noise import StudentNoise

LEVELS = {"low": 0.05, "middle": 0.4, "high": 3.0}
all_levels = pytest.mark.parametrize("sigma", LEVELS.values(), ids=LEVELS)


def difference(function, place, step):
    """Return the difference of a function of a matrix in one of its entries."""

    def moved(by):
        by_entry = np.zeros(function.shape)
        by_entry[place] = by
        return by_entry

    return (function(moved(step)) - function(moved(-step))) / (2 * step)


def check_gradient(value, log_kernel, gradient, places, step, tolerance):
    """Compare slopes in a few entries of a log kernel with differences."""

    def at(change):
        return value(log_kernel + change)

    at.shape = log_kernel.shape
    for place in places:
        assert_allclose(gradient[place], difference(at, place, step), atol=tolerance, rtol=1e-4)


@all_levels
def test_mixture_is_the_likelihood_of_independent_draws(sigma):
    log_kernel = draw_kernel(7, 5, max(sigma, 0.3))
    rows, labels = np.arange(1.0, 8.0), np.array([1.0, 2.0, 1.0, 4.0, 3.0])
    gradient = np.empty((7, 5))
    value, by_mass = pairings.mixture_terms(log_kernel, rows, labels, True, gradient)
    assert_allclose(value, oracles.log_mixture(log_kernel, rows, labels), rtol=1e-12)

    def of_kernel(kernel):
        return pairings.mixture_terms(kernel, rows, labels, False, np.empty((7, 5)))[0]

    # A step of 1e-5: truncation 1e-10 of the masses, rounding 1e-10 of the value.
    check_gradient(of_kernel, log_kernel, gradient, list(np.ndindex(7, 5)), 1e-5, 1e-7)

    def of_masses(masses):
        # The total is kept: Σ log of unscaled sums less that of the total.
        found = pairings.mixture_terms(log_kernel, masses, labels, False, np.empty((7, 5)))[0]
        return found + labels.sum() * np.log(masses.sum() / rows.sum())

    assert_allclose(by_mass, oracles.central_differences(of_masses, rows, 1e-5), rtol=1e-7)


@all_levels
def test_a_split_mass_changes_no_mixture(sigma):
    log_kernel = draw_kernel(7, 5, sigma)
    rows, labels = np.arange(2.0, 9.0), np.array([2.0, 2.0, 4.0, 4.0, 6.0])
    gradient, wide = np.empty((7, 5)), np.empty((14, 10))
    value, by_mass = pairings.mixture_terms(log_kernel, rows, labels, True, gradient)
    twice = np.repeat(np.repeat(log_kernel, 2, axis=0), 2, axis=1)
    halves = np.repeat(rows / 2, 2), np.repeat(labels / 2, 2)
    found, by_half = pairings.mixture_terms(twice, *halves, True, wide)
    assert_allclose(found, value, rtol=1e-12)
    assert_allclose(wide.reshape(7, 2, 5, 2).sum(axis=(1, 3)), gradient, rtol=1e-12, atol=1e-300)
    assert_allclose(by_half, np.repeat(by_mass, 2), rtol=1e-12)


@all_levels
def test_enumeration_equals_the_mean_over_every_injection(sigma):
    for n_rows in range(1, 8):
        for n_labels in range(1, n_rows + 1):
            log_kernel = draw_kernel(n_rows, n_labels, sigma, seed=n_labels)
            gradient = np.empty(log_kernel.shape)
            value = pairings.enumerate_terms(log_kernel, float(n_rows), gradient)
            assert_allclose(value, oracles.log_mean_over_injections(log_kernel), rtol=1e-11)
            # Every label has one row.
            assert_allclose(gradient.sum(axis=0), 1.0, rtol=1e-11)


@all_levels
@pytest.mark.parametrize(("n_rows", "n_labels"), [(5, 5), (7, 3), (6, 5)])
def test_slopes_of_the_enumeration_equal_differences(n_rows, n_labels, sigma):
    log_kernel = draw_kernel(n_rows, n_labels, sigma)
    gradient = np.empty(log_kernel.shape)
    pairings.enumerate_terms(log_kernel, float(n_rows), gradient)
    places = list(np.ndindex(n_rows, n_labels))
    # A step of 1e-5: truncation 1e-10, rounding 1e-10 of values up to 100.
    check_gradient(oracles.log_mean_over_injections, log_kernel, gradient, places, 1e-5, 1e-8)


@all_levels
@pytest.mark.parametrize("n", [4, 6, 8])
def test_coupling_is_near_the_exact_permanent(n, sigma):
    for seed in range(3):
        log_kernel = draw_kernel(n, n, sigma, seed)
        exact = oracles.log_permanent(log_kernel) - lgamma(n + 1.0)
        # The correction is that of long bands: it errs most, by a few hundredths of a nat a row,
        # for a handful of rows.
        assert abs(couple(log_kernel)[0] - exact) < 0.1 * n


@all_levels
@pytest.mark.parametrize(("n_rows", "n_labels"), [(8, 3), (7, 5), (8, 7)])
def test_coupling_with_a_slack_column_is_near_the_mean_over_injections(n_rows, n_labels, sigma):
    for seed in range(3):
        log_kernel = draw_kernel(n_rows, n_labels, sigma, seed)
        exact = oracles.log_mean_over_injections(log_kernel)
        assert abs(couple(log_kernel)[0] - exact) < 0.1 * n_rows


@all_levels
@pytest.mark.parametrize("n", [8, 30, 80])
@pytest.mark.parametrize("share", [1.0, 0.6], ids=["permutation", "slack"])
def test_slopes_of_the_coupling_equal_differences(n, share, sigma):
    log_kernel = draw_kernel(n, round(share * n), sigma)
    # Unit masses at low noise would be a corner: the value bends there within any step.
    row_masses = n * np.random.default_rng(n).dirichlet(np.full(n, 5.0))
    _, gradient, by_mass = couple(log_kernel, row_masses)
    heaviest = np.argsort(gradient, axis=None)[[-1, -2, -n, -2 * n]]
    places = [np.unravel_index(k, gradient.shape) for k in heaviest]

    def of_kernel(kernel):
        return couple(kernel, row_masses)[0]

    # Measured: 2e-7 in the kernel, 5e-6 in the masses. Margins met to 1e-8 or, Newton's last step
    # being quadratic, far better, leave that over a step of 1e-4.
    check_gradient(of_kernel, log_kernel, gradient, places, 1e-4, 1e-6)
    for i, k in ((0, n - 1), (n // 2, n // 3)):

        def of_mass(by, i=i, k=k):
            masses = row_masses.copy()
            masses[i] += by[0]
            masses[k] -= by[0]
            return couple(log_kernel, masses)[0]

        # Only moves from row to row keep the total.
        found = oracles.central_differences(of_mass, np.zeros(1), 1e-4)[0]
        assert_allclose(by_mass[i] - by_mass[k], found, rtol=2e-5, atol=2e-5)


@all_levels
def test_coupling_of_masses_is_that_of_the_atoms_written_out(sigma):
    log_kernel = draw_kernel(12, 12, sigma)
    masses = np.array([1, 2, 3, 1, 1, 2, 4, 1, 1, 1, 2, 1])
    row_masses, label_masses = masses.astype(float), masses[::-1].astype(float)
    value, gradient, by_mass = couple(log_kernel, row_masses, label_masses)
    wide = np.repeat(np.repeat(log_kernel, masses, axis=0), masses[::-1], axis=1)
    found, wide_gradient, wide_by_mass = couple(wide)
    # The margins are met to 1e-8.
    assert_allclose(found, value, atol=1e-6)
    starts = np.cumsum([0, *masses[:-1]]), np.cumsum([0, *masses[::-1][:-1]])
    summed = np.add.reduceat(np.add.reduceat(wide_gradient, starts[0]), starts[1], axis=1)
    assert_allclose(summed, gradient, atol=1e-5)
    if sigma > LEVELS["low"]:
        # Where partners are certain, rows' masses have no slope but a corner.
        is_open = (gradient < (1.0 - 1e-6) * row_masses[:, None]).all(axis=1)
        expected, found = by_mass[is_open], wide_by_mass[np.repeat(is_open, masses)]
        expected = np.repeat(expected - expected[0], masses[is_open])
        assert_allclose(found - found[0], expected, rtol=1e-4, atol=1e-5)


GRIDDED = [
    (200, 0.5, pairings.PERMUTATION, 1.0),
    (400, 0.8, pairings.SUBSET, 0.7),
    (1000, 0.3, pairings.PERMUTATION, 1.0),
    (2000, 0.4, pairings.SUBSET, 0.5),
    (2000, 0.2, pairings.DRAWS, 0.9),
]


@pytest.mark.parametrize(("n", "sigma", "pairing", "share"), GRIDDED)
def test_a_grid_of_predictions_changes_the_likelihood_little(n, sigma, pairing, share):
    bag = draw_bag(n, 40, sigma, share=share)
    gridded, dense = score_bag(*bag, pairing, sigma), score_without_grid(*bag, pairing, sigma)
    # Measured at 0.003 to 0.03 nats.
    assert abs(gridded[0] - dense[0]) < 0.05
    assert abs(gridded[1] - dense[1]) < 1e-3 * n
    # Measured at 0.02 to 2 %.
    gap = np.sqrt(np.mean((gridded[2] - dense[2]) ** 2))
    assert gap < 0.05 * np.sqrt(np.mean(dense[2] ** 2))


@pytest.mark.parametrize("sigma", [0.02, 0.4, 3.0])
def test_bins_that_share_edges_have_the_densities_of_each_alone(sigma):
    z, masses, low, high, label_masses = draw_bag(20, 12, sigma)
    low[0], high[-1] = -np.inf, np.inf
    bag = (z, masses, low, high, label_masses, pairings.PERMUTATION, sigma)
    found, expected = score_bag(*bag), score_without_grid(*bag)
    # One is solved to a millionth of a nat in its last step, the other to 1e-12.
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("n", [40, 300], ids=["whole", "gridded"])
@pytest.mark.parametrize("pairing", [0, 1, 2], ids=["permutation", "subset", "draws"])
def test_slopes_of_a_bag_equal_differences(n, pairing):
    sigma = 0.45
    z, *rest = draw_bag(n, 25, sigma, share=1.0 if pairing == 0 else 0.8)
    _, slope, grad = score_bag(z, *rest, pairing, sigma)
    for i in (0, n // 2, int(np.argmax(z))):

        def value(at, i=i):
            moved = z.copy()
            moved[i] = at[0]
            return score_bag(moved, *rest, pairing, sigma)[0]

        # The step stays inside a cell of the grid.
        found = oracles.central_differences(value, z[[i]], 1e-4)[0]
        assert_allclose(grad[i], found, rtol=1e-4, atol=1e-5)

    def at_level(at):
        return score_bag(z, *rest, pairing, sigma * np.exp(at[0]))[0]

    found = oracles.central_differences(at_level, np.zeros(1), 1e-3)[0]
    assert_allclose(slope, found, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("pairing", [0, 2], ids=["permutation", "draws"])
def test_slopes_of_shaped_noise_equal_differences_in_a_bag(pairing):
    places = np.linspace(-8.0, 8.0, 3201)
    log_density = StudentNoise(0.5, 4.0).log_density(places)
    cumulated = np.concatenate([[0.0], np.cumsum(np.exp(log_density[1:]) * 0.005)])
    cumulated /= cumulated[-1]
    tables = np.array([log_density, cumulated, 1.0 - cumulated])
    z, *rest = draw_bag(30, 12, 0.5)
    found = score_bag(z, *rest, pairing, 0.5, tables, (-8.0, 0.005))
    assert found[1] == 0.0

    def value(at):
        return score_bag(at, *rest, pairing, 0.5, tables, (-8.0, 0.005))[0]

    # Lines between the places of the tables: their slopes jump by a share of 1 % from cell to cell.
    found_slopes = oracles.central_differences(value, z, 1e-3)
    assert_allclose(found[2], found_slopes, atol=0.02 * np.abs(found_slopes).max())


@pytest.mark.parametrize("pairing", [0, 1, 2], ids=["permutation", "subset", "draws"])
def test_bags_add_up_by_their_shares(pairing):
    rng = np.random.default_rng(5)
    shares, sigma, w = np.array([1.0, 0.5, 2.0]), 0.5, np.array([0.8, -0.3])
    sizes = [(5, 5), (9, 9), (12, 12)] if pairing == 0 else [(5, 4), (9, 9), (12, 7)]
    X = [rng.normal(size=(n, 2)) for n, _ in sizes]
    labels = [np.sort(rng.normal(size=m)) for _, m in sizes]
    low, sizes_of_rows = np.concatenate(labels), [n for n, _ in sizes]
    offsets = [np.cumsum([0, *part]) for part in zip(*sizes, strict=True)]

    def evaluate(at, level=0.0):
        z = np.concatenate(X) @ at
        labels_of_bags = Labels(low, low, np.ones(len(low)), offsets[1], np.arange(len(low)))
        noise = sigma * np.exp(level), 0.0, 1.0
        found = score_bags(z[None], sizes_of_rows, np.ones(26), labels_of_bags, pairing, noise)
        each = np.repeat(shares, sizes_of_rows) * found.slopes[0]
        return (
            shares @ found.values[0],
            np.concatenate(X).T @ each,
            shares @ found.by_sigmas[0],
        )

    value, gradient, slope = evaluate(w)
    parts = [
        score_bag(rows @ w, np.ones(len(rows)), y, y, np.ones(len(y)), pairing, sigma)[:2]
        for rows, y in zip(X, labels, strict=True)
    ]
    # The projections differ in their last bit.
    assert_allclose([value, slope], shares @ np.array(parts), rtol=1e-10)
    found = oracles.central_differences(lambda at: evaluate(at)[0], w, 1e-4)
    # Margins of 1e-8 over a step of 1e-4.
    assert_allclose(gradient, found, rtol=1e-4, atol=1e-2)
    found = oracles.central_differences(lambda at: evaluate(w, at[0])[0], np.zeros(1), 1e-3)
    assert_allclose(slope, found, rtol=1e-4, atol=1e-3)


def test_no_bit_depends_on_the_problems_beside_one():
    alone = []
    problems = [
        (draw_kernel(n, m, sigma, seed=n), np.ones(n), np.ones(m))
        for n, m, sigma in ((30, 18, 0.4), (12, 12, 0.05), (41, 40, 2.0), (9, 3, 0.2))
    ]
    for problem in problems:
        alone.append(couple_all([problem], 1e-4)[0])
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0)):
        beside = couple_all([problems[k] for k in order], 1e-4)
        for k, found in zip(order, beside, strict=True):
            for one, other in zip(found, alone[k], strict=True):
                assert np.array_equal(one, other)


@all_levels
@pytest.mark.parametrize(("n_rows", "n_labels"), [(60, 60), (60, 30), (60, 59)])
def test_a_coupling_starts_near_its_end(n_rows, n_labels, sigma):
    """From the prices of the best injection the first coupling has nearly the labels' masses."""
    log_kernel = draw_kernel(n_rows, n_labels, sigma, seed=3)
    value, slopes, _, _ = couple_all([(log_kernel, np.ones(n_rows), np.ones(n_labels))])[0]
    assert np.isfinite(value)
    assert_allclose(slopes.sum(axis=0), 1.0, atol=1e-5)
    assert slopes.sum(axis=1).max() < 1.0 + 1e-5


def score_points(z, y, sigma, per_sigma_grid, slopes=True):
    """Return the likelihood of rows of which some have a label, with or without a grid of nodes."""
    labels = Labels(y, y, np.ones(len(y)), np.array([0, len(y)]), np.arange(len(y)))
    points = labels if per_sigma_grid else None
    return score_bags(
        z[None], [len(z)], np.ones(len(z)), labels, pairings.SUBSET, (sigma, 0.0, 1.0),
        points=points, wants_slopes=slopes,
    )  # fmt: skip


@pytest.mark.parametrize(("n", "m", "sigma"), [(80, 40, 0.6), (100, 90, 0.5), (200, 60, 0.4)])
def test_nodes_on_both_sides_change_the_likelihood_little(n, m, sigma):
    rng = np.random.default_rng(n)
    z = rng.normal(size=n)
    y = np.sort(z[:m] + sigma * rng.normal(size=m))
    for factor in (1.0, 0.8):
        gridded, dense = (score_points(factor * z, y, sigma, flag) for flag in (True, False))
        assert gridded.values[0, 0] != dense.values[0, 0]
        # As for bags with all labels: a few tenths of a nat for good fits.
        assert abs(gridded.values[0, 0] - dense.values[0, 0]) < 0.5
        gap = np.sqrt(np.mean((gridded.slopes - dense.slopes) ** 2))
        assert gap < 0.2 * np.sqrt(np.mean(dense.slopes**2))


@pytest.mark.parametrize("sigma", [0.6, 0.32], ids=["nodes", "nodes and points"])
def test_slopes_of_nodes_equal_differences(sigma):
    rng = np.random.default_rng(4)
    z = rng.normal(size=90)
    y = np.sort(z[:45] + sigma * rng.normal(size=45))
    found = score_points(z, y, sigma, True)
    for i in (0, 30, int(np.argmax(z))):

        def value(at, i=i):
            moved = z.copy()
            moved[i] = at[0]
            return score_points(moved, y, sigma, True).values[0, 0]

        expected = oracles.central_differences(value, z[[i]], 1e-3)[0]
        # Margins met to a millionth of a nat over a step of a thousandth.
        assert_allclose(found.slopes[0, i], expected, rtol=2e-3, atol=2e-3)

    def at_level(at):
        return score_points(z, y, sigma * np.exp(at[0]), True).values[0, 0]

    expected = oracles.central_differences(at_level, np.zeros(1), 1e-3)[0]
    assert_allclose(found.by_sigmas[0, 0], expected, rtol=2e-3, atol=0.02)
