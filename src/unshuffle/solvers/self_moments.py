"""Self-moments (SM; Abid, Poon and Zou 2017): closed forms where they exist, else a search.

One moment is a linear problem, and two moments of two weights in one bag are a quadratic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import BlockStrategy, Effort, Task
from unshuffle.data.bags import Bags
from unshuffle.data.products import solve_rows
from unshuffle.data.statistics import Statistics
from unshuffle.errors import InputError
from unshuffle.objectives.block_moments import BlockProblem, MomentObjective, measure_moments
from unshuffle.objectives.block_sorted import make_sorted_objective
from unshuffle.objectives.checks import check_noise
from unshuffle.objectives.losses import Loss, Moments, Squared
from unshuffle.objectives.noise import Noise
from unshuffle.objectives.problem import Objective, Problem
from unshuffle.options import FitOptions
from unshuffle.solvers.local_search import make_space, search

# A mean below this share of its column's root mean square is rounding.
NO_MEAN = 1e-12


@dataclass(frozen=True)
class SelfMoments(BlockStrategy):
    """Let the first K moments of predictions and labels agree."""

    criterion: Moments
    needs_rows: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.criterion.name

    @property
    def loss(self) -> Loss:
        return self.criterion

    def noise_moments(self, bags: Bags) -> int:
        return max(2, self.criterion.n_moments(bags.d, bags.n_bags))

    def for_blocks(self, options: FitOptions) -> BlockStrategy:
        return self

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        bags = problem.bags
        n_moments = self.criterion.n_moments(bags.d, bags.n_bags)
        if _has_two_roots(problem, n_moments):
            solution = solve_two_moments(problem)
            if solution is not None:
                return solution
        return _solve_moments(problem, self.criterion, n_moments, rng, effort)

    def prepare_blocks(self, problem: BlockProblem, effort: Effort) -> Task:
        return lambda rng: self._solve_blocks(problem, rng, effort)

    def _solve_blocks(
        self, problem: BlockProblem, rng: np.random.Generator, effort: Effort
    ) -> Solution:
        """Solve the moments of data in blocks; least squares of all rows chooses between roots."""
        noise, loss = problem.noise, self.criterion
        n_moments = loss.n_moments(problem.d, problem.n_bags)
        bags = measure_moments(problem.first, problem.scaling, n_moments, effort.report)
        if noise is not None:
            check_noise(noise, max(2, n_moments))
        has_intercept = problem.scaling.has_intercept
        sums = MomentObjective(bags, loss, noise, problem.penalty, has_intercept)
        solution = _solve_moments(sums, loss, n_moments, rng, effort)
        if not _has_two_roots(sums, n_moments):
            return solution
        ranks = make_sorted_objective(problem, bags, Squared())
        weights = find_roots(solution.candidates[0].weights, bags.statistics)
        values = sums.smooth(weights)[0]
        order = np.argsort(ranks.smooth(weights)[0], kind="stable")
        roots = tuple(Candidate(weights[k], float(values[k])) for k in order)
        return replace(solution, candidates=roots)


def _has_two_roots(problem: Objective, n_moments: int) -> bool:
    """Return whether two moments have two roots, between which least squares chooses."""
    sizes = problem.bags.d, n_moments, problem.bags.n_bags
    return sizes == (2, 2, 1) and not problem.penalty.is_active


def _solve_moments(
    problem: Objective, loss: Moments, n_moments: int, rng: np.random.Generator, effort: Effort
) -> Solution:
    """Minimise the moment loss: in closed form for one moment without L1, else by search."""
    if n_moments == 1 and not problem.penalty.l1.any():
        return solve_first_moment(problem, loss)
    return search(make_space(problem, rng), effort, problem.bags.n)


def solve_first_moment(problem: Objective, loss: Moments) -> Solution:
    """Minimise the moment loss with K = 1, a linear problem: Σy / Σx for one bag and one weight."""
    bags = problem.bags
    rows, labels = bags.bag_means()
    if problem.noise is not None:
        labels = labels - problem.noise.moments(1)[0]
    spread = np.sqrt(np.diag(bags.statistics.gram))
    if bags.d == 1 and np.all(np.abs(rows) <= NO_MEAN * spread):
        raise InputError(
            "the mean of the feature is zero, so that the first moment says nothing about its "
            "weight: use Moments(K=2), which finds its size, or fit an intercept"
        )
    factor = loss.factors(1)[0]
    design = np.concatenate([np.sqrt(factor) * rows, np.diag(np.sqrt(problem.penalty.l2))])
    target = np.concatenate([np.sqrt(factor) * labels, np.zeros(bags.d)])
    weights, rank = solve_rows(design, target, 1e-12)
    if rank < bags.d:
        raise InputError(
            f"one moment of {bags.n_bags} bags cannot fix {bags.d} weights: use more moments, "
            f"Moments(K={-(-bags.d // bags.n_bags)}) or more"
        )
    value = float(problem.smooth(weights[None])[0][0])
    return Solution((Candidate(weights, value),), Status.EXACT, Stats(n_starts=0))


def solve_two_moments(problem: Problem) -> Solution | None:
    """Solve the first two moments of one bag for two weights: both roots, LS picks.

    Returns None where the quadratic is degenerate (collinear columns) and a search must do.
    """
    stats = problem.bags.statistics
    means, spread = stats.mean, np.sqrt(np.diag(stats.gram))
    if np.all(np.abs(means) <= NO_MEAN * spread):
        raise InputError(
            "the mean of both columns is zero, so that two moments cannot fix two weights: "
            "use Moments(K=3) or more, fit an intercept, or use method 'ls'"
        )
    roots, is_met = _two_roots(problem.bags, problem.noise)
    if roots is None:
        return None
    moment_values = problem.smooth(roots)[0]
    # Noise known by its moments has no atoms: LS without noise chooses between the roots.
    least_squares = Problem(problem.bags, Squared(), None, problem.penalty)
    order = np.argsort(least_squares.smooth(roots)[0], kind="stable")
    candidates = tuple(Candidate(roots[i], float(moment_values[i])) for i in order)
    status = Status.EXACT if is_met else Status.UNMET_MOMENTS
    return Solution(candidates, status, Stats(n_starts=0))


def find_roots(root: np.ndarray, statistics: Statistics) -> np.ndarray:
    """Return a root of the first two moments of two weights and the other one, (2, 2).

    Both lie on the line of the mean, w + t v with mean · v = 0, where the second moment is a
    quadratic in t that has the same value at 0 and at −2 wᵀGv / vᵀGv.
    """
    mean, gram = statistics.mean, statistics.gram
    along = np.array([-mean[1], mean[0]])
    bend = float(along @ gram @ along)
    step = -2.0 * float(root @ gram @ along) / bend if bend > 0.0 else 0.0
    return np.stack([root, root + step * along])


def _two_roots(bags: Bags, noise: Noise | None) -> tuple[np.ndarray | None, bool]:
    """Return the roots (1 or 2, 2) of the quadratic, and whether they are real.

    With u = x₂ − r x₁, r = m₂/m₁ and q = E[y]/m₁, the paper's coefficients (corrected) are
    a = E[u²], b = 2q E[x₁u], c = q² E[x₁²] − E[y²] + E[e²]; then w₁ = q − r w₂. The pivot x₁ is the
    column with the larger mean. Without a real root the nearest w on the mean constraint is −b/2a.
    """
    error_mean, error_square = (0.0, 0.0) if noise is None else noise.moments(2)
    X, y, stats = bags.X, bags.y, bags.statistics
    means, mean = stats.mean, stats.average_rows
    pivot, other = (0, 1) if abs(means[0]) >= abs(means[1]) else (1, 0)
    target = stats.label_mean - error_mean
    q, r = target / means[pivot], means[other] / means[pivot]
    u = X[:, other] - r * X[:, pivot]
    a, b = mean(u**2), 2 * q * mean(X[:, pivot] * u)
    if a <= NO_MEAN * mean(X[:, other] ** 2):
        return None, False
    # Squares about the mean, since q²E[x₁²] − E[y²] cancels badly when the means are large.
    c = mean((q * X[:, pivot] - target) ** 2) - stats.average_labels((y - target) ** 2)
    c += error_square
    discriminant = b**2 - 4 * a * c
    if discriminant < 0:
        second = np.array([-b / (2 * a)])
    else:
        # Stable roots: one without cancellation, the other from the product c/a.
        half = -0.5 * (b + np.copysign(np.sqrt(discriminant), b))
        second = np.array([half / a, c / half if half != 0 else 0.0])
    roots = np.empty((len(second), 2))
    roots[:, other], roots[:, pivot] = second, q - r * second
    return roots, bool(discriminant >= 0)
