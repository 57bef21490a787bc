"""Slow, obvious twins of the fast code: loops and definitions, nothing clever.

Nothing here imports a kernel, so that no mistake can be shared.
"""

from itertools import combinations_with_replacement, permutations, product
from math import prod

import numpy as np


def argsort_stable(z):
    """Return the order that sorts z, ties in row order, by Python's own stable sort."""
    return np.array(sorted(range(len(z)), key=lambda i: z[i]), dtype=int)


def step_gap(z, y):
    """Return the largest distance of two empirical distribution functions, point by point."""
    return max(abs(np.mean(z <= point) - np.mean(y <= point)) for point in [*z, *y])


def sorted_loss(kind, z, y, extent=0):
    """Return a loss of two samples from its definition, sorting both first."""
    z, y = np.sort(z), np.sort(y)
    if kind == "squared":
        return sum((a - b) ** 2 for a, b in zip(z, y, strict=True)) / len(z)
    if kind == "absolute":
        return sum(abs(a - b) for a, b in zip(z, y, strict=True)) / len(z)
    if kind == "small-d":
        m = min(extent, len(z))
        return sum((z[k] - y[k]) ** 2 for k in range(m)) / m
    if kind == "kolmogorov-smirnov":
        return step_gap(z, y)
    raise KeyError(kind)


def spread_over_atoms(z, atoms):
    """Return every prediction plus every noise atom."""
    return np.array([value + atom for value in z for atom in atoms])


def split_bags(bags):
    """Return the rows and labels of each bag of a canonical `Bags`."""
    ends = zip(bags.offsets[:-1], bags.offsets[1:], strict=True)
    return [(bags.X[start:stop], bags.y[start:stop]) for start, stop in ends]


def sorted_problem_value(kind, bags, w, atoms=(0.0,), extent=0):
    """Return the loss over all bags, each counting by its size."""
    total = 0.0
    for X, y in split_bags(bags):
        spread = spread_over_atoms(X @ w, atoms)
        labels = spread_over_atoms(y, np.zeros(len(atoms)))
        total += len(y) / bags.n * sorted_loss(kind, spread, labels, extent * len(atoms))
    return total


def moment_problem_value(bags, w, factors, atoms=(0.0,)):
    """Return Σ over bags of Σₖ f(k)(E[(Xw + e)ᵏ] − mean yᵏ)², e being one of the atoms."""
    total = 0.0
    for X, y in split_bags(bags):
        spread = spread_over_atoms(X @ w, atoms)
        for k, factor in enumerate(factors, start=1):
            total += factor * (np.mean(spread**k) - np.mean(y**k)) ** 2
    return total


def monomial_means(X, degree):
    """Return the mean of each monomial up to a degree, keyed by the sorted tuple of columns."""
    return {
        key: np.mean([prod(row[j] for j in key) for row in X])
        for k in range(degree + 1)
        for key in combinations_with_replacement(range(X.shape[1]), k)
    }


def least_over_permutations(z, y):
    """Return the least mean squared gap over every matching of labels to predictions."""
    return min(np.mean((z - np.array(order)) ** 2) for order in permutations(y))


def best_matching_fit(parts):
    """Return the least mean squared residual over every matching and all weights.

    `parts` lists (X, y) bag by bag; every matching gets its own least-squares fit.
    """
    X = np.concatenate([rows for rows, _ in parts])
    best = np.inf
    for orders in product(*(permutations(y) for _, y in parts)):
        y = np.concatenate([np.array(order) for order in orders])
        weights = np.linalg.lstsq(X, y, rcond=None)[0]
        best = min(best, np.mean((y - X @ weights) ** 2))
    return best


def central_differences(function, w, step):
    """Return the gradient of a scalar function by central differences."""
    gradient = np.empty(len(w))
    for j in range(len(w)):
        up, down = w.copy(), w.copy()
        up[j] += step
        down[j] -= step
        gradient[j] = (function(up) - function(down)) / (up[j] - down[j])
    return gradient


def minimise_lasso(gram, target, l1, n_steps=20_000):
    """Minimise wᵀGw − 2tᵀw + Σ l1|w| by soft-thresholded gradient steps, slowly and surely."""
    step = 0.5 / np.linalg.eigvalsh(gram).max()
    w = np.zeros(len(target))
    for _ in range(n_steps):
        w = w - step * 2 * (gram @ w - target)
        w = np.sign(w) * np.maximum(np.abs(w) - step * l1, 0.0)
    return w


def gaussian_moment(k, sd):
    """Return E[eᵏ] of Gaussian noise by a fine Riemann sum of its density."""
    grid = np.linspace(-12, 12, 200_001)
    density = np.exp(-(grid**2) / 2)
    return float(np.sum((sd * grid) ** k * density) / np.sum(density))


def log_permanent(log_matrix):
    """Return the log of a permanent from the logs of its entries, over every permutation."""
    n = len(log_matrix)
    terms = log_matrix[np.arange(n), np.array(list(permutations(range(n))))].sum(axis=1)
    top = terms.max()
    return top + np.log(np.exp(terms - top).sum())


def enumerate_posterior(target, log_likelihood):
    """Return mean and sd of one weight under the exact posterior, by a grid over (w, log sigma)."""
    weights = np.linspace(-3.0, 3.0, 121)
    levels = np.linspace(-6.5, 1.4, 50)
    table = np.array(
        [
            [
                log_likelihood(target, np.array([w]), level)
                + target.prior(np.array([w]), level, 0.0)[0]
                for level in levels
            ]
            for w in weights
        ]
    )
    mass = np.exp(table - table.max()).sum(axis=1)
    mass /= mass.sum()
    mean = mass @ weights
    return mean, np.sqrt(mass @ (weights - mean) ** 2)


def couple_densely(z, y, variance, n_passes=5000):
    """Return Sinkhorn's coupling B of two samples and the value −Σ log aᵢ − Σ log bⱼ of its dual.

    All in logarithms, on the whole matrix, with far more passes than are needed.
    """
    log_kernel = -((y[None, :] - z[:, None]) ** 2) / (2 * variance)
    log_a, log_b = np.zeros(len(z)), np.zeros(len(y))
    for _ in range(n_passes):
        rows = log_kernel + log_b
        log_a = -(rows.max(axis=1) + np.log(np.exp(rows - rows.max(axis=1)[:, None]).sum(axis=1)))
        columns = log_kernel + log_a[:, None]
        log_b = -(columns.max(axis=0) + np.log(np.exp(columns - columns.max(axis=0)).sum(axis=0)))
    return np.exp(log_a[:, None] + log_kernel + log_b), -log_a.sum() - log_b.sum()


def least_mean_distance(x, shares):
    """Return the mean distance of weighted points to the best of many points, by brute force.

    Candidates are the points themselves and a fine grid of their pairwise mixtures.
    """
    ends = [a + t * (b - a) for a in x for b in x for t in np.linspace(0, 1, 21)]
    return min(float(shares @ np.sqrt(((x - end) ** 2).sum(axis=1))) for end in ends)
