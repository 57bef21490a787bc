"""Couplings of masses on a band: their definition on the whole matrix, alone and side by side."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

from bands import (
    add_corrections,
    fill_alone,
    find_gauge,
    pad_columns,
    pad_rows,
    place_problems,
    scale_alone,
    scale_beside,
    solve_bag,
    spread_on_nodes,
    unroll_diagonals,
)
from oracles import central_differences
from unshuffle import kernels
from unshuffle.kernels.transport import diagonals
from unshuffle.kernels.transport.diagonals import BLOCK
from unshuffle.model.transport import log_permanents, spread_variances

# Narrow, wide, far too narrow and far too wide predictions; two clusters that hardly meet; one
# node; nodes far from all others.
CASES = ["few", "fits", "narrow", "wide", "clusters", "one", "far"]
# Entries below exp(-18) are none.
CUT = np.exp(-18.0)


# Python cannot call functions that only kernels call.
@njit(cache=True)
def _weigh_links(band, ptr, at, u, v, y, n, path, centres, room):
    diagonals._weigh_links(band, ptr, at, u, v, y, n, path, centres, room)


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
    sides, sizes = place_problems([(z, mz, y, my)], 1)
    (first, last), _ = find_gauge(sides, sizes)
    alpha, beta = sides[4, : len(z), 0], sides[5, : len(y), 0]
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
    band, alpha, beta = fill_alone(z, mz, y, my)
    found = unroll_diagonals(*band, len(z), len(y))
    logs = log_kernel(z, y, alpha[: len(z)], beta[BLOCK : BLOCK + len(y)])
    expected = np.exp(np.minimum(logs, 0.0))
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
def test_sums_over_a_band_are_those_of_the_matrix(case):
    z, mz, y, my = make_masses(case, 40)
    band = fill_alone(z, mz, y, my)[0]
    plan = unroll_diagonals(*band, len(z), len(y))
    rows, columns = pad_rows(mz), pad_columns(my)
    own, inner = slice(0, len(z)), slice(BLOCK, BLOCK + len(y))
    by_row, by_column = np.empty_like(rows), np.empty_like(columns)
    kernels.row_sums(*band, columns, by_row)
    kernels.column_sums(*band, rows, by_column)
    assert_allclose(by_row[own], plan @ my, rtol=1e-12)
    assert_allclose(by_column[inner], plan.T @ mz, rtol=1e-12)
    kernels.square_sums(*band, rows, columns, by_row, by_column)
    assert_allclose(by_row[own], plan**2 @ my, rtol=1e-12)
    assert_allclose(by_column[inner], (plan**2).T @ mz, rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_links_are_weighed_alike_at_once_and_row_by_row(case):
    z, mz, y, my = make_masses(case)
    band = fill_alone(z, mz, y, my)[0]
    plan = unroll_diagonals(*band, len(z), len(y)) * mz[:, None] * my
    expected = weigh_links(plan, y) if len(y) > 1 else np.empty(0)
    u, v, places = pad_rows(mz), pad_columns(my), pad_columns(y)
    rooms = np.empty((2, len(u))), np.empty((2, len(v)))
    path, inner = np.empty(len(v)), slice(BLOCK, BLOCK + len(y) - 1)
    centres = pad_rows(plan @ y / plan.sum(axis=1))
    _weigh_links(*band, u, v, places, len(y), path, centres, np.empty(len(u)))
    assert_allclose(path[inner], expected, rtol=1e-7)
    # At once they may lack what rounds away beside all mass, unless that joins two clusters.
    kernels.conductances(*band, u, v, places, v, len(y), path, *rooms)
    assert_allclose(path[inner], expected, rtol=1e-7, atol=1e-8)


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
    found, expected = solve_bag(kind, z, y), solve_bag(f"large {kind}", z, y)
    # Both end when a step gains less than 1e-6 nats, and corrections are not stationary.
    assert_allclose(found[0], expected[0], atol=1e-4, rtol=1e-9)
    scale = np.abs(expected[1]).max()
    assert_allclose(found[1], expected[1], atol=1e-3 * scale + 1e-3)
    assert_allclose(found[2], expected[2], rtol=1e-3, atol=1e-2)


def make_grids():
    """Return nodes and masses of four bags."""
    problems = []
    for case in ("fits", "narrow", "wide", "clusters"):
        z, y = make_rows(case, 70)
        problems.append((*spread_on_nodes(z), *spread_on_nodes(y)))
    return problems


def solve_grids(problems, n_lanes):
    """Return log permanents of problems on grids, counted twice before on rows, and their sides."""
    sides, sizes = place_problems(problems, n_lanes)
    spreads = spread_variances(2.25, n_lanes, 6.0)
    return log_permanents(sides, sizes, spreads, 1e-12, True)[0], sides


def test_values_on_grids_are_those_of_the_definition():
    problems = make_grids()
    for n_lanes, found in ((32, solve_grids(problems, 32)[0]), (1, None)):
        for k, (z, mz, y, my) in enumerate(problems):
            value = found[k] if n_lanes > 1 else solve_grids([problems[k]], 1)[0][0]
            expected, _, _, plan = scale_alone(z, mz, y, my)
            expected += add_corrections(plan, mz, my)
            spread_y = 1.0 / (3.0 * 2.25**2)
            spread_z, cols = spread_y + 1.0 / (6.0 * 6.0**2), plan.sum(axis=0)
            given_rows = cols @ y**2 - mz @ (plan @ y / mz) ** 2
            given_columns = mz @ z**2 - cols @ (plan.T @ z / cols) ** 2
            expected -= 0.5 * spread_z * (given_rows - mz.sum())
            expected -= 0.5 * spread_y * (given_columns - my.sum())
            assert_allclose(value, expected, atol=1e-4, rtol=1e-9)


def test_slopes_in_masses_are_those_of_values():
    """Of problems side by side and alone, with the effect of spreading taken out."""
    problems, rng = make_grids(), np.random.default_rng(0)
    beside = solve_grids(problems, 32)[1]
    for k, (z, mz, y, my) in enumerate(problems):
        # Mass moves along either side, all of which stays: slopes hold up to a level. Steps are
        # long: what the band leaves out is up to 1e-6 nats a row.
        moves = [rng.normal(size=len(masses)) * masses for masses in (mz, my)]
        moves = [move - masses * move.sum() / masses.sum() for move, masses in
                 zip(moves, (mz, my), strict=True)]  # fmt: skip

        def value(step, k=k, moves=moves):
            z, mz, y, my = problems[k]
            moved = (z, mz + step * moves[0], y, my + step * moves[1])
            return solve_grids([moved], 1)[0][0]

        expected = central_differences(lambda at: value(at[0]), np.zeros(1), 2e-2)[0]
        for sides, lane in ((beside, k), (solve_grids([problems[k]], 1)[1], 0)):
            slopes = sides[4, : len(z), lane] @ moves[0] + sides[5, : len(y), lane] @ moves[1]
            scale = np.abs(sides[4, : len(z), lane]) @ np.abs(moves[0])
            assert abs(slopes - expected) < 1e-2 * scale
