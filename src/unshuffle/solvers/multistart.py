"""Algorithm 1: minimise any loss from many starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.objectives.losses import Loss, Squared
from unshuffle.objectives.problem import Problem
from unshuffle.solvers.descent import search_without_slopes
from unshuffle.solvers.searching import (
    BRIEF,
    SAME_ANSWER,
    THOROUGH,
    Care,
    Space,
    gather_ends,
    label_spread,
    make_space,
    search,
    step_aside,
)
from unshuffle.solvers.thinning import THIN_ABOVE, solve_thinned

__all__ = [
    "SAME_ANSWER", "Search", "Space", "label_spread", "make_space", "search", "solve", "step_aside",
]  # fmt: skip

# Candidates of a smooth stand-in that are finished without slopes.
N_FINISHED = 10


@dataclass(frozen=True)
class Search(Strategy):
    """Minimise a loss from many starts."""

    criterion: Loss

    @property
    def name(self) -> str:
        return self.criterion.name

    @property
    def loss(self) -> Loss:
        return self.criterion

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        return solve(problem, rng, effort, THOROUGH)


def solve(
    problem: Problem, rng: np.random.Generator, effort: Effort, care: Care = BRIEF
) -> Solution:
    """Minimise a problem from many starts; losses without slope are finished without one."""
    if problem.loss.is_smooth:
        return solve_smooth(problem, rng, effort, care)
    # A loss that is flat almost everywhere leads nowhere by itself: LS brings the starts near.
    stand_in = problem.with_loss(Squared()) if problem.loss.is_flat else problem
    return _finish_without_slopes(problem, solve_smooth(stand_in, rng, effort, care), rng)


def solve_smooth(
    problem: Problem, rng: np.random.Generator, effort: Effort, care: Care
) -> Solution:
    """Minimise a problem by descent; very long data compete on a sample first."""
    if problem.bags.n <= THIN_ABOVE or not problem.loss.is_sorted:
        return search(make_space(problem, rng), effort, problem.bags.n, care=care)
    return solve_thinned(
        problem, lambda n: problem.with_bags(problem.bags.thin(n, rng)), rng, effort
    )


def _finish_without_slopes(problem: Problem, rough: Solution, rng: np.random.Generator) -> Solution:
    """Carry the best candidates of a smooth stand-in on by the loss itself."""
    starts = np.stack([c.weights for c in rough.candidates[:N_FINISHED]])
    values, vectors = np.linalg.eigh(problem.curvature)
    keep = values > 1e-10 * values.max()
    spread = vectors[:, keep] / np.sqrt(values[keep]) * np.std(problem.bags.y)

    def value(weights: np.ndarray) -> np.ndarray:
        return problem.smooth(weights)[0] + problem.penalty.kinks(weights)[0]

    weights, ends, n_evaluations = search_without_slopes(
        value, starts, spread, problem.penalty.l1, rng
    )
    counts = [c.n_starts for c in rough.candidates[: len(starts)]]
    stats = rough.stats.more_evaluations(n_evaluations)
    solution = gather_ends(rough, weights, ends, counts, problem.curvature, stats)
    return replace(solution, start_values=np.sort(ends))
