"""The likelihood of one bag for every pairing, any masses, bins of labels and any noise density.

All work on the matrix of log densities (nodes of predictions × labels), which is small: many rows
are first laid on a grid of predictions. Values and slopes belong together exactly: the slopes of a
coupling's correction go through its scaling by one linear system.
"""

from math import exp, lgamma, log, pi, sqrt

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.sorting import find_order
from unshuffle.kernels.transport.densities import fill_log_kernel
from unshuffle.kernels.transport.joint_dual import LANES
from unshuffle.kernels.transport.splines import gather, spread_rows

_LOG_ROOT = 0.5 * log(2.0 * pi)
# The log density between atoms of which one is none.
_NONE = -1e300
# Codes of the pairings.
PERMUTATION, SUBSET, DRAWS = 0, 1, 2
# Enumeration costs rows × labels × 2^labels: 40 rows and 8 labels take 0.1 ms.
EXACT_LABELS, EXACT_ROWS = 8, 40
# Rows are laid on a grid from so many on, with at least so many cells per sigma: what is left of
# the error of binning is of fourth order in the width.
LEAST_GRIDDED, CELLS_PER_SIGMA = 64, 4.0


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
def _grid(z, sigma, n_cells_per_sigma):
    """Return the first node of a grid of predictions, its width, and its cells (0: it pays not).

    Nodes are whole multiples of a width that is a power of two below a quarter of sigma, so that
    neither moves with the weights or, but for jumps, with sigma.
    """
    width = 2.0 ** np.floor(np.log2(sigma / n_cells_per_sigma))
    lowest = np.floor(z.min() / width)
    n_cells = int(np.floor(z.max() / width) - lowest) + 2
    if z.size <= LEAST_GRIDDED or n_cells > 0.8 * z.size:
        return lowest, width, 0
    return lowest, width, n_cells


@njit(**INNER)
def _lay_grid(z, masses, lowest, width, n_cells):
    """Return occupied nodes of a grid, their places in it, and their masses."""
    cells = np.zeros(n_cells)
    for i in range(z.size):
        t = z[i] / width - lowest
        k = min(int(t), n_cells - 2)
        cells[k] += masses[i] * (1.0 - (t - k))
        cells[k + 1] += masses[i] * (t - k)
    size = 0
    for k in range(n_cells):
        size += cells[k] > 1e-9
    nodes, keep, found = np.empty(size), np.empty(size, np.int64), np.empty(size)
    place = 0
    for k in range(n_cells):
        if cells[k] > 1e-9:
            nodes[place], keep[place], found[place] = (lowest + k) * width, k, cells[k]
            place += 1
    return nodes, keep, found


@njit(**INNER)
def _take_grid(z, masses, lowest, width, n_cells, keep, by_mass, grad):
    """Fill the slopes in the rows from those in the masses of occupied nodes."""
    every = np.zeros(n_cells)
    for t in range(keep.size):
        every[keep[t]] = by_mass[t]
    for i in range(z.size):
        k = min(int(z[i] / width - lowest), n_cells - 2)
        grad[i] = masses[i] * (every[k + 1] - every[k]) / width


@njit(**INNER)
def _narrow(sigma, width, n_cells, is_gaussian):
    """Return the noise that is left to a grid, which adds a sixth of its squared width to it."""
    if n_cells == 0 or not is_gaussian:
        return sigma
    return sqrt(sigma * sigma - width * width / 6.0)


@njit(**INNER)
def _grid_of(z, sigma, is_gaussian):
    """Return first node, width and cells of the grid of a bag, and the noise that is left to it."""
    # A shape cannot be narrowed by what the grid adds, so that its grid is finer.
    per_sigma = CELLS_PER_SIGMA if is_gaussian else 4.0 * CELLS_PER_SIGMA
    lowest, width, n_cells = _grid(z, sigma, per_sigma)
    return lowest, width, n_cells, _narrow(sigma, width, n_cells, is_gaussian)


@njit(**INNER)
def _mix(z, masses, low, high, label_masses, noise, tables, wants_slopes, grad):
    """Return the log likelihood of labels drawn apart from the rows, and its slope in log sigma."""
    sigma, start, step = noise[0], noise[1], noise[2]
    lowest, width, n_cells, narrowed = _grid_of(z, sigma, tables.shape[1] == 0)
    nodes, keep, node_masses = z, np.empty(0, np.int64), masses
    if n_cells > 0:
        nodes, keep, node_masses = _lay_grid(z, masses, lowest, width, n_cells)
    shape = (nodes.size, low.size)
    log_kernel, in_z, in_sigma = np.empty(shape), np.empty(shape), np.empty(shape)
    fill_log_kernel(nodes, low, high, narrowed, start, step, tables, log_kernel, in_z, in_sigma)
    gradient = np.empty(shape)
    value, by_mass = mixture_terms(log_kernel, node_masses, label_masses, wants_slopes, gradient)
    if not wants_slopes:
        return value, 0.0
    slope = (gradient * in_sigma).sum() * (sigma / narrowed) ** 2
    if n_cells > 0:
        _take_grid(z, masses, lowest, width, n_cells, keep, by_mass, grad)
        return value, slope
    for i in range(z.size):
        grad[i] = (gradient[i] * in_z[i]).sum()
    return value, slope


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
    z, masses, offsets, low, high, label_masses, label_offsets, pairing, noise, tables,
    wants_slopes, values, by_sigmas, slopes,
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
                wants_slopes, grad,
            )  # fmt: skip
        elif m <= EXACT_LABELS and n <= EXACT_ROWS:
            is_unit = masses[own].sum() == n and label_masses[some].sum() == m
            if is_unit:
                values[r], by_sigmas[r] = _enumerate(
                    z[own], low[some], high[some], noise, tables, grad
                )
        if wants_slopes and values[r] > -np.inf:
            slopes[own] = grad


@njit(**OPTIONS)
def lay_items(
    points, bags, sizes, z, masses, offsets, low, high, label_masses, label_offsets, noises, tables,
):  # fmt: skip
    """Return problems side by side: log densities and their slopes, masses, jokers, places, …

    which rows or cells the atoms are, and first node, width and cells of grids.
    """
    n_rows, n_labels = sizes
    shape = (n_rows, n_labels, LANES)
    logs, in_z, in_sigma = np.full(shape, _NONE), np.zeros(shape), np.zeros(shape)
    mz, my, jokers = np.zeros((n_rows, LANES)), np.zeros((n_labels, LANES)), np.zeros(LANES)
    y, keeps = np.zeros((n_labels, LANES)), np.zeros((LANES, n_rows), np.int64)
    grids, counts = np.zeros((LANES, 3)), np.zeros(LANES, np.int64)
    for lane in range(points.size):
        k, r = points[lane], bags[lane]
        own, some = slice(offsets[r], offsets[r + 1]), slice(label_offsets[r], label_offsets[r + 1])
        sigma, start, step = noises[k, 0], noises[k, 1], noises[k, 2]
        here, mass = z[k, own], masses[own]
        lowest, width, n_cells, narrowed = _grid_of(here, sigma, tables.shape[1] == 0)
        grids[lane, 0], grids[lane, 1], grids[lane, 2] = lowest, width, n_cells
        if n_cells > 0:
            nodes, keep, node_masses = _lay_grid(here, mass, lowest, width, n_cells)
        else:
            order, keep = np.empty(here.size, np.uint64), np.empty(here.size, np.int64)
            nodes, node_masses = np.empty(here.size), np.empty(here.size)
            find_order(here, order)
            for i in range(here.size):
                keep[i] = order[i]
                nodes[i], node_masses[i] = here[order[i]], mass[order[i]]
        counts[lane] = nodes.size
        labels = slice(0, low[some].size)
        fill_log_kernel(
            nodes, low[some], high[some], narrowed, start, step, tables,
            logs[: nodes.size, labels, lane], in_z[: nodes.size, labels, lane],
            in_sigma[: nodes.size, labels, lane],
        )  # fmt: skip
        total = 0.0
        for i in range(nodes.size):
            keeps[lane, i], mz[i, lane] = keep[i], node_masses[i]
            total += mass[i] if n_cells == 0 else 0.0
        if n_cells > 0:
            for i in range(here.size):
                total += mass[i]
        rest = total
        for j in range(low[some].size):
            my[j, lane] = label_masses[some][j]
            rest -= my[j, lane]
            y[j, lane] = _middle(low[some][j], high[some][j], sigma)
        jokers[lane] = rest if rest >= 0.5 else 0.0
    return logs, in_z, in_sigma, mz, my, jokers, y, keeps, grids, counts


@njit(**INNER)
def _middle(low, high, sigma):
    """Return where a bin stands among others: an open one beyond its end."""
    if low == -np.inf:
        return high - sigma if high < np.inf else 0.0
    return 0.5 * (low + high) if high < np.inf else low + sigma


@njit(**OPTIONS)
def take_items(
    points, bags, shares, z, masses, offsets, noises, is_gaussian, wants_slopes, plan, in_z,
    in_sigma, by_row, keeps, grids, counts, found, values, by_sigmas, slopes,
):  # fmt: skip
    """Write the shares of values and slopes that problems side by side have in those of bags.

    `plan` holds the slopes in the log densities.
    """
    for lane in range(points.size):
        k, r = points[lane], bags[lane]
        here, mass = z[k, offsets[r] : offsets[r + 1]], masses[offsets[r] : offsets[r + 1]]
        share, value, by_sigma = shares[lane, 0], found[lane], 0.0
        value -= lgamma(mass.sum() + 1.0)
        if not np.isfinite(value):
            value = -np.inf
        lowest, width, n_cells = grids[lane, 0], grids[lane, 1], int(grids[lane, 2])
        if wants_slopes and value > -np.inf:
            grad, n = np.empty(here.size), counts[lane]
            for i in range(n):
                along = 0.0
                for j in range(plan.shape[1]):
                    along += plan[i, j, lane] * in_z[i, j, lane]
                    by_sigma += plan[i, j, lane] * in_sigma[i, j, lane]
                if n_cells == 0:
                    grad[keeps[lane, i]] = along
            if n_cells > 0:
                narrowed = _narrow(noises[k, 0], width, n_cells, is_gaussian)
                by_sigma *= (noises[k, 0] / narrowed) ** 2
                keep = keeps[lane, :n]
                _take_grid(here, mass, lowest, width, n_cells, keep, by_row[:n, lane], grad)
            for i in range(here.size):
                slopes[k, offsets[r] + i] = share * grad[i]
        values[k, r] = share * value
        by_sigmas[k, r] = share * by_sigma
        # The share moves with sigma.
        if value > -np.inf:
            by_sigmas[k, r] += shares[lane, 1] * value


@njit(**OPTIONS)
def lay_nodes(points, bags, sizes, z, offsets, labels, label_offsets, sigmas, per_sigma):
    """Return the same for labels known to their last digit, both sides on cubic B-splines.

    In units of sigma; jokers, masses and places, then where nodes lie in grids, and their origins.
    """
    n_rows, n_labels = sizes
    logs = np.full((n_rows, n_labels, LANES), _NONE)
    mz, my, jokers = np.zeros((n_rows, LANES)), np.zeros((n_labels, LANES)), np.zeros(LANES)
    x, y = np.zeros((n_rows, LANES)), np.zeros((n_labels, LANES))
    keeps = np.zeros((2, LANES, max(n_rows, n_labels)), np.int64)
    lows, counts = np.zeros((2, LANES)), np.zeros((2, LANES), np.int64)
    for lane in range(points.size):
        k, r = points[lane], bags[lane]
        own, some = slice(offsets[r], offsets[r + 1]), slice(label_offsets[r], label_offsets[r + 1])
        nodes, found, keep, lows[0, lane] = spread_rows(z[k, own] / sigmas[k], per_sigma)
        counts[0, lane] = nodes.size
        for i in range(nodes.size):
            x[i, lane], mz[i, lane], keeps[0, lane, i] = nodes[i], found[i], keep[i]
        nodes, found, keep, lows[1, lane] = spread_rows(labels[some] / sigmas[k], per_sigma)
        counts[1, lane] = nodes.size
        for j in range(nodes.size):
            y[j, lane], my[j, lane], keeps[1, lane, j] = nodes[j], found[j], keep[j]
        for i in range(counts[0, lane]):
            for j in range(counts[1, lane]):
                gap = y[j, lane] - x[i, lane]
                logs[i, j, lane] = -0.5 * gap * gap
        rest = (offsets[r + 1] - offsets[r]) - (label_offsets[r + 1] - label_offsets[r])
        jokers[lane] = float(rest)
    return logs, mz, my, jokers, x, y, keeps, lows, counts


@njit(**OPTIONS)
def take_nodes(
    points, bags, shares, z, offsets, labels, label_offsets, sigmas, per_sigma, wants_slopes,
    by_row, by_column, keeps, lows, counts, found, values, by_sigmas, slopes,
):  # fmt: skip
    """Write what `take_items` does for nodes."""
    for lane in range(points.size):
        k, r = points[lane], bags[lane]
        sigma, n, m = (
            sigmas[k],
            offsets[r + 1] - offsets[r],
            label_offsets[r + 1] - label_offsets[r],
        )
        share, value, by_sigma = shares[lane, 0], found[lane], 0.0
        value -= lgamma(n + 1.0) + m * (log(sigma) + _LOG_ROOT)
        if not np.isfinite(value):
            value = -np.inf
        if wants_slopes and value > -np.inf:
            by_sigma = -float(m)
            for side in range(2):
                start = offsets[r] if side == 0 else label_offsets[r]
                size, count = n if side == 0 else m, counts[side, lane]
                own, field, out = np.empty(size), np.empty(count), np.empty(size)
                for i in range(size):
                    own[i] = (z[k, start + i] if side == 0 else labels[start + i]) / sigma
                for i in range(count):
                    field[i] = by_row[i, lane] if side == 0 else by_column[i, lane]
                keep = keeps[side, lane, :count]
                by_sigma -= gather(own, keep, lows[side, lane], field, per_sigma, out)
                if side == 0:
                    for i in range(size):
                        slopes[k, start + i] = share * out[i] / sigma
        values[k, r] = share * value
        by_sigmas[k, r] = share * by_sigma
        if value > -np.inf:
            by_sigmas[k, r] += shares[lane, 1] * value
