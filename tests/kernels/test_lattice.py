"""Couplings on a band by diagonals: they are those on a band by rows."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose

from unshuffle.kernels.transport import correction, coupling, diagonals, lattice
from unshuffle.kernels.transport.diagonals import LANES

# Narrow, wide, far too narrow and far too wide predictions; two clusters that hardly meet; one
# node; nodes far from all others.
CASES = ["few", "fits", "narrow", "wide", "clusters", "one", "far"]


# Python cannot call functions that only kernels call.
@njit(cache=True)
def find_gauge(z, mz, y, my):
    return coupling.monotone_potentials(z, mz, y, my)


@njit(cache=True)
def lay_rows(z, y, alpha, beta, first, last):
    return coupling._band_kernel(z, y, alpha, beta, first, last)


@njit(cache=True)
def scale_rows(z, mz, y, my, tolerance):
    return coupling.scale(z, mz, y, my, tolerance)


@njit(cache=True)
def correct_rows(band, start, ptr, mz, my):
    qz, qy = correction.collisions(band, start, ptr, mz, my)
    return qz, qy, *correction.pull_corrections(band, start, ptr, qz, qy, mz, my)


@njit(cache=True)
def weigh_rows(band, start, ptr, u, v, y):
    return coupling.conductances(band, start, ptr, u, v, y)


def make_masses(case):
    """Return nodes and masses of predictions and labels of one case, both ascending."""
    rng = np.random.default_rng(CASES.index(case))
    n = {"few": 5, "one": 1}.get(case, 150)
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


def unroll(band, ptr, at, n_rows, n_columns):
    """Return a band by diagonals as a matrix."""
    matrix = np.zeros((n_rows, n_columns))
    for b in range(len(at)):
        for t in range(ptr[b], ptr[b + 1]):
            for k in range(LANES):
                i, j = b * LANES + k, at[b] + t - ptr[b] + k - LANES
                if i < n_rows and 0 <= j < n_columns:
                    matrix[i, j] = band[t, k]
                else:
                    assert band[t, k] == 0.0
    return matrix


def unroll_rows(band, start, ptr, n_columns):
    """Return a band by rows as a matrix."""
    matrix = np.zeros((len(start), n_columns))
    for i in range(len(start)):
        matrix[i, start[i] : start[i] + ptr[i + 1] - ptr[i]] = band[ptr[i] : ptr[i + 1]]
    return matrix


@pytest.mark.parametrize("case", CASES)
def test_both_bands_hold_the_same_kernel(case):
    z, mz, y, my = make_masses(case)
    gauge = find_gauge(z, mz, y, my)
    rows = lay_rows(z, y, *gauge)
    found = unroll(*diagonals.lay_band(z, y, *gauge), len(z), len(y))
    # Potentials of thousands round to 1e-10 of an exponent.
    assert_allclose(found, unroll_rows(*rows, len(y)), rtol=1e-8)


@pytest.mark.parametrize("case", CASES)
def test_scaling_by_diagonals_is_that_by_rows(case):
    z, mz, y, my = make_masses(case)
    value, *_, band, start, ptr = scale_rows(z, mz, y, my, coupling.PRECISE)
    expected = unroll_rows(band, start, ptr, len(y))
    found, *_, band, ptr, at = lattice.scale(z, mz, y, my, coupling.PRECISE)
    matrix = unroll(band, ptr, at, len(z), len(y))
    # Both end when a step gains less than 1e-6 nats.
    assert_allclose(found, value, atol=1e-5, rtol=1e-10)
    assert_allclose(matrix.sum(axis=1), mz, rtol=1e-10)
    assert np.abs(matrix.sum(axis=0) - my).sum() <= 1.0
    if case != "narrow":  # whose last steps hardly move the value
        assert_allclose(matrix, expected, atol=1e-3 * expected.max())


@pytest.mark.parametrize("case", CASES)
def test_slopes_by_diagonals_are_those_by_rows(case):
    z, mz, y, my = make_masses(case)
    gauge = find_gauge(z, mz, y, my)
    by_rows = lay_rows(z, y, *gauge)
    by_lines = diagonals.lay_band(z, y, *gauge)
    qz, qy = lattice.collisions(*by_lines, mz, my)
    found = (qz, qy, *lattice.pull_corrections(*by_lines, qz, qy, mz, my))
    for mine, expected in zip(found, correct_rows(*by_rows, mz, my), strict=True):
        assert_allclose(mine, expected, rtol=1e-7)


@pytest.mark.parametrize("case", CASES)
def test_links_are_weighed_alike_at_once_and_row_by_row(case):
    z, mz, y, my = make_masses(case)
    gauge = find_gauge(z, mz, y, my)
    expected = weigh_rows(*lay_rows(z, y, *gauge), mz, my, y)
    args = (
        *diagonals.lay_band(z, y, *gauge), diagonals.pad_rows(mz, 0.0),
        diagonals.pad_columns(my, 0.0), diagonals.pad_columns(y, 0.0),
    )  # fmt: skip
    row_by_row = diagonals._weigh_links(*args, len(y))
    assert_allclose(row_by_row, expected, rtol=1e-7)
    # At once they may lack what rounds away beside all mass, unless that joins two clusters.
    assert_allclose(diagonals.conductances(*args, my), expected, rtol=1e-7, atol=1e-8)
