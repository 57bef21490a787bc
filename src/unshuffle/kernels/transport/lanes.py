"""Many small transport problems side by side: Sinkhorn's scaling with a problem in every lane.

The loops of a small problem are too short to vectorise, and many problems take the same steps. So
every array has a last axis of `LANES` problems, and every inner loop runs over it: nothing is added
up inside it, so that the bits depend neither on how it is compiled nor on the problems beside one.
A problem that has converged waits for the others: its values do not change.

Problems have up to m atoms a side, in ascending order and with masses; shorter ones are filled up
with atoms of no mass. Gauge, steps and tolerance are those of `lattice`; collisions, corrections
and slopes are in `lane_slopes`.
"""

from math import log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.coupling import (
    LEAST,
    LONGEST,
    MAX_PASSES,
    ROUNDING,
    STEP_SHARE,
    monotone_potentials,
)
from unshuffle.kernels.transport.diagonals import exponentiate, find_ends

# Problems side by side: more wait longer for the slowest of them, fewer leave vectors half empty.
LANES = 32
# Links below this share of all mass may be rounding: see `diagonals`.
_HIDDEN = 1e-11
# A flow changes the height over a link by no more than one over this, whatever the link.
_BEND = 0.4
# The potential of an atom that is none.
_NOWHERE = -1e300


def make_problems(m):
    """Return atoms, masses and potentials of either side, (6, m, LANES), and ends of rows (2, m).

    No problem has an atom yet.
    """
    sides, ends = np.zeros((6, m, LANES)), np.empty((2, m), np.int64)
    sides[4:], ends[0], ends[1] = _NOWHERE, m, -1
    return sides, ends


def make_room(m):
    """Return what kernels write in between: arrays for atoms, and for problems."""
    return np.empty((8, m, LANES)), np.empty((10, LANES))


@njit(**INNER)
def lay_problem(sides, ends, k, z, mz, y, my):
    """Write a problem into lane k: its atoms, the potentials of its monotone coupling, its band."""
    alpha, beta, first, last = monotone_potentials(z, mz, y, my)
    starts, stops = find_ends(z, y, alpha, beta, first, last)
    for i in range(z.size):
        sides[0, i, k], sides[1, i, k], sides[4, i, k] = z[i], mz[i], alpha[i]
        ends[0, i], ends[1, i] = min(ends[0, i], starts[i]), max(ends[1, i], stops[i])
    for j in range(y.size):
        sides[2, j, k], sides[3, j, k], sides[5, j, k] = y[j], my[j], beta[j]
    for j in range(y.size, sides.shape[1]):
        sides[2, j, k] = y[y.size - 1] + (j - y.size + 1)  # no links of length zero


@njit(**OPTIONS)
def lay_band(sides, ends):
    """Return the kernel as a band of lines, the first column of every row, and row pointers.

    Rows hold what any of the problems needs; entries that a problem does not need are zero.
    """
    z, y, alpha, beta = sides[0], sides[2], sides[4], sides[5]
    m = z.shape[0]
    ptr = np.zeros(m + 1, np.int64)
    for i in range(m):
        ptr[i + 1] = ptr[i] + max(ends[1, i] - ends[0, i] + 1, 0)
    band, start = np.empty((ptr[m], LANES)), ends[0]
    for i in range(m):
        here, level = z[i], alpha[i]
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            line, there, other = band[t], y[j], beta[j]
            for k in range(LANES):
                gap = here[k] - there[k]
                # Potentials of predictions a billion sigmas off have no digit left.
                line[k] = min(level[k] + other[k] - 0.5 * gap * gap, 0.0)
        for t in range(ptr[i], ptr[i + 1]):
            exponentiate(band[t])
    return band, start, ptr


@njit(**INNER, forceinline=True)
def _add_lines(band, start, stop, shift, v, total):
    """Add lines of the band times their columns, one after the other.

    Four are read at a time, which saves writing the total. Added up in pairs they would depend on
    the bands of other problems.
    """
    for t in range(start, stop - 3, 4):
        one, two, three, four = band[t], band[t + 1], band[t + 2], band[t + 3]
        j = t + shift
        first, second, third, fourth = v[j], v[j + 1], v[j + 2], v[j + 3]
        for k in range(LANES):
            sums = total[k] + one[k] * first[k]
            sums += two[k] * second[k]
            sums += three[k] * third[k]
            total[k] = sums + four[k] * fourth[k]
    for t in range(stop - (stop - start) % 4, stop):
        line, there = band[t], v[t + shift]
        for k in range(LANES):
            total[k] += line[k] * there[k]


@njit(**INNER)
def row_sums(band, start, ptr, v, out):
    """Write band @ v into out."""
    for i in range(out.shape[0]):
        total, shift = out[i], start[i] - ptr[i]
        for k in range(LANES):
            total[k] = 0.0
        _add_lines(band, ptr[i], ptr[i + 1], shift, v, total)


@njit(**INNER)
def _sweep(band, start, ptr, mz, u, v, sums):
    """Make rows right: write u = mz/(K v), and into sums K'u."""
    for j in range(v.shape[0]):
        for k in range(LANES):
            sums[j, k] = 0.0
    for i in range(u.shape[0]):
        own, mass, shift = u[i], mz[i], start[i] - ptr[i]
        for k in range(LANES):
            own[k] = 0.0
        _add_lines(band, ptr[i], ptr[i + 1], shift, v, own)
        for k in range(LANES):
            own[k] = mass[k] / max(own[k], LEAST)
        for t in range(ptr[i], ptr[i + 1]):
            line, out = band[t], sums[t + shift]
            for k in range(LANES):
                out[k] += line[k] * own[k]


@njit(**INNER)
def find_links(band, start, ptr, u, v, mz, y, total, is_asked, gradient, path, few):
    """Write how easily mass moves between neighbouring columns: see `diagonals.conductances`.

    Over a gap it is what the columns beyond have in all, times their distances from the centres of
    their rows. Links that rounding may have made are none: on either side of them lies as much
    mass of rows as of columns, so that nothing needs to flow there. Problems that did not ask keep
    theirs.
    """
    m = y.shape[0]
    centre, flow = few[0], few[1]
    for j in range(m):
        for k in range(LANES):
            gradient[j, k] = 0.0
    for i in range(m):
        here, mass, shift = u[i], mz[i], start[i] - ptr[i]
        for k in range(LANES):
            centre[k] = 0.0
        for t in range(ptr[i], ptr[i + 1]):
            line, there, places = band[t], v[t + shift], y[t + shift]
            for k in range(LANES):
                centre[k] += line[k] * there[k] * places[k]
        for k in range(LANES):
            centre[k] *= here[k] / max(mass[k], LEAST)
        for t in range(ptr[i], ptr[i + 1]):
            line, places, out = band[t], y[t + shift], gradient[t + shift]
            for k in range(LANES):
                out[k] += line[k] * here[k] * (places[k] - centre[k])
    for k in range(LANES):
        flow[k] = 0.0
    for j in range(m - 1, 0, -1):
        own, there, places, before, link = gradient[j], v[j], y[j], y[j - 1], path[j - 1]
        for k in range(LANES):
            flow[k] += own[k] * there[k]
            gap = places[k] - before[k]
            weight = flow[k] if flow[k] > _HIDDEN * total[k] else 0.0
            weight = weight / gap if gap > 0.0 else np.inf
            link[k] = weight if is_asked[k] > 0.0 else link[k]


@njit(**INNER)
def _aim(gaps, path, my, total, is_new, fresh, step, along, few):
    """Fill the move of log v that takes most of the gaps away, and the slope along it.

    See `lattice._aim`. Problems whose last move was too long keep it.
    """
    m = gaps.shape[0]
    flow, height, mean = few[0], few[1], few[2]
    for k in range(LANES):
        flow[k], height[k], mean[k], along[k] = 0.0, 0.0, 0.0, 0.0
    for j in range(m):
        own, link, mass, out = gaps[j], path[j], my[j], fresh[j]
        for k in range(LANES):
            # Logarithm and asinh, bounded: what is further off moves again.
            share = own[k] / (2.0 * max(mass[k], LEAST) + own[k])
            square = share * share
            near = 1.0 + square * (1.0 / 3.0 + square * (0.2 + square / 7.0))
            move = height[k] - 2.0 * share * near
            out[k] = move
            mean[k] += mass[k] * move
            flow[k] += own[k]
            size = abs(flow[k])
            drop = flow[k] / max(link[k] + _BEND * size, LEAST)
            height[k] += drop if link[k] > 0.0 and size > ROUNDING * total[k] else 0.0
    for k in range(LANES):
        mean[k] /= total[k]
    for j in range(m):
        own, found, out = gaps[j], fresh[j], step[j]
        for k in range(LANES):
            move = min(max(STEP_SHARE * (found[k] - mean[k]), -LONGEST), LONGEST)
            out[k] = move if is_new[k] > 0.0 else out[k]
            along[k] += own[k] * move


@njit(**INNER, forceinline=True)
def add_terms(x):
    """Return the first nine terms of exp(x)."""
    power = 1.0 + x / 8.0
    power = 1.0 + x / 7.0 * power
    power = 1.0 + x / 6.0 * power
    power = 1.0 + x / 5.0 * power
    power = 1.0 + x / 4.0 * power
    power = 1.0 + x / 3.0 * power
    power = 1.0 + x / 2.0 * power
    return 1.0 + x * power


@njit(**INNER)
def _move(before, step, share, v):
    """Move values by shares of steps of their logarithms; shorter steps start where the last did.

    A problem that is done has a share of zero, which changes no bit.
    """
    for j in range(v.shape[0]):
        old, move, new = before[j], step[j], v[j]
        for k in range(LANES):
            # exp(x) is exp(x/64) squared six times; |x| is at most 30.
            power = add_terms(share[k] * move[k] / 64.0)
            power *= power
            power *= power
            power *= power
            power *= power
            power *= power
            power *= power
            old[k] = old[k] if 0.0 < share[k] < 1.0 else new[k]
            new[k] = old[k] * power


@njit(**OPTIONS)
def match_margins(band, start, ptr, sides, tolerance, room, few):
    """Return u and v for which the margins of u K v are the masses, and the sums of these.

    Those of rows are exact, those of columns within the tolerance: see `lattice.scale`. ``room``
    and ``few`` come from `make_room`.
    """
    mz, y, my = sides[1], sides[2], sides[3]
    m = y.shape[0]
    u, v, gaps, path = room[0], room[1], room[2], room[3]
    gradient, step, fresh, before = room[4], room[5], room[6], room[7]
    total, along, expected, share = few[3], few[4], few[5], few[6]
    is_new, is_asked = few[7], few[8]
    for k in range(LANES):
        total[k], expected[k], share[k] = 0.0, 0.0, 1.0
    for j in range(m):
        for k in range(LANES):
            v[j, k], step[j, k], path[j, k] = 0.0, 0.0, 0.0
    for i in range(m):
        here, shift = mz[i], start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            line, out = band[t], v[t + shift]
            for k in range(LANES):
                out[k] += line[k] * here[k]
    for j in range(m):
        for k in range(LANES):
            v[j, k] = my[j, k] / max(v[j, k], LEAST)
            total[k] += my[j, k]
    for passes in range(MAX_PASSES):
        _sweep(band, start, ptr, mz, u, v, gaps)
        for k in range(LANES):
            along[k] = 0.0
        for j in range(m):
            own, there, mass, move = gaps[j], v[j], my[j], step[j]
            for k in range(LANES):
                own[k] = own[k] * there[k] - mass[k]
                along[k] += own[k] * move[k]
        n_asked = 0.0
        for k in range(LANES):
            is_new[k] = 1.0 if share[k] > 0.0 and along[k] <= -0.5 * expected[k] else 0.0
            is_asked[k] = is_new[k] if passes % 3 == 0 or share[k] < 1.0 else 0.0
            n_asked += is_asked[k]
        if n_asked > 0.0:  # conductances change slowly
            find_links(band, start, ptr, u, v, mz, y, total, is_asked, gradient, path, few)
        _aim(gaps, path, my, total, is_new, fresh, step, along, few)
        for k in range(LANES):
            expected[k] = along[k] if is_new[k] > 0.0 else expected[k]
            # Otherwise the last step went far beyond the lowest point of the line.
            share[k] = 1.0 if is_new[k] > 0.0 else 0.5 * share[k]
        _move(before, step, share, v)
        n_open = 0
        for k in range(LANES):
            share[k] = 0.0 if share[k] == 1.0 and expected[k] > -tolerance else share[k]
            n_open += share[k] > 0.0
        if n_open == 0:
            break
    _sweep(band, start, ptr, mz, u, v, gaps)
    return u, v, total


@njit(**OPTIONS)
def take_coupling(band, start, ptr, u, v, sides, values):
    """Fill the values of all problems, turn the kernel into the coupling, keep the potentials.

    These take the places of those of the monotone coupling: they are the values' slopes in the
    masses.
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
        here = u[i]
        for t in range(ptr[i], ptr[i + 1]):
            line, there = band[t], v[start[i] + t - ptr[i]]
            for k in range(LANES):
                line[k] *= here[k] * there[k]
