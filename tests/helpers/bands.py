"""Bags matched the ways that the kernels have, and couplings on a band as matrices."""

from itertools import pairwise

import numpy as np
from numba import njit

from unshuffle import kernels
from unshuffle.kernels.transport import lanes, lattice
from unshuffle.kernels.transport.bags import GRIDS, LARGE
from unshuffle.kernels.transport.coupling import PRECISE
from unshuffle.kernels.transport.diagonals import LANES as BLOCK
from unshuffle.kernels.transport.splines import spread_rows
from unshuffle.kernels.transport.vectors import LANES
from unshuffle.model.kept_bags import match_group
from unshuffle.model.nodes import NODES_PER_SIGMA


# Python cannot call functions that only kernels call.
@njit(cache=True)
def _lay_problem(sides, ends, k, z, mz, y, my):
    lanes.lay_problem(sides, ends, k, z, mz, y, my)


def correct(q):
    """Return the correction of rows or columns from their collision probabilities."""
    return np.where(q > 1.0, 0.5 * (q - 1.0), -1.0 + 1.306 * q - 0.112 * q**2 - 0.194 * q**3)


def add_corrections(plan, mz, my):
    """Return the corrections of a coupling with these masses, by their definition."""
    by_row = (plan**2 / my).sum(axis=1) / mz**2
    by_column = (plan**2 / mz[:, None]).sum(axis=0) / my**2
    return 0.5 * (mz @ correct(by_row) + my @ correct(by_column))


def unroll_diagonals(band, ptr, at, n_rows, n_columns):
    """Return a band by diagonals as a matrix."""
    matrix = np.zeros((n_rows, n_columns))
    for b in range(len(at)):
        for t in range(ptr[b], ptr[b + 1]):
            for k in range(BLOCK):
                i, j = b * BLOCK + k, at[b] + t - ptr[b] + k - BLOCK
                if i < n_rows and 0 <= j < n_columns:
                    matrix[i, j] = band[t, k]
                else:
                    assert band[t, k] == 0.0
    return matrix


def unroll_lane(band, start, ptr, lane, n_rows, n_columns):
    """Return the band of one of the problems side by side as a matrix."""
    matrix = np.zeros((n_rows, n_columns))
    for i in range(len(ptr) - 1):
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            if i < n_rows and j < n_columns:
                matrix[i, j] = band[t, lane]
            else:
                assert band[t, lane] == 0.0
    return matrix


def scale_alone(z, mz, y, my, tolerance=PRECISE):
    """Return value, potentials of z and y, and coupling of masses, as large problems have them."""
    value, by_z, by_y, band, ptr, at = lattice.scale(z, mz, y, my, tolerance)
    return value, by_z, by_y, unroll_diagonals(band, ptr, at, len(z), len(y))


def lay_lanes(problems):
    """Return problems (z, mz, y, my) side by side, as kernels take them; the last fills up."""
    sides, ends = lanes.make_problems(max(max(len(each[0]), len(each[2])) for each in problems))
    for k in range(LANES):
        _lay_problem(sides, ends, k, *problems[min(k, len(problems) - 1)])
    return sides, ends


def scale_beside(problems, tolerance=PRECISE):
    """Return the same of each of some problems (z, mz, y, my) that stand side by side."""
    sides, ends = lay_lanes(problems)
    values = np.empty(LANES)
    band, start, ptr = lanes.make_band(ends)
    kernels.lay_band(sides, band, start, ptr)
    room = lanes.make_room(sides.shape[1])
    u, v = kernels.match_margins(band, start, ptr, sides, tolerance, *room)
    kernels.take_coupling(band, start, ptr, u, v, sides, values)
    found = []
    for k, (z, _, y, _) in enumerate(problems):
        plan = unroll_lane(band, start, ptr, k, len(z), len(y))
        found.append((values[k], sides[4, : len(z), k], sides[5, : len(y), k], plan))
    return found


def match_bags(way, z, y, offsets, sigma=1.0, per_sigma=NODES_PER_SIGMA, wants_slopes=True):
    """Return log(perm/m!) of bags, slopes in their predictions, and in log sigma.

    The bags lie between offsets. Exactly, or approximately on the rows themselves or on grids; side
    by side or, large ones, alone.
    """
    n, n_bags = len(z), len(offsets) - 1
    bent, sigmas = z[None] / sigma, np.array([float(sigma)])
    keys = []
    for start, stop in pairwise(offsets):
        if way in ("exact", "points"):
            keys.append(stop - start)
        elif way == "grid":
            width = max(np.ptp(bent[0, start:stop]), np.ptp(y[start:stop]) / sigma)
            keys.append(GRIDS + int(width * per_sigma) + 5)
        else:
            keys.append(LARGE + (way == "large grid"))
    bags = np.arange(n_bags)
    problems, shares = np.column_stack([0 * bags, bags, keys]), np.tile([1.0, 0.0], (n_bags, 1))
    values, slopes = np.zeros((1, n_bags, 2)), np.zeros((1, n * wants_slopes))
    given = (problems, shares, bent, y, np.asarray(offsets), sigmas, per_sigma, wants_slopes)
    order = np.argsort(keys, kind="stable")
    if way.startswith("large"):
        kernels.match_large(order, *given, PRECISE, values, slopes)
    else:
        for at in range(0, n_bags, LANES):
            match_group(order[at : at + LANES], given, PRECISE, values, slopes)
    return values[0, :, 0], slopes[0] / sigma, values[0, :, 1]


def match_bag(way, z, y, **how):
    """Return the same numbers of one bag."""
    values, slopes, by_log_sigma = match_bags(way, z, y, [0, len(z)], **how)
    return values[0], slopes, by_log_sigma[0]


def lay_nodes(values, per_sigma=NODES_PER_SIGMA):
    """Return the nodes of a grid that values lie on, and their masses."""
    return spread_rows(values, per_sigma)[:2]
