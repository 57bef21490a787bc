"""Bags in memory as transport problems, and the values and slopes of bags from solved problems.

For every point (predictions, noise) and bag: log(perm/m!) of exp(−(y_j − z_i)²/2) in units of
sigma, its slopes in the rows' predictions z, and in log sigma. Up to `EXACT_ROWS` rows it is the
permanent itself; larger bags have entropic transport with a local correction, on the rows
themselves or, where these are more than nodes, on a grid of cubic B-splines. `model.transport`
solves the problems.
"""

from math import inf, lgamma, log

from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.sorting import find_order
from unshuffle.kernels.transport.permanent import EXACT_ROWS
from unshuffle.kernels.transport.splines import read_field, slope_in_value, spread_values

# Nodes per row from which a bag is solved on its rows alone, and up to which on a grid alone: a
# grid pays once its nodes are fewer than the rows. In between both values are mixed, since they
# differ by 0.03 to 1.8 nats for good fits and by tens for bad ones, and an ascent would stop at a
# jump. Labels and sigma alone decide, so that the share of each is the same for all weights ...
_ALL_POINTS, _ALL_GRID = 1.0, 0.8
# ... but for bags of few rows, where a grid saves little and both cost double, ...
_FEW_ROWS = 20
# ... and for predictions so far out that their nodes would fill the memory.
_WIDEST = 10.0
# Problems of more atoms fill vectors by themselves; on rows the limit is EXACT_ROWS higher.
MOST_ATOMS = 256
# Keys of problems, which sort them by kind. On rows the key is the number of rows, on grids `GRIDS`
# and the number of nodes. Large problems have `LARGE` on rows and one more on grids.
GRIDS = EXACT_ROWS + MOST_ATOMS + 1
LARGE = GRIDS + MOST_ATOMS + 1


@njit(**OPTIONS)
def centre_bags(values, offsets, sigmas):
    """Centre the values of points (rows) in each bag, in units of their sigma."""
    for k in range(sigmas.size):
        for r in range(offsets.size - 1):
            lo, hi = offsets[r], offsets[r + 1]
            total = 0.0
            for i in range(lo, hi):
                total += values[k, i]
            mean = total / (hi - lo)
            for i in range(lo, hi):
                values[k, i] = (values[k, i] - mean) / sigmas[k]


@njit(**INNER)
def _grid_share(m, reach, width, per_sigma):
    """Return the share of the grid in a bag's value, and the share's slope in log sigma.

    ``reach`` is the range of the m labels, ``width`` that of the predictions, in units of sigma.
    """
    if m <= _FEW_ROWS or width * per_sigma > _WIDEST * m:
        return 0.0, 0.0
    nodes = reach * per_sigma / m
    if nodes >= _ALL_POINTS:
        return 0.0, 0.0
    if nodes <= _ALL_GRID:
        return 1.0, 0.0
    width = log(_ALL_POINTS / _ALL_GRID)
    way = log(_ALL_POINTS / nodes) / width
    return way * way * (3.0 - 2.0 * way), 6.0 * way * (1.0 - way) / width


@njit(**OPTIONS)
def list_problems(bent, labels, offsets, sigmas, per_sigma, problems, weights):
    """List the transport problems of bags at points; return how many there are.

    ``problems`` (…, 4) take point, bag, key and the largest number of atoms of either side,
    ``weights`` (…, 2) the share of the problem in the bag's value, and that share's slope in log
    sigma. A key tells the kind of a problem and, of small ones, its number of atoms.
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
                own = bent[k, i]
                least, largest = own if own < least else least, own if own > largest else largest
            reach, width = (labels[hi - 1] - labels[lo]) / sigmas[k], largest - least
            share, slope = _grid_share(m, reach, width, per_sigma)
            if share < 1.0:
                problems[n, 0], problems[n, 1], problems[n, 3] = k, r, m
                problems[n, 2] = m if m <= EXACT_ROWS + MOST_ATOMS else LARGE
                weights[n, 0], weights[n, 1] = 1.0 - share, -slope
                n += 1
            if share > 0.0:
                n_nodes = int((width if width > reach else reach) * per_sigma) + 5
                problems[n, 0], problems[n, 1], problems[n, 3] = k, r, n_nodes
                problems[n, 2] = GRIDS + n_nodes if n_nodes <= MOST_ATOMS else LARGE + 1
                weights[n, 0], weights[n, 1] = share, slope
                n += 1
    return n


@njit(**OPTIONS)
def place_bags(
    group, problems, bent, labels, offsets, sigmas, per_sigma, is_grid, sides, sizes, places, lows,
    order, mass,
):  # fmt: skip
    """Write predictions and labels of problems of one kind into ``sides``: see `fill_gauge`.

    Copies of the last problem fill the lanes that are left. ``places`` (2, lanes, m) take the rows
    of points in their bags, or the places of nodes in their grids, ``lows`` (2, lanes) the origins
    of grids. ``order`` and ``mass`` are work arrays for a bag and for a grid.
    """
    for lane in range(sides.shape[2]):
        q = group[lane if lane < group.size else group.size - 1]
        k, lo, hi = problems[q, 0], offsets[problems[q, 1]], offsets[problems[q, 1] + 1]
        own, m, sigma = bent[k, lo:hi], hi - lo, sigmas[k]
        if is_grid:
            sizes[0, lane], lows[0, lane] = spread_values(
                own, per_sigma, mass, sides[0:2], lane, places[0, lane]
            )
            scaled = mass[mass.size - m :]
            for j in range(m):
                scaled[j] = labels[lo + j] / sigma
            sizes[1, lane], lows[1, lane] = spread_values(
                scaled, per_sigma, mass, sides[2:4], lane, places[1, lane]
            )
            continue
        find_order(own, order[:m])
        sizes[0, lane], sizes[1, lane] = m, m
        for i in range(m):
            places[0, lane, i] = order[i]
            sides[0, i, lane], sides[1, i, lane] = own[order[i]], 1.0
            sides[2, i, lane], sides[3, i, lane] = labels[lo + i] / sigma, 1.0


@njit(**OPTIONS)
def add_bags(
    group, problems, weights, bent, labels, offsets, sigmas, per_sigma, wants_slopes, is_grid,
    sides, sizes, places, lows, field, found, by_sigmas, point_slopes, values, slopes,
):  # fmt: skip
    """Add the values and slopes of solved problems to those of their bags, each by its share.

    ``values`` (points, bags, 2) take values and slopes in log sigma, ``slopes`` (points, rows).
    Slopes come from those in the points or, on grids, from those in the masses of nodes, which
    ``sides`` hold in place of the potentials. ``field`` is a work array for a grid.
    """
    for lane in range(group.size):
        q = group[lane]
        k, r = problems[q, 0], problems[q, 1]
        lo, hi = offsets[r], offsets[r + 1]
        share, value, by_sigma = weights[q, 0], found[lane], by_sigmas[lane]
        value -= lgamma(hi - lo + 1.0)
        # Predictions a billion sigmas off leave the potentials no correct digit: likelihood zero.
        if not -inf < value + by_sigma < inf:
            values[k, r, 0] = -inf
            continue
        if wants_slopes and is_grid:
            for side in range(2):
                total, low, sigma = 0.0, lows[side, lane], sigmas[k]
                read_field(sides[4 + side], lane, places[side, lane], sizes[side, lane], field)
                for i in range(lo, hi):
                    own = bent[k, i] if side == 0 else labels[i] / sigma
                    slope = slope_in_value(own, field, low, per_sigma)
                    total += own * slope
                    if side == 0:
                        slopes[k, i] += share * slope
                by_sigma -= total
        elif wants_slopes:
            for i in range(hi - lo):
                slopes[k, lo + places[0, lane, i]] += share * point_slopes[i, lane]
        values[k, r, 0] += share * value
        values[k, r, 1] += share * by_sigma + weights[q, 1] * value
