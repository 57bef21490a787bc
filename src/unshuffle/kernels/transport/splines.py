"""Values on the nodes of a line, so many to a unit: cubic B-splines there, and slopes back.

Every value is spread over four nodes, which keeps its mean and makes masses smooth functions of it,
and adds a variance of a third of a squared cell. Nodes lie at whole cells from zero, so that none
moves with the values; they are told by the first of them, ``low``, and by those that are occupied,
``keep``.
"""

from math import floor

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS


@njit(**INNER, forceinline=True)
def _place(value, per_unit, low):
    """Return the node before a value, and how far in cells the value lies beyond it."""
    place = value * per_unit - low
    k = int(place)
    return k, place - k


@njit(**INNER, forceinline=True)
def _lay_down(mass, k, whole, first, behind, ahead):
    """Add masses between nodes k and k + 1 to four nodes.

    They are told by their sum, and those of mass times place, (1 − place)³ and place³.
    """
    behind, ahead = behind / 6.0, ahead / 6.0
    mass[k - 1] += behind
    mass[k] += whole - first + ahead - 2.0 * behind
    mass[k + 1] += first + behind - 2.0 * ahead
    mass[k + 2] += ahead


@njit(**INNER)
def _take_occupied(mass, per_unit, low):
    """Return positions and masses of the occupied nodes, and their places in the grid."""
    size = 0
    for k in range(mass.size):
        size += mass[k] > 0.0
    nodes, masses, keep = np.empty(size), np.empty(size), np.empty(size, np.int64)
    place = 0
    for k in range(mass.size):
        if mass[k] > 0.0:
            nodes[place], masses[place], keep[place] = (low + k) / per_unit, mass[k], k
            place += 1
    return nodes, masses, keep


@njit(**OPTIONS)
def spread_rows(values, per_unit):
    """Return positions and masses of the occupied nodes, their places in the grid, and its origin.

    The values stand in any order, each with a mass of one.
    """
    least, largest = values[0], values[0]
    for i in range(values.size):
        least, largest = min(least, values[i]), max(largest, values[i])
    low = floor(least * per_unit) - 1.0
    mass = np.zeros(int(largest * per_unit - low) + 3)
    for i in range(values.size):
        k, right = _place(values[i], per_unit, low)
        left = 1.0 - right
        _lay_down(mass, k, 1.0, right, left * left * left, right * right * right)
    nodes, masses, keep = _take_occupied(mass, per_unit, low)
    return nodes, masses, keep, low


@njit(**INNER)
def spread_weighted_rows(values, masses, per_unit):
    """Return what `spread_rows` does for values with masses; ascending values are fastest."""
    least, largest = values[0], values[0]
    for i in range(values.size):
        least, largest = min(least, values[i]), max(largest, values[i])
    low = floor(least * per_unit) - 1.0
    mass = np.zeros(int(largest * per_unit - low) + 3)
    # What falls between the same two nodes is added up before it is written.
    last, whole, first, behind, ahead = 1, 0.0, 0.0, 0.0, 0.0
    for i in range(values.size):
        k, right = _place(values[i], per_unit, low)
        if k != last:
            _lay_down(mass, last, whole, first, behind, ahead)
            last, whole, first, behind, ahead = k, 0.0, 0.0, 0.0, 0.0
        left, share = 1.0 - right, masses[i]
        whole += share
        first += share * right
        behind += share * left * left * left
        ahead += share * right * right * right
    _lay_down(mass, last, whole, first, behind, ahead)
    nodes, found, keep = _take_occupied(mass, per_unit, low)
    return nodes, found, keep, low


@njit(**INNER)
def _lay_field(keep, potential):
    """Return the potentials of occupied nodes on all nodes, zero on the others."""
    field = np.zeros(keep[keep.size - 1] + 3)
    for i in range(keep.size):
        field[keep[i]] = potential[i]
    return field


@njit(**INNER, forceinline=True)
def _slope(field, k, right):
    """Return how the field at a place changes with it: weighted differences of neighbours.

    The weights are those of a quadratic B-spline.
    """
    left = 1.0 - right
    along = 0.5 * left * left * (field[k] - field[k - 1])
    along += (0.5 + left * right) * (field[k + 1] - field[k])
    return along + 0.5 * right * right * (field[k + 2] - field[k + 1])


@njit(**INNER)
def gather(values, keep, low, potential, per_unit, slopes):
    """Fill slopes in the values from those in the nodes' masses; return that in their log scale."""
    field, total = _lay_field(keep, potential), 0.0
    for i in range(values.size):
        k, right = _place(values[i], per_unit, low)
        slopes[i] = _slope(field, k, right) * per_unit
        total += values[i] * slopes[i]
    return total


@njit(**INNER)
def _take_nodes(mass, n_all, low, per_unit, nodes, lane, place):
    """Fill positions and masses of occupied nodes in a lane, and their places; return how many."""
    n = 0
    for k in range(n_all):
        if mass[k] > 0.0:
            nodes[0, n, lane], nodes[1, n, lane], place[n] = (low + k) / per_unit, mass[k], k
            n += 1
    return n


@njit(**INNER)
def _clear_grid(mass, least, largest, per_unit):
    """Empty a grid that holds these values; return its origin and its number of nodes."""
    low = floor(least * per_unit) - 1.0
    n_all = int(largest * per_unit - low) + 3
    for k in range(n_all):
        mass[k] = 0.0
    return low, n_all


@njit(**INNER)
def spread_values(values, per_unit, mass, nodes, lane, place):
    """Spread values over nodes; return how many are occupied, and the origin of their grid.

    Fills positions and masses of occupied nodes in a lane of ``nodes`` (2, m, lanes), and their
    places in the grid. ``mass`` is room for the whole grid.
    """
    least, largest = values[0], values[0]
    for i in range(values.size):
        own = values[i]
        least, largest = own if own < least else least, own if own > largest else largest
    low, n_all = _clear_grid(mass, least, largest, per_unit)
    for i in range(values.size):
        k, right = _place(values[i], per_unit, low)
        left = 1.0 - right
        _lay_down(mass, k, 1.0, right, left * left * left, right * right * right)
    return _take_nodes(mass, n_all, low, per_unit, nodes, lane, place), low


@njit(**INNER)
def spread_masses(values, masses, per_unit, mass, nodes, lane, place):
    """Do the same for ascending values with masses."""
    low, n_all = _clear_grid(mass, values[0], values[values.size - 1], per_unit)
    # What falls between the same two nodes is added up before it is written.
    last, whole, first, behind, ahead = 1, 0.0, 0.0, 0.0, 0.0
    for i in range(values.size):
        k, right = _place(values[i], per_unit, low)
        if k != last:
            _lay_down(mass, last, whole, first, behind, ahead)
            last, whole, first, behind, ahead = k, 0.0, 0.0, 0.0, 0.0
        left, share = 1.0 - right, masses[i]
        whole += share
        first += share * right
        behind += share * left * left * left
        ahead += share * right * right * right
    _lay_down(mass, last, whole, first, behind, ahead)
    return _take_nodes(mass, n_all, low, per_unit, nodes, lane, place), low


@njit(**INNER)
def read_field(slopes, lane, place, n_nodes, field):
    """Fill the slopes in nodes' masses from a lane: zero where no mass lies."""
    for k in range(place[n_nodes - 1] + 3):
        field[k] = 0.0
    for i in range(n_nodes):
        field[place[i]] = slopes[i, lane]


@njit(**INNER)
def slope_in_value(value, field, low, per_unit):
    """Return the slope in a value of mass one from those in the nodes' masses."""
    k, right = _place(value, per_unit, low)
    return _slope(field, k, right) * per_unit


@njit(**INNER)
def slope_in_mass(value, field, low, per_unit):
    """Return the slope in the mass of a value from those in the nodes' masses."""
    k, right = _place(value, per_unit, low)
    left = 1.0 - right
    behind, ahead = left * left * left / 6.0, right * right * right / 6.0
    slope = behind * field[k - 1] + (left + ahead - 2.0 * behind) * field[k]
    return slope + ((right + behind - 2.0 * ahead) * field[k + 1] + ahead * field[k + 2])
