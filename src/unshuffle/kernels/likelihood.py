"""The log-likelihood of shuffled labels and its slopes.

Inside a bag everything is in units of sigma: a bag's log permanent is then a function of its
predictions and labels alone.
"""

from math import exp, lgamma, log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INLINED, OPTIONS
from unshuffle.kernels.correction import match_points
from unshuffle.kernels.coupling import PRECISE
from unshuffle.kernels.grid import CELLS_PER_SIGMA, match_on_grid
from unshuffle.kernels.permanent import EXACT_ROWS, match_exactly
from unshuffle.kernels.projection import add_chain, project

# A grid pays once its nodes are fewer than the rows. In between both values are mixed, since they
# differ by 0.03 to 1.8 nats for good fits and by tens for bad ones, and a climb would stop at a
# step. Labels and sigma alone decide, so that the share of each is the same for all weights ...
_ALL_POINTS, _ALL_GRID = 1.0, 0.8
# ... but for predictions so far out that their nodes would fill the memory.
_WIDEST = 10.0


@njit(**OPTIONS)
def _grid_share(z, y):
    """Return the share of the grid in a bag's value, and the share's slope in log sigma."""
    if z.size <= EXACT_ROWS or (z.max() - z.min()) * CELLS_PER_SIGMA > _WIDEST * z.size:
        return 0.0, 0.0
    nodes = (y[y.size - 1] - y[0]) * CELLS_PER_SIGMA / y.size
    if nodes >= _ALL_POINTS:
        return 0.0, 0.0
    if nodes <= _ALL_GRID:
        return 1.0, 0.0
    width = log(_ALL_POINTS / _ALL_GRID)
    way = log(_ALL_POINTS / nodes) / width
    return way * way * (3.0 - 2.0 * way), 6.0 * way * (1.0 - way) / width


@njit(**INLINED)
def _match_sorted(z, y, wants_slopes, tolerance, slopes):
    """Return the log permanent of a bag off the grid and its slope in log sigma; fill d/dz."""
    order = np.argsort(z)
    found = np.empty(z.size)
    if z.size <= EXACT_ROWS:
        value, slope = match_exactly(z[order], y, wants_slopes, found)
    else:
        value, slope = match_points(z[order], y, wants_slopes, tolerance, found)
    for i in range(z.size):
        slopes[order[i]] = found[i]
    return value, slope


@njit(**OPTIONS)
def _match_bag(z, y, wants_slopes, tolerance, slopes):
    """Return log(perm/n!) of one bag (y ascends) and its slope in log sigma; fill those in z."""
    share, share_slope = _grid_share(z, y)
    base = -lgamma(z.size + 1.0)
    value, slope, other, other_slope = 0.0, 0.0, 0.0, 0.0
    others = np.empty(z.size if 0.0 < share < 1.0 else 0)
    if share > 0.0:
        value, slope = match_on_grid(z, y, wants_slopes, tolerance, slopes)
    if share < 1.0:
        place = slopes if share == 0.0 else others
        other, other_slope = _match_sorted(z, y, wants_slopes, tolerance, place)
    if share == 1.0:
        return value + base, slope
    if share == 0.0:
        return other + base, other_slope
    for i in range(z.size):
        slopes[i] = share * slopes[i] + (1.0 - share) * others[i]
    slope = share * slope + (1.0 - share) * other_slope + share_slope * (value - other)
    return share * value + (1.0 - share) * other + base, slope


@njit(**OPTIONS)
def log_likelihood(
    columns, labels, offsets, bag_x, bag_y, w, log_sigma, dof, power, means_power, wants_slopes
):
    """Return the log-likelihood and, if wanted, its slopes in w and log sigma (otherwise zeros).

    Bag means leave the permanent exactly (the sum over a bag does not depend on the permutation),
    so that ``columns`` and ``labels`` are centred in each bag and the means enter as ordinary
    Gaussian residuals. The two parts count with a power each; of the ``dof`` factors 1/sigma, all
    but one per bag belong to the first. One function for both, so that the value is the same bit
    for bit.
    """
    n, n_bags = labels.size, offsets.size - 1
    sigma = exp(log_sigma)
    z, y, slopes = np.empty(n), labels / sigma, np.empty(n)
    scaled, gradient = w / sigma, np.zeros(w.size)
    value, slope, missed = 0.0, 0.0, 0.0
    for r in range(n_bags):
        lo, hi = offsets[r], offsets[r + 1]
        project(columns, scaled, lo, hi, z[lo:hi])
        bag_value, bag_slope = _match_bag(z[lo:hi], y[lo:hi], wants_slopes, PRECISE, slopes[lo:hi])
        value += power * bag_value
        slope += power * bag_slope
        miss = bag_y[r] / sigma
        for k in range(w.size):
            miss -= bag_x[r, k] * scaled[k]
        missed += (hi - lo) * miss * miss
        if wants_slopes:
            add_chain(columns, slopes[lo:hi], lo, hi, power / sigma, gradient)
            for k in range(w.size):
                gradient[k] += means_power * (hi - lo) * miss * bag_x[r, k] / sigma
    inner, outer = n - n_bags, dof - (n - n_bags)
    value -= power * inner * log_sigma + means_power * (0.5 * missed + outer * log_sigma)
    if wants_slopes:
        slope += means_power * (missed - outer) - power * inner
    return value, gradient, slope


@njit(**OPTIONS)
def _bound_bag(z, y):
    """Return a bound from above of log(perm/n!) of one bag, zero where a grid would be cheap.

    No permutation costs less than the sorted one, and there are n! of them.
    """
    if _grid_share(z, y)[0] == 1.0:
        return 0.0
    order, total = np.argsort(z), 0.0
    for i in range(z.size):
        total += (z[order[i]] - y[i]) ** 2
    return -0.5 * total


@njit(**OPTIONS)
def log_likelihoods(z, labels, offsets, log_sigmas, floors, tolerance, values):
    """Fill the log-likelihoods of many laws, whose predictions are the rows of z (changed).

    Predictions and labels are centred in each bag. As `log_likelihood`, for a whole batch and to a
    tolerance in nats that may be coarser. A value that is surely below its floor is told as -inf:
    far from any fit the scaling is slowest, and a bound would be no value at another power.
    """
    n, n_bags = labels.size, offsets.size - 1
    y, slopes = np.empty(n), np.empty(n)
    # A constant would have everything below compiled once more for it.
    wants = n < 0
    for k in range(z.shape[0]):
        sigma = exp(log_sigmas[k])
        base = -(n - n_bags) * log_sigmas[k]
        for i in range(n):
            y[i] = labels[i] / sigma
            z[k, i] /= sigma
        value = base
        for r in range(n_bags):
            lo, hi = offsets[r], offsets[r + 1]
            value += _bound_bag(z[k, lo:hi], y[lo:hi])
        if value < floors[k]:
            value = -np.inf
        else:
            value = base
            for r in range(n_bags):
                lo, hi = offsets[r], offsets[r + 1]
                value += _match_bag(z[k, lo:hi], y[lo:hi], wants, tolerance, slopes[lo:hi])[0]
        values[k] = value
