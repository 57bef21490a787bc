"""D-optimal exchanges of samples between bags (Cook and Nachtsheim 1980)."""

from math import exp, log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS

# Smaller gains are rounding; exchanges for them could cycle.
_LEAST_GAIN = 1e-10


@njit(**OPTIONS)
def _form(matrix, left, right):
    """Return leftᵀ matrix right."""
    total = 0.0
    for i in range(left.size):
        part = 0.0
        for j in range(right.size):
            part += matrix[i, j] * right[j]
        total += left[i] * part
    return total


@njit(**OPTIONS)
def _add_square(inverse, vector, factor):
    """Turn the inverse of A into that of A + factor · vector vectorᵀ (Sherman and Morrison)."""
    q = vector.size
    image = np.zeros(q)
    size = 0.0
    for i in range(q):
        for j in range(q):
            image[i] += inverse[i, j] * vector[j]
        size += image[i] * vector[i]
    scale = factor / (1.0 + factor * size)
    for i in range(q):
        for j in range(q):
            inverse[i, j] -= scale * image[i] * image[j]


@njit(**OPTIONS)
def _project(totals, inverse, images):
    """Write each total times the inverse into `images`."""
    for r in range(totals.shape[0]):
        for i in range(totals.shape[1]):
            part = 0.0
            for j in range(totals.shape[1]):
                part += inverse[i, j] * totals[r, j]
            images[r, i] = part


@njit(**OPTIONS)
def _find_ratio(inverse, images, totals, counts, a, b, step, extra):
    """Return the factor by which det A grows when bag b hands `step`, of `extra` samples, to bag a.

    A changes by B C Bᵀ with B = (total of a, total of b, step), so that the determinant is that of
    a matrix of three: det(I + C BᵀA⁻¹B). `images` holds A⁻¹ times each total.
    """
    new_a, new_b = counts[a] + extra, counts[b] - extra
    aa, bb, ab, sa, sb = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(step.size):
        aa += images[a, j] * totals[a, j]
        bb += images[b, j] * totals[b, j]
        ab += images[a, j] * totals[b, j]
        sa += images[a, j] * step[j]
        sb += images[b, j] * step[j]
    ss = _form(inverse, step, step)
    alpha, beta = 1.0 / new_a, 1.0 / new_b
    shift_a, shift_b = alpha - 1.0 / counts[a], beta - 1.0 / counts[b]
    both = alpha + beta
    # The rows of I + C G, G the products of the three.
    p0 = 1.0 + shift_a * aa + alpha * sa
    p1 = shift_a * ab + alpha * sb
    p2 = shift_a * sa + alpha * ss
    q0 = shift_b * ab - beta * sa
    q1 = 1.0 + shift_b * bb - beta * sb
    q2 = shift_b * sb - beta * ss
    r0 = alpha * aa - beta * ab + both * sa
    r1 = alpha * ab - beta * bb + both * sb
    r2 = 1.0 + alpha * sa - beta * sb + both * ss
    return p0 * (q1 * r2 - q2 * r1) - p1 * (q0 * r2 - q2 * r0) + p2 * (q0 * r1 - q1 * r0)


@njit(**OPTIONS)
def exchange_units(units, sizes, bag, totals, counts, low, high, inverse, partners):
    """Go once over the units, each taking the best exchange on offer, and return the gain.

    A unit is one sample or several that stay together: `units` holds sums of whitened rows, `sizes`
    their numbers. Entry (i, k) of `partners` is another unit to change places with, or -1 - r for a
    move to bag r. Bags keep between `low` and `high` samples. `bag`, `totals`, `counts` and
    `inverse` (of A = ridge I + Σ total totalᵀ / count) are brought up to date. The gain is that of
    log det A.
    """
    n, q = units.shape
    step, images = np.empty(q), np.empty(totals.shape)
    _project(totals, inverse, images)
    gained = 0.0
    for i in range(n):
        best, other, where = exp(_LEAST_GAIN), -1, -1
        for k in range(partners.shape[1]):
            j = partners[i, k]
            b = bag[j] if j >= 0 else -1 - j
            a = bag[i]
            if a == b:
                continue
            extra = (sizes[j] if j >= 0 else 0.0) - sizes[i]
            if not (low[a] <= counts[a] + extra <= high[a]):
                continue
            if not (low[b] <= counts[b] - extra <= high[b]):
                continue
            for c in range(q):
                step[c] = (units[j, c] if j >= 0 else 0.0) - units[i, c]
            ratio = _find_ratio(inverse, images, totals, counts, a, b, step, extra)
            if ratio > best:
                best, other, where = ratio, j, b
        if where < 0:
            continue
        a, b, j = bag[i], where, other
        extra = (sizes[j] if j >= 0 else 0.0) - sizes[i]
        for r, sign in ((a, 1.0), (b, -1.0)):
            old = totals[r].copy()
            for c in range(q):
                totals[r, c] += sign * ((units[j, c] if j >= 0 else 0.0) - units[i, c])
            # Upwards first: what is taken away must be there.
            _add_square(inverse, totals[r], 1.0 / (counts[r] + sign * extra))
            _add_square(inverse, old, -1.0 / counts[r])
            counts[r] += sign * extra
        bag[i] = b
        if j >= 0:
            bag[j] = a
        _project(totals, inverse, images)
        gained += log(best)
    return gained
