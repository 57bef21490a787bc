"""The likelihood of shuffled labels on a line: Sinkhorn scaling, permanents, and their slopes."""

from math import exp, lgamma, log, sqrt

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS, SUMS

# exp(-18) = 1.5e-8: entries this far below the best path change log-likelihoods by less than 1e-6
# per row.
_BAND_CUT = 18.0
# Grid cells per sigma: with the first-order effect of binning taken out, 2.5 cells leave at most
# 1.3 nats at n = 1500 and 9000 and slopes within 4 %; 2 cells leave twice as much.
_CELLS_PER_SIGMA = 2.5
# Exact permanents cost n 2^n: 10 rows take 15 microseconds, 15 rows would take a millisecond.
EXACT_ROWS = 10
# The dual value is stationary, so an L1 error t of the margins costs about n t^2 nats: 0.03/sqrt(n)
# costs 0.001.
_MARGIN_TOLERANCE = 0.03
# Over-relaxed Sinkhorn needs 10 to 40 passes to get there; beyond 60 the gain is below 0.05 nats.
_MAX_PASSES = 60
# Slope of the local correction at q = 0: zeta(3/2)/2 from the one-loop determinant of a Gaussian
# band.
_C1 = 1.306
# Quadratic and cubic terms from g(1) = 0 (a permutation needs no correction) and g'(1) = 1/2 (rare
# swaps).
_C2 = -0.112
_C3 = -0.194


@njit(**OPTIONS)
def _monotone_potentials(z, mz, y, my):
    """Return potentials of the monotone coupling, and each z node's first and last partner.

    In this gauge the kernel exp(-(cost - alpha - beta)/sigma^2) is at most one and equals one
    along the coupling, so that no scaling can overflow however small sigma is.
    """
    nz, ny = z.size, y.size
    alpha, beta = np.zeros(nz), np.zeros(ny)
    first, last = np.zeros(nz, np.int64), np.zeros(nz, np.int64)
    i, j = 0, 0
    beta[0] = 0.5 * (z[0] - y[0]) ** 2
    left_i, left_j = mz[0], my[0]
    while i < nz - 1 or j < ny - 1:
        both = i < nz - 1 and j < ny - 1
        if both and abs(left_i - left_j) <= 1e-9:
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


@njit(**OPTIONS)
def _band_kernel(z, y, alpha, beta, first, last, s2):
    """Return the kernel as a row-wise band: values, first column of each row, row pointers."""
    nz, ny = z.size, y.size
    start = np.empty(nz, np.int64)
    ptr = np.zeros(nz + 1, np.int64)
    cut = _BAND_CUT * s2
    for i in range(nz):
        # The exponent is monotone on both sides of the coupling (Monge property), so the band is
        # contiguous.
        j = first[i]
        while j > 0 and 0.5 * (z[i] - y[j - 1]) ** 2 - alpha[i] - beta[j - 1] < cut:
            j -= 1
        k = last[i]
        while k < ny - 1 and 0.5 * (z[i] - y[k + 1]) ** 2 - alpha[i] - beta[k + 1] < cut:
            k += 1
        start[i] = j
        ptr[i + 1] = ptr[i] + k - j + 1
    kernel = np.empty(ptr[nz])
    for i in range(nz):
        shift = start[i] - ptr[i]
        for t in range(ptr[i], ptr[i + 1]):
            j = t + shift
            kernel[t] = exp(-(0.5 * (z[i] - y[j]) ** 2 - alpha[i] - beta[j]) / s2)
    return kernel, start, ptr


@njit(**SUMS)
def _row_sums(kernel, start, ptr, v, out):
    """Write kernel @ v into out."""
    for i in range(out.size):
        total = 0.0
        lo, st = ptr[i], start[i]
        for t in range(ptr[i + 1] - lo):
            total += kernel[lo + t] * v[st + t]
        out[i] = total


@njit(**SUMS)
def _column_sums(kernel, start, ptr, u, out):
    """Write kernel.T @ u into out."""
    out[:] = 0.0
    for i in range(u.size):
        lo, st, ui = ptr[i], start[i], u[i]
        for t in range(ptr[i + 1] - lo):
            out[st + t] += kernel[lo + t] * ui


@njit(**OPTIONS)
def _initial_scaling(z, mz, y, my, alpha, s2):
    """Return log a of the Gaussian closed form and the over-relaxation factor it suggests.

    For Gaussian margins with variances vz, vy the coupling is Gaussian with covariance c,
    c^2 + s2 c = vz vy; its potentials are quadratic. Starting there removes the slowest modes of
    Sinkhorn's iteration.
    """
    total = mz.sum()
    zm = (mz * z).sum() / total
    ym = (my * y).sum() / total
    vz = (mz * (z - zm) ** 2).sum() / total
    vy = (my * (y - ym) ** 2).sum() / total
    c = max(0.5 * (sqrt(s2 * s2 + 4.0 * vz * vy) - s2), 1e-300)
    curve = 0.0
    if vz > 1e-12 * s2:
        curve = (1.0 - vy / c) / (2.0 * s2)
    log_a = curve * (z - zm) ** 2 - alpha / s2
    log_a -= (mz * log_a).sum() / total
    # Far tails can ask for absurd starts; 30 keeps exp() finite and the first pass corrects the
    # rest.
    log_a = np.minimum(np.maximum(log_a, -30.0), 30.0)
    rate = min(c * c / max(vz * vy, 1e-300), 1.0) ** 2
    return log_a, min(2.0 / (1.0 + sqrt(1.0 - min(rate, 0.9999))), 1.9)


@njit(**OPTIONS)
def _sinkhorn(z, mz, y, my, s2, tolerance, max_passes):
    """Return scalings of the doubly stochastic coupling and the kernel they scale, by over-relaxed
    Sinkhorn.
    """
    alpha, beta, first, last = _monotone_potentials(z, mz, y, my)
    kernel, start, ptr = _band_kernel(z, y, alpha, beta, first, last, s2)
    log_a, relax = _initial_scaling(z, mz, y, my, alpha, s2)
    total = mz.sum()
    rows, cols = np.empty(z.size), np.empty(y.size)
    u = mz * np.exp(log_a)
    _column_sums(kernel, start, ptr, u, cols)
    log_b = -np.log(np.maximum(cols, 1e-300))
    v = my * np.exp(log_b)
    for it in range(max_passes):
        _row_sums(kernel, start, ptr, v, rows)
        error = np.abs(u * rows - mz).sum()
        if error < tolerance * total or it == max_passes - 1:
            break
        step = relax if it > 0 else 1.0
        log_a = (1.0 - step) * log_a - step * np.log(np.maximum(rows, 1e-300))
        u = mz * np.exp(log_a)
        _column_sums(kernel, start, ptr, u, cols)
        log_b = (1.0 - step) * log_b - step * np.log(np.maximum(cols, 1e-300))
        v = my * np.exp(log_b)
    # A last exact row step makes the dual a lower bound whose error is of second order.
    log_a = -np.log(np.maximum(rows, 1e-300))
    u = mz * np.exp(log_a)
    dual = -(mz * (log_a + alpha / s2)).sum() - (my * (log_b + beta / s2)).sum()
    return dual, u, v, kernel, start, ptr


@njit(**OPTIONS)
def _correction(q):
    """Return log perm(B) per row from the row's collision probability q = sum_j B_ij^2.

    Wide bands: -1 + q zeta(3/2)/2 (the one-loop determinant -1/2 log det(I - B'B) of a Gaussian
    band, of which Bethe's q/2 is only the first term); permutations: 0; rare swaps: slope 1/2.
    """
    return -1.0 + q * (_C1 + q * (_C2 + q * _C3))


@njit(**OPTIONS)
def _correction_slope(q):
    """Return the derivative of the correction in log sigma, with dq/dlog sigma = -q (1 - q)."""
    return -(_C1 + q * (2.0 * _C2 + q * 3.0 * _C3)) * q * (1.0 - q)


@njit(**OPTIONS)
def _coupling_terms(z, mz, sz, y, my, sy, s2):
    """Return log perm, barycentres of the z nodes, squared distance and the correction's slopes.

    The slopes are those in log sigma and in the log of the spread of z. Partners of a row are
    counted by the density of y, which stays; partners of a column by that of z, which falls as z
    spreads: so the second slope is minus the columns' half of the first.

    ``sz`` and ``sy`` are the variances that binning added at the nodes. Binning interpolates the
    potentials, whose curvature is (Var_B/s2 - 1)/s2, so that its first-order effect on the dual is
    known and taken out.
    """
    n, nz, ny = mz.sum(), z.size, y.size
    value, u, v, kernel, start, ptr = _sinkhorn(
        z, mz, y, my, s2, _MARGIN_TOLERANCE / sqrt(n), _MAX_PASSES
    )
    centre = np.zeros(nz)
    column = np.zeros((3, ny))
    squares, slope = 0.0, 0.0
    for i in range(nz):
        q, first, second = 0.0, 0.0, 0.0
        for t in range(ptr[i], ptr[i + 1]):
            j = t - ptr[i] + start[i]
            mass = u[i] * kernel[t] * v[j]
            first += mass * y[j]
            second += mass * y[j] * y[j]
            squares += mass * (y[j] - z[i]) ** 2
            q += mass * mass / my[j]
            column[0, j] += mass * mass / mz[i]
            column[1, j] += mass * z[i]
            column[2, j] += mass * z[i] * z[i]
        centre[i] = first / mz[i]
        q /= mz[i] * mz[i]
        # Rows and columns see different local densities: average the two.
        value += 0.5 * mz[i] * _correction(q)
        slope += 0.5 * mz[i] * _correction_slope(q)
        value -= 0.5 * sz[i] * ((second / mz[i] - centre[i] ** 2) / s2 - 1.0) / s2
    radial = 0.0
    for j in range(ny):
        q = column[0, j] / (my[j] * my[j])
        value += 0.5 * my[j] * _correction(q)
        radial -= 0.5 * my[j] * _correction_slope(q)
        variance = column[2, j] / my[j] - (column[1, j] / my[j]) ** 2
        value -= 0.5 * sy[j] * (variance / s2 - 1.0) / s2
    return value, centre, squares, slope - radial, radial


@njit(**OPTIONS)
def _permanent(matrix):
    """Return the permanent of a small non-negative matrix by dynamic programming over subsets of
    columns.
    """
    n = matrix.shape[0]
    full = 1 << n
    table = np.zeros(full)
    count = np.zeros(full, np.int64)
    table[0] = 1.0
    for subset in range(full - 1):
        count[subset] = count[subset >> 1] + (subset & 1)
        if table[subset] > 0.0:
            for j in range(n):
                if not (subset >> j) & 1:
                    table[subset | (1 << j)] += table[subset] * matrix[count[subset], j]
    return table[full - 1]


@njit(**OPTIONS)
def _exact_terms(z, y, s2):
    """Return the same as ``_coupling_terms`` for a tiny bag, with the permanent exact."""
    n = z.size
    one = np.ones(n)
    value, u, v, kernel, start, ptr = _sinkhorn(z, one, y, one, s2, 1e-4, 200)
    coupling = np.zeros((n, n))
    centre = np.zeros(n)
    squares, slope = 0.0, 0.0
    for i in range(n):
        q = 0.0
        for t in range(ptr[i], ptr[i + 1]):
            j = t - ptr[i] + start[i]
            b = u[i] * kernel[t] * v[j]
            coupling[i, j] = b
            centre[i] += b * y[j]
            squares += b * (y[j] - z[i]) ** 2
            q += b * b
        slope += _correction_slope(q)
    value += log(max(_permanent(coupling), 1e-300))
    return value, centre, squares, slope, -0.5 * slope


@njit(**OPTIONS)
def _linear_bins(values, low, width, cells):
    """Return positions, masses and binning variances of the occupied nodes of a grid, and their
    numbers.
    """
    mass, spill = np.zeros(cells), np.zeros(cells)
    for i in range(values.size):
        t = (values[i] - low) / width
        k = min(int(t), cells - 2)
        f = t - k
        mass[k] += 1.0 - f
        mass[k + 1] += f
        extra = f * (1.0 - f) * width * width
        spill[k] += extra * (1.0 - f)
        spill[k + 1] += extra * f
    keep = np.nonzero(mass > 1e-9)[0]
    return low + keep * width, mass[keep], spill[keep], keep


@njit(**OPTIONS)
def _add_radial(z, radial, grad):
    """Add the slope in the log of the spread of z (centred) to the slopes in z."""
    power = 0.0
    for i in range(z.size):
        power += z[i] * z[i]
    if power > 0.0:
        for i in range(z.size):
            grad[i] += radial * z[i] / power


@njit(**OPTIONS)
def _bag_terms(z, y, s2, grad):
    """Return log(perm/n!), squared distance and slope of one bag (y sorted); fill d/dz."""
    n = z.size
    if n == 1:
        grad[0] = (y[0] - z[0]) / s2
        return -0.5 * (y[0] - z[0]) ** 2 / s2, (y[0] - z[0]) ** 2, 0.0
    width = sqrt(s2) / _CELLS_PER_SIGMA
    low, high = min(z.min(), y[0]), max(z.max(), y[n - 1])
    # A grid pays once its nodes are fewer than the rows; below that the points themselves are the
    # nodes.
    if n > EXACT_ROWS and (z.max() - z.min()) / width < 0.8 * n:
        cells = int((high - low) / width) + 2
        zp, mz, sz, at = _linear_bins(z, low, width, cells)
        yp, my, sy, _ = _linear_bins(y, low, width, cells)
        value, centre, squares, slope, radial = _coupling_terms(zp, mz, sz, yp, my, sy, s2)
        pull = np.zeros(cells)
        pull[at] = (centre - zp) / s2
        for i in range(n):
            t = (z[i] - low) / width
            k = min(int(t), cells - 2)
            grad[i] = (1.0 - (t - k)) * pull[k] + (t - k) * pull[k + 1]
        _add_radial(z, radial, grad)
        return value - lgamma(n + 1.0), squares, slope
    order = np.argsort(z)
    zs, one, none = z[order], np.ones(n), np.zeros(n)
    if n <= EXACT_ROWS:
        value, centre, squares, slope, radial = _exact_terms(zs, y, s2)
    else:
        value, centre, squares, slope, radial = _coupling_terms(zs, one, none, y, one, none, s2)
    for i in range(n):
        grad[order[i]] = (centre[i] - zs[i]) / s2
    _add_radial(z, radial, grad)
    return value - lgamma(n + 1.0), squares, slope


@njit(**OPTIONS)
def log_likelihood(within, labels, offsets, bag_x, bag_y, w, log_sigma, dof, power, means_power):
    """Return the log-likelihood and its slopes in w and log sigma.

    Of the correction's slope in w only the part along the spread of z is kept: the rest is small
    (the gradient is within a tenth of differences from 200 rows on, the slope in log sigma within
    0.05 a row) and costs as much as everything else. Bag means leave the permanent exactly (the
    sum over a bag does not depend on the permutation), so that ``within`` and ``labels`` are
    centred in each bag and the means enter as ordinary Gaussian residuals. The two parts count
    with a power each; of the ``dof`` factors 1/sigma, all but one per bag belong to the first.
    """
    n, p = within.shape
    n_bags = offsets.size - 1
    s2 = exp(2.0 * log_sigma)
    z = within @ w
    grad_z = np.empty(n)
    grad_w = np.zeros(p)
    value, squares, slope, missed = 0.0, 0.0, 0.0, 0.0
    for r in range(n_bags):
        lo, hi = offsets[r], offsets[r + 1]
        v, sq, sl = _bag_terms(z[lo:hi], labels[lo:hi], s2, grad_z[lo:hi])
        miss = bag_y[r]
        for k in range(p):
            miss -= bag_x[r, k] * w[k]
        for k in range(p):
            grad_w[k] += means_power * (hi - lo) * miss * bag_x[r, k] / s2
        value += v
        squares += sq
        slope += sl
        missed += (hi - lo) * miss * miss
    grad_w += power * (within.T @ grad_z)
    inner, outer = n - n_bags, dof - (n - n_bags)
    value = power * (value - inner * log_sigma)
    value += means_power * (-0.5 * missed / s2 - outer * log_sigma)
    slope = power * (squares / s2 - inner + slope) + means_power * (missed / s2 - outer)
    return value, grad_w, slope
