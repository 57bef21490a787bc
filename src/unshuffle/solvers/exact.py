"""Least squares by enumeration of every permutation, for the smallest data.

It is the maximum likelihood estimator of Pananjady, Wainwright and Courtade (2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product
from math import factorial, lgamma, log, prod
from typing import ClassVar

import numpy as np

from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.data.bags import Bags
from unshuffle.data.products import multiply
from unshuffle.errors import InputError
from unshuffle.objectives.problem import Problem

# Rows of one bag that can be enumerated.
MAX_ROWS = 8
MAX_PERMUTATIONS = factorial(MAX_ROWS)


@dataclass(frozen=True)
class Exact(Strategy):
    """Try every permutation; for at most eight rows.

    Examples
    --------
    >>> from unshuffle import Bag, fit
    >>> bag = Bag([[0.0], [1.0], [3.0]], [7.0, 3.0, 1.0])
    >>> fit([bag], method=Exact()).weights.round(6).tolist()
    [2.0, 1.0]
    """

    takes_penalty: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = False
    why_plain: ClassVar[str | None] = "it tries every matching of labels to rows"
    compared_rows: ClassVar[int | None] = MAX_ROWS

    @property
    def name(self) -> str:
        return "exact"

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        return solve(problem.bags)

    def noise_moments(self, bags: Bags) -> int:
        return 0


def solve(bags: Bags) -> Solution:
    """Fit least squares to every matching of labels to rows, and keep the best."""
    log_matchings = count_matchings(bags)
    if log_matchings > log(MAX_PERMUTATIONS) + 1e-9:
        raise InputError(
            "method 'exact' tries every matching, and these bags have about "
            f"10^{log_matchings / log(10):.0f}: it is for one bag of at most 8 rows, or several "
            "smaller ones; use method 'ls'"
        )
    weights, values = fit_matchings(bags)
    # Matchings kept as candidates.
    best = np.argsort(values, kind="stable")[:10]
    candidates = tuple(Candidate(weights[i], float(values[i])) for i in best)
    n_matchings = prod(factorial(size) for size in bags.sizes.tolist())
    return Solution(candidates, Status.EXACT, Stats(n_starts=0, n_matchings=n_matchings))


def count_matchings(bags: Bags) -> float:
    """Return the logarithm of the number of matchings."""
    return sum(lgamma(size + 1.0) for size in bags.sizes.tolist())


def fit_matchings(bags: Bags) -> tuple[np.ndarray, np.ndarray]:
    """Return the least-squares weights of every matching, and their mean squared gaps."""
    project = np.linalg.pinv(bags.X)
    places = [
        list(permutations(range(start, stop)))
        for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)
    ]
    orders = np.array([sum(choice, ()) for choice in product(*places)], dtype=int)
    labels = bags.y[orders]
    weights = multiply(labels, project.T)
    values = ((labels - multiply(weights, bags.columns)) ** 2).mean(axis=1)
    return weights, values
