"""The band of a coupling by diagonals, in blocks of rows: sums over it vectorise.

Rows of a band are short, and a loop over one spends most of its time at its ends. A block is
`BLOCK` neighbouring rows with all diagonals that any of them needs, one line of `BLOCK` entries
each, so that every loop has the same length and adds up nothing inside: the bits do not depend on
how it is compiled. Row i and column j meet on diagonal j − i. Block b has the lines ``ptr[b]`` to
``ptr[b + 1]``, whose entries meet the columns from ``at[b]`` on, one further with every line.
Whatever belongs to rows is filled up to whole blocks, whatever belongs to columns has a block's
width before it and `MARGIN` numbers beside it in all.
"""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.coupling import CUT, LEAST

# Rows of a block: with fewer the ends of loops count again, with more a bad fit has too many lines.
BLOCK = 64
# A block has a multiple of so many lines: sums along rows take them together.
_TOGETHER = 4
MARGIN = 2 * BLOCK + _TOGETHER
# Links below this share of all mass may be rounding. Where more mass than the other share lies on
# either side, that matters: there are two clusters.
_HIDDEN, _CLUSTER = 1e-11, 1e-9
# exp(x) is exp(x/64) squared six times: in [−18, 0] twelve terms are right to 3e-14.
_PART = 1.0 / 64.0
_NTHS = (0.0, *(1.0 / n for n in range(1, 12)))


def make_band(ends):
    """Return room for the lines of a band whose rows have these ends (2, m), ptr and at."""
    n_blocks = -(-ends.shape[1] // BLOCK)
    ptr, at = np.zeros(n_blocks + 1, np.int64), np.empty(n_blocks, np.int64)
    outline_band(ends, ptr, at)
    return np.empty((ptr[-1], BLOCK)), ptr, at


@njit(**OPTIONS)
def outline_band(ends, ptr, at):
    """Fill where the lines of blocks begin, and the columns that they meet."""
    for b in range(at.size):
        low, high = ends[0, b * BLOCK], ends[1, b * BLOCK]
        for k in range(min(BLOCK, ends.shape[1] - b * BLOCK)):
            i = b * BLOCK + k
            low, high = min(low, ends[0, i] - k), max(high, ends[1, i] - k)
        ptr[b + 1] = ptr[b] + (high - low + _TOGETHER) // _TOGETHER * _TOGETHER
        at[b] = BLOCK + low


@njit(**OPTIONS)
def fill_band(band, ptr, at, z, y, alpha, beta):
    """Fill the kernel exp(α + β − (z − y)²/2) of a monotone gauge; potentials are −1e300 beyond."""
    for b in range(at.size):
        here, level = z[b * BLOCK : (b + 1) * BLOCK], alpha[b * BLOCK : (b + 1) * BLOCK]
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            there, other = y[j : j + BLOCK], beta[j : j + BLOCK]
            for k in range(BLOCK):
                gap = here[k] - there[k]
                line[k] = level[k] + other[k] - 0.5 * gap * gap
            _exponentiate(line)


@njit(**INNER)
def _exponentiate(values):
    """Replace values by their exponentials, those beyond the cut by zero."""
    for k in range(values.size):
        x = values[k]
        part = _PART * (x if x > -CUT else -CUT)
        power = 1.0 + part * _NTHS[11]
        power = 1.0 + part * _NTHS[10] * power
        power = 1.0 + part * _NTHS[9] * power
        power = 1.0 + part * _NTHS[8] * power
        power = 1.0 + part * _NTHS[7] * power
        power = 1.0 + part * _NTHS[6] * power
        power = 1.0 + part * _NTHS[5] * power
        power = 1.0 + part * _NTHS[4] * power
        power = 1.0 + part * _NTHS[3] * power
        power = 1.0 + part * _NTHS[2] * power
        power = 1.0 + part * power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        values[k] = power if x > -CUT else 0.0


@njit(**OPTIONS)
def row_sums(band, ptr, at, v, out):
    """Write band @ v into out."""
    for b in range(at.size):
        for i in range(b * BLOCK, (b + 1) * BLOCK):
            out[i] = 0.0
        total = out[b * BLOCK : (b + 1) * BLOCK]
        for t in range(ptr[b], ptr[b + 1], _TOGETHER):
            j = at[b] + t - ptr[b]
            line, second, third, fourth = band[t], band[t + 1], band[t + 2], band[t + 3]
            there, after = v[j : j + BLOCK], v[j + 1 : j + 1 + BLOCK]
            further, last = v[j + 2 : j + 2 + BLOCK], v[j + 3 : j + 3 + BLOCK]
            for k in range(BLOCK):
                left = line[k] * there[k] + second[k] * after[k]
                total[k] += left + (third[k] * further[k] + fourth[k] * last[k])


@njit(**OPTIONS)
def column_sums(band, ptr, at, u, out):
    """Write band.T @ u into out."""
    for j in range(out.size):
        out[j] = 0.0
    for b in range(at.size):
        here = u[b * BLOCK : (b + 1) * BLOCK]
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            total = out[j : j + BLOCK]
            for k in range(BLOCK):
                total[k] += line[k] * here[k]


@njit(**OPTIONS)
def multiply_band(band, ptr, at, u, v):
    """Multiply the entries by those of rows and columns."""
    for b in range(at.size):
        here = u[b * BLOCK : (b + 1) * BLOCK]
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            there = v[j : j + BLOCK]
            for k in range(BLOCK):
                line[k] *= here[k] * there[k]


@njit(**OPTIONS)
def square_sums(band, ptr, at, over_z, over_y, rows, cols):
    """Write the sums of squares times over_y along rows, times over_z along columns."""
    for i in range(rows.size):
        rows[i] = 0.0
    for j in range(cols.size):
        cols[j] = 0.0
    for b in range(at.size):
        here, total = over_z[b * BLOCK : (b + 1) * BLOCK], rows[b * BLOCK : (b + 1) * BLOCK]
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            there, other = over_y[j : j + BLOCK], cols[j : j + BLOCK]
            for k in range(BLOCK):
                square = line[k] * line[k]
                total[k] += square * there[k]
                other[k] += square * here[k]


@njit(**OPTIONS)
def conductances(band, ptr, at, u, v, y, my, n, path, by_row, by_column):
    """Fill how easily mass moves between neighbours of n columns.

    Once rows are right, the columns' margins respond to log v by S = diag(my) - B' diag(1/mz) B,
    the Laplacian of a graph on a line. For potentials that are linear over a band it is the path
    with these conductances, sum_i Cov_i(y, 1[y beyond the gap]) / gap, which are also right where
    two clusters of labels hardly communicate. Over a gap it is what the columns beyond have in all,
    times their distances from the centres of their rows: two sums along rows, two along columns.
    Rows that lie beyond as a whole cancel but for rounding, so that a link weak enough to be hidden
    by it is looked at again, row by row. ``by_row`` and ``by_column`` (2, …) are room.
    """
    centres, mass, reached, centred = by_row[0], by_row[1], by_column[0], by_column[1]
    total = 0.0
    for j in range(y.size):
        reached[j] = v[j] * y[j]
        total += my[j]
    row_sums(band, ptr, at, v, mass)
    row_sums(band, ptr, at, reached, centres)
    for i in range(u.size):
        centres[i] = u[i] * centres[i] / max(mass[i], LEAST)
    column_sums(band, ptr, at, u, reached)
    column_sums(band, ptr, at, centres, centred)
    beyond, flow = 0.0, 0.0
    path[BLOCK + n - 1] = 0.0
    for j in range(BLOCK + n - 1, BLOCK, -1):
        beyond += my[j]
        flow += v[j] * (y[j] * reached[j] - centred[j])
        if flow < _HIDDEN * total and min(beyond, total - beyond) > _CLUSTER * total:
            for i in range(u.size):
                centres[i] /= max(u[i], LEAST)
            _weigh_links(band, ptr, at, u, v, y, n, path, centres, mass)
            return
        gap = y[j] - y[j - 1]
        path[j - 1] = max(flow, 0.0) / gap if gap > 0.0 else np.inf


@njit(**INNER)
def _weigh_links(band, ptr, at, u, v, y, n, path, centres, room):
    """Fill the same where no difference of large numbers hides a weak link.

    From either end of a row to its centre: gaps above it in a sweep downwards, the others in one
    upwards.
    """
    for j in range(path.size):
        path[j] = 0.0
    for b in range(at.size):
        here, centre = u[b * BLOCK : (b + 1) * BLOCK], centres[b * BLOCK : (b + 1) * BLOCK]
        beyond = room[b * BLOCK : (b + 1) * BLOCK]
        for k in range(BLOCK):
            beyond[k] = 0.0
        for t in range(ptr[b + 1] - 1, ptr[b], -1):
            line, below, j = band[t], band[t - 1], at[b] + t - ptr[b]
            there, places, out = v[j : j + BLOCK], y[j : j + BLOCK], path[j - 1 : j - 1 + BLOCK]
            for k in range(BLOCK):
                gap = places[k] - centre[k]
                if gap > 0.0:
                    beyond[k] += here[k] * line[k] * there[k] * gap
                    out[k] += beyond[k] if below[k] > 0.0 else 0.0
        for k in range(BLOCK):
            beyond[k] = 0.0
        for t in range(ptr[b], ptr[b + 1] - 1):
            line, above, j = band[t], band[t + 1], at[b] + t - ptr[b]
            there, places, out = v[j : j + BLOCK], y[j : j + 1 + BLOCK], path[j : j + BLOCK]
            for k in range(BLOCK):
                gap = centre[k] - places[k]
                if gap > 0.0:
                    beyond[k] += here[k] * line[k] * there[k] * gap
                if places[k + 1] <= centre[k] and above[k] > 0.0:
                    out[k] += beyond[k]
    for j in range(BLOCK, BLOCK + n - 1):
        gap = y[j + 1] - y[j]
        path[j] = path[j] / gap if gap > 0.0 else np.inf
    path[BLOCK + n - 1] = 0.0


@njit(**OPTIONS)
def add_spread_slopes(
    band, ptr, at, z, y, centre_z, centre_y, spread_z, spread_y, gradient_z, gradient_y
):
    """Add the slopes of the spreading's effect in log u and log v."""
    for b in range(at.size):
        here, centre = z[b * BLOCK : (b + 1) * BLOCK], centre_z[b * BLOCK : (b + 1) * BLOCK]
        total = gradient_z[b * BLOCK : (b + 1) * BLOCK]
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            there, other, out = (
                y[j : j + BLOCK],
                centre_y[j : j + BLOCK],
                gradient_y[j : j + BLOCK],
            )
            for k in range(BLOCK):
                left, right = there[k] - centre[k], here[k] - other[k]
                entry = -0.5 * line[k] * (spread_z * left * left + spread_y * right * right)
                total[k] += entry
                out[k] += entry


@njit(**OPTIONS)
def band_point_slopes(band, ptr, at, z, y, bend_z, bend_y, kept_z, kept_y, by_z, by_sigmas):
    """Fill the slopes in the points z, and parts of that in log sigma: all entries of B count.

    An entry's gradient is B (1 + slope of the corrections in B - multipliers of its margins);
    masses are one.
    """
    for k in range(BLOCK):
        by_sigmas[k] = 0.0
    for b in range(at.size):
        here, bend = z[b * BLOCK : (b + 1) * BLOCK], bend_z[b * BLOCK : (b + 1) * BLOCK]
        hold, total = kept_z[b * BLOCK : (b + 1) * BLOCK], by_z[b * BLOCK : (b + 1) * BLOCK]
        for k in range(BLOCK):
            total[k] = 0.0
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            there, other, beside = y[j : j + BLOCK], bend_y[j : j + BLOCK], kept_y[j : j + BLOCK]
            for k in range(BLOCK):
                gap, entry = there[k] - here[k], line[k]
                gradient = entry * (1.0 + entry * (bend[k] + other[k]) - hold[k] - beside[k]) * gap
                total[k] += gradient
                by_sigmas[k] += gradient * gap
