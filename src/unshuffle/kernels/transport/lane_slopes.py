"""Corrections and slopes of many small transport problems side by side: see `lanes`.

The same correction, effect of spreading and adjoint as in `sinkhorn` and `model.transport`.
"""

from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.correction import (
    ADJOINT_STEPS,
    ADJOINT_TOLERANCE,
    C1,
    C2,
    C3,
    LEAST_CONDUCTANCE,
)
from unshuffle.kernels.transport.coupling import LEAST
from unshuffle.kernels.transport.lanes import (
    ASKED,
    EXPECTED,
    SHARE,
    add_row,
    any_positive,
    clear,
    find_links,
    row_sums,
)
from unshuffle.kernels.transport.vectors import choose, fill, read, write


@njit(**INNER)
def correct(q):
    """Return the corrections: see `correction.correct`."""
    return choose(q, 1.0, 0.5 * (q - 1.0), -1.0 + q * (C1 + q * (C2 + q * C3)))


@njit(**INNER)
def correct_slope(q):
    """Return their slopes."""
    return choose(q, 1.0, 0.5, C1 + q * (2.0 * C2 + q * (3.0 * C3)))


@njit(**INNER)
def square_sums(band, start, ptr, over_z, over_y, rows, cols):
    """Write the sums of B² over_y along rows and of B² over_z along columns."""
    clear(cols)
    for i in range(rows.shape[0]):
        here, total, shift = read(over_z, i), fill(0.0), start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            entry = read(band, t)
            square = entry * entry
            total = total + square * read(over_y, t + shift)
            write(cols, t + shift, read(cols, t + shift) + square * here)
        write(rows, i, total)


@njit(**INNER)
def invert(masses, inverse):
    """Write one over the masses, zero where there is none."""
    for i in range(masses.shape[0]):
        mass = read(masses, i)
        write(inverse, i, choose(mass, 0.0, 1.0 / choose(mass, LEAST, mass, LEAST), 0.0))


@njit(**INNER)
def _add_spread(band, start, ptr, sides, per_mz, spreads, value, centre_z, centre_y, cols):
    """Return a value without the first-order effect of spreading both sides; write barycentres."""
    spread, ratio = read(spreads, 0), read(spreads, 1)
    z, mz, y = sides[0], sides[1], sides[2]
    clear(centre_y)
    clear(cols)
    for i in range(z.shape[0]):
        here, total, shift = read(z, i), fill(0.0), start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            entry, j = read(band, t), t + shift
            total = total + entry * read(y, j)
            write(centre_y, j, read(centre_y, j) + entry * here)
            write(cols, j, read(cols, j) + entry)
        write(centre_z, i, total * read(per_mz, i))
    for i in range(z.shape[0]):
        here, there, mass, column = read(z, i), read(y, i), read(mz, i), read(cols, i)
        middle, other = read(centre_z, i), read(centre_y, i)
        other = other / choose(LEAST, column, LEAST, column)
        write(centre_y, i, other)
        own = mass * (here * here - ratio * (middle * middle) - ratio)
        own = own + column * (ratio * (there * there) - other * other) - mass
        value = value - 0.5 * spread * own
    return value


@njit(**OPTIONS)
def correct_lanes(sides, band, start, ptr, spreads, values, found):
    """Add to the values of couplings side by side what log perm has beyond them.

    Nodes of a grid add a variance, whose effect is taken out: ``spreads`` (2, lanes) have that of
    columns, and the ratio of that of rows to it. Fills ``found``, which `slope_corrections` needs:
    inverse masses, collision probabilities, centres, sums of columns.
    """
    for side in range(2):
        invert(sides[1 + 2 * side], found[side])
    square_sums(band, start, ptr, found[0], found[1], found[2], found[3])
    value = read(values, 0)
    # Rows and columns see different densities: averaged.
    for side in range(2):
        masses, per, q = sides[1 + 2 * side], found[side], found[2 + side]
        for i in range(masses.shape[0]):
            over = read(per, i)
            share = read(q, i) * (over * over)
            write(q, i, share)
            value = value + 0.5 * read(masses, i) * correct(share)
    if any_positive(spreads, 0):
        value = _add_spread(
            band, start, ptr, sides, found[0], spreads, value, found[4], found[5], found[6]
        )
    write(values, 0, value)


@njit(**INNER)
def _add_gradients(band, start, ptr, sides, centre_z, centre_y, spreads, gradient_z, gradient_y):
    """Add the slopes of the spreading's effect in log u and log v."""
    z, y, spread, ratio = sides[0], sides[2], -0.5 * read(spreads, 0), read(spreads, 1)
    for i in range(z.shape[0]):
        here, middle, shift = read(z, i), read(centre_z, i), start[i] - ptr[i]
        total = read(gradient_z, i)
        for t in range(ptr[i], ptr[i + 1]):
            j = t + shift
            left, right = read(y, j) - middle, here - read(centre_y, j)
            entry = spread * read(band, t) * (ratio * (left * left) + right * right)
            total = total + entry
            write(gradient_y, j, read(gradient_y, j) + entry)
        write(gradient_z, i, total)


@njit(**OPTIONS)
def slope_corrections(sides, band, start, ptr, found, spreads, out):
    """Fill slopes of what `correct_lanes` added in log u and log v, then in the masses with B kept.

    ``found`` is what it filled.
    """
    for side in range(2):
        per, q, slopes = found[side], found[2 + side], out[2 + side]
        for i in range(q.shape[0]):
            write(slopes, i, correct_slope(read(q, i)) * read(per, i))
    square_sums(band, start, ptr, out[2], out[3], out[0], out[1])
    for side in range(2):
        masses, per, q = sides[1 + 2 * side], found[side], found[2 + side]
        gradients, slopes = out[side], out[2 + side]
        for i in range(q.shape[0]):
            share, over = read(q, i), read(per, i)
            own, other = correct_slope(share) * share, read(gradients, i) * over
            write(gradients, i, own * read(masses, i) + other)
            write(slopes, i, 0.5 * correct(share) - own - 0.5 * other * over)
    if any_positive(spreads, 0):
        _add_gradients(band, start, ptr, sides, found[4], found[5], spreads, out[0], out[1])


@njit(**INNER)
def _apply(band, start, ptr, vector, cols, per_mz, rows, image):
    """Write B vector over the rows' masses into rows, (diag(cols) − B'(…)B) vector into image.

    Returns the inner product of the vector and its image.
    """
    m = rows.shape[0]
    for j in range(m):
        write(image, j, read(cols, j) * read(vector, j))
    row_sums(band, start, ptr, vector, rows)
    for i in range(m):
        total = read(rows, i) * read(per_mz, i)
        add_row(band, ptr[i], ptr[i + 1], start[i] - ptr[i], 0.0 - total, image)
    along = fill(0.0)
    for j in range(m):
        along = along + read(vector, j) * read(image, j)
    return along


@njit(**INNER)
def _precondition(path, cols, residual, out):
    """Write an approximate inverse times the residual; return the inner product of both.

    See `correction.precondition`.
    """
    flow, height, size = fill(0.0), fill(0.0), fill(0.0)
    for j in range(out.shape[0]):
        mass, rest, link = read(cols, j), read(residual, j), read(path, j)
        # A label that no prediction reaches has no mass left: it cannot be preconditioned.
        move = height + choose(mass, 1e-200, rest / choose(mass, 1e-200, mass, 1e-200), 0.0)
        write(out, j, move)
        size = size + rest * move
        flow = flow + rest
        drop = flow / choose(link, LEAST_CONDUCTANCE, link, LEAST_CONDUCTANCE)
        height = height - choose(link, LEAST_CONDUCTANCE, drop, 0.0)
    return size


@njit(**INNER)
def _begin(band, start, ptr, my, per_mz, gradient_z, gradient_y, cols, residual, ones, found):
    """Write the columns' sums and the right-hand side of their equations, and where they begin."""
    clear(cols)
    clear(found)
    for j in range(my.shape[0]):
        write(residual, j, read(gradient_y, j) - read(my, j))
        write(ones, j, fill(1.0))
    for i in range(my.shape[0]):
        first, last, shift = ptr[i], ptr[i + 1], start[i] - ptr[i]
        share = 1.0 - read(gradient_z, i) * read(per_mz, i)
        add_row(band, first, last, shift, fill(1.0), cols)
        add_row(band, first, last, shift, share, residual)


@njit(**OPTIONS)
def solve_lane_adjoint(band, start, ptr, sides, per_mz, gradient_z, gradient_y, room, few):
    """Return the multipliers of the margins, rows and columns: see `sinkhorn.solve_adjoint`.

    ``room`` and ``few`` are those of `scale_lanes`.
    """
    mz, y, my = sides[1], sides[2], sides[3]
    rows, found, residual, path = room[0], room[1], room[2], room[3]
    cols, image, direction, better = room[4], room[5], room[6], room[7]
    _begin(band, start, ptr, my, per_mz, gradient_z, gradient_y, cols, residual, better, found)
    write(few, ASKED, fill(1.0))
    clear(direction)
    find_links(band, start, ptr, better, better, mz, y, image, path, few)
    write(few, SHARE, fill(0.0))
    for step in range(ADJOINT_STEPS):
        size = _precondition(path, cols, residual, better)
        if step == 0:
            write(few, EXPECTED, ADJOINT_TOLERANCE * ADJOINT_TOLERANCE * size)
        # One that is done, or whose direction led nowhere, has a size of zero from then on.
        size = choose(size, read(few, EXPECTED), size, 0.0)
        before = read(few, SHARE)
        if step > 0:
            size = choose(before, 0.0, size, 0.0)
        write(few, ASKED, size)
        if not any_positive(few, ASKED):
            break
        share = choose(before, 0.0, size / before, 0.0)
        for j in range(y.shape[0]):
            write(direction, j, read(better, j) + share * read(direction, j))
        bend = _apply(band, start, ptr, direction, cols, per_mz, rows, image)
        size = choose(bend, 0.0, size, 0.0)
        write(few, SHARE, size)
        share = choose(bend, 0.0, size / bend, 0.0)
        for j in range(y.shape[0]):
            write(found, j, read(found, j) + share * read(direction, j))
            write(residual, j, read(residual, j) - share * read(image, j))
    row_sums(band, start, ptr, found, rows)
    for i in range(y.shape[0]):
        write(rows, i, (read(gradient_z, i) - read(rows, i)) * read(per_mz, i))
    return rows, found


@njit(**OPTIONS)
def point_slopes(band, start, ptr, sides, qz, qy, kept_z, kept_y, slopes, by_sigmas):
    """Fill the slopes in the points z, and those in log sigma: all entries count.

    For masses of one: see `diagonals.band_point_slopes`.
    """
    z, y = sides[0], sides[2]
    by_sigma = fill(0.0)
    for j in range(y.shape[0]):
        write(qy, j, correct_slope(read(qy, j)))
    for i in range(z.shape[0]):
        here, bend, kept, total = (
            read(z, i),
            correct_slope(read(qz, i)),
            read(kept_z, i),
            fill(0.0),
        )
        shift = start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            j, entry = t + shift, read(band, t)
            gap = read(y, j) - here
            share = 1.0 + entry * (bend + read(qy, j)) - kept - read(kept_y, j)
            gradient = entry * share * gap
            total = total + gradient
            by_sigma = by_sigma + gradient * gap
        write(slopes, i, total)
    write(by_sigmas, 0, by_sigma)
