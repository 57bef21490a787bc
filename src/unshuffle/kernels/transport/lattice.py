"""Entropic transport between masses on a line, and its slopes, on a band by diagonals.

Sinkhorn's scaling (Cuturi 2013) with a preconditioned step, and the adjoint of its margins by
conjugate gradients.
"""

from math import asinh, exp, log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS
from unshuffle.kernels.transport.correction import (
    ADJOINT_STEPS,
    ADJOINT_TOLERANCE,
    correct,
    correct_slope,
    precondition,
)
from unshuffle.kernels.transport.coupling import (
    LONGEST,
    LONGEST_DROP,
    MAX_PASSES,
    ROUNDING,
    STEP_SHARE,
    monotone_potentials,
)
from unshuffle.kernels.transport.diagonals import (
    LANES,
    column_sums,
    conductances,
    lay_band,
    pad_columns,
    pad_rows,
    row_sums,
    scale_band,
    square_sums,
)

# Below this a step's logarithms and exponentials are short series: they err by a ten-millionth of
# themselves and decide on the way, not on the end. They took a third of the time.
_SMALL = 0.02


@njit(**OPTIONS)
def _aim(gaps, path, my, least, step):
    """Fill the move of log v that takes most of the columns' gaps away; return the slope along it.

    Where an eigenvalue of the path is e, that of S is about 1 - exp(-e): so 1 + 1/e inverts it
    within a third (see `diagonals.conductances`). The one is Sinkhorn's step, the other a flow
    along the path; a weak link answers exponentially, hence asinh.
    """
    flow, height, mean = 0.0, 0.0, 0.0
    for j in range(my.size):
        gap = gaps[j] / my[j]
        own = gap * (1.0 - gap * (0.5 - gap * (1.0 / 3.0 - 0.25 * gap)))
        if abs(gap) > _SMALL:
            own = log(max(1.0 + gap, 1e-300))
        step[j] = height - own
        mean += my[j] * step[j]
        flow += gaps[j]
        if j < path.size and path[j] > 0.0 and abs(flow) > least:
            drop = flow / path[j]
            drop = asinh(drop) if abs(drop) > _SMALL else drop * (1.0 - drop * drop / 6.0)
            height += min(max(drop, -LONGEST_DROP), LONGEST_DROP)
    mean /= my.sum()
    along = 0.0
    for j in range(my.size):
        step[j] = min(max(STEP_SHARE * (step[j] - mean), -LONGEST), LONGEST)
        along += gaps[j] * step[j]
    return along


@njit(**OPTIONS)
def _move(before, step, share, after):
    """Write values moved by steps of their logarithms."""
    for j in range(after.size):
        x = share * step[j]
        if abs(x) > _SMALL:
            after[j] = before[j] * exp(x)
        else:
            after[j] = before[j] * (1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x / 24.0))))


@njit(**OPTIONS)
def _match_margins(band, ptr, at, u, v, mz, y, my, tolerance):
    """Change u and v (padded) until the margins of u K v are right: those of rows exactly.

    With rows right, the value is a convex function of log v whose slopes are the columns' gaps.
    """
    n, n_rows = my.size, mz.size
    least = ROUNDING * mz.sum()
    own = v[LANES : LANES + n]
    rows, sums = np.empty(u.size), np.empty(v.size)
    gaps, step, path = np.empty(n), np.zeros(n), np.empty(0)
    before, expected, share = own.copy(), 0.0, 1.0
    for passes in range(MAX_PASSES):
        row_sums(band, ptr, at, v, rows)
        for i in range(n_rows):
            u[i] = mz[i] / max(rows[i], 1e-300)
        column_sums(band, ptr, at, u, sums)
        along = 0.0
        for j in range(n):
            gaps[j] = sums[LANES + j] * own[j] - my[j]
            along += gaps[j] * step[j]
        if along <= -0.5 * expected:
            if passes % 3 == 0 or share < 1.0:  # conductances change slowly
                path = conductances(band, ptr, at, u, v, y, my)
            expected, share = _aim(gaps, path, my, least, step), 1.0
            before[:] = own
        else:  # far beyond the lowest point of the line
            share *= 0.5
        _move(before, step, share, own)
        if share == 1.0 and expected > -tolerance:
            break
    row_sums(band, ptr, at, v, rows)
    for i in range(n_rows):
        u[i] = mz[i] / max(rows[i], 1e-300)


@njit(**OPTIONS)
def scale(z, mz, y, my, tolerance):
    """Return value, potentials and band of the coupling B = u K v with margins mz and my.

    The value is -sum mz log a - sum my log b, u = mz a and v = my b; the potentials are its slopes
    in the masses. Rows are exact, columns within the tolerance (nats that the last step may gain).
    Masses may be any positive numbers, points ascend, sigma is one.
    """
    n = my.size
    alpha, beta, first, last = monotone_potentials(z, mz, y, my)
    band, ptr, at = lay_band(z, y, alpha, beta, first, last)
    u, places = pad_rows(mz, 0.0), pad_columns(y, 0.0)
    v = np.empty(places.size)
    column_sums(band, ptr, at, u, v)
    for j in range(v.size):
        is_one = LANES <= j < LANES + n
        v[j] = my[j - LANES] / max(v[j], 1e-300) if is_one else 0.0
    _match_margins(band, ptr, at, u, v, mz, places, my, tolerance)
    alpha += np.log(u[: mz.size] / mz)
    beta += np.log(v[LANES : LANES + n] / my)
    value = -(mz * alpha).sum() - (my * beta).sum()
    scale_band(band, ptr, at, u, v)
    return value, -alpha, -beta, band, ptr, at


@njit(**OPTIONS)
def collisions(band, ptr, at, mz, my):
    """Return the collision probabilities of rows and columns: sum_j B_ij^2 / (my_j mz_i^2)."""
    per_mz, per_my = 1.0 / mz, 1.0 / my
    over_z, over_y = pad_rows(per_mz, 0.0), pad_columns(per_my, 0.0)
    rows, cols = np.empty(over_z.size), np.empty(over_y.size)
    square_sums(band, ptr, at, over_z, over_y, rows, cols)
    cols = cols[LANES : LANES + my.size]
    return rows[: mz.size] * per_mz * per_mz, cols * per_my * per_my


@njit(**OPTIONS)
def variances(band, ptr, at, z, mz, y):
    """Return barycentres of rows and columns, and the summed variances given rows and columns."""
    places, others = pad_columns(y, 0.0), pad_rows(z, 0.0)
    rows, sums, cols = np.empty(others.size), np.empty(places.size), np.empty(places.size)
    row_sums(band, ptr, at, places, rows)
    column_sums(band, ptr, at, others, sums)
    column_sums(band, ptr, at, np.ones(others.size), cols)
    own = slice(LANES, LANES + y.size)
    centre_z, centre_y = rows[: z.size] / mz, sums[own] / cols[own]
    by_row, by_column = 0.0, 0.0
    for i in range(z.size):
        by_row -= mz[i] * centre_z[i] * centre_z[i]
        by_column += mz[i] * z[i] * z[i]
    for j in range(y.size):
        by_row += cols[LANES + j] * y[j] * y[j]
        by_column -= cols[LANES + j] * centre_y[j] * centre_y[j]
    return centre_z, centre_y, by_row, by_column


@njit(**OPTIONS)
def correction_gradients(band, ptr, at, qz, qy, mz, my):
    """Return slopes of the corrections in log u and log v, then in the masses with B kept fixed."""
    slope_z, slope_y = np.empty(mz.size), np.empty(my.size)
    for i in range(mz.size):
        slope_z[i] = correct_slope(qz[i])
    for j in range(my.size):
        slope_y[j] = correct_slope(qy[j])
    over_z, over_y = pad_rows(slope_z / mz, 0.0), pad_columns(slope_y / my, 0.0)
    rows, cols = np.empty(over_z.size), np.empty(over_y.size)
    square_sums(band, ptr, at, over_z, over_y, rows, cols)
    gradient_z, gradient_y = rows[: mz.size].copy(), cols[LANES : LANES + my.size].copy()
    for i in range(mz.size):
        own, other = slope_z[i] * qz[i], gradient_z[i] / mz[i]
        gradient_z[i] = own * mz[i] + other
        slope_z[i] = 0.5 * correct(qz[i]) - own - 0.5 * other / mz[i]
    for j in range(my.size):
        own, other = slope_y[j] * qy[j], gradient_y[j] / my[j]
        gradient_y[j] = own * my[j] + other
        slope_y[j] = 0.5 * correct(qy[j]) - own - 0.5 * other / my[j]
    return gradient_z, gradient_y, slope_z, slope_y


@njit(**OPTIONS)
def add_gradients(band, ptr, at, z, y, centre_z, centre_y, spreads, gradient_z, gradient_y):
    """Add the slopes of the spreading's effect in log u and log v."""
    spread_z, spread_y = -0.5 * spreads[0], -0.5 * spreads[1]
    rows, columns = pad_rows(z, 0.0), pad_columns(y, 0.0)
    row_centres, column_centres = pad_rows(centre_z, 0.0), pad_columns(centre_y, 0.0)
    by_row, by_column = np.zeros(rows.size), np.zeros(columns.size)
    for b in range(at.size):
        own = slice(b * LANES, (b + 1) * LANES)
        here, centre, total = rows[own], row_centres[own], by_row[own]
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            there, other = columns[j : j + LANES], column_centres[j : j + LANES]
            out = by_column[j : j + LANES]
            for k in range(LANES):
                left, right = there[k] - centre[k], here[k] - other[k]
                entry = line[k] * (spread_z * left * left + spread_y * right * right)
                total[k] += entry
                out[k] += entry
    gradient_z += by_row[: z.size]
    gradient_y += by_column[LANES : LANES + y.size]


@njit(**OPTIONS)
def _inner(left, right):
    """Return the inner product."""
    total = 0.0
    for j in range(left.size):
        total += left[j] * right[j]
    return total


@njit(**OPTIONS)
def solve_adjoint(band, ptr, at, mz, my, y, gradient_z, gradient_y):
    """Return the multipliers of the margins: slopes in the masses of a value with these gradients.

    The gradients are slopes in log u and log v; the margins' own answer to these is
    H = [diag(mz) B; B' diag(my)], and H (rows, cols) = (gradient_z, gradient_y). It is solved by
    conjugate gradients on the columns' Schur complement. The gap that scaling left in the columns
    counts too, which makes the slope of the dual right to second order.
    """
    n, own = my.size, slice(LANES, LANES + my.size)
    ones, columns = pad_rows(np.ones(mz.size), 0.0), pad_columns(y, 0.0)
    sums, rows, per_mz = np.empty(columns.size), np.empty(ones.size), pad_rows(1.0 / mz, 0.0)
    column_sums(band, ptr, at, ones, sums)
    cols = sums[own].copy()
    column_sums(band, ptr, at, pad_rows(gradient_z, 0.0) * per_mz, sums)
    residual = gradient_y + (cols - my) - sums[own]
    path = conductances(band, ptr, at, ones, pad_columns(np.ones(n), 0.0), columns, my)
    found, image, work, padded = np.zeros(n), np.empty(n), np.empty(n), np.zeros(columns.size)
    precondition(path, cols, residual, work)
    direction = work.copy()
    size = _inner(residual, work)
    goal = ADJOINT_TOLERANCE * ADJOINT_TOLERANCE * size
    for _ in range(ADJOINT_STEPS):
        if not size > goal:
            break
        padded[own] = direction
        row_sums(band, ptr, at, padded, rows)
        column_sums(band, ptr, at, rows * per_mz, sums)
        image[:] = cols * direction - sums[own]
        bend = _inner(direction, image)
        if not bend > 0.0:
            break
        found += size / bend * direction
        residual -= size / bend * image
        precondition(path, cols, residual, work)
        before, size = size, _inner(residual, work)
        direction[:] = work + size / before * direction
    padded[own] = found
    row_sums(band, ptr, at, padded, rows)
    return (gradient_z - rows[: mz.size]) / mz, found
