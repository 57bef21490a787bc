"""Slopes of many small bags of one size side by side, a bag in every lane: see `lanes`.

The same correction and adjoint as `correction`, for masses of one.
"""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import SIDE_BY_SIDE
from unshuffle.kernels.transport.correction import ADJOINT_STEPS, ADJOINT_TOLERANCE, correct_slope
from unshuffle.kernels.transport.lanes import LANES, find_links

# Over links weaker than this only rounding flows: see `correction.precondition`.
_LEAST_CONDUCTANCE = 1e-9


@njit(**SIDE_BY_SIDE)
def square_sums(band, start, ptr, over_z, over_y, rows, cols):
    """Write the sums of B² over_y along rows and of B² over_z along columns."""
    m = rows.shape[0]
    for j in range(m):
        for k in range(LANES):
            rows[j, k], cols[j, k] = 0.0, 0.0
    for i in range(m):
        here, total = over_z[i], rows[i]
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            line, there, out = band[t], over_y[j], cols[j]
            for k in range(LANES):
                square = line[k] * line[k]
                total[k] += square * there[k]
                out[k] += square * here[k]


@njit(**SIDE_BY_SIDE)
def _apply(band, start, ptr, vector, cols, rows, image):
    """Write B vector into rows, and (diag(cols) − B'B) vector into the image."""
    m = rows.shape[0]
    for j in range(m):
        for k in range(LANES):
            image[j, k] = cols[j, k] * vector[j, k]
    for i in range(m):
        total, shift = rows[i], start[i] - ptr[i]
        for k in range(LANES):
            total[k] = 0.0
        for t in range(ptr[i], ptr[i + 1]):
            line, there = band[t], vector[t + shift]
            for k in range(LANES):
                total[k] += line[k] * there[k]
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
            drop = flow[k] / max(link[k], _LEAST_CONDUCTANCE)
            height[k] -= drop if link[k] > _LEAST_CONDUCTANCE else 0.0


@njit(**SIDE_BY_SIDE)
def _multiply(left, right, out):
    """Write the inner products."""
    for k in range(LANES):
        out[k] = 0.0
    for j in range(left.shape[0]):
        one, other = left[j], right[j]
        for k in range(LANES):
            out[k] += one[k] * other[k]


@njit(**SIDE_BY_SIDE)
def _solve_adjoint(band, start, ptr, y, pull_z, pull_y, found):
    """Fill the multipliers of columns and return those of rows: see `correction.solve_adjoint`."""
    m = y.shape[0]
    ones, cols, path = np.ones(y.shape), np.zeros(y.shape), np.empty(y.shape)
    residual, work, image = pull_y.copy(), np.empty((3, LANES)), np.empty(y.shape)
    for i in range(m):
        own = pull_z[i]
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            line, total, rest = band[t], cols[j], residual[j]
            for k in range(LANES):
                total[k] += line[k]
                rest[k] -= line[k] * own[k]
    for j in range(m):
        for k in range(LANES):
            residual[j, k] += cols[j, k] - 1.0
            found[j, k] = 0.0
    find_links(band, start, ptr, ones, ones, y, path, work)
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
        _apply(band, start, ptr, direction, cols, rows, image)
        _multiply(direction, image, bend)
        for k in range(LANES):
            is_done[k] = is_done[k] or not bend[k] > 0.0
            before[k] = size[k]
        for j in range(m):
            for k in range(LANES):
                share = 0.0 if is_done[k] else size[k] / bend[k]
                found[j, k] += share * direction[j, k]
                residual[j, k] -= share * image[j, k]
    _apply(band, start, ptr, found, cols, rows, image)
    for i in range(m):
        for k in range(LANES):
            rows[i, k] = pull_z[i, k] - rows[i, k]
    return rows


@njit(**SIDE_BY_SIDE)
def fill_slopes(band, start, ptr, z, y, qz, qy, stretches, slopes):
    """Fill the slopes of corrected values in z, and add those in log sigma to the stretches.

    ``qz`` and ``qy`` are the sums of squares along the coupling's rows and columns.
    """
    m = z.shape[0]
    bend_z, bend_y = np.empty(z.shape), np.empty(z.shape)
    for i in range(m):
        for k in range(LANES):
            bend_z[i, k], bend_y[i, k] = correct_slope(qz[i, k]), correct_slope(qy[i, k])
    pull_z, pull_y, held_y = np.empty(z.shape), np.empty(z.shape), np.empty(z.shape)
    square_sums(band, start, ptr, bend_z, bend_y, pull_z, pull_y)
    for i in range(m):
        for k in range(LANES):
            pull_z[i, k] += bend_z[i, k] * qz[i, k]
            pull_y[i, k] += bend_y[i, k] * qy[i, k]
    held_z = _solve_adjoint(band, start, ptr, y, pull_z, pull_y, held_y)
    for i in range(m):
        here, bend, held, total = z[i], bend_z[i], held_z[i], slopes[i]
        for k in range(LANES):
            total[k] = 0.0
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            line, there, other, beside = band[t], y[j], bend_y[j], held_y[j]
            for k in range(LANES):
                gap = there[k] - here[k]
                entry = line[k]
                pull = entry * (1.0 + entry * (bend[k] + other[k]) - held[k] - beside[k]) * gap
                total[k] += pull
                stretches[k] += pull * gap
