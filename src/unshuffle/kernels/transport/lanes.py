"""Many small bags of one size side by side: their couplings, a bag in every lane.

A small bag's loops are too short to vectorise, and several bags of one size take the same steps.
So every array has a last axis of `LANES` bags, and every inner loop runs over it: nothing is added
up inside it, so that the bits hang neither on how it is compiled nor on what stands beside a bag.
A bag that is done waits for the others: what it has does not change.

The same monotone gauge and scaling as `coupling`, for masses of one. Corrections and slopes are in
`lane_slopes`.
"""

from math import log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import SIDE_BY_SIDE
from unshuffle.kernels.transport.coupling import LONGEST, MAX_PASSES, ROUNDING, STEP_SHARE
from unshuffle.kernels.transport.diagonals import exponentiate

# Bags side by side: more wait longer for the slowest of them, fewer leave vectors half empty.
LANES = 32
# Entries so many nats below the best path are none: see `coupling`.
_CUT = 18.0
# Links below this share of all mass may be rounding: see `diagonals`.
_HIDDEN = 1e-11
# A flow changes the height over a link by no more than one over this, whatever the link.
_BEND = 0.4


@njit(**SIDE_BY_SIDE)
def gauge(z, y, alpha, beta):
    """Fill the potentials of the sorted matching: see `coupling.monotone_potentials`."""
    for k in range(LANES):
        alpha[0, k] = 0.0
        beta[0, k] = 0.5 * (z[0, k] - y[0, k]) ** 2
    for i in range(z.shape[0] - 1):
        z0, z1, y0, y1, a0, a1 = z[i], z[i + 1], y[i], y[i + 1], alpha[i], alpha[i + 1]
        b0, b1 = beta[i], beta[i + 1]
        for k in range(LANES):
            ahead, own, back = z1[k] - y0[k], z1[k] - y1[k], z0[k] - y1[k]
            own = 0.5 * own * own
            high = own - (0.5 * ahead * ahead - b0[k])
            low = 0.5 * back * back - a0[k]
            b1[k] = 0.5 * (low + high)
            a1[k] = own - b1[k]


@njit(**SIDE_BY_SIDE)
def _reaches(z, y, alpha, beta):
    """Whether any bag has an entry there."""
    n_near = 0
    for k in range(LANES):
        gap = z[k] - y[k]
        n_near += alpha[k] + beta[k] - 0.5 * gap * gap > -_CUT
    return n_near > 0


@njit(**SIDE_BY_SIDE)
def _lay_band(z, y, alpha, beta):
    """Return the kernel as a band of lines, the first column of every row, and row pointers.

    Rows hold what any of the bags needs; entries that a bag does not need are zero.
    """
    m = z.shape[0]
    start, ptr = np.empty(m, np.int64), np.zeros(m + 1, np.int64)
    low, high = 0, 0
    for i in range(m):
        while low < i and not _reaches(z[i], y[low], alpha[i], beta[low]):
            low += 1
        high = max(high, i)
        while high < m - 1 and _reaches(z[i], y[high + 1], alpha[i], beta[high + 1]):
            high += 1
        start[i], ptr[i + 1] = low, ptr[i] + high - low + 1
    band = np.empty((ptr[m], LANES))
    for i in range(m):
        here, level = z[i], alpha[i]
        for t in range(ptr[i], ptr[i + 1]):
            j = start[i] + t - ptr[i]
            line, there, other = band[t], y[j], beta[j]
            for k in range(LANES):
                gap = here[k] - there[k]
                # Potentials of predictions a billion sigmas off have no digit left.
                line[k] = min(level[k] + other[k] - 0.5 * gap * gap, 0.0)
    exponentiate(band.reshape(band.size))
    return band, start, ptr


@njit(**SIDE_BY_SIDE)
def _sweep(band, start, ptr, u, v, sums):
    """Make rows right: write u = 1/(K v), and into sums K'u."""
    for j in range(v.shape[0]):
        for k in range(LANES):
            sums[j, k] = 0.0
    for i in range(u.shape[0]):
        own, shift = u[i], start[i] - ptr[i]
        for k in range(LANES):
            own[k] = 0.0
        for t in range(ptr[i], ptr[i + 1]):  # one by one: pairs would hang on other bags' bands
            line, there = band[t], v[t + shift]
            for k in range(LANES):
                own[k] += line[k] * there[k]
        for k in range(LANES):
            own[k] = 1.0 / max(own[k], 1e-300)
        for t in range(ptr[i], ptr[i + 1]):
            line, out = band[t], sums[t + shift]
            for k in range(LANES):
                out[k] += line[k] * own[k]


@njit(**SIDE_BY_SIDE)
def find_links(band, start, ptr, u, v, y, path, work):
    """Write how easily mass moves between neighbouring columns: see `diagonals.conductances`.

    Over a gap it is what the columns beyond have in all, times their distances from the centres of
    their rows. Links that rounding may have made are none: on either side of them stand as many
    rows as columns, so that nothing needs to flow there.
    """
    m = y.shape[0]
    centre, flow = work[0], work[1]
    for j in range(m):
        for k in range(LANES):
            path[j, k] = 0.0
    for i in range(m):
        here, shift = u[i], start[i] - ptr[i]
        for k in range(LANES):
            centre[k] = 0.0
        for t in range(ptr[i], ptr[i + 1]):
            line, there, places = band[t], v[t + shift], y[t + shift]
            for k in range(LANES):
                centre[k] += line[k] * there[k] * places[k]
        for k in range(LANES):
            centre[k] *= here[k]
        for t in range(ptr[i], ptr[i + 1]):
            line, places, out = band[t], y[t + shift], path[t + shift]
            for k in range(LANES):
                out[k] += line[k] * here[k] * (places[k] - centre[k])
    for k in range(LANES):
        flow[k] = 0.0
    for j in range(m - 1, 0, -1):
        # What the columns from j on pull, before it is written over.
        own, there, places, before = path[j], v[j], y[j], y[j - 1]
        for k in range(LANES):
            flow[k] += own[k] * there[k]
            gap = places[k] - before[k]
            link = flow[k] if flow[k] > _HIDDEN * m else 0.0
            own[k] = link / gap if gap > 0.0 else np.inf
    for j in range(m - 1):
        for k in range(LANES):
            path[j, k] = path[j + 1, k]


@njit(**SIDE_BY_SIDE)
def _aim(gaps, path, step, along, work):
    """Fill the move of log v that takes most of the gaps away, and the slope along it.

    See `coupling._aim`.
    """
    m = gaps.shape[0]
    flow, height, mean = work[0], work[1], work[2]
    least = ROUNDING * m
    for k in range(LANES):
        flow[k], height[k], mean[k], along[k] = 0.0, 0.0, 0.0, 0.0
    for j in range(m):
        own, link, out = gaps[j], path[j], step[j]
        for k in range(LANES):
            # Logarithm and asinh, bounded: what is further off moves again.
            share = own[k] / (2.0 + own[k])
            square = share * share
            near = 1.0 + square * (1.0 / 3.0 + square * (0.2 + square / 7.0))
            move = height[k] - 2.0 * share * near
            out[k] = move
            mean[k] += move
            flow[k] += own[k]
            size = abs(flow[k])
            drop = flow[k] / max(link[k] + _BEND * size, 1e-300)
            height[k] += drop if link[k] > 0.0 and size > least else 0.0
    for k in range(LANES):
        mean[k] /= m
    for j in range(m):
        own, out = gaps[j], step[j]
        for k in range(LANES):
            move = min(max(STEP_SHARE * (out[k] - mean[k]), -LONGEST), LONGEST)
            out[k] = move
            along[k] += own[k] * move


@njit(**SIDE_BY_SIDE, forceinline=True)
def add_terms(x):
    """Return the first nine terms of exp(x)."""
    power = 1.0 + x / 8.0
    power = 1.0 + x / 7.0 * power
    power = 1.0 + x / 6.0 * power
    power = 1.0 + x / 5.0 * power
    power = 1.0 + x / 4.0 * power
    power = 1.0 + x / 3.0 * power
    power = 1.0 + x / 2.0 * power
    return 1.0 + x * power


@njit(**SIDE_BY_SIDE)
def _move(before, step, share, is_done, v):
    """Write values moved by shares of steps of their logarithms, but for bags that are done."""
    for j in range(v.shape[0]):
        old, move, new = before[j], step[j], v[j]
        for k in range(LANES):
            # exp(x) is exp(x/64) squared six times; |x| is at most 30.
            power = add_terms(share[k] * move[k] / 64.0)
            power *= power
            power *= power
            power *= power
            power *= power
            power *= power
            power *= power
            new[k] = new[k] if is_done[k] else old[k] * power


@njit(**SIDE_BY_SIDE)
def _match_margins(band, start, ptr, u, v, y, tolerance):
    """Change u and v until the margins of u K v are one: see `coupling`."""
    m = y.shape[0]
    gaps, path, latest = np.empty(y.shape), np.zeros(y.shape), np.empty(y.shape)
    step, fresh, before = np.zeros(y.shape), np.empty(y.shape), v.copy()
    along, expected, share = np.empty(LANES), np.zeros(LANES), np.ones(LANES)
    is_done, is_new, work = (
        np.zeros(LANES, np.bool_),
        np.zeros(LANES, np.bool_),
        np.empty((3, LANES)),
    )
    for passes in range(MAX_PASSES):
        _sweep(band, start, ptr, u, v, gaps)
        for k in range(LANES):
            along[k] = 0.0
        for j in range(m):
            own, there, move = gaps[j], v[j], step[j]
            for k in range(LANES):
                own[k] = own[k] * there[k] - 1.0
                along[k] += own[k] * move[k]
        n_asked = 0
        for k in range(LANES):
            is_new[k] = along[k] <= -0.5 * expected[k] and not is_done[k]
            n_asked += is_new[k] and (passes % 3 == 0 or share[k] < 1.0)
        if n_asked > 0:  # conductances change slowly
            find_links(band, start, ptr, u, v, y, latest, work)
            for j in range(m):
                for k in range(LANES):
                    is_asked = is_new[k] and (passes % 3 == 0 or share[k] < 1.0)
                    path[j, k] = latest[j, k] if is_asked else path[j, k]
        _aim(gaps, path, fresh, along, work)
        for j in range(m):
            for k in range(LANES):
                step[j, k] = fresh[j, k] if is_new[k] else step[j, k]
                before[j, k] = v[j, k] if is_new[k] else before[j, k]
        for k in range(LANES):
            expected[k] = along[k] if is_new[k] else expected[k]
            share[k] = 1.0 if is_new[k] else 0.5 * share[k]  # beyond the lowest point of the line
        _move(before, step, share, is_done, v)
        n_open = 0
        for k in range(LANES):
            is_done[k] = is_done[k] or (share[k] == 1.0 and expected[k] > -tolerance)
            n_open += not is_done[k]
        if n_open == 0:
            break
    _sweep(band, start, ptr, u, v, gaps)


@njit(**SIDE_BY_SIDE)
def scale_lanes(z, y, tolerance, values):
    """Fill values; return the band of the coupling, the first column of every row, and pointers."""
    m = z.shape[0]
    alpha, beta = np.empty(z.shape), np.empty(z.shape)
    gauge(z, y, alpha, beta)
    band, start, ptr = _lay_band(z, y, alpha, beta)
    u, v = np.ones(z.shape), np.zeros(z.shape)
    for i in range(m):
        for t in range(ptr[i], ptr[i + 1]):
            line, out = band[t], v[start[i] + t - ptr[i]]
            for k in range(LANES):
                out[k] += line[k]
    for j in range(m):
        for k in range(LANES):
            v[j, k] = 1.0 / max(v[j, k], 1e-300)
    _match_margins(band, start, ptr, u, v, y, tolerance)
    for i in range(m):
        for k in range(LANES):
            values[k] -= alpha[i, k] + log(u[i, k])
            values[k] -= beta[i, k] + log(v[i, k])
    for i in range(m):
        here = u[i]
        for t in range(ptr[i], ptr[i + 1]):
            line, there = band[t], v[start[i] + t - ptr[i]]
            for k in range(LANES):
                line[k] *= here[k] * there[k]
    return band, start, ptr
