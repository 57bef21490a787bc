"""Histograms of predictions, for many points at a time: all that a likelihood needs of the rows.

Everything is added up as whole numbers, so that blocks, threads and orders give the same bits.
"""

from math import exp, log1p

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS

# The place of a row inside its cell is kept to a millionth of the cell: far below the cell's own
# error, and 2^43 rows still fit 64 bits.
PLACES = 1 << 20
# No row counts at one node alone, so that both have a slope.
_INNER = PLACES - 2
# Rows whose columns and predictions stay in the first-level cache.
_CHUNK = 512
# Beyond the window cells widen in proportion to the distance: by one in so many cells. So a row as
# far out as one of 10^9 can be (√n spreads) is at most 600 cells away.
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
    z[:] = 0.0
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
def fill_counts(
    X, order, ends, masses, centre, factor, weights, curves, per_cell, starts, sizes, tails, bases,
    cells,
):  # fmt: skip
    """Add rows to histograms of z + c z² of every point: per cell their number and places.

    ``X`` (m, d) are raw rows, standardised by ``centre`` and ``factor``; those of bag r are
    ``order[ends[r]:ends[r + 1]]``, and ``masses`` say how often each counts (of length zero: once).
    Of point p and bag r the histogram has ``sizes[p, r]`` cells and ``tails[p, r]`` wider ones on
    either side, and begins at ``bases[p, r]`` in ``cells`` (…, 2). A prediction's place is its
    value times ``per_cell[p]`` less ``starts[p, r]``. Rows of a bag without cells are left out (it
    has none at any point).
    """
    d = centre.size
    columns, line, place = np.empty((d, _CHUNK)), np.empty(_CHUNK), np.empty(_CHUNK)
    for r in range(ends.size - 1):
        if sizes[0, r] == 0:
            continue
        for start in range(ends[r], ends[r + 1], _CHUNK):
            rows = order[start : min(start + _CHUNK, ends[r + 1])]
            m = rows.size
            z, places = line[:m], place[:m]
            _load(X, rows, centre, factor, columns)
            for p in range(weights.shape[0]):
                _predict(columns, weights[p], z)
                _place(z, curves[p], per_cell[p], starts[p, r], places)
                size, n_tail = sizes[p, r], tails[p, r]
                own = cells[bases[p, r] : bases[p, r] + size + 2 * n_tail]
                for i in range(m):
                    here = places[i]
                    k = int(here)
                    if here >= 0.0 and here < size:
                        share, k = here - k, k + n_tail
                    else:
                        k, share = _find_cell(here, size, n_tail)
                    count = masses[rows[i]] if masses.size else 1
                    own[k, 0] += count
                    own[k, 1] += count * (1 + int(share * _INNER))


@njit(**OPTIONS)
def fill_sums(
    X, order, ends, masses, centre, factor, weights, curves, per_cell, starts, sizes, tails, bases,
    units, cells,
):  # fmt: skip
    """Add rows to histograms as `fill_counts` does, and to every cell the sums of slopes.

    ``cells`` (…, d + 3): number, places, sums of x (1 + 2 c z) and of z², the sums as multiples of
    1/``units[p]``. (Finding and counting the cell as one inlined function takes 1.3 times as long
    here and 1.9 times there.)
    """
    d = centre.size
    columns, line, place = np.empty((d, _CHUNK)), np.empty(_CHUNK), np.empty(_CHUNK)
    for r in range(ends.size - 1):
        if sizes[0, r] == 0:
            continue
        for start in range(ends[r], ends[r + 1], _CHUNK):
            rows = order[start : min(start + _CHUNK, ends[r + 1])]
            m = rows.size
            z, places = line[:m], place[:m]
            _load(X, rows, centre, factor, columns)
            for p in range(weights.shape[0]):
                _predict(columns, weights[p], z)
                _place(z, curves[p], per_cell[p], starts[p, r], places)
                size, n_tail, unit = sizes[p, r], tails[p, r], units[p]
                own = cells[bases[p, r] : bases[p, r] + size + 2 * n_tail]
                for i in range(m):
                    here = places[i]
                    k = int(here)
                    if here >= 0.0 and here < size:
                        share, k = here - k, k + n_tail
                    else:
                        k, share = _find_cell(here, size, n_tail)
                    count = masses[rows[i]] if masses.size else 1
                    own[k, 0] += count
                    own[k, 1] += count * (1 + int(share * _INNER))
                    slope = unit * (1.0 + 2.0 * curves[p] * z[i])
                    for j in range(d):
                        own[k, 2 + j] += count * int(np.rint(columns[j, i] * slope))
                    own[k, 2 + d] += count * int(np.rint(z[i] * z[i] * unit))
