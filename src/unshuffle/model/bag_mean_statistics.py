"""Sufficient statistics of the means of very many bags: sums of products of their moments.

A residual is ȳ − x̄ᵀw − Σ c (mean of zᵏ in the bag − that of all rows). The sums of residuals and
of their squares over bags of one size follow from sums of products of ȳ, x̄, moments and 1. Their
cost does not depend on the number of bags.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from unshuffle.data.products import multiply
from unshuffle.model.bag_means import BagMeans, ClassSums, Effects
from unshuffle.model.mean_function import OpenTerm
from unshuffle.model.points import Parameters

# Numbers that are made at a time.
_ROOM = 500_000
# Fewer bags than this are evaluated one by one: nothing would be saved.
_LEAST_BAGS = 200


@dataclass(frozen=True, eq=False)
class MeanStatistics:
    """Number of the bags of m labels, and sums of products of their moments."""

    m: np.ndarray
    counts: np.ndarray
    products: np.ndarray
    terms: tuple[OpenTerm, ...]

    def log_density(self, means: BagMeans, params: Parameters) -> np.ndarray:
        """Return the log density of the bag means at many points, some at a time."""
        size = max(1, int(_ROOM / self.products[:, 0].size))
        parts = [
            means.evaluate_classes(
                self._sum(params, slice(k, k + size)), params.log_sigmas[k : k + size]
            )
            for k in range(0, len(params.w), size)
        ]
        return np.concatenate(parts) if parts else np.empty(0)

    def draw_effects(
        self, means: BagMeans, params: Parameters, rng: np.random.Generator
    ) -> Effects:
        """Draw the bag effects at many points."""
        return means.draw_effects_of_classes(self._sum(params, slice(None)), params.log_sigmas, rng)

    def _sum(self, params: Parameters, part: slice) -> ClassSums:
        """Return the sums over classes at some points."""
        w, coefs, centres = params.w[part], params.coefs[part], params.centres[part]
        p = w.shape[1]
        parts = [np.ones((len(w), 1)), -w]
        for t, each in enumerate(self.terms):
            parts.append(-coefs[:, t, None] * each.monomials(w))
        parts.append((coefs * centres).sum(axis=1)[:, None])
        places = np.hstack(parts)
        n_classes, size = len(self.m), places.shape[1]
        turned = multiply(places, self.products.transpose(1, 0, 2).reshape(size, -1))
        turned = turned.reshape(len(w), n_classes, size)
        squares = (turned * places[:, None, :]).sum(axis=2)
        own = slice(1, 1 + p)
        # The last of what gaps are made of is one.
        return ClassSums(
            self.m, self.counts, turned[:, :, -1], squares, turned[:, :, own],
            self.products[:, own, -1], self.products[:, own, own],
        )  # fmt: skip


def sum_moments(
    sizes: np.ndarray, labels: np.ndarray, rows: np.ndarray, terms: tuple[OpenTerm, ...]
) -> MeanStatistics | None:
    """Return the statistics of bags with these mean labels, mean rows and moments.

    None where the bags themselves are fewer numbers.
    """
    m, place = np.unique(sizes, return_inverse=True)
    n_bags, p = rows.shape
    size = 2 + p + sum(comb(p + each.degree - 1, each.degree) for each in terms)
    if n_bags < _LEAST_BAGS or len(m) * size**2 > n_bags * p**2:
        return None
    moments = [each.flat_moments() for each in terms]
    made = np.hstack([labels[:, None], rows, *moments, np.ones((n_bags, 1))])
    products = np.zeros((len(m), size, size))
    for k in range(len(m)):
        own = made[place == k]
        products[k] = np.einsum("ri,rj->ij", own, own)
    return MeanStatistics(m, np.bincount(place).astype(float), products, terms)
