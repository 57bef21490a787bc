"""Algorithm 2 of Abid, Poon and Zou (2017): least squares under the first moment conditions.

The paper searches over projections p and solves the moments in the projected space. The weights
that meet one moment are the plane x̄ᵀw = ȳ, and those that meet two an ellipsoid within it. The
search runs over coordinates of the plane, or directions of the ellipsoid, so that every point
meets the conditions. More moments have no such coordinates: sequential quadratic programming finds
the surface, and Newton steps bring its end points onto it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from unshuffle.core.solution import Candidate, Solution, Status, merge_starts
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import BlockStrategy, Effort, Task
from unshuffle.data.bags import Bags
from unshuffle.data.products import multiply, predict_rows
from unshuffle.errors import InputError
from unshuffle.objectives import moments
from unshuffle.objectives.block_moments import BlockProblem
from unshuffle.objectives.losses import Squared
from unshuffle.objectives.noise import Noise
from unshuffle.objectives.penalties import Penalty
from unshuffle.objectives.problem import Objective, Problem
from unshuffle.options import FitOptions
from unshuffle.solvers.local_search import SAME_ANSWER, Space, label_spread, search
from unshuffle.solvers.successive_halving import sort_blocks

# Conditions are met at this relative error, which Newton steps reach in 3 to 5 steps.
MET = 1e-9
_NEWTON_STEPS = 20
# Rounding of |w| near zero, in standard units, while zeros are searched. A weight below ten times
# this is zero.
_SMOOTHING = 1e-4


@dataclass(frozen=True)
class Projection(BlockStrategy):
    """The hybrid estimator P(dp): LS among the coefficients that meet the first dp moments.

    Parameters
    ----------
    dp : int, default=1
        Number of moments that the coefficients must meet.

    Examples
    --------
    >>> from unshuffle import Bag, fit
    >>> bag = Bag([[0.0], [1.0], [3.0]], [7.0, 3.0, 1.0])
    >>> fit([bag], method=Projection(2)).weights.round(6).tolist()
    [2.0, 1.0]
    """

    dp: int = 1
    asks_single_points: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (int(self.dp) == self.dp and self.dp >= 1):
            raise InputError(f"Projection needs a whole dp of at least 1, got {self.dp}")

    @property
    def name(self) -> str:
        return f"p{self.dp}"

    def noise_moments(self, bags: Bags) -> int:
        return max(2, self.dp)

    def for_blocks(self, options: FitOptions) -> BlockStrategy | None:
        # The search for zeros needs rows in memory.
        return self if self.dp <= 2 and options.noise is None and not options.l1 else None

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        return solve(problem, self.dp, rng, effort)

    def prepare_blocks(self, problem: BlockProblem, effort: Effort) -> Task:
        def solve(rng: np.random.Generator) -> Solution:
            objective, whole = sort_blocks(problem, Squared(), effort)
            _check_means(objective, self.dp)
            return _solve_two_moments(objective, self.dp, rng, whole)

        return solve


def solve(problem: Problem, dp: int, rng: np.random.Generator, effort: Effort) -> Solution:
    """Minimise LS under the first dp pooled moment conditions, with exact zeros where l1 asks."""
    problem = problem.with_loss(Squared())
    _check_means(problem, dp)
    if not problem.penalty.l1.any():
        return _solve_smooth(problem, dp, rng, effort)
    return _solve_sparse(problem, dp, rng, effort)


def _check_means(problem: Objective, dp: int) -> None:
    """Refuse columns of which none has a mean."""
    if not problem.sphere.has_mean:
        raise InputError(
            f"the mean of every column is zero, so that P{dp} has no moment condition to meet: "
            "fit an intercept, or use method 'ls'"
        )


def _solve_smooth(problem: Problem, dp: int, rng: np.random.Generator, effort: Effort) -> Solution:
    """Solve without L1: for more than two moments from the solutions that meet two."""
    if dp <= 2 or problem.sphere.basis.shape[1] == 0 or problem.sphere.radius == 0.0:
        return _solve_two_moments(problem, dp, rng, effort)
    return _meet_more(problem, dp, search(make_surface(problem, rng), effort, problem.bags.n))


def _solve_two_moments(
    problem: Objective, dp: int, rng: np.random.Generator, effort: Effort
) -> Solution:
    """Solve without L1 on the plane of one moment, or on the sphere of two."""
    sphere = problem.sphere
    n_free = sphere.basis.shape[1]
    if n_free == 0 or (dp >= 2 and sphere.radius == 0.0):
        status = Status.EXACT if dp == 1 else Status.UNMET_MOMENTS
        return _at_points(problem, sphere.centre[None], status)
    if dp == 1:
        return search(make_plane(problem, rng), effort, problem.bags.n)
    if n_free == 1:
        return _at_points(problem, sphere.on_sphere(np.array([[1.0], [-1.0]])), Status.EXACT)
    return search(make_surface(problem, rng), effort, problem.bags.n)


def _make_comparison(problem: Objective) -> Objective:
    """Return the LS that compares points; noise known only by its moments does not enter it."""
    has_atoms = problem.noise is None or problem.noise.has_atoms
    return problem if has_atoms else replace(problem, noise=None)


def _at_points(problem: Objective, weights: np.ndarray, status: Status) -> Solution:
    """Return the few points that meet the conditions, best first."""
    values = _make_comparison(problem).smooth(weights)[0]
    order = np.argsort(values, kind="stable")
    candidates = tuple(Candidate(weights[i], float(values[i])) for i in order)
    return Solution(candidates, status, Stats(n_starts=0), values[order])


def make_plane(problem: Objective, rng: np.random.Generator) -> Space:
    """Search over the coordinates u of the plane w = centre + basis u."""
    sphere = problem.sphere
    comparison = _make_comparison(problem)
    inner = multiply(sphere.basis.T, multiply(problem.curvature, sphere.basis))
    n_free = len(inner)
    size = sphere.radius or label_spread(problem.bags)

    def evaluate(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, gradients = comparison.smooth(sphere.on_plane(u))
        return values, _to_coordinates(sphere, gradients)

    def draw(n: int, is_first: bool) -> np.ndarray:
        u = rng.standard_normal((n, n_free))
        return size * u / np.sqrt((u**2).sum(1, keepdims=True))

    inverse = 0.5 * np.linalg.pinv(inner, rcond=1e-10, hermitian=True)
    return Space(
        evaluate,
        draw,
        sphere.on_plane,
        inverse,
        np.zeros(n_free),
        problem.curvature,
        rng.standard_normal,
    )


def make_surface(problem: Objective, rng: np.random.Generator) -> Space:
    """Search over directions p of the sphere; the value does not depend on the length of p."""
    sphere = problem.sphere
    n_free = sphere.basis.shape[1]
    comparison = _make_comparison(problem)

    def evaluate(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = np.sqrt((p**2).sum(1, keepdims=True))
        unit = p / size
        values, gradients = comparison.smooth(sphere.on_sphere(p))
        inner = sphere.radius * _to_coordinates(sphere, gradients)
        return values, (inner - unit * (inner * unit).sum(1, keepdims=True)) / size

    def draw(n: int, is_first: bool) -> np.ndarray:
        p = rng.standard_normal((n, n_free))
        return p / np.sqrt((p**2).sum(1, keepdims=True))

    inverse = 0.5 * np.eye(n_free) / sphere.radius**2
    return Space(
        evaluate,
        draw,
        sphere.on_sphere,
        inverse,
        np.zeros(n_free),
        problem.curvature,
        rng.standard_normal,
    )


def _to_coordinates(sphere: moments.MomentSphere, gradients: np.ndarray) -> np.ndarray:
    """Return the gradients (S, k) in coordinates of the plane, each by itself as in `on_plane`."""
    return np.einsum("sd,dk->sk", gradients, sphere.basis)


def moment_gaps(bags: Bags, noise: Noise | None, dp: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function w → Mₖ(w) − Nₖ, k = 1 … dp, on the pooled data."""
    mixing = moments.mix_noise(dp, noise)
    stats = bags.statistics
    targets = np.array([stats.average_labels(bags.y**k) for k in range(1, dp + 1)])

    def gaps(w: np.ndarray) -> np.ndarray:
        z = predict_rows(bags.X, w)
        raw = np.array([stats.average_rows(z**k) for k in range(dp + 1)])
        return multiply(mixing, raw) - targets

    return gaps


def _moment_slopes(bags: Bags, noise: Noise | None, dp: int, w: np.ndarray) -> np.ndarray:
    """Return the Jacobian (dp, d) of the moment gaps."""
    mixing = moments.mix_noise(dp, noise)
    z = predict_rows(bags.X, w)
    average = bags.statistics.average_rows
    raw = np.array(
        [[average(k * z ** (k - 1) * column) for column in bags.columns] for k in range(1, dp + 1)]
    )
    return multiply(mixing[:, 1:], raw)


def _meet_more(problem: Problem, dp: int, two_moments: Solution) -> Solution:
    """Start from solutions that meet two moments, and meet dp of them."""
    from scipy.optimize import minimize  # slow to import, and seldom needed

    bags, noise, comparison = problem.bags, problem.noise, _make_comparison(problem)
    gaps = moment_gaps(bags, noise, dp)
    ends, values = [], []
    constraint = {
        "type": "eq",
        "fun": gaps,
        "jac": lambda w: _moment_slopes(bags, noise, dp, w),
    }
    for candidate in two_moments.candidates[:16]:
        # A search may overflow; the check of the conditions then rejects its end.
        with np.errstate(over="ignore", invalid="ignore"):
            found = minimize(
                lambda w: tuple(part[0] for part in comparison.smooth(w[None])),
                candidate.weights,
                jac=True,
                method="SLSQP",
                constraints=constraint,
            )
            w = _put_on_surface(bags, noise, dp, found.x)
        if w is not None:
            ends.append(w)
            values.append(comparison.smooth(w[None])[0][0])
    if not ends:
        return Solution(
            two_moments.candidates,
            Status.UNMET_MOMENTS,
            two_moments.stats,
            two_moments.start_values,
        )
    candidates = merge_starts(np.stack(ends), np.array(values), problem.curvature, SAME_ANSWER)
    return Solution(candidates, two_moments.status, two_moments.stats, np.sort(values))


def _put_on_surface(bags: Bags, noise: Noise | None, dp: int, w: np.ndarray) -> np.ndarray | None:
    """Take least-norm Newton steps until the conditions are met; None if they are not."""
    gaps = moment_gaps(bags, noise, dp)
    for _ in range(_NEWTON_STEPS):
        gap = gaps(w)
        if not np.all(np.isfinite(gap)):
            return None
        if np.abs(gap).max() <= MET:
            return w
        w = w - np.linalg.lstsq(_moment_slopes(bags, noise, dp, w), gap, rcond=1e-12)[0]
    return None


@dataclass(frozen=True, eq=False)
class _SmoothedL1(Penalty):
    """A penalty whose |w| is treated as smooth: rounded near zero, or as it is."""

    kink_factors: np.ndarray
    is_rounded: bool = True

    @cached_property
    def is_smooth_active(self) -> bool:
        return True

    def smooth(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = super().smooth(w)
        size = np.sqrt(w**2 + _SMOOTHING**2) if self.is_rounded else np.abs(w)
        side = w / size if self.is_rounded else np.sign(w)
        return value + (self.kink_factors * size).sum(-1), slope + self.kink_factors * side


def _solve_sparse(problem: Problem, dp: int, rng: np.random.Generator, effort: Effort) -> Solution:
    """Find the zeros with a rounded |w|, then solve among the remaining weights exactly."""
    penalty = problem.penalty
    free = np.zeros(len(penalty.l1))
    rounded = _SmoothedL1(free, penalty.l2, penalty.l1)
    rough = _solve_smooth(
        Problem(problem.bags, problem.loss, problem.noise, rounded), dp, rng, effort
    )
    best = rough.best.weights
    largest = np.argsort(-np.abs(best), kind="stable")
    # As many weights as conditions meet them in a few points, if at all; one more leaves room.
    for n_kept in (dp, dp + 1):
        keep = (np.abs(best) > 10 * _SMOOTHING) | (penalty.l1 == 0)
        keep[largest[:n_kept]] |= keep.sum() < n_kept
        # |w| is not replaced by ±w: a fixed sign would reward weights that cross zero.
        part = _SmoothedL1(free[keep], penalty.l2[keep], penalty.l1[keep], is_rounded=False)
        bags = problem.bags.with_columns(problem.bags.X[:, keep])
        inner = _solve_smooth(Problem(bags, problem.loss, problem.noise, part), dp, rng, effort)
        if inner.status is not Status.UNMET_MOMENTS:
            break
    weights = np.zeros((len(inner.candidates), len(best)))
    weights[:, keep] = [c.weights for c in inner.candidates]
    values = _make_comparison(problem).smooth(weights)[0] + penalty.kinks(weights)[0]
    order = np.argsort(values, kind="stable")
    candidates = tuple(
        Candidate(weights[i], float(values[i]), inner.candidates[i].n_starts) for i in order
    )
    return Solution(candidates, inner.status, inner.stats, inner.start_values)
