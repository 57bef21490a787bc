"""The log permanent of a bag: entropic transport, a local correction, and the slopes of both."""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER
from unshuffle.kernels.transport.coupling import column_sums, conductances, row_sums

# Slope of the local correction at q = 0: zeta(3/2)/2 from the one-loop determinant of a Gaussian
# band.
_C1 = 1.306
# Quadratic and cubic terms from g(1) = 0 (a permutation needs no correction) and g'(1) = 1/2 (rare
# swaps).
_C2 = -0.112
_C3 = -0.194
# The adjoint is solved to this share of its right-hand side: five to ten steps.
ADJOINT_TOLERANCE = 1e-4
ADJOINT_STEPS = 50
# Over links weaker than this only rounding flows.
LEAST_CONDUCTANCE = 1e-9


@njit(**INNER)
def correct(q):
    """Return log perm(B) per row from the row's collision probability q = sum_j B_ij^2.

    Wide bands: -1 + q zeta(3/2)/2 (the one-loop determinant -1/2 log det(I - B'B) of a Gaussian
    band, of which Bethe's q/2 is only the first term); permutations: 0; rare swaps: slope 1/2,
    which also continues it where a node of a grid holds less than one row.
    """
    if q > 1.0:
        return 0.5 * (q - 1.0)
    return -1.0 + q * (_C1 + q * (_C2 + q * _C3))


@njit(**INNER)
def correct_slope(q):
    """Return the derivative of the correction."""
    return 0.5 if q > 1.0 else _C1 + q * (2.0 * _C2 + q * 3.0 * _C3)


@njit(**INNER)
def collisions(band, start, ptr, mz, my):
    """Return the collision probabilities of rows and columns: sum_j B_ij^2 / (my_j mz_i^2)."""
    rows, cols, per_my = np.empty(mz.size), np.zeros(my.size), np.empty(my.size)
    for j in range(my.size):
        per_my[j] = 1.0 / my[j]
    for i in range(mz.size):
        lo, st, per_mz = ptr[i], start[i], 1.0 / mz[i]
        total = 0.0
        for t in range(ptr[i + 1] - lo):
            square = band[lo + t] * band[lo + t]
            total += square * per_my[st + t]
            cols[st + t] += square * per_mz
        rows[i] = total * per_mz * per_mz
    for j in range(my.size):
        cols[j] = cols[j] * per_my[j] * per_my[j]
    return rows, cols


@njit(**INNER)
def add_corrections(qz, qy, mz, my):
    """Return the corrections of all rows and columns, which see different densities: averaged."""
    total = 0.0
    for i in range(mz.size):
        total += 0.5 * mz[i] * correct(qz[i])
    for j in range(my.size):
        total += 0.5 * my[j] * correct(qy[j])
    return total


@njit(**INNER)
def _square_sums(band, start, ptr, over_z, over_y, rows, cols):
    """Write the sums of B^2 over_y along rows and of B^2 over_z along columns."""
    for j in range(cols.size):
        cols[j] = 0.0
    for i in range(rows.size):
        lo, st, factor = ptr[i], start[i], over_z[i]
        total = 0.0
        for t in range(ptr[i + 1] - lo):
            square = band[lo + t] * band[lo + t]
            total += square * over_y[st + t]
            cols[st + t] += square * factor
        rows[i] = total


@njit(**INNER)
def pull_corrections(band, start, ptr, qz, qy, mz, my):
    """Return slopes of the corrections in log u and log v, then in the masses with B held fixed."""
    pull_z, pull_y = np.empty(mz.size), np.empty(my.size)
    slope_z, slope_y = np.empty(mz.size), np.empty(my.size)
    for i in range(mz.size):
        slope_z[i] = correct_slope(qz[i]) / mz[i]
    for j in range(my.size):
        slope_y[j] = correct_slope(qy[j]) / my[j]
    _square_sums(band, start, ptr, slope_z, slope_y, pull_z, pull_y)
    for i in range(mz.size):
        own, other = correct_slope(qz[i]) * qz[i], pull_z[i] / mz[i]
        pull_z[i] = own * mz[i] + other
        slope_z[i] = 0.5 * correct(qz[i]) - own - 0.5 * other / mz[i]
    for j in range(my.size):
        own, other = correct_slope(qy[j]) * qy[j], pull_y[j] / my[j]
        pull_y[j] = own * my[j] + other
        slope_y[j] = 0.5 * correct(qy[j]) - own - 0.5 * other / my[j]
    return pull_z, pull_y, slope_z, slope_y


@njit(**INNER)
def precondition(path, cols, residual, out):
    """Write an approximate inverse of S times the residual: see ``conductances``."""
    flow, height = 0.0, 0.0
    for j in range(out.size):
        # A label that no prediction reaches has no mass left: it cannot be preconditioned.
        out[j] = height + (residual[j] / cols[j] if cols[j] > 1e-200 else 0.0)
        flow += residual[j]
        if j < path.size and path[j] > LEAST_CONDUCTANCE:
            height -= flow / path[j]


@njit(**INNER)
def _inner(left, right):
    """Return the inner product."""
    total = 0.0
    for j in range(left.size):
        total += left[j] * right[j]
    return total


@njit(**INNER)
def solve_adjoint(band, start, ptr, mz, my, y, pull_z, pull_y):
    """Return the multipliers of the margins: slopes in the masses of a value with these pulls.

    The pulls are slopes in log u and log v; the margins' own answer to these is
    H = [diag(mz) B; B' diag(my)], so that H (rows, cols) = (pull_z, pull_y). By conjugate gradients
    on the columns' Schur complement. The gap that scaling left in the columns pulls too, which
    makes the slope of the dual right to second order.
    """
    nz, ny = mz.size, my.size
    rows, cols, image, work = np.empty(nz), np.empty(ny), np.empty(ny), np.empty(ny)
    found, residual, direction, one = np.empty(ny), np.empty(ny), np.empty(ny), np.empty(ny)
    for i in range(nz):
        rows[i] = 1.0
    column_sums(band, start, ptr, rows, cols)
    for j in range(ny):
        one[j] = 1.0
    path = conductances(band, start, ptr, rows, one, y)
    for i in range(nz):
        rows[i] = pull_z[i] / mz[i]
    column_sums(band, start, ptr, rows, image)
    for j in range(ny):
        residual[j] = pull_y[j] + (cols[j] - my[j]) - image[j]
        found[j], direction[j] = 0.0, 0.0
    goal, before = 0.0, np.inf
    for step in range(ADJOINT_STEPS + 1):
        precondition(path, cols, residual, work)
        size = _inner(residual, work)
        if step == 0:
            goal = ADJOINT_TOLERANCE * ADJOINT_TOLERANCE * size
        for j in range(ny):
            direction[j] = work[j] + size / before * direction[j]
        before = size
        if step == ADJOINT_STEPS or not size > goal:
            break
        row_sums(band, start, ptr, direction, rows)
        for i in range(nz):
            rows[i] /= mz[i]
        column_sums(band, start, ptr, rows, image)
        for j in range(ny):
            image[j] = cols[j] * direction[j] - image[j]
        bend = _inner(direction, image)
        if not bend > 0.0:
            break
        for j in range(ny):
            found[j] += size / bend * direction[j]
            residual[j] -= size / bend * image[j]
    row_sums(band, start, ptr, found, rows)
    for i in range(nz):
        rows[i] = (pull_z[i] - rows[i]) / mz[i]
    return rows, found


@njit(**INNER)
def pull_points(band, start, ptr, z, y, qz, qy, held_z, held_y, slopes):
    """Fill the slopes in z and return that in log sigma: every entry of the kernel pulls.

    An entry's pull is B (1 + slope of the corrections in B - multipliers of its margins).
    """
    stretch = 0.0
    bend_y = np.empty(y.size)
    for j in range(y.size):
        bend_y[j] = correct_slope(qy[j])
    for i in range(z.size):
        lo, st, here, bend, held = ptr[i], start[i], z[i], correct_slope(qz[i]), held_z[i]
        total = 0.0
        for t in range(ptr[i + 1] - lo):
            entry, gap = band[lo + t], y[st + t] - here
            pull = entry * (1.0 + entry * (bend + bend_y[st + t]) - held - held_y[st + t])
            total += pull * gap
            stretch += pull * gap * gap
        slopes[i] = total
    return stretch
