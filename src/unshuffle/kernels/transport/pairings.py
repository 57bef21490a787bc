"""The likelihood of one bag for every pairing, any masses, bins of labels and any noise density.

All work on log densities between rows and labels. Many rows are first laid on cubic B-splines.
Values and slopes belong together exactly: the slopes of a coupling's correction go through its
scaling by one linear system.
"""

from math import exp, lgamma, log, pi, sqrt

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.sorting import find_order
from unshuffle.kernels.transport.densities import fill_log_bins, fill_log_kernel, slope_bin
from unshuffle.kernels.transport.splines import gather, spread_rows, spread_weighted_rows

_LOG_ROOT = 0.5 * log(2.0 * pi)
# Codes of the pairings.
PERMUTATION, SUBSET, DRAWS = 0, 1, 2
# Enumeration costs rows × labels × 2^labels: 40 rows and 8 labels take 0.1 ms.
EXACT_LABELS, EXACT_ROWS = 8, 40


@njit(**OPTIONS)
def mixture_terms(log_kernel, row_masses, label_masses, wants_slopes, gradient):
    """Return Σ m log Σ (mass/total) density of labels drawn independently; fill its slopes.

    ``gradient[i, j]`` becomes the slope in entry (i, j) of the log kernel. The second result is the
    slope in the mass of each row, the total being kept.
    """
    n_rows, n_labels = log_kernel.shape
    total = row_masses.sum()
    value = 0.0
    by_mass = np.zeros(n_rows)
    for j in range(n_labels):
        highest = -np.inf
        for i in range(n_rows):
            highest = max(highest, log_kernel[i, j])
        density = 0.0
        for i in range(n_rows):
            density += row_masses[i] * exp(log_kernel[i, j] - highest)
        value += label_masses[j] * (highest + log(density / total))
        if not wants_slopes:
            continue
        for i in range(n_rows):
            share = exp(log_kernel[i, j] - highest) / density
            gradient[i, j] = label_masses[j] * row_masses[i] * share
            by_mass[i] += label_masses[j] * share
    return value, by_mass


@njit(**OPTIONS)
def enumerate_terms(log_kernel, n_rows_total, gradient):
    """Return log Σ over injections of labels into rows, over all of them; fill its slopes.

    Dynamic programming over subsets of at most a few labels, rows one by one: forwards for the
    sum, backwards for the probability of every pair. Not finite where every term underflows.
    """
    n_rows, n_labels = log_kernel.shape
    full = 1 << n_labels
    maxima = np.empty(n_labels)
    for j in range(n_labels):
        maxima[j] = log_kernel[:, j].max()
    kernel = np.exp(log_kernel - maxima)
    ahead = np.zeros((n_rows + 1, full))
    ahead[0, 0] = 1.0
    for i in range(n_rows):
        for subset in range(full):
            if ahead[i, subset] == 0.0:
                continue
            ahead[i + 1, subset] += ahead[i, subset]
            for j in range(n_labels):
                if not (subset >> j) & 1:
                    ahead[i + 1, subset | (1 << j)] += ahead[i, subset] * kernel[i, j]
    behind = np.zeros(full)
    behind[full - 1] = 1.0
    total = ahead[n_rows, full - 1]
    for i in range(n_rows - 1, -1, -1):
        before = behind.copy()
        for j in range(n_labels):
            pair = 0.0
            for subset in range(full):
                if not (subset >> j) & 1:
                    step = kernel[i, j] * behind[subset | (1 << j)]
                    pair += ahead[i, subset] * step
                    before[subset] += step
            gradient[i, j] = pair / max(total, 1e-300)
        behind = before
    # Below, products of densities have lost their digits: the coupling does better.
    if total < 1e-290:
        return -np.inf
    count = lgamma(n_rows_total - n_labels + 1.0) - lgamma(n_rows_total + 1.0)
    return log(total) + maxima.sum() + count


@njit(**INNER)
def _narrow(sigma, per_sigma, is_gaussian):
    """Return the noise that is left to B-splines, which add a third of a squared cell to it."""
    return sigma * sqrt(1.0 - 1.0 / (3.0 * per_sigma * per_sigma)) if is_gaussian else sigma


@njit(**INNER)
def _spread(z, masses, sigma, per_sigma):
    """Return the nodes of B-splines, so many to sigma, their masses, places and origin."""
    nodes, found, keep, low = spread_weighted_rows(z / sigma, masses, per_sigma)
    return nodes * sigma, found, keep, low


@njit(**INNER)
def _gather(z, masses, sigma, keep, low, by_mass, per_sigma, grad):
    """Fill the slopes in rows from those in masses of nodes; return that in log sigma."""
    gather(z / sigma, keep, low, by_mass, per_sigma, grad)
    by_sigma = 0.0
    for i in range(z.size):
        grad[i] *= masses[i] / sigma
        by_sigma -= z[i] * grad[i]
    return by_sigma


@njit(**INNER)
def _mix(z, masses, low, high, label_masses, noise, tables, is_grid, per_sigma, wants_slopes, grad):
    """Return the log likelihood of labels drawn apart from the rows, and its slope in log sigma."""
    sigma, start, step, is_gaussian = noise[0], noise[1], noise[2], tables.shape[1] == 0
    nodes, keep, node_masses, origin, narrowed = z, np.empty(0, np.int64), masses, 0.0, sigma
    if is_grid:
        narrowed = _narrow(sigma, per_sigma, is_gaussian)
        nodes, node_masses, keep, origin = _spread(z, masses, sigma, per_sigma)
    shape = (nodes.size, low.size)
    log_kernel, in_z, in_sigma = np.empty(shape), np.empty(shape), np.empty(shape)
    fill_log_kernel(nodes, low, high, narrowed, start, step, tables, log_kernel, in_z, in_sigma)
    gradient = np.empty(shape)
    value, by_mass = mixture_terms(log_kernel, node_masses, label_masses, wants_slopes, gradient)
    if not wants_slopes:
        return value, 0.0
    by_sigma = 0.0
    for i in range(nodes.size):
        along = 0.0
        for j in range(low.size):
            along += gradient[i, j] * in_z[i, j]
            by_sigma += gradient[i, j] * in_sigma[i, j]
        if is_grid:
            # Nodes move with sigma.
            by_sigma += along * nodes[i]
        else:
            grad[i] = along
    if is_grid:
        by_sigma += _gather(z, masses, sigma, keep, origin, by_mass, per_sigma, grad)
    return value, by_sigma if is_gaussian else 0.0


@njit(**INNER)
def _enumerate(z, low, high, noise, tables, grad):
    """Return the log likelihood of a tiny bag, and its slope in log sigma; fill those in z."""
    shape = (z.size, low.size)
    log_kernel, in_z, in_sigma = np.empty(shape), np.empty(shape), np.empty(shape)
    fill_log_kernel(z, low, high, noise[0], noise[1], noise[2], tables, log_kernel, in_z, in_sigma)
    gradient = np.empty(shape)
    value = enumerate_terms(log_kernel, float(z.size), gradient)
    for i in range(z.size):
        grad[i] = (gradient[i] * in_z[i]).sum()
    return value, (gradient * in_sigma).sum()


@njit(**OPTIONS)
def score_alone(
    z, masses, offsets, low, high, label_masses, label_offsets, pairing, noise, tables, is_grid,
    per_sigma, wants_slopes, values, by_sigmas, slopes,
):  # fmt: skip
    """Fill values, and slopes in log sigma and in rows, of bags that need no coupling at a point.

    These are separate samples and tiny bags. Other values are minus infinity.

    `noise` holds sigma, and start and step of the rows of `tables` (log density, probability below
    and above); tables without columns mean Gaussian noise of that sigma.
    """
    for r in range(offsets.size - 1):
        own, some = slice(offsets[r], offsets[r + 1]), slice(label_offsets[r], label_offsets[r + 1])
        n, m = offsets[r + 1] - offsets[r], label_offsets[r + 1] - label_offsets[r]
        grad = np.empty(n)
        values[r], by_sigmas[r] = -np.inf, 0.0
        if pairing == DRAWS:
            values[r], by_sigmas[r] = _mix(
                z[own], masses[own], low[some], high[some], label_masses[some], noise, tables,
                is_grid[r], per_sigma, wants_slopes, grad,
            )  # fmt: skip
        elif m <= EXACT_LABELS and n <= EXACT_ROWS:
            is_unit = masses[own].sum() == n and label_masses[some].sum() == m
            if is_unit:
                values[r], by_sigmas[r] = _enumerate(
                    z[own], low[some], high[some], noise, tables, grad
                )
        if wants_slopes and values[r] > -np.inf:
            slopes[own] = grad


@njit(**INNER)
def _middle(low, high, sigma):
    """Return where a bin stands among others: an open one beyond its end."""
    if low == -np.inf:
        return high - sigma if high < np.inf else 0.0
    return 0.5 * (low + high) if high < np.inf else low + sigma


@njit(**INNER)
def _lay_side(values, is_grid, per_sigma, places, masses, keep):
    """Write ascending values, or the nodes of their grid, into a lane; return origin and number.

    ``keep`` gets which value an atom is, or its place in the grid.
    """
    if is_grid:
        nodes, found, where, low = spread_rows(values, per_sigma)
        for i in range(nodes.size):
            places[i], masses[i], keep[i] = nodes[i], found[i], where[i]
        return low, nodes.size
    order = np.empty(values.size, np.uint64)
    find_order(values, order)
    for i in range(values.size):
        places[i], masses[i], keep[i] = values[order[i]], 1.0, order[i]
    return 0.0, values.size


@njit(**OPTIONS)
def lay_points(
    points, bags, is_grid, z, offsets, labels, label_offsets, sigmas, per_sigma, given, keeps,
    lows, counts,
):  # fmt: skip
    """Lay problems of labels known to their last digit, in units of sigma, side by side.

    As points, or both sides on cubic B-splines. Fills which rows and labels the atoms are, or where
    nodes lie in grids, their origins, and numbers of atoms.
    """
    for lane in range(points.size):
        k, r = points[lane], bags[lane]
        rows = z[k, offsets[r] : offsets[r + 1]] / sigmas[k]
        own = labels[label_offsets[r] : label_offsets[r + 1]] / sigmas[k]
        lows[0, lane], counts[0, lane] = _lay_side(
            rows, is_grid, per_sigma, given.x[:, lane], given.mz[:, lane], keeps[0, lane]
        )
        lows[1, lane], counts[1, lane] = _lay_side(
            own, is_grid, per_sigma, given.y[:, lane], given.my[:, lane], keeps[1, lane]
        )
        given.slack[0, lane] = float(rows.size - own.size)


@njit(**OPTIONS)
def lay_bins(
    points, bags, is_grid, z, masses, offsets, low, high, label_masses, label_offsets, noises,
    tables, per_sigma, given, keeps, lows, counts,
):  # fmt: skip
    """Lay problems of bins, or of noise of any density, side by side; see `lay_points`.

    Rows that lie on B-splines have the noise that these leave to them.
    """
    n_labels = given.y.shape[0]
    for lane in range(points.size):
        k, r = points[lane], bags[lane]
        own, first = slice(offsets[r], offsets[r + 1]), label_offsets[r]
        sigma, here, mass = noises[k, 0], z[k, own], masses[own]
        narrowed = sigma
        if is_grid[lane]:
            nodes, found, keep, lows[0, lane] = _spread(here, mass, sigma, per_sigma)
            narrowed = _narrow(sigma, per_sigma, tables.shape[1] == 0)
        else:
            order, keep = np.empty(here.size, np.uint64), np.empty(here.size, np.int64)
            nodes, found = np.empty(here.size), np.empty(here.size)
            find_order(here, order)
            for i in range(here.size):
                keep[i], nodes[i], found[i] = order[i], here[order[i]], mass[order[i]]
        m, rest = label_offsets[r + 1] - first, mass.sum()
        log_widths, log_bins = np.zeros(m), np.empty(m)
        for j in range(m):
            given.my[j, lane] = label_masses[first + j]
            rest -= label_masses[first + j]
            given.y[j, lane] = _middle(low[first + j], high[first + j], sigma)
            width = high[first + j] - low[first + j]
            log_widths[j] = log(width) if 0.0 < width < np.inf else 0.0
        given.slack[0, lane] = rest if rest >= 0.5 else 0.0
        counts[0, lane] = nodes.size
        for i in range(nodes.size):
            given.x[i, lane], given.mz[i, lane], keeps[0, lane, i] = nodes[i], found[i], keep[i]
            fill_log_bins(
                nodes[i], low[first : first + m], high[first : first + m], log_widths, narrowed,
                noises[k, 1], noises[k, 2], tables, log_bins,
            )  # fmt: skip
            for j in range(m):
                given.logs[i * n_labels + j, lane] = log_bins[j]


@njit(**INNER)
def _write_share(lane, k, r, shares, value, by_sigma, values, by_sigmas):
    """Write the share of a problem in the value of its bag; the share moves with sigma."""
    values[k, r] = shares[lane, 0] * value
    by_sigmas[k, r] = shares[lane, 0] * by_sigma
    if value > -np.inf:
        by_sigmas[k, r] += shares[lane, 1] * value


@njit(**OPTIONS)
def take_points(
    points, bags, shares, is_grid, z, offsets, labels, label_offsets, sigmas, per_sigma,
    wants_slopes, potential_z, potential_y, along, keeps, lows, counts, found, values, by_sigmas,
    slopes,
):  # fmt: skip
    """Write the shares of values and slopes that problems side by side have in those of bags."""
    for lane in range(points.size):
        k, r = points[lane], bags[lane]
        sigma, start = sigmas[k], offsets[r]
        rows = z[k, start : offsets[r + 1]] / sigma
        own = labels[label_offsets[r] : label_offsets[r + 1]] / sigma
        value = found[lane] - lgamma(rows.size + 1.0) - own.size * (log(sigma) + _LOG_ROOT)
        by_sigma = -float(own.size)
        if not np.isfinite(value):
            value = -np.inf
        elif wants_slopes and is_grid:
            for side in range(2):
                count, here = counts[side, lane], rows if side == 0 else own
                field, out = np.empty(count), np.empty(here.size)
                for i in range(count):
                    field[i] = potential_z[i, lane] if side == 0 else potential_y[i, lane]
                keep = keeps[side, lane, :count]
                by_sigma -= gather(here, keep, lows[side, lane], field, per_sigma, out)
                if side == 0:
                    for i in range(here.size):
                        slopes[k, start + i] = shares[lane, 0] * out[i] / sigma
        elif wants_slopes:
            by_sigma += along[along.shape[0] - 1, lane]
            for i in range(rows.size):
                slopes[k, start + keeps[0, lane, i]] = shares[lane, 0] * along[i, lane] / sigma
        _write_share(lane, k, r, shares, value, by_sigma, values, by_sigmas)


@njit(**OPTIONS)
def take_bins(
    points, bags, is_grid, z, masses, offsets, low, high, label_offsets, noises, tables, per_sigma,
    wants_slopes, band, first, ptr, x, potential_z, keeps, lows, counts, found, values, by_sigmas,
    slopes,
):  # fmt: skip
    """Write the same for bins; the band has the slopes in log densities."""
    for lane in range(points.size):
        k, r = points[lane], bags[lane]
        here, mass = z[k, offsets[r] : offsets[r + 1]], masses[offsets[r] : offsets[r + 1]]
        sigma, start, step = noises[k, 0], noises[k, 1], noises[k, 2]
        value, by_sigma, n = found[lane] - lgamma(mass.sum() + 1.0), 0.0, counts[0, lane]
        narrowed = _narrow(sigma, per_sigma, tables.shape[1] == 0) if is_grid[lane] else sigma
        if not np.isfinite(value):
            value = -np.inf
        elif wants_slopes:
            grad, field = np.empty(here.size), np.empty(n)
            for i in range(n):
                along, field[i] = 0.0, potential_z[i, lane]
                for t in range(ptr[i], ptr[i + 1]):
                    if band[t, lane] == 0.0:
                        continue
                    j = label_offsets[r] + first[i] + t - ptr[i]
                    _, in_z, in_sigma = slope_bin(
                        low[j] - x[i, lane], high[j] - x[i, lane], narrowed, start, step, tables
                    )
                    along += band[t, lane] * in_z
                    by_sigma += band[t, lane] * in_sigma
                if is_grid[lane]:
                    # Nodes move with sigma.
                    by_sigma += along * x[i, lane]
                else:
                    grad[keeps[0, lane, i]] = along
            if is_grid[lane]:
                keep = keeps[0, lane, :n]
                by_sigma += _gather(here, mass, sigma, keep, lows[0, lane], field, per_sigma, grad)
            for i in range(here.size):
                slopes[k, offsets[r] + i] = grad[i]
        values[k, r] = value
        by_sigmas[k, r] = by_sigma if tables.shape[1] == 0 else 0.0
