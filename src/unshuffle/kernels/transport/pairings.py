"""The likelihood of one bag for every pairing, any masses, bins of labels and any noise density.

All work on the matrix of log densities (nodes of predictions × labels), which is small: many rows
are first laid on a grid of predictions. Values and slopes belong together exactly: the slopes of a
coupling's correction go through its scaling by one linear system.
"""

from math import exp, lgamma, log, sqrt

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS
from unshuffle.kernels.transport.correction import correct, correct_slope
from unshuffle.kernels.transport.densities import fill_log_kernel
from unshuffle.kernels.transport.dual import MARGIN_TOLERANCE, couple, factor_dual, solve_dual

# The log density of a label that no row can reach is at least this.
_LEAST_LOG = -1e6
# Codes of the pairings.
PERMUTATION, SUBSET, DRAWS = 0, 1, 2
# Enumeration costs rows × labels × 2^labels: 40 rows and 8 labels take 0.1 ms.
EXACT_LABELS, EXACT_ROWS = 8, 40
# Rows are laid on a grid from so many on, with at least so many cells per sigma: what is left of
# the error of binning is of fourth order in the width.
_LEAST_GRIDDED, _CELLS_PER_SIGMA = 64, 4.0


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
def coupling_terms(log_kernel, row_masses, label_masses, wants_slopes, gradient):
    """Return log(permanent/n!) of the matrix in which every item stands as often as its mass.

    Entropic transport with the local correction of `kernels.transport.coupling`; slopes as
    `mixture_terms` gives them. Both sides have the same total.
    """
    n_rows, n_labels = log_kernel.shape
    plan = np.empty((n_rows, n_labels))
    first, last = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    f, g, columns = couple(log_kernel, row_masses, label_masses, plan, first, last)
    value = -lgamma(row_masses.sum() + 1.0)
    # The dual is least where the margins are met: elsewhere it promises too much, by about what it
    # would cost to bring the missing mass to the labels that lack it.
    is_met = np.abs(columns - label_masses).sum() < 100.0 * MARGIN_TOLERANCE * row_masses.sum()
    for j in range(n_labels):
        lack = label_masses[j] - columns[j]
        if lack > 0.0 and not is_met:
            worst = 0.0
            for i in range(n_rows):
                worst = min(worst, log_kernel[i, j] + f[i] + g[j])
            value += lack * max(worst, _LEAST_LOG)
    row_q, column_q = np.zeros(n_rows), np.zeros(n_labels)
    for i in range(n_rows):
        for j in range(n_labels):
            square = plan[i, j] / (row_masses[i] * label_masses[j]) * plan[i, j]
            row_q[i] += square / row_masses[i]
            column_q[j] += square / label_masses[j]
    for i in range(n_rows):
        value += row_masses[i] * (0.5 * correct(row_q[i]) - f[i])
    for j in range(n_labels):
        value += label_masses[j] * (0.5 * correct(column_q[j]) - g[j])
    by_mass = np.empty(n_rows)
    if not wants_slopes:
        return value, by_mass
    row_slope, column_slope = np.empty(n_rows), np.empty(n_labels)
    for i in range(n_rows):
        row_slope[i] = correct_slope(row_q[i])
    for j in range(n_labels):
        column_slope[j] = correct_slope(column_q[j])
    by_row, by_column = np.zeros(n_rows), np.zeros(n_labels)
    for i in range(n_rows):
        crossing = 0.0
        for j in range(n_labels):
            density = plan[i, j] / (row_masses[i] * label_masses[j])
            gain = density * (row_slope[i] + column_slope[j])
            gradient[i, j] = gain
            by_row[i] += plan[i, j] * gain
            by_column[j] += plan[i, j] * gain
            crossing += column_slope[j] * density * plan[i, j] / row_masses[i]
        by_mass[i] = 0.5 * correct(row_q[i]) - row_q[i] * row_slope[i] - 0.5 * crossing - f[i]
    # The margins hold the coupling: Σⱼ Pᵢⱼ(λᵢ + μⱼ) = by_row and Σᵢ Pᵢⱼ(λᵢ + μⱼ) = by_column.
    for i in range(n_rows):
        for j in range(first[i], last[i] + 1):
            by_column[j] -= plan[i, j] * by_row[i] / row_masses[i]
    factor, begin = factor_dual(plan, row_masses, columns, first, last)
    mu = solve_dual(factor, begin, by_column)
    for i in range(n_rows):
        part = by_row[i]
        for j in range(first[i], last[i] + 1):
            part -= plan[i, j] * mu[j]
        lam = part / row_masses[i]
        by_mass[i] += lam
        for j in range(n_labels):
            gradient[i, j] = plan[i, j] * (1.0 + gradient[i, j] - lam - mu[j])
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


@njit(**OPTIONS)
def _grid(z, sigma, n_cells_per_sigma):
    """Return the first node of a grid of predictions, its width, and its cells (0: it pays not).

    Nodes are whole multiples of a width that is a power of two below a quarter of sigma, so that
    neither moves with the weights or, but for jumps, with sigma.
    """
    width = 2.0 ** np.floor(np.log2(sigma / n_cells_per_sigma))
    lowest = np.floor(z.min() / width)
    n_cells = int(np.floor(z.max() / width) - lowest) + 2
    if z.size <= _LEAST_GRIDDED or n_cells > 0.8 * z.size:
        return lowest, width, 0
    return lowest, width, n_cells


@njit(**OPTIONS)
def _node_terms(log_kernel, masses, label_masses, pairing, wants_slopes, gradient):
    """Return value and slopes of one pairing on nodes of predictions; fill `gradient`."""
    n_rows, n_labels = log_kernel.shape
    if pairing == DRAWS:
        return mixture_terms(log_kernel, masses, label_masses, wants_slopes, gradient)
    n, m = masses.sum(), label_masses.sum()
    is_unit = n == n_rows and m == n_labels
    if is_unit and n_labels <= EXACT_LABELS and n_rows <= EXACT_ROWS:
        value = enumerate_terms(log_kernel, n, gradient)
        if value > -np.inf:
            return value, np.zeros(n_rows)
    if n - m < 0.5:
        return coupling_terms(log_kernel, masses, label_masses, wants_slopes, gradient)
    # Rows without a label hold a joker each, which suits any row.
    wider, jokers = np.zeros((n_rows, n_labels + 1)), np.empty(n_labels + 1)
    wider[:, :n_labels] = log_kernel
    jokers[:n_labels], jokers[n_labels] = label_masses, n - m
    wide_gradient = np.empty((n_rows, n_labels + 1))
    value, by_mass = coupling_terms(wider, masses, jokers, wants_slopes, wide_gradient)
    gradient[:] = wide_gradient[:, :n_labels]
    return value, by_mass


@njit(**OPTIONS)
def bag_terms(z, masses, low, high, label_masses, pairing, noise, tables, wants_slopes, grad):
    """Return the log likelihood of one bag and its slope in log sigma; fill its slope in z.

    `noise` holds sigma, and start and step of the rows of `tables` (log density, probability below
    and above); tables without columns mean Gaussian noise of that sigma.
    """
    sigma, start, step = noise[0], noise[1], noise[2]
    is_gaussian = tables.shape[1] == 0
    # A shape cannot be narrowed by what the grid adds, so that its grid is finer.
    per_sigma = _CELLS_PER_SIGMA if is_gaussian else 4.0 * _CELLS_PER_SIGMA
    lowest, width, n_cells = _grid(z, sigma, per_sigma)
    if n_cells == 0:
        nodes, node_masses, narrowed = z, masses, sigma
    else:
        cells = np.zeros(n_cells)
        for i in range(z.size):
            t = z[i] / width - lowest
            k = min(int(t), n_cells - 2)
            cells[k] += masses[i] * (1.0 - (t - k))
            cells[k + 1] += masses[i] * (t - k)
        keep = np.nonzero(cells > 1e-9)[0]
        nodes, node_masses = (lowest + keep) * width, cells[keep]
        # Laying rows on two nodes each adds a sixth of the squared width to their variance.
        narrowed = sqrt(sigma * sigma - width * width / 6.0) if is_gaussian else sigma
    shape = (nodes.size, low.size)
    log_kernel, in_z, in_sigma = np.empty(shape), np.empty(shape), np.empty(shape)
    fill_log_kernel(nodes, low, high, narrowed, start, step, tables, log_kernel, in_z, in_sigma)
    gradient = np.empty(shape)
    value, by_mass = _node_terms(
        log_kernel, node_masses, label_masses, pairing, wants_slopes, gradient
    )
    if not wants_slopes:
        return value, 0.0
    slope = (gradient * in_sigma).sum() * (sigma / narrowed) ** 2
    if n_cells == 0:
        for i in range(z.size):
            grad[i] = (gradient[i] * in_z[i]).sum()
        return value, slope
    every = np.zeros(n_cells)
    every[keep] = by_mass
    for i in range(z.size):
        t = z[i] / width - lowest
        k = min(int(t), n_cells - 2)
        grad[i] = masses[i] * (every[k + 1] - every[k]) / width
    return value, slope


@njit(**OPTIONS)
def evaluate_pairings(
    z, masses, offsets, low, high, label_masses, label_offsets, shares, pairing, noise, tables,
    wants_slopes, slopes,
):  # fmt: skip
    """Return Σ shares × log likelihoods of the bags, and its slope in log sigma.

    Fills its ``slopes`` in the predictions ``z``, if wanted.
    """
    value, slope = 0.0, 0.0
    for r in range(offsets.size - 1):
        start, stop = offsets[r], offsets[r + 1]
        lo, hi = label_offsets[r], label_offsets[r + 1]
        bag_value, bag_slope = bag_terms(
            z[start:stop], masses[start:stop], low[lo:hi], high[lo:hi], label_masses[lo:hi],
            pairing, noise, tables, wants_slopes, slopes[start:stop],
        )  # fmt: skip
        value += shares[r] * bag_value
        slope += shares[r] * bag_slope
        if wants_slopes:
            for i in range(start, stop):
                slopes[i] *= shares[r]
    return value, slope
