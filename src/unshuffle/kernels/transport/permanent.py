"""Exact permanents of tiny bags and their slopes, many bags side by side: see `lanes`."""

from math import log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.vectors import LANES

# Exact permanents cost m 2^m: 10 rows take 10 microseconds, 15 rows would take half a millisecond.
EXACT_ROWS = 10
# exp(x) is exp(x/1024) squared ten times: above −200 eight terms are right to 1e-12. Less is none.
_LEAST = -200.0


@njit(**INNER)
def _raise(values):
    """Replace values, at most zero, by their exponentials."""
    for k in range(values.size):
        x = min(max(values[k], _LEAST), 0.0) / 1024.0
        power = 1.0 + x * (1.0 / 8.0)
        power = 1.0 + x * (1.0 / 7.0) * power
        power = 1.0 + x * (1.0 / 6.0) * power
        power = 1.0 + x * (1.0 / 5.0) * power
        power = 1.0 + x * (1.0 / 4.0) * power
        power = 1.0 + x * (1.0 / 3.0) * power
        power = 1.0 + x * 0.5 * power
        power = 1.0 + x * power
        for _ in range(10):
            power *= power
        values[k] = power if values[k] > _LEAST else 0.0


@njit(**INNER)
def _sum_over_subsets(matrix, m, table, count):
    """Fill partial permanents by dynamic programming over subsets of columns.

    The entry of a subset is the permanent of its columns and of as many first rows; the last entry
    is that of the matrix.
    """
    full = 1 << m
    for subset in range(full):
        for k in range(LANES):
            table[subset, k] = 1.0 if subset == 0 else 0.0
    count[0] = 0
    for subset in range(full - 1):
        i = count[subset >> 1] + (subset & 1)
        count[subset] = i
        own = table[subset]
        for j in range(m):
            if not (subset >> j) & 1:
                out, entry = table[subset | (1 << j)], matrix[i * m + j]
                for k in range(LANES):
                    out[k] += own[k] * entry[k]


@njit(**INNER)
def _find_probabilities(matrix, m, table, count, rest, found):
    """Fill the slopes of the log permanent in the logs of the entries, by running backwards."""
    full = 1 << m
    for k in range(LANES):
        rest[full - 1, k] = 1.0 / table[full - 1, k]
    for t in range(m * m):
        for k in range(LANES):
            found[t, k] = 0.0
    for subset in range(full - 2, -1, -1):
        i = count[subset]
        own, total = table[subset], rest[subset]
        for k in range(LANES):
            total[k] = 0.0
        for j in range(m):
            if not (subset >> j) & 1:
                ahead, entry, out = rest[subset | (1 << j)], matrix[i * m + j], found[i * m + j]
                for k in range(LANES):
                    after = ahead[k] * entry[k]
                    out[k] += own[k] * after
                    total[k] += after


@njit(**OPTIONS)
def match_exactly(sides, wants_slopes, values, by_sigmas, slopes):
    """Fill log perm of exp(−(y_j − z_i)²/2), its slopes in the rows, and that in log sigma.

    All bags have m rows. The potentials of the monotone coupling keep the permanent between 1 and
    m!; a bag whose potentials have no digit left is impossible.
    """
    z, y, alpha, beta = sides[0], sides[2], sides[4], sides[5]
    m = z.shape[0]
    matrix = np.empty((m * m, LANES))
    table, count = np.empty((1 << m, LANES)), np.empty(1 << m, np.int64)
    for i in range(m):
        for j in range(m):
            line, here, there, level, other = matrix[i * m + j], z[i], y[j], alpha[i], beta[j]
            for k in range(LANES):
                gap = here[k] - there[k]
                line[k] = level[k] + other[k] - 0.5 * gap * gap
    _raise(matrix.reshape(matrix.size))
    _sum_over_subsets(matrix, m, table, count)
    last = table[(1 << m) - 1]
    for k in range(LANES):
        by_sigmas[k] = 0.0
        values[k] = log(last[k]) if 0.0 < last[k] < np.inf else -np.inf
    for i in range(m):
        for k in range(LANES):
            values[k] -= alpha[i, k] + beta[i, k]
    if not wants_slopes:
        return
    rest, found = np.empty(table.shape), np.empty(matrix.shape)
    _find_probabilities(matrix, m, table, count, rest, found)
    for i in range(m):
        here, total = z[i], slopes[i]
        for k in range(LANES):
            total[k] = 0.0
        for j in range(m):
            line, there = found[i * m + j], y[j]
            for k in range(LANES):
                gap = there[k] - here[k]
                total[k] += line[k] * gap
                by_sigmas[k] += line[k] * gap * gap
