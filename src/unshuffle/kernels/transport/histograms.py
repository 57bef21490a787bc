"""Large bags as transport problems between histograms: of their predictions, and of their labels.

The same log permanent as in `bags`, of cells with masses in place of rows.
"""

from math import inf, lgamma

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.filling import PLACES, tail_node
from unshuffle.kernels.transport.splines import (
    read_field,
    slope_in_mass,
    slope_in_value,
    spread_masses,
)


@njit(**INNER)
def _node(k, start, size, n_tail, fine):
    """Return the place of node k of a histogram, which has one more than cells."""
    if k < n_tail:
        return (start - tail_node(n_tail - k)) / fine
    if k > n_tail + size:
        return (start + size + tail_node(k - n_tail - size)) / fine
    return (start + (k - n_tail)) / fine


@njit(**OPTIONS)
def list_histograms(
    problems, cells, bases, lows, sizes, tails, fines, labels, label_offsets, sigmas, per_sigmas
):
    """Fill the cells that a histogram occupies, and the most atoms of either side.

    ``problems`` (…, 5) have point and bag, and take the first cell in use, the one after the last,
    and the number of atoms.
    """
    for q in range(problems.shape[0]):
        p, r = problems[q, 0], problems[q, 1]
        start, size, n_tail, fine = lows[p, r], sizes[p, r], tails[p, r], fines[p]
        first = bases[p, r]
        last = first + size + 2 * n_tail - 1
        while cells[first, 0] == 0 and first < last:
            first += 1
        while cells[last, 0] == 0 and last > first:
            last -= 1
        first, last = first - bases[p, r], last - bases[p, r] + 1
        width = _node(last, start, size, n_tail, fine) - _node(first, start, size, n_tail, fine)
        reach = labels[label_offsets[r + 1] - 1] - labels[label_offsets[r]]
        reach /= sigmas[p]
        width = reach if reach > width else width
        problems[q, 2], problems[q, 3] = first, last
        problems[q, 4] = int(width * per_sigmas[p]) + 5


@njit(**OPTIONS)
def place_histograms(
    group, problems, cells, bases, lows, sizes, tails, fines, factors, labels, label_masses,
    label_offsets, sigmas, per_sigmas, sides, numbers, places, origins, values, masses, room,
):  # fmt: skip
    """Write histograms of predictions and of labels into ``sides``: see `fill_gauge`.

    The last problem fills up the lanes. A sigma of point p has ``fines[p]`` cells and
    ``per_sigmas[p]`` nodes, and a row of bag r counts ``factors[r]`` times (more than once in a
    sample), half at either end of its cell by its place in it. ``numbers`` and ``origins``
    (2, lanes) take the sizes and origins of grids, ``places`` (2, lanes, m) the places of nodes.
    ``values``, ``masses`` and ``room`` are room for cells or labels, and for a grid.
    """
    for lane in range(sides.shape[2]):
        q = group[lane if lane < group.size else group.size - 1]
        p, r, first, last = problems[q, 0], problems[q, 1], problems[q, 2], problems[q, 3]
        n = last - first + 1
        masses[n - 1] = 0.0
        before = 0.0
        for i in range(n):
            node = _node(first + i, lows[p, r], sizes[p, r], tails[p, r], fines[p])
            values[i] = node
            if i == n - 1:
                masses[i] = factors[r] * before
                break
            at = bases[p, r] + first + i
            right = cells[at, 1] / PLACES
            masses[i] = factors[r] * (before + (cells[at, 0] - right))
            before = right
        numbers[0, lane], origins[0, lane] = spread_masses(
            values[:n], masses[:n], per_sigmas[p], room, sides[0:2], lane, places[0, lane]
        )
        lo, hi = label_offsets[r], label_offsets[r + 1]
        for j in range(lo, hi):
            values[j - lo] = labels[j] / sigmas[p]
        numbers[1, lane], origins[1, lane] = spread_masses(
            values[: hi - lo], label_masses[lo:hi], per_sigmas[p], room, sides[2:4], lane,
            places[1, lane],
        )  # fmt: skip


@njit(**OPTIONS)
def add_histograms(
    group, problems, cells, bases, lows, sizes, tails, fines, factors, labels, label_masses,
    label_offsets, sigmas, per_sigmas, units, wants_slopes, sides, numbers, places, origins, room,
    found, values, by_sigmas, gradients,
):  # fmt: skip
    """Fill the values of solved problems, their slopes in log sigma due to labels, and gradients.

    All are (points, bags), gradients (points, bags, d + 2): the sums over rows of the slope in
    their prediction, in units of sigma, times one, times x (1 + 2 c z) and times z².
    """
    for lane in range(group.size):
        q = group[lane]
        p, r, first, last = problems[q, 0], problems[q, 1], problems[q, 2], problems[q, 3]
        lo, hi, per_sigma, n = label_offsets[r], label_offsets[r + 1], per_sigmas[p], 0.0
        for j in range(lo, hi):
            n += label_masses[j]
        values[p, r] = found[lane] - lgamma(n + 1.0)
        # Predictions a billion sigmas off leave no digit of the potentials: such points are out.
        if not -inf < values[p, r] < inf:
            values[p, r] = -inf
            continue
        if not wants_slopes:
            continue
        read_field(sides[5], lane, places[1, lane], numbers[1, lane], room)
        for j in range(lo, hi):
            own = labels[j] / sigmas[p]
            slope = slope_in_value(own, room, origins[1, lane], per_sigma)
            by_sigmas[p, r] -= label_masses[j] * own * slope
        read_field(sides[4], lane, places[0, lane], numbers[0, lane], room)
        before, last_node = 0.0, 0.0
        for k in range(first, last + 1):
            node = _node(k, lows[p, r], sizes[p, r], tails[p, r], fines[p])
            at = bases[p, r] + k
            is_left, is_right = k > first and cells[at - 1, 0] > 0, k < last and cells[at, 0] > 0
            if not (is_left or is_right):
                continue
            here = slope_in_mass(node, room, origins[0, lane], per_sigma)
            if is_left:
                slope = factors[r] * (here - before) / (node - last_node)
                gradients[p, r, 0] += slope * cells[at - 1, 0]
                for j in range(2, cells.shape[1]):
                    gradients[p, r, j - 1] += slope * (cells[at - 1, j] / units[p])
            before, last_node = here, node


@njit(**OPTIONS)
def find_filled(cells):
    """Return the places of cells (…, width) that hold anything but zeros."""
    places, n = np.empty(cells.shape[0], np.int32), 0
    for k in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            if cells[k, j] != 0:
                places[n] = k
                n += 1
                break
    return places[:n].copy()
