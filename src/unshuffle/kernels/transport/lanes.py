"""Many small transport problems side by side: Sinkhorn's scaling with a problem in every lane.

The loops of a small problem are too short to vectorise, and many problems take the same steps. So
every array has a last axis of `LANES` problems, and a row along it is one vector value (see
`vectors`). The bits of a problem depend neither on how the code is compiled nor on the problems
beside it. A problem that has converged waits for the others, unchanged.

Problems have up to m atoms a side, in ascending order and with masses; shorter ones are filled up
with atoms of no mass. Gauge, steps and tolerance are those of `sinkhorn`; collisions, corrections
and slopes are in `lane_slopes`.
"""

from math import log, prod

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.coupling import (
    CUT,
    LEAST,
    LONGEST,
    MAX_PASSES,
    ROUNDED,
    ROUNDING,
    STEP_SHARE,
)
from unshuffle.kernels.transport.vectors import LANES, choose, fill, read, write

# Conductances below this share of all mass may be rounding errors: see `diagonals`.
_HIDDEN = 1e-11
# No flow changes log v over a link by more than one over this, however low the conductance.
_BEND = 0.4
# The potential of an atom that only fills up.
NOWHERE = -1e300
# Rows of ``few``, which has single numbers of each problem: total mass, slope along the step, share
# of the step that is taken, whether the step is new, and whether conductances are asked for.
TOTAL, EXPECTED, SHARE, IS_NEW, ASKED = 0, 1, 2, 3, 4
N_FEW = 5
# Rows begin at whole lines of the cache: half of a sweep's time otherwise.
_LINE = 64


def make_rows(*shape):
    """Return an array of rows of `LANES` numbers."""
    size = prod(shape) * LANES
    whole = np.empty(size + _LINE // 8)
    first = -whole.__array_interface__["data"][0] % _LINE // 8
    return whole[first : first + size].reshape(*shape, LANES)


def make_problems(m, lanes=LANES):
    """Return atoms, masses and potentials of either side, (6, m, lanes), and their numbers.

    No problem has an atom yet.
    """
    sides = make_rows(6, m) if lanes == LANES else np.empty((6, m, lanes))
    sides[:4], sides[4:] = 0.0, NOWHERE
    return sides, np.zeros((2, lanes), np.int64)


def make_ends(m):
    """Return first and last columns of rows, (2, m), that need none yet."""
    ends = np.empty((2, m), np.int64)
    ends[0], ends[1] = m, -1
    return ends


def make_band(ends):
    """Return room for the lines of a band, the first column of every row, and row pointers.

    A row of the band has every column that any of the problems needs.
    """
    ptr = np.zeros(ends.shape[1] + 1, np.int64)
    np.cumsum(np.maximum(ends[1] - ends[0] + 1, 0), out=ptr[1:])
    return make_rows(ptr[-1]), ends[0], ptr


def make_room(m):
    """Return work arrays: eight rows for each atom, and single numbers of problems."""
    return make_rows(8, m), make_rows(N_FEW)


@njit(**OPTIONS)
def fill_kernel(sides, band, start, ptr):
    """Fill the kernel exp(α + β − (z − y)²/2); entries that a problem does not need are zero."""
    z, y, alpha, beta = sides[0], sides[2], sides[4], sides[5]
    for i in range(z.shape[0]):
        here, level, shift = read(z, i), read(alpha, i), start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            gap = here - read(y, t + shift)
            x = level + read(beta, t + shift) - 0.5 * gap * gap
            # With predictions a billion sigmas off the potentials have no correct digit.
            x = choose(x, 0.0, 0.0, x)
            power = raise_64th(choose(x, -CUT, x, -CUT))
            write(band, t, choose(x, -CUT, power, 0.0))


@njit(**INNER)
def raise_64th(x):
    """Return exp(x), as exp(x/64) squared six times.

    The relative error is 2e-11 for |x| up to 30, and 1e-8 at -50.
    """
    part = x * (1.0 / 64.0)
    power = 1.0 + part * (1.0 / 11.0)
    power = 1.0 + part * (1.0 / 10.0) * power
    power = 1.0 + part * (1.0 / 9.0) * power
    power = 1.0 + part * (1.0 / 8.0) * power
    power = 1.0 + part * (1.0 / 7.0) * power
    power = 1.0 + part * (1.0 / 6.0) * power
    power = 1.0 + part * (1.0 / 5.0) * power
    power = 1.0 + part * (1.0 / 4.0) * power
    power = 1.0 + part * (1.0 / 3.0) * power
    power = 1.0 + part * 0.5 * power
    power = 1.0 + part * power
    for _ in range(6):
        power = power * power
    return power


@njit(**INNER)
def _sum_row(band, first, last, shift, v):
    """Return the product of a row of the band with v, added up in order."""
    total = fill(0.0)
    for t in range(first, last):
        total = total + read(band, t) * read(v, t + shift)
    return total


@njit(**INNER)
def row_sums(band, start, ptr, v, out):
    """Write band @ v into out."""
    for i in range(out.shape[0]):
        write(out, i, _sum_row(band, ptr[i], ptr[i + 1], start[i] - ptr[i], v))


@njit(**INNER)
def clear(rows):
    """Write zeros."""
    for i in range(rows.shape[0]):
        write(rows, i, fill(0.0))


@njit(**INNER)
def add_row(band, first, last, shift, own, sums):
    """Add a row of the band, times a number, to the sums of its columns."""
    for t in range(first, last):
        write(sums, t + shift, read(sums, t + shift) + read(band, t) * own)


@njit(**INNER)
def _sweep(band, start, ptr, mz, u, v, sums):
    """Scale the rows to their masses: write u = mz/(K v), and K'u into sums."""
    clear(sums)
    for i in range(u.shape[0]):
        first, last, shift = ptr[i], ptr[i + 1], start[i] - ptr[i]
        total = _sum_row(band, first, last, shift, v)
        own = read(mz, i) / choose(LEAST, total, LEAST, total)
        write(u, i, own)
        add_row(band, first, last, shift, own, sums)


@njit(**INNER)
def find_links(band, start, ptr, u, v, mz, y, gradient, path, few):
    """Write how easily mass moves between neighbouring columns: see `diagonals.conductances`.

    Over a gap it is the sum of all entries in the columns beyond, each times the distance of its
    column from the centre of its row, divided by the gap. A conductance that may be a rounding
    error is set to zero: on either side of it the masses of rows and columns agree, and nothing
    needs to flow. Problems that did not ask keep theirs.
    """
    m = y.shape[0]
    clear(gradient)
    for i in range(m):
        here, mass, shift = read(u, i), read(mz, i), start[i] - ptr[i]
        centre = fill(0.0)
        for t in range(ptr[i], ptr[i + 1]):
            centre = centre + read(band, t) * read(v, t + shift) * read(y, t + shift)
        centre = centre * (here / choose(LEAST, mass, LEAST, mass))
        for t in range(ptr[i], ptr[i + 1]):
            entry = read(band, t) * here * (read(y, t + shift) - centre)
            write(gradient, t + shift, read(gradient, t + shift) + entry)
    flow, least, is_asked = fill(0.0), _HIDDEN * read(few, TOTAL), read(few, ASKED)
    for j in range(m - 1, 0, -1):
        flow = flow + read(gradient, j) * read(v, j)
        gap = read(y, j) - read(y, j - 1)
        link = choose(gap, 0.0, choose(flow, least, flow, 0.0) / gap, np.inf)
        write(path, j - 1, choose(is_asked, 0.0, link, read(path, j - 1)))


@njit(**INNER)
def _find_step(gaps, path, my, fresh, step, few):
    """Write the step in log v that removes most of the gaps; return the slope along it.

    See `sinkhorn.scale_band`. Problems whose last step was too long keep it, to be shortened.
    """
    m = gaps.shape[0]
    flow, height, mean, along = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    total, is_new = read(few, TOTAL), read(few, IS_NEW)
    least = ROUNDING * total
    for j in range(m):
        own, link, mass = read(gaps, j), read(path, j), read(my, j)
        # Bounded forms of log and asinh: large gaps take several steps.
        share = own / (2.0 * choose(LEAST, mass, LEAST, mass) + own)
        square = share * share
        near = 1.0 + square * (1.0 / 3.0 + square * (0.2 + square * (1.0 / 7.0)))
        move = height - 2.0 * share * near
        write(fresh, j, move)
        mean = mean + mass * move
        flow = flow + own
        size = choose(flow, 0.0, flow, 0.0 - flow)
        all_of_it = link + _BEND * size
        drop = flow / choose(LEAST, all_of_it, LEAST, all_of_it)
        drop = choose(link, 0.0, drop, 0.0)
        height = height + choose(size, least, drop, 0.0)
    mean = mean / total
    for j in range(m):
        move = STEP_SHARE * (read(fresh, j) - mean)
        move = choose(move, LONGEST, LONGEST, choose(-LONGEST, move, -LONGEST, move))
        write(step, j, choose(is_new, 0.0, move, read(step, j)))
        along = along + read(gaps, j) * move
    return along


@njit(**INNER)
def any_positive(rows, i):
    """Whether any number of a row is positive."""
    largest = 0.0
    for k in range(LANES):
        largest = rows[i, k] if rows[i, k] > largest else largest
    return largest > 0.0


@njit(**OPTIONS)
def scale_lanes(band, start, ptr, sides, tolerance, room, few):
    """Return u and v for which the margins of u K v are the masses (Sinkhorn; Cuturi 2013).

    Those of rows are exact, those of columns within the tolerance: see `sinkhorn.scale_band`.
    ``room`` has eight rows for each atom, ``few`` has `N_FEW` rows.
    """
    mz, y, my = sides[1], sides[2], sides[3]
    u, v, gaps, path = room[0], room[1], room[2], room[3]
    gradient, step, fresh, before = room[4], room[5], room[6], room[7]
    clear(v)
    clear(step)
    clear(path)
    total = fill(0.0)
    for i in range(mz.shape[0]):
        add_row(band, ptr[i], ptr[i + 1], start[i] - ptr[i], read(mz, i), v)
    # At u = mz these scalings give the columns their masses.
    for j in range(my.shape[0]):
        mass, reached = read(my, j), read(v, j)
        write(v, j, mass / choose(LEAST, reached, LEAST, reached))
        write(before, j, mass)
        total = total + mass
    write(few, TOTAL, total)
    write(few, EXPECTED, fill(0.0))
    write(few, SHARE, fill(1.0))
    rounded = ROUNDED * total
    tolerances = choose(rounded, tolerance, rounded, tolerance)
    for passes in range(MAX_PASSES):
        _sweep(band, start, ptr, mz, u, v, gaps)
        along = fill(0.0)
        for j in range(y.shape[0]):
            gap = read(gaps, j) * read(v, j) - read(my, j)
            write(gaps, j, gap)
            along = along + gap * read(step, j)
        expected, share = read(few, EXPECTED), read(few, SHARE)
        is_new = choose(along, -0.5 * expected, 0.0, choose(share, 0.0, 1.0, 0.0))
        write(few, IS_NEW, is_new)
        # Conductances change slowly.
        write(few, ASKED, is_new if passes % 3 == 0 else choose(1.0, share, is_new, 0.0))
        if any_positive(few, ASKED):
            find_links(band, start, ptr, u, v, mz, y, gradient, path, few)
        along = _find_step(gaps, path, my, fresh, step, few)
        expected = choose(is_new, 0.0, along, expected)
        # Otherwise the last step went far beyond the minimum along it, and is halved.
        share = choose(is_new, 0.0, 1.0, 0.5 * share)
        # A shortened step starts where the last one did. A share of zero changes no bit.
        for j in range(v.shape[0]):
            old, new = read(before, j), read(v, j)
            first = choose(share, 0.0, choose(1.0, share, old, new), new)
            write(before, j, first)
            write(v, j, first * raise_64th(share * read(step, j)))
        # NaN ends a problem, too.
        share = choose(1.0, share, share, choose(0.0 - tolerances, expected, share, 0.0))
        write(few, EXPECTED, expected)
        write(few, SHARE, share)
        if not any_positive(few, SHARE):
            break
    _sweep(band, start, ptr, mz, u, v, gaps)
    return u, v


@njit(**OPTIONS)
def form_couplings(band, start, ptr, u, v, sides, values):
    """Fill the values of all problems; replace kernel by coupling, and gauge by potentials.

    The potentials of the coupling are the slopes of the values in the masses. They take the places
    of those of the monotone coupling.
    """
    for k in range(LANES):
        values[k] = 0.0
    for side in range(2):
        potentials, masses, found = sides[4 + side], sides[1 + 2 * side], u if side == 0 else v
        for i in range(masses.shape[0]):
            level, mass, own = potentials[i], masses[i], found[i]
            for k in range(LANES):
                is_atom = mass[k] > 0.0
                move = log(own[k] / mass[k] if is_atom else 1.0)
                level[k] = -(level[k] + move) if is_atom else 0.0
                values[k] += mass[k] * level[k]
    for i in range(u.shape[0]):
        own, shift = read(u, i), start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            write(band, t, read(band, t) * (own * read(v, t + shift)))
