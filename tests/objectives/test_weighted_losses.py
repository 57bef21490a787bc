"""Losses between samples with masses: those of the two quantile functions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oracles
from unshuffle import kernels

LOSSES = {"squared": kernels.SQUARED, "absolute": kernels.ABSOLUTE}
all_losses = pytest.mark.parametrize("kind", LOSSES)


def compare(kind, z, z_masses, y, y_masses):
    """Return value and slope of the compiled comparison of two sorted samples."""
    slope = np.full(len(z) + 2, np.nan)
    shares = z_masses / z_masses.sum(), y_masses / y_masses.sum()
    value = kernels.compare_masses(LOSSES[kind], z, shares[0], y, shares[1], slope)
    return value, slope[: len(z)]


def draw_sides(seed, n, m):
    """Return two sorted samples with whole masses, and ties."""
    rng = np.random.default_rng(seed)
    z, y = np.sort(rng.normal(size=n).round(1)), np.sort(rng.exponential(size=m).round(1))
    return z, rng.integers(1, 9, n).astype(float), y, rng.integers(1, 9, m).astype(float)


def evaluate(kind, weights, bags, atoms=(0.0,)):
    """Return values and gradients over bags given as (X, row masses, y, label masses, share)."""
    X = np.concatenate([bag[0] for bag in bags])
    y_shares = np.concatenate([bag[3] / bag[3].sum() for bag in bags])
    offsets = [np.cumsum([0, *(len(bag[k]) for bag in bags)]) for k in (0, 2)]
    values, gradients = np.empty(len(weights)), np.empty(weights.shape)
    kernels.evaluate_weighted(
        weights,
        np.ascontiguousarray(X.T),
        np.concatenate([bag[1] for bag in bags]),
        offsets[0],
        np.concatenate([bag[2] for bag in bags]),
        y_shares,
        offsets[1],
        np.array([bag[4] for bag in bags]),
        np.array(atoms),
        LOSSES[kind],
        values,
        gradients,
    )
    return values, gradients


def draw_bags(seed=0, sizes=((5, 8), (1, 3), (9, 1), (12, 12)), has_masses=True):
    """Return bags of so many rows and labels."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(len(sizes)))

    def masses(n):
        return rng.integers(1, 6, n).astype(float) if has_masses else np.ones(n)

    return [
        (rng.normal(size=(n, 3)), masses(n), np.sort(rng.normal(size=m)), masses(m), share)
        for (n, m), share in zip(sizes, shares, strict=True)
    ]


@all_losses
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 7), (7, 1), (13, 13), (40, 17), (17, 40)])
def test_comparison_equals_that_of_quantile_functions_level_by_level(kind, n, m):
    for seed in range(5):
        sides = draw_sides(seed, n, m)
        # At most 80 terms of order one, each with a share rounded to 1e-16.
        assert_allclose(compare(kind, *sides)[0], oracles.quantile_loss(kind, *sides), atol=1e-13)


@all_losses
def test_slopes_of_a_comparison_equal_differences(kind):
    z, z_masses, y, y_masses = draw_sides(3, 11, 17)
    # Without ties: there the absolute gap has no slope.
    z = z + 0.01 * np.arange(11) + 0.001
    slope = compare(kind, z, z_masses, y, y_masses)[1]
    found = oracles.central_differences(
        lambda at: compare(kind, at, z_masses, y, y_masses)[0], z, 1e-6
    )
    # The value is a parabola or lines: the rounding of values over the step is all.
    assert_allclose(slope, found, atol=1e-8)


@all_losses
def test_a_mass_split_in_two_changes_neither_value_nor_summed_slope(kind):
    z, z_masses, y, y_masses = draw_sides(4, 9, 14)
    value, slope = compare(kind, z, z_masses, y, y_masses)
    copies = np.where(z_masses > 1, 2, 1)
    split_masses = np.repeat(z_masses / copies, copies)
    labels = np.repeat(y, 2), np.repeat(y_masses / 2, 2)
    found, parts = compare(kind, np.repeat(z, copies), split_masses, *labels)
    assert_allclose(found, value, atol=1e-13)
    starts = np.cumsum([0, *copies[:-1]])
    assert_allclose(np.add.reduceat(parts, starts), slope, atol=1e-13)


@all_losses
@pytest.mark.parametrize("atoms", [(0.0,), (-0.4, 0.1, 0.3)], ids=["no noise", "noise"])
def test_values_of_bags_are_those_of_their_quantile_functions(kind, atoms):
    bags = draw_bags()
    weights = np.random.default_rng(1).normal(size=(4, 3))
    values, _ = evaluate(kind, weights, bags, atoms)
    for w, value in zip(weights, values, strict=True):
        expected = 0.0
        for X, masses, y, y_masses, share in bags:
            spread = oracles.spread_over_atoms(X @ w, atoms)
            wide = np.repeat(masses, len(atoms))
            expected += share * oracles.quantile_loss(kind, spread, wide, y, y_masses)
        # Predictions are sorted by keys of 42 bits: near ties may stand the other way round.
        assert_allclose(value, expected, rtol=1e-9)


@all_losses
@pytest.mark.parametrize("atoms", [(0.0,), (-0.4, 0.1, 0.3)], ids=["no noise", "noise"])
def test_gradients_of_bags_equal_differences(kind, atoms):
    bags = draw_bags(2)
    for w in np.random.default_rng(2).normal(size=(3, 3)):
        gradient = evaluate(kind, w[None], bags, atoms)[1][0]
        found = oracles.central_differences(
            lambda at: evaluate(kind, at[None], bags, atoms)[0][0], w, 1e-6
        )
        # A step of 1e-6 leaves a rounding of 1e-10 in values of order one.
        assert_allclose(gradient, found, atol=1e-8)


@all_losses
@pytest.mark.parametrize("atoms", [(0.0,), (-0.4, 0.1, 0.3)], ids=["no noise", "noise"])
def test_equal_unit_masses_give_the_loss_of_plain_samples(kind, atoms):
    sizes = (4, 9, 20)
    bags = draw_bags(3, [(n, n) for n in sizes], has_masses=False)
    bags = [(*bag[:4], len(bag[0]) / sum(sizes)) for bag in bags]
    weights = np.random.default_rng(3).normal(size=(4, 3))
    values, gradients = np.empty(4), np.empty((4, 3))
    kernels.evaluate_sorted(
        weights,
        np.ascontiguousarray(np.concatenate([bag[0] for bag in bags]).T),
        np.repeat(np.concatenate([bag[2] for bag in bags]), len(atoms)),
        np.cumsum([0, *sizes]),
        np.array(atoms),
        LOSSES[kind],
        0,
        values,
        gradients,
    )
    # Shares of 1/n add up in another order.
    found = evaluate(kind, weights, bags, atoms)
    assert_allclose(found[0], values, rtol=1e-13)
    assert_allclose(found[1], gradients, atol=1e-13)
