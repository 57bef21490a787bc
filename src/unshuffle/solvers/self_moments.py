"""Self-moments (SM; Abid, Poon and Zou 2017): closed forms where they exist, else a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.data.bags import Bags
from unshuffle.objectives.losses import Loss, Moments
from unshuffle.objectives.problem import Problem
from unshuffle.options import FitOptions
from unshuffle.solvers import closed_form, multistart


@dataclass(frozen=True)
class SelfMoments(Strategy):
    """Let the first K moments of predictions and labels agree."""

    criterion: Moments
    needs_rows: ClassVar[bool] = False
    has_roots: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return self.criterion.name

    @property
    def loss(self) -> Loss:
        return self.criterion

    def noise_moments(self, bags: Bags) -> int:
        return max(2, self.criterion.n_moments(bags.d, bags.n_bags))

    def reads_blocks(self, options: FitOptions) -> bool:
        return True

    def block_degree(self, d: int, n_bags: int) -> int:
        return self.criterion.n_moments(d, n_bags)

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        bags, loss = problem.bags, self.criterion
        n_moments = loss.n_moments(bags.d, bags.n_bags)
        has_kinks = bool(problem.penalty.l1.any())
        if n_moments == 1 and not has_kinks:
            return closed_form.solve_first_moment(problem, loss)
        is_closed = bags.d == 2 and n_moments == 2 and bags.n_bags == 1
        # LS chooses between the two roots; data in blocks do that afterwards.
        if is_closed and isinstance(bags, Bags) and not problem.penalty.is_active:
            solution = closed_form.solve_two_moments(problem)
            if solution is not None:
                return solution
        return multistart.solve(problem, rng, effort)
