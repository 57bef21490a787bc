"""The band of a coupling by diagonals, in blocks of rows: sums over it vectorise.

Rows of a band are short, and a loop over one spends most of its time at its ends. A block is
`LANES` neighbouring rows with all diagonals that any of them needs, one line of `LANES` entries
each, so that every loop has the same length and adds up nothing inside: the bits do not depend on
how it is compiled. Row i and column j meet on diagonal j − i. Whatever belongs to rows is filled up
to whole blocks (see `pad_rows`), whatever belongs to columns has `LANES` zeros at either end.
"""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS
from unshuffle.kernels.transport.correction import correct_slope

# Rows of a block: with fewer the ends of loops count again, with more a bad fit has too many lines.
LANES = 64
# A block has a multiple of so many lines: sums along rows take them together.
_TOGETHER = 4
# exp(-18) = 1.5e-8: entries this far below the best path change log-likelihoods by less than 1e-6
# per row. They are none.
CUT = 18.0
# Links below this share of all mass may be rounding. Where more mass than the other share lies on
# either side, that matters: there are two clusters.
_HIDDEN, _CLUSTER = 1e-11, 1e-9
# exp(x) is exp(x/64) squared six times: in [−18, 0] twelve terms are right to 3e-14.
_PART = 1.0 / 64.0
_NTHS = (0.0, *(1.0 / n for n in range(1, 12)))


@njit(**OPTIONS)
def pad_rows(values, filling):
    """Return values of rows filled up to whole blocks."""
    padded = np.full(-(-values.size // LANES) * LANES, filling)
    padded[: values.size] = values
    return padded


@njit(**OPTIONS)
def pad_columns(values, filling):
    """Return values of columns with a block's width beside them on either side."""
    padded = np.full(values.size + 2 * LANES + _TOGETHER, filling)
    padded[LANES : LANES + values.size] = values
    return padded


@njit(**OPTIONS)
def find_ends(z, y, alpha, beta, first, last):
    """Return the first and last column of every row; neither falls from row to row (Monge)."""
    starts, ends = np.empty(z.size, np.int64), np.empty(z.size, np.int64)
    low, high = 0, 0
    for i in range(z.size):
        while low < first[i] and 0.5 * (z[i] - y[low]) ** 2 - alpha[i] - beta[low] >= CUT:
            low += 1
        high = max(high, last[i])
        while high < y.size - 1:
            if 0.5 * (z[i] - y[high + 1]) ** 2 - alpha[i] - beta[high + 1] >= CUT:
                break
            high += 1
        starts[i], ends[i] = low, high
    return starts, ends


@njit(**OPTIONS)
def lay_band(z, y, alpha, beta, first, last):
    """Return the kernel exp(α + β − (z − y)²/2) of a monotone gauge as a band, and its places.

    Block b has the lines ``ptr[b]`` to ``ptr[b + 1]``, whose entries meet the padded columns from
    ``at[b]`` on, one further with every line.
    """
    n_blocks = -(-z.size // LANES)
    starts, ends = find_ends(z, y, alpha, beta, first, last)
    ptr, at = np.zeros(n_blocks + 1, np.int64), np.empty(n_blocks, np.int64)
    for b in range(n_blocks):
        low, high = y.size, -z.size
        for i in range(b * LANES, min((b + 1) * LANES, z.size)):
            low, high = min(low, starts[i] - i), max(high, ends[i] - i)
        n_lines = -(-(high - low + 1) // _TOGETHER) * _TOGETHER
        ptr[b + 1], at[b] = ptr[b] + n_lines, (b + 1) * LANES + low
    band = np.empty((ptr[n_blocks], LANES))
    rows, levels = pad_rows(z, 0.0), pad_rows(alpha, -1e300)
    columns, others = pad_columns(y, 0.0), pad_columns(beta, -1e300)
    for b in range(n_blocks):
        here, level = rows[b * LANES : (b + 1) * LANES], levels[b * LANES : (b + 1) * LANES]
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            there, other = columns[j : j + LANES], others[j : j + LANES]
            for k in range(LANES):
                gap = here[k] - there[k]
                line[k] = level[k] + other[k] - 0.5 * gap * gap
    exponentiate(band.reshape(band.size))
    return band, ptr, at


@njit(**OPTIONS)
def exponentiate(values):
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
    """Write band @ v into out (both padded)."""
    out[:] = 0.0
    for b in range(at.size):
        total = out[b * LANES : (b + 1) * LANES]
        for t in range(ptr[b], ptr[b + 1], _TOGETHER):
            j = at[b] + t - ptr[b]
            line, second, third, fourth = band[t], band[t + 1], band[t + 2], band[t + 3]
            there, after = v[j : j + LANES], v[j + 1 : j + 1 + LANES]
            further, last = v[j + 2 : j + 2 + LANES], v[j + 3 : j + 3 + LANES]
            for k in range(LANES):
                left = line[k] * there[k] + second[k] * after[k]
                total[k] += left + (third[k] * further[k] + fourth[k] * last[k])


@njit(**OPTIONS)
def column_sums(band, ptr, at, u, out):
    """Write band.T @ u into out (both padded)."""
    out[:] = 0.0
    for b in range(at.size):
        here = u[b * LANES : (b + 1) * LANES]
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            total = out[j : j + LANES]
            for k in range(LANES):
                total[k] += line[k] * here[k]


@njit(**OPTIONS)
def scale_band(band, ptr, at, u, v):
    """Multiply the entries by those of rows and columns."""
    for b in range(at.size):
        here = u[b * LANES : (b + 1) * LANES]
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            there = v[j : j + LANES]
            for k in range(LANES):
                line[k] *= here[k] * there[k]


@njit(**OPTIONS)
def square_sums(band, ptr, at, over_z, over_y, rows, cols):
    """Write the sums of squares times over_y along rows, times over_z along columns."""
    rows[:] = 0.0
    cols[:] = 0.0
    for b in range(at.size):
        own = slice(b * LANES, (b + 1) * LANES)
        here, total = over_z[own], rows[own]
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            there, other = over_y[j : j + LANES], cols[j : j + LANES]
            for k in range(LANES):
                square = line[k] * line[k]
                total[k] += square * there[k]
                other[k] += square * here[k]


@njit(**OPTIONS)
def conductances(band, ptr, at, u, v, y, my):
    """Return how easily mass moves between neighbouring columns, ny - 1 numbers.

    Once rows are right, the columns' margins respond to log v by S = diag(my) - B' diag(1/mz) B,
    the Laplacian of a graph on a line. For potentials that are linear over a band it is the path
    with these conductances, sum_i Cov_i(y, 1[y beyond the gap]) / gap, which are also right where
    two clusters of labels hardly communicate. Over a gap it is what the columns beyond have in all,
    times their distances from the centres of their rows: two sums along rows, two along columns.
    Rows that lie beyond as a whole cancel but for rounding, so that a link weak enough to be hidden
    by it is looked at again, row by row.
    """
    n = my.size
    mass, centres = np.empty(u.size), np.empty(u.size)
    row_sums(band, ptr, at, v, mass)
    row_sums(band, ptr, at, v * y, centres)
    for i in range(u.size):
        centres[i] = u[i] * centres[i] / max(mass[i], 1e-300)
    reached, centred = np.empty(v.size), np.empty(v.size)
    column_sums(band, ptr, at, u, reached)
    column_sums(band, ptr, at, centres, centred)
    links = np.empty(max(n - 1, 0))
    total, beyond, flow = my.sum(), 0.0, 0.0
    for j in range(n - 1, 0, -1):
        at_j = LANES + j
        beyond += my[j]
        flow += v[at_j] * (y[at_j] * reached[at_j] - centred[at_j])
        if flow < _HIDDEN * total and min(beyond, total - beyond) > _CLUSTER * total:
            return _weigh_links(band, ptr, at, u, v, y, n)
        gap = y[at_j] - y[at_j - 1]
        links[j - 1] = max(flow, 0.0) / gap if gap > 0.0 else np.inf
    return links


@njit(**OPTIONS)
def _weigh_links(band, ptr, at, u, v, y, n):
    """Return the same where no difference of large numbers hides a weak link.

    From either end of a row to its centre: gaps above it in a sweep downwards, the others in one
    upwards.
    """
    path, centres = np.zeros(y.size), np.empty(u.size)
    mass, beyond = np.empty(u.size), np.empty(LANES)
    row_sums(band, ptr, at, v, mass)
    row_sums(band, ptr, at, v * y, centres)
    for i in range(u.size):
        centres[i] /= max(mass[i], 1e-300)
    for b in range(at.size):
        own = slice(b * LANES, (b + 1) * LANES)
        here, centre = u[own], centres[own]
        beyond[:] = 0.0
        for t in range(ptr[b + 1] - 1, ptr[b], -1):
            line, below, j = band[t], band[t - 1], at[b] + t - ptr[b]
            there, places, out = v[j : j + LANES], y[j : j + LANES], path[j - 1 : j - 1 + LANES]
            for k in range(LANES):
                gap = places[k] - centre[k]
                if gap > 0.0:
                    beyond[k] += here[k] * line[k] * there[k] * gap
                    out[k] += beyond[k] if below[k] > 0.0 else 0.0
        beyond[:] = 0.0
        for t in range(ptr[b], ptr[b + 1] - 1):
            line, above, j = band[t], band[t + 1], at[b] + t - ptr[b]
            there, places, out = v[j : j + LANES], y[j : j + LANES], path[j : j + LANES]
            for k in range(LANES):
                gap = centre[k] - places[k]
                if gap > 0.0:
                    beyond[k] += here[k] * line[k] * there[k] * gap
                if y[j + 1 + k] <= centre[k] and above[k] > 0.0:
                    out[k] += beyond[k]
    links = path[LANES : LANES + max(n - 1, 0)]
    for j in range(links.size):
        gap = y[LANES + j + 1] - y[LANES + j]
        links[j] = links[j] / gap if gap > 0.0 else np.inf
    return links


@njit(**OPTIONS)
def point_gradients(band, ptr, at, z, y, qz, qy, kept_z, kept_y, slopes):
    """Fill the slopes in the points z and return that in log sigma: all entries of B count.

    An entry's gradient is B (1 + slope of the corrections in B - multipliers of its margins);
    masses are one.
    """
    bend_z, bend_y = np.empty(z.size), np.empty(y.size)
    for i in range(z.size):
        bend_z[i] = correct_slope(qz[i])
    for j in range(y.size):
        bend_y[j] = correct_slope(qy[j])
    rows, columns = pad_rows(z, 0.0), pad_columns(y, 0.0)
    bends, others = pad_rows(bend_z, 0.0), pad_columns(bend_y, 0.0)
    kept, besides = pad_rows(kept_z, 0.0), pad_columns(kept_y, 0.0)
    totals, by_sigmas = np.zeros(rows.size), np.zeros(LANES)
    for b in range(at.size):
        own = slice(b * LANES, (b + 1) * LANES)
        here, bend, hold, total = rows[own], bends[own], kept[own], totals[own]
        for t in range(ptr[b], ptr[b + 1]):
            line, j = band[t], at[b] + t - ptr[b]
            there, other, beside = (
                columns[j : j + LANES], others[j : j + LANES], besides[j : j + LANES],
            )  # fmt: skip
            for k in range(LANES):
                gap, entry = there[k] - here[k], line[k]
                gradient = entry * (1.0 + entry * (bend[k] + other[k]) - hold[k] - beside[k]) * gap
                total[k] += gradient
                by_sigmas[k] += gradient * gap
    slopes[:] = totals[: z.size]
    return by_sigmas.sum()
