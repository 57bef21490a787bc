"""Entropic partial optimal transport under any log density, a problem in every lane of a vector.

The coupling of rows and labels of largest entropic value (Cuturi 2013). Every label has a row, and
some rows have no label: these go to a slack column of log density zero, whose scaling is fixed
(partial transport: Caffarelli and McCann 2010; Benamou et al. 2015). Without a slack mass the
scaling of the last label is fixed. The dual is solved by the sweeps and the preconditioned step of
`lanes`, with one more conductance from each label to the slack column.

Log densities are −(y − x)²/2, or those of a matrix (rows × labels). Sums run over the band of
entries that matter in any problem. Entries that a problem does not need are zero, and a problem
that has converged waits: its bits do not depend on the problems beside it.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.correction import ADJOINT_STEPS
from unshuffle.kernels.transport.coupling import LEAST, ROUNDING, STEP_SHARE
from unshuffle.kernels.transport.lane_slopes import correct, correct_slope, invert, square_sums
from unshuffle.kernels.transport.lanes import (
    add_row,
    any_positive,
    clear,
    make_rows,
    raise_64th,
)
from unshuffle.kernels.transport.vectors import LANES, choose, fill, read, write

# The log density where the row or the label only fills up.
NONE = -1e300
# Entries of a row this far below its largest, in logs, are zero (2e-22 of it). The band is built
# anew once a log scaling has moved by 16: what was cut off is then still below 2e-8 of the row.
_CUT, _FAR = 50.0, exp(16.0)
# No step moves a log scaling further.
_LONGEST = 4.0
MAX_PASSES = 200
# No flow changes log v over a link by more than one over this, however low the conductance.
_BEND = 0.4
# Conductances change slowly: they are computed in every third pass.
_KEEP_LINKS = 3
# Conductances below this share of all mass may be rounding errors: see `diagonals`.
_HIDDEN = 1e-11
# The share 1 − s of `_find_links` is at least this.
_LEAST_SHARE = 1e-3
# Labels closer together have the conductance of labels at this distance.
_NEAREST = 1e-9
# Margins of a solve that did not converge count as missed beyond this relative error. No mass that
# is missing at a label costs more than a million nats.
_MISSED, _LEAST_LOG = 1e-6, -1e6
# The adjoint is solved to this share of its right-hand side (that of `correction` is larger).
_ADJOINT_TOLERANCE = 1e-7
# Rows of ``few``, which has single numbers of each problem: slope along the step, share of the step
# that is taken, largest scaling, total mass, and two of conjugate gradients.
_EXPECTED, _SHARE, _MOVED, _TOTAL, _GOAL, _SIZE = 0, 1, 2, 3, 4, 5


class Problems(NamedTuple):
    """Problems side by side: places and masses of rows and labels, and slack masses.

    ``logs`` has the log density of row i and label j in line i m + j. Where it is empty, the log
    density is −(y − x)²/2. Shorter problems are filled up with atoms of no mass.
    """

    logs: np.ndarray
    x: np.ndarray
    mz: np.ndarray
    y: np.ndarray
    my: np.ndarray
    slack: np.ndarray


class Duals(NamedTuple):
    """Dual variables and what follows from them, rows of `LANES` numbers.

    An entry of the coupling is u exp(log density + g − high) v, where ``high`` is the largest log
    entry of the row. ``free`` is the mass that a row gives to the slack column, ``sums`` are the
    masses that labels get. ``potential_z`` and ``potential_y`` are the slopes of the value in the
    masses.
    """

    high: np.ndarray
    u: np.ndarray
    free: np.ndarray
    potential_z: np.ndarray
    g: np.ndarray
    v: np.ndarray
    sums: np.ndarray
    potential_y: np.ndarray


class Corrections(NamedTuple):
    """Inverse masses, collision probabilities, and mean distances of rows and labels."""

    per_mz: np.ndarray
    per_my: np.ndarray
    qz: np.ndarray
    qy: np.ndarray
    mean_z: np.ndarray
    mean_y: np.ndarray
    per_slack: np.ndarray
    q_slack: np.ndarray


def make_problems(n: int, m: int, has_logs: bool) -> Problems:
    """Return problems without an atom, with room for n rows and m labels."""
    x, mz = make_rows(2, n)
    y, my = make_rows(2, m)
    logs, slack = make_rows(n * m * has_logs), make_rows(1)
    logs[:] = NONE
    for part in (x, mz, y, my, slack):
        part[:] = 0.0
    return Problems(logs, x, mz, y, my, slack)


def make_duals(n: int, m: int) -> Duals:
    """Return room for dual variables."""
    return Duals(*make_rows(4, n), *make_rows(4, m))


def make_corrections(n: int, m: int) -> Corrections:
    """Return room for corrections."""
    (per_mz, qz, mean_z), (per_my, qy, mean_y) = make_rows(3, n), make_rows(3, m)
    return Corrections(per_mz, per_my, qz, qy, mean_z, mean_y, *make_rows(2, 1))


@njit(**INNER, forceinline=True)
def read_log(given, i, j):
    """Return the log densities of row i and label j."""
    if given.logs.shape[0] == 0:
        gap = read(given.y, j) - read(given.x, i)
        return -0.5 * (gap * gap)
    return read(given.logs, i * given.y.shape[0] + j)


@njit(**INNER)
def read_one_log(given, i, j, k):
    """Return the log density of row i and label j in lane k."""
    if given.logs.shape[0] == 0:
        gap = given.y[j, k] - given.x[i, k]
        return -0.5 * gap * gap
    return given.logs[i * given.y.shape[0] + j, k]


@njit(**INNER, forceinline=True)
def _largest(left, right):
    """Return the larger of two, number by number."""
    return choose(left, right, left, right)


@njit(**OPTIONS)
def find_band(given, duals, room, ends):
    """Fill the largest log entry of every row, and the first and last that count in any lane.

    ``room`` has a row for each label, and two more.
    """
    n, m = given.x.shape[0], given.y.shape[0]
    for i in range(n):
        high = choose(read(given.slack, 0), 0.0, 0.0, NONE)
        for j in range(m):
            x = read_log(given, i, j) + read(duals.g, j)
            write(room, j, x)
            high = _largest(x, high)
        high = choose(read(given.mz, i), 0.0, high, -NONE)
        write(duals.high, i, high)
        first, last = fill(m + 0.0), fill(-1.0)
        for j in range(m):
            place = choose(read(room, j), high - _CUT, j + 0.0, -1.0)
            last = choose(place, -0.5, place, last)
            first = choose(place, -0.5, choose(first, place, place, first), first)
        write(room, m, first)
        write(room, m + 1, last)
        least, largest = m + 0.0, -1.0
        for k in range(LANES):
            least, largest = min(least, room[m, k]), max(largest, room[m + 1, k])
        ends[0, i], ends[1, i] = int(least), int(largest)


@njit(**INNER)
def _raise(x):
    """Return exp(x) for numbers up to zero, and zero below the cut."""
    return choose(x, -_CUT, raise_64th(choose(x, -_CUT, x, -_CUT)), 0.0)


@njit(**OPTIONS)
def fill_partial_kernel(given, duals, band, start, ptr, slack):
    """Fill the kernel relative to the largest entry of each row, and that of the slack column."""
    for i in range(given.x.shape[0]):
        high, shift = read(duals.high, i), start[i] - ptr[i]
        write(slack, i, choose(read(given.slack, 0), 0.0, _raise(0.0 - high), 0.0))
        for t in range(ptr[i], ptr[i + 1]):
            j = t + shift
            write(band, t, _raise(read_log(given, i, j) + read(duals.g, j) - high))


@njit(**INNER)
def _sweep(given, duals, band, start, ptr, slack):
    """Scale the rows to their masses; write into sums the masses that labels then get."""
    clear(duals.sums)
    for i in range(given.x.shape[0]):
        first, last, shift = ptr[i], ptr[i + 1], start[i] - ptr[i]
        rest = read(slack, i)
        total = rest
        for t in range(first, last):
            total = total + read(band, t) * read(duals.v, t + shift)
        own = read(given.mz, i) / _largest(total, LEAST)
        write(duals.u, i, own)
        write(duals.free, i, own * rest)
        add_row(band, first, last, shift, own, duals.sums)
    for j in range(given.y.shape[0]):
        write(duals.sums, j, read(duals.sums, j) * read(duals.v, j))


@njit(**INNER)
def _find_links(given, duals, band, start, ptr, links, outlets):
    """Write conductances between neighbouring labels, and from each label to the slack column.

    ``links`` are as in `diagonals.conductances`; ``outlets`` come from the mass that rows give to
    the slack column. Where the share s goes there, an eigenvalue e of the path goes with 1 − (1 −
    s) exp(−e) of the curvature: links and outlets are divided by 1 − s. A link of −1 is none. ``u``
    and ``v`` are those of the coupling, or ones where the band is the coupling itself.
    """
    n, m = given.x.shape[0], given.y.shape[0]
    y, sums = given.y, duals.sums
    clear(links)
    clear(outlets)
    for i in range(n):
        here, mass, shift = read(duals.u, i), read(given.mz, i), start[i] - ptr[i]
        per = 1.0 / _largest(mass, LEAST)
        total, centre = fill(0.0), fill(0.0)
        for t in range(ptr[i], ptr[i + 1]):
            entry = read(band, t) * read(duals.v, t + shift)
            total = total + entry
            centre = centre + entry * read(y, t + shift)
        centre = centre / _largest(total, LEAST)
        # Rows' shares that go to labels and to the slack column, per entry of the band.
        to_labels, to_slack = total * here * here * per, read(duals.free, i) * here * per
        for t in range(ptr[i], ptr[i + 1]):
            j, entry = t + shift, read(band, t)
            write(links, j, read(links, j) + entry * to_labels * (read(y, j) - centre))
            write(outlets, j, read(outlets, j) + entry * to_slack)
    # What the labels from j on have in all, over the distance to the label before.
    flow, link, is_last = fill(0.0), fill(-1.0), fill(1.0)
    for j in range(m - 1, -1, -1):
        scale, mass = read(duals.v, j), read(given.my, j)
        flow = flow + read(links, j) * scale
        write(links, j, link)
        gap = read(y, j) - read(y, max(j - 1, 0))
        outlet = read(outlets, j) * scale
        share = _largest(1.0 - outlet / _largest(read(sums, j), LEAST), _LEAST_SHARE)
        ground = choose(read(given.slack, 0), 0.0, 0.0, choose(mass, 0.0, is_last, 0.0) * mass)
        is_last = choose(mass, 0.0, 0.0, is_last)
        write(outlets, j, outlet / share + ground)
        own = _largest(flow, 0.0) / (_largest(gap, _NEAREST) * share)
        link = choose(mass, 0.0, own, -1.0)


@njit(**INNER)
def _solve_path(links, outlets, total, bend, found, ratio):
    """Replace the masses that labels lack by the potentials that let them flow to the labels.

    They flow along the links and from the slack column. This is a tridiagonal system, by Gaussian
    elimination. ``bend`` bounds the difference over a link by one over it. Over a link that may be
    a rounding error nothing flows.
    """
    lack, outlet, least = fill(0.0), fill(0.0), ROUNDING * total
    for j in range(found.shape[0]):
        lack, outlet, link = lack + read(found, j), outlet + read(outlets, j), read(links, j)
        size = _largest(lack, 0.0 - lack)
        way = _largest(link, 0.0) + bend * choose(size, least, size, 0.0)
        whole = outlet + way
        whole = choose(whole, _HIDDEN * total, 1.0 / _largest(whole, LEAST), 0.0)
        part = choose(link, -0.5, way * whole, 0.0)
        write(found, j, lack * whole)
        write(ratio, j, part)
        lack, outlet = lack * part, outlet * part
    height = fill(0.0)
    for j in range(found.shape[0] - 1, -1, -1):
        height = read(found, j) + read(ratio, j) * height
        write(found, j, height)


@njit(**INNER)
def _find_step(given, duals, links, outlets, few, fresh, ratio):
    """Write the step in log v that removes most of the labels' gaps; return the slope along it.

    Where an eigenvalue of links and outlets is e, that of the curvature is about 1 − exp(−e), and
    1 + 1/e inverts it within a third. The one is Sinkhorn's step, 1/e a flow.
    """
    m = given.y.shape[0]
    for j in range(m):
        write(fresh, j, read(given.my, j) - read(duals.sums, j))
    _solve_path(links, outlets, read(few, _TOTAL), _BEND, fresh, ratio)
    along = fill(0.0)
    for j in range(m):
        mass, there = read(given.my, j), read(duals.sums, j)
        gap = there - mass
        # A bounded form of the log: large gaps take several steps.
        share = gap / _largest(there + mass, LEAST)
        square = share * share
        near = 1.0 + square * (1.0 / 3.0 + square * (0.2 + square * (1.0 / 7.0)))
        move = STEP_SHARE * (read(fresh, j) - 2.0 * share * near)
        move = choose(move, _LONGEST, _LONGEST, _largest(move, -_LONGEST))
        write(fresh, j, move)
        along = along + gap * move
    return along


@njit(**INNER)
def _move(duals, step, move, few):
    """Move the log scalings of labels by a share of the step, ``move``."""
    largest = fill(1.0)
    for j in range(step.shape[0]):
        own = read(duals.v, j) * raise_64th(move * read(step, j))
        largest = _largest(largest, _largest(own, 1.0 / own))
        write(duals.v, j, own)
    write(few, _MOVED, largest)


@njit(**INNER)
def _absorb(given, duals, few):
    """Move large scalings into the potentials g; return whether any problem had some."""
    n_far = 0
    for k in range(LANES):
        if few[_SHARE, k] > 0.0 and few[_MOVED, k] > _FAR:
            n_far += 1
            for j in range(given.y.shape[0]):
                if given.my[j, k] > 0.0:
                    duals.g[j, k] += log(duals.v[j, k])
                duals.v[j, k] = 1.0
    return n_far > 0


@njit(**OPTIONS)
def match_labels(given, duals, band, start, ptr, slack, tolerance, first_pass, room, few):
    """Move v until a step gains less than the tolerance, in nats; rows are exact then.

    Returns `MAX_PASSES` when it is done, after however many passes. A lower number is that of the
    passes so far: build the band anew and go on from there. ``room`` has at least five rows for
    each label, ``few`` six.
    """
    step, fresh, links, outlets, ratio = room[0], room[1], room[2], room[3], room[4]
    if first_pass == 0:
        total = fill(0.0)
        clear(step)
        clear(few)
        for j in range(given.y.shape[0]):
            total = total + read(given.my, j)
            write(duals.v, j, fill(1.0))
        write(few, _TOTAL, total)
        write(few, _SHARE, fill(1.0))
    for passes in range(first_pass, MAX_PASSES):
        _sweep(given, duals, band, start, ptr, slack)
        along = fill(0.0)
        for j in range(given.y.shape[0]):
            along = along + (read(duals.sums, j) - read(given.my, j)) * read(step, j)
        expected, share = read(few, _EXPECTED), read(few, _SHARE)
        is_new = choose(along, -0.5 * expected, 0.0, choose(share, 0.0, 1.0, 0.0))
        if passes % _KEEP_LINKS == 0:
            _find_links(given, duals, band, start, ptr, links, outlets)
        along = _find_step(given, duals, links, outlets, few, fresh, ratio)
        for j in range(given.y.shape[0]):
            write(step, j, choose(is_new, 0.0, read(fresh, j), read(step, j)))
        expected = choose(is_new, 0.0, along, expected)
        # Of a step that went far beyond the minimum along it half is taken back.
        share = choose(is_new, 0.0, 1.0, 0.5 * share)
        _move(duals, step, choose(is_new, 0.0, share, 0.0 - share), few)
        # NaN ends a problem, too.
        is_open = choose(is_new, 0.0, choose(-tolerance, expected, share, 0.0), share)
        write(few, _EXPECTED, expected)
        write(few, _SHARE, is_open)
        if not any_positive(few, _SHARE):
            break
        if passes + 1 < MAX_PASSES and _absorb(given, duals, few):
            return passes + 1
    _sweep(given, duals, band, start, ptr, slack)
    return MAX_PASSES


@njit(**INNER)
def _take_potentials(given, duals):
    """Write the potentials of rows and labels: minus their log scalings, and logs of masses."""
    for i in range(given.x.shape[0]):
        for k in range(LANES):
            mass = given.mz[i, k]
            own = log(mass / duals.u[i, k]) + duals.high[i, k] if mass > 0.0 else 0.0
            duals.potential_z[i, k] = own
    for j in range(given.y.shape[0]):
        for k in range(LANES):
            mass = given.my[j, k]
            own = log(mass / duals.v[j, k]) - duals.g[j, k] if mass > 0.0 else 0.0
            duals.potential_y[j, k] = own


@njit(**INNER)
def _add_corrections(q, masses, per, potentials, value):
    """Return a value with what one side adds; turn sums of squares into collision probabilities."""
    for i in range(q.shape[0]):
        own, mass = read(per, i), read(masses, i)
        share = read(q, i) * (own * own)
        write(q, i, share)
        value = value + mass * (0.5 * correct(share) + read(potentials, i))
    return value


@njit(**INNER)
def _add_spread(given, found, band, start, ptr, spread, value):
    """Return a value without the first-order effect of spreading both sides over nodes.

    For a row the effect is half of mass times spread times second derivative of its log sum. The
    derivative is the mean of d² − 1 less the square of the mean of d, for distances d to labels;
    the slack column counts as zero in both means.
    """
    for i in range(given.x.shape[0]):
        here, total, shift = read(given.x, i), fill(0.0), start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            entry, j = read(band, t), t + shift
            gap = read(given.y, j) - here
            part = entry * gap
            total = total + part
            write(found.mean_y, j, read(found.mean_y, j) + part)
            value = value - spread * (part * gap - entry)
        mean = total * read(found.per_mz, i)
        write(found.mean_z, i, mean)
        value = value + 0.5 * spread * (total * mean)
    for j in range(given.y.shape[0]):
        total = read(found.mean_y, j)
        mean = total * read(found.per_my, j)
        write(found.mean_y, j, mean)
        value = value + 0.5 * spread * (total * mean)
    return value


@njit(**INNER)
def _add_missed(given, duals, few, values):
    """Add what it would cost to bring the missing mass to labels that lack it.

    The dual is least where the margins are met: elsewhere its value is too high.
    """
    for k in range(LANES):
        error, total = 0.0, 0.0
        for j in range(given.y.shape[0]):
            error += abs(duals.sums[j, k] - given.my[j, k])
            total += given.my[j, k]
        if few[_SHARE, k] <= 0.0 or error < _MISSED * total:
            continue
        for j in range(given.y.shape[0]):
            lack, worst = given.my[j, k] - duals.sums[j, k], 0.0
            if lack <= 0.0:
                continue
            scaling = log(given.my[j, k]) - duals.potential_y[j, k]
            for i in range(given.x.shape[0]):
                if given.mz[i, k] > 0.0:
                    own = log(given.mz[i, k]) - duals.potential_z[i, k]
                    worst = min(worst, read_one_log(given, i, j, k) + own + scaling)
            values[0, k] += lack * max(worst, _LEAST_LOG)


@njit(**OPTIONS)
def value_coupling(given, duals, band, start, ptr, spread, few, found, values):
    """Fill log permanents of bags with as many copies of every atom as its mass.

    Turns the band into the coupling. Both sides may lie on nodes of a grid that add a variance
    ``spread``; it is taken out to first order. Fills what `slope_coupling` needs.
    """
    _take_potentials(given, duals)
    invert(given.mz, found.per_mz)
    invert(given.my, found.per_my)
    invert(given.slack, found.per_slack)
    for i in range(given.x.shape[0]):
        own, shift = read(duals.u, i), start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            write(band, t, read(band, t) * (own * read(duals.v, t + shift)))
    # Rows and labels have different collision probabilities: their corrections are averaged.
    square_sums(band, start, ptr, found.per_mz, found.per_my, found.qz, found.qy)
    per_slack, q_slack = read(found.per_slack, 0), fill(0.0)
    for i in range(given.x.shape[0]):
        square = read(duals.free, i) * read(duals.free, i)
        write(found.qz, i, read(found.qz, i) + square * per_slack)
        q_slack = q_slack + square * read(found.per_mz, i)
    q_slack = q_slack * (per_slack * per_slack)
    write(found.q_slack, 0, q_slack)
    value = 0.5 * read(given.slack, 0) * correct(q_slack)
    value = _add_corrections(found.qz, given.mz, found.per_mz, duals.potential_z, value)
    value = _add_corrections(found.qy, given.my, found.per_my, duals.potential_y, value)
    clear(found.mean_z)
    clear(found.mean_y)
    if spread > 0.0:
        value = _add_spread(given, found, band, start, ptr, spread, value)
    write(values, 0, value)
    for k in range(LANES):
        if given.slack[0, k] > 0.0:
            values[0, k] += given.slack[0, k] * log(given.slack[0, k])
    _add_missed(given, duals, few, values)


@njit(**INNER)
def _begin_slopes(masses, per, q, crossing, means, spread, potentials):
    """Turn potentials into slopes in the masses of one side, with the coupling fixed.

    ``crossing`` has the slopes through the corrections of the other side.
    """
    for i in range(masses.shape[0]):
        share, mean = read(q, i), read(means, i)
        own = 0.5 * correct(share) - share * correct_slope(share)
        own = own - 0.5 * (read(crossing, i) * read(per, i))
        own = own - 0.5 * spread * (mean * mean)
        write(potentials, i, read(potentials, i) + choose(read(masses, i), 0.0, own, 0.0))


@njit(**INNER)
def _apply(given, found, band, start, ptr, sums, vector, image):
    """Write (diag(sums) − Pᵀ diag(1/rows) P) vector; return its inner product with the vector."""
    for j in range(vector.shape[0]):
        write(image, j, read(sums, j) * read(vector, j))
    for i in range(given.x.shape[0]):
        first, last, shift = ptr[i], ptr[i + 1], start[i] - ptr[i]
        total = fill(0.0)
        for t in range(first, last):
            total = total + read(band, t) * read(vector, t + shift)
        add_row(band, first, last, shift, 0.0 - total * read(found.per_mz, i), image)
    along = fill(0.0)
    for j in range(vector.shape[0]):
        along = along + read(vector, j) * read(image, j)
    return along


@njit(**INNER)
def _solve_adjoint(given, duals, found, band, start, ptr, residual, room, few, answer):
    """Write the multipliers of the labels' margins by conjugate gradients.

    The preconditioner is the step of `match_labels`. ``residual``, the right-hand side, is
    overwritten.
    """
    better, direction, links, outlets, ratio = room[0], room[1], room[2], room[3], room[4]
    image, m = room[5], given.y.shape[0]
    for i in range(given.x.shape[0]):
        write(duals.u, i, fill(1.0))
    for j in range(m):
        write(duals.v, j, fill(1.0))
    _find_links(given, duals, band, start, ptr, links, outlets)
    clear(answer)
    clear(direction)
    before = fill(0.0)
    for step in range(ADJOINT_STEPS):
        for j in range(m):
            write(better, j, read(residual, j))
        _solve_path(links, outlets, read(few, _TOTAL), 0.0, better, ratio)
        size = fill(0.0)
        for j in range(m):
            mass, rest = read(duals.sums, j), read(residual, j)
            own = choose(mass, 1e-200, rest / _largest(mass, 1e-200), 0.0)
            own = read(better, j) + own
            write(better, j, own)
            size = size + own * rest
        if step == 0:
            write(few, _GOAL, _ADJOINT_TOLERANCE * _ADJOINT_TOLERANCE * size)
        # A problem that is done, or has no curvature left, has a size of zero from then on.
        size = choose(size, read(few, _GOAL), size, 0.0)
        if step > 0:
            size = choose(before, 0.0, size, 0.0)
        write(few, _SIZE, size)
        if not any_positive(few, _SIZE):
            break
        share = choose(before, 0.0, size / before, 0.0)
        for j in range(m):
            write(direction, j, read(better, j) + share * read(direction, j))
        bend = _apply(given, found, band, start, ptr, duals.sums, direction, image)
        size = choose(bend, 0.0, size, 0.0)
        before = size
        share = choose(bend, 0.0, size / bend, 0.0)
        for j in range(m):
            write(answer, j, read(answer, j) + share * read(direction, j))
            write(residual, j, read(residual, j) - share * read(image, j))


@njit(**OPTIONS)
def slope_coupling(given, duals, found, band, start, ptr, spread, rows, room, few, along):
    """Turn the coupling into slopes in log densities, and the potentials into those in the masses.

    The coupling maximises the entropic value, but neither corrections nor spreading. Their slopes
    through the margins take one linear system for each problem, the adjoint. ``along`` gets the
    slopes in the places x and, in its last line, in log sigma, where log densities are −(y − x)²/2
    in units of sigma. ``rows`` has two rows for each row, ``room`` nine for each label.
    """
    n, m, x, y = given.x.shape[0], given.y.shape[0], given.x, given.y
    total_z, cross_z, target, cross_y, kept = rows[0], rows[1], room[6], room[7], room[8]
    per_slack, slope_slack = read(found.per_slack, 0), correct_slope(read(found.q_slack, 0))
    clear(target)
    clear(cross_y)
    for i in range(n):
        here, per, mean = read(x, i), read(found.per_mz, i), read(found.mean_z, i)
        bend, free, shift = correct_slope(read(found.qz, i)), read(duals.free, i), start[i] - ptr[i]
        density = free * per * per_slack
        total, cross = free * density * (bend + slope_slack), free * density * slope_slack
        for t in range(ptr[i], ptr[i + 1]):
            j, entry = t + shift, read(band, t)
            gap, other = read(y, j) - here, correct_slope(read(found.qy, j))
            density = entry * per * read(found.per_my, j)
            gain = density * (bend + other)
            gain = gain - spread * (gap * gap - 1.0 - gap * (mean + read(found.mean_y, j)))
            total = total + entry * gain
            cross = cross + entry * density * other
            write(target, j, read(target, j) + entry * gain)
            write(cross_y, j, read(cross_y, j) + entry * density * bend)
        write(total_z, i, total)
        write(cross_z, i, cross)
        add_row(band, ptr[i], ptr[i + 1], shift, 0.0 - total * per, target)
    _begin_slopes(
        given.mz, found.per_mz, found.qz, cross_z, found.mean_z, spread, duals.potential_z
    )
    _begin_slopes(
        given.my, found.per_my, found.qy, cross_y, found.mean_y, spread, duals.potential_y
    )
    for j in range(m):
        write(target, j, read(target, j) + read(duals.sums, j) - read(given.my, j))
    _solve_adjoint(given, duals, found, band, start, ptr, target, room, few, kept)
    for j in range(m):
        write(duals.potential_y, j, read(duals.potential_y, j) + read(kept, j))
    by_sigma = fill(0.0)
    for i in range(n):
        here, per, mean, total = (
            read(x, i),
            read(found.per_mz, i),
            read(found.mean_z, i),
            read(total_z, i),
        )
        bend, shift = correct_slope(read(found.qz, i)), start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            total = total - read(band, t) * read(kept, t + shift)
        total = total * per
        write(duals.potential_z, i, read(duals.potential_z, i) + total)
        by_place = fill(0.0)
        for t in range(ptr[i], ptr[i + 1]):
            j, entry = t + shift, read(band, t)
            gap, other = read(y, j) - here, correct_slope(read(found.qy, j))
            gain = entry * per * read(found.per_my, j) * (bend + other) - total - read(kept, j)
            gain = gain - spread * (gap * gap - 1.0 - gap * (mean + read(found.mean_y, j)))
            entry = entry * (1.0 + gain)
            write(band, t, entry)
            by_place = by_place + entry * gap
            by_sigma = by_sigma + entry * gap * gap
        write(along, i, by_place)
    write(along, n, by_sigma)
