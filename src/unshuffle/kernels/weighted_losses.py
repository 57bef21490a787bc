"""Losses between sorted samples with masses, of any numbers of items (Vallender 1974).

The loss compares two quantile functions. The sorted masses of both sides, each adding up to one,
divide the unit interval; each part within one item of either side counts by its length.
"""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS
from unshuffle.kernels.projection import add_chain, longest_bag, project
from unshuffle.kernels.sorted_losses import ABSOLUTE, collect_slopes
from unshuffle.kernels.sorting import ROW, sort_rows


@njit(**OPTIONS)
def compare_masses(code, z, z_shares, y, y_shares, slope):
    """Return the loss between two sorted samples with shares, and fill its slope in `z`."""
    value = 0.0
    i, j = 0, 0
    left_i, left_j = z_shares[0], y_shares[0]
    for k in range(z.size):
        slope[k] = 0.0
    while True:
        # At the end of one side the other has rounding left, which belongs to its last item.
        is_last = i == z.size - 1 and j == y.size - 1
        length = max(left_i, left_j) if is_last else min(left_i, left_j)
        gap = z[i] - y[j]
        if code == ABSOLUTE:
            value += length * abs(gap)
            slope[i] += length * (1.0 if gap > 0.0 else -1.0 if gap < 0.0 else gap)
        else:
            value += length * gap * gap
            slope[i] += 2.0 * length * gap
        if is_last:
            return value
        left_i -= length
        left_j -= length
        if (left_i <= left_j and i < z.size - 1) or j == y.size - 1:
            i += 1
            left_i = z_shares[i]
        else:
            j += 1
            left_j = y_shares[j]


@njit(**OPTIONS)
def evaluate_weighted(
    weights, columns, masses, offsets, y, y_shares, y_offsets, shares, atoms, code, values,
    gradients,
):  # fmt: skip
    """Fill value and gradient of a sorted loss for every start (a row of `weights`).

    Bag r counts by ``shares[r]``. `masses` are those of the rows; `y_shares` add up to one in each
    bag.
    """
    n_atoms = atoms.size
    size = longest_bag(offsets) * n_atoms
    room, places = np.empty((6, size)), np.empty((2, size), np.uint64)
    counts = np.empty((3, 2048), np.uint32)
    z, slope, spread, ordered = room[0], room[1], room[2], room[3]
    sorted_slope, z_shares = room[4], room[5]
    for s in range(weights.shape[0]):
        values[s] = 0.0
        for j in range(gradients.shape[1]):
            gradients[s, j] = 0.0
        for r in range(offsets.size - 1):
            start, stop = offsets[r], offsets[r + 1]
            m, length = stop - start, (stop - start) * n_atoms
            total = 0.0
            for i in range(start, stop):
                total += masses[i]
            project(columns, weights[s], start, stop, z)
            for i in range(m):
                for a in range(n_atoms):
                    spread[i * n_atoms + a] = z[i] + atoms[a]
            rows = sort_rows(spread[:length], ordered, places[0], places[1], counts)
            own = masses[start:stop]
            for k in range(length):
                row = (rows[k] & ROW) // np.uint64(n_atoms)
                z_shares[k] = own[row] / (total * n_atoms)
            lo, hi = y_offsets[r], y_offsets[r + 1]
            values[s] += shares[r] * compare_masses(
                code, ordered[:length], z_shares, y[lo:hi], y_shares[lo:hi], sorted_slope
            )
            collect_slopes(sorted_slope[:length], rows, n_atoms, slope[:m])
            add_chain(columns, slope, start, stop, shares[r], gradients[s])
