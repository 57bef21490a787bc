"""Matrix products and least squares that give the same bits on every machine.

The order in which BLAS adds depends on the processor, its threads, the memory layout and the number
of columns. One bit can send a descent into another local minimum. So nothing as long as the data,
and nothing that several starting points or draws share, goes through BLAS. LAPACK is used for
matrices as small as the number of weights.
"""

from __future__ import annotations

import numpy as np

from unshuffle import kernels

# Most numbers in memory of work on many points at once; no answer depends on it.
BATCH_NUMBERS = 2_000_000
# Directions with less than this share of the largest variance are rounding: columns are collinear.
FLAT = 1e-10


def predict_rows(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return X w, column after column: the same bits for rows stored in any layout.

    >>> predict_rows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0])).tolist()
    [12.0, 34.0]
    """
    z = np.zeros(len(X))
    for j, weight in enumerate(w):
        z += weight * X[:, j]
    return z


def multiply(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the product of (…, k) with (k, …), a sum over k for every entry by itself.

    >>> multiply(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])).tolist()
    [[11.0]]
    """
    shared = len(right)
    total = np.zeros(left.shape[:-1] + right.shape[1:])
    spare = (..., *(None,) * (right.ndim - 1))
    for k in range(shared):
        total += left[..., k][spare] * right[k]
    return total


def dot(left: np.ndarray, right: np.ndarray) -> float:
    """Return the sum of products of two vectors.

    >>> dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """
    return float((left * right).sum())


def solve_rows(rows: np.ndarray, labels: np.ndarray, rcond: float) -> tuple[np.ndarray, int]:
    """Return the least-norm least-squares weights of labels on rows, and the rank of the rows.

    >>> solve_rows(np.array([[1.0], [2.0], [3.0]]), np.array([2.0, 4.0, 6.0]), 1e-10)[0].round(9)
    array([2.])
    """
    weights, _, rank, _ = np.linalg.lstsq(*condense(rows, labels), rcond=rcond)
    return weights, int(rank)


def condense(rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most d rows and labels with the same least squares as many (Householder QR).

    The triangle has the singular values of the rows, and LAPACK sees only the triangle.
    """
    n, d = rows.shape
    if n <= d:
        return rows, labels
    both = np.empty((d + 1, n))
    both[:d], both[d] = rows.T, labels
    kernels.triangulate(both)
    return np.tril(both[:d, :d]).T, both[d, :d]
