"""Polynomials of predictions, z + Σ c zᵏ, and the chain rule from slopes in them to parameters."""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS


@njit(**OPTIONS)
def predict_points(columns, weights, degrees, coefs, z, bent):
    """Fill, for every point, straight predictions z of all rows, and z + Σ c zᵏ.

    ``weights`` are (points, p), ``coefs`` (points, terms), ``z`` and ``bent`` (points, rows).
    """
    power = np.empty(z.shape[1])
    for k in range(z.shape[0]):
        own, out = z[k], bent[k]
        for i in range(own.size):
            own[i] = 0.0
        for j in range(columns.shape[0]):
            weight, column = weights[k, j], columns[j]
            for i in range(own.size):
                own[i] += weight * column[i]
        for i in range(own.size):
            out[i] = own[i]
        for t in range(degrees.size):
            _raise(own, coefs[k, t], degrees[t], power)
            for i in range(own.size):
                out[i] += power[i]


@njit(**INNER)
def _raise(z, factor, degree, power):
    """Write factor · zᵏ into ``power``."""
    for i in range(z.size):
        power[i] = factor
    for _ in range(degree):
        for i in range(z.size):
            power[i] *= z[i]


@njit(**OPTIONS)
def chain_points(columns, offsets, z, degrees, coefs, slopes, gradients):
    """Add to ``gradients`` (points, p + terms) what slopes in predictions are in parameters.

    ``slopes`` (points, rows) become those in the straight predictions z. The sums over rows of a
    term are made bag by bag.
    """
    p, n = columns.shape
    power, turned = np.empty(n), np.empty(n)
    for k in range(z.shape[0]):
        own, slope = z[k], slopes[k]
        for i in range(n):
            turned[i] = 1.0
        for t in range(degrees.size):
            for i in range(n):
                power[i] = slope[i]
            for _ in range(degrees[t]):
                for i in range(n):
                    power[i] *= own[i]
            for r in range(offsets.size - 1):
                total = 0.0
                for i in range(offsets[r], offsets[r + 1]):
                    total += power[i]
                gradients[k, p + t] += total
            _raise(own, degrees[t] * coefs[k, t], degrees[t] - 1, power)
            for i in range(n):
                turned[i] += power[i]
        for i in range(n):
            slope[i] *= turned[i]
        for j in range(p):
            gradients[k, j] += _multiply(slope, columns[j])


@njit(**INNER)
def _multiply(left, right):
    """Return the sum of products, four at a time."""
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    n = left.size
    for i in range(0, n - 3, 4):
        one += left[i] * right[i]
        two += left[i + 1] * right[i + 1]
        three += left[i + 2] * right[i + 2]
        four += left[i + 3] * right[i + 3]
    for i in range(n - n % 4, n):
        one += left[i] * right[i]
    return (one + two) + (three + four)
