"""Bags of which only the mean label is known: aggregated outcomes, as in ecological regression."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class KnownMeans:
    """Bags of which only the mean label is known; each is one row, its mean row.

    Parameters
    ----------
    counts : individuals of each bag, (R,).
    is_mean : which bags are known by their mean, (R,).
    scatter : sum over their rows of (x − x̄ᵣ)(x − x̄ᵣ)ᵀ, (d, d): the spread that mean rows lack.
    """

    counts: np.ndarray
    is_mean: np.ndarray
    scatter: np.ndarray

    @property
    def n_bags(self) -> int:
        """Number of bags of which only the mean label is known."""
        return int(self.is_mean.sum())

    @property
    def has_means_alone(self) -> bool:
        """Whether no bag has labels of its own."""
        return bool(self.is_mean.all())

    def scaled(self, factors: np.ndarray, n_more: int = 0) -> KnownMeans:
        """Return the same for columns times these factors, with constant columns at the end."""
        scatter = self.scatter * np.outer(factors, factors)
        return replace(self, scatter=np.pad(scatter, (0, n_more)))

    def column_variances(self) -> np.ndarray:
        """Return the variance of each column inside these bags, as a part of the total."""
        return np.asarray(np.diagonal(self.scatter) / self.counts.sum())

    def label_spread(self, rows: np.ndarray, labels: np.ndarray, sizes: np.ndarray) -> float:
        """Return the root mean square of all labels, from those that are known.

        It has a part between bags and a part inside bags. The latter is that of bags with single
        labels. With means alone, weighted least squares on the means (Goodman 1953) estimates it:
        from the spread of rows inside bags, and from the noise. It is at most that of bags formed
        at random, where the mean of n labels has the variance var(y)/n.

        Parameters
        ----------
        rows, labels : one row and label for each mean, and those of the other bags, both less their
            centres, (m, d) and (m,).
        sizes : rows of each bag, (R,).
        """
        unit, spans = float(np.abs(labels).max(initial=0.0)), np.abs(rows).max(axis=0, initial=0.0)
        spans = np.maximum(spans, np.sqrt(np.diagonal(self.scatter) / self.counts.sum()))
        if unit == 0.0:
            return 0.0
        y, factors = labels / unit, np.divide(1.0, spans, out=np.zeros_like(spans), where=spans > 0)
        total, starts = self.counts.sum(), np.cumsum(sizes) - sizes
        means = np.add.reduceat(y, starts) / sizes
        between = float(self.counts @ means**2) / total
        if not self.has_means_alone:
            is_single = np.repeat(~self.is_mean, sizes)
            gaps = (y - np.repeat(means, sizes))[is_single]
            n_free = is_single.sum() - (~self.is_mean).sum()
            return unit * float(np.sqrt(between + gaps @ gaps / max(n_free, 1)))
        root = np.sqrt(self.counts)
        columns = rows * factors * root[:, None]
        slopes, _, rank, _ = np.linalg.lstsq(columns, y * root, rcond=1e-10)
        rest = y * root - (columns * slopes).sum(axis=1)
        noise = float(rest @ rest) / max(len(y) - 1 - rank, 1)
        inside = float((slopes * factors) @ self.scatter @ (slopes * factors)) / total
        at_random = float(self.counts @ y**2) / len(y)
        return unit * float(np.sqrt(min(between + inside + noise, at_random)))
