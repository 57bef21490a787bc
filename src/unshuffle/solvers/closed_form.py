"""Closed forms: the moments of one and two weights, and the means of the bags."""

from __future__ import annotations

import numpy as np

from unshuffle.bags import Bags
from unshuffle.errors import InputError
from unshuffle.losses import Moments, Squared
from unshuffle.noise import Noise
from unshuffle.problem import Problem
from unshuffle.products import condense, dot, predict_rows, solve_rows
from unshuffle.solution import Candidate, Solution, Status
from unshuffle.uncertainty import StudentT

# A mean this far below the spread of its column is rounding, not information.
NO_MEAN = 1e-12


def solve_means(bags: Bags) -> Solution:
    """Regress mean labels on mean rows, bags weighted by their size: w = argmin Σ nᵣ(ȳᵣ − x̄ᵣᵀw)².

    Unbiased whatever the noise, since a mean does not depend on the order; it needs at least as
    many bags with different means as there are weights.
    """
    if bags.n_bags < bags.d:
        raise InputError(
            f"method 'means' needs at least as many bags as weights: there are {bags.n_bags} bags "
            f"for {bags.d} weights (the intercept counts); add bags, or use method 'ls'"
        )
    rows, labels = bags.bag_means()
    root = np.sqrt(bags.sizes)
    design = rows * root[:, None]
    weights, rank = solve_rows(design, labels * root, 1e-10)
    if rank < bags.d:
        raise InputError(
            f"the means of the bags span only {rank} of {bags.d} directions (the intercept "
            "counts): use bags that differ, fewer features, or method 'ls'"
        )
    gaps = (labels - predict_rows(rows, weights)) * root
    value = dot(gaps, gaps) / bags.n
    # Means of n labels have variance σ²/n, so the weighted residuals measure σ itself.
    dof = bags.n_bags - bags.d
    variance = dot(gaps, gaps) / dof if dof > 0 else 0.0
    unsure = StudentT(
        weights,
        _make_spreads(design, float(np.sqrt(variance))),
        dof,
        float(np.sqrt(variance)) if dof > 0 else None,
    )
    return Solution((Candidate(weights, value),), Status.EXACT, {"n_starts": 0}, uncertainty=unsure)


def _make_spreads(design: np.ndarray, sd: float) -> np.ndarray:
    """Return steps of one sd (rows) whose products add up to sd² (XᵀX)⁻¹."""
    # Not from XᵀX itself, whose rounding swallows what is left of nearly collinear columns.
    _, sizes, axes = np.linalg.svd(condense(design, np.zeros(len(design)))[0])
    return sd * axes / sizes[:, None]


def solve_first_moment(problem: Problem, loss: Moments) -> Solution:
    """Minimise the moment loss with K = 1, a linear problem: Σy / Σx for one bag and one weight."""
    bags = problem.bags
    rows, labels = bags.bag_means()
    if problem.noise is not None:
        labels = labels - problem.noise.moments(1)[0]
    spread = np.sqrt((bags.X**2).mean(axis=0))
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
    return Solution((Candidate(weights, value),), Status.EXACT, {"n_starts": 0})


def solve_two_moments(problem: Problem) -> Solution | None:
    """Solve the first two moments of one bag for two weights: both roots, LS picks.

    Returns None where the quadratic is degenerate (collinear columns) and a search must do.
    """
    X, y, noise = problem.bags.X, problem.bags.y, problem.noise
    means, spread = X.mean(axis=0), np.sqrt((X**2).mean(axis=0))
    if np.all(np.abs(means) <= NO_MEAN * spread):
        raise InputError(
            "the mean of both columns is zero, so that two moments cannot fix two weights: "
            "use Moments(K=3) or more, fit an intercept, or use method 'ls'"
        )
    roots, is_met = _two_roots(X, y, means, noise)
    if roots is None:
        return None
    moment_values = problem.smooth(roots)[0]
    # Moments alone give no atoms; the choice between two roots then goes by plain LS.
    judge = Problem(problem.bags, Squared(), None, problem.penalty)
    order = np.argsort(judge.smooth(roots)[0], kind="stable")
    candidates = tuple(Candidate(roots[i], float(moment_values[i])) for i in order)
    status = Status.EXACT if is_met else Status.UNMET_MOMENTS
    return Solution(candidates, status, {"n_starts": 0})


def _two_roots(
    X: np.ndarray, y: np.ndarray, means: np.ndarray, noise: Noise | None
) -> tuple[np.ndarray | None, bool]:
    """Return the roots (1 or 2, 2) of the quadratic, and whether they are real.

    With u = x₂ − r x₁, r = m₂/m₁ and q = E[y]/m₁, the paper's coefficients (corrected) are
    a = E[u²], b = 2q E[x₁u], c = q² E[x₁²] − E[y²] + E[e²]; then w₁ = q − r w₂. The pivot x₁ is the
    column with the larger mean. Without a real root the nearest w on the mean constraint is −b/2a.
    """
    error_mean, error_square = (0.0, 0.0) if noise is None else noise.moments(2)
    pivot, other = (0, 1) if abs(means[0]) >= abs(means[1]) else (1, 0)
    target = y.mean() - error_mean
    q, r = target / means[pivot], means[other] / means[pivot]
    u = X[:, other] - r * X[:, pivot]
    a, b = np.mean(u**2), 2 * q * np.mean(X[:, pivot] * u)
    if a <= NO_MEAN * np.mean(X[:, other] ** 2):
        return None, False
    # Squares about the mean, since q²E[x₁²] − E[y²] cancels badly when the means are large.
    c = np.mean((q * X[:, pivot] - target) ** 2) - np.mean((y - target) ** 2) + error_square
    discriminant = b**2 - 4 * a * c
    if discriminant < 0:
        second = np.array([-b / (2 * a)])
    else:
        # The stable pair: one root by adding magnitudes, the other from the product c/a.
        half = -0.5 * (b + np.copysign(np.sqrt(discriminant), b))
        second = np.array([half / a, c / half if half != 0 else 0.0])
    roots = np.empty((len(second), 2))
    roots[:, other], roots[:, pivot] = second, q - r * second
    return roots, bool(discriminant >= 0)
