"""Log permanents of bags the ways that the library has, and couplings on a band as matrices."""

from itertools import pairwise

import numpy as np

from unshuffle import kernels
from unshuffle.kernels.transport import diagonals, lanes
from unshuffle.kernels.transport.bags import GRIDS, LARGE
from unshuffle.kernels.transport.coupling import PRECISE
from unshuffle.kernels.transport.diagonals import BLOCK
from unshuffle.kernels.transport.splines import spread_rows
from unshuffle.kernels.transport.vectors import LANES
from unshuffle.model.kept_bags import BagProblems
from unshuffle.model.nodes import NODES_PER_SIGMA


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


def place_problems(problems, n_lanes=LANES):
    """Return problems (z, mz, y, my) side by side, as kernels take them; the last fills up."""
    most = max(max(len(each[0]), len(each[2])) for each in problems)
    sides, sizes = lanes.make_problems(most, n_lanes)
    for k in range(n_lanes):
        for side, values in enumerate(problems[min(k, len(problems) - 1)]):
            sides[side, : len(values), k], sizes[side // 2, k] = values, len(values)
    return sides, sizes


def find_gauge(sides, sizes):
    """Fill potentials of monotone couplings; return the ends of rows on them and on the band."""
    ends = lanes.make_ends(sides.shape[1])
    partners = np.empty_like(ends)
    kernels.fill_gauge(sides, sizes, partners, ends)
    return partners, ends


def pad_rows(values, filling=0.0):
    """Return values of rows filled up to whole blocks."""
    padded = np.full(-(-len(values) // BLOCK) * BLOCK, filling)
    padded[: len(values)] = values
    return padded


def pad_columns(values, filling=0.0):
    """Return values of columns with a margin on either side."""
    padded = np.full(len(values) + diagonals.MARGIN, filling)
    padded[BLOCK : BLOCK + len(values)] = values
    return padded


def fill_alone(z, mz, y, my):
    """Return the kernel of a problem on a band by diagonals, and its potentials, padded."""
    sides, sizes = place_problems([(z, mz, y, my)], 1)
    ends = find_gauge(sides, sizes)[1]
    band = diagonals.make_band(ends[:, : len(z)])
    by_z = pad_rows(sides[4, : len(z), 0], lanes.NOWHERE)
    by_y = pad_columns(sides[5, : len(y), 0], lanes.NOWHERE)
    kernels.fill_band(*band, pad_rows(z), pad_columns(y), by_z, by_y)
    return band, by_z, by_y


def scale_alone(z, mz, y, my, tolerance=PRECISE):
    """Return value, potentials of z and y, and coupling of masses, as large problems have them."""
    band, by_z, by_y = fill_alone(z, mz, y, my)
    mz, my, y, size = pad_rows(mz), pad_columns(my), pad_columns(y), len(z)
    u, v = np.empty_like(mz), np.empty_like(my)
    room = np.empty((4, len(mz))), np.empty((7, len(y)))
    n = len(y) - diagonals.MARGIN
    kernels.scale_band(*band, mz, y, my, n, tolerance, u, v, *room)
    kernels.multiply_band(*band, u, v)
    value = kernels.move_potentials(mz, u, by_z) + kernels.move_potentials(my, v, by_y)
    plan = unroll_diagonals(*band, size, n)
    return value, by_z[:size], by_y[BLOCK : BLOCK + n], plan


def scale_beside(problems, tolerance=PRECISE):
    """Return the same of each of some problems (z, mz, y, my) that stand side by side."""
    sides, sizes = place_problems(problems)
    values = np.empty(LANES)
    band = lanes.make_band(find_gauge(sides, sizes)[1])
    kernels.fill_kernel(sides, *band)
    room = lanes.make_rows(8, sides.shape[1]), lanes.make_rows(lanes.N_FEW)
    u, v = kernels.scale_lanes(*band, sides, tolerance, *room)
    kernels.form_couplings(*band, u, v, sides, values)
    found = []
    for k, (z, _, y, _) in enumerate(problems):
        plan = unroll_lane(*band, k, len(z), len(y))
        found.append((values[k], sides[4, : len(z), k], sides[5, : len(y), k], plan))
    return found


def solve_bags(way, z, y, offsets, sigma=1.0, per_sigma=NODES_PER_SIGMA, wants_slopes=True):
    """Return log(perm/m!) of bags, slopes in their predictions, and in log sigma.

    The bags lie between offsets. Exactly, or approximately on the rows themselves or on grids; side
    by side or, large ones, alone.
    """
    n, n_bags = len(z), len(offsets) - 1
    bent, sigmas = z[None] / sigma, np.array([float(sigma)])
    kinds = []
    for start, stop in pairwise(offsets):
        width = max(np.ptp(bent[0, start:stop]), np.ptp(y[start:stop]) / sigma)
        atoms = int(width * per_sigma) + 5 if way.endswith("grid") else stop - start
        key = atoms + GRIDS * (way == "grid")
        kinds.append((LARGE + (way == "large grid") if way.startswith("large") else key, atoms))
    bags = np.arange(n_bags)
    listed, shares = np.column_stack([0 * bags, bags, kinds]), np.tile([1.0, 0.0], (n_bags, 1))
    values, slopes = np.zeros((1, n_bags, 2)), np.zeros((1, n * wants_slopes))
    offsets = np.asarray(offsets)
    problems = BagProblems(bent, y, offsets, sigmas, per_sigma, listed, shares)
    for group in problems.groups():
        problems.solve(group, PRECISE, values, slopes)
    return values[0, :, 0], slopes[0] / sigma, values[0, :, 1]


def solve_bag(way, z, y, **how):
    """Return the same numbers of one bag."""
    values, slopes, by_log_sigma = solve_bags(way, z, y, [0, len(z)], **how)
    return values[0], slopes, by_log_sigma[0]


def spread_on_nodes(values, per_sigma=NODES_PER_SIGMA):
    """Return the nodes of a grid that values lie on, and their masses."""
    return spread_rows(values, per_sigma)[:2]
