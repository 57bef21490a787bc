"""How sure a prediction is, from what is known about the weights."""

from __future__ import annotations

import numpy as np

from unshuffle.answers.verdict import Facts, need_uncertainty
from unshuffle.core.solution import Solution
from unshuffle.core.uncertainty import Posterior, Uncertainty


def predict_sds(solution: Solution, facts: Facts, X: np.ndarray) -> np.ndarray:
    """Return the sd of a new label at each row, infinite where the data say nothing."""
    unsure = need_uncertainty(solution, facts.method)
    sds = unsure.sd_at(_add_ones(X, facts))
    sds[_is_beyond(unsure, facts, X)] = np.inf
    return sds


def predict_ends(
    solution: Solution, facts: Facts, X: np.ndarray, level: float, new_label: bool
) -> np.ndarray:
    """Return (low, high) of the prediction, or of a new label, at each row.

    A new label has Gaussian noise of the drawn sd besides.
    """
    unsure = need_uncertainty(solution, facts.method)
    ends = unsure.interval_at(_add_ones(X, facts), level, new_label)
    ends[_is_beyond(unsure, facts, X)] = -np.inf, np.inf
    return ends


def _add_ones(X: np.ndarray, facts: Facts) -> np.ndarray:
    """Return the rows with a last column of ones where there is an intercept."""
    n_more = len(facts.names) - X.shape[1]
    return np.column_stack([X, np.ones((len(X), n_more))])


def _is_beyond(unsure: Uncertainty, facts: Facts, X: np.ndarray) -> np.ndarray:
    """Return which rows hang on a weight of which the data say nothing.

    A column that did not vary leaves no trace of its weight where it still has its value: the
    intercept has taken it.
    """
    is_beyond = np.zeros(len(X), dtype=bool)
    constants = dict(facts.constants)
    for j in unsure.unknown if isinstance(unsure, Posterior) else ():
        is_beyond |= X[:, j] != constants[j] if j in constants else True
    return is_beyond
