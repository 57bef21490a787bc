"""Bags of which only the mean label is known: aggregated outcomes, as in ecological regression."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class KnownMeans:
    """Which bags are known by their mean label alone; each stands as one row, its mean row.

    Parameters
    ----------
    counts : individuals of each bag as it stands, (R,).
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
        """Return the part of each column's variance that lies inside these bags."""
        return np.asarray(np.diagonal(self.scatter) / self.counts.sum())

    def label_masses(self, sizes: np.ndarray) -> np.ndarray:
        """Return weights of single labels (1) and mean labels (n) whose squares measure var(y).

        A mean of n labels drawn at random has variance var(y)/n, and counts as one observation.
        """
        masses = np.repeat(np.where(self.is_mean, self.counts, 1.0), sizes)
        return np.asarray(masses / len(masses))
