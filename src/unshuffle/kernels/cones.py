"""Least squares over matchings along directions: alternating minimisation, and bounds over cones.

With orthonormal columns U the least squares of a matching P is |y|² − |p|², p = UᵀPy. Along a
direction c the matching that sorts Uc has the largest cᵀp, which is a convex function of c: over a
cone it lies below the linear function that meets it at the cone's corners. `solvers.certified` has
the branch and bound (Land and Doig 1960) that uses these bounds.
"""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER_SUMS, OPTIONS
from unshuffle.kernels.projection import longest_bag, project
from unshuffle.kernels.sorting import ROW, sort_rows

# A part of a corner that is negative by less than this share of the whole is rounding.
_ZERO = 1e-9


@njit(**INNER_SUMS)
def _multiply(left, right):
    """Return the sum of products. It writes nothing."""
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@njit(**INNER_SUMS)
def _sum_squared_gaps(left, right):
    """Return the sum of squared gaps. It writes nothing."""
    total = 0.0
    for i in range(left.size):
        gap = left[i] - right[i]
        total += gap * gap
    return total


@njit(**OPTIONS)
def climb_matchings(directions, columns, y, offsets, n_steps, points, values):
    """Fill, for every direction, the point p of its matching and the least squares given that.

    A step sorts the predictions of each bag against its labels and takes p for the next direction;
    the value never rises, and the climb ends where p stays. `columns` are orthonormal. Sums go in
    the order of the rows, so that equal labels that change places change no bit.
    """
    k, n = columns.shape
    longest = longest_bag(offsets)
    z, dealt = np.empty(n), np.empty(n)
    ordered = np.empty(longest)
    pairs, spare = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    counts = np.empty((3, 2048), np.uint32)
    point = np.empty(k)
    for s in range(directions.shape[0]):
        point[:] = directions[s]
        for step in range(n_steps):
            project(columns, point, 0, n, z)
            for r in range(offsets.size - 1):
                start, stop = offsets[r], offsets[r + 1]
                rows = sort_rows(z[start:stop], ordered, pairs, spare, counts)
                for rank in range(stop - start):
                    dealt[start + np.int64(rows[rank] & ROW)] = y[start + rank]
            is_new = step == 0
            for j in range(k):
                part = _multiply(columns[j], dealt)
                is_new = is_new or part != point[j]
                point[j] = part
            if not is_new:
                break
        points[s] = point
        project(columns, point, 0, n, z)
        values[s] = _sum_squared_gaps(dealt, z)


@njit(**OPTIONS)
def _span(corners, chosen, target, basis, shadow):
    """Write the part of `target` in the span of the chosen corners; return whether it is inside.

    Inside means inside their cone. By Gram and Schmidt, each corner cleaned twice.
    """
    k = target.size
    parts, triangle = np.empty(k), np.zeros((k, k))
    m = 0
    shadow[:] = 0.0
    for i in range(k):
        if not chosen >> i & 1:
            continue
        basis[m] = corners[i]
        for _ in range(2):
            for j in range(m):
                part = np.sum(basis[m] * basis[j])
                basis[m] -= part * basis[j]
                triangle[j, m] += part
        size = np.sqrt(np.sum(basis[m] ** 2))
        if size == 0.0:
            return False
        basis[m] /= size
        triangle[m, m] = size
        parts[m] = np.sum(target * basis[m])
        shadow += parts[m] * basis[m]
        m += 1
    limit = -_ZERO * np.sqrt(np.sum(parts[:m] ** 2))
    for i in range(m - 1, -1, -1):
        for j in range(i + 1, m):
            parts[i] -= triangle[i, j] * parts[j]
        parts[i] /= triangle[i, i]
        if parts[i] < limit:
            return False
    return True


@njit(**OPTIONS)
def _solve(matrix, right):
    """Solve a small system in place by elimination; return False where it is singular."""
    k = right.size
    for i in range(k):
        largest = i
        for row in range(i + 1, k):
            if abs(matrix[row, i]) > abs(matrix[largest, i]):
                largest = row
        if matrix[largest, i] == 0.0:
            return False
        for j in range(k):
            matrix[i, j], matrix[largest, j] = matrix[largest, j], matrix[i, j]
        right[i], right[largest] = right[largest], right[i]
        for row in range(i + 1, k):
            factor = matrix[row, i] / matrix[i, i]
            matrix[row] -= factor * matrix[i]
            right[row] -= factor * right[i]
    for i in range(k - 1, -1, -1):
        for j in range(i + 1, k):
            right[i] -= matrix[i, j] * right[j]
        right[i] /= matrix[i, i]
    return True


@njit(**OPTIONS)
def bound_cones(corners, points, values, limit, bounds):
    """Fill a lower bound of the least squares of all matchings that sort some direction of a cone.

    `corners` (m, k, k) are the unit corners of each cone, `points` and `values` those of their
    matchings. Where the bound over all directions exceeds `limit` already it is left at that;
    otherwise only directions inside the cone count. A cone too flat to measure gets -inf.
    """
    m, k, _ = corners.shape
    basis, shadow, step = np.empty((k, k)), np.empty(k), np.empty(k)
    for s in range(m):
        best = 0
        for i in range(k):
            if values[s, i] < values[s, best]:
                best = i
        base = points[s, best]
        # Measured from a corner's own point: where all corners share their matching the excess is
        # zero to the last bit, and the bound exact.
        for i in range(k):
            step[i] = max(np.sum((points[s, i] - base) * corners[s, i]), 0.0)
        basis[:] = corners[s]
        if not _solve(basis, step):
            bounds[s] = -np.inf
            continue
        bounds[s] = values[s, best] - np.sum(step * (step + 2.0 * base))
        if bounds[s] >= limit:
            continue
        target = base + step
        if _span(corners[s], (1 << k) - 1, target, basis, shadow):
            continue
        highest = 0.0
        for chosen in range(1, (1 << k) - 1):
            if _span(corners[s], chosen, target, basis, shadow):
                highest = max(highest, np.sum(shadow**2))
        bounds[s] = max(bounds[s], values[s, best] + np.sum(base**2) - highest)
