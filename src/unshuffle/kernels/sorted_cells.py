"""Sorted losses of predictions in cells: ranks are counted in cells, and nothing is sorted.

A cell keeps the number of its rows and the sums of their columns. The labels of its ranks are
averaged, so that the value is that of a matching which sorts cells and shuffles inside them.
"""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS
from unshuffle.kernels.sorted_losses import SQUARED

# Cells are evenly wide up to so many sds from the mean of the bag; beyond, they widen with the
# square of the distance, so that twice as many hold any tail.
MIDDLE = 4.0


@njit(**OPTIONS)
def find_cell(gap, n_cells):
    """Return the cell of a prediction so many sds from the mean of its bag; cells ascend."""
    size = abs(gap)
    if size > MIDDLE:
        gap = np.copysign(MIDDLE * (2.0 - MIDDLE / size), gap)
    cell = int((gap + 2.0 * MIDDLE) * (n_cells / (4.0 * MIDDLE)))
    return min(max(cell, 0), n_cells - 1)


@njit(**OPTIONS)
def fill_sorted_cells(X, codes, centre, factor, weights, levels, means, inverse_sds, unit, totals):
    """Add rows to the cells of their predictions z = Σ w t + level, t = (x − centre) factor.

    ``weights`` (S, d), ``levels`` (S,), ``means`` and ``inverse_sds`` (S, R) of the predictions of
    bags; ``totals`` (S, R, cells, 1 + d): numbers of rows, and sums of t in multiples of 1/unit.
    """
    n_points, d = weights.shape
    n_cells = totals.shape[2]
    t, shares = np.empty(d), np.empty(d, np.int64)
    for i in range(X.shape[0]):
        r = codes[i]
        for j in range(d):
            t[j] = (X[i, j] - centre[j]) * factor[j]
            shares[j] = int(np.rint(t[j] * unit))
        for s in range(n_points):
            z = levels[s]
            for j in range(d):
                z += weights[s, j] * t[j]
            cell = find_cell((z - means[s, r]) * inverse_sds[s, r], n_cells)
            own = totals[s, r, cell]
            own[0] += 1
            for j in range(d):
                own[1 + j] += shares[j]


@njit(**OPTIONS)
def match_sorted_cells(cells, weights, level, labels, label_masses, offsets, unit, code, slopes):
    """Return Σ z y (squares) or Σ |z − y| over ranks, of a point's cells (R, cells, 1 + d).

    Fills the slopes (1 + d): Σ y and Σ y t, or Σ sign and Σ sign t, the level's first.
    """
    d = weights.size
    slopes[:] = 0.0
    value = 0.0
    for r in range(cells.shape[0]):
        at = offsets[r]
        left = label_masses[at]
        for k in range(cells.shape[1]):
            count = float(cells[r, k, 0])
            if count == 0.0:
                continue
            wanted, total = count, 0.0
            while wanted > 0.0:
                if left == 0.0:
                    at += 1
                    left = label_masses[at]
                part = min(wanted, left)
                total += part * labels[at]
                wanted -= part
                left -= part
            z = level * count
            for j in range(d):
                z += weights[j] * (cells[r, k, 1 + j] / unit)
            if code == SQUARED:
                pull = total / count
                value += z * pull
            else:
                pull = np.sign(z - total)
                value += abs(z - total)
            slopes[0] += pull * count
            for j in range(d):
                slopes[1 + j] += pull * (cells[r, k, 1 + j] / unit)
    return value
