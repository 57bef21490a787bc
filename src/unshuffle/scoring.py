"""Scores of predictions against labels in unknown order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.metrics import make_scorer, r2_score

from unshuffle.data.bags import Bags, make_bags
from unshuffle.data.products import predict_rows


def sorted_error(
    y_true: Sequence[float], y_pred: Sequence[float], groups: Sequence[Hashable] | None = None
) -> float:
    """Mean squared gap of sorted labels and sorted predictions, group by group.

    It depends neither on the order of the labels nor on that of the predictions in a group.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, in any order inside a group.
    y_pred : array-like of shape (n,)
        Predictions, in any order inside a group.
    groups : sequence of n hashable labels, optional
        The bag of each; all of them form one bag without it.

    Returns
    -------
    float
        The mean squared gap.

    Examples
    --------
    >>> sorted_error([1.0, 2.0], [2.0, 1.0])
    0.0
    >>> sorted_error([1.0, 2.0], [2.0, 1.0], groups=["a", "b"])
    1.0
    """
    predictions = np.asarray(y_pred, dtype=float).reshape(-1, 1)
    bags = make_bags(predictions, np.asarray(y_true, dtype=float).ravel(), groups)
    return float(np.mean((bags.X[:, 0] - bags.y) ** 2))


def sorted_r2(y_true: Any, y_pred: Any, groups: Sequence[Hashable] | None = None) -> float:
    """Share of the labels' variance explained when both sides are sorted, group by group.

    1 − Σ(ŷ↑ − y↑)²/Σ(y − ȳ)² does not use the pairing. Sorting is the pairing of least squared
    error inside groups, so the score is at least the R² of linked data, and equal to it if every
    group has one row. Constant and single labels are treated as in scikit-learn's `r2_score`.

    >>> sorted_r2([1.0, 2.0, 3.0], [3.0, 1.0, 2.0])
    1.0
    >>> sorted_r2([1.0, 2.0, 3.0], [3.0, 1.0, 2.0], groups=["a", "b", "c"])
    -2.0
    """
    predictions = np.asarray(y_pred, dtype=float).reshape(-1, 1)
    bags = make_bags(predictions, np.asarray(y_true, dtype=float).ravel(), groups)
    z, y = bags.X[:, 0], bags.y
    # Scaling by a power of two is exact, and prevents overflow and underflow of squares.
    _, exponent = np.frexp(max(np.abs(z).max(), np.abs(y).max()))
    return float(r2_score(np.ldexp(y, -exponent), np.ldexp(z, -exponent)))


def measure_gap(bags: Bags, w: np.ndarray, intercept: float) -> float:
    """Mean squared gap of sorted labels and sorted predictions, by mass; bins count as points.

    With one label for each row it is `sorted_error`.

    >>> from unshuffle.data.bags import Bag, join_bags
    >>> bags = join_bags([Bag([[0.0], [2.0]], [1.0])])
    >>> measure_gap(bags, np.array([1.0]), 0.0)
    1.0
    """
    labels, z = bags.labels.points, predict_rows(bags.X, w) + intercept
    gaps = []
    for r in range(bags.n_bags):
        rows = slice(bags.rows.offsets[r], bags.rows.offsets[r + 1])
        items = slice(labels.offsets[r], labels.offsets[r + 1])
        order = np.argsort(z[rows], kind="stable")
        # The shares at which the quantile function of either side steps.
        steps = [
            _ends_of_steps(bags.rows.masses[rows][order]),
            _ends_of_steps(labels.masses[items]),
        ]
        ends = np.unique(np.concatenate(steps))
        here, there = (np.minimum(np.searchsorted(step, ends), len(step) - 1) for step in steps)
        gap = (z[rows][order][here] - labels.values[items][there]) ** 2
        gaps.append(float((np.diff(ends, prepend=0.0) * gap).sum()))
    return float((bags.statistics.shares * np.array(gaps)).sum())


def _ends_of_steps(masses: np.ndarray) -> np.ndarray:
    """Return the cumulative shares of sorted items."""
    sums = np.cumsum(masses)
    return sums / sums[-1]


def make_shuffled_scorer() -> Any:
    """Return a scorer (higher is better) for `GridSearchCV` and its relatives.

    Under ``sklearn.set_config(enable_metadata_routing=True)``, set before or after the scorer is
    made, it asks for `groups`, and every fold is scored group by group. Without routing
    scikit-learn hands groups to the splitter only: neither the estimator nor this scorer ever sees
    them, and both treat a fold as one bag.

    Returns
    -------
    scorer
        A scikit-learn scorer: minus `sorted_error`.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(100, 1, noise=0.0, rng=0)
    >>> model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y)
    >>> abs(round(make_shuffled_scorer()(model, data.X, data.y), 6))
    0.0
    """
    scorer = make_scorer(sorted_error, greater_is_better=False)
    # A request needs routing when it is made, and is kept afterwards.
    with config_context(enable_metadata_routing=True):
        return scorer.set_score_request(groups=True)
