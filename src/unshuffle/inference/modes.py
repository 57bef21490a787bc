"""The search for posterior modes: annealed starts, least-squares answers, and climbs by BFGS."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np

from unshuffle.data.products import multiply
from unshuffle.model.posterior import Steps, Target

# Noise shares of the annealed ascent: broad at first (one smooth basin), then the level at which
# modes are ranked.
ANNEALING = (0.4, 0.25, 0.15, 0.1)
# Expectation-maximisation steps may be lengthened up to a factor 2 without losing convergence.
OVERSTEP = 1.7
# Two answers whose predictions differ by less than 5 % of sd(y) are one mode.
SAME_MODE = 0.05
# An expected gain below 0.01 nats needs no step.
_LEAST_GAIN = 0.01
# Climbs end within a dozen steps; the limit only ends those that wander.
_MAX_STEPS = 30

# Starts of a round, and how many of their ends are climbed from.
_ROUND, _CLIMBS = 16, 4
# Nats below the best, at full power, from which on a mode is no reason to search on: the calibrated
# power leaves a tenth of them or less.
_WITHIN_REACH = 100.0

# A mode: its log posterior and its coordinates.
Mode = tuple[float, np.ndarray]


def draw_starts(target: Target, n_starts: int, rng: np.random.Generator) -> np.ndarray:
    """Draw starts from the bag means and from the prior, scaled onto the sphere of two moments."""
    p, share = target.p, ANNEALING[-1]
    rows = target.bag_rows * target.sizes[:, None] / share
    precision = np.eye(p) / target.options.weight_scale**2 + rows.T @ target.bag_rows
    centre = np.linalg.solve(precision, rows.T @ target.bag_labels)
    factor = np.linalg.cholesky(precision)
    w = centre + np.linalg.solve(factor.T, rng.standard_normal((p, n_starts))).T
    values, vectors = np.linalg.eigh(target.covariance)
    third = n_starts // 3
    # A third ignores the bag means (they mislead when the model is wrong), half of that uniform
    # in predictions.
    w[:third] = rng.standard_normal((third, p))
    # The symmetric root: rounding chooses the signs of eigenvectors.
    w[: third // 2] = w[: third // 2] @ (vectors / np.sqrt(np.maximum(values, 1e-6))) @ vectors.T
    if np.abs(centre).max() > 1e-9:
        w[-1] = centre
    power = np.einsum("ij,jk,ik->i", w, target.covariance, w)
    return np.ascontiguousarray(w * np.sqrt((1.0 - share) / np.maximum(power, 1e-12))[:, None])


def anneal(target: Target, w: np.ndarray) -> np.ndarray:
    """Follow the likelihood from broad noise to narrow, from many weights at once.

    Expectation-maximisation with deterministic annealing (Ueda and Nakano 1998): each step solves
    the regression on expected labels. Within bags these count with the power, bag means in full.
    """
    variance, ridge = target.options.weight_scale**2, np.eye(target.p)
    between = (target.bag_rows * target.sizes[:, None]).T @ target.bag_rows
    information = target.power * target.n * target.covariance + (1.0 - target.power) * between
    for share in ANNEALING:
        solver = np.linalg.inv(information / share + ridge / variance)
        gradients = target.likelihoods(w, 0.5 * log(share), True)[1]
        w = w + OVERSTEP * multiply(gradients - w / variance, solver)
    return w


def rank_ends(target: Target, w: np.ndarray) -> list[Mode]:
    """Return annealed weights with their log posteriors at the last level of noise."""
    values = target.likelihoods(w, 0.5 * log(ANNEALING[-1]), False)[0]
    values = values - 0.5 * (w * w).sum(axis=1) / target.options.weight_scale**2
    return list(zip(values.tolist(), w, strict=True))


def climb_all(
    target: Target, thetas: list[np.ndarray], metric: np.ndarray | None = None
) -> list[Mode]:
    """Climb from every point; the inverse curvature may be given."""
    return target.drive([climbing(target, theta, metric) for theta in thetas])


def climbing(target: Target, theta: np.ndarray, metric: np.ndarray | None = None) -> Steps[Mode]:
    """Climb by BFGS with the complete-data curvature as first metric, asking for every value."""
    p, d = target.p, target.dim
    if metric is None:
        metric = first_metric(target, theta)
    value, gradient = yield theta
    for _ in range(_MAX_STEPS):
        step = metric @ gradient
        gain = float(step @ gradient)
        if gain < 2 * _LEAST_GAIN:
            break
        # A step of more than one in log sigma leaves the range in which the metric means anything.
        is_free = target.log_sigma is None
        scale = min(1.0, 1.0 / abs(step[p])) if is_free and step[p] != 0.0 else 1.0
        for _ in range(6):
            trial = theta + scale * step
            trial_value, trial_gradient = yield trial
            if trial_value > value + 1e-4 * scale * gain:
                break
            scale *= 0.35
        else:
            break
        move, change = trial - theta, gradient - trial_gradient
        inner = float(move @ change)
        if inner > 1e-10 * sqrt(float(move @ move) * float(change @ change)):
            left = np.eye(d) - np.outer(move, change) / inner
            metric = left @ metric @ left.T + np.outer(move, move) / inner
        is_done = trial_value - value < _LEAST_GAIN
        theta, value, gradient = trial, trial_value, trial_gradient
        if is_done:
            break
    return value, theta


def first_metric(target: Target, theta: np.ndarray) -> np.ndarray:
    """Return the inverse curvature if half of the information survived the shuffling."""
    p, d = target.p, target.dim
    share = exp(2.0 * target.split(theta)[1])
    rows = target.bag_rows * target.sizes[:, None]
    information = 0.5 * target.power * target.n * target.covariance
    information += rows.T @ target.bag_rows
    ridge = np.eye(p) / target.options.weight_scale**2
    metric = np.zeros((d, d))
    metric[:p, :p] = np.linalg.inv(information / share + ridge)
    if target.log_sigma is None:
        metric[p, p] = 4.0 / (target.power * target.n + 4.0)
    terms = np.arange(d)[target.term_places]
    # As for a weight, whose column has a variance of one.
    found = 0.5 * np.array([each.term.variance for each in target.terms])
    metric[terms, terms] = 1.0 / (found * (target.power * target.n / share) + target.prior_sds**-2)
    if target.has_level:
        metric[-1, -1] = 1.0 / (0.5 * target.n / share + 1.0)
    return metric


def keep_distinct(target: Target, found: list[Mode], limit: int) -> list[Mode]:
    """Keep the best of each group of coinciding answers, best first."""
    kept: list[Mode] = []
    for value, theta in sorted(found, key=lambda mode: -mode[0]):
        if np.isfinite(value) and all(
            target.distance(theta, other) > SAME_MODE for _, other in kept
        ):
            kept.append((value, theta))
        if len(kept) == limit:
            break
    return kept


def exchange(theta: np.ndarray, i: int, j: int) -> np.ndarray:
    """Return a point with two weights exchanged, or one turned round.

    >>> exchange(np.array([1.0, 2.0, 3.0]), 0, 2), exchange(np.array([1.0, 2.0, 3.0]), 1, 1)
    (array([3., 2., 1.]), array([ 1., -2.,  3.]))
    """
    moved = theta.copy()
    moved[[i, j]] = -theta[[i, j]] if i == j else theta[[j, i]]
    return moved


def count_starts(target: Target) -> int:
    """Return how many starts are annealed."""
    n_starts = target.options.n_starts
    # One column has two directions only; more starts would repeat them.
    return n_starts if target.p > 1 else min(n_starts, 12)


def find_modes(
    target: Target, fitted: list[tuple[np.ndarray, float]], rng: np.random.Generator
) -> list[Mode]:
    """Multistart search: climb from least-squares answers, then from rounds of annealed starts.

    `fitted` holds (weights, mean squared gap) of least-squares answers: at low noise they are the
    modes that annealing misses. Rounds end when one brings no new mode within reach of the best. A
    mode at which one start in six ends is then missed with a probability of 5 % ((5/6)^16). One bag
    leaves everything to the within-bag likelihood, whose modes are many: two such rounds end it.
    """
    o = target.options
    drawn = list(rng.permutation(draw_starts(target, count_starts(target), rng)))
    found = climb_all(
        target, [target.join(w, 0.5 * log(min(max(gap, 1e-6), 1.0))) for w, gap in fitted]
    )
    climbed: list[np.ndarray] = []
    n_barren, n_last = 0, 2 if target.n_bags == 1 else 1
    for k in range(0, len(drawn), _ROUND):
        batch = drawn[k : k + _ROUND]
        ends = rank_ends(target, anneal(target, np.array(batch)))
        near = [*climbed, *(theta for _, theta in found)]
        new = [
            w
            for _, w in keep_distinct(target, ends, _ROUND)
            if all(target.distance(w, other) > SAME_MODE for other in near)
        ]
        new = new[: min(_CLIMBS, o.n_refined - len(climbed))]
        climbed += new
        modes = climb_all(target, [target.join(w, 0.5 * log(ANNEALING[-1])) for w in new])
        known = keep_distinct(target, found, o.n_components)
        found = [*found, *modes]
        best = max(value for value, _ in found)
        is_barren = not any(
            value > best - _WITHIN_REACH
            and all(target.distance(theta, other) > SAME_MODE for _, other in known)
            for value, theta in modes
        )
        n_barren = n_barren + 1 if is_barren else 0
        if n_barren == n_last:
            break
    return keep_distinct(target, found, o.n_components)
