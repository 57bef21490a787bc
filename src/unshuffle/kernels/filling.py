"""Histograms of predictions at many points: all that the within-bag likelihood needs of the rows.

Everything is added up as whole numbers, so that blocks, threads and orders give the same bits.
"""

from math import exp, log1p

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS

# Places inside a cell are counted in millionths of it, so that sums of 2^43 rows fit 64 bits.
PLACES = 1 << 20
# No row counts at one node alone, so that both have a slope.
_INNER = PLACES - 2
# Rows whose columns and predictions stay in the first-level cache.
_CHUNK = 512
# Numbers of a cache line.
_LINE = 8
# Beyond the window cells widen with the distance: by one in so many cells. The farthest of 10^9
# rows (√n spreads) is then at most 600 cells away.
TAIL = 64.0


@njit(**OPTIONS)
def tail_node(k):
    """Return how far the k-th node beyond a window lies from its edge, in cells."""
    return TAIL * (exp(k / TAIL) - 1.0)


@njit(**OPTIONS)
def _find_tail(distance, n_tail):
    """Return the cell that holds a distance beyond the window's edge, and the place in it."""
    k = min(int(TAIL * log1p(distance / TAIL)), n_tail - 1)
    # The logarithm rounds, on every processor in its own way: the nodes alone decide.
    while k > 0 and tail_node(k) > distance:
        k -= 1
    while k < n_tail - 1 and tail_node(k + 1) <= distance:
        k += 1
    low = tail_node(k)
    return k, min((distance - low) / (tail_node(k + 1) - low), 1.0)


@njit(**OPTIONS)
def _find_cell(place, n_cells, n_tail):
    """Return the cell of a place relative to the window's first node, and the share of it passed.

    Cells are numbered from the far end of the lower tail on.
    """
    if place < 0.0:
        k, share = _find_tail(-place, n_tail)
        return n_tail - 1 - k, 1.0 - share
    if place >= n_cells:
        k, share = _find_tail(place - n_cells, n_tail)
        return n_tail + n_cells + k, share
    k = int(place)
    return n_tail + k, place - k


@njit(**OPTIONS)
def _load(X, order, centre, factor, columns):
    """Bring the rows of this order to standard units, stored by columns."""
    for j in range(centre.size):
        middle, scale, column = centre[j], factor[j], columns[j]
        for i in range(order.size):
            column[i] = (X[order[i], j] - middle) * scale


@njit(**OPTIONS)
def _predict(columns, w, z):
    """Write the straight predictions into z."""
    for i in range(z.size):
        z[i] = 0.0
    for j in range(w.size):
        weight, column = w[j], columns[j]
        for i in range(z.size):
            z[i] += weight * column[i]


@njit(**OPTIONS)
def _place(z, curve, scale, start, places):
    """Write the places of z + c z² relative to the window's first node, in cells."""
    for i in range(z.size):
        places[i] = (z[i] + curve * z[i] * z[i]) * scale - start


@njit(**OPTIONS)
def _find_cells(places, n_cells, n_tail, cells, within):
    """Write the cells of places, and in whole numbers how far into them they lie."""
    for i in range(places.size):
        k = int(places[i])
        cells[i] = n_tail + k
        within[i] = 1 + int((places[i] - k) * _INNER)
    for i in range(places.size):
        if not (places[i] >= 0.0 and places[i] < n_cells):
            cells[i], share = _find_cell(places[i], n_cells, n_tail)
            within[i] = 1 + int(share * _INNER)


@njit(**OPTIONS)
def _slope(columns, z, curve, unit, sums):
    """Write x (1 + 2 c z) of every column and z² as multiples of 1/unit."""
    d = columns.shape[0]
    for j in range(d):
        column, own = columns[j], sums[j]
        for i in range(z.size):
            own[i] = int(np.rint(column[i] * (unit * (1.0 + 2.0 * curve * z[i]))))
    own = sums[d]
    for i in range(z.size):
        own[i] = int(np.rint(z[i] * z[i] * unit))


@njit(**OPTIONS)
def _add(values, places, first, cells):
    """Add values (width, m) to cells (…, width), two of a cell at a time: it is looked up less."""
    width = values.shape[0]
    flat = cells.reshape(cells.size)
    for j in range(0, width - 1, 2):
        left, right = values[j], values[j + 1]
        for i in range(places.size):
            at = np.uint64((first + places[i]) * width + j)
            flat[at] += left[i]
            flat[at + np.uint64(1)] += right[i]
    if width % 2:
        last = values[width - 1]
        for i in range(places.size):
            flat[np.uint64((first + places[i] + 1) * width - 1)] += last[i]


@njit(**OPTIONS)
def _read_in_order(X):
    """Read rows as they lie, before they are taken bag by bag: else each waits for the memory.

    Returns what nobody needs, lest the compiler leave it out.
    """
    total = 0.0
    for i in range(X.shape[0]):
        for j in range(0, X.shape[1], _LINE):
            total += X[i, j]
    return total


@njit(**OPTIONS)
def fill_cells(
    X, order, ends, masses, centre, factor, weights, curves, per_cell, starts, sizes, tails, bases,
    units, cells,
):  # fmt: skip
    """Add rows to histograms of z + c z² of every point: per cell number, places, and slopes.

    ``X`` (m, d) are raw rows, standardised by ``centre`` and ``factor``; those of bag r are
    ``order[ends[r]:ends[r + 1]]``, and ``masses`` say how often each counts (of length zero: once).
    Of point p and bag r the histogram has ``sizes[p, r]`` cells and ``tails[p, r]`` wider ones on
    either side, and begins at ``bases[p, r]`` in ``cells``. A prediction's place is its value times
    ``per_cell[p]`` less ``starts[p, r]``. Rows of a bag without cells are left out (it has none at
    any point). ``cells`` (…, 2) hold numbers and places, ``cells`` (…, d + 3) also the sums of
    x (1 + 2 c z) and of z², as multiples of 1/``units[p]``.
    """
    d, width = centre.size, cells.shape[1]
    room, numbers = np.empty((d + 2, _CHUNK)), np.empty((width + 2, _CHUNK), np.int64)
    columns, line, place = room[:d], room[d], room[d + 1]
    values, found, counts = numbers[:width], numbers[width], numbers[width + 1]
    unused = _read_in_order(X)
    for r in range(ends.size - 1):
        if sizes[0, r] == 0:
            continue
        for start in range(ends[r], ends[r + 1], _CHUNK):
            rows = order[start : min(start + _CHUNK, ends[r + 1])]
            m = rows.size
            z, places, own = line[:m], place[:m], found[:m]
            _load(X, rows, centre, factor, columns)
            if masses.size:
                for i in range(m):
                    counts[i] = masses[rows[i]]
            for p in range(weights.shape[0]):
                _predict(columns, weights[p], z)
                _place(z, curves[p], per_cell[p], starts[p, r], places)
                for i in range(m):
                    values[0, i] = 1
                _find_cells(places, sizes[p, r], tails[p, r], own, values[1])
                if width > 2:
                    _slope(columns, z, curves[p], units[p], values[2:])
                if masses.size:
                    for j in range(width):
                        for i in range(m):
                            values[j, i] *= counts[i]
                _add(values, own, bases[p, r], cells)
    return unused
