"""Multi-start local search: many starting points, each descended, the best refined.

Starting points come in batches until several reach the lowest value. The best local minima are then
restarted from random perturbations around them (iterated local search, Lourenço et al. 2003), and
descended to full precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unshuffle.core.solution import Solution, Status, merge_starts
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import Effort
from unshuffle.data.products import multiply, solve_rows
from unshuffle.errors import InputError
from unshuffle.objectives.problem import Curve, Evaluate, Objective, PooledBags
from unshuffle.solvers.descent import descend

# Predictions closer than this (root mean square, in label sds) are one answer. At the default
# tolerance, ends in one local minimum lie within 0.003 of each other.
SAME_ANSWER = 0.01
# Relative gain at which the last descent stops: below the rounding of any value.
_FULL_PRECISION = 1e-18


@dataclass(frozen=True)
class SearchSettings:
    """How many starting points a search takes, and how closely it refines the best.

    Attributes
    ----------
    batch : int
        Starting points in a batch.
    enough_arrivals : int
        The search ends when so many starting points reached the lowest value.
    max_starts : int
        Most starting points.
    max_work : int
        Most rows times starting points; many rows get fewer starting points.
    n_screened : int
        Points evaluated for each starting point; the lowest become starting points.
    n_polished : int
        Best local minima that are refined.
    steps : tuple of float
        Sizes of the perturbations around each of them, in roots of its value.
    n_steps : int
        Perturbations of each size.
    longest : float
        Longest perturbation, in label sds.
    last_steps : tuple of float
        Sizes of further perturbations around the best alone.
    n_last_steps : int
        Perturbations of each of these sizes.
    last_tol : float
        Tolerance of the descents from these, relative to that of the search.
    """

    batch: int = 32
    enough_arrivals: int = 3
    max_starts: int = 512
    max_work: int = 6_000_000
    n_screened: int = 8
    n_polished: int = 5
    steps: tuple[float, ...] = (4.0, 2.0)
    n_steps: int = 6
    longest: float = np.inf
    last_steps: tuple[float, ...] = ()
    n_last_steps: int = 6
    last_tol: float = 1e-3


# BRIEF is for starting points of another algorithm, THOROUGH for final answers.
# docs/decisions/030-numbers-of-the-solvers.md has the comparison.
BRIEF = SearchSettings()
THOROUGH = SearchSettings(
    n_screened=40,
    n_polished=3,
    steps=(30.0, 8.0),
    n_steps=4,
    longest=2.0,
    last_steps=(2.0, 1.0, 0.5),
)


@dataclass(frozen=True, eq=False)
class Space:
    """Search space: coordinates, their embedding into weights, and their geometry."""

    evaluate: Evaluate
    draw: Callable[[int, bool], np.ndarray]
    embed: Callable[[np.ndarray], np.ndarray]
    inverse: np.ndarray
    l1: np.ndarray
    curvature: np.ndarray
    normals: Callable[[tuple[int, ...]], np.ndarray]
    curve: Curve | None = None
    # Values to choose starting points by; None: those of `evaluate`.
    screen: Callable[[np.ndarray], np.ndarray] | None = None


def make_space(problem: Objective, rng: np.random.Generator) -> Space:
    """Search over the weights themselves."""
    return Space(
        evaluate=problem.smooth,
        draw=lambda n, is_first: draw_starts(problem, n, is_first, rng),
        embed=lambda w: w,
        inverse=0.5 * np.linalg.pinv(problem.curvature, rcond=1e-10, hermitian=True),
        l1=problem.penalty.l1,
        curvature=problem.curvature,
        normals=rng.standard_normal,
        curve=problem.curve,
        screen=problem.screen,
    )


def draw_starts(
    problem: Objective, n_starts: int, is_first: bool, rng: np.random.Generator
) -> np.ndarray:
    """Draw starting points: the regression of bag means once, then points that meet two moments.

    Weights that meet the first two moments form a sphere. It has no radius where no real weights
    meet both; then the label sd is the radius.
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


def label_spread(bags: PooledBags) -> float:
    """Return the sd of the labels."""
    stats = bags.statistics
    return float(np.sqrt(stats.average_labels((bags.y - stats.label_mean) ** 2)))


def search(
    space: Space,
    effort: Effort,
    n_rows: int,
    *,
    most: int | None = None,
    is_rough: bool = False,
    settings: SearchSettings = BRIEF,
) -> Solution:
    """Descend from batches of starting points, merge the ends, and refine the best unless roughly.

    `most` limits the starts where the effort does not say how many; without it the settings do.
    """
    affordable = min(settings.max_work // n_rows, most or settings.max_starts)
    limit = effort.n_starts or max(affordable, settings.batch)
    batch = effort.n_starts or settings.batch
    ends: list[np.ndarray] = []
    values: list[np.ndarray] = []
    converged: list[np.ndarray] = []
    n_evaluations = 0
    while True:
        starts = _screen(space, batch, not ends, settings.n_screened)
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
        if n_starts >= limit or (candidates and candidates[0].n_starts >= settings.enough_arrivals):
            break
    if not candidates:
        raise InputError(
            "no start reached a finite value: look for columns or labels that are many orders of "
            "magnitude larger than the rest"
        )
    stats = Stats(
        n_starts=n_starts,
        n_converged=int(np.concatenate(converged).sum()),
        n_evaluations=n_evaluations,
        n_candidates=len(candidates),
    )
    best = int(np.argmin(all_values))
    if not np.concatenate(converged)[best]:
        status = Status.UNFINISHED
    else:
        status = Status.AGREED if candidates[0].n_starts > 1 else Status.LONELY
    rough = Solution(candidates, status, stats, np.sort(all_values))
    if is_rough:
        return rough
    best_few = candidates[: settings.n_polished]
    rows = [int(np.argmax((weights == c.weights).all(axis=1))) for c in best_few]
    return _polish(space, rough, np.concatenate(ends)[rows], effort, settings)


def _screen(space: Space, n_starts: int, is_first: bool, n_screened: int) -> np.ndarray:
    """Draw points and keep the lowest; the very first point drawn, the bag means, always stays."""
    points = space.draw(n_screened * n_starts, is_first)
    found = space.evaluate(points)[0] if space.screen is None else space.screen(points)
    values = found + (space.l1 * np.abs(points)).sum(axis=1)
    if is_first:
        values[0] = -np.inf
    return points[np.sort(np.argsort(values, kind="stable")[:n_starts])]


def _polish(
    space: Space,
    rough: Solution,
    coordinates: np.ndarray,
    effort: Effort,
    settings: SearchSettings,
) -> Solution:
    """Refine the best candidates by perturbations, then descend to full precision."""
    n_best = settings.n_polished
    best_few, rest = rough.candidates[:n_best], rough.candidates[n_best:]
    values = np.array([c.value for c in best_few])
    n_evaluations = 0
    for size in settings.steps:
        coordinates, values, n_more = perturb(
            space, coordinates, values, size, effort, settings.n_steps, settings.longest
        )
        n_evaluations += n_more
    best, finer = [int(np.argmin(values))], replace(effort, tol=settings.last_tol * effort.tol)
    for size in settings.last_steps:
        coordinates[best], values[best], n_more = perturb(
            space, coordinates[best], values[best], size, finer, settings.n_last_steps
        )
        n_evaluations += n_more
    found = descend(
        space.evaluate, coordinates, space.inverse, space.l1, _FULL_PRECISION, effort.n_jobs
    )
    weights = np.concatenate([space.embed(found.weights), *(c.weights[None] for c in rest)])
    values = np.concatenate([found.values, [c.value for c in rest]])
    counts = [c.n_starts for c in rough.candidates]
    stats = rough.stats.more_evaluations(n_evaluations + found.n_evaluations)
    return gather_ends(rough, weights, values, counts, space.curvature, stats)


def gather_ends(
    rough: Solution,
    weights: np.ndarray,
    values: np.ndarray,
    counts: list[int],
    curvature: np.ndarray,
    stats: Stats,
) -> Solution:
    """Merge candidates that a finer search has brought together, and count their starts anew."""
    candidates = merge_starts(weights, values, curvature, SAME_ANSWER, counts)
    stats = replace(stats, n_candidates=len(candidates))
    status = rough.status
    if status in (Status.AGREED, Status.LONELY):
        # The lowest candidate may be another than before, reached by a single start.
        status = Status.AGREED if candidates[0].n_starts > 1 else Status.LONELY
    return Solution(candidates, status, stats, rough.start_values)


def perturb(
    space: Space,
    coordinates: np.ndarray,
    values: np.ndarray,
    size: float,
    effort: Effort,
    n_steps: int = BRIEF.n_steps,
    longest: float = np.inf,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Descend again from random perturbations of each candidate, and keep what is lower.

    `size` counts in roots of the values; no perturbation is longer than `longest` label sds.
    """
    n, k = coordinates.shape
    eigenvalues, vectors = np.linalg.eigh(2 * space.inverse)
    spread = vectors * np.sqrt(np.maximum(eigenvalues, 0.0)) / np.sqrt(k)
    steps = multiply(space.normals((n, n_steps, k)), spread.T)
    steps *= np.minimum(size * np.sqrt(np.minimum(values, 1.0)), longest)[:, None, None]
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
    ends = found.values.reshape(n, n_steps)
    best = ends.argmin(axis=1)
    lowest = ends[np.arange(n), best]
    is_lower = lowest < values
    moved = found.weights.reshape(n, n_steps, k)[np.arange(n), best]
    return (
        np.where(is_lower[:, None], moved, coordinates),
        np.where(is_lower, lowest, values),
        found.n_evaluations,
    )
