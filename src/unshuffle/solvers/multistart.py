"""Algorithm 1: descent from many starts, every outcome kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unshuffle.losses import Moments, Squared
from unshuffle.problem import Evaluate, Problem
from unshuffle.solution import Candidate, Solution, Status, merge_starts
from unshuffle.solvers.descent import descend, search_without_slopes

# Predictions that differ by less than this (root mean square, in label spreads) are one answer.
# At the default tol, end points of one basin lie within 0.003 of each other.
SAME_ANSWER = 0.01
# Only the best few decide anything, so only they are driven to the last digit.
N_POLISHED = 5
POLISH_TOL = 1e-18
# Starts come in batches until the best value was reached this often, or the limit is spent.
BATCH, ENOUGH_ARRIVALS, MAX_STARTS = 32, 3, 512
# Rows × starts that the search may sort before it settles for fewer starts.
MAX_WORK = 6_000_000
# Above this many rows the starts compete on a sample, and the winners finish on all rows.
THIN_ABOVE, THIN_TO = 100_000, 20_000


@dataclass(frozen=True, eq=False)
class Space:
    """Where a search moves: coordinates, their embedding into weights, and their geometry."""

    evaluate: Evaluate
    draw: Callable[[int, bool], np.ndarray]
    embed: Callable[[np.ndarray], np.ndarray]
    inverse: np.ndarray
    l1: np.ndarray
    curvature: np.ndarray


@dataclass(frozen=True)
class Effort:
    """How hard to search: starts (None: until the best is confirmed), tolerance, threads."""

    n_starts: int | None = None
    tol: float = 1e-6
    n_jobs: int | None = None


def solve(problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
    """Minimise a problem from many starts; losses without slope are finished without one."""
    if problem.loss.is_smooth:
        return solve_smooth(problem, rng, effort)
    # A loss that is flat almost everywhere leads nowhere by itself: LS brings the starts near.
    stand_in = problem.with_loss(Squared()) if problem.loss.is_flat else problem
    return _finish_without_slopes(problem, solve_smooth(stand_in, rng, effort), rng)


def solve_smooth(problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
    """Minimise a problem by descent; very long data compete on a sample first."""
    if problem.bags.n <= THIN_ABOVE or isinstance(problem.loss, Moments):
        return search(make_space(problem, rng), effort, problem.bags.n)
    thin = problem.with_bags(problem.bags.thin(THIN_TO, rng))
    rough = search(make_space(thin, rng), effort, thin.bags.n)
    return refine(make_space(problem, rng), rough, effort)


def make_space(problem: Problem, rng: np.random.Generator) -> Space:
    """Search over the weights themselves."""
    return Space(
        evaluate=problem.smooth,
        draw=lambda n, is_first: draw_starts(problem, n, is_first, rng),
        embed=lambda w: w,
        inverse=0.5 * np.linalg.pinv(problem.curvature, rcond=1e-10, hermitian=True),
        l1=problem.penalty.l1,
        curvature=problem.curvature,
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
        starts = sphere.on_plane(directions * np.std(problem.bags.y))
    if is_first:
        rows, labels = problem.bags.bag_means()
        root = np.sqrt(problem.bags.sizes)
        means = np.linalg.lstsq(rows * root[:, None], labels * root, rcond=1e-10)[0]
        starts[0] = means
    return starts


def search(space: Space, effort: Effort, n_rows: int) -> Solution:
    """Run batches of starts to their ends, merge them, and polish the best."""
    limit = effort.n_starts or int(np.clip(MAX_WORK // n_rows, BATCH, MAX_STARTS))
    batch = effort.n_starts or BATCH
    ends: list[np.ndarray] = []
    values: list[np.ndarray] = []
    converged: list[np.ndarray] = []
    n_evaluations = 0
    while True:
        starts = space.draw(batch, not ends)
        found = descend(space.evaluate, starts, space.inverse, space.l1, effort.tol, effort.n_jobs)
        ends.append(found.weights)
        values.append(found.values)
        converged.append(found.is_converged)
        n_evaluations += found.n_evaluations
        weights = space.embed(np.concatenate(ends))
        all_values = np.concatenate(values)
        candidates = merge_starts(weights, all_values, space.curvature, SAME_ANSWER)
        n_starts = len(all_values)
        if n_starts >= limit or (candidates and candidates[0].n_starts >= ENOUGH_ARRIVALS):
            break
    if not candidates:
        raise FloatingPointError(
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
        status = Status.AGREED if candidates[0].n_starts > 1 or n_starts == 1 else Status.LONELY
    rough = Solution(candidates, status, stats, np.sort(all_values))
    coordinates = np.concatenate(ends)
    return _polish(space, rough, coordinates, weights, effort)


def refine(space: Space, rough: Solution, effort: Effort) -> Solution:
    """Carry the best candidates of a sample over to all rows."""
    weights = np.stack([c.weights for c in rough.candidates[:N_POLISHED]])
    found = descend(
        space.evaluate, weights, space.inverse, space.l1, effort.tol * 1e-3, effort.n_jobs
    )
    candidates = tuple(
        Candidate(w, float(v), c.n_starts)
        for w, v, c in zip(found.weights, found.values, rough.candidates, strict=False)
    )
    stats = dict(rough.stats, n_evaluations_on_all_rows=found.n_evaluations)
    ordered = tuple(sorted(candidates, key=lambda c: c.value))
    return Solution(ordered, rough.status, stats, rough.start_values)


def _polish(
    space: Space, rough: Solution, coordinates: np.ndarray, weights: np.ndarray, effort: Effort
) -> Solution:
    """Drive the best candidates to the last digit."""
    top = rough.candidates[:N_POLISHED]
    rows = [int(np.argmax((weights == c.weights).all(axis=1))) for c in top]
    found = descend(
        space.evaluate, coordinates[rows], space.inverse, space.l1, POLISH_TOL, effort.n_jobs
    )
    polished = [
        Candidate(w, float(v), c.n_starts)
        for w, v, c in zip(space.embed(found.weights), found.values, top, strict=True)
    ]
    candidates = sorted([*polished, *rough.candidates[N_POLISHED:]], key=lambda c: c.value)
    stats = dict(rough.stats)
    stats["n_evaluations"] += found.n_evaluations
    return Solution(tuple(candidates), rough.status, stats, rough.start_values)


def _finish_without_slopes(problem: Problem, rough: Solution, rng: np.random.Generator) -> Solution:
    """Carry the best candidates of a smooth stand-in on by the loss itself."""
    starts = np.stack([c.weights for c in rough.candidates[: 2 * N_POLISHED]])
    values, vectors = np.linalg.eigh(problem.curvature)
    keep = values > 1e-10 * values.max()
    spread = vectors[:, keep] / np.sqrt(values[keep]) * np.std(problem.bags.y)

    def value(weights: np.ndarray) -> np.ndarray:
        return problem.smooth(weights)[0] + problem.penalty.kinks(weights)[0]

    weights, ends, n_evaluations = search_without_slopes(value, starts, spread, rng)
    counts = [c.n_starts for c in rough.candidates[: len(starts)]]
    candidates = [Candidate(w, float(v), n) for w, v, n in zip(weights, ends, counts, strict=True)]
    stats = dict(rough.stats)
    stats["n_evaluations"] += n_evaluations
    ordered = tuple(sorted(candidates, key=lambda c: c.value))
    return Solution(ordered, rough.status, stats, np.sort(ends))
