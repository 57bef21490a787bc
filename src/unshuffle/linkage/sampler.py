"""The sampler where labels stand beside their rows, but for a share of them.

The prior of a matching is exp(−cost × labels that moved), after Wang, Ben-David and Slawski (2023).
The cost is such that the given share of the labels is expected to move. All else is the exact
model, so this is an independent check of the mixture for data small enough to be sampled.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.data.anchors import find_beside
from unshuffle.data.bags import Bags
from unshuffle.inference import sampler
from unshuffle.inference.replica_exchange import Beside
from unshuffle.inference.sampler import Sampler
from unshuffle.linkage.regression import Linkage, estimate_share
from unshuffle.objectives.problem import Problem
from unshuffle.options import ESTIMATE, FitOptions

# A cost at which no label moves: exp(−700) is nothing beside any number of matchings.
_NEVER = 700.0
# Halving 60 times reaches rounding.
_HALVINGS = 60


@dataclass(frozen=True)
class LinkedSampler(Strategy):
    """The sampler with links of which a share (a number, or "estimate") is wrong."""

    share: Any = ESTIMATE
    options: Sampler = field(default_factory=Sampler)

    takes_penalty: ClassVar[bool] = False
    has_posterior: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = False
    why_plain: ClassVar[str | None] = "a link is one label beside one row"

    @property
    def name(self) -> str:
        return self.options.name

    def check(self, bags: Bags, options: FitOptions) -> None:
        Linkage(self.share).check(bags, options)
        self.options.check(bags, options)

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        share = self.share
        if share == ESTIMATE:
            share = estimate_share(problem)
        bags = problem.bags
        cost = find_cost(float(share), bags.sizes)
        beside = Beside(_sort_equal(bags, find_beside(bags.rows.order, bags.labels.order)), cost)
        # Where matchings are all as likely the labels stand nowhere.
        found = sampler.solve(problem, self.options, rng, effort, beside if cost > 0.0 else None)
        said = f"Matchings lose {cost:.3g} nats for each label that moved: {share:.3g} of them do."
        if self.share == ESTIMATE:
            said += " This share is the posterior mean of the mismatch rate."
        priors = (*found.stats.priors, said)
        stats = replace(found.stats, priors=priors, mislinked=float(share))
        return replace(found, stats=stats)


def _sort_equal(bags: Bags, beside: np.ndarray) -> np.ndarray:
    """Hand the rows of equal labels out in canonical order: which label is whose says nothing."""
    bag = np.repeat(np.arange(bags.n_bags), bags.sizes)
    order = np.lexsort([beside, bags.y, bag])
    # Labels are sorted inside each bag, so that this order is theirs but for ties.
    return beside[order]


def find_cost(share: float, sizes: np.ndarray) -> float:
    """Return the cost of a moved label at which this share of all labels is expected to move.

    0 where even matchings that are all as likely move fewer.

    >>> round(find_cost(0.5, np.array([2])), 6)  # one of two matchings moves both labels
    0.0
    """
    if share <= 0.0:
        return _NEVER
    if share >= expected_share(0.0, sizes):
        return 0.0
    low, high = 0.0, _NEVER
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if expected_share(middle, sizes) > share else (low, middle)
    return 0.5 * (low + high)


def expected_share(cost: float, sizes: np.ndarray) -> float:
    """Return the share of labels expected to move where each that does costs so many nats.

    Of m labels, C(m, k) D(k) matchings move k; D(k) = k! Σ (−1)ⁱ/i! are derangements.

    >>> round(expected_share(0.0, np.array([3])), 6)  # on average one of three stays in place
    0.666667
    """
    moved = 0.0
    values, counts = np.unique(sizes, return_counts=True)
    for m, n_bags in zip(values.tolist(), counts.tolist(), strict=True):
        k = np.arange(m + 1)
        signs = np.cumsum((-1.0) ** k * np.exp(-gammaln(k + 1.0)))
        with np.errstate(divide="ignore"):  # no matching moves one label alone
            weights = gammaln(m + 1.0) - gammaln(m - k + 1.0) + np.log(np.maximum(signs, 0.0))
        weights = weights - cost * k
        mass = np.exp(weights - weights.max())
        moved += n_bags * float((mass * k).sum() / mass.sum())
    return moved / float(np.sum(sizes))
