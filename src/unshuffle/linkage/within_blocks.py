"""Least squares on linked files from its parts within and between blocks.

Labels are exchanged inside their blocks, so that the mean label of every block is known whatever
links are wrong. Only the slopes β within blocks are to be estimated. The coefficients of least
squares on the right links are then those of

    ȳ_b + (xᵢ − x̄_b)ᵀ β,   b being the block of pair i,

on all rows. Labels whose block means do not follow the slopes within blocks are so no reason to
doubt links (Mundlak 1978).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unshuffle.data.products import FLAT, multiply, predict_rows
from unshuffle.linkage.adjusted_equations import has_clusters
from unshuffle.linkage.given_pairs import GivenPairs, block_means, weighted_gram, weighted_sum


@dataclass(frozen=True, eq=False)
class WithinBlocks:
    """Pairs as deviations from the means of their blocks, and the way back to all coefficients.

    Attributes
    ----------
    pairs : all pairs, as given.
    inner : the pairs of blocks of more than one, as deviations from the means of their block;
        without intercept.
    places : where they are among all.
    means : (n, d) mean rows of blocks.
    bread : inverse of XᵀX.
    lift : (d, n_slopes) change of the coefficients with the slopes within blocks.
    base : coefficients where these slopes are 0.
    """

    pairs: GivenPairs
    inner: GivenPairs
    places: np.ndarray
    means: np.ndarray
    bread: np.ndarray
    lift: np.ndarray
    base: np.ndarray

    def complete(self, slopes: np.ndarray) -> np.ndarray:
        """Return all coefficients."""
        return np.asarray(self.base + multiply(slopes, self.lift.T))

    def lift_influence(self, influence: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return the influence of every pair on all coefficients w.

        `influence` is that of each inner pair on the slopes.
        """
        rest = self.pairs.y - predict_rows(self.pairs.X, w)
        found = multiply(self.means * rest[:, None], self.bread)
        found[self.places] += multiply(influence, self.lift.T)
        return found

    @property
    def is_clustered(self) -> bool:
        """Whether influences are added up by block."""
        return has_clusters(self.inner, self.inner.X.shape[1])

    @property
    def lost(self) -> float:
        """Factor of the influences on the slopes, for the block means that were taken out.

        Their sums by block need none.
        """
        if self.is_clustered:
            return 1.0
        n, d = self.inner.X.shape
        n_blocks = int(self.inner.codes.max()) + 1
        return float(np.sqrt(max(n - d, 1) / max(n - d - n_blocks, 1)))

    def restore(self, values: np.ndarray, other: float) -> np.ndarray:
        """Return one value for each of all pairs: `other` where a pair is alone in its block."""
        found = np.full(len(self.pairs.y), other)
        found[self.places] = values
        return found


def split_blocks(pairs: GivenPairs) -> WithinBlocks:
    """Return the parts within and between blocks."""
    X, d = pairs.X, pairs.n_slopes
    means = np.column_stack([block_means(x, pairs.codes) for x in X.T])
    bread = np.linalg.pinv(weighted_gram(X, np.ones(len(X)), X), rcond=FLAT, hermitian=True)
    own = block_means(pairs.y, pairs.codes)
    centred = replace(
        pairs, X=np.asfortranarray((X - means)[:, :d]), y=pairs.y - own, has_intercept=False
    )
    places = np.flatnonzero(np.bincount(pairs.codes)[pairs.codes] > 1)
    inner = centred.take(places)
    inner = replace(inner, codes=np.unique(inner.codes, return_inverse=True)[1].reshape(-1))
    lift = multiply(weighted_gram(inner.X, np.ones(len(places)), X[places]), bread).T
    base = multiply(bread, weighted_sum(X, own))
    return WithinBlocks(pairs, inner, places, means, bread, lift, base)


def as_one(pairs: GivenPairs) -> WithinBlocks:
    """Return the pairs as they are, with all their coefficients as the slopes."""
    n, d = pairs.X.shape
    nothing, own = np.zeros((d, d)), np.eye(d)
    return WithinBlocks(pairs, pairs, np.arange(n), np.zeros((n, d)), nothing, own, np.zeros(d))
