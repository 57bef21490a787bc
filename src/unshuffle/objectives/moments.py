"""Self-moments (Abid, Poon and Zou 2017): means of monomials, moments of noise, and the sphere.

The sphere is the set of weights that meet the first two moments of the pooled data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import numpy as np

from unshuffle import kernels
from unshuffle.data.bags import Bags
from unshuffle.data.products import dot, multiply, predict_rows
from unshuffle.data.statistics import Statistics
from unshuffle.objectives.noise import Noise


@dataclass(frozen=True, eq=False)
class Monomials:
    """All monomials of d variables up to a degree, each made from a shorter one.

    Monomial b is ``parents[b, 0]`` times variable ``parents[b, 1]``; ``children[b, j]`` is b
    times variable j, for the monomials below the top degree (there are ``len(children)``).
    """

    parents: np.ndarray
    degrees: np.ndarray
    children: np.ndarray
    coefficients: np.ndarray


def make_monomials(d: int, degree: int) -> Monomials:
    """List the monomials of d variables up to a degree, with multinomial coefficients.

    >>> make_monomials(2, 2).coefficients.tolist()  # 1, x0, x1 (their squares are not inner)
    [1.0, 1.0, 1.0]
    """
    keys: list[tuple[int, ...]] = [()]
    index: dict[tuple[int, ...], int] = {(): 0}
    parents = [(0, 0)]
    first_of_degree = 0
    for _ in range(degree):
        level = range(first_of_degree, len(keys))
        first_of_degree = len(keys)
        for b in level:
            for j in range(keys[b][-1] if keys[b] else 0, d):
                index[(*keys[b], j)] = len(keys)
                keys.append((*keys[b], j))
                parents.append((b, j))
    inner = keys[:first_of_degree]
    children = [[index[tuple(sorted((*key, j)))] for j in range(d)] for key in inner]
    return Monomials(
        np.array(parents),
        np.array([len(key) for key in keys]),
        np.array(children).reshape(len(inner), d),
        np.array([_multinomial(key) for key in inner]),
    )


def _multinomial(key: tuple[int, ...]) -> float:
    """Return the multinomial coefficient of a monomial."""
    result, left = 1, len(key)
    for j in set(key):
        result *= comb(left, key.count(j))
        left -= key.count(j)
    return float(result)


def count_monomials(d: int, degree: int) -> int:
    """Return the number of monomials of d variables up to a degree."""
    return comb(d + degree, degree)


def make_tensors(bags: Bags, monomials: Monomials) -> np.ndarray:
    """Return the mean of every monomial over each bag, shape (R, number of monomials)."""
    tensors = np.empty((bags.n_bags, len(monomials.parents)))
    if bags.rows.has_masses:
        return _weigh_tensors(bags, monomials, tensors)
    # Half of all monomials contain the intercept's column, the last.
    n_varying = bags.d - bool((bags.columns[-1] == 1.0).all())
    for r in range(bags.n_bags):
        start, stop = bags.offsets[r], bags.offsets[r + 1]
        kernels.accumulate_tensors(
            bags.columns, start, stop, monomials.parents, n_varying, tensors[r]
        )
    return tensors


def _weigh_tensors(bags: Bags, monomials: Monomials, tensors: np.ndarray) -> np.ndarray:
    """Fill the tensors of rows with masses, a monomial at a time."""
    for r in range(bags.n_bags):
        part = slice(bags.offsets[r], bags.offsets[r + 1])
        shares = bags.rows.masses[part] / bags.rows.totals[r]
        found = [np.ones(len(shares))]
        for b, j in monomials.parents[1:]:
            found.append(found[b] * bags.X[part, j])
        tensors[r] = [dot(shares, each) for each in found]
    return tensors


def mix_noise(n_moments: int, noise: Noise | None) -> np.ndarray:
    """Return C(k, j) E[e^(k−j)]: how moments of Xw (columns j = 0 … K) make those of Xw + e."""
    mixing = np.zeros((n_moments, n_moments + 1))
    errors = np.zeros(n_moments) if noise is None else noise.moments(n_moments)
    errors = np.concatenate([[1.0], errors])
    for k in range(1, n_moments + 1):
        for j in range(k + 1):
            mixing[k - 1, j] = comb(k, j) * errors[k - j]
    return mixing


def label_moments(bags: Bags, n_moments: int) -> np.ndarray:
    """Return the moments of the labels of each bag, shape (R, K)."""
    found = np.empty((bags.n_bags, n_moments))
    # One power after another: less memory, and products are faster than powers.
    power = np.array(bags.labels.masses, dtype=float)
    for k in range(n_moments):
        power *= bags.y
        found[:, k] = np.add.reduceat(power, bags.labels.offsets[:-1])
    return found / bags.statistics.m[:, None]


@dataclass(frozen=True, eq=False)
class MomentSphere:
    """The weights that meet the first two moments of the pooled data.

    ``w = centre + basis @ u`` meets the mean for every u, and the second moment when
    |u| = radius, which is zero where no real weights meet both. `has_mean` is False where every
    column has mean zero: the first moment then has no information.
    """

    centre: np.ndarray
    basis: np.ndarray
    radius: float
    has_mean: bool

    def on_plane(self, u: np.ndarray) -> np.ndarray:
        """Return the weights (…, d) that meet the mean, at coordinates u (…, k)."""
        # Not a matrix product, whose last bits depend on how many starts share it.
        return self.centre + np.einsum("...k,dk->...d", u, self.basis)

    def on_sphere(self, direction: np.ndarray) -> np.ndarray:
        """Return the weights (…, d) that meet both moments, in the given directions (…, k)."""
        size = np.sqrt((direction**2).sum(-1, keepdims=True))
        return self.on_plane(self.radius * direction / np.where(size == 0, 1.0, size))


def make_sphere(bags: Bags, noise: Noise | None) -> MomentSphere:
    """Find the sphere of the first two pooled moments."""
    X, y, stats = bags.X, bags.y, bags.statistics

    # Squares about the mean: plain second moments cancel badly when the means are large.
    def square_rows(centre: np.ndarray, target: float) -> float:
        return stats.average_rows((predict_rows(X, centre) - target) ** 2)

    def square_labels(target: float) -> float:
        return stats.average_labels((y - target) ** 2)

    return find_sphere(stats, noise, square_rows, square_labels)


def find_sphere(
    stats: Statistics,
    noise: Noise | None,
    square_rows: Callable[[np.ndarray, float], float],
    square_labels: Callable[[float], float],
) -> MomentSphere:
    """Find centre and basis of the sphere of the first two pooled moments.

    `square_rows` and `square_labels` return mean squares about a target, of predictions and labels.
    """
    error_mean, error_square = (0.0, 0.0) if noise is None else noise.moments(2)
    mean, target, gram = stats.mean, stats.label_mean - error_mean, stats.gram
    has_mean = bool(np.any(np.abs(mean) > 1e-12 * np.sqrt(np.diag(gram))))
    if has_mean:
        null = _null_space(mean)
        start = mean * (target / dot(mean, mean))
    else:
        null, start, target = np.eye(len(mean)), np.zeros(len(mean)), 0.0
    values, vectors = np.linalg.eigh(multiply(null.T, multiply(gram, null)))
    keep = values > 1e-12 * max(values.max(initial=0.0), np.trace(gram) / len(mean))
    root = vectors[:, keep] / np.sqrt(values[keep])
    if keep.all():
        # The symmetric root does not turn with the eigenvectors. With collinear columns it would
        # have directions without effect, and a point on the sphere would fall inside it.
        root = multiply(root, vectors.T)
    basis = multiply(null, root)
    centre = start - multiply(basis, multiply(basis.T, multiply(gram, start)))
    rest = square_rows(centre, target)
    squared_radius = square_labels(target) - rest - error_square
    radius = np.sqrt(max(squared_radius, 0.0))
    return MomentSphere(centre, basis, float(radius), has_mean)


def _null_space(mean: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis (d, d − 1) of the directions that leave the mean alone.

    One Householder reflection that sends the largest entry's axis to the mean; without it, the
    basis is the other axes themselves when the mean is one axis (an intercept on centred columns).
    """
    d = len(mean)
    pivot = int(np.argmax(np.abs(mean)))
    unit = mean / np.sqrt(dot(mean, mean))
    unit = unit * np.sign(unit[pivot])
    normal = unit.copy()
    normal[pivot] += 1.0
    reflection = np.eye(d) - 2 * np.outer(normal, normal) / dot(normal, normal)
    return np.delete(reflection, pivot, axis=1)
