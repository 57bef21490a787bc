"""A score for labels whose order is unknown, for cross-validation over whole groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.metrics import make_scorer

from unshuffle.core.bags import make_bags


def sorted_error(
    y_true: Sequence[float], y_pred: Sequence[float], groups: Sequence[Hashable] | None = None
) -> float:
    """Mean squared gap of sorted labels and sorted predictions, group by group.

    It depends neither on the order of the labels nor on that of the predictions in a group.

    >>> sorted_error([1.0, 2.0], [2.0, 1.0])
    0.0
    >>> sorted_error([1.0, 2.0], [2.0, 1.0], groups=["a", "b"])
    1.0
    """
    predictions = np.asarray(y_pred, dtype=float).reshape(-1, 1)
    bags = make_bags(predictions, np.asarray(y_true, dtype=float).ravel(), groups)
    return float(np.mean((bags.X[:, 0] - bags.y) ** 2))


def make_shuffled_scorer() -> Any:
    """Return a scorer (higher is better) for `GridSearchCV` and its relatives.

    Under ``sklearn.set_config(enable_metadata_routing=True)``, set before or after the scorer is
    made, it asks for `groups`, and every fold is scored group by group. Without routing
    scikit-learn hands groups to the splitter only: neither the estimator nor this scorer ever sees
    them, and both treat a fold as one bag.

    >>> from unshuffle import ShuffledLinearRegression, make_shuffled
    >>> data = make_shuffled(100, 1, noise=0.0, rng=0)
    >>> model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y)
    >>> abs(round(make_shuffled_scorer()(model, data.X, data.y), 6))
    0.0
    """
    scorer = make_scorer(sorted_error, greater_is_better=False)
    # A request can only be made under routing, but lasts: whoever routes later finds it.
    with config_context(enable_metadata_routing=True):
        return scorer.set_score_request(groups=True)
