"""Regression of bag means on bag means: ecological regression (Robinson 1950; Goodman 1953).

Bag means do not depend on the order of the labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import BlockStrategy, Effort, Task
from unshuffle.core.uncertainty import StudentT
from unshuffle.data.bags import Bags
from unshuffle.data.products import condense, dot, predict_rows, solve_rows
from unshuffle.errors import InputError
from unshuffle.objectives.block_moments import BlockProblem, measure_moments
from unshuffle.objectives.problem import PooledBags, Problem
from unshuffle.options import FitOptions


@dataclass(frozen=True)
class Means(BlockStrategy):
    """Regress the mean labels of the bags on their mean rows.

    Examples
    --------
    >>> from unshuffle import Bag, fit
    >>> bags = [Bag([[0.0], [2.0]], [5.0, 1.0]), Bag([[4.0]], [9.0])]
    >>> fit(bags, method=Means()).weights.round(6).tolist()
    [2.0, 1.0]
    """

    takes_penalty: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = False
    takes_known_means: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "means"

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        return solve_means(problem.bags)

    def noise_moments(self, bags: Bags) -> int:
        return 0

    def for_blocks(self, options: FitOptions) -> BlockStrategy:
        return self

    def prepare_blocks(self, problem: BlockProblem, effort: Effort) -> Task:
        first, scaling = problem.first, problem.scaling
        return lambda rng: solve_means(measure_moments(first, scaling, 2, effort.report))


def solve_means(bags: PooledBags) -> Solution:
    """Regress mean labels on mean rows, bags weighted by their size: w = argmin Σ nᵣ(ȳᵣ − x̄ᵣᵀw)².

    It is unbiased whatever the noise, since a mean does not depend on the order. It needs at least
    as many bags with different means as there are weights.
    """
    if bags.n_bags < bags.d:
        raise InputError(
            f"method 'means' needs at least as many bags as weights: there are {bags.n_bags} bags "
            f"for {bags.d} weights (the intercept counts); add bags, or use method 'ls'"
        )
    rows, labels = bags.bag_means()
    root = np.sqrt(bags.statistics.weights)
    design = rows * root[:, None]
    weights, rank = solve_rows(design, labels * root, 1e-10)
    if rank < bags.d:
        raise InputError(
            f"the means of the bags span only {rank} of {bags.d} directions (the intercept "
            "counts): use bags that differ, fewer features, or method 'ls'"
        )
    gaps = (labels - predict_rows(rows, weights)) * root
    value = dot(gaps, gaps) / float(bags.statistics.weights.sum())
    # Means of n labels have variance σ²/n, so the weighted residuals measure σ itself.
    dof = bags.n_bags - bags.d
    sd = float(np.sqrt(dot(gaps, gaps) / dof)) if dof > 0 else 0.0
    # Steps whose products add up to sd² (XᵀX)⁻¹; not from XᵀX itself, whose rounding swallows what
    # is left of nearly collinear columns.
    _, sizes, axes = np.linalg.svd(condense(design, np.zeros(len(design)))[0])
    unsure = StudentT(weights, sd * axes / sizes[:, None], dof, sd if dof > 0 else None)
    return Solution(
        (Candidate(weights, value),), Status.EXACT, Stats(n_starts=0), uncertainty=unsure
    )


def solve_linked(bags: Bags) -> Solution | None:
    """Return ordinary least squares of linked pairs; None where the columns are collinear."""
    try:
        found = solve_means(bags)
    except InputError:
        return None
    return replace(found, stats=replace(found.stats, method=Means().name))
