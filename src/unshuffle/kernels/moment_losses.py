"""The self-moment loss (Abid, Poon and Zou 2017), for many points."""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS, SUMS
from unshuffle.kernels.projection import add_chain, add_up, longest_bag, project

# Rows of a chunk, whose monomials are computed together.
_TILE = 128


@njit(**OPTIONS)
def _moment_residual(raw, raw_gradient, mixing, factors, targets, gradient):
    """Return Σ f(k)(Mₖ − Nₖ)² from the moments of Xw, adding its gradient.

    `mixing[k, j]` says how much of the j-th moment of Xw the k-th moment of Xw + e holds.
    """
    value = 0.0
    n_moments = targets.size
    for k in range(n_moments):
        moment = mixing[k, 0]
        for j in range(k + 1):
            moment += mixing[k, j + 1] * raw[j]
        gap = moment - targets[k]
        value += factors[k] * gap * gap
        for j in range(k + 1):
            change = 2 * factors[k] * gap * mixing[k, j + 1]
            for i in range(gradient.size):
                gradient[i] += change * raw_gradient[j, i]
    return value


@njit(**SUMS)
def evaluate_moments(weights, columns, offsets, mixing, factors, targets, values, gradients):
    """Fill value and gradient of the moment loss for every start, from the rows themselves."""
    d = columns.shape[0]
    n_moments = factors.size
    longest = longest_bag(offsets)
    z = np.empty(longest)
    power = np.empty(longest)
    raw = np.empty(n_moments)
    raw_gradient = np.empty((n_moments, d))
    for s in range(weights.shape[0]):
        values[s] = 0.0
        gradients[s] = 0.0
        for r in range(offsets.size - 1):
            start, stop = offsets[r], offsets[r + 1]
            m = stop - start
            project(columns, weights[s], start, stop, z)
            power[:m] = 1.0
            raw_gradient[:] = 0.0
            for k in range(n_moments):
                add_chain(columns, power, start, stop, (k + 1) / m, raw_gradient[k])
                for i in range(m):
                    power[i] *= z[i]
                raw[k] = add_up(power, m) / m
            values[s] += _moment_residual(
                raw, raw_gradient, mixing, factors, targets[r], gradients[s]
            )


@njit(**OPTIONS)
def evaluate_tensors(
    weights,
    tensors,
    children,
    parents,
    degrees,
    coefficients,
    mixing,
    factors,
    targets,
    values,
    gradients,
):
    """Fill value and gradient of the moment loss for every start, from moment tensors.

    ∂Mₖ/∂wⱼ = k Σ_β c(β) T(β + eⱼ) w^β over the monomials β of degree k − 1, and by Euler's
    rule Mₖ = (1/k) Σⱼ wⱼ ∂Mₖ/∂wⱼ: one pass gives both, whatever n.
    """
    d = weights.shape[1]
    n_moments = factors.size
    n_inner = children.shape[0]
    monomials = np.empty(n_inner)
    raw = np.empty(n_moments)
    raw_gradient = np.empty((n_moments, d))
    for s in range(weights.shape[0]):
        values[s] = 0.0
        gradients[s] = 0.0
        monomials[0] = 1.0
        for b in range(1, n_inner):
            monomials[b] = monomials[parents[b, 0]] * weights[s, parents[b, 1]]
        for r in range(tensors.shape[0]):
            raw_gradient[:] = 0.0
            for b in range(n_inner):
                k = degrees[b]
                factor = (k + 1) * coefficients[b] * monomials[b]
                for j in range(d):
                    raw_gradient[k, j] += factor * tensors[r, children[b, j]]
            for k in range(n_moments):
                raw[k] = 0.0
                for j in range(d):
                    raw[k] += weights[s, j] * raw_gradient[k, j]
                raw[k] /= k + 1
            values[s] += _moment_residual(
                raw, raw_gradient, mixing, factors, targets[r], gradients[s]
            )


@njit(**OPTIONS)
def accumulate_tensors(columns, start, stop, parents, n_varying, out):
    """Fill the mean of every monomial over rows start … stop (a block at a time).

    Columns from `n_varying` on are ones: a monomial times one of them is what it was.
    """
    block = 256
    n_monomials = parents.shape[0]
    products = np.empty((n_monomials, block))
    out[:] = 0.0
    for first in range(start, stop, block):
        m = min(block, stop - first)
        products[0, :m] = 1.0
        for b in range(1, n_monomials):
            parent, j = parents[b, 0], parents[b, 1]
            if j >= n_varying:
                continue
            total = 0.0
            for i in range(m):
                products[b, i] = products[parent, i] * columns[j, first + i]
                total += products[b, i]
            out[b] += total
        out[0] += m
    for b in range(1, n_monomials):
        if parents[b, 1] >= n_varying:
            out[b] = out[parents[b, 0]]
    out /= stop - start


@njit(**OPTIONS)
def _add_of_one_bag(X, centre, factor, parents, n_varying, unit, sums):
    """Add monomials of rows of one bag, tile by tile: four times as fast as row by row."""
    d, n = centre.size, X.shape[0]
    t, products = np.empty((d, _TILE)), np.ones((parents.shape[0], _TILE))
    for start in range(0, n, _TILE):
        m = min(_TILE, n - start)
        for j in range(d):
            for i in range(m):
                t[j, i] = (X[start + i, j] - centre[j]) * factor[j]
        for b in range(1, parents.shape[0]):
            j = parents[b, 1]
            if j >= n_varying:
                continue
            column, parent, own = t[j], products[parents[b, 0]], products[b]
            total = 0
            for i in range(m):
                value = parent[i] * column[i]
                own[i] = value
                total += int(np.rint(value * unit))
            sums[b] += total


@njit(**OPTIONS)
def add_monomials(X, codes, centre, factor, parents, n_varying, unit, sums):
    """Add the monomials of t = (x − centre) factor, |t| ≤ 1, in multiples of 1/unit, bag by bag.

    Columns from `n_varying` on are ones, whose monomials are left at zero: each is its parent.
    """
    if sums.shape[0] == 1:  # by far the most monomials
        _add_of_one_bag(X, centre, factor, parents, n_varying, unit, sums[0])
        return
    d = centre.size
    t, products = np.empty(d), np.empty(parents.shape[0])
    products[0] = 1.0
    for i in range(X.shape[0]):
        r = codes[i]
        for j in range(d):
            t[j] = (X[i, j] - centre[j]) * factor[j]
        for b in range(1, parents.shape[0]):
            j = parents[b, 1]
            if j < n_varying:
                products[b] = products[parents[b, 0]] * t[j]
                sums[r, b] += int(np.rint(products[b] * unit))


@njit(**OPTIONS)
def add_label_powers(y, codes, centre, factor, unit, sums):
    """Add the powers 1 … K of (y − centre) factor, at most one, in multiples of 1/unit."""
    for i in range(y.size):
        value = (y[i] - centre) * factor
        power = 1.0
        for k in range(sums.shape[1]):
            power *= value
            sums[codes[i], k] += int(np.rint(power * unit))
