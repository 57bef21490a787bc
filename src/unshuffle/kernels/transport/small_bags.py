"""What the shapes of held bags say at one point: small ones side by side, others one by one."""

from math import lgamma, log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS, SIDE_BY_SIDE
from unshuffle.kernels.transport.correction import correct
from unshuffle.kernels.transport.histograms import match_rows
from unshuffle.kernels.transport.lane_slopes import fill_slopes, square_sums
from unshuffle.kernels.transport.lanes import LANES, add_terms, gauge, scale_lanes
from unshuffle.kernels.transport.permanent import EXACT_ROWS

# exp(x) is exp(x/1024) squared ten times: above −200 eight terms are right to 1e-12. Less is none.
_LEAST = -200.0


@njit(**SIDE_BY_SIDE)
def _raise(values):
    """Replace values, at most zero, by their exponentials."""
    for k in range(values.size):
        power = add_terms(min(max(values[k], _LEAST), 0.0) / 1024.0)
        for _ in range(10):
            power *= power
        values[k] = power if values[k] > _LEAST else 0.0


@njit(**SIDE_BY_SIDE)
def _sum_over_subsets(matrix, m, table, count):
    """Fill partial permanents of bags side by side: see `permanent.sum_over_subsets`."""
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


@njit(**SIDE_BY_SIDE)
def _find_probabilities(matrix, m, table, count, rest, found):
    """Fill the slopes in the logs of the entries: see `permanent.match_probabilities`."""
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


@njit(**SIDE_BY_SIDE)
def match_exactly(z, y, wants_slopes, values, stretches, slopes):
    """Fill log(perm/m!) of tiny bags, exactly, and slopes as `match_lanes` does.

    A bag whose potentials have no digit left is impossible.
    """
    m = z.shape[0]
    alpha, beta, matrix = np.empty(z.shape), np.empty(z.shape), np.empty((m * m, LANES))
    table, count = np.empty((1 << m, LANES)), np.empty(1 << m, np.int64)
    gauge(z, y, alpha, beta)
    for i in range(m):
        for j in range(m):
            line, here, there, level, other = matrix[i * m + j], z[i], y[j], alpha[i], beta[j]
            for k in range(LANES):
                gap = here[k] - there[k]
                line[k] = level[k] + other[k] - 0.5 * gap * gap
    _raise(matrix.reshape(matrix.size))
    _sum_over_subsets(matrix, m, table, count)
    last, base = table[(1 << m) - 1], lgamma(m + 1.0)
    for k in range(LANES):
        stretches[k] = 0.0
        values[k] = log(last[k]) - base if 0.0 < last[k] < np.inf else -np.inf
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
                stretches[k] += line[k] * gap * gap


@njit(**SIDE_BY_SIDE)
def match_lanes(z, y, wants_slopes, tolerance, values, stretches, slopes):
    """Fill log(perm/m!) of exp(−(y_j − z_i)²/2) of every bag, both (m, LANES) and ascending.

    With slopes also those in z, and those in log sigma.
    """
    m = z.shape[0]
    base = lgamma(m + 1.0)
    for k in range(LANES):
        values[k], stretches[k] = -base, 0.0
    band, start, ptr = scale_lanes(z, y, tolerance, values)
    ones, qz, qy = np.ones(z.shape), np.empty(z.shape), np.empty(z.shape)
    square_sums(band, start, ptr, ones, ones, qz, qy)
    for i in range(m):
        for k in range(LANES):
            values[k] += 0.5 * correct(qz[i, k]) + 0.5 * correct(qy[i, k])
    if wants_slopes:
        fill_slopes(band, start, ptr, z, y, qz, qy, stretches, slopes)


@njit(**SIDE_BY_SIDE)
def _sort(values, places):
    """Sort every bag's values with their places: Batcher's network, the same steps for all."""
    m, top = values.shape[0], 1
    while 2 * top < m:
        top *= 2
    step = top
    while step > 0:
        reach, rest, gap = top, 0, step
        while True:
            for i in range(m - gap):
                if i & step == rest:
                    low, high, first, second = (
                        values[i], values[i + gap], places[i], places[i + gap],
                    )  # fmt: skip
                    for k in range(LANES):
                        left, right, one, two = low[k], high[k], first[k], second[k]
                        is_turned = left > right
                        low[k] = right if is_turned else left
                        high[k] = left if is_turned else right
                        first[k] = two if is_turned else one
                        second[k] = one if is_turned else two
            if reach == step:
                break
            gap, reach, rest = reach - step, reach // 2, step
        step //= 2


@njit(**SIDE_BY_SIDE)
def _predict(rows, w, z):
    """Write the straight predictions of bags side by side, (p, m, LANES) and (m, LANES)."""
    for i in range(z.shape[0]):
        own = z[i]
        for k in range(LANES):
            own[k] = 0.0
        for j in range(w.size):
            weight, column = w[j], rows[j, i]
            for k in range(LANES):
                own[k] += weight * column[k]


@njit(**OPTIONS, error_model="numpy")
def match_small_bags(
    rows, labels, means, w, curve, sigma, wants_slopes, tolerance, values, stretches, pulls
):
    """Fill what bags of one size say, `LANES` of them side by side in each of g groups.

    ``rows`` (g, p, m, LANES), ``labels`` (g, m, LANES) ascend and are centred in each bag, as the
    predictions z + c z² are by their ``means`` (g, LANES). Values, the slope in log sigma due to
    the labels and pulls (g, p + 2, LANES): see `histograms.match_histograms`.
    """
    m = rows.shape[2]
    z, bent, y = np.empty((m, LANES)), np.empty((m, LANES)), np.empty((m, LANES))
    places, slopes, back = np.empty((m, LANES)), np.empty((m, LANES)), np.empty((m, LANES))
    for g in range(rows.shape[0]):
        _predict(rows[g], w, z)
        for i in range(m):
            for k in range(LANES):
                bent[i, k] = (z[i, k] + curve * z[i, k] * z[i, k] - means[g, k]) / sigma
                y[i, k], places[i, k] = labels[g, i, k] / sigma, i
        _sort(bent, places)
        if m <= EXACT_ROWS:
            match_exactly(bent, y, wants_slopes, values[g], stretches[g], slopes)
        else:
            match_lanes(bent, y, wants_slopes, tolerance, values[g], stretches[g], slopes)
        if not wants_slopes:
            continue
        for i in range(m):
            for k in range(LANES):
                stretches[g, k] += slopes[i, k] * bent[i, k]
                back[int(places[i, k]), k] = slopes[i, k]
        _add_pulls(rows[g], z, back, curve, pulls[g])


@njit(**SIDE_BY_SIDE)
def _add_pulls(rows, z, slopes, curve, pulls):
    """Write the sums of slopes, of slopes times x (1 + 2 c z), and times z²."""
    p, m = rows.shape[0], rows.shape[1]
    for j in range(p + 2):
        for k in range(LANES):
            pulls[j, k] = 0.0
    for i in range(m):
        own, here, ones, squares = slopes[i], z[i], pulls[0], pulls[p + 1]
        for k in range(LANES):
            ones[k] += own[k]
            squares[k] += own[k] * here[k] * here[k]
        for j in range(p):
            column, out = rows[j, i], pulls[1 + j]
            for k in range(LANES):
                out[k] += own[k] * (1.0 + 2.0 * curve * here[k]) * column[k]


@njit(**OPTIONS, error_model="numpy")
def match_held_bags(
    columns, offsets, labels, means, w, curve, sigma, per_sigma, wants_slopes, values, stretches,
    pulls,
):  # fmt: skip
    """Fill the same of larger bags, one after another, on lattices of their own.

    ``columns`` (p, n) hold rows ``offsets[r]:offsets[r + 1]`` of bag r, as ``labels`` do.
    """
    p = columns.shape[0]
    for r in range(offsets.size - 1):
        start, m = offsets[r], offsets[r + 1] - offsets[r]
        z, bent, y, slopes = np.zeros(m), np.empty(m), np.empty(m), np.zeros(m)
        for j in range(p):
            weight, column = w[j], columns[j, start : start + m]
            for i in range(m):
                z[i] += weight * column[i]
        for i in range(m):
            bent[i] = (z[i] + curve * z[i] * z[i] - means[r]) / sigma
            y[i] = labels[start + i] / sigma
        values[r], stretches[r] = match_rows(bent, y, per_sigma, wants_slopes, slopes)
        if not wants_slopes:
            continue
        for i in range(m):
            pulls[r, 0] += slopes[i]
            pulls[r, p + 1] += slopes[i] * z[i] * z[i]
            slope = slopes[i] * (1.0 + 2.0 * curve * z[i])
            for j in range(p):
                pulls[r, 1 + j] += slope * columns[j, start + i]
