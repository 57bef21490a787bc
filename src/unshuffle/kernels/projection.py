"""Predictions from weights, and gradients from slopes."""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, INNER_SUMS, SUMS

# Rows of a chunk of two columns, which fits the first-level cache.
_BLOCK = 512


@njit(**INNER)
def longest_bag(offsets):
    """Return the size of the largest bag. (NumPy's diff takes seconds to compile.)"""
    longest = 0
    for r in range(offsets.size - 1):
        size = offsets[r + 1] - offsets[r]
        longest = size if size > longest else longest
    return longest


@njit(**INNER_SUMS)
def project(columns, w, start, stop, z):
    """Write the predictions of rows start … stop into `z`, two columns a pass.

    Of parts of columns, whose places are counted from zero: of others the compiled code would ask
    in every row whether they count from the end.
    """
    m = stop - start
    d = w.size
    first = d % 2
    if first == 1:
        weight, column = w[0], columns[0, start:stop]
        for i in range(m):
            z[i] = weight * column[i]
    else:
        for i in range(m):
            z[i] = 0.0
    for j in range(first, d, 2):
        one, two = w[j], w[j + 1]
        left, right = columns[j, start:stop], columns[j + 1, start:stop]
        for i in range(m):
            z[i] += one * left[i] + two * right[i]


@njit(**INNER_SUMS)
def add_chain(columns, slope, start, stop, factor, gradient):
    """Add factor · Xᵀ slope of rows start … stop to `gradient`."""
    for j in range(gradient.size):
        total = 0.0
        column = columns[j, start:stop]
        for i in range(stop - start):
            total += column[i] * slope[i]
        gradient[j] += factor * total


@njit(**INNER_SUMS)
def add_up(values, m):
    """Return the sum of the first m values."""
    total = 0.0
    for i in range(m):
        total += values[i]
    return total


@njit(**SUMS)
def gram(columns):
    """Return XᵀX."""
    d, n = columns.shape
    out = np.zeros((d, d))
    for start in range(0, n, _BLOCK):
        m = n - start if n - start < _BLOCK else _BLOCK
        for i in range(d):
            left = columns[i, start : start + m]
            for j in range(i + 1):
                right = columns[j, start : start + m]
                total = 0.0
                for k in range(m):
                    total += left[k] * right[k]
                out[i, j] += total
    for i in range(d):
        for j in range(i):
            out[j, i] = out[i, j]
    return out


@njit(**INNER_SUMS)
def _turn(normal, scale, column):
    """Reflect a column at the plane across `normal`; `scale` is half the normal's square."""
    total = 0.0
    for i in range(normal.size):
        total += normal[i] * column[i]
    total /= scale
    for i in range(normal.size):
        column[i] -= total * normal[i]


@njit(**SUMS)
def triangulate(columns):
    """Turn the columns (d + 1, n), n > d, in place by reflections that make the first d a triangle.

    Entry (j, i) of the result holds row i of column j, for i ≤ j (Householder).
    """
    d = columns.shape[0] - 1
    normal = np.empty(columns.shape[1])
    for j in range(d):
        rest = normal[j:]
        for k in range(rest.size):
            rest[k] = columns[j, j + k]
        square = 0.0
        for i in range(rest.size):
            square += rest[i] * rest[i]
        size = np.sqrt(square)
        if size == 0.0:
            continue
        corner = -size if rest[0] >= 0.0 else size
        # Half the square of the normal (rest less its image) without cancellation.
        scale = size * (size + (rest[0] if rest[0] >= 0.0 else -rest[0]))
        rest[0] -= corner
        columns[j, j] = corner
        for k in range(j + 1, d + 1):
            _turn(rest, scale, columns[k, j:])
