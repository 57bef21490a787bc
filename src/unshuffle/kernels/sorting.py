"""Sorting of predictions with their rows: radix sort of keys, finished by insertion sort."""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS

# Length of the runs that merge sort begins with.
_RUN = 16
# Up to this length insertion sort is faster than radix sort.
_INSERTION_LENGTH = 24
# Up to this length digits have 8 bits, whose counters stay in the first-level cache, else 11.
_SHORT_LENGTH = 16384
# Moves per element of the last insertion pass; more mean that an outlier left the keys too coarse.
_MOVES_PER_ELEMENT = 12

# The low half of a pair is the row, the high half its key.
ROW = np.uint64(0xFFFFFFFF)


@njit(**INNER)
def _insertion_finish(z, pairs, ordered, budget):
    """Bring almost sorted pairs into the exact order of `z`, writing the values to `ordered`.

    Returns False, with the pairs in some order, when that needs over `budget` moves.
    """
    moves = 0
    last = -np.inf
    for k in range(z.size):
        pair = pairs[k]
        value = z[pair & ROW]
        if value >= last:
            ordered[k] = value
            last = value
            continue
        m = k
        while m > 0 and ordered[m - 1] > value:
            ordered[m] = ordered[m - 1]
            pairs[m] = pairs[m - 1]
            m -= 1
        ordered[m] = value
        pairs[m] = pair
        moves += k - m
        if moves > budget:
            return False
    return True


@njit(**INNER, fastmath={"nnan", "nsz"})
def find_range(z):
    """Return the least and the largest value (unspecified when there is a NaN)."""
    low, high = z[0], z[0]
    for i in range(z.size):
        value = z[i]
        low = value if value < low else low
        high = value if value > high else high
    return low, high


@njit(**INNER)
def _radix_order(z, low, high, bits, n_passes, pairs, spare, counts):
    """Order the rows by a fixed-point key of `n_passes` digits; return the array that holds it.

    Key and row share one 64-bit word. NaN gives some order, never a bad address: digits are
    masked before they are used.
    """
    n = z.size
    mask = np.uint64((1 << bits) - 1)
    # A hair below the top, so that rounding cannot carry the largest key over it.
    scale = ((1 << min(32, bits * n_passes)) - 1) * (1 - 1e-12) / (high - low)
    for k in range(n_passes):
        for digit in range(1 << bits):
            counts[k, digit] = 0
    second = np.uint64(bits)
    third = np.uint64(2 * bits)
    for i in range(n):
        key = np.uint64((z[i] - low) * scale)
        pairs[i] = (key << np.uint64(32)) | np.uint64(i)
        counts[0, key & mask] += np.uint32(1)
        counts[1, (key >> second) & mask] += np.uint32(1)
    if n_passes == 3:
        for i in range(n):
            counts[2, (pairs[i] >> (np.uint64(32) + third)) & mask] += np.uint32(1)
    for k in range(n_passes):
        total, shift = np.uint32(0), np.uint64(32 + k * bits)
        for digit in range(1 << bits):
            count = counts[k, digit]
            counts[k, digit] = total
            total += count
        for i in range(n):  # scattered stably by digit k
            item = pairs[i]
            place = (item >> shift) & mask
            spare[counts[k, place]] = item
            counts[k, place] += np.uint32(1)
        pairs, spare = spare, pairs
    return pairs


@njit(**INNER)
def find_order(z, order):
    """Fill the rows (np.uint64) in ascending order of `z`, ties in row order, by merging runs."""
    n = z.size
    for start in range(0, n, _RUN):
        for k in range(start, min(start + _RUN, n)):
            value, m = z[k], k
            while m > start and z[order[m - 1]] > value:
                order[m] = order[m - 1]
                m -= 1
            order[m] = k
    spare = np.empty(n if n > _RUN else 0, np.uint64)
    width = _RUN
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            # The left half stands aside, so that the merged run takes its place.
            for k in range(start, middle):
                spare[k] = order[k]
            i, j, k = start, middle, start
            while i < middle and j < stop:
                if z[order[j]] < z[spare[i]]:
                    order[k] = order[j]
                    j += 1
                else:
                    order[k] = spare[i]
                    i += 1
                k += 1
            while i < middle:
                order[k] = spare[i]
                i += 1
                k += 1
        width *= 2


@njit(**OPTIONS)
def sort_rows(z, ordered, pairs, spare, counts):
    """Sort `z` into `ordered`; return the pairs whose low 32 bits are the rows, ties in row order.

    A radix sort of short fixed-point keys brings nearly all into place and an insertion pass
    over the full values makes the order exact. Clustered values get longer keys, then merge sort.
    """
    n = z.size
    if n <= _INSERTION_LENGTH:
        for i in range(n):
            pairs[i] = np.uint64(i)
        _insertion_finish(z, pairs, ordered, n * n)
        return pairs
    low, high = find_range(z)
    spread = high - low
    if spread > 0.0 and spread < np.inf:
        for n_passes in (2, 3):
            bits = 8 if n <= _SHORT_LENGTH and n_passes == 2 else 11
            out = _radix_order(z, low, high, bits, n_passes, pairs, spare, counts)
            if _insertion_finish(z, out, ordered, _MOVES_PER_ELEMENT * n):
                return out
    find_order(z, pairs)
    for k in range(n):
        ordered[k] = z[pairs[k]]
    return pairs
