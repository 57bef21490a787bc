"""Exact permanents of tiny bags and their slopes, many bags side by side: see `lanes`."""

from math import log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.lanes import make_rows
from unshuffle.kernels.transport.vectors import LANES, choose, fill, read, write

# Exact permanents cost m 2^m: 10 rows take 10 microseconds, 15 rows would take half a millisecond.
EXACT_ROWS = 10
# exp(x) is exp(x/1024) squared ten times: above −200 eight terms are right to 1e-12. Less is none.
_LEAST = -200.0


@njit(**INNER)
def _raise(x):
    """Return the exponential of a number that is at most zero."""
    part = choose(x, _LEAST, x, _LEAST) * (1.0 / 1024.0)
    power = 1.0 + part * (1.0 / 8.0)
    power = 1.0 + part * (1.0 / 7.0) * power
    power = 1.0 + part * (1.0 / 6.0) * power
    power = 1.0 + part * (1.0 / 5.0) * power
    power = 1.0 + part * (1.0 / 4.0) * power
    power = 1.0 + part * (1.0 / 3.0) * power
    power = 1.0 + part * 0.5 * power
    power = 1.0 + part * power
    for _ in range(10):
        power = power * power
    return choose(x, _LEAST, power, 0.0)


@njit(**INNER)
def _sum_over_subsets(matrix, m, table, count):
    """Fill partial permanents by dynamic programming over subsets of columns.

    The entry of a subset is the permanent of its columns and of as many first rows; the last entry
    is that of the matrix.
    """
    write(table, 0, fill(1.0))
    count[0] = 0
    for subset in range(1, 1 << m):
        count[subset] = count[subset >> 1] + (subset & 1)
        row, total = (count[subset] - 1) * m, fill(0.0)
        for j in range(m):
            if (subset >> j) & 1:
                total = total + read(table, subset ^ (1 << j)) * read(matrix, row + j)
        write(table, subset, total)


@njit(**INNER)
def _find_probabilities(matrix, m, table, count, rest, found):
    """Fill the slopes of the log permanent in the logs of the entries, by running backwards."""
    full = 1 << m
    write(rest, full - 1, 1.0 / read(table, full - 1))
    for t in range(m * m):
        write(found, t, fill(0.0))
    for subset in range(full - 2, -1, -1):
        row, own, total = count[subset] * m, read(table, subset), fill(0.0)
        for j in range(m):
            if not (subset >> j) & 1:
                after = read(rest, subset | (1 << j)) * read(matrix, row + j)
                write(found, row + j, read(found, row + j) + own * after)
                total = total + after
        write(rest, subset, total)


@njit(**OPTIONS)
def exact_permanents(sides, wants_slopes, values, by_sigmas, slopes, matrix, table, count, rest):
    """Fill log perm of exp(−(y_j − z_i)²/2), its slopes in the rows, and that in log sigma.

    All bags have m rows. The potentials of the monotone coupling keep the permanent between 1 and
    m!; a bag whose potentials have no digit left is impossible. The last four come from
    `make_tables`.
    """
    z, y, alpha, beta = sides[0], sides[2], sides[4], sides[5]
    m = z.shape[0]
    entries, found = matrix[0], matrix[1]
    for i in range(m):
        here, level = read(z, i), read(alpha, i)
        for j in range(m):
            gap = here - read(y, j)
            x = level + read(beta, j) - 0.5 * gap * gap
            write(entries, i * m + j, _raise(choose(x, 0.0, 0.0, x)))
    _sum_over_subsets(entries, m, table, count)
    last = table[(1 << m) - 1]
    for k in range(LANES):
        by_sigmas[k] = 0.0
        values[k] = log(last[k]) if 0.0 < last[k] < np.inf else -np.inf
    for i in range(m):
        for k in range(LANES):
            values[k] -= alpha[i, k] + beta[i, k]
    if not wants_slopes:
        return
    _find_probabilities(entries, m, table, count, rest, found)
    by_sigma = fill(0.0)
    for i in range(m):
        here, total = read(z, i), fill(0.0)
        for j in range(m):
            gap, share = read(y, j) - here, read(found, i * m + j)
            total = total + share * gap
            by_sigma = by_sigma + share * gap * gap
        write(slopes, i, total)
    write(rest, 0, by_sigma)
    for k in range(LANES):
        by_sigmas[k] = rest[0, k]


def make_tables(m):
    """Return what `exact_permanents` writes in between."""
    rows, full = make_rows(2 * (m * m + (1 << m))), 1 << m
    matrix, tables = rows[: 2 * m * m].reshape(2, m * m, LANES), rows[2 * m * m :]
    return matrix, tables[:full], np.empty(full, np.int64), tables[full:]
