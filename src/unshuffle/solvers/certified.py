"""Certified least squares over all matchings: branch and bound by sorting, for few weights.

Branch and bound (Land and Doig 1960) over directions. With orthonormal columns U of the rows the
least squares of a matching P is |y|² − |p|², p = UᵀPy. |p| is largest where h(c) = max_P cᵀp, which
sorting Uc against y computes, is largest over unit directions c. h is convex, so that a cone of
directions lies below the linear function through its corners; where all corners share their
matching this is exact. Cones are bisected along their widest edge, lowest bound first, until none
may contain a lower value than the best found.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import combinations, product
from numbers import Real
from typing import ClassVar

import numpy as np

from unshuffle import kernels
from unshuffle.core.solution import Certificate, Solution, Status, merge_starts
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.data.bags import Bags
from unshuffle.data.products import condense, multiply, predict_rows
from unshuffle.errors import InputError
from unshuffle.objectives.problem import Problem
from unshuffle.options import FitOptions
from unshuffle.solvers.local_search import SAME_ANSWER
from unshuffle.threads import map_all

# Relative gap at which the proof is complete.
COMPLETE_GAP = 1e-6
# Relative rounding: cones within it of the best are closed, and gaps are relative to at least this
# share of the labels' mean square.
ROUNDING = 1e-9
# Rows sorted between two checks of the time limit: some tens of milliseconds.
CLOCK_ROWS = 1_000_000


@dataclass(frozen=True)
class ProofSettings:
    """Limits of the branch and bound.

    docs/decisions/030-numbers-of-the-solvers.md has the measurements.

    Attributes
    ----------
    max_weights : int
        Most weights, the intercept among them: each more needs 20 times as many cones.
    max_cones : int
        Most open cones: what fits in memory. Beyond it the gap is reported.
    """

    max_weights: int = 4
    max_cones: int = 2_000_000


PROOF = ProofSettings()


@dataclass(frozen=True)
class Certified(Strategy):
    """Least squares over all matchings, proven to be the least; at most 4 coefficients.

    The intercept counts as a coefficient. `time_limit` is in seconds (None: no limit). If it is
    reached, the best answer so far is returned with its optimality gap. A complete proof
    is repeatable to the last bit; an incomplete one depends on the speed of the machine. Known
    noise is not used.

    Parameters
    ----------
    time_limit : float or None, default=60.0
        Seconds for the proof; None: as long as it takes.

    Examples
    --------
    >>> from unshuffle import Bag, fit
    >>> found = fit([Bag([[0.0], [1.0], [3.0]], [7.0, 3.0, 1.0])], method=Certified())
    >>> found.weights.round(6).tolist(), found.solution.certificate.is_complete
    ([2.0, 1.0], True)
    """

    time_limit: float | None = 60.0

    takes_penalty: ClassVar[bool] = False
    why_plain: ClassVar[str | None] = "its proof is about matchings of labels to rows"
    # Four weights take about 2 s at so many rows, and minutes beyond.
    compared_rows: ClassVar[int | None] = 300

    def __post_init__(self) -> None:
        limit = self.time_limit
        if limit is not None and not (
            isinstance(limit, Real) and not isinstance(limit, bool) and float(limit) > 0
        ):
            raise InputError(
                f"time_limit must be a number of seconds above 0 or None (no limit), got {limit!r}"
            )

    @property
    def name(self) -> str:
        return "certified"

    def check(self, bags: Bags, options: FitOptions) -> None:
        d = bags.d + options.fit_intercept
        if d > PROOF.max_weights:
            raise InputError(
                f"method 'certified' proves its answer for at most {PROOF.max_weights} weights, "
                f"and here are {d} (the intercept counts): use fewer features, method 'ls' for the "
                "same least squares without a proof, or 'likelihood' for intervals"
            )
        super().check(bags, options)

    def noise_moments(self, bags: Bags) -> int:
        return 0

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        limit = np.inf if self.time_limit is None else float(self.time_limit)
        axes = make_axes(problem.bags)
        search = _Search(axes, problem.bags.offsets, limit, effort)
        search.run()
        return _conclude(replace(problem, noise=None), axes, search)


@dataclass(frozen=True, eq=False)
class Axes:
    """Orthonormal columns in which matchings differ, and the way from a point to weights.

    Directions that are constant in every bag (the intercept, or all of them where a bag is one
    row) have the same p for every matching: they are fitted beforehand and taken from the labels.
    `weights(p)` are those of the whole.
    """

    columns: np.ndarray
    labels: np.ndarray
    to_weights: np.ndarray
    fixed_weights: np.ndarray

    def weights(self, points: np.ndarray) -> np.ndarray:
        """Return the weights (…, d) of points (…, k)."""
        return self.fixed_weights + multiply(points, self.to_weights.T)


def make_axes(bags: Bags) -> Axes:
    """Turn the rows into orthonormal columns, those that no matching changes apart."""
    columns, to_weights = _orthonormalise(bags.X)
    # A second pass: nearly collinear columns are not orthogonal after the first.
    columns, again = _orthonormalise(columns)
    to_weights = multiply(to_weights, again)
    inside = np.array(columns)
    for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        inside[start:stop] -= inside[start:stop].mean(axis=0)
    _, sizes, turn = np.linalg.svd(condense(inside, np.zeros(bags.n))[0])
    sizes = np.append(sizes, np.zeros(len(turn) - len(sizes)))
    columns, to_weights = multiply(columns, turn.T), multiply(to_weights, turn.T)
    moves = sizes > 1e-12
    fixed = columns[:, ~moves]
    point = (fixed * bags.y[:, None]).sum(axis=0)
    shift = predict_rows(fixed, point)
    for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        shift[start:stop] = shift[start:stop].mean()
    return Axes(
        np.ascontiguousarray(columns[:, moves].T),
        bags.y - shift,
        to_weights[:, moves],
        multiply(to_weights[:, ~moves], point),
    )


def _orthonormalise(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal columns that span those of X, and the matrix that makes them of X."""
    _, sizes, turn = np.linalg.svd(condense(X, np.zeros(len(X)))[0])
    keep = np.flatnonzero(sizes > 1e-10 * sizes.max(initial=0.0))
    to_weights = turn[keep].T / sizes[keep]
    return multiply(X, to_weights), to_weights


class _Search:
    """The state of a branch and bound: corners, open cones, the best points found."""

    def __init__(self, axes: Axes, offsets: np.ndarray, limit: float, effort: Effort) -> None:
        self.axes, self.offsets, self.effort = axes, offsets, effort
        self.begin, self.limit = time.monotonic(), limit
        self.k = k = len(axes.columns)
        self.floor = ROUNDING * float((axes.labels**2).sum())
        self.corners = np.concatenate([np.eye(k), -np.eye(k)])
        self.points, self.values = self._climb(self.corners, 1)
        self.middles: dict[tuple[int, int], int] = {}
        # Without a direction in which matchings differ, all have the same value.
        n_fixed = 1 if k == 0 else 0
        self.ends = np.empty((n_fixed, k))
        self.end_values = np.full(n_fixed, float((axes.labels**2).sum()))
        self.n_climbs = 0
        # The lowest bound among closed cones.
        self.closed = np.inf
        signs = np.array(list(product((0, k), repeat=k)), dtype=int)
        self.cones = np.arange(k) + signs[n_fixed:]
        self.bounds = np.full(len(self.cones), -np.inf)

    @property
    def best(self) -> float:
        """The least sum of squares found."""
        return float(self.end_values[0])

    @property
    def lower(self) -> float:
        """What no sum of squares is below."""
        return max(0.0, min(self.best, self.closed, float(self.bounds.min(initial=np.inf))))

    @property
    def gap(self) -> float:
        """How far the best is above the bound, relative to it or to rounding."""
        unit = max(self.best, self.floor)
        return (self.best - self.lower) / unit if unit > 0 else 0.0

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self.begin >= self.limit

    def run(self) -> None:
        """Split cones until none may contain a lower value, or time or memory are spent."""
        self._collect(self.points, self.values)
        self.bounds = self._bound(self.cones, self.bounds)
        first = max(self.gap, COMPLETE_GAP)
        self._close()
        while len(self.cones) and len(self.cones) <= PROOF.max_cones and not self.is_late:
            self._split(self._choose())
            self._close()
            spent = (time.monotonic() - self.begin) / self.limit
            share = np.log(first / max(self.gap, ROUNDING)) / np.log(first / ROUNDING)
            self.effort.report("proving", float(np.clip(max(share, spent), 0.0, 1.0)))
        self.effort.report("proving", 1.0)

    def _close(self) -> None:
        """Close cones that contain nothing lower."""
        is_open = self.bounds < self.best - ROUNDING * max(self.best, self.floor)
        self.closed = min(self.closed, float(self.bounds[~is_open].min(initial=np.inf)))
        self.cones, self.bounds = self.cones[is_open], self.bounds[is_open]

    def _choose(self) -> np.ndarray:
        """Return the places of the lowest bounds, as many as a round splits."""
        n_open = len(self.bounds)
        most = max(1, CLOCK_ROWS // len(self.axes.labels))
        # A quarter of the cones a round, lowest bounds first, keeps the rounds few.
        size = min(n_open, max(256, n_open // 4), most)
        return np.argsort(self.bounds, kind="stable")[:size]

    def _split(self, chosen: np.ndarray) -> None:
        """Bisect cones along their widest edges."""
        cones, parents = self.cones[chosen], self.bounds[chosen]
        rest = np.ones(len(self.cones), dtype=bool)
        rest[chosen] = False
        edges, is_wide = self._widest(cones)
        # A cone that cannot be split keeps its bound.
        self.closed = min(self.closed, float(parents[~is_wide].min(initial=np.inf)))
        cones, parents, edges = cones[is_wide], parents[is_wide], edges[is_wide]
        places = np.arange(len(cones))
        middles = self._halve(cones[places, edges[:, 0]], cones[places, edges[:, 1]])
        halves = []
        for side in (0, 1):
            half = cones.copy()
            half[places, edges[:, side]] = middles
            halves.append(half)
        new = np.concatenate(halves)
        bounds = self._bound(new, np.concatenate([parents, parents]))
        self.cones = np.concatenate([self.cones[rest], new])
        self.bounds = np.concatenate([self.bounds[rest], bounds])

    def _widest(self, cones: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the two places of the widest edge of each cone, and whether it can be split."""
        pairs = list(combinations(range(self.k), 2))
        if not pairs:
            return np.zeros((len(cones), 2), dtype=int), np.zeros(len(cones), dtype=bool)
        lengths = np.stack(
            [
                ((self.corners[cones[:, i]] - self.corners[cones[:, j]]) ** 2).sum(axis=1)
                for i, j in pairs
            ],
            axis=1,
        )
        # The middle of a shorter edge would be one of its ends.
        return np.array(pairs)[lengths.argmax(axis=1)], lengths.max(axis=1) > 1e-26

    def _halve(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the corners in the middle of edges; one that cones share is sorted once."""
        ends = np.sort(np.stack([left, right], axis=1), axis=1)
        edges = [(a, b) for a, b in ends.tolist()]
        new = [edge for edge in dict.fromkeys(edges) if edge not in self.middles]
        for place, edge in enumerate(new, start=len(self.corners)):
            self.middles[edge] = place
        if new:
            pairs = np.array(new)
            corners = self.corners[pairs[:, 0]] + self.corners[pairs[:, 1]]
            corners /= np.sqrt((corners**2).sum(axis=1))[:, None]
            points, values = self._climb(corners, 1)
            self.corners = np.concatenate([self.corners, corners])
            self.points = np.concatenate([self.points, points])
            self.values = np.concatenate([self.values, values])
            lowest = np.argsort(values, kind="stable")[:8]
            self._collect(points[lowest], values[lowest])
        return np.array([self.middles[edge] for edge in edges], dtype=int)

    def _bound(self, cones: np.ndarray, parents: np.ndarray) -> np.ndarray:
        """Return the bounds of cones; none is below that of the cone it came from."""
        bounds = np.empty(len(cones))
        limit = self.best - ROUNDING * max(self.best, self.floor)
        kernels.bound_cones(
            self.corners[cones], self.points[cones], self.values[cones], limit, bounds
        )
        return np.maximum(bounds, parents)

    def _collect(self, points: np.ndarray, values: np.ndarray) -> None:
        """Climb from points to their own least squares, and keep the ends, best first."""
        steps = max(1, CLOCK_ROWS // len(self.axes.labels))
        self.n_climbs += len(points)
        while True:
            ends, lower = self._climb(points, steps)
            is_done = (ends == points).all() or not (lower < values).any()
            points, values = ends, lower
            if is_done or self.is_late:
                break
        ends = np.concatenate([self.ends, points])
        values = np.concatenate([self.end_values, values])
        order = np.argsort(values, kind="stable")[:100]
        self.ends, self.end_values = ends[order], values[order]

    def _climb(self, directions: np.ndarray, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Sort along directions, in threads where asked."""
        points, values = np.empty(directions.shape), np.empty(len(directions))
        size = max(1, CLOCK_ROWS // (16 * len(self.axes.labels)))

        def fill(start: int) -> None:
            part = slice(start, start + size)
            kernels.climb_matchings(
                np.ascontiguousarray(directions[part]),
                self.axes.columns,
                self.axes.labels,
                self.offsets,
                n_steps,
                points[part],
                values[part],
            )

        map_all(fill, range(0, len(directions), size), self.effort.n_jobs)
        return points, values


def _conclude(problem: Problem, axes: Axes, search: _Search) -> Solution:
    """Return the ends of the climbs as competing answers, with what is proven of the best."""
    n = problem.bags.n
    weights = axes.weights(search.ends)
    values = problem.smooth(weights)[0]
    # The ends are ordered by the values of the proof: rounding must not change which is the best.
    values[0] = min(values[0], search.best / n)
    candidates = merge_starts(
        weights, np.maximum(values, values[0]), problem.curvature, SAME_ANSWER
    )
    is_complete = search.gap <= COMPLETE_GAP
    proof = Certificate(min(search.lower / n, float(values[0])), search.gap, is_complete)
    stats = Stats(
        n_starts=search.n_climbs,
        n_sorted=len(search.corners),
        n_open_cones=len(search.cones),
        n_candidates=len(candidates),
    )
    status = Status.CERTIFIED if is_complete else Status.UNPROVEN
    return Solution(candidates, status, stats, np.sort(values), certificate=proof)
