"""The within-bag likelihood of bags at many points: exact, side by side, or one by one.

For every point (predictions, noise) and bag: log(perm/m!) of exp(−(y_j − z_i)²/2) in units of
sigma, its slopes in the rows' predictions z, and in log sigma. Up to `EXACT_ROWS` rows it is the
permanent itself; larger bags have entropic transport with a local correction, on the rows
themselves or, where these are more than nodes, on a grid of cubic B-splines.
"""

from math import lgamma, log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.sorting import find_order
from unshuffle.kernels.transport.correction import add_corrections as add_large_corrections
from unshuffle.kernels.transport.coupling import PRECISE
from unshuffle.kernels.transport.diagonals import point_gradients as large_point_gradients
from unshuffle.kernels.transport.lanes import lay_problem
from unshuffle.kernels.transport.lattice import (
    add_gradients as add_large_gradients,
    collisions,
    correction_gradients as large_correction_gradients,
    scale,
    solve_adjoint as solve_large_adjoint,
    variances,
)
from unshuffle.kernels.transport.permanent import EXACT_ROWS
from unshuffle.kernels.transport.splines import gather, spread_rows
from unshuffle.kernels.transport.vectors import LANES

# A grid pays once its nodes are fewer than the rows. In between both values are mixed, since they
# differ by 0.03 to 1.8 nats for good fits and by tens for bad ones, and a climb would stop at a
# step. Labels and sigma alone decide, so that the share of each is the same for all weights ...
_ALL_POINTS, _ALL_GRID = 1.0, 0.8
# ... but for bags of few rows, where a grid saves little and both cost double, ...
_FEW_ROWS = 20
# ... and for predictions so far out that their nodes would fill the memory.
_WIDEST = 10.0
# Problems of more atoms fill vectors by themselves.
MOST_ATOMS = 256
# Kinds of problems: keys of one kind and of more and more atoms.
GRIDS = EXACT_ROWS + MOST_ATOMS + 1
LARGE = GRIDS + MOST_ATOMS + 1
# A step that gains less than this share of the number of labels is rounding.
_ROUNDED = 1e-12


@njit(**INNER)
def _centre(bent, offsets, sigma):
    """Centre predictions in each bag, in units of sigma."""
    for r in range(offsets.size - 1):
        lo, hi = offsets[r], offsets[r + 1]
        total = 0.0
        for i in range(lo, hi):
            total += bent[i]
        mean = total / (hi - lo)
        for i in range(lo, hi):
            bent[i] = (bent[i] - mean) / sigma


@njit(**INNER)
def _grid_share(labels, least, largest, sigma, per_sigma):
    """Return the share of the grid in a bag's value, and the share's slope in log sigma."""
    m = labels.size
    if m <= _FEW_ROWS or (largest - least) * per_sigma > _WIDEST * m:
        return 0.0, 0.0
    nodes = (labels[m - 1] - labels[0]) / sigma * per_sigma / m
    if nodes >= _ALL_POINTS:
        return 0.0, 0.0
    if nodes <= _ALL_GRID:
        return 1.0, 0.0
    width = log(_ALL_POINTS / _ALL_GRID)
    way = log(_ALL_POINTS / nodes) / width
    return way * way * (3.0 - 2.0 * way), 6.0 * way * (1.0 - way) / width


@njit(**INNER)
def _list_problems(bent, labels, offsets, sigmas, per_sigma, problems, weights):
    """List what is to be matched: point, bag, key; the share in the bag's value, and its slope.

    A key tells the kind of a problem and its atoms. Returns how many there are.
    """
    n = 0
    for k in range(sigmas.size):
        for r in range(offsets.size - 1):
            lo, hi = offsets[r], offsets[r + 1]
            m = hi - lo
            if m == 1:
                continue
            least, largest = bent[k, lo], bent[k, lo]
            for i in range(lo, hi):
                least, largest = min(least, bent[k, i]), max(largest, bent[k, i])
            share, slope = _grid_share(labels[lo:hi], least, largest, sigmas[k], per_sigma)
            if share < 1.0:
                key = m if m <= EXACT_ROWS + MOST_ATOMS else LARGE
                problems[n, 0], problems[n, 1], problems[n, 2] = k, r, key
                weights[n, 0], weights[n, 1] = 1.0 - share, -slope
                n += 1
            if share > 0.0:
                width = max(largest - least, (labels[hi - 1] - labels[lo]) / sigmas[k])
                n_nodes = int(width * per_sigma) + 5
                key = GRIDS + n_nodes if n_nodes <= MOST_ATOMS else LARGE + 1
                problems[n, 0], problems[n, 1], problems[n, 2] = k, r, key
                weights[n, 0], weights[n, 1] = share, slope
                n += 1
    return n


@njit(**INNER)
def _sort_problems(problems, n):
    """Return the problems in the order of their keys, and where each key begins."""
    starts, order = np.zeros(LARGE + 3, np.int64), np.empty(n, np.int64)
    for q in range(n):
        starts[problems[q, 2] + 1] += 1
    for key in range(starts.size - 1):
        starts[key + 1] += starts[key]
    place = starts.copy()
    for q in range(n):
        key = problems[q, 2]
        order[place[key]] = q
        place[key] += 1
    return order, starts


@njit(**INNER)
def _scale_labels(labels, sigma):
    """Return labels in units of sigma."""
    y = np.empty(labels.size)
    for i in range(y.size):
        y[i] = labels[i] / sigma
    return y


@njit(**INNER)
def _take_points(values, order):
    """Return values in ascending order, and a mass of one for each."""
    points, masses = np.empty(values.size), np.empty(values.size)
    for i in range(values.size):
        points[i], masses[i] = values[order[i]], 1.0
    return points, masses


@njit(**OPTIONS)
def lay_group(
    group, problems, bent, labels, offsets, sigmas, per_sigma, sides, ends, places, lows, sizes
):
    """Lay up to `LANES` problems of one kind side by side: see `lanes.make_problems`.

    Fills the places of their atoms, too: of points in their bags, of nodes of either side in their
    grids, whose origins and numbers come last.
    """
    is_grid = problems[group[0], 2] > GRIDS
    order = np.empty(sides.shape[1], np.uint64)
    for lane in range(LANES):
        q = group[min(lane, group.size - 1)]  # the last problem fills up
        k, lo, hi = problems[q, 0], offsets[problems[q, 1]], offsets[problems[q, 1] + 1]
        own, y = bent[k, lo:hi], _scale_labels(labels[lo:hi], sigmas[k])
        if is_grid:
            z, mz, keep_z, lows[0, lane] = spread_rows(own, per_sigma)
            y, my, keep_y, lows[1, lane] = spread_rows(y, per_sigma)
            for i in range(z.size):
                places[0, lane, i] = keep_z[i]
            for j in range(y.size):
                places[1, lane, j] = keep_y[j]
        else:
            find_order(own, order[: hi - lo])
            z, mz = _take_points(own, order[: hi - lo])
            my = mz
            for i in range(hi - lo):
                places[0, lane, i] = order[i]
        sizes[0, lane], sizes[1, lane] = z.size, y.size
        lay_problem(sides, ends, lane, z, mz, y, my)


@njit(**OPTIONS)
def take_group(
    group, problems, shares, bent, labels, offsets, sigmas, per_sigma, wants_slopes, sides, places,
    lows, sizes, found, by_sigmas, lane_slopes, values, slopes,
):  # fmt: skip
    """Add the shares of values and slopes that problems side by side have in those of their bags.

    ``values`` (points, bags, 2) have values and slopes in log sigma, ``slopes`` (points, rows).
    """
    is_grid = problems[group[0], 2] > GRIDS
    for lane in range(group.size):
        q = group[lane]
        k, r = problems[q, 0], problems[q, 1]
        lo, hi = offsets[r], offsets[r + 1]
        share, value, by_sigma = shares[q, 0], found[lane], by_sigmas[lane]
        value -= lgamma(hi - lo + 1.0)
        # Predictions a billion sigmas off leave no digit of the potentials: such points are out.
        if not abs(value + by_sigma) < np.inf:
            values[k, r, 0] = -np.inf
            continue
        if wants_slopes and is_grid:
            out, unused = np.empty(hi - lo), np.empty(hi - lo)
            by_sigma = 0.0
            for side in range(2):
                n = sizes[side, lane]
                field, own = np.empty(n), bent[k, lo:hi]
                if side == 1:
                    own = _scale_labels(labels[lo:hi], sigmas[k])
                for i in range(n):
                    field[i] = sides[4 + side, i, lane]
                keep, to = places[side, lane, :n], out if side == 0 else unused
                by_sigma -= gather(own, keep, lows[side, lane], field, per_sigma, to)
            for i in range(hi - lo):
                slopes[k, lo + i] += share * out[i]
        elif wants_slopes:
            for i in range(hi - lo):
                slopes[k, lo + places[0, lane, i]] += share * lane_slopes[i, lane]
        values[k, r, 0] += share * value
        values[k, r, 1] += share * by_sigma + shares[q, 1] * value


@njit(**INNER)
def match_alone(bent, y, is_grid, per_sigma, wants_slopes, tolerance, slopes):
    """Return log(perm/m!) of one large bag, and its slope in log sigma; fill those in the rows."""
    m = y.size
    low_z, low_y, keep_z, keep_y = 0.0, 0.0, np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.empty(0 if is_grid else m, np.uint64)
    if is_grid:
        z, mz, keep_z, low_z = spread_rows(bent, per_sigma)
        nodes, my, keep_y, low_y = spread_rows(y, per_sigma)
    else:
        find_order(bent, order)
        z, mz = _take_points(bent, order)
        nodes, my = y, mz
    tolerance = max(PRECISE if wants_slopes else tolerance, _ROUNDED * m)
    value, potential_z, potential_y, band, ptr, at = scale(z, mz, nodes, my, tolerance)
    qz, qy = collisions(band, ptr, at, mz, my)
    value += add_large_corrections(qz, qy, mz, my) - lgamma(m + 1.0)
    spread = 1.0 / (3.0 * per_sigma * per_sigma)
    centre_z, centre_y = mz, my
    if is_grid:
        centre_z, centre_y, by_row, by_column = variances(band, ptr, at, z, mz, nodes)
        value -= 0.5 * spread * (by_row + by_column - 2.0 * m)
    if not wants_slopes:
        return value, 0.0
    gradient_z, gradient_y, slope_z, slope_y = large_correction_gradients(
        band, ptr, at, qz, qy, mz, my
    )
    if is_grid:
        add_large_gradients(
            band, ptr, at, z, nodes, centre_z, centre_y, (spread, spread), gradient_z, gradient_y
        )
    kept_z, kept_y = solve_large_adjoint(band, ptr, at, mz, my, nodes, gradient_z, gradient_y)
    if not is_grid:
        points = np.empty(m)
        by_sigma = large_point_gradients(band, ptr, at, z, nodes, qz, qy, kept_z, kept_y, points)
        for i in range(m):
            slopes[order[i]] = points[i]
        return value, by_sigma
    unused = np.empty(m)
    by_sigma = gather(bent, keep_z, low_z, potential_z + slope_z + kept_z, per_sigma, slopes)
    by_sigma += gather(y, keep_y, low_y, potential_y + slope_y + kept_y, per_sigma, unused)
    return value, -by_sigma


@njit(**OPTIONS)
def match_large(
    group, problems, shares, bent, labels, offsets, sigmas, per_sigma, wants_slopes, tolerance,
    values, slopes,
):  # fmt: skip
    """Do what `take_group` does for problems too large to stand side by side."""
    for q in group:
        k, r = problems[q, 0], problems[q, 1]
        lo, hi = offsets[r], offsets[r + 1]
        y, found = _scale_labels(labels[lo:hi], sigmas[k]), np.empty(hi - lo)
        value, by_sigma = match_alone(
            bent[k, lo:hi], y, problems[q, 2] > LARGE, per_sigma, wants_slopes, tolerance, found
        )
        if not abs(value + by_sigma) < np.inf:  # as in `take_group`
            values[k, r, 0] = -np.inf
            continue
        values[k, r, 0] += shares[q, 0] * value
        values[k, r, 1] += shares[q, 0] * by_sigma + shares[q, 1] * value
        if wants_slopes:
            for i in range(hi - lo):
                slopes[k, lo + i] += shares[q, 0] * found[i]


@njit(**OPTIONS)
def lay_out(bent, labels, offsets, sigmas, per_sigma):
    """Centre predictions in each bag, in units of sigma; return what there is to match.

    Problems (point, bag, key), their shares in the bag's value with slopes in log sigma, their
    order by keys, and where each key begins.
    """
    n_points, n_bags = sigmas.size, offsets.size - 1
    for k in range(n_points):
        _centre(bent[k], offsets, sigmas[k])
    problems = np.empty((2 * n_points * n_bags, 3), np.int64)
    shares = np.empty((2 * n_points * n_bags, 2))
    n = _list_problems(bent, labels, offsets, sigmas, per_sigma, problems, shares)
    order, starts = _sort_problems(problems, n)
    return problems, shares, order, starts


@njit(**OPTIONS)
def add_up(offsets, sigmas, by_bag, slopes, found):
    """Fill the sums over bags of values and slopes in log sigma, (points, 2).

    Slopes in centred predictions in units of sigma become those in the predictions themselves.
    """
    for k in range(sigmas.size):
        for r in range(offsets.size - 1):
            found[k, 0] += by_bag[k, r, 0]
            found[k, 1] += by_bag[k, r, 1]
        if slopes.shape[1] > 0:
            _centre(slopes[k], offsets, sigmas[k])
