"""First pass over a block of rows: order by bag, moments in whole numbers, hashes, cells."""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS

# Multipliers of SplitMix64 (Steele, Lea and Flood 2014).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@njit(**OPTIONS)
def order_by_bag(codes, n_bags):
    """Return the rows of a block ordered by bag (rows of one bag as they stand), and its ends."""
    ends = np.zeros(n_bags + 1, np.int64)
    for i in range(codes.size):
        ends[codes[i] + 1] += 1
    for r in range(n_bags):
        ends[r + 1] += ends[r]
    place, order = ends[:-1].copy(), np.empty(codes.size, np.int32)
    for i in range(codes.size):
        r = codes[i]
        order[place[r]] = i
        place[r] += 1
    return order, ends


@njit(**OPTIONS)
def hash_rows(bits, seed, hashes):
    """Write a hash of the bits (m, d) of every row."""
    for i in range(bits.shape[0]):
        mixed = seed
        for j in range(bits.shape[1]):
            mixed = (mixed ^ bits[i, j]) + _GOLDEN
            mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
            mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
            mixed = mixed ^ (mixed >> np.uint64(31))
        hashes[i] = mixed


@njit(**OPTIONS)
def widen_extremes(X, y, codes, column_ends, label_ends, counts):
    """Take rows and labels of a block into the extremes of columns, of bags' labels, and counts."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = X[i, j] + 0.0  # zeros of either sign are one
            column_ends[j, 0] = min(column_ends[j, 0], x)
            column_ends[j, 1] = max(column_ends[j, 1], x)
    for i in range(y.size):
        r = codes[i]
        counts[r] += 1
        label_ends[r, 0] = min(label_ends[r, 0], y[i])
        label_ends[r, 1] = max(label_ends[r, 1], y[i])


@njit(**OPTIONS)
def add_moments(X, codes, base, factor, unit, first, second, third):
    """Add moments of t = (x − base) factor, |t| ≤ 1, in multiples of 1/unit, bag by bag.

    ``first`` (R, d), ``second`` (R, d, d, filled for j ≤ k), ``third`` (d, d, d, filled for
    j ≤ k ≤ l, of all bags; of length zero: not wanted).
    """
    d = base.size
    t = np.empty(d)
    for i in range(X.shape[0]):
        r = codes[i]
        for j in range(d):
            t[j] = (X[i, j] - base[j]) * factor[j]
            first[r, j] += int(np.rint(t[j] * unit))
        for j in range(d):
            for k in range(j, d):
                product = t[j] * t[k]
                second[r, j, k] += int(np.rint(product * unit))
                if third.size:
                    for m in range(k, d):
                        third[j, k, m] += int(np.rint(product * t[m] * unit))


@njit(**OPTIONS)
def add_label_squares(y, base, factor, unit):
    """Return the sum of ((y − base) factor)² in multiples of 1/unit; the terms are at most one."""
    total = 0
    for i in range(y.size):
        gap = (y[i] - base) * factor
        total += int(np.rint(gap * gap * unit))
    return total


@njit(**OPTIONS)
def _find_hints(edges, offsets, hints):
    """Fill, for as many even steps as a bag has cells, the cell in which each step begins."""
    for r in range(offsets.size - 1):
        first, stop = offsets[r], offsets[r + 1]
        if first == stop:
            continue
        low, cell = edges[first], first
        step = (edges[stop - 1] - low) / (stop - first)
        for k in range(stop - first):
            while cell + 1 < stop and edges[cell + 1] <= low + step * k:
                cell += 1
            hints[first + k] = cell


@njit(**OPTIONS)
def _narrow(y, edges, hints, first, stop):
    """Return between which cells a label lies: by the steps beside its own, or all of the bag's."""
    n_cells, reach = stop - first, edges[stop - 1] - edges[first]
    place = (y - edges[first]) / reach * n_cells if reach > 0.0 else np.nan
    if not 0.0 <= place <= n_cells:  # one cell, a label above the last edge, or no finite step
        return first, stop
    step = min(int(place), n_cells - 1)
    # One step more on either side, since steps are rounded.
    low = hints[first + max(step - 1, 0)]
    return low, hints[first + step + 2] + 1 if step + 2 < n_cells else stop


@njit(**OPTIONS)
def add_to_cells(y, codes, edges, offsets, widths, unit, counts, sums, lows, highs):
    """Add labels to cells of their bag: number, sum of places, extremes.

    Cells of bag r begin at ``edges[offsets[r]:offsets[r + 1]]``, which ascend from its least label
    on; a place is the share of the cell's width that lies below, in multiples of 1/unit. Labels of
    bags without cells are left out.
    """
    # Hints halve the time of finding cells, unless making them, 2 ns each, costs more.
    has_hints = edges.size <= 4 * y.size
    hints = np.empty(edges.size if has_hints else 0, np.int64)
    if has_hints:
        _find_hints(edges, offsets, hints)
    for i in range(y.size):
        low, high = offsets[codes[i]], offsets[codes[i] + 1]
        if low == high:
            continue
        if has_hints:
            low, high = _narrow(y[i], edges, hints, low, high)
        while high - low > 1:
            middle = (low + high) // 2
            if edges[middle] <= y[i]:
                low = middle
            else:
                high = middle
        counts[low] += 1
        if widths[low] > 0.0:
            sums[low] += int(np.rint(min((y[i] - edges[low]) / widths[low], 1.0) * unit))
        lows[low] = min(lows[low], y[i])
        highs[low] = max(highs[low], y[i])
