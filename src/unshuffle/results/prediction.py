"""Predictions for rows of known and new bags: means, sds and intervals, also of new labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.uncertainty import Posterior, Uncertainty
from unshuffle.data.bag import bag_key
from unshuffle.errors import InputError, quote
from unshuffle.results.verdict import Facts, need_uncertainty


def find_bags(
    solution: Solution, groups: Sequence[Hashable] | np.ndarray | None, n: int
) -> np.ndarray | None:
    """Return the number of the fitted bag of each row, −1 for new bags; None where all are new.

    Without bag effects in the model all bags are alike.
    """
    if groups is None:
        return None
    if len(groups) != n:
        raise InputError(
            f"groups has {len(groups)} entries but there are {n} rows: give the bag of every row"
        )
    posterior = solution.posterior
    if posterior is None or posterior.model is None:
        return None
    if posterior.model.bag_effects is None:
        raise InputError(
            "the fit has too many bags to keep the effect of each: leave groups out, and every row "
            "counts as one of a new bag"
        )
    names = posterior.bag_names or ()
    numbers = {name: r for r, name in enumerate(names)}
    if len(numbers) < len(names):
        twice = next(name for r, name in enumerate(names) if numbers[name] != r)
        raise InputError(
            f"two bags of the fit are both called {quote(twice)} as text: rename one, and fit again"
        )
    return np.array([numbers.get(bag_key(name), -1) for name in groups], dtype=int)


def predict_in_bags(
    solution: Solution, facts: Facts, X: np.ndarray, bags: np.ndarray, z: np.ndarray
) -> np.ndarray:
    """Return the posterior mean of a label in known bags; rows of new bags keep `z`."""
    assert isinstance(solution.uncertainty, Posterior)
    return np.where(bags >= 0, solution.uncertainty.mean_at(_add_ones(X, facts), bags), z)


def predict_sds(
    solution: Solution, facts: Facts, X: np.ndarray, bags: np.ndarray | None = None
) -> np.ndarray:
    """Return the sd of a new label at each row, infinite where the data say nothing."""
    unsure = need_uncertainty(solution, facts.method)
    sds = unsure.sd_at(_add_ones(X, facts), bags)
    sds[_rests_on_unknown(unsure, facts, X)] = np.inf
    return sds


def predict_ends(
    solution: Solution,
    facts: Facts,
    X: np.ndarray,
    level: float,
    new_label: bool,
    bags: np.ndarray | None = None,
) -> np.ndarray:
    """Return (low, high) of the prediction, or of a new label, at each row.

    A new label has Gaussian noise of the drawn sd, the effect of its bag, and the curvature of the
    mean function besides.
    """
    unsure = need_uncertainty(solution, facts.method)
    ends = unsure.interval_at(_add_ones(X, facts), level, new_label, bags)
    ends[_rests_on_unknown(unsure, facts, X)] = -np.inf, np.inf
    return ends


def _add_ones(X: np.ndarray, facts: Facts) -> np.ndarray:
    """Return the rows with a last column of ones where there is an intercept."""
    n_more = len(facts.names) - X.shape[1]
    return np.column_stack([X, np.ones((len(X), n_more))])


def _rests_on_unknown(unsure: Uncertainty, facts: Facts, X: np.ndarray) -> np.ndarray:
    """Return which rows depend on a coefficient of which the data say nothing.

    A column that did not vary leaves no trace of its weight where it still has its value: the
    intercept has taken it.
    """
    is_beyond = np.zeros(len(X), dtype=bool)
    constants = dict(facts.constants)
    for j in unsure.unknown:
        is_beyond |= X[:, j] != constants[j] if j in constants else True
    return is_beyond
