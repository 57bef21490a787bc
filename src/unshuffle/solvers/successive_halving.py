"""LS of many rows: search samples, then successive halving of the candidates on all rows.

Starting points are searched on a small sample. The best minima descend on a larger one. What is
left, with the estimates of moments and of bag means, descends on all rows: after each stage the
lower half, or less, goes on (successive halving, Karnin et al. 2013; Jamieson and Talwalkar 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import Effort
from unshuffle.objectives.block_moments import BlockProblem, measure_moments
from unshuffle.objectives.block_sorted import (
    SortedObjective,
    draw_subsample,
    make_sorted_objective,
)
from unshuffle.objectives.losses import Loss, Moments
from unshuffle.objectives.moments import count_monomials
from unshuffle.objectives.problem import Curve, Objective, Problem
from unshuffle.solvers.descent import descend
from unshuffle.solvers.levenberg_marquardt import Descents, descend_damped
from unshuffle.solvers.local_search import (
    BRIEF,
    Space,
    draw_starts,
    gather_ends,
    make_space,
    perturb,
    search,
)


@dataclass(frozen=True)
class HalvingSettings:
    """Sizes of the samples, and how many candidates descend how far on all rows.

    docs/decisions/030-numbers-of-the-solvers.md has the measurements.

    Attributes
    ----------
    sample_rows : int
        Rows of the sample on which starting points are searched.
    large_rows : int
        Rows of the larger sample; up to so many rows there are no samples.
    n_starts : int
        Most starting points on the sample.
    n_carried : int
        Best minima of the sample that go on to the larger one, and the most that go on from there.
    smooth_rows : int
        From so many rows on, the estimates of moments are as good as minima of samples, and LS is
        so smooth that one size of perturbation is enough.
    n_moments : int
        Estimates of the moments of all rows that go on beside the minima of samples.
    n_moments_curved : int
        The same where curvatures are known, and descents are short.
    max_monomials : int
        The number of moments is reduced until they have no more monomials than this.
    work : int
        Most rows times candidates of samples on all rows.
    per_share : int
        With each so many candidates of samples, every stage keeps one share more.
    stages : tuple of int
        Shares of the candidates that descend in each stage after the first, which has all.
    tolerances : tuple of float
        Tolerance of BFGS in each stage, relative to that of the search; Levenberg–Marquardt has the
        last one.
    passes : tuple of int
        Evaluations of Levenberg–Marquardt in each of its stages.
    limits : tuple of float
        A Levenberg–Marquardt descent is dropped when its value is above the lowest times the first
        limit after one evaluation, the second after two, and so on; the last limit stays.
    """

    sample_rows: int = 5_000
    large_rows: int = 40_000
    n_starts: int = 96
    n_carried: int = 24
    smooth_rows: int = 500_000
    n_moments: int = 4
    n_moments_curved: int = 12
    max_monomials: int = 1000
    work: int = 1_500_000
    per_share: int = 6
    stages: tuple[int, ...] = (4, 2, 1)
    tolerances: tuple[float, ...] = (10.0, 1.0, 0.1, 0.01)
    passes: tuple[int, ...] = (6, 4, 30)
    limits: tuple[float, ...] = (160.0, 28.0, 16.0, 12.0)


HALVING = HalvingSettings()


def sort_blocks(
    problem: BlockProblem, loss: Loss, effort: Effort
) -> tuple[SortedObjective, Effort]:
    """Return LS or EMD of data in blocks, and the effort of a search over all rows.

    Points share a pass, whose threads are those of the source.
    """
    n_moments = choose_moments(problem.d, problem.n_bags).n_moments(problem.d, problem.n_bags)
    bags = measure_moments(problem.first, problem.scaling, n_moments, effort.report)
    objective = make_sorted_objective(problem, bags, loss)
    return objective, effort if objective.is_in_memory else replace(effort, n_jobs=None)


def solve_blocks(
    problem: BlockProblem, loss: Loss, rng: np.random.Generator, effort: Effort
) -> Solution:
    """Minimise LS or EMD of data in blocks, from samples of the rows."""
    objective, whole = sort_blocks(problem, loss, effort)

    def subsample(n_rows: int) -> Problem:
        bags = draw_subsample(problem.first, problem.scaling, n_rows)
        return Problem(bags, loss, None, problem.penalty, objective.has_intercept)

    return solve_on_samples(objective, subsample, rng, effort, whole)


def solve_on_samples(
    problem: Objective,
    subsample: Callable[[int], Problem],
    rng: np.random.Generator,
    effort: Effort,
    whole: Effort | None = None,
) -> Solution:
    """Search samples of the rows, and descend from their best minima on all rows.

    `subsample` returns the problem on a sample of so many rows. `whole` is the effort on all rows,
    where it is another.
    """
    few, space = subsample(HALVING.sample_rows), make_space(problem, rng)
    n_starts, n_carried = HALVING.n_starts, HALVING.n_carried
    if space.curve is not None and problem.bags.n >= HALVING.smooth_rows:
        # The estimates of moments are better there; few minima of samples are needed.
        n_starts, n_carried = n_starts // 3, n_carried // 4
    rough = search(make_space(few, rng), effort, few.bags.n, most=n_starts, is_rough=True)
    better = descend_on_sample(
        make_space(subsample(HALVING.large_rows), rng), rough, effort, n_carried
    )
    others = _solve_moments(problem, rng, effort)
    whole = whole or effort
    effort.report("descending on all rows", 0.0)
    if space.curve is not None:
        settled = halve_with_damping(space, space.curve, better, others, whole, problem.bags.n)
        effort.report("descending on all rows", 1.0)
        return settled
    found = halve_with_bfgs(space, better, others[: 1 + HALVING.n_moments], whole, problem.bags.n)
    effort.report("descending on all rows", 0.5)
    sizes = BRIEF.steps if problem.bags.n < HALVING.smooth_rows else BRIEF.steps[-1:]
    settled = _refine_best(space, found, whole, sizes)
    effort.report("descending on all rows", 1.0)
    return settled


def descend_on_sample(space: Space, rough: Solution, effort: Effort, n_carried: int) -> Solution:
    """Descend on a larger sample from the best candidates of a smaller one."""
    best = rough.candidates[:n_carried]
    weights = np.stack([c.weights for c in best])
    found = descend(space.evaluate, weights, space.inverse, space.l1, effort.tol, effort.n_jobs)
    stats = rough.stats.more_evaluations(found.n_evaluations)
    counts = [c.n_starts for c in best]
    return gather_ends(rough, found.weights, found.values, counts, space.curvature, stats)


def choose_moments(d: int, n_bags: int) -> Moments:
    """Return the moment loss whose estimates descend on all rows: as many moments as are cheap."""
    wanted = Moments().n_moments(d, n_bags)
    while wanted > 2 and count_monomials(d, wanted) > HALVING.max_monomials:
        wanted -= 1
    return Moments(K=wanted)


def _solve_moments(problem: Objective, rng: np.random.Generator, effort: Effort) -> np.ndarray:
    """Return the estimates (k, d) by moments of all rows, after that by the means of bags.

    They use every row. With a million rows they lie in the local minimum of the best answer, where
    minima of 5 000 rows often do not.
    """
    moments = problem.with_loss(choose_moments(problem.bags.d, problem.bags.n_bags))
    n_rows, most = HALVING.sample_rows, HALVING.n_starts
    found = search(make_space(moments, rng), effort, n_rows, most=most)
    means = draw_starts(problem, 1, True, rng)
    best = found.candidates[: HALVING.n_moments_curved]
    return np.concatenate([means, *(c.weights[None] for c in best)])


def _count_candidates(n_rows: int) -> tuple[int, int]:
    """Return how many candidates of samples descend on all rows, and the size of a share."""
    n_candidates = int(np.clip(HALVING.work // n_rows, 1, HALVING.n_carried))
    return n_candidates, max(1, n_candidates // HALVING.per_share)


def halve_with_bfgs(
    space: Space, rough: Solution, others: np.ndarray, effort: Effort, n_rows: int
) -> Solution:
    """Descend on all rows by BFGS: fewer candidates in each stage, to a smaller tolerance.

    Each candidate keeps its approximation of the inverse Hessian from stage to stage.
    """
    n_candidates, share = _count_candidates(n_rows)
    best = rough.candidates[: 2 * n_candidates]
    weights = np.concatenate([*(c.weights[None] for c in best), others])
    values = np.full(len(weights), -np.inf)  # keeps the others in the first stage
    drawn = slice(0, len(best))
    kinks = (space.l1 * np.abs(weights[drawn])).sum(axis=1)
    values[drawn] = space.evaluate(weights[drawn])[0] + kinks
    inverses = np.repeat(space.inverse[None], len(weights), axis=0)
    n_evaluations = len(best)
    n_left = [n_candidates + len(others)]
    n_left += [share * k if k > 1 else 1 for k in HALVING.stages]
    for k, factor in zip(n_left, HALVING.tolerances, strict=True):
        chosen = np.argsort(values, kind="stable")[:k]
        found = descend(
            space.evaluate, weights[chosen], inverses[chosen], space.l1, effort.tol * factor,
            effort.n_jobs,
        )  # fmt: skip
        weights[chosen], values[chosen] = found.weights, found.values
        inverses[chosen] = found.inverses
        n_evaluations += found.n_evaluations
    stats = rough.stats.more_evaluations(n_evaluations)
    counts = [c.n_starts for c in best] + [1] * len(others)
    return gather_ends(rough, weights, values, counts, space.curvature, stats)


def halve_with_damping(
    space: Space, curve: Curve, rough: Solution, others: np.ndarray, effort: Effort, n_rows: int
) -> Solution:
    """Descend on all rows by Levenberg–Marquardt: more candidates, fewer evaluations of each."""
    n_candidates, share = _count_candidates(n_rows)
    best = rough.candidates[: 2 * n_candidates]
    starts = np.concatenate([others, *(c.weights[None] for c in best)])
    descents, chosen = Descents.begin(curve, starts), np.arange(len(starts))
    tol = effort.tol * HALVING.tolerances[-1]
    limits: Sequence[float] = HALVING.limits
    for k, n_passes in zip((len(starts), *HALVING.stages), HALVING.passes, strict=False):
        chosen = chosen[np.argsort(descents.values[chosen], kind="stable")[: share * k]]
        descents = descend_damped(curve, descents, chosen, space.curvature, tol, n_passes, limits)
        limits = limits[-1:]
    stats = rough.stats.more_evaluations(descents.n_evaluations)
    counts = [1] * len(others) + [c.n_starts for c in best]
    return gather_ends(rough, descents.weights, descents.values, counts, space.curvature, stats)


def _refine_best(space: Space, found: Solution, effort: Effort, sizes: Sequence[float]) -> Solution:
    """Refine the best candidate by perturbations of some sizes."""
    best, rest = found.candidates[0], found.candidates[1:]
    weights, values, n_evaluations = best.weights[None], np.array([best.value]), 0
    for size in sizes:
        weights, values, n_more = perturb(space, weights, values, size, effort)
        n_evaluations += n_more
    stats = found.stats.more_evaluations(n_evaluations)
    weights = np.concatenate([weights, *(c.weights[None] for c in rest)])
    values = np.append(values, [c.value for c in rest])
    counts = [c.n_starts for c in found.candidates]
    return gather_ends(found, weights, values, counts, space.curvature, stats)
