"""Every permutation, one by one: the oracle for the smallest data."""

from __future__ import annotations

from itertools import permutations, product
from math import factorial, lgamma, log, prod

import numpy as np

from unshuffle.bags import Bags
from unshuffle.errors import InputError
from unshuffle.products import multiply
from unshuffle.solution import Candidate, Solution, Status

MAX_PERMUTATIONS = factorial(8)
_KEPT = 10


def solve(bags: Bags) -> Solution:
    """Fit least squares to every matching of labels to rows, and keep the best."""
    log_matchings = sum(lgamma(size + 1.0) for size in bags.sizes.tolist())
    if log_matchings > log(MAX_PERMUTATIONS) + 1e-9:
        raise InputError(
            "method 'exact' tries every matching, and these bags have about "
            f"10^{log_matchings / log(10):.0f}: it is for one bag of at most 8 rows, or several "
            "smaller ones; use method 'ls'"
        )
    n_matchings = prod(factorial(size) for size in bags.sizes.tolist())
    project = np.linalg.pinv(bags.X)
    places = [
        list(permutations(range(start, stop)))
        for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)
    ]
    orders = np.array([sum(choice, ()) for choice in product(*places)], dtype=int)
    labels = bags.y[orders]
    weights = multiply(labels, project.T)
    values = ((labels - multiply(weights, bags.columns)) ** 2).mean(axis=1)
    best = np.argsort(values, kind="stable")[:_KEPT]
    candidates = tuple(Candidate(weights[i], float(values[i])) for i in best)
    return Solution(candidates, Status.EXACT, {"n_starts": 0, "n_matchings": n_matchings})
