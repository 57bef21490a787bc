"""Descent from many starts, every outcome kept: where to begin, when to end, what is one answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unshuffle.core.solution import Solution, Status, merge_starts
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import Effort
from unshuffle.data.bags import Bags
from unshuffle.data.products import multiply, solve_rows
from unshuffle.errors import InputError
from unshuffle.objectives.problem import Curve, Evaluate, Problem
from unshuffle.solvers.descent import descend

# Predictions that differ by less than this (root mean square, in label spreads) are one answer.
# At the default tol, end points of one basin lie within 0.003 of each other.
SAME_ANSWER = 0.01
# The best answers are driven to the last digit.
POLISH_TOL = 1e-18
N_ASIDE = 6
# Starts come in batches until the best value was reached this often, or the limit is spent.
BATCH, ENOUGH_ARRIVALS, MAX_STARTS = 32, 3, 512
# Rows × starts that the search may sort before it settles for fewer starts.
MAX_WORK = 6_000_000


@dataclass(frozen=True)
class Care:
    """How closely a search looks.

    `n_screened` points are tried for each start, and the lowest go on. Only the best `n_polished`
    answers decide anything, so only they are searched around: by `n_wide` steps aside of each size
    in `wide`, counted in roots of the value, no longer than `most` spreads of the labels. Around
    the best alone `n_last` of each size in `last` end in longer descents.
    """

    n_screened: int = 8
    n_polished: int = 5
    wide: tuple[float, ...] = (4.0, 2.0)
    n_wide: int = N_ASIDE
    most: float = np.inf
    last: tuple[float, ...] = ()
    n_last: int = 0
    last_tol: float = 1e-3


# For answers that others go on from. Screening brings the best value of 50 starts (n = 1000, d = 5)
# 10 % down at the same total cost, and steps aside, which leave the small dents of a basin, another
# 2 to 7 % for half as many evaluations again.
BRIEF = Care()
# For answers that stay. Steps of 30 and 8 find other basins, and the last ones the lowest dent:
# ends of one basin differ by less than the tolerance. At n = 1000, d = 5, 50 starts (40 seeds from
# 1000, five searches of each; exponential, uniform and normal columns) the peer of
# benchmarks/speed.py then has a lower best value in 8, 8 and 8 of 200, with 20 points for each
# start in 12, 7 and 16, and beside the brief search every fifth time. It takes 1.4 times as long.
THOROUGH = Care(40, 3, (30.0, 8.0), 4, 2.0, (2.0, 1.0, 0.5), 6)


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
    curve: Curve | None = None
    # Values to choose starts by; None: those of `evaluate`.
    screen: Callable[[np.ndarray], np.ndarray] | None = None


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
        curve=problem.curve,
        screen=problem.screen,
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


def search(
    space: Space,
    effort: Effort,
    n_rows: int,
    *,
    most: int = MAX_STARTS,
    is_rough: bool = False,
    care: Care = BRIEF,
) -> Solution:
    """Run batches of starts to their ends, merge them, and polish the best unless roughly.

    `most` limits the starts where the effort does not say how many.
    """
    limit = effort.n_starts or int(np.clip(MAX_WORK // n_rows, BATCH, most))
    batch = effort.n_starts or BATCH
    ends: list[np.ndarray] = []
    values: list[np.ndarray] = []
    converged: list[np.ndarray] = []
    n_evaluations = 0
    while True:
        starts = _screen(space, batch, not ends, care.n_screened)
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
    top = candidates[: care.n_polished]
    rows = [int(np.argmax((weights == c.weights).all(axis=1))) for c in top]
    return _polish(space, rough, np.concatenate(ends)[rows], effort, care)


def _screen(space: Space, n_starts: int, is_first: bool, n_screened: int) -> np.ndarray:
    """Draw points and keep the lowest; the very first point drawn, the bag means, always stays."""
    points = space.draw(n_screened * n_starts, is_first)
    found = space.evaluate(points)[0] if space.screen is None else space.screen(points)
    values = found + (space.l1 * np.abs(points)).sum(axis=1)
    if is_first:
        values[0] = -np.inf
    return points[np.sort(np.argsort(values, kind="stable")[:n_starts])]


def _polish(
    space: Space, rough: Solution, coordinates: np.ndarray, effort: Effort, care: Care
) -> Solution:
    """Search around the best candidates, then drive them to the last digit."""
    top, rest = rough.candidates[: care.n_polished], rough.candidates[care.n_polished :]
    values = np.array([c.value for c in top])
    n_evaluations = 0
    for size in care.wide:
        coordinates, values, n_more = step_aside(
            space, coordinates, values, size, effort, care.n_wide, care.most
        )
        n_evaluations += n_more
    best, finer = [int(np.argmin(values))], replace(effort, tol=care.last_tol * effort.tol)
    for size in care.last:
        coordinates[best], values[best], n_more = step_aside(
            space, coordinates[best], values[best], size, finer, care.n_last
        )
        n_evaluations += n_more
    found = descend(space.evaluate, coordinates, space.inverse, space.l1, POLISH_TOL, effort.n_jobs)
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
        # The lowest may be another than before, which other starts have not reached.
        status = Status.AGREED if candidates[0].n_starts > 1 else Status.LONELY
    return Solution(candidates, status, stats, rough.start_values)


def step_aside(
    space: Space,
    coordinates: np.ndarray,
    values: np.ndarray,
    size: float,
    effort: Effort,
    n_aside: int = N_ASIDE,
    most: float = np.inf,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Descend again from points around each candidate; keep what is lower.

    `size` counts in roots of the values; steps are no longer than `most` spreads of the labels.
    """
    n, k = coordinates.shape
    eigenvalues, vectors = np.linalg.eigh(2 * space.inverse)
    spread = vectors * np.sqrt(np.maximum(eigenvalues, 0.0)) / np.sqrt(k)
    steps = multiply(space.normals((n, n_aside, k)), spread.T)
    steps *= np.minimum(size * np.sqrt(np.minimum(values, 1.0)), most)[:, None, None]
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
    ends = found.values.reshape(n, n_aside)
    best = ends.argmin(axis=1)
    lowest = ends[np.arange(n), best]
    is_lower = lowest < values
    moved = found.weights.reshape(n, n_aside, k)[np.arange(n), best]
    return (
        np.where(is_lower[:, None], moved, coordinates),
        np.where(is_lower, lowest, values),
        found.n_evaluations,
    )
