"""Algorithm 1: descent from many starts, every outcome kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unshuffle.core.bags import Bags
from unshuffle.core.losses import Loss, Moments, Squared
from unshuffle.core.problem import Evaluate, Problem
from unshuffle.core.products import multiply, solve_rows
from unshuffle.core.solution import Solution, Status, merge_starts
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.errors import InputError
from unshuffle.solvers.descent import descend, search_without_slopes

# Predictions that differ by less than this (root mean square, in label spreads) are one answer.
# At the default tol, end points of one basin lie within 0.003 of each other.
SAME_ANSWER = 0.01
# Only the best few decide anything, so only they are searched around and driven to the last
# digit. A step aside of a few times the remaining gap (the root of the value) leaves the small
# dents of a basin without leaving the basin: at n = 1000, d = 5 two rounds of six bring the best
# value of 50 starts another 2 to 7 % down for half as many evaluations again.
N_POLISHED = 5
POLISH_TOL = 1e-18
ASIDE, N_ASIDE = (4.0, 2.0), 6
# So many points are tried for each start, and the lowest go on: for the price of two or three
# steps of descent the starts begin lower and end sooner. At n = 1000, d = 5 it brings the best
# value of 50 starts 10 % down at the same total cost.
SCREENED = 8
# Starts come in batches until the best value was reached this often, or the limit is spent.
BATCH, ENOUGH_ARRIVALS, MAX_STARTS = 32, 3, 512
# Rows × starts that the search may sort before it settles for fewer starts.
MAX_WORK = 6_000_000
# Above this many rows the starts compete on a sample of 5 000, the best ten are judged on as many
# rows as this (the lowest, at most three, descend there) and then on all of them, beside the best
# answers of moments and bag means. There the six to eight lowest finish, and the best steps aside:
# of 14 tries (50 000 rows, d = 5, 20 bags, 15 dB) 7 ended more than a tenth above the value that is
# reached from the truth where the sample's answers alone were carried over.
THIN_ABOVE, THIN_TO, N_CARRIED, N_REFINED = 40_000, 5_000, 10, 3
N_MET, LEAST_FINISHED, MOST_FINISHED = 4, 6, 8


@dataclass(frozen=True, eq=False)
class Space:
    """Where a search moves: coordinates, their embedding into weights, and their geometry."""

    evaluate: Evaluate
    draw: Callable[[int, bool], np.ndarray]
    embed: Callable[[np.ndarray], np.ndarray]
    inverse: np.ndarray
    l1: np.ndarray
    curvature: np.ndarray
    normals: Callable[[tuple[int, ...]], np.ndarray]


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
        return solve(problem, rng, effort)


def solve(problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
    """Minimise a problem from many starts; losses without slope are finished without one."""
    if problem.loss.is_smooth:
        return solve_smooth(problem, rng, effort)
    # A loss that is flat almost everywhere leads nowhere by itself: LS brings the starts near.
    stand_in = problem.with_loss(Squared()) if problem.loss.is_flat else problem
    return _finish_without_slopes(problem, solve_smooth(stand_in, rng, effort), rng)


def solve_smooth(problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
    """Minimise a problem by descent; very long data compete on a sample first."""
    if problem.bags.n <= THIN_ABOVE or not problem.loss.is_sorted:
        return search(make_space(problem, rng), effort, problem.bags.n)
    return solve_thinned(
        problem, lambda n: problem.with_bags(problem.bags.thin(n, rng)), rng, effort
    )


def solve_thinned(
    problem: Problem,
    thin: Callable[[int], Problem],
    rng: np.random.Generator,
    effort: Effort,
    whole: Effort | None = None,
) -> Solution:
    """Search on samples of so many rows, and go on from the best on all of them.

    `whole` is the effort on all rows, where it is another.
    """
    few = thin(THIN_TO)
    rough = search(make_space(few, rng), effort, few.bags.n)
    better = refine(make_space(thin(THIN_ABOVE), rng), rough, effort)
    space = make_space(problem, rng)
    others = _meet_moments(problem, rng, effort)
    whole = whole or effort
    effort.report("descending on all rows", 0.0)
    found = refine(space, better, whole, others, LEAST_FINISHED, MOST_FINISHED)
    effort.report("descending on all rows", 0.5)
    settled = _settle(space, found, whole)
    effort.report("descending on all rows", 1.0)
    return settled


def _meet_moments(problem: Problem, rng: np.random.Generator, effort: Effort) -> np.ndarray:
    """Return the answers (k, d) of the moments of all rows, and of the means of bags.

    They see every row where a sample sees a few: among a million rows they lie in the basin of the
    best answer where those of 5 000 often do not.
    """
    moments = problem.with_loss(Moments())
    found = search(make_space(moments, rng), effort, THIN_TO)
    means = draw_starts(problem, 1, True, rng)
    return np.concatenate([means, *(c.weights[None] for c in found.candidates[:N_MET])])


def _settle(space: Space, found: Solution, effort: Effort) -> Solution:
    """Leave the small dents of the best answer's basin."""
    best, rest = found.candidates[0], found.candidates[1:]
    weights, values, n_evaluations = best.weights[None], np.array([best.value]), 0
    for size in ASIDE:
        weights, values, n_more = step_aside(space, weights, values, size, effort)
        n_evaluations += n_more
    stats = dict(found.stats)
    stats["n_evaluations"] += n_evaluations
    weights = np.concatenate([weights, *(c.weights[None] for c in rest)])
    values = np.append(values, [c.value for c in rest])
    counts = [c.n_starts for c in found.candidates]
    return _gather(found, weights, values, counts, space.curvature, stats)


def make_space(problem: Problem, rng: np.random.Generator) -> Space:
    """Search over the weights themselves."""
    return Space(
        evaluate=problem.smooth,
        draw=lambda n, is_first: draw_starts(problem, n, is_first, rng),
        embed=lambda w: w,
        inverse=0.5 * np.linalg.pinv(problem.curvature, rcond=1e-10, hermitian=True),
        l1=problem.penalty.l1,
        curvature=problem.curvature,
        normals=rng.standard_normal,
    )


def draw_starts(
    problem: Problem, n_starts: int, is_first: bool, rng: np.random.Generator
) -> np.ndarray:
    """Draw starts: the bag means once, then points on the sphere of the first two moments.

    The sphere fixes the scale and two of the d dimensions; where no real weights meet both
    moments it has no radius, and the spread of the labels takes its place.
    """
    sphere = problem.sphere
    directions = rng.standard_normal((n_starts, sphere.basis.shape[1]))
    if sphere.radius > 0:
        starts = sphere.on_sphere(directions)
    else:
        starts = sphere.on_plane(directions * label_spread(problem.bags))
    if is_first:
        rows, labels = problem.bags.bag_means()
        root = np.sqrt(problem.bags.statistics.weights)
        starts[0] = solve_rows(rows * root[:, None], labels * root, 1e-10)[0]
    return starts


def label_spread(bags: Bags) -> float:
    """Return the sd of the labels."""
    stats = bags.statistics
    return float(np.sqrt(stats.average_labels((bags.y - stats.label_mean) ** 2)))


def search(space: Space, effort: Effort, n_rows: int) -> Solution:
    """Run batches of starts to their ends, merge them, and polish the best."""
    limit = effort.n_starts or int(np.clip(MAX_WORK // n_rows, BATCH, MAX_STARTS))
    batch = effort.n_starts or BATCH
    ends: list[np.ndarray] = []
    values: list[np.ndarray] = []
    converged: list[np.ndarray] = []
    n_evaluations = 0
    while True:
        starts = _screen(space, batch, not ends)
        found = descend(space.evaluate, starts, space.inverse, space.l1, effort.tol, effort.n_jobs)
        ends.append(found.weights)
        values.append(found.values)
        converged.append(found.is_converged)
        n_evaluations += found.n_evaluations
        weights = space.embed(np.concatenate(ends))
        all_values = np.concatenate(values)
        candidates = merge_starts(weights, all_values, space.curvature, SAME_ANSWER)
        n_starts = len(all_values)
        effort.report("descending from many starts", min(1.0, n_starts / limit))
        if n_starts >= limit or (candidates and candidates[0].n_starts >= ENOUGH_ARRIVALS):
            break
    if not candidates:
        raise InputError(
            "no start reached a finite value: look for columns or labels that are many orders of "
            "magnitude larger than the rest"
        )
    stats = {
        "n_starts": n_starts,
        "n_converged": int(np.concatenate(converged).sum()),
        "n_evaluations": n_evaluations,
        "n_candidates": len(candidates),
    }
    best = int(np.argmin(all_values))
    if not np.concatenate(converged)[best]:
        status = Status.UNFINISHED
    else:
        status = Status.AGREED if candidates[0].n_starts > 1 else Status.LONELY
    rough = Solution(candidates, status, stats, np.sort(all_values))
    rows = [int(np.argmax((weights == c.weights).all(axis=1))) for c in candidates[:N_POLISHED]]
    return _polish(space, rough, np.concatenate(ends)[rows], effort)


def _screen(space: Space, n_starts: int, is_first: bool) -> np.ndarray:
    """Draw points and keep the lowest; the very first point drawn, the bag means, always stays."""
    points = space.draw(SCREENED * n_starts, is_first)
    values = space.evaluate(points)[0] + (space.l1 * np.abs(points)).sum(axis=1)
    if is_first:
        values[0] = -np.inf
    return points[np.sort(np.argsort(values, kind="stable")[:n_starts])]


def refine(
    space: Space,
    rough: Solution,
    effort: Effort,
    others: np.ndarray | None = None,
    least: int = 1,
    most: int = N_REFINED,
) -> Solution:
    """Carry the best candidates of a sample, and other answers, over to more rows.

    All are judged on the new rows; the `least` lowest descend side by side, and then the lowest
    one by one, until the lowest has descended.
    """
    top = rough.candidates[:N_CARRIED]
    weights = np.stack([c.weights for c in top])
    if others is not None:
        weights = np.concatenate([weights, others])
    values = space.evaluate(weights)[0] + (space.l1 * np.abs(weights)).sum(axis=1)
    is_done = np.zeros(len(weights), dtype=bool)
    n_evaluations = len(weights)
    chosen = np.argsort(values, kind="stable")[:least]
    while len(chosen):
        found = descend(
            space.evaluate, weights[chosen], space.inverse, space.l1, effort.tol, effort.n_jobs
        )
        weights[chosen], values[chosen], is_done[chosen] = found.weights, found.values, True
        n_evaluations += found.n_evaluations
        best = int(np.argmin(values))
        chosen = np.array([] if is_done[best] or is_done.sum() >= most else [best], dtype=int)
    stats = dict(rough.stats)
    stats["n_evaluations"] += n_evaluations
    counts = [c.n_starts for c in top] + [1] * (len(weights) - len(top))
    return _gather(rough, weights, values, counts, space.curvature, stats)


def _polish(space: Space, rough: Solution, coordinates: np.ndarray, effort: Effort) -> Solution:
    """Search around the best candidates, then drive them to the last digit."""
    top = rough.candidates[:N_POLISHED]
    values = np.array([c.value for c in top])
    n_evaluations = 0
    for size in ASIDE:
        coordinates, values, n_more = step_aside(space, coordinates, values, size, effort)
        n_evaluations += n_more
    found = descend(space.evaluate, coordinates, space.inverse, space.l1, POLISH_TOL, effort.n_jobs)
    rest = rough.candidates[N_POLISHED:]
    weights = np.concatenate([space.embed(found.weights), *(c.weights[None] for c in rest)])
    values = np.concatenate([found.values, [c.value for c in rest]])
    counts = [c.n_starts for c in rough.candidates]
    stats = dict(rough.stats)
    stats["n_evaluations"] += n_evaluations + found.n_evaluations
    return _gather(rough, weights, values, counts, space.curvature, stats)


def _gather(
    rough: Solution,
    weights: np.ndarray,
    values: np.ndarray,
    counts: list[int],
    curvature: np.ndarray,
    stats: dict[str, Any],
) -> Solution:
    """Merge candidates that a finer search has brought together, and count their starts anew."""
    candidates = merge_starts(weights, values, curvature, SAME_ANSWER, counts)
    stats["n_candidates"] = len(candidates)
    is_agreed = rough.status is Status.LONELY and candidates[0].n_starts > 1
    status = Status.AGREED if is_agreed else rough.status
    return Solution(candidates, status, stats, rough.start_values)


def step_aside(
    space: Space, coordinates: np.ndarray, values: np.ndarray, size: float, effort: Effort
) -> tuple[np.ndarray, np.ndarray, int]:
    """Descend again from points around each candidate; keep what is lower."""
    n, k = coordinates.shape
    eigenvalues, vectors = np.linalg.eigh(2 * space.inverse)
    spread = vectors * np.sqrt(np.maximum(eigenvalues, 0.0)) / np.sqrt(k)
    steps = multiply(space.normals((n, N_ASIDE, k)), spread.T)
    steps *= size * np.sqrt(np.minimum(values, 1.0))[:, None, None]
    # Weights that the penalty set to zero stay there.
    steps *= ((space.l1 == 0) | (coordinates != 0))[:, None]
    found = descend(
        space.evaluate,
        (coordinates[:, None] + steps).reshape(-1, k),
        space.inverse,
        space.l1,
        effort.tol,
        effort.n_jobs,
    )
    ends = found.values.reshape(n, N_ASIDE)
    best = ends.argmin(axis=1)
    lowest = ends[np.arange(n), best]
    is_lower = lowest < values
    moved = found.weights.reshape(n, N_ASIDE, k)[np.arange(n), best]
    return (
        np.where(is_lower[:, None], moved, coordinates),
        np.where(is_lower, lowest, values),
        found.n_evaluations,
    )


def _finish_without_slopes(problem: Problem, rough: Solution, rng: np.random.Generator) -> Solution:
    """Carry the best candidates of a smooth stand-in on by the loss itself."""
    starts = np.stack([c.weights for c in rough.candidates[: 2 * N_POLISHED]])
    values, vectors = np.linalg.eigh(problem.curvature)
    keep = values > 1e-10 * values.max()
    spread = vectors[:, keep] / np.sqrt(values[keep]) * np.std(problem.bags.y)

    def value(weights: np.ndarray) -> np.ndarray:
        return problem.smooth(weights)[0] + problem.penalty.kinks(weights)[0]

    weights, ends, n_evaluations = search_without_slopes(
        value, starts, spread, problem.penalty.l1, rng
    )
    counts = [c.n_starts for c in rough.candidates[: len(starts)]]
    stats = dict(rough.stats)
    stats["n_evaluations"] += n_evaluations
    solution = _gather(rough, weights, ends, counts, problem.curvature, stats)
    return replace(solution, start_values=np.sort(ends))
