"""Entropic transport between two samples on a line, in units of sigma: Sinkhorn's scaling."""

from math import asinh, exp, log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INLINED, INNER

# exp(-18) = 1.5e-8: entries this far below the best path change log-likelihoods by less than 1e-6
# per row.
_BAND_CUT = 18.0
# Masses end together if they differ by no more than sums of masses round.
_TIE = 1e-12
# Nats that the last step may gain where slopes are wanted. The dual's error is then a twentieth of
# it, and that of what is not stationary (corrections, barycentres) some 1e-4: a hundredth of a
# posterior sd shows no jumps.
PRECISE = 1e-6
# Sums of masses round to this share of all.
ROUNDING = 1e-13
# Six to nine passes get there in the mean, 14 in 95 of 100 problems, 29 at most; what ran into the
# limit (one setting of eight had it) still had margins right to 5e-6.
MAX_PASSES = 50
# Of the preconditioned step this share converges fastest: 0.7 and 0.9 both need about an eighth
# more passes.
STEP_SHARE = 0.8
# A step changes no ratio of scalings by more than exp(8) over a link and exp(30) in all: what is
# further off moves again.
LONGEST_DROP, LONGEST = 8.0, 30.0
# Sums that are divided by are no smaller; NaN stays what it is.
LEAST = 1e-300


@njit(**INNER)
def monotone_potentials(z, mz, y, my):
    """Return potentials of the monotone coupling, and each z node's first and last partner.

    In this gauge the kernel exp(-(cost - alpha - beta)) is at most one and equals one along the
    coupling, so that no scaling can overflow however small sigma is.
    """
    nz, ny = z.size, y.size
    alpha, beta = np.zeros(nz), np.zeros(ny)
    first, last = np.zeros(nz, np.int64), np.zeros(nz, np.int64)
    i, j = 0, 0
    beta[0] = 0.5 * (z[0] - y[0]) ** 2
    left_i, left_j = mz[0], my[0]
    while i < nz - 1 or j < ny - 1:
        both = i < nz - 1 and j < ny - 1
        if both and abs(left_i - left_j) <= _TIE:
            # Both masses end together: any potential in an interval will do, its middle keeps the
            # band symmetric.
            alpha_next = 0.5 * (z[i + 1] - y[j]) ** 2 - beta[j]
            high = 0.5 * (z[i + 1] - y[j + 1]) ** 2 - alpha_next
            low = 0.5 * (z[i] - y[j + 1]) ** 2 - alpha[i]
            last[i] = j
            i, j = i + 1, j + 1
            beta[j] = 0.5 * (low + high)
            alpha[i] = 0.5 * (z[i] - y[j]) ** 2 - beta[j]
            first[i], left_i, left_j = j, mz[i], my[j]
        elif (left_i < left_j and i < nz - 1) or j == ny - 1:
            last[i], left_j = j, left_j - left_i
            i += 1
            first[i], left_i = j, mz[i]
            alpha[i] = 0.5 * (z[i] - y[j]) ** 2 - beta[j]
        else:
            left_i -= left_j
            j += 1
            left_j = my[j]
            beta[j] = 0.5 * (z[i] - y[j]) ** 2 - alpha[i]
    last[i] = ny - 1
    return alpha, beta, first, last


@njit(**INNER)
def _band_kernel(z, y, alpha, beta, first, last):
    """Return the kernel as a row-wise band: values, first column of each row, row pointers."""
    nz, ny = z.size, y.size
    start = np.empty(nz, np.int64)
    ptr = np.zeros(nz + 1, np.int64)
    for i in range(nz):
        # The exponent is monotone on both sides of the coupling (Monge property), so the band is
        # contiguous.
        j = first[i]
        while j > 0 and 0.5 * (z[i] - y[j - 1]) ** 2 - alpha[i] - beta[j - 1] < _BAND_CUT:
            j -= 1
        k = last[i]
        while k < ny - 1 and 0.5 * (z[i] - y[k + 1]) ** 2 - alpha[i] - beta[k + 1] < _BAND_CUT:
            k += 1
        start[i] = j
        ptr[i + 1] = ptr[i] + k - j + 1
    kernel = np.empty(ptr[nz])
    for i in range(nz):
        shift = start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            j = t + shift
            kernel[t] = exp(alpha[i] + beta[j] - 0.5 * (z[i] - y[j]) ** 2)
    return kernel, start, ptr


@njit(**INNER)
def row_sums(kernel, start, ptr, v, out):
    """Write kernel @ v into out."""
    for i in range(out.size):
        lo, st = ptr[i], start[i]
        length = ptr[i + 1] - lo
        one, two, three, four = 0.0, 0.0, 0.0, 0.0
        for t in range(0, length - 3, 4):
            one += kernel[lo + t] * v[st + t]
            two += kernel[lo + t + 1] * v[st + t + 1]
            three += kernel[lo + t + 2] * v[st + t + 2]
            four += kernel[lo + t + 3] * v[st + t + 3]
        for t in range(length - length % 4, length):
            one += kernel[lo + t] * v[st + t]
        out[i] = (one + two) + (three + four)


@njit(**INNER)
def column_sums(kernel, start, ptr, u, out):
    """Write kernel.T @ u into out."""
    for j in range(out.size):
        out[j] = 0.0
    for i in range(u.size):
        lo, st, ui = ptr[i], start[i], u[i]
        for t in range(ptr[i + 1] - lo):
            out[st + t] += kernel[lo + t] * ui


@njit(**INNER)
def conductances(band, start, ptr, u, v, y):
    """Return how easily mass moves between neighbouring columns, ny - 1 numbers.

    Once rows are right, the columns' margins respond to log v by S = diag(my) - B' diag(1/mz) B,
    the Laplacian of a graph on a line. For potentials that are linear over a band it is the path
    with these conductances, sum_i Cov_i(y, 1[y beyond the gap]) / gap, which are also right where
    two clusters of labels hardly communicate.
    """
    path = np.zeros(y.size - 1)
    for i in range(u.size):
        lo, st = ptr[i], start[i]
        length = ptr[i + 1] - lo
        mass, centre = 0.0, 0.0
        for t in range(length):
            entry = band[lo + t] * v[st + t]
            mass += entry
            centre += entry * y[st + t]
        centre /= max(mass, 1e-300)
        # From either end to the centre: no difference of large numbers hides a weak link.
        beyond, t = 0.0, length - 1
        while t > 0 and y[st + t] > centre:
            beyond += u[i] * band[lo + t] * v[st + t] * (y[st + t] - centre)
            path[st + t - 1] += beyond
            t -= 1
        beyond = 0.0
        for k in range(t):
            beyond += u[i] * band[lo + k] * v[st + k] * (centre - y[st + k])
            path[st + k] += beyond
    for j in range(path.size):
        gap = y[j + 1] - y[j]
        path[j] = path[j] / gap if gap > 0.0 else np.inf
    return path


@njit(**INNER)
def _aim(gaps, path, my, least, step):
    """Fill the move of log v that takes most of the columns' gaps away; return the slope along it.

    Where an eigenvalue of the path is e, that of S is about 1 - exp(-e): so 1 + 1/e inverts it
    within a third. The one is Sinkhorn's step, the other a flow along the path; a weak link
    answers exponentially, hence asinh.
    """
    flow, height, mean, mass = 0.0, 0.0, 0.0, 0.0
    for j in range(my.size):
        step[j] = height - log(max(1.0 + gaps[j] / my[j], 1e-300))
        mean += my[j] * step[j]
        mass += my[j]
        flow += gaps[j]
        # No path, no flow: what seems to be one, or next to none, is rounding.
        if j < path.size and path[j] > 0.0 and abs(flow) > least:
            drop = asinh(flow / path[j])
            height += min(max(drop, -LONGEST_DROP), LONGEST_DROP)
    mean /= mass
    along = 0.0
    for j in range(my.size):
        step[j] = min(max(STEP_SHARE * (step[j] - mean), -LONGEST), LONGEST)
        along += gaps[j] * step[j]
    return along


@njit(**INLINED)
def _match_margins(band, start, ptr, u, v, mz, y, my, tolerance):
    """Change u and v until the margins of u K v are right: those of rows exactly.

    With rows right, the value is a convex function of log v whose slopes are the columns' gaps.
    """
    rows, gaps, step, path = np.empty(u.size), np.empty(v.size), np.zeros(v.size), np.empty(0)
    before, expected, share, total = np.empty(v.size), 0.0, 1.0, 0.0
    for i in range(u.size):
        total += mz[i]
    for j in range(v.size):
        before[j] = v[j]
    is_met = False
    for passes in range(MAX_PASSES + 1):
        row_sums(band, start, ptr, v, rows)
        for i in range(u.size):
            u[i] = mz[i] / (LEAST if rows[i] < LEAST else rows[i])
        if is_met or passes == MAX_PASSES:
            break
        column_sums(band, start, ptr, u, gaps)
        along = 0.0
        for j in range(v.size):
            gaps[j] = gaps[j] * v[j] - my[j]
            along += gaps[j] * step[j]
        if along <= -0.5 * expected:
            if passes % 3 == 0 or share < 1.0:  # conductances change slowly
                path = conductances(band, start, ptr, u, v, y)
            expected, share = _aim(gaps, path, my, ROUNDING * total, step), 1.0
            for j in range(v.size):
                before[j] = v[j]
        else:  # far beyond the lowest point of the line
            share *= 0.5
        for j in range(v.size):
            v[j] = before[j] * exp(share * step[j])
        is_met = share == 1.0 and expected > -tolerance


@njit(**INNER)
def scale(z, mz, y, my, tolerance):
    """Return value, potentials and band of the coupling B = u K v with margins mz and my.

    The value is -sum mz log a - sum my log b, u = mz a and v = my b; the potentials are its slopes
    in the masses. Rows are exact, columns within the tolerance (nats that the last step may gain).
    Masses may be any positive numbers, points ascend, sigma is one.
    """
    alpha, beta, first, last = monotone_potentials(z, mz, y, my)
    band, start, ptr = _band_kernel(z, y, alpha, beta, first, last)
    u, v = np.empty(z.size), np.empty(y.size)
    for i in range(z.size):
        u[i] = mz[i]
    column_sums(band, start, ptr, u, v)
    for j in range(y.size):
        v[j] = my[j] / (LEAST if v[j] < LEAST else v[j])
    _match_margins(band, start, ptr, u, v, mz, y, my, tolerance)
    by_row, by_column = 0.0, 0.0
    for i in range(z.size):
        alpha[i] = -(alpha[i] + log(u[i] / mz[i]))
        by_row -= mz[i] * alpha[i]
    for j in range(y.size):
        beta[j] = -(beta[j] + log(v[j] / my[j]))
        by_column -= my[j] * beta[j]
    for i in range(z.size):
        for t in range(ptr[i], ptr[i + 1]):
            band[t] *= u[i] * v[start[i] + t - ptr[i]]
    return -by_row - by_column, alpha, beta, band, start, ptr
