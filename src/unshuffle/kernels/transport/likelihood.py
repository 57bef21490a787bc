"""The log-likelihood of shuffled labels and its slopes.

Inside a bag everything is in units of sigma: a bag's log permanent is then a function of its
predictions and labels alone.
"""

from math import exp, lgamma, log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INLINED, INNER, OPTIONS
from unshuffle.kernels.projection import add_chain, project
from unshuffle.kernels.sorting import find_order
from unshuffle.kernels.transport.correction import (
    add_corrections,
    collisions,
    pull_corrections,
    pull_points,
    solve_adjoint,
)
from unshuffle.kernels.transport.coupling import PRECISE, scale
from unshuffle.kernels.transport.grid import (
    CELLS_PER_SIGMA,
    add_unspread_pulls,
    find_centres,
    unspread,
)
from unshuffle.kernels.transport.permanent import EXACT_ROWS, match_exactly
from unshuffle.kernels.transport.splines import gather, spread_rows

# A grid pays once its nodes are fewer than the rows. In between both values are mixed, since they
# differ by 0.03 to 1.8 nats for good fits and by tens for bad ones, and a climb would stop at a
# step. Labels and sigma alone decide, so that the share of each is the same for all weights ...
_ALL_POINTS, _ALL_GRID = 1.0, 0.8
# ... but for predictions so far out that their nodes would fill the memory.
_WIDEST = 10.0


@njit(**INNER)
def _grid_share(z, y):
    """Return the share of the grid in a bag's value, and the share's slope in log sigma."""
    least, largest = z[0], z[0]
    for i in range(z.size):
        least, largest = min(least, z[i]), max(largest, z[i])
    if z.size <= EXACT_ROWS or (largest - least) * CELLS_PER_SIGMA > _WIDEST * z.size:
        return 0.0, 0.0
    nodes = (y[y.size - 1] - y[0]) * CELLS_PER_SIGMA / y.size
    if nodes >= _ALL_POINTS:
        return 0.0, 0.0
    if nodes <= _ALL_GRID:
        return 1.0, 0.0
    width = log(_ALL_POINTS / _ALL_GRID)
    way = log(_ALL_POINTS / nodes) / width
    return way * way * (3.0 - 2.0 * way), 6.0 * way * (1.0 - way) / width


@njit(**INNER)
def _take_points(z, order):
    """Return the predictions in ascending order, and a mass of one for each."""
    points, masses = np.empty(z.size), np.empty(z.size)
    for i in range(z.size):
        points[i], masses[i] = z[order[i]], 1.0
    return points, masses


@njit(**INLINED)
def match_nodes(z, y, order, on_grid, wants_slopes, tolerance, slopes):
    """Return the log permanent of exp(-(y_j - z_i)^2/2) and its slope in log sigma; fill d/dz.

    Of the rows and labels themselves (y ascends, and z in this order) or of nodes of a grid: one
    way for both, since whatever stands twice is compiled twice.
    """
    low_z, low_y, keep_z, keep_y = 0.0, 0.0, np.empty(0, np.int64), np.empty(0, np.int64)
    if on_grid:
        at_z, mz, keep_z, low_z = spread_rows(z, CELLS_PER_SIGMA)
        at_y, my, keep_y, low_y = spread_rows(y, CELLS_PER_SIGMA)
    else:
        at_z, mz = _take_points(z, order)
        at_y, my = y, mz
    value, potential_z, potential_y, band, start, ptr = scale(at_z, mz, at_y, my, tolerance)
    qz, qy = collisions(band, start, ptr, mz, my)
    value += add_corrections(qz, qy, mz, my)
    centre_z, centre_y = mz, my
    if on_grid:
        centre_z, centre_y, cols = find_centres(band, start, ptr, at_z, mz, at_y)
        value += unspread(at_z, mz, at_y, centre_z, centre_y, cols)
    if not wants_slopes:
        return value, 0.0
    pull_z, pull_y, slope_z, slope_y = pull_corrections(band, start, ptr, qz, qy, mz, my)
    if on_grid:
        add_unspread_pulls(band, start, ptr, at_z, at_y, centre_z, centre_y, pull_z, pull_y)
    held_z, held_y = solve_adjoint(band, start, ptr, mz, my, at_y, pull_z, pull_y)
    if on_grid:
        for j in range(my.size):
            held_y[j] = potential_y[j] + slope_y[j] + held_y[j]
        for i in range(mz.size):
            held_z[i] = potential_z[i] + slope_z[i] + held_z[i]
        stretch = gather(y, keep_y, low_y, held_y, CELLS_PER_SIGMA, slopes)
        stretch += gather(z, keep_z, low_z, held_z, CELLS_PER_SIGMA, slopes)
        return value, -stretch
    stretch = pull_points(band, start, ptr, at_z, at_y, qz, qy, held_z, held_y, mz)
    for i in range(z.size):
        slopes[order[i]] = mz[i]
    return value, stretch


@njit(**INLINED)
def _match_bag(z, y, order, wants_slopes, tolerance, slopes, others):
    """Return log(perm/n!) of one bag (y ascends) and its slope in log sigma; fill those in z."""
    share, share_slope = _grid_share(z, y)
    base = -lgamma(z.size + 1.0)
    value, slope, other, other_slope = 0.0, 0.0, 0.0, 0.0
    for side in range(2):
        if share == side:
            continue  # 0: no grid, 1: no points
        on_grid = side == 0
        place = others if share < 1.0 and not on_grid and share > 0.0 else slopes
        found, found_slope = match_nodes(z, y, order, on_grid, wants_slopes, tolerance, place)
        if on_grid:
            value, slope = found, found_slope
        else:
            other, other_slope = found, found_slope
    if share == 1.0:
        return value + base, slope
    if share == 0.0:
        return other + base, other_slope
    for i in range(z.size):
        slopes[i] = share * slopes[i] + (1.0 - share) * others[i]
    slope = share * slope + (1.0 - share) * other_slope + share_slope * (value - other)
    return share * value + (1.0 - share) * other + base, slope


@njit(**INNER, forceinline=True)  # it has free sums: see `kernels.compiling`
def _lay_out(columns, scaled, lo, hi, sigma, labels, z, y, order):
    """Bring a bag's predictions and labels into units of sigma, and find the predictions' order.

    Return a bound from above of log(perm/n!), zero where a grid would be cheap: no permutation
    costs less than the sorted one, and there are n! of them. Without weights z holds predictions.
    """
    for i in range(lo, hi):
        y[i] = labels[i] / sigma
        z[i] /= sigma
    if scaled.size > 0:
        project(columns, scaled, lo, hi, z[lo:hi])
    if _grid_share(z[lo:hi], y[lo:hi])[0] == 1.0:
        return 0.0
    find_order(z[lo:hi], order[lo:hi])
    total = 0.0
    for i in range(lo, hi):
        total += (z[lo + order[i]] - y[i]) ** 2
    return -0.5 * total


@njit(**OPTIONS)
def _add_large(
    columns, w, z, labels, offsets, bags, log_sigmas, floors, tolerance, wants_slopes, values,
    gradient, in_sigma,
):  # fmt: skip
    """Add log(perm/n!) of some bags, all above `EXACT_ROWS`, and its slopes, law by law.

    The laws' predictions are the rows of z (changed), or that of one law is w'columns. A value that
    is surely below its floor becomes -inf.
    """
    n = labels.size
    y, slopes, others, order = np.empty(n), np.empty(n), np.empty(n), np.empty(n, np.int64)
    scaled = np.empty(w.size)
    for k in range(log_sigmas.size):
        sigma = exp(log_sigmas[k])
        for j in range(w.size):
            scaled[j] = w[j] / sigma
        bound = values[k]
        for r in bags:
            bound += _lay_out(
                columns, scaled, offsets[r], offsets[r + 1], sigma, labels, z[k], y, order
            )
        if bound < floors[k]:
            values[k] = -np.inf
            continue
        for r in bags:
            lo, hi = offsets[r], offsets[r + 1]
            value, slope = _match_bag(
                z[k, lo:hi], y[lo:hi], order[lo:hi], wants_slopes, tolerance, slopes[lo:hi],
                others[lo:hi],
            )  # fmt: skip
            values[k] += value
            in_sigma[k] += slope
            if wants_slopes:
                add_chain(columns, slopes[lo:hi], lo, hi, 1.0 / sigma, gradient)


@njit(**OPTIONS)
def _add_small(
    columns, w, z, labels, offsets, bags, log_sigmas, floors, tolerance, wants_slopes, values,
    gradient, in_sigma,
):  # fmt: skip
    """Do the same for bags up to `EXACT_ROWS`, exactly: nothing is left to a tolerance.

    A kernel of its own, so that nobody waits until what he does not need is compiled.
    """
    n = labels.size
    y, slopes, order = np.empty(n), np.empty(EXACT_ROWS), np.empty(n, np.int64)
    scaled = np.empty(w.size)
    for k in range(log_sigmas.size):
        sigma = exp(log_sigmas[k])
        for j in range(w.size):
            scaled[j] = w[j] / sigma
        bound = values[k]
        for r in bags:
            bound += _lay_out(
                columns, scaled, offsets[r], offsets[r + 1], sigma, labels, z[k], y, order
            )
        if bound < floors[k]:
            values[k] = -np.inf
            continue
        for r in bags:
            lo, hi = offsets[r], offsets[r + 1]
            value, slope = match_exactly(z[k, lo:hi], y[lo:hi], order[lo:hi], wants_slopes, slopes)
            values[k] += value - lgamma(hi - lo + 1.0)
            in_sigma[k] += slope
            if wants_slopes:
                add_chain(columns, slopes, lo, hi, 1.0 / sigma, gradient)


def _add_bags(columns, w, z, labels, offsets, log_sigmas, floors, tolerance, wants_slopes, values):
    """Add log(perm/n!) of all bags to the values; return its slopes in w and in log sigma."""
    gradient, in_sigma = np.zeros(w.size), np.zeros(len(values))
    is_large = np.diff(offsets) > EXACT_ROWS
    for add, chosen in ((_add_small, ~is_large), (_add_large, is_large)):
        bags = np.flatnonzero(chosen)
        if len(bags):
            # What bags add is at most zero: what is below its floor stays there. The floors of the
            # second kernel see what the first one added.
            add(
                columns, w, z, labels, offsets, bags, log_sigmas, floors, tolerance, wants_slopes,
                values, gradient, in_sigma,
            )  # fmt: skip
    return gradient, in_sigma


def log_likelihood(columns, labels, offsets, w, log_sigma, wants_slopes):
    """Return the log-likelihood and, if wanted, its slopes in w and log sigma (otherwise zeros).

    ``columns`` and ``labels`` are centred in each bag, so that of the factors 1/sigma one per bag
    is not there. One function for both, so that the value is the same bit for bit.
    """
    value, inner = np.zeros(1), len(labels) - (len(offsets) - 1)
    gradient, in_sigma = _add_bags(
        columns, w, np.zeros((1, len(labels))), labels, offsets, np.array([log_sigma]),
        np.array([-np.inf]), PRECISE, wants_slopes, value,
    )  # fmt: skip
    slope = in_sigma[0] - inner if wants_slopes else 0.0
    return value[0] - inner * log_sigma, gradient, slope


def log_likelihoods(z, labels, offsets, log_sigmas, floors, tolerance, values):
    """Fill the log-likelihoods of many laws, whose predictions are the rows of z (changed).

    Predictions and labels are centred in each bag. As `log_likelihood`, for a whole batch and to a
    tolerance in nats that may be coarser. A value that is surely below its floor is told as -inf:
    far from any fit the scaling is slowest, and a bound would be no value at another power.
    """
    values[:] = -(len(labels) - (len(offsets) - 1)) * log_sigmas
    nothing = np.empty((0, len(labels)))
    _add_bags(
        nothing, np.empty(0), z, labels, offsets, log_sigmas, floors, tolerance, False, values
    )
