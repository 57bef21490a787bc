"""The log permanent of a large bag from histograms: of its predictions, and of its labels.

The same entropic transport, correction and spreading as in `bags`, on cells with masses in place of
rows.
"""

from math import lgamma

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS
from unshuffle.kernels.filling import PLACES, tail_node
from unshuffle.kernels.transport.correction import add_corrections
from unshuffle.kernels.transport.coupling import PRECISE
from unshuffle.kernels.transport.lattice import (
    add_gradients,
    collisions,
    correction_gradients,
    scale,
    solve_adjoint,
    variances,
)
from unshuffle.kernels.transport.splines import (
    gather_masses,
    scale_slope_of_masses,
    spread_masses,
)

# Nats that the last step of a scaling may gain where no slopes are wanted.
_ROUGH = 1e-4
# Sums over so many labels round: a step that gains less is none.
_ROUNDED = 1e-12


@njit(**OPTIONS)
def place_nodes(start, size, n_tail, fine):
    """Return the places of a histogram's nodes, one more than its cells, `fine` for a unit."""
    nodes = np.empty(size + 2 * n_tail + 1)
    for k in range(n_tail):
        nodes[n_tail - 1 - k] = start - tail_node(k + 1)
        nodes[n_tail + size + 1 + k] = start + size + tail_node(k + 1)
    for k in range(size + 1):
        nodes[n_tail + k] = start + k
    return nodes / fine


@njit(**OPTIONS)
def share_out(cells, masses):
    """Write the masses of nodes: each row counts at both ends of its cell, by its place in it."""
    masses[:] = 0.0
    for k in range(cells.shape[0]):
        right = cells[k, 1] / PLACES
        masses[k] += cells[k, 0] - right
        masses[k + 1] += right


@njit(**OPTIONS)
def match_masses(rows, row_masses, labels, label_masses, per_sigma, fine, wants_slopes, slopes):
    """Return log(perm/n!) of exp(−(y_j − z_i)²/2) for values with masses, both ascending.

    Fills the slopes in the masses of rows, and returns that in log sigma due to the labels.
    """
    n = label_masses.sum()
    # The variance that cubic B-splines add, and on the rows' side that of their two nodes.
    spread_y = 1.0 / (3.0 * per_sigma * per_sigma)
    spread_z = spread_y + 1.0 / (6.0 * fine * fine)
    z, mz, keep_z, low_z = spread_masses(rows, row_masses, per_sigma)
    y, my, keep_y, low_y = spread_masses(labels, label_masses, per_sigma)
    tolerance = max(PRECISE if wants_slopes else _ROUGH, _ROUNDED * n)
    value, potential_z, potential_y, band, ptr, at = scale(z, mz, y, my, tolerance)
    qz, qy = collisions(band, ptr, at, mz, my)
    value += add_corrections(qz, qy, mz, my) - lgamma(n + 1.0)
    centre_z, centre_y, by_row, by_column = variances(band, ptr, at, z, mz, y)
    value -= 0.5 * (spread_z * (by_row - n) + spread_y * (by_column - n))
    if not wants_slopes:
        return value, 0.0
    gradient_z, gradient_y, slope_z, slope_y = correction_gradients(band, ptr, at, qz, qy, mz, my)
    add_gradients(
        band, ptr, at, z, y, centre_z, centre_y, (spread_z, spread_y), gradient_z, gradient_y
    )
    kept_z, kept_y = solve_adjoint(band, ptr, at, mz, my, y, gradient_z, gradient_y)
    gather_masses(rows, keep_z, low_z, potential_z + slope_z + kept_z, per_sigma, slopes)
    kept_y += potential_y + slope_y
    by_sigma = scale_slope_of_masses(labels, label_masses, keep_y, low_y, kept_y, per_sigma)
    return value, -by_sigma


@njit(**OPTIONS)
def match_cells(
    cells,
    start,
    size,
    n_tail,
    factor,
    labels,
    label_masses,
    per_sigma,
    fine,
    wants_slopes,
    gradients,
):
    """Return log(perm/n!) of a bag from a histogram of predictions, and its slope in label scale.

    A sigma has ``fine`` cells, and ``per_sigma`` nodes of the transport. ``labels`` are in units of
    sigma and centred as the predictions are. ``factor`` is what a row counts: above one in a
    sample. Fills the slope in a prediction (in units of sigma) that lies in each cell.
    """
    nodes, masses = place_nodes(start, size, n_tail, fine), np.empty(cells.shape[0] + 1)
    share_out(cells, masses)
    keep = np.nonzero(masses > 0.0)[0]
    slopes = np.zeros(keep.size)
    value, by_sigma = match_masses(
        nodes[keep],
        factor * masses[keep],
        labels,
        label_masses,
        per_sigma,
        fine,
        wants_slopes,
        slopes,
    )
    if wants_slopes:
        field = np.zeros(nodes.size)
        field[keep] = slopes
        for k in range(gradients.size):
            gradients[k] = 0.0
            if cells[k, 0] > 0:
                gradients[k] = factor * (field[k + 1] - field[k]) / (nodes[k + 1] - nodes[k])
    return value, by_sigma


@njit(**OPTIONS)
def match_histograms(
    cells, bases, lows, sizes, tails, factors, labels, label_masses, label_offsets, unit,
    per_sigma, fine, wants_slopes,
):  # fmt: skip
    """Return log(perm/n!) of every bag, its slope in log sigma due to labels, and gradients.

    Bag r has the cells of `fill_cells` from ``bases[r]`` on and counts where ``factors[r]`` is
    above zero. Its gradients are the sums over rows of the slope in their prediction times one,
    times x (1 + 2 c z) and times z².
    """
    n_bags, width = bases.size, cells.shape[1]
    gradients = np.zeros((n_bags, width - 1))
    values, by_sigmas = np.zeros(n_bags), np.zeros(n_bags)
    for r in range(n_bags):
        if factors[r] == 0.0:
            continue
        own = cells[bases[r] : bases[r] + sizes[r] + 2 * tails[r]]
        slopes = np.empty(own.shape[0])
        part = slice(label_offsets[r], label_offsets[r + 1])
        values[r], by_sigmas[r] = match_cells(
            own, lows[r], sizes[r], tails[r], factors[r], labels[part], label_masses[part],
            per_sigma, fine, wants_slopes, slopes,
        )  # fmt: skip
        if not wants_slopes:
            continue
        for k in range(own.shape[0]):
            if own[k, 0] > 0:
                gradients[r, 0] += slopes[k] * own[k, 0]
                for j in range(2, width):
                    gradients[r, j - 1] += slopes[k] * (own[k, j] / unit)
    return values, by_sigmas, gradients


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
