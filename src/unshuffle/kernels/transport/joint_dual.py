"""Couplings between masses under any log density, a problem in every lane: see `lanes`.

Rows without a label hold a joker, which suits any row: its scaling is the one that is kept, so that
it adds a term to the sum of every row, and in the curvature it grounds the labels. Where there is
none, the last label is kept. Steps are those of `lanes`: Sinkhorn's, and a flow along the labels,
here also to the jokers.

As in `lanes`, inner loops run over problems and add up nothing inside, a problem that has converged
waits, and entries that a problem does not have are zero: no bit depends on the problems beside one.
"""

from math import log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.correction import ADJOINT_STEPS, correct, correct_slope
from unshuffle.kernels.transport.coupling import LEAST, ROUNDING, STEP_SHARE

# Problems side by side: two vectors of eight numbers.
LANES = 16
# A row's entries below this share of its largest (2e-22) are none.
_CUT = 50.0
# No step moves a log scaling further. Scalings that
# moved further in all have their kernel filled anew, since what was cut off may have grown.
_LONGEST, _DRIFT = 4.0, 8.0
_MAX_PASSES = 200
# A flow changes the height over a link by no more than one over this, whatever the link.
_BEND = 0.4
# Links change slowly: they are found anew in every third pass.
_KEEP_LINKS = 3
# Links below this share of all mass may be rounding: see `diagonals`.
_HIDDEN = 1e-11
# No more of a label's mass is taken to compete with jokers than all but this share.
_LEAST_SHARE = 1e-3
# Labels closer together are joined by as strong a link as at this distance.
_NEAREST = 1e-9
# Margins that a solve has not met and that are off by more than this share are unmet. No mass that
# is missing at a label costs more than a million nats.
_UNMET, _LEAST_LOG = 1e-6, -1e6
# The adjoint is solved to this share of its right-hand side.
_ADJOINT_TOLERANCE = 1e-7


@njit(**INNER, forceinline=True)
def _add_terms(x):
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
def _fill(logs, mz, my, jokers, is_asked, g, plan, free, high, scale, ends):
    """Fill exp(logs + g) of the lanes asked for, relative to the largest of each row."""
    n_asked, highest = 0, np.empty(LANES)
    for k in range(LANES):
        n_asked += is_asked[k]
    if n_asked == 0:
        return
    for i in range(mz.shape[0]):
        own, mass, rest = high[i], mz[i], free[i]
        for k in range(LANES):
            highest[k] = 0.0 if jokers[k] > 0.0 else -np.inf
        for j in range(my.shape[0]):
            line, level = logs[i, j], g[j]
            for k in range(LANES):
                highest[k] = max(highest[k], line[k] + level[k])
        for k in range(LANES):
            own[k] = highest[k] if is_asked[k] else own[k]
        for j in range(my.shape[0]):
            line, level, label, out = logs[i, j], g[j], my[j], plan[i, j]
            for k in range(LANES):
                x = line[k] + level[k] - own[k]
                # exp(x) is exp(x/256) squared eight times.
                power = _add_terms(max(x, -_CUT) / 256.0)
                power *= power
                power *= power
                power *= power
                power *= power
                power *= power
                power *= power
                power *= power
                power *= power
                power = power if x > -_CUT and mass[k] > 0.0 and label[k] > 0.0 else 0.0
                out[k] = power if is_asked[k] else out[k]
        for k in range(LANES):
            x = -own[k]
            power = _add_terms(max(x, -_CUT) / 256.0)
            power *= power
            power *= power
            power *= power
            power *= power
            power *= power
            power *= power
            power *= power
            power *= power
            power = power if x > -_CUT and jokers[k] > 0.0 else 0.0
            rest[k] = power if is_asked[k] else rest[k]
            scale[i, k] = 1.0 if is_asked[k] else scale[i, k]
    _find_ends(plan, ends)


@njit(**INNER)
def _find_ends(plan, ends):
    """Write where the entries of every row begin and end, in whichever lane."""
    n_rows, n_labels, _ = plan.shape
    for i in range(n_rows):
        first, last = n_labels, n_labels
        for j in range(n_labels):
            line, some = plan[i, j], 0
            for k in range(LANES):
                some += line[k] > 0.0
            if some > 0:
                first = j
                break
        for j in range(n_labels - 1, first - 1, -1):
            line, some = plan[i, j], 0
            for k in range(LANES):
                some += line[k] > 0.0
            if some > 0:
                last = j + 1
                break
        ends[0, i], ends[1, i] = first, last


@njit(**INNER)
def _meet_rows(plan, free, mz, is_done, ends, scale, columns):
    """Scale the rows of open lanes to their masses; write the sums of the labels."""
    total = np.empty(LANES)
    for j in range(columns.shape[0]):
        for k in range(LANES):
            columns[j, k] = 0.0
    for i in range(mz.shape[0]):
        mass, rest, own = mz[i], free[i], scale[i]
        for k in range(LANES):
            total[k] = rest[k]
        for j in range(ends[0, i], ends[1, i]):
            line = plan[i, j]
            for k in range(LANES):
                total[k] += line[k]
        for k in range(LANES):
            total[k] = 1.0 if is_done[k] else mass[k] / max(total[k], LEAST)
            own[k] *= total[k]
            rest[k] *= total[k]
        for j in range(ends[0, i], ends[1, i]):
            line, out = plan[i, j], columns[j]
            for k in range(LANES):
                line[k] *= total[k]
                out[k] += line[k]


@njit(**INNER)
def ground_labels(my, jokers):
    """Return what holds the scalings: the last label where there is no joker."""
    ground, is_taken = np.zeros(my.shape), np.zeros(LANES, np.bool_)
    for j in range(my.shape[0] - 1, -1, -1):
        for k in range(LANES):
            if jokers[k] <= 0.0 and my[j, k] > 0.0 and not is_taken[k]:
                ground[j, k], is_taken[k] = my[j, k], True
    return ground


@njit(**INNER)
def invert(masses):
    """Return one over the masses, zero where there is none."""
    inverse = np.empty(masses.shape)
    for i in range(masses.shape[0]):
        for k in range(LANES):
            mass = masses[i, k]
            inverse[i, k] = 1.0 / max(mass, LEAST) if mass > 0.0 else 0.0
    return inverse


@njit(**INNER)
def _find_links(plan, free, per_mz, ends, my, y, columns, ground, links, ways_out):
    """Write how easily mass moves between neighbouring labels, and from each to the jokers.

    The one as in `diagonals.conductances`, the other by what rows give to jokers. Where the share
    s goes to jokers, 1 − (1 − s) exp(−e) is an eigenvalue of the curvature for one of e along
    the path: both are divided by 1 − s. A link of −1 is none.
    """
    n_rows, n_labels, _ = plan.shape
    mass, centre, weight = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for j in range(n_labels):
        for k in range(LANES):
            links[j, k], ways_out[j, k] = 0.0, 0.0
    for i in range(n_rows):
        rest, per, first, last = free[i], per_mz[i], ends[0, i], ends[1, i]
        for k in range(LANES):
            mass[k], centre[k] = 0.0, 0.0
        for j in range(first, last):
            line, there = plan[i, j], y[j]
            for k in range(LANES):
                mass[k] += line[k]
                centre[k] += line[k] * there[k]
        for k in range(LANES):
            centre[k] /= max(mass[k], LEAST)
            mass[k] *= per[k]
            weight[k] = rest[k] * per[k]
        for j in range(first, last):
            line, there, out, way_out = plan[i, j], y[j], links[j], ways_out[j]
            for k in range(LANES):
                out[k] += line[k] * mass[k] * (there[k] - centre[k])
                way_out[k] += line[k] * weight[k]
    for k in range(LANES):
        mass[k] = 0.0
    for j in range(n_labels - 1, -1, -1):
        own, there, before = links[j], y[j], y[max(j - 1, 0)]
        for k in range(LANES):
            # What the labels from j on have in all, before it is written over.
            mass[k] += own[k]
            own[k] = max(mass[k], 0.0) / max(there[k] - before[k], _NEAREST)
            # The share that does not go to jokers.
            weight[k] = max(1.0 - ways_out[j, k] / max(columns[j, k], LEAST), _LEAST_SHARE)
            ways_out[j, k] = ways_out[j, k] / weight[k] + ground[j, k]
            own[k] /= weight[k]
    for j in range(n_labels):
        for k in range(LANES):
            is_last = j == n_labels - 1 or my[min(j + 1, n_labels - 1), k] <= 0.0
            links[j, k] = -1.0 if is_last else links[min(j + 1, n_labels - 1), k]


@njit(**INNER)
def _descend(links, ways_out, total, bend, found, work):
    """Replace what labels lack by the heights that let it flow along the links and to jokers.

    Elimination from the first label on; ``bend`` bounds the drop over any link by one over it.
    Over links that rounding may have made nothing flows.
    """
    lack, way_out = work[0], work[1]
    n_labels = links.shape[0]
    ratio = np.empty(links.shape)
    for k in range(LANES):
        lack[k], way_out[k] = 0.0, 0.0
    for j in range(n_labels):
        own, link, ground, part = found[j], links[j], ways_out[j], ratio[j]
        for k in range(LANES):
            lack[k] += own[k]
            way_out[k] += ground[k]
            size = abs(lack[k])
            way = max(link[k], 0.0) + bend * (size if size > ROUNDING * total[k] else 0.0)
            whole = way_out[k] + way
            whole = 1.0 / max(whole, LEAST) if whole > _HIDDEN * total[k] else 0.0
            own[k] = lack[k] * whole
            part[k] = way * whole if link[k] >= 0.0 else 0.0
            lack[k] *= part[k]
            way_out[k] *= part[k]
    for j in range(n_labels - 2, -1, -1):
        own, after, part = found[j], found[j + 1], ratio[j]
        for k in range(LANES):
            own[k] += part[k] * after[k]


@njit(**INNER)
def _aim(columns, my, total, links, ways_out, step, along, work):
    """Write the move of labels' log scalings that fills most of their gaps, and the slope along it.

    Where an eigenvalue of links and jokers is e, that of the curvature is about 1 − exp(−e): so
    1 + 1/e inverts it within a third. The one is Sinkhorn's step, the other a flow.
    """
    for j in range(my.shape[0]):
        for k in range(LANES):
            step[j, k] = my[j, k] - columns[j, k]
    _descend(links, ways_out, total, _BEND, step, work)
    for k in range(LANES):
        along[k] = 0.0
    for j in range(my.shape[0]):
        out, mass, there = step[j], my[j], columns[j]
        for k in range(LANES):
            gap = there[k] - mass[k]
            # A logarithm, bounded: what is further off moves again.
            share = gap / max(there[k] + mass[k], LEAST)
            square = share * share
            near = 1.0 + square * (1.0 / 3.0 + square * (0.2 + square / 7.0))
            out[k] = min(max(STEP_SHARE * (out[k] - 2.0 * share * near), -_LONGEST), _LONGEST)
            along[k] += gap * out[k]


@njit(**INNER)
def _move(plan, step, move, ends, g, is_asked, drift):
    """Move the log scalings of labels by shares of steps, and the plan unless it is filled anew."""
    powers, largest = np.empty(g.shape), np.zeros(LANES)
    for j in range(g.shape[0]):
        own, out, to = step[j], powers[j], g[j]
        for k in range(LANES):
            x = move[k] * own[k]
            to[k] += x
            largest[k] = max(largest[k], abs(x))
            power = _add_terms(min(max(x, -_DRIFT), _DRIFT) / 64.0)
            power *= power
            power *= power
            power *= power
            power *= power
            power *= power
            power *= power
            out[k] = power
    for k in range(LANES):
        drift[k] += largest[k]
        is_asked[k] = drift[k] > _DRIFT
        drift[k] = 0.0 if is_asked[k] else drift[k]
    for i in range(plan.shape[0]):
        for j in range(ends[0, i], ends[1, i]):
            line, power = plan[i, j], powers[j]
            for k in range(LANES):
                line[k] *= power[k]


@njit(**OPTIONS)
def couple_lanes(logs, mz, my, jokers, y, g, tolerance):
    """Return couplings with these margins: labels' parts, the joker's part of every row, …

    the log scalings of rows, the labels' margins, and where rows begin and end. ``g``, the log
    scalings of labels, moves in place from where it starts. Rows are met exactly, labels until
    a step gains less than the tolerance, in nats.
    """
    plan, free, columns = np.zeros(logs.shape), np.zeros(mz.shape), np.empty(my.shape)
    high, scale, ends = np.zeros(mz.shape), np.ones(mz.shape), np.empty((2, len(mz)), np.int64)
    links, ways_out, fresh = np.empty(my.shape), np.empty(my.shape), np.empty(my.shape)
    step, share, move = np.zeros(my.shape), np.ones(LANES), np.empty(LANES)
    expected, drift, along = np.zeros(LANES), np.zeros(LANES), np.empty(LANES)
    is_asked, is_done = np.ones(LANES, np.bool_), np.zeros(LANES, np.bool_)
    is_met = np.empty(LANES, np.bool_)
    is_new, total, work = np.empty(LANES, np.bool_), np.zeros(LANES), np.empty((2, LANES))
    ground, per_mz = ground_labels(my, jokers), invert(mz)
    for j in range(len(my)):
        for k in range(LANES):
            total[k] += my[j, k]
    _fill(logs, mz, my, jokers, is_asked, g, plan, free, high, scale, ends)
    for passes in range(_MAX_PASSES):
        _meet_rows(plan, free, mz, is_done, ends, scale, columns)
        for k in range(LANES):
            along[k] = 0.0
        for j in range(len(my)):
            for k in range(LANES):
                along[k] += (columns[j, k] - my[j, k]) * step[j, k]
        for k in range(LANES):
            # Far beyond the lowest point of the line half of the way is taken back.
            is_new[k] = not is_done[k] and along[k] <= -0.5 * expected[k]
        if passes % _KEEP_LINKS == 0:
            _find_links(plan, free, per_mz, ends, my, y, columns, ground, links, ways_out)
        _aim(columns, my, total, links, ways_out, fresh, along, work)
        n_open = 0
        for k in range(LANES):
            share[k] = 1.0 if is_new[k] else 0.5 * share[k]
            expected[k] = along[k] if is_new[k] else expected[k]
            move[k] = 0.0 if is_done[k] else (share[k] if is_new[k] else -share[k])
            is_done[k] |= is_new[k] and expected[k] > -tolerance
            n_open += not is_done[k]
        for j in range(len(my)):
            for k in range(LANES):
                step[j, k] = fresh[j, k] if is_new[k] else step[j, k]
        _move(plan, step, move, ends, g, is_asked, drift)
        _fill(logs, mz, my, jokers, is_asked, g, plan, free, high, scale, ends)
        if n_open == 0:
            break
    for k in range(LANES):
        is_met[k], is_done[k] = is_done[k], False
    _meet_rows(plan, free, mz, is_done, ends, scale, columns)
    for i in range(len(mz)):
        for k in range(LANES):
            high[i, k] = log(scale[i, k] if mz[i, k] > 0.0 else 1.0) - high[i, k]
    return plan, free, high, columns, ends, is_met


@njit(**INNER)
def _sum_squares(plan, free, per_mz, per_my, per_jokers, ends, qz, qy, qj):
    """Write the collision probabilities of rows, labels and jokers: see `lattice.collisions`."""
    for k in range(LANES):
        qj[k] = 0.0
    for j in range(qy.shape[0]):
        for k in range(LANES):
            qy[j, k] = 0.0
    for i in range(qz.shape[0]):
        total, per, rest = qz[i], per_mz[i], free[i]
        for k in range(LANES):
            square = rest[k] * per[k] * rest[k]
            total[k] = square * per_jokers[k] * per[k]
            qj[k] += square * per_jokers[k] * per_jokers[k]
        for j in range(ends[0, i], ends[1, i]):
            line, other, out = plan[i, j], per_my[j], qy[j]
            for k in range(LANES):
                square = line[k] * line[k] * per[k] * other[k]
                total[k] += square * per[k]
                out[k] += square * other[k]


@njit(**INNER)
def _find_means(plan, per_mz, per_my, ends, z, y, mean_z, mean_y):
    """Write the mean distances to partners of rows and labels; jokers are at none."""
    for j in range(mean_y.shape[0]):
        for k in range(LANES):
            mean_y[j, k] = 0.0
    for i in range(mean_z.shape[0]):
        here, own = z[i], mean_z[i]
        for k in range(LANES):
            own[k] = 0.0
        for j in range(ends[0, i], ends[1, i]):
            line, there, out = plan[i, j], y[j], mean_y[j]
            for k in range(LANES):
                part = line[k] * (there[k] - here[k])
                own[k] += part
                out[k] += part
        for k in range(LANES):
            own[k] *= per_mz[i, k]
    for j in range(mean_y.shape[0]):
        for k in range(LANES):
            mean_y[j, k] *= per_my[j, k]


@njit(**INNER)
def _add_spread(plan, ends, mz, my, z, y, mean_z, mean_y, spread, values):
    """Add the first-order effect of spreading both sides over nodes, which is to be taken out.

    For a row it is half of the second derivative of its log sum: the mean of d² − 1 less the
    square of the mean of d, for distances d to its partners, zeros for jokers.
    """
    for i in range(mz.shape[0]):
        here = z[i]
        for j in range(ends[0, i], ends[1, i]):
            line, there = plan[i, j], y[j]
            for k in range(LANES):
                gap = there[k] - here[k]
                values[k] -= spread * line[k] * (gap * gap - 1.0)
        for k in range(LANES):
            values[k] += 0.5 * spread * mz[i, k] * mean_z[i, k] * mean_z[i, k]
    for j in range(my.shape[0]):
        for k in range(LANES):
            values[k] += 0.5 * spread * my[j, k] * mean_y[j, k] * mean_y[j, k]


@njit(**INNER)
def _add_values(masses, logs, q, values):
    """Add what one side says: its masses' scalings, and half of the correction."""
    for i in range(masses.shape[0]):
        for k in range(LANES):
            mass = masses[i, k]
            if mass > 0.0:
                values[k] += mass * (0.5 * correct(q[i, k]) + log(mass) - logs[i, k])


@njit(**INNER)
def _weigh_unmet(logs, f, g, my, mz, columns, is_met, values):
    """Add what it would cost to bring the missing mass to labels that lack it.

    The dual is least where the margins are met: elsewhere it promises too much.
    """
    error, total = np.zeros(LANES), np.zeros(LANES)
    for j in range(my.shape[0]):
        for k in range(LANES):
            error[k] += abs(columns[j, k] - my[j, k])
            total[k] += my[j, k]
    for k in range(LANES):
        if is_met[k] or error[k] < _UNMET * total[k]:
            continue
        for j in range(my.shape[0]):
            lack, worst = my[j, k] - columns[j, k], 0.0
            if lack > 0.0:
                for i in range(mz.shape[0]):
                    if mz[i, k] > 0.0:
                        worst = min(worst, logs[i, j, k] + f[i, k] + g[j, k])
                values[k] += lack * max(worst, _LEAST_LOG)


@njit(**OPTIONS)
def value_lanes(logs, found, mz, my, jokers, g, z, y, spread, values):
    """Fill log perm of bags in which every item stands as often as its mass; see `couple_lanes`.

    Both sides may lie on nodes of a grid, at z and y, that add a variance ``spread``; it is taken
    out to first order. Returns what `slope_lanes` needs.
    """
    plan, free, f, columns, ends, is_met = found
    per_mz, per_my, per_jokers = invert(mz), invert(my), np.zeros(LANES)
    qz, qy, qj = np.empty(mz.shape), np.empty(my.shape), np.empty(LANES)
    mean_z, mean_y = np.zeros(mz.shape), np.zeros(my.shape)
    for k in range(LANES):
        per_jokers[k] = 1.0 / max(jokers[k], LEAST) if jokers[k] > 0.0 else 0.0
        values[k] = 0.0
    _sum_squares(plan, free, per_mz, per_my, per_jokers, ends, qz, qy, qj)
    _add_values(mz, f, qz, values)
    _add_values(my, g, qy, values)
    for k in range(LANES):
        if jokers[k] > 0.0:
            values[k] += jokers[k] * (0.5 * correct(qj[k]) + log(jokers[k]))
    if spread > 0.0:
        _find_means(plan, per_mz, per_my, ends, z, y, mean_z, mean_y)
        _add_spread(plan, ends, mz, my, z, y, mean_z, mean_y, spread, values)
    _weigh_unmet(logs, f, g, my, mz, columns, is_met, values)
    return per_mz, per_my, per_jokers, qz, qy, qj, mean_z, mean_y


@njit(**INNER)
def _take_slopes(q, per, out):
    """Write the corrections' slopes in the collision probabilities, zero where there is no mass."""
    for i in range(q.shape[0]):
        for k in range(LANES):
            out[i, k] = correct_slope(q[i, k]) if per[i, k] > 0.0 else 0.0


@njit(**INNER)
def _begin_slopes(masses, per, q, bends, crossing, logs, means, spread, by_mass):
    """Write slopes in the masses of one side, the coupling being kept.

    The crossing is what the other side's corrections lose by its masses.
    """
    for i in range(masses.shape[0]):
        for k in range(LANES):
            mass = masses[i, k]
            own = 0.5 * correct(q[i, k]) - q[i, k] * bends[i, k] - 0.5 * crossing[i, k] * per[i, k]
            own -= 0.5 * spread * means[i, k] * means[i, k] + logs[i, k]
            by_mass[i, k] = own + log(mass) if mass > 0.0 else 0.0


@njit(**INNER)
def _apply(plan, per_mz, columns, ends, vector, image):
    """Write (diag(columns) − Pᵀ diag(1/rows) P) vector."""
    total = np.empty(LANES)
    for j in range(vector.shape[0]):
        for k in range(LANES):
            image[j, k] = columns[j, k] * vector[j, k]
    for i in range(per_mz.shape[0]):
        for k in range(LANES):
            total[k] = 0.0
        for j in range(ends[0, i], ends[1, i]):
            line, other = plan[i, j], vector[j]
            for k in range(LANES):
                total[k] += line[k] * other[k]
        for k in range(LANES):
            total[k] *= per_mz[i, k]
        for j in range(ends[0, i], ends[1, i]):
            line, out = plan[i, j], image[j]
            for k in range(LANES):
                out[k] -= line[k] * total[k]


@njit(**INNER)
def _solve_adjoint(plan, free, per_mz, columns, my, jokers, y, ends, found):
    """Replace the right-hand side by the labels' multipliers: conjugate gradients.

    With the preconditioner of `_aim`.
    """
    ground, n_labels = ground_labels(my, jokers), my.shape[0]
    links, ways_out, work = np.empty(my.shape), np.empty(my.shape), np.empty((2, LANES))
    residual, better, image = found.copy(), np.empty(my.shape), np.empty(my.shape)
    direction, total = np.zeros(my.shape), np.zeros(LANES)
    size, bend, before, goal = np.empty(LANES), np.empty(LANES), np.ones(LANES), np.empty(LANES)
    is_done = np.zeros(LANES, np.bool_)
    _find_links(plan, free, per_mz, ends, my, y, columns, ground, links, ways_out)
    for j in range(n_labels):
        for k in range(LANES):
            found[j, k] = 0.0
            total[k] += my[j, k]
    for step in range(ADJOINT_STEPS):
        for j in range(n_labels):
            for k in range(LANES):
                better[j, k] = residual[j, k]
        _descend(links, ways_out, total, 0.0, better, work)
        for k in range(LANES):
            size[k], bend[k] = 0.0, 0.0
        for j in range(n_labels):
            own, rest, mass = better[j], residual[j], columns[j]
            for k in range(LANES):
                own[k] += rest[k] / mass[k] if mass[k] > 1e-200 else 0.0
                size[k] += own[k] * rest[k]
        n_open = 0
        for k in range(LANES):
            goal[k] = _ADJOINT_TOLERANCE * _ADJOINT_TOLERANCE * size[k] if step == 0 else goal[k]
            is_done[k] |= not size[k] > goal[k]
            n_open += not is_done[k]
        if n_open == 0:
            break
        for j in range(n_labels):
            for k in range(LANES):
                share = size[k] / before[k] if step > 0 and not is_done[k] else 0.0
                direction[j, k] = better[j, k] + share * direction[j, k]
        _apply(plan, per_mz, columns, ends, direction, image)
        for j in range(n_labels):
            for k in range(LANES):
                bend[k] += direction[j, k] * image[j, k]
        for k in range(LANES):
            is_done[k] |= not bend[k] > 0.0
            before[k] = size[k]
        for j in range(n_labels):
            for k in range(LANES):
                share = 0.0 if is_done[k] else size[k] / bend[k]
                found[j, k] += share * direction[j, k]
                residual[j, k] -= share * image[j, k]


@njit(**OPTIONS)
def slope_lanes(found, beside, mz, my, jokers, g, z, y, spread, by_row, by_column):
    """Turn couplings into the slopes in their log kernels, and fill those in the masses.

    What is not stationary, corrections and spreading, goes through the margins by one linear
    system for each problem.
    """
    plan, free, f, columns, ends, _ = found
    per_mz, per_my, per_jokers, qz, qy, qj, mean_z, mean_y = beside
    n_rows, n_labels, _ = plan.shape
    bend_z, bend_y, bend_j = np.empty(mz.shape), np.empty(my.shape), np.empty(LANES)
    _take_slopes(qz, per_mz, bend_z)
    _take_slopes(qy, per_my, bend_y)
    for k in range(LANES):
        bend_j[k] = correct_slope(qj[k])
    rows, target = np.zeros(mz.shape), np.zeros(my.shape)
    cross_z, cross_y = np.zeros(mz.shape), np.zeros(my.shape)
    for i in range(n_rows):
        here, per, bend, mean, total, cross = (
            z[i],
            per_mz[i],
            bend_z[i],
            mean_z[i],
            rows[i],
            cross_z[i],
        )
        rest = free[i]
        for k in range(LANES):
            density = rest[k] * per[k] * per_jokers[k]
            total[k] = rest[k] * density * (bend[k] + bend_j[k])
            cross[k] = rest[k] * density * bend_j[k]
        for j in range(ends[0, i], ends[1, i]):
            line, there, other, beyond = plan[i, j], y[j], bend_y[j], mean_y[j]
            out, across, part = target[j], cross_y[j], per_my[j]
            for k in range(LANES):
                density, gap = line[k] * per[k] * part[k], there[k] - here[k]
                gain = density * (bend[k] + other[k])
                gain -= spread * (gap * gap - 1.0 - gap * (mean[k] + beyond[k]))
                total[k] += line[k] * gain
                out[k] += line[k] * gain
                cross[k] += line[k] * density * other[k]
                across[k] += line[k] * density * bend[k]
    _begin_slopes(mz, per_mz, qz, bend_z, cross_z, f, mean_z, spread, by_row)
    _begin_slopes(my, per_my, qy, bend_y, cross_y, g, mean_y, spread, by_column)
    for i in range(n_rows):
        per, total = per_mz[i], rows[i]
        for j in range(ends[0, i], ends[1, i]):
            line, out = plan[i, j], target[j]
            for k in range(LANES):
                out[k] -= line[k] * total[k] * per[k]
    for j in range(n_labels):
        for k in range(LANES):
            target[j, k] += columns[j, k] - my[j, k]
    _solve_adjoint(plan, free, per_mz, columns, my, jokers, y, ends, target)
    for i in range(n_rows):
        here, per, bend, mean, total, own = (
            z[i],
            per_mz[i],
            bend_z[i],
            mean_z[i],
            rows[i],
            by_row[i],
        )
        for j in range(ends[0, i], ends[1, i]):
            line, other = plan[i, j], target[j]
            for k in range(LANES):
                total[k] -= line[k] * other[k]
        for k in range(LANES):
            total[k] *= per[k]
            own[k] += total[k]
        for j in range(ends[0, i], ends[1, i]):
            line, there, other, beyond = plan[i, j], y[j], bend_y[j], mean_y[j]
            multiplier, part = target[j], per_my[j]
            for k in range(LANES):
                density, gap = line[k] * per[k] * part[k], there[k] - here[k]
                gain = density * (bend[k] + other[k]) - total[k] - multiplier[k]
                gain -= spread * (gap * gap - 1.0 - gap * (mean[k] + beyond[k]))
                line[k] *= 1.0 + gain
    for j in range(n_labels):
        for k in range(LANES):
            by_column[j, k] += target[j, k]
