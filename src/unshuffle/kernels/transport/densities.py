"""What noise makes of a prediction: the log density of a label, or of a bin of labels, and slopes.

A label is a bin from `low` to `high`; a bin of width zero is a label known to its last digit. The
density of a bin is its probability over its width, so that ever narrower bins become labels; that
of an open bin is its probability.
"""

from math import erfc, exp, log, log1p, pi, sqrt

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS

_LOG_ROOT = 0.5 * log(2.0 * pi)
# Beyond so many sds erfc underflows to where its digits are few; the tail's expansion takes over.
_TAIL = 25.0
# A bin this narrow (in sds) has the density of its middle to 1e-13, and differences of erfc do not.
_NARROW = 1e-5


@njit(**OPTIONS)
def _log_left(a, b):
    """Return log(Φ(b) − Φ(a)) for a < b with a + b ≤ 0, where the tail to the left is the small."""
    if b - a < _NARROW:
        middle = 0.5 * (a + b)
        return -0.5 * middle * middle - _LOG_ROOT + log(b - a)
    if b > -_TAIL:
        return log(0.5 * (erfc(-b / sqrt(2.0)) - erfc(-a / sqrt(2.0))))
    # Mills' ratio 1/x − 1/x³ + 3/x⁵ errs by 15/x⁷ < 1e-8 of it here.
    square = 1.0 / (b * b)
    near = -0.5 * b * b - _LOG_ROOT - log(-b) + log1p(-square * (1.0 - 3.0 * square))
    if a == -np.inf:
        return near
    square = 1.0 / (a * a)
    far = -0.5 * a * a - _LOG_ROOT - log(-a) + log1p(-square * (1.0 - 3.0 * square))
    return near + log1p(-exp(far - near))


@njit(**INNER)
def _log_gaussian(low, high, sigma):
    """Return the log density of a label in a bin about its prediction."""
    if high - low < _NARROW * sigma:
        u = 0.5 * (low + high) / sigma
        return -0.5 * u * u - _LOG_ROOT - log(sigma)
    a, b = low / sigma, high / sigma
    value = _log_left(-b, -a) if a + b > 0.0 else _log_left(a, b)
    return value - log(high - low) if high - low < np.inf else value


@njit(**OPTIONS)
def gaussian_bin(low, high, sigma):
    """Return log density of a label in a bin about its prediction, and its slopes.

    The ends are relative to the prediction; the slopes are those in the prediction and in log
    sigma.
    """
    if high - low < _NARROW * sigma:
        u = 0.5 * (low + high) / sigma
        return -0.5 * u * u - _LOG_ROOT - log(sigma), u / sigma, u * u - 1.0
    a, b = low / sigma, high / sigma
    value = _log_left(-b, -a) if a + b > 0.0 else _log_left(a, b)
    at_a = 0.0 if a == -np.inf else exp(-0.5 * a * a - _LOG_ROOT - value)
    at_b = 0.0 if b == np.inf else exp(-0.5 * b * b - _LOG_ROOT - value)
    in_z = (at_a - at_b) / sigma
    in_sigma = (0.0 if at_a == 0.0 else a * at_a) - (0.0 if at_b == 0.0 else b * at_b)
    if high - low < np.inf:
        value -= log(high - low)
    return value, in_z, in_sigma


@njit(**OPTIONS)
def _look_up(x, start, step, table):
    """Return a table at x by straight lines, and its slope; beyond its ends the last line goes on.

    `table` holds values at start, start + step, …
    """
    t = (x - start) / step
    k = min(max(int(np.floor(t)), 0), table.size - 2)
    slope = (table[k + 1] - table[k]) / step
    return table[k] + (t - k) * step * slope, slope


@njit(**OPTIONS)
def shaped_bin(low, high, start, step, log_density, below, above):
    """Return the same for noise of a shape given by tables of its log density and probability.

    The tables have the same places; probabilities are those below and above a place, since only
    the smaller of the two has its digits. A bin inside one cell of the tables has the density of
    its middle. Noise of known shape has no slope in sigma.
    """
    if high - low < step:
        value, slope = _look_up(0.5 * (low + high), start, step, log_density)
        return value, -slope, 0.0
    end = start + step * (below.size - 1)
    first, last = min(max(low, start), end), min(max(high, start), end)
    table = above if low > 0.0 else below
    at_first, slope_first = _look_up(first, start, step, table)
    at_last, slope_last = _look_up(last, start, step, table)
    mass = abs(at_last - at_first)
    at_low = abs(slope_first) if low > start else 0.0
    at_high = abs(slope_last) if high < end else 0.0
    if mass <= 1e-300 or high <= start or low >= end:
        # Outside the tables only the tail's line speaks: the density at the nearer end.
        nearer = low if low > 0.0 else high
        value, slope = _look_up(nearer, start, step, log_density)
        return value, -slope, 0.0
    value = log(mass)
    if high - low < np.inf:
        value -= log(high - low)
    return value, (at_low - at_high) / mass, 0.0


@njit(**INNER)
def slope_bin(low, high, sigma, start, step, tables):
    """Return log density and slopes of a bin; empty tables mean Gaussian noise."""
    if tables.shape[1] == 0:
        return gaussian_bin(low, high, sigma)
    return shaped_bin(low, high, start, step, tables[0], tables[1], tables[2])


@njit(**INNER)
def log_bin(low, high, sigma, start, step, tables):
    """Return the log density alone."""
    if tables.shape[1] == 0:
        return _log_gaussian(low, high, sigma)
    value, _, _ = shaped_bin(low, high, start, step, tables[0], tables[1], tables[2])
    return value


@njit(**INNER)
def _tail(x):
    """Return the Gaussian probability beyond x, on the side away from zero."""
    return 0.5 * erfc(abs(x) / sqrt(2.0))


@njit(**INNER)
def fill_log_bins(z, low, high, log_widths, sigma, start, step, tables, out):
    """Fill log densities of all bins at a prediction; neighbours share the tail at their edge."""
    edge, tail = np.nan, 0.0
    for j in range(low.size):
        a, b = (low[j] - z) / sigma, (high[j] - z) / sigma
        if tables.shape[1] > 0 or b - a < _NARROW or min(abs(a), abs(b)) > _TAIL:
            out[j], edge = log_bin(low[j] - z, high[j] - z, sigma, start, step, tables), np.nan
            continue
        first, last = tail if low[j] == edge else _tail(a), _tail(b)
        edge, tail = high[j], last
        mass = 1.0 - first - last if a < 0.0 < b else abs(first - last)
        out[j] = log(mass) - log_widths[j]


@njit(**OPTIONS)
def fill_log_kernel(z, low, high, sigma, start, step, tables, out, in_z, in_sigma):
    """Fill log densities (rows × labels) and their slopes."""
    for i in range(z.size):
        for j in range(low.size):
            out[i, j], in_z[i, j], in_sigma[i, j] = slope_bin(
                low[j] - z[i], high[j] - z[i], sigma, start, step, tables
            )
