"""Couplings of masses on a band: their definition on the whole matrix, alone and side by side."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

from bands import (
    add_corrections,
    lay_lanes,
    lay_nodes,
    match_bag,
    scale_alone,
    scale_beside,
    unroll_diagonals,
)
from oracles import central_differences
from unshuffle.kernels.transport import coupling, diagonals, lattice
from unshuffle.model.kept_bags import match_side_by_side

# Narrow, wide, far too narrow and far too wide predictions; two clusters that hardly meet; one
# node; nodes far from all others.
CASES = ["few", "fits", "narrow", "wide", "clusters", "one", "far"]
# Entries below exp(-18) are none.
CUT = np.exp(-18.0)


# Python cannot call functions that only kernels call.
@njit(cache=True)
def find_gauge(z, mz, y, my):
    return coupling.monotone_potentials(z, mz, y, my)


def make_masses(case, n=150):
    """Return nodes and masses of predictions and labels of one case, both ascending."""
    rng = np.random.default_rng(CASES.index(case))
    n = {"few": 5, "one": 1}.get(case, n)
    z = np.sort(rng.normal(size=n) * 12.0)
    y = np.sort(rng.normal(size=max(n - 10, 1)) * 12.0)
    if case == "narrow":
        z = z / 20.0
    if case == "wide":
        z = z * 20.0
    if case == "clusters":
        z, y = z + 40.0 * (z > 0.0), y + 40.0 * (y > 0.0)
    if case == "far":
        z[-1], y[0] = 3000.0, -2000.0
    mz, my = rng.exponential(size=len(z)) + 1e-3, rng.exponential(size=len(y)) + 1e-3
    return z, mz / mz.sum() * 1000.0, y, my / my.sum() * 1000.0


def log_kernel(z, y, alpha, beta):
    return alpha[:, None] + beta - 0.5 * (z[:, None] - y) ** 2


def weigh_links(plan, y):
    """Return Σ_i Cov_i(y, 1[y beyond the gap]) / gap, each from the side off the row's centre."""
    centres = plan @ y / plan.sum(axis=1)
    links = np.empty(len(y) - 1)
    for j in range(len(y) - 1):
        beyond = (plan[:, j + 1 :] * (y[j + 1 :] - centres[:, None])).sum(axis=1)
        before = (plan[:, : j + 1] * (centres[:, None] - y[: j + 1])).sum(axis=1)
        links[j] = np.where(y[j + 1] > centres, beyond, before).sum() / (y[j + 1] - y[j])
    return links


# --- the gauge, and the kernel in it ------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_the_kernel_is_one_along_the_monotone_coupling_and_nowhere_more(case):
    z, mz, y, my = make_masses(case)
    alpha, beta, first, last = find_gauge(z, mz, y, my)
    logs = log_kernel(z, y, alpha, beta)
    scale = np.abs(alpha).max() + np.abs(beta).max() + 1.0
    assert logs.max() < 1e-13 * scale * len(z)
    ends = [np.cumsum(masses) for masses in (mz, my)]
    for i in range(len(z)):
        # Row i of the monotone coupling reaches every label whose mass overlaps its own.
        low, high = ends[0][i] - mz[i], ends[0][i]
        partners = np.flatnonzero((ends[1] > low + 1e-9) & (ends[1] - my < high - 1e-9))
        assert (first[i], last[i]) == (partners[0], partners[-1])
        assert_allclose(logs[i, partners], 0.0, atol=1e-13 * scale * len(z))


@pytest.mark.parametrize("case", CASES)
def test_the_band_holds_all_of_the_kernel_above_the_cut(case):
    z, mz, y, my = make_masses(case)
    gauge = find_gauge(z, mz, y, my)
    found = unroll_diagonals(*diagonals.lay_band(z, y, *gauge), len(z), len(y))
    expected = np.exp(np.minimum(log_kernel(z, y, *gauge[:2]), 0.0))
    # Potentials of thousands round to 1e-10 of an exponent.
    assert_allclose(found, np.where(expected > CUT, expected, 0.0), rtol=1e-8)


# --- scaling ------------------------------------------------------------


def check_coupling(z, mz, y, my, value, by_z, by_y, plan):
    """The coupling is u K v with the margins that were asked for, which is its definition."""
    dense = np.exp(-log_kernel(z, y, by_z, by_y) - (z[:, None] - y) ** 2) * mz[:, None] * my
    assert_allclose(plan, np.where(plan > 0.0, dense, 0.0), rtol=1e-8)
    # What the band leaves out is next to nothing of its row.
    assert_allclose(dense.sum(axis=1), mz, rtol=1e-4)
    assert_allclose(plan.sum(axis=1), mz, rtol=1e-10)
    assert np.abs(plan.sum(axis=0) - my).sum() <= 1.0
    assert_allclose(value, mz @ by_z + my @ by_y, rtol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_large_problems_are_scaled_as_defined(case):
    problem = make_masses(case)
    check_coupling(*problem, *scale_alone(*problem))


def test_problems_side_by_side_are_scaled_as_alone_whatever_stands_beside_them():
    problems = [make_masses(case, 60) for case in CASES] * 3
    for problem, found in zip(problems, scale_beside(problems), strict=True):
        check_coupling(*problem, *found)
        # Both end when a step gains less than 1e-6 nats.
        assert_allclose(found[0], scale_alone(*problem)[0], atol=1e-5, rtol=1e-10)


def test_no_bit_of_a_problem_depends_on_those_beside_it():
    problems = [make_masses(case, 60) for case in CASES]
    found = scale_beside(problems)
    turned = scale_beside(problems[::-1] * 2)
    for one, other, same in zip(found, turned[6::-1], turned[:6:-1], strict=True):
        for left, right, again in zip(one[1:], other[1:], same[1:], strict=True):
            assert_array_equal(left, right)
            assert_array_equal(left, again)


# --- slopes ------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_collisions_and_slopes_of_corrections_are_those_of_the_definition(case):
    z, mz, y, my = make_masses(case, 40)
    band, ptr, at = lattice.scale(z, mz, y, my, coupling.PRECISE)[3:]
    plan = unroll_diagonals(band, ptr, at, len(z), len(y))
    qz, qy = lattice.collisions(band, ptr, at, mz, my)
    assert_allclose(qz, (plan**2 / my).sum(axis=1) / mz**2, rtol=1e-10)
    assert_allclose(qy, (plan**2 / mz[:, None]).sum(axis=0) / my**2, rtol=1e-10)
    found = lattice.correction_gradients(band, ptr, at, qz, qy, mz, my)
    nothing = np.zeros(len(z) + len(y))

    def move_scalings(logs):
        u, v = np.exp(logs[: len(z)]), np.exp(logs[len(z) :])
        return add_corrections(u[:, None] * plan * v, mz, my)

    def move_masses(shares):
        u, v = 1.0 + shares[: len(z)], 1.0 + shares[len(z) :]
        return add_corrections(plan, u * mz, v * my)

    gradients = central_differences(move_scalings, nothing, 1e-5)
    slopes = central_differences(move_masses, nothing, 1e-5) / np.append(mz, my)
    # The correction has a corner where a node holds less than one row's collisions.
    assert_allclose(
        np.concatenate(found[:2]), gradients, rtol=1e-4, atol=1e-5 * np.abs(gradients).max()
    )
    assert_allclose(np.concatenate(found[2:]), slopes, rtol=1e-4, atol=1e-5 * np.abs(slopes).max())


@pytest.mark.parametrize("case", CASES)
def test_links_are_weighed_alike_at_once_and_row_by_row(case):
    z, mz, y, my = make_masses(case)
    band = diagonals.lay_band(z, y, *find_gauge(z, mz, y, my))
    plan = unroll_diagonals(*band, len(z), len(y)) * mz[:, None] * my
    expected = weigh_links(plan, y) if len(y) > 1 else np.empty(0)
    args = (
        *band, diagonals.pad_rows(mz, 0.0), diagonals.pad_columns(my, 0.0),
        diagonals.pad_columns(y, 0.0),
    )  # fmt: skip
    row_by_row = diagonals._weigh_links(*args, len(y))
    assert_allclose(row_by_row, expected, rtol=1e-7)
    # At once they may lack what rounds away beside all mass, unless that joins two clusters.
    assert_allclose(diagonals.conductances(*args, my), expected, rtol=1e-7, atol=1e-8)


def make_rows(case, n):
    """Return predictions and ascending labels of one bag in units of sigma."""
    rng = np.random.default_rng(n)
    z = rng.exponential(size=n)
    y = np.sort(z + 0.3 * rng.normal(size=n))
    if case == "clusters":
        # Seven labels in ten are beyond the gap, and six predictions.
        z, y = z + 3.0 * (np.arange(n) < 0.6 * n), y + 3.0 * (np.arange(n) >= 0.3 * n)
    factor = {"narrow": 0.1, "wide": 6.0}.get(case, 1.0)
    return factor * (z - z.mean()) / 0.3, (y - y.mean()) / 0.3


@pytest.mark.parametrize("case", ["fits", "narrow", "wide", "clusters"])
@pytest.mark.parametrize(("n", "kind"), [(11, "points"), (50, "points"), (96, "points"),
                                         (60, "grid"), (300, "grid")])  # fmt: skip
def test_bags_side_by_side_and_alone_say_the_same(n, kind, case):
    z, y = make_rows(case, n)
    found, expected = match_bag(kind, z, y), match_bag(f"large {kind}", z, y)
    # Both end when a step gains less than 1e-6 nats, and corrections are not stationary.
    assert_allclose(found[0], expected[0], atol=1e-4, rtol=1e-9)
    scale = np.abs(expected[1]).max()
    assert_allclose(found[1], expected[1], atol=1e-3 * scale + 1e-3)
    assert_allclose(found[2], expected[2], rtol=1e-3, atol=1e-2)


def test_slopes_in_masses_side_by_side_are_those_alone():
    """Of several grids at once, with the effect of spreading taken out."""
    spread, problems = 1.0 / (3.0 * 2.25**2), []
    for case in ("fits", "narrow", "wide", "clusters"):
        z, y = make_rows(case, 70)
        (z, mz), (y, my) = lay_nodes(z), lay_nodes(y)
        problems.append((z, mz, y, my))
    sides, ends = lay_lanes(problems)
    values = match_side_by_side(sides, ends, spread, coupling.PRECISE, True)[0]
    for k, (z, mz, y, my) in enumerate(problems):
        found = lattice.scale(z, mz, y, my, coupling.PRECISE)
        by_z, by_y, band = found[1], found[2], found[3:]
        qz, qy = lattice.collisions(*band, mz, my)
        gradient_z, gradient_y, slope_z, slope_y = lattice.correction_gradients(
            *band, qz, qy, mz, my
        )
        centres = lattice.variances(*band, z, mz, y)
        lattice.add_gradients(*band, z, y, *centres[:2], (spread, spread), gradient_z, gradient_y)
        kept_z, kept_y = lattice.solve_adjoint(*band, mz, my, y, gradient_z, gradient_y)
        plan = unroll_diagonals(*band, len(z), len(y))
        expected = found[0] + add_corrections(plan, mz, my)
        expected -= 0.5 * spread * (centres[2] + centres[3] - 2.0 * mz.sum())
        assert_allclose(values[k], expected, atol=1e-4, rtol=1e-9)
        mine = np.append(sides[4, : len(z), k], sides[5, : len(y), k])
        other = np.append(by_z + slope_z + kept_z, by_y + slope_y + kept_y)
        # Slopes in masses hold up to a level that goes from one side to the other.
        level = np.append(np.ones(len(z)), -np.ones(len(y)))
        gap = mine - other
        gap -= level * (gap @ level) / (level @ level)
        assert np.abs(gap).max() < 1e-2 * np.abs(other).max()
