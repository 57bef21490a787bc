"""The terms of the mean function with the moments of the rows that they need."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations

import numpy as np

from unshuffle.core.mean_function import TERMS, Term
from unshuffle.data.bags import Bags
from unshuffle.data.products import multiply

_LETTERS = "jklmnopq"


@dataclass(frozen=True, eq=False)
class OpenTerm:
    """A term that the data can tell, and moments of the standardised rows x.

    Attributes
    ----------
    term : which power, its name and its prior.
    bag_moments : (R, p, …, p), mean of x ⊗ … ⊗ x, as many factors as the power, in each bag.
    moments : (p, …, p), the same of all rows.
    covariances : (p, p, …, p), covariance of x with x ⊗ … ⊗ x.
    """

    term: Term
    bag_moments: np.ndarray
    moments: np.ndarray
    covariances: np.ndarray

    @property
    def degree(self) -> int:
        """The power."""
        return self.term.degree

    def means(self, w: np.ndarray) -> np.ndarray:
        """Return the mean of zᵏ over all rows at points (m, p)."""
        m, p = w.shape
        found = multiply(w, self.moments.reshape(p, -1))
        while found.shape[1] > p:
            found = (found.reshape(m, p, -1) * w[:, :, None]).sum(axis=1)
        return np.asarray((found * w).sum(axis=1))

    def bag_means(self, w: np.ndarray) -> np.ndarray:
        """Return the mean of zᵏ in every bag at points (m, p), (m, R)."""
        letters = _LETTERS[: self.degree]
        factors = ",".join(f"z{letter}" for letter in letters)
        found = np.einsum(f"r{letters},{factors}->zr", self.bag_moments, *[w] * self.degree)
        return np.asarray(found)

    def turn(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean x zᵏ⁻¹ of every bag, (R, p), and of all rows, (p,), at one point."""
        by_bag, whole = self.bag_moments, self.moments
        for _ in range(self.degree - 1):
            by_bag, whole = np.einsum("...k,k->...", by_bag, w), whole @ w
        return by_bag, whole

    def pooled(self, w: np.ndarray) -> np.ndarray:
        """Return cov(x, zᵏ) at points (m, p)."""
        letters = _LETTERS[1 : 1 + self.degree]
        factors = ",".join(f"z{letter}" for letter in letters)
        return np.asarray(
            np.einsum(f"j{letters},{factors}->zj", self.covariances, *[w] * self.degree)
        )

    def monomials(self, w: np.ndarray) -> np.ndarray:
        """Return the monomials of degree k in w, as often as each is in the power, (m, …)."""
        found = []
        for places in combinations_with_replacement(range(w.shape[1]), self.degree):
            product = np.full(len(w), float(len(set(permutations(places)))))
            for place in places:
                product = product * w[:, place]
            found.append(product)
        return np.stack(found, axis=1)

    def flat_moments(self) -> np.ndarray:
        """Return the moments of bags in the order of `monomials`, (R, …)."""
        p = self.bag_moments.shape[1]
        places = np.array(list(combinations_with_replacement(range(p), self.degree)))
        return np.asarray(self.bag_moments[(slice(None), *places.T)])


def open_terms(rows: np.ndarray, bags: Bags, gram: np.ndarray) -> tuple[OpenTerm, ...]:
    """Return the terms with the moments of standardised columns (p, n), whose second are known."""
    weights = bags.statistics.row_weights
    if weights is None:
        weights = np.full(bags.n, 1.0 / bags.n)
    middle = (rows * weights).sum(axis=1)
    sizes = np.add.reduceat(bags.rows.masses, bags.offsets[:-1])
    totals = np.add.reduceat(weights, bags.offsets[:-1])
    found = []
    for term in TERMS:
        k = term.degree
        by_bag = _take_moments(rows, bags.rows.masses, bags.offsets[:-1], k) / sizes
        by_bag = np.ascontiguousarray(np.moveaxis(by_bag, -1, 0))
        whole = gram if k == 2 else np.einsum("r,r...->...", totals, by_bag)
        letters = _LETTERS[1 : 1 + k]
        factors = ",".join(f"{letter}i" for letter in letters)
        # cov(x, x ⊗ …): without an intercept the rows have a mean.
        others = np.einsum(f"ji,{factors}->j{letters}", rows * weights, *[rows] * k)
        others -= middle.reshape(-1, *[1] * k) * whole
        found.append(OpenTerm(term, by_bag, whole, others))
    return tuple(found)


def _take_moments(
    rows: np.ndarray, masses: np.ndarray, starts: np.ndarray, degree: int
) -> np.ndarray:
    """Return the sums of products of columns in each bag, (p, …, p, R)."""
    found = np.empty((*[len(rows)] * degree, len(starts)))
    for places in combinations_with_replacement(range(len(rows)), degree):
        product = masses
        for place in reversed(places):
            product = product * rows[place]
        sums = np.add.reduceat(product, starts)
        for each in set(permutations(places)):
            found[each] = sums
    return found
