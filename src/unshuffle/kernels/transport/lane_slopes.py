"""Corrections and slopes of many small transport problems side by side: see `lanes`.

The same correction, effect of spreading and adjoint as in `lattice`.
"""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS, SIDE_BY_SIDE
from unshuffle.kernels.transport.correction import (
    ADJOINT_STEPS,
    ADJOINT_TOLERANCE,
    LEAST_CONDUCTANCE,
    correct,
    correct_slope,
)
from unshuffle.kernels.transport.coupling import LEAST
from unshuffle.kernels.transport.lanes import LANES, find_links, row_sums


@njit(**SIDE_BY_SIDE)
def _square_sums(band, start, ptr, over_z, over_y, rows, cols):
    """Write the sums of B² over_y along rows and of B² over_z along columns."""
    for j in range(cols.shape[0]):
        for k in range(LANES):
            rows[j, k], cols[j, k] = 0.0, 0.0
    for i in range(rows.shape[0]):
        here, total = over_z[i], rows[i]
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            line, there, out = band[t], over_y[j], cols[j]
            for k in range(LANES):
                square = line[k] * line[k]
                total[k] += square * there[k]
                out[k] += square * here[k]


@njit(**SIDE_BY_SIDE)
def invert(masses):
    """Return one over the masses, zero where there is none."""
    inverse = np.empty(masses.shape)
    for i in range(masses.shape[0]):
        for k in range(LANES):
            mass = masses[i, k]
            inverse[i, k] = 1.0 / max(mass, LEAST) if mass > 0.0 else 0.0
    return inverse


@njit(**SIDE_BY_SIDE)
def collide(band, start, ptr, per_mz, per_my):
    """Return the collision probabilities of rows and columns: see `lattice.collisions`."""
    qz, qy = np.empty(per_mz.shape), np.empty(per_my.shape)
    _square_sums(band, start, ptr, per_mz, per_my, qz, qy)
    for i in range(qz.shape[0]):
        for k in range(LANES):
            qz[i, k] *= per_mz[i, k] * per_mz[i, k]
            qy[i, k] *= per_my[i, k] * per_my[i, k]
    return qz, qy


@njit(**SIDE_BY_SIDE)
def add_corrections(qz, qy, mz, my, values):
    """Add the corrections of all rows and columns, which see different densities: averaged."""
    for i in range(mz.shape[0]):
        for k in range(LANES):
            values[k] += 0.5 * mz[i, k] * correct(qz[i, k])
            values[k] += 0.5 * my[i, k] * correct(qy[i, k])


@njit(**SIDE_BY_SIDE)
def centre(band, start, ptr, sides, per_mz):
    """Return the barycentres of rows and columns, and the columns' sums."""
    z, y = sides[0], sides[2]
    centre_z, centre_y, cols = np.zeros(z.shape), np.zeros(z.shape), np.zeros(z.shape)
    for i in range(z.shape[0]):
        here, total = z[i], centre_z[i]
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            line, there, other, column = band[t], y[j], centre_y[j], cols[j]
            for k in range(LANES):
                total[k] += line[k] * there[k]
            for k in range(LANES):
                other[k] += line[k] * here[k]
            for k in range(LANES):
                column[k] += line[k]
    for i in range(z.shape[0]):
        for k in range(LANES):
            centre_z[i, k] *= per_mz[i, k]
            centre_y[i, k] /= max(cols[i, k], LEAST)
    return centre_z, centre_y, cols


@njit(**SIDE_BY_SIDE)
def unspread(sides, centre_z, centre_y, cols, spread, values):
    """Add the first-order effect of spreading both sides, which is to be taken out."""
    z, mz, y = sides[0], sides[1], sides[2]
    for i in range(z.shape[0]):
        for k in range(LANES):
            own = z[i, k] * z[i, k] - centre_z[i, k] * centre_z[i, k] - 1.0
            other = y[i, k] * y[i, k] - centre_y[i, k] * centre_y[i, k]
            values[k] -= 0.5 * spread * (mz[i, k] * own + cols[i, k] * other - mz[i, k])


@njit(**SIDE_BY_SIDE)
def correction_gradients(band, start, ptr, qz, qy, sides, per_mz, per_my):
    """Return slopes of the corrections in log u and log v, then in the masses with B kept fixed.

    See `lattice.correction_gradients`.
    """
    mz, my = sides[1], sides[3]
    slope_z, slope_y = np.empty(mz.shape), np.empty(my.shape)
    gradient_z, gradient_y = np.empty(mz.shape), np.empty(my.shape)
    for i in range(mz.shape[0]):
        for k in range(LANES):
            slope_z[i, k] = correct_slope(qz[i, k]) * per_mz[i, k]
            slope_y[i, k] = correct_slope(qy[i, k]) * per_my[i, k]
    _square_sums(band, start, ptr, slope_z, slope_y, gradient_z, gradient_y)
    for q, masses, per, gradients, slopes in (
        (qz, mz, per_mz, gradient_z, slope_z),
        (qy, my, per_my, gradient_y, slope_y),
    ):
        for i in range(q.shape[0]):
            for k in range(LANES):
                own, other = correct_slope(q[i, k]) * q[i, k], gradients[i, k] * per[i, k]
                gradients[i, k] = own * masses[i, k] + other
                slopes[i, k] = 0.5 * correct(q[i, k]) - own - 0.5 * other * per[i, k]
    return gradient_z, gradient_y, slope_z, slope_y


@njit(**SIDE_BY_SIDE)
def add_gradients(band, start, ptr, sides, centre_z, centre_y, spread, gradient_z, gradient_y):
    """Add the slopes of the spreading's effect in log u and log v."""
    z, y = sides[0], sides[2]
    for i in range(z.shape[0]):
        here, middle, total = z[i], centre_z[i], gradient_z[i]
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            line, there, other, out = band[t], y[j], centre_y[j], gradient_y[j]
            for k in range(LANES):
                left, right = there[k] - middle[k], here[k] - other[k]
                entry = -0.5 * spread * line[k] * (left * left + right * right)
                total[k] += entry
                out[k] += entry


@njit(**SIDE_BY_SIDE)
def _apply(band, start, ptr, vector, cols, per_mz, rows, image):
    """Write B vector over the rows' masses into rows, (diag(cols) − B'(…)B) vector into image."""
    m = rows.shape[0]
    for j in range(m):
        for k in range(LANES):
            image[j, k] = cols[j, k] * vector[j, k]
    row_sums(band, start, ptr, vector, rows)
    for i in range(m):
        total, per, shift = rows[i], per_mz[i], start[i] - ptr[i]
        for k in range(LANES):
            total[k] *= per[k]
        for t in range(ptr[i], ptr[i + 1]):
            line, out = band[t], image[t + shift]
            for k in range(LANES):
                out[k] -= line[k] * total[k]


@njit(**SIDE_BY_SIDE)
def _precondition(path, cols, residual, out, work):
    """Write an approximate inverse times the residual: see `correction.precondition`."""
    flow, height = work[0], work[1]
    for k in range(LANES):
        flow[k], height[k] = 0.0, 0.0
    for j in range(out.shape[0]):
        found, mass, rest, link = out[j], cols[j], residual[j], path[j]
        for k in range(LANES):
            own = rest[k] / max(mass[k], 1e-200)
            found[k] = height[k] + (own if mass[k] > 1e-200 else 0.0)
            flow[k] += rest[k]
            drop = flow[k] / max(link[k], LEAST_CONDUCTANCE)
            height[k] -= drop if link[k] > LEAST_CONDUCTANCE else 0.0


@njit(**SIDE_BY_SIDE)
def _multiply(left, right, out):
    """Write the inner products."""
    for k in range(LANES):
        out[k] = 0.0
    for j in range(left.shape[0]):
        one, other = left[j], right[j]
        for k in range(LANES):
            out[k] += one[k] * other[k]


@njit(**OPTIONS, error_model="numpy")
def solve_adjoint(band, start, ptr, sides, per_mz, total, gradient_z, gradient_y):
    """Return the multipliers of the margins, rows and columns: see `lattice.solve_adjoint`."""
    mz, y, my = sides[1], sides[2], sides[3]
    m = y.shape[0]
    ones, cols, path = np.ones(y.shape), np.zeros(y.shape), np.empty(y.shape)
    found, residual, work, image = (
        np.zeros(y.shape), gradient_y.copy(), np.empty((3, LANES)), np.empty(y.shape),
    )  # fmt: skip
    for i in range(m):
        own, per = gradient_z[i], per_mz[i]
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            line, column, rest = band[t], cols[j], residual[j]
            for k in range(LANES):
                column[k] += line[k]
                rest[k] -= line[k] * (own[k] * per[k])
    for j in range(m):
        for k in range(LANES):
            residual[j, k] += cols[j, k] - my[j, k]
    find_links(band, start, ptr, ones, ones, mz, y, total, path, work)
    direction, better, rows = np.zeros(y.shape), np.empty(y.shape), np.empty(y.shape)
    size, bend, before, goal = np.empty(LANES), np.empty(LANES), np.ones(LANES), np.empty(LANES)
    is_done = np.zeros(LANES, np.bool_)
    for step in range(ADJOINT_STEPS):
        _precondition(path, cols, residual, better, work)
        _multiply(residual, better, size)
        n_open = 0
        for k in range(LANES):
            if step == 0:
                goal[k] = ADJOINT_TOLERANCE * ADJOINT_TOLERANCE * size[k]
            is_done[k] = is_done[k] or not size[k] > goal[k]
            n_open += not is_done[k]
        if n_open == 0:
            break
        for j in range(m):
            for k in range(LANES):
                share = size[k] / before[k] if step > 0 and not is_done[k] else 0.0
                direction[j, k] = better[j, k] + share * direction[j, k]
        _apply(band, start, ptr, direction, cols, per_mz, rows, image)
        _multiply(direction, image, bend)
        for k in range(LANES):
            is_done[k] = is_done[k] or not bend[k] > 0.0
            before[k] = size[k]
        for j in range(m):
            for k in range(LANES):
                share = 0.0 if is_done[k] else size[k] / bend[k]
                found[j, k] += share * direction[j, k]
                residual[j, k] -= share * image[j, k]
    row_sums(band, start, ptr, found, rows)
    for i in range(m):
        for k in range(LANES):
            rows[i, k] = (gradient_z[i, k] - rows[i, k]) * per_mz[i, k]
    return rows, found


@njit(**OPTIONS, error_model="numpy")
def point_gradients(band, start, ptr, sides, qz, qy, kept_z, kept_y, slopes, by_sigmas):
    """Fill the slopes in the points z, and those in log sigma: all entries count.

    For masses of one: see `diagonals.point_gradients`.
    """
    z, y = sides[0], sides[2]
    bend_z, bend_y = np.empty(z.shape), np.empty(y.shape)
    for k in range(LANES):
        by_sigmas[k] = 0.0
    for i in range(z.shape[0]):
        for k in range(LANES):
            bend_z[i, k], bend_y[i, k] = correct_slope(qz[i, k]), correct_slope(qy[i, k])
    for i in range(z.shape[0]):
        here, bend, kept, total = z[i], bend_z[i], kept_z[i], slopes[i]
        for k in range(LANES):
            total[k] = 0.0
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            line, there, other, beside = band[t], y[j], bend_y[j], kept_y[j]
            for k in range(LANES):
                gap, entry = there[k] - here[k], line[k]
                gradient = entry * (1.0 + entry * (bend[k] + other[k]) - kept[k] - beside[k]) * gap
                total[k] += gradient
                by_sigmas[k] += gradient * gap
