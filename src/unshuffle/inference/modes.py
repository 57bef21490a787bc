"""Multistart search for posterior modes: annealed EM, then BFGS."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

from unshuffle.data.products import multiply
from unshuffle.model.posterior import Steps, Target


@dataclass(frozen=True)
class ModeSettings:
    """The multistart search for modes.

    Attributes
    ----------
    annealing : tuple of float
        The noise's share of the labels' variance at each step of annealed EM. At the first shares
        the posterior is smooth, with a single mode. Points are compared at the last one.
    overstep : float
        Factor by which EM steps are lengthened. EM converges for factors below 2.
    same_mode : float
        Two points are one mode where their predictions differ by less than this, in sds of the
        labels.
    least_gain : float
        Nats. An ascent ends where it expects a smaller gain.
    max_steps : int
        Largest number of steps of an ascent. Most ascents take a dozen.
    n_round, n_refined : int
        Starts of a round, and how many of their ends are refined by BFGS.
    n_followed, n_climbed : int
        How many of the best points start an ascent: with many bags (few modes), and with few bags
        (many modes).
    far_below : float
        A point this many nats below the best is dropped before its ascent has ended. The calibrated
        power leaves a tenth of such a gap or less.
    negligible : float
        A mode or a noise level this many nats below the best has no mass: e⁻¹⁵ is three in ten
        million.
    most_least_squares : int
        Largest number of starts of the search for least-squares answers. With many columns nearly
        every start ends in another local minimum.
    least_share : float
        Least share of the posterior that counts as an answer, or a component.
    """

    annealing: tuple[float, ...] = (0.4, 0.25, 0.15, 0.1)
    overstep: float = 1.7
    same_mode: float = 0.05
    least_gain: float = 0.01
    max_steps: int = 30
    n_round: int = 16
    n_refined: int = 4
    n_followed: int = 6
    n_climbed: int = 12
    far_below: float = 100.0
    negligible: float = 15.0
    most_least_squares: int = 128
    least_share: float = 1e-3


MODES = ModeSettings()

# A mode: its log posterior and its coordinates.
Mode = tuple[float, np.ndarray]


def draw_starts(target: Target, n_starts: int, rng: np.random.Generator) -> np.ndarray:
    """Draw starts, most from the posterior of bag means, scaled to the variance of the labels."""
    p, share = target.p, MODES.annealing[-1]
    rows = target.bag_rows * target.sizes[:, None] / share
    precision = np.eye(p) / target.options.weight_scale**2 + rows.T @ target.bag_rows
    centre = np.linalg.solve(precision, rows.T @ target.bag_labels)
    factor = np.linalg.cholesky(precision)
    w = centre + np.linalg.solve(factor.T, rng.standard_normal((p, n_starts))).T
    values, vectors = np.linalg.eigh(target.covariance)
    third = n_starts // 3
    # A third ignores the bag means, which mislead when the model is wrong. In half of this third
    # all directions of the predictions are equally likely.
    w[:third] = rng.standard_normal((third, p))
    # The symmetric root: rounding chooses the signs of eigenvectors.
    w[: third // 2] = w[: third // 2] @ (vectors / np.sqrt(np.maximum(values, 1e-6))) @ vectors.T
    if np.abs(centre).max() > 1e-9:
        w[-1] = centre
    signals = np.einsum("ij,jk,ik->i", w, target.covariance, w)
    return np.ascontiguousarray(w * np.sqrt((1.0 - share) / np.maximum(signals, 1e-12))[:, None])


def run_annealed_em(target: Target, w: np.ndarray) -> np.ndarray:
    """Run EM with deterministic annealing (Ueda and Nakano 1998) from many weights at once.

    The noise falls from step to step. Each step is a regression on expected labels: deviations
    inside bags count with the likelihood power, bag means in full.
    """
    variance, ridge = target.options.weight_scale**2, np.eye(target.p)
    between = (target.bag_rows * target.sizes[:, None]).T @ target.bag_rows
    information = target.power * target.n * target.covariance + (1.0 - target.power) * between
    for share in MODES.annealing:
        solver = np.linalg.inv(information / share + ridge / variance)
        gradients = target.likelihoods(w, 0.5 * log(share), True)[1]
        w = w + MODES.overstep * multiply(gradients - w / variance, solver)
    return w


def evaluate_annealed(target: Target, w: np.ndarray) -> list[Mode]:
    """Return weights with their log posteriors at the last noise level of annealing.

    Of the prior only the Gaussian factor counts, which bounds the weights.
    """
    values = target.likelihoods(w, 0.5 * log(MODES.annealing[-1]), False)[0]
    values = values - 0.5 * (w * w).sum(axis=1) / target.options.weight_scale**2
    return list(zip(values.tolist(), w, strict=True))


def maximise_all(
    target: Target, thetas: list[np.ndarray], metric: np.ndarray | None = None
) -> list[Mode]:
    """Return the local maximum that BFGS reaches from every point.

    `metric` is the first inverse curvature of all; without it each point has its `first_metric`.
    """
    return target.run_searches([maximise(target, theta, metric) for theta in thetas])


def maximise(target: Target, theta: np.ndarray, metric: np.ndarray | None = None) -> Steps[Mode]:
    """Maximise by BFGS from the complete-data curvature, by reverse communication."""
    p, d = target.p, target.dim
    if metric is None:
        metric = first_metric(target, theta)
    value, gradient = yield theta
    for _ in range(MODES.max_steps):
        step = metric @ gradient
        gain = float(step @ gradient)
        if gain < 2 * MODES.least_gain:
            break
        # The metric holds for steps of at most one in log sigma.
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
        is_done = trial_value - value < MODES.least_gain
        theta, value, gradient = trial, trial_value, trial_gradient
        if is_done:
            break
    return value, theta


def first_metric(target: Target, theta: np.ndarray) -> np.ndarray:
    """Return the inverse of the complete-data curvature; information inside bags counts half."""
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
    # As for a weight, with the variance of the term in place of that of a standardised column.
    halves = 0.5 * np.array([each.term.variance for each in target.terms])
    metric[terms, terms] = 1.0 / (halves * (target.power * target.n / share) + target.prior_sds**-2)
    if target.has_level:
        metric[-1, -1] = 1.0 / (0.5 * target.n / share + 1.0)
    return metric


def keep_distinct(target: Target, found: list[Mode], limit: int) -> list[Mode]:
    """Keep the best of modes with nearly the same predictions, best first."""
    kept: list[Mode] = []
    for value, theta in sorted(found, key=lambda mode: -mode[0]):
        if np.isfinite(value) and all(
            target.distance(theta, other) > MODES.same_mode for _, other in kept
        ):
            kept.append((value, theta))
        if len(kept) == limit:
            break
    return kept


def exchange(theta: np.ndarray, i: int, j: int) -> np.ndarray:
    """Return a point with two weights exchanged or, for i = j, the sign of one changed.

    >>> exchange(np.array([1.0, 2.0, 3.0]), 0, 2), exchange(np.array([1.0, 2.0, 3.0]), 1, 1)
    (array([3., 2., 1.]), array([ 1., -2.,  3.]))
    """
    moved = theta.copy()
    moved[[i, j]] = -theta[[i, j]] if i == j else theta[[j, i]]
    return moved


def count_starts(target: Target) -> int:
    """Return how many starts are annealed."""
    n_starts = target.options.n_starts
    # One weight has two signs only; more starts would repeat them.
    return n_starts if target.p > 1 else min(n_starts, 12)


def find_modes(
    target: Target, fitted: list[tuple[np.ndarray, float]], rng: np.random.Generator
) -> list[Mode]:
    """Find modes by BFGS from least-squares answers, then from rounds of annealed starts.

    `fitted` holds (weights, mean squared gap) of least-squares answers: at low noise they are the
    modes that annealing misses. The search ends after a round without a new mode near the best. A
    mode that one start in six reaches is then missed with a probability of 5 % ((5/6)^16). One bag
    has many modes: two such rounds in a row end its search.
    """
    o = target.options
    drawn = list(rng.permutation(draw_starts(target, count_starts(target), rng)))
    found = maximise_all(
        target, [target.join(w, 0.5 * log(min(max(gap, 1e-6), 1.0))) for w, gap in fitted]
    )
    climbed: list[np.ndarray] = []
    n_barren, n_last = 0, 2 if target.n_bags == 1 else 1
    for k in range(0, len(drawn), MODES.n_round):
        batch = drawn[k : k + MODES.n_round]
        ends = evaluate_annealed(target, run_annealed_em(target, np.array(batch)))
        near = [*climbed, *(theta for _, theta in found)]
        new = [
            w
            for _, w in keep_distinct(target, ends, MODES.n_round)
            if all(target.distance(w, other) > MODES.same_mode for other in near)
        ]
        new = new[: min(MODES.n_refined, o.n_refined - len(climbed))]
        climbed += new
        modes = maximise_all(target, [target.join(w, 0.5 * log(MODES.annealing[-1])) for w in new])
        known = keep_distinct(target, found, o.n_components)
        found = [*found, *modes]
        best = max(value for value, _ in found)
        is_barren = not any(
            value > best - MODES.far_below
            and all(target.distance(theta, other) > MODES.same_mode for _, other in known)
            for value, theta in modes
        )
        n_barren = n_barren + 1 if is_barren else 0
        if n_barren == n_last:
            break
    return keep_distinct(target, found, o.n_components)
