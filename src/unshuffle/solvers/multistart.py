"""Algorithm 1 of Abid, Poon and Zou (2017): minimise a loss from many starting points."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import BlockStrategy, Effort, Task
from unshuffle.objectives.block_moments import BlockProblem
from unshuffle.objectives.losses import Loss, Squared
from unshuffle.objectives.problem import Problem
from unshuffle.options import FitOptions
from unshuffle.solvers.descent import search_by_compass
from unshuffle.solvers.local_search import (
    BRIEF,
    THOROUGH,
    SearchSettings,
    gather_ends,
    make_space,
    search,
)
from unshuffle.solvers.successive_halving import HALVING, solve_blocks, solve_on_samples


@dataclass(frozen=True)
class Search(BlockStrategy):
    """Minimise a loss from many starting points."""

    criterion: Loss

    @property
    def name(self) -> str:
        return self.criterion.name

    def for_blocks(self, options: FitOptions) -> BlockStrategy | None:
        # Cells do not spread predictions by noise.
        return self if self.criterion.is_counted and options.noise is None else None

    def prepare_blocks(self, problem: BlockProblem, effort: Effort) -> Task:
        return lambda rng: solve_blocks(problem, self.criterion, rng, effort)

    @property
    def loss(self) -> Loss:
        return self.criterion

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        return solve(problem, rng, effort, THOROUGH)


def solve(
    problem: Problem, rng: np.random.Generator, effort: Effort, settings: SearchSettings = BRIEF
) -> Solution:
    """Minimise a problem from many starting points; without gradients, end by compass search."""
    if problem.loss.is_smooth:
        return solve_smooth(problem, rng, effort, settings)
    # A loss that is flat almost everywhere gives no direction; LS finds starting points for it.
    stand_in = problem.with_loss(Squared()) if problem.loss.is_flat else problem
    return _finish_without_slopes(problem, solve_smooth(stand_in, rng, effort, settings), rng)


def solve_smooth(
    problem: Problem, rng: np.random.Generator, effort: Effort, settings: SearchSettings
) -> Solution:
    """Minimise a problem by descent; many rows are searched on samples first."""
    if problem.bags.n <= HALVING.large_rows or not problem.loss.is_sorted:
        return search(make_space(problem, rng), effort, problem.bags.n, settings=settings)
    return solve_on_samples(
        problem, lambda n: replace(problem, bags=problem.bags.subsample(n, rng)), rng, effort
    )


def _finish_without_slopes(problem: Problem, rough: Solution, rng: np.random.Generator) -> Solution:
    """Minimise the loss itself by compass search, from the best minima of a smooth stand-in."""
    # Minima of the smooth stand-in from which the compass search starts.
    starts = np.stack([c.weights for c in rough.candidates[:10]])
    values, vectors = np.linalg.eigh(problem.curvature)
    keep = values > 1e-10 * values.max()
    spread = vectors[:, keep] / np.sqrt(values[keep]) * np.std(problem.bags.y)

    def value(weights: np.ndarray) -> np.ndarray:
        return problem.smooth(weights)[0] + problem.penalty.kinks(weights)[0]

    weights, ends, n_evaluations = search_by_compass(value, starts, spread, problem.penalty.l1, rng)
    counts = [c.n_starts for c in rough.candidates[: len(starts)]]
    stats = rough.stats.more_evaluations(n_evaluations)
    solution = gather_ends(rough, weights, ends, counts, problem.curvature, stats)
    return replace(solution, start_values=np.sort(ends))
