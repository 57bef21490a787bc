"""Sorted losses of predictions in cells: ranks are counted in cells, without sorting.

A cell keeps the number of its rows, the sums of their columns, and the mean and spread of their
places in it. The labels of its ranks are averaged. Rows and labels both ascend within a cell, so
that their covariance is taken as the product of their sds.
"""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS
from unshuffle.kernels.sorted_losses import SQUARED

# Cells have equal width up to so many sds from the mean of the bag. Beyond, they widen with the
# square of the distance, so that twice as many cells contain any tail.
MIDDLE = 4.0
# Rows of a chunk, which fits the first-level cache.
_TILE = 1024


@njit(**OPTIONS)
def find_place(gap, n_cells):
    """Return the place, 0 to n_cells, of a prediction so many sds from the mean of its bag."""
    size = abs(gap)
    far = np.copysign(MIDDLE * (2.0 - MIDDLE / max(size, MIDDLE)), gap)
    even = far if size > MIDDLE else gap
    return (even + 2.0 * MIDDLE) * (n_cells / (4.0 * MIDDLE))


@njit(**OPTIONS)
def _take_shares(X, start, m, centre, factor, unit, t, shares):
    """Fill t = (x − centre) factor of some rows, by columns, and as multiples of 1/unit, by rows.

    The first share of a row is one: itself.
    """
    d = centre.size
    for i in range(m):
        shares[i, 0] = 1
        for j in range(d):
            share = (X[start + i, j] - centre[j]) * factor[j]
            t[j, i] = share
            shares[i, 1 + j] = int(np.rint(share * unit))


@njit(**OPTIONS)
def _find_cells(z, slots, means, inverse_sds, n_cells, depth, cells, insides, places, shares, d):
    """Find the cells of predictions, and write places inside them beside the shares."""
    if means.size == 1:
        for i in range(z.size):
            z[i] = find_place((z[i] - means[0]) * inverse_sds[0], n_cells)
    else:
        # In two loops, the second of which works on several rows at once.
        for i in range(z.size):
            z[i] = (z[i] - means[slots[i]]) * inverse_sds[slots[i]]
        for i in range(z.size):
            z[i] = find_place(z[i], n_cells)
    last = np.int32(n_cells - 1)
    for i in range(z.size):
        # Numbers of 32 bits are made of several predictions at once, and are large enough.
        cell = min(max(np.int32(z[i]), np.int32(0)), last)
        cells[i] = cell
        insides[i] = np.int32((z[i] - cell) * depth)
    for i in range(z.size):
        inside = np.int64(insides[i])
        places[i] = slots[i] * n_cells + cells[i]
        shares[i, d + 1] = inside
        shares[i, d + 2] = inside * inside


@njit(**OPTIONS)
def _add_shares(own, places, shares, m):
    """Add every row to its cell; four and eight numbers at a time, where there are so many."""
    width = own.shape[1]
    if width == 8:
        for i in range(m):
            k = places[i]
            for j in range(8):
                own[k, j] += shares[i, j]
    elif width == 4:
        for i in range(m):
            k = places[i]
            for j in range(4):
                own[k, j] += shares[i, j]
    else:
        for i in range(m):
            k = places[i]
            for j in range(width):
                own[k, j] += shares[i, j]


@njit(**OPTIONS)
def fill_sorted_cells(
    X, slots, centre, factor, weights, levels, means, inverse_sds, unit, depth, totals
):
    """Add rows to the cells of their predictions z = Σ w t + level, t = (x − centre) factor.

    ``slots`` say which bag of the cells a row belongs to; ``weights`` (S, d), ``levels`` (S,),
    ``means`` and ``inverse_sds`` (S, R) of the predictions of bags; ``totals`` (S, R, cells, lanes
    ≥ 3 + d): numbers of rows, sums of t in multiples of 1/unit, and sums of places inside the cell
    and of their squares, from 0 to 1 in multiples of 1/depth.
    """
    n_points, d = weights.shape
    n_bags, n_cells, width = totals.shape[1:]
    flat = totals.reshape(n_points, n_bags * n_cells, width)
    t, shares = np.empty((d, _TILE)), np.zeros((_TILE, width), np.int64)
    z, places = np.empty(_TILE), np.empty(_TILE, np.int64)
    cells, insides = np.empty(_TILE, np.int32), np.empty(_TILE, np.int32)
    for start in range(0, X.shape[0], _TILE):
        m = min(_TILE, X.shape[0] - start)
        _take_shares(X, start, m, centre, factor, unit, t, shares)
        own = slots[start : start + m]
        for s in range(n_points):
            z[:m] = levels[s]
            for j in range(d):
                for i in range(m):
                    z[i] += weights[s, j] * t[j, i]
            _find_cells(
                z[:m],
                own,
                means[s],
                inverse_sds[s],
                n_cells,
                depth,
                cells,
                insides,
                places,
                shares,
                d,
            )
            _add_shares(flat[s], places, shares, m)


@njit(**OPTIONS)
def _take_ranks(labels, label_masses, at, left, wanted):
    """Take the labels of so many ranks: return their sum, their sd, and where the rest begins."""
    total, square, count = 0.0, 0.0, wanted
    first = labels[at] if left > 0.0 else labels[at + 1]
    while wanted > 0.0:
        if left == 0.0:
            at += 1
            left = label_masses[at]
        part = min(wanted, left)
        # From the first one, so that squares of large labels do not swallow their spread.
        gap = labels[at] - first
        total += part * gap
        square += part * gap * gap
        wanted -= part
        left -= part
    middle = total / count
    return first * count + total, np.sqrt(max(square / count - middle * middle, 0.0)), at, left


@njit(**OPTIONS)
def _compare_one(labels, label_masses, first, stop, z):
    """Return Σ |z − y| and Σ sign(z − y) of a bag whose predictions are all z."""
    total, sign = 0.0, 0.0
    for j in range(first, stop):
        total += label_masses[j] * abs(z - labels[j])
        sign += label_masses[j] * np.sign(z - labels[j])
    return total, sign


@njit(**OPTIONS)
def _spread_inside(cell, count, d, depth, gap, width):
    """Return the sd of predictions inside a cell, in sds of the bag."""
    middle = cell[d + 1] / depth / count
    variance = cell[d + 2] / depth / depth / count - middle * middle
    widening = max(abs(gap) / MIDDLE, 1.0)
    return np.sqrt(max(variance, 0.0)) * width * widening * widening


@njit(**OPTIONS)
def _add_inside(means, z, inside, n_filled, slopes):
    """Add the slope of what rows and labels inside cells have in common.

    A row that lies higher in its cell has a higher label; how its columns change with its
    prediction is told by the cells beside. Returns nothing; ``inside`` is n sd(z) sd(y).
    """
    for q in range(n_filled):
        before, after = max(q - 1, 0), min(q + 1, n_filled - 1)
        reach = z[after] - z[before]
        if inside[q] == 0.0 or reach <= 0.0:
            continue
        for j in range(means.shape[1]):
            slopes[1 + j] += inside[q] * (means[after, j] - means[before, j]) / reach


@njit(**OPTIONS)
def match_sorted_cells(
    cells, weights, level, middles, inverse_sds, labels, label_masses, offsets, unit, depth, code,
    slopes,
):  # fmt: skip
    """Return Σ z y (squares) or Σ |z − y| over ranks, of a point's cells (R, cells, lanes).

    Labels of bag r begin at ``offsets[r]``. Fills the slopes (1 + d): Σ y and Σ y t, or Σ sign and
    Σ sign t, the level's first.
    """
    d, n_cells = weights.size, cells.shape[1]
    slopes[:] = 0.0
    value = 0.0
    means, z, inside = np.empty((n_cells, d)), np.empty(n_cells), np.empty(n_cells)
    for r in range(cells.shape[0]):
        at, n_filled = offsets[r], 0
        left = label_masses[at]
        width = 0.0 if inverse_sds[r] == 0.0 else 4.0 * MIDDLE / n_cells / inverse_sds[r]
        for k in range(n_cells):
            count = float(cells[r, k, 0])
            if count == 0.0:
                continue
            total, spread, at, left = _take_ranks(labels, label_masses, at, left, count)
            z[n_filled] = level
            for j in range(d):
                means[n_filled, j] = cells[r, k, 1 + j] / unit / count
                z[n_filled] += weights[j] * means[n_filled, j]
            middle = z[n_filled]
            if code == SQUARED:
                gap = (middle - middles[r]) * inverse_sds[r]
                spread *= _spread_inside(cells[r, k], count, d, depth, gap, width)
                inside[n_filled] = count * spread
                slope_there = total / count
                value += middle * total + inside[n_filled]
            elif inverse_sds[r] == 0.0:
                # Predictions that are all the same fill one cell: averaged in it, the labels would
                # lose all of their distances.
                there, sign = _compare_one(labels, label_masses, offsets[r], at + 1, middle)
                slope_there = sign / count
                value += there
            else:
                slope_there = np.sign(middle * count - total)
                value += abs(middle * count - total)
            slopes[0] += slope_there * count
            for j in range(d):
                slopes[1 + j] += slope_there * count * means[n_filled, j]
            n_filled += 1
        if code == SQUARED:
            _add_inside(means, z, inside, n_filled, slopes)
    return value


@njit(**OPTIONS)
def curve_sorted_cells(cells, unit, degree, curve):
    """Fill Σ n m(u) m(u)ᵀ (1 + d, 1 + d), m being the mean row (1, t) at rank u of a point's bags.

    The means of cells are those of few rows, so that their squares are too large; polynomials of
    the cells' places, orthonormal among the rows of a bag, keep what changes slowly with the rank.
    """
    n_cells, d = cells.shape[1], curve.shape[0] - 1
    now, before, coefficients = np.empty(n_cells), np.empty(n_cells), np.empty(1 + d)
    curve[:] = 0.0
    for r in range(cells.shape[0]):
        total = 0.0
        for k in range(n_cells):
            total += cells[r, k, 0]
        if total == 0.0:
            continue
        now[:] = 1.0 / np.sqrt(total)
        before[:] = 0.0
        fall = 0.0
        for _ in range(degree + 1):
            coefficients[:] = 0.0
            middle = 0.0
            for k in range(n_cells):
                count = cells[r, k, 0]
                if count == 0:
                    continue
                middle += count * now[k] * now[k] * ((2.0 * k + 1.0) / n_cells - 1.0)
                coefficients[0] += count * now[k]
                for j in range(d):
                    coefficients[1 + j] += cells[r, k, 1 + j] / unit * now[k]
            for i in range(1 + d):
                for j in range(1 + d):
                    curve[i, j] += coefficients[i] * coefficients[j]
            # The next polynomial, by the recurrence of three terms.
            square = 0.0
            for k in range(n_cells):
                place = (2.0 * k + 1.0) / n_cells - 1.0
                following = (place - middle) * now[k] - fall * before[k]
                before[k] = now[k]
                now[k] = following
                square += cells[r, k, 0] * following * following
            # Nothing is left where a bag fills no more cells than there were polynomials.
            if square < 1e-20:
                break
            fall = np.sqrt(square)
            now /= fall
