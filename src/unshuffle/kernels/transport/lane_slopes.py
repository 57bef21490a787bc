"""Corrections and slopes of many small transport problems side by side: see `lanes`.

The same correction, effect of spreading and adjoint as in `lattice`.
"""

from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.correction import (
    ADJOINT_STEPS,
    ADJOINT_TOLERANCE,
    LEAST_CONDUCTANCE,
    correct,
    correct_slope,
)
from unshuffle.kernels.transport.coupling import LEAST
from unshuffle.kernels.transport.lanes import LANES, find_links, row_sums


@njit(**INNER)
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


@njit(**INNER)
def invert(masses, inverse):
    """Write one over the masses, zero where there is none."""
    for i in range(masses.shape[0]):
        for k in range(LANES):
            mass = masses[i, k]
            inverse[i, k] = 1.0 / max(mass, LEAST) if mass > 0.0 else 0.0


@njit(**INNER)
def collide(band, start, ptr, per_mz, per_my, qz, qy):
    """Write the collision probabilities of rows and columns: see `lattice.collisions`."""
    _square_sums(band, start, ptr, per_mz, per_my, qz, qy)
    for i in range(qz.shape[0]):
        for k in range(LANES):
            qz[i, k] *= per_mz[i, k] * per_mz[i, k]
            qy[i, k] *= per_my[i, k] * per_my[i, k]


@njit(**INNER)
def add_corrections(qz, qy, mz, my, values):
    """Add the corrections of all rows and columns, which see different densities: averaged."""
    for i in range(mz.shape[0]):
        for k in range(LANES):
            values[k] += 0.5 * mz[i, k] * correct(qz[i, k])
            values[k] += 0.5 * my[i, k] * correct(qy[i, k])


@njit(**INNER)
def centre(band, start, ptr, sides, per_mz, centre_z, centre_y, cols):
    """Write the barycentres of rows and columns, and the columns' sums."""
    z, y = sides[0], sides[2]
    for i in range(z.shape[0]):
        for k in range(LANES):
            centre_z[i, k], centre_y[i, k], cols[i, k] = 0.0, 0.0, 0.0
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


@njit(**INNER)
def unspread(sides, centre_z, centre_y, cols, spread, values):
    """Add the first-order effect of spreading both sides, which is to be taken out."""
    z, mz, y = sides[0], sides[1], sides[2]
    for i in range(z.shape[0]):
        for k in range(LANES):
            own = z[i, k] * z[i, k] - centre_z[i, k] * centre_z[i, k] - 1.0
            other = y[i, k] * y[i, k] - centre_y[i, k] * centre_y[i, k]
            values[k] -= 0.5 * spread * (mz[i, k] * own + cols[i, k] * other - mz[i, k])


@njit(**INNER)
def _finish(q, masses, per, gradients, slopes):
    """Turn sums along rows or columns into the slopes of the corrections in their logs."""
    for i in range(q.shape[0]):
        for k in range(LANES):
            own, other = correct_slope(q[i, k]) * q[i, k], gradients[i, k] * per[i, k]
            gradients[i, k] = own * masses[i, k] + other
            slopes[i, k] = 0.5 * correct(q[i, k]) - own - 0.5 * other * per[i, k]


@njit(**INNER)
def correction_gradients(
    band, start, ptr, qz, qy, sides, per_mz, per_my, gradient_z, gradient_y, slope_z, slope_y
):
    """Fill slopes of the corrections in log u and log v, then in the masses with B kept fixed.

    See `lattice.correction_gradients`.
    """
    for i in range(qz.shape[0]):
        for k in range(LANES):
            slope_z[i, k] = correct_slope(qz[i, k]) * per_mz[i, k]
            slope_y[i, k] = correct_slope(qy[i, k]) * per_my[i, k]
    _square_sums(band, start, ptr, slope_z, slope_y, gradient_z, gradient_y)
    _finish(qz, sides[1], per_mz, gradient_z, slope_z)
    _finish(qy, sides[3], per_my, gradient_y, slope_y)


@njit(**INNER)
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


@njit(**INNER)
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


@njit(**INNER)
def _precondition(path, cols, residual, out, size, few):
    """Write an approximate inverse times the residual, and the inner product of both.

    See `correction.precondition`.
    """
    flow, height = few[0], few[1]
    for k in range(LANES):
        flow[k], height[k], size[k] = 0.0, 0.0, 0.0
    for j in range(out.shape[0]):
        found, mass, rest, link = out[j], cols[j], residual[j], path[j]
        for k in range(LANES):
            own = rest[k] / max(mass[k], 1e-200)
            found[k] = height[k] + (own if mass[k] > 1e-200 else 0.0)
            size[k] += rest[k] * found[k]
            flow[k] += rest[k]
            drop = flow[k] / max(link[k], LEAST_CONDUCTANCE)
            height[k] -= drop if link[k] > LEAST_CONDUCTANCE else 0.0


@njit(**OPTIONS)
def solve_adjoint(band, start, ptr, sides, per_mz, gradient_z, gradient_y, room, few):
    """Return the multipliers of the margins, rows and columns: see `lattice.solve_adjoint`.

    ``room`` and ``few`` are those of `match_margins`.
    """
    mz, y, my = sides[1], sides[2], sides[3]
    m = y.shape[0]
    rows, found, residual, path = room[0], room[1], room[2], room[3]
    cols, image, direction, better = room[4], room[5], room[6], room[7]
    total, size, bend, before, goal = few[3], few[4], few[5], few[6], few[7]
    for j in range(m):
        for k in range(LANES):
            residual[j, k], cols[j, k], better[j, k] = gradient_y[j, k], 0.0, 1.0
            found[j, k], direction[j, k] = 0.0, 0.0
    for i in range(m):
        own, per, shift = gradient_z[i], per_mz[i], start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            line, column, rest = band[t], cols[t + shift], residual[t + shift]
            for k in range(LANES):
                column[k] += line[k]
                rest[k] -= line[k] * (own[k] * per[k])
    for j in range(m):
        for k in range(LANES):
            residual[j, k] += cols[j, k] - my[j, k]
    find_links(band, start, ptr, better, better, mz, y, total, better[0], image, path, few)
    for step in range(ADJOINT_STEPS):
        _precondition(path, cols, residual, better, size, few)
        n_open = 0
        for k in range(LANES):
            if step == 0:
                goal[k] = ADJOINT_TOLERANCE * ADJOINT_TOLERANCE * size[k]
                before[k] = 1.0
            # Nothing is left to do once the size is zero.
            size[k] = size[k] if size[k] > goal[k] and before[k] > 0.0 else 0.0
            n_open += size[k] > 0.0
        if n_open == 0:
            break
        for j in range(m):
            for k in range(LANES):
                share = size[k] / before[k] if size[k] > 0.0 and step > 0 else 0.0
                direction[j, k] = better[j, k] + share * direction[j, k]
        _apply(band, start, ptr, direction, cols, per_mz, rows, image)
        for k in range(LANES):
            bend[k] = 0.0
        for j in range(m):
            for k in range(LANES):
                bend[k] += direction[j, k] * image[j, k]
        for k in range(LANES):
            before[k] = size[k] if bend[k] > 0.0 else 0.0
        for j in range(m):
            for k in range(LANES):
                share = before[k] / bend[k] if before[k] > 0.0 else 0.0
                found[j, k] += share * direction[j, k]
                residual[j, k] -= share * image[j, k]
    row_sums(band, start, ptr, found, rows)
    for i in range(m):
        for k in range(LANES):
            rows[i, k] = (gradient_z[i, k] - rows[i, k]) * per_mz[i, k]
    return rows, found


@njit(**OPTIONS)
def point_gradients(band, start, ptr, sides, qz, qy, kept_z, kept_y, slopes, by_sigmas):
    """Fill the slopes in the points z, and those in log sigma: all entries count.

    For masses of one: see `diagonals.point_gradients`. The collision probabilities are written
    over.
    """
    z, y = sides[0], sides[2]
    for k in range(LANES):
        by_sigmas[k] = 0.0
    for i in range(z.shape[0]):
        for k in range(LANES):
            qz[i, k], qy[i, k] = correct_slope(qz[i, k]), correct_slope(qy[i, k])
    for i in range(z.shape[0]):
        here, bend, kept, total = z[i], qz[i], kept_z[i], slopes[i]
        for k in range(LANES):
            total[k] = 0.0
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            line, there, other, beside = band[t], y[j], qy[j], kept_y[j]
            for k in range(LANES):
                gap, entry = there[k] - here[k], line[k]
                gradient = entry * (1.0 + entry * (bend[k] + other[k]) - kept[k] - beside[k]) * gap
                total[k] += gradient
                by_sigmas[k] += gradient * gap
