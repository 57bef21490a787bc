"""Sufficient statistics of bags: numbers, means and second moments.

Pooled means weight every bag by the precision of its mean label under the pairing. Where each row
has its label, that is its number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unshuffle import kernels
from unshuffle.data.known_means import KnownMeans
from unshuffle.data.labels import Labels
from unshuffle.data.pairing import Pairing
from unshuffle.data.products import dot
from unshuffle.data.rows import Rows


@dataclass(frozen=True, eq=False)
class Statistics:
    """Numbers of rows `n` and labels `m`, weights and means of each bag, and pooled moments.

    `row_weights` and `label_weights` add up to one each; None means that all count alike. `gram` is
    the pooled second moment of the rows about zero.
    """

    n: np.ndarray
    m: np.ndarray
    weights: np.ndarray
    row_means: np.ndarray
    label_means: np.ndarray
    mean: np.ndarray
    label_mean: float
    gram: np.ndarray
    row_weights: np.ndarray | None = None
    label_weights: np.ndarray | None = None

    @property
    def shares(self) -> np.ndarray:
        """The weights of bags, adding up to one."""
        return self.weights / self.weights.sum()

    def average_rows(self, values: np.ndarray) -> float:
        """Return the pooled mean of one value for each row."""
        return float(values.mean()) if self.row_weights is None else dot(self.row_weights, values)

    def average_labels(self, values: np.ndarray) -> float:
        """Return the pooled mean of one value for each label."""
        if self.label_weights is None:
            return float(values.mean())
        return dot(self.label_weights, values)


def make_statistics(rows: Rows, labels: Labels, pairing: Pairing, is_plain: bool) -> Statistics:
    """Return the statistics of bags; plain ones have a label for each row."""
    X, y, starts = rows.X, labels.values, rows.offsets[:-1]
    if is_plain:
        sizes = np.diff(rows.offsets)
        return Statistics(
            n=sizes,
            m=sizes,
            weights=sizes,
            row_means=np.add.reduceat(X, starts, axis=0) / sizes[:, None],
            label_means=np.add.reduceat(y, starts) / sizes,
            mean=X.mean(axis=0),
            label_mean=float(y.mean()),
            gram=kernels.gram(X.T) / len(X),
        )
    n, m = rows.totals, labels.totals
    weights = pairing.weights(n, m)
    shares = weights / weights.sum()
    row_weights = rows.masses * np.repeat(shares / n, np.diff(rows.offsets))
    label_weights = labels.masses * np.repeat(shares / m, np.diff(labels.offsets))
    row_means = np.add.reduceat(X * rows.masses[:, None], starts, axis=0) / n[:, None]
    label_means = np.add.reduceat(y * labels.masses, labels.offsets[:-1]) / m
    return Statistics(
        n=n,
        m=m,
        weights=weights,
        row_means=row_means,
        label_means=label_means,
        mean=(row_weights[:, None] * X).sum(axis=0),
        label_mean=dot(label_weights, y),
        gram=kernels.gram(np.ascontiguousarray((X * np.sqrt(row_weights)[:, None]).T)),
        row_weights=row_weights,
        label_weights=label_weights,
    )


def make_statistics_of_means(rows: Rows, labels: Labels, known: KnownMeans) -> Statistics:
    """Return the statistics of bags of which some have a known mean, which counts n times."""
    X, y, n = rows.X, labels.values, known.counts
    sizes = np.diff(rows.offsets)
    weights = np.repeat(n / sizes, sizes) / n.sum()
    root = np.sqrt(weights)
    gram = kernels.gram(np.ascontiguousarray((X * root[:, None]).T)) + known.scatter / n.sum()
    starts = rows.offsets[:-1]
    return Statistics(
        n=n,
        m=n,
        weights=n,
        row_means=np.add.reduceat(X, starts, axis=0) / sizes[:, None],
        label_means=np.add.reduceat(y, starts) / sizes,
        mean=(weights[:, None] * X).sum(axis=0),
        label_mean=dot(weights, y),
        gram=gram,
        row_weights=weights,
        label_weights=weights,
    )
