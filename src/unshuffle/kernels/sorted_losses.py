"""Losses between sorted samples of equal size (Vallender 1974), for many points."""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, INNER_SUMS, OPTIONS
from unshuffle.kernels.projection import add_chain, longest_bag, project
from unshuffle.kernels.sorting import ROW, find_range, sort_rows

# Codes of the losses that have a compiled form; `objectives.losses` gives each its code.
SQUARED, ABSOLUTE, SMALL_D, KOLMOGOROV_SMIRNOV = 0, 1, 2, 3

# Cells of a bag in which points are screened: a power of two.
_CELLS = 256


@njit(**OPTIONS)
def largest_step_gap(z, y):
    """Return the largest distance between the step functions of two sorted samples."""
    n, m = z.size, y.size
    i, j, largest = 0, 0, 0.0
    while i < n and j < m:
        point = min(z[i], y[j])
        while i < n and z[i] <= point:
            i += 1
        while j < m and y[j] <= point:
            j += 1
        largest = max(largest, abs(i / n - j / m))
    return largest


@njit(**INNER_SUMS)
def _sum_gaps(code, z, y, m):
    """Return the sum of squared (or absolute) gaps of the first m values. It writes nothing."""
    total = 0.0
    if code == ABSOLUTE:
        for k in range(m):
            total += abs(z[k] - y[k])
        return total
    for k in range(m):
        gap = z[k] - y[k]
        total += gap * gap
    return total


@njit(**OPTIONS, forceinline=True)
def compare_sorted(code, extent, z, y, slope):
    """Return the loss of two sorted samples (mean over them) and fill its slope in `z`."""
    n = z.size
    if code == KOLMOGOROV_SMIRNOV:
        for k in range(n):
            slope[k] = 0.0
        return largest_step_gap(z, y)
    m = min(extent, n) if code == SMALL_D else n
    if code == ABSOLUTE:
        for k in range(m):
            slope[k] = np.sign(z[k] - y[k]) / m
    else:
        twice = 2.0 / m
        for k in range(m):
            slope[k] = twice * (z[k] - y[k])
    for k in range(m, n):
        slope[k] = 0.0
    return _sum_gaps(code, z, y, m) / m


@njit(**INNER)
def _spread(z, atoms, spread):
    """Write every prediction plus every atom, row by row."""
    if atoms.size == 1:
        for i in range(z.size):
            spread[i] = z[i] + atoms[0]
        return
    for i in range(z.size):
        for a in range(atoms.size):
            spread[i * atoms.size + a] = z[i] + atoms[a]


@njit(**INNER)
def collect_slopes(sorted_slope, pairs, n_atoms, slope):
    """Bring the slopes of sorted places back to their rows, summed over the atoms."""
    if n_atoms == 1:
        for k in range(sorted_slope.size):
            slope[pairs[k] & ROW] = sorted_slope[k]
        return
    for i in range(slope.size):
        slope[i] = 0.0
    for k in range(sorted_slope.size):
        slope[(pairs[k] & ROW) // np.uint64(n_atoms)] += sorted_slope[k]


@njit(**INNER_SUMS)
def _sum_squares(z, m):
    """Return the sum of the squares of the first m values."""
    total = 0.0
    for i in range(m):
        total += z[i] * z[i]
    return total


@njit(**INNER)
def _count_cells(z, m, low, scale, counts, sums):
    """Fill how many of the first m values lie in each even cell from `low` on, and their sums."""
    for k in range(_CELLS):
        counts[k] = 0
        sums[k] = 0.0
    for i in range(m):
        # NaN and what rounding carries over the top lie in some cell: places are masked.
        k = np.int32((z[i] - low) * scale) & np.int32(_CELLS - 1)
        counts[k] += 1
        sums[k] += z[i]


@njit(**OPTIONS)
def screen_squares(weights, columns, y, offsets, values):
    """Fill roughly the value of LS for every start: ranks are counted in cells, nothing is sorted.

    Labels, sorted inside their bags, meet the mean of the cell of their rank. That is too high by
    less than the square of a cell, a 256th of the range of predictions, for half the time.
    """
    n = columns.shape[1]
    z = np.empty(longest_bag(offsets))
    counts, sums = np.empty(_CELLS, np.int64), np.empty(_CELLS)
    below = np.empty(n + offsets.size)  # sums of the labels before each of a bag, and of all
    square = 0.0
    for r in range(offsets.size - 1):
        start, stop = offsets[r], offsets[r + 1]
        below[start + r] = 0.0
        for i in range(start, stop):
            below[i + r + 1] = below[i + r] + y[i]
            square += y[i] * y[i]
    for s in range(weights.shape[0]):
        total = square
        for r in range(offsets.size - 1):
            start, stop = offsets[r], offsets[r + 1]
            m = stop - start
            project(columns, weights[s], start, stop, z)
            low, high = find_range(z[:m])
            spread = high - low
            scale = _CELLS * (1 - 1e-12) / spread if spread > 0.0 else 0.0
            _count_cells(z, m, low, scale, counts, sums)
            total += _sum_squares(z, m)
            own = below[start + r : stop + r + 1]
            at = 0
            for k in range(_CELLS):
                if counts[k] > 0:
                    rank = at + counts[k]
                    total -= 2.0 * sums[k] / counts[k] * (own[rank] - own[at])
                    at = rank
        values[s] = total / n


@njit(**OPTIONS)
def evaluate_sorted(weights, columns, y, offsets, atoms, code, extent, values, gradients):
    """Fill value and gradient of a sorted loss for every start (a row of `weights`).

    Bags count by their size. `y` holds every label once per atom, sorted inside its bag.
    """
    n = columns.shape[1]
    n_atoms = atoms.size
    longest = longest_bag(offsets)
    z = np.empty(longest)
    slope = np.empty(longest)
    spread = z if n_atoms == 1 else np.empty(longest * n_atoms)
    ordered = np.empty(longest * n_atoms)
    sorted_slope = np.empty(longest * n_atoms)
    pairs = np.empty(longest * n_atoms, np.uint64)
    spare = np.empty(longest * n_atoms, np.uint64)
    counts = np.empty((3, 2048), np.uint32)
    for s in range(weights.shape[0]):
        values[s] = 0.0
        for j in range(gradients.shape[1]):
            gradients[s, j] = 0.0
        for r in range(offsets.size - 1):
            start, stop = offsets[r], offsets[r + 1]
            m = stop - start
            length = m * n_atoms
            project(columns, weights[s], start, stop, z)
            _spread(z[:m], atoms, spread)
            rows = sort_rows(spread[:length], ordered, pairs, spare, counts)
            labels = y[start * n_atoms : stop * n_atoms]
            share = m / n
            values[s] += share * compare_sorted(
                code, extent * n_atoms, ordered[:length], labels, sorted_slope
            )
            collect_slopes(sorted_slope[:length], rows, n_atoms, slope[:m])
            add_chain(columns, slope, start, stop, share, gradients[s])
