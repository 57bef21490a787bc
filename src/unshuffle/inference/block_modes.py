"""Newton search in a trust region for the modes of a posterior of data in blocks.

The within-bag log likelihood is approximated by a quadratic about a point, from differences of
gradients over about a posterior sd: one pass for all points. The likelihood of bag means is exact
and takes no pass. Every size of random bag effects has its own modes, since the narrow mode without
effects lies inside the broad one with them. Modes are compared by Laplace's method (Tierney and
Kadane 1986).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log, sqrt

import numpy as np

from unshuffle.inference.modes import MODES, Mode, first_metric, maximise_all
from unshuffle.model.posterior import Target


@dataclass(frozen=True)
class BlockModeSettings:
    """Newton's method on quadratics of the within-bag likelihood, in a trust region.

    Attributes
    ----------
    difference : float
        Posterior sds to either side over which gradients are differenced: as far as draws lie.
    reach : float
        Radius of the trust region in sds of the quadratic.
    far : float
        Largest change of a coefficient in the trust region, in standard units, where the quadratic
        is flat. The largest change of log sigma is then one.
    shrink : float
        Factor of the radius where the density of all rows does not rise as the quadratic does. All
        shorter steps are tried in one pass, down to those over which gradients are differenced.
    n_soft, around : int, float
        Along how many directions of largest posterior sd other modes are looked for, and how many
        sds away.
    max_steps, steps_on_the_way : int
        Largest number of steps over all rows: in the last stage, and in stages before it.
    little : float
        Nats by which the binning of histograms moves a value. A mode is reached where the last step
        gains less, and two points are in one basin where the middle is no further below.
    same_width : float
        Two modes at one point that differ in the size of random effects are one where the logs of
        their volumes differ by less.
    """

    difference: float = 0.7
    reach: float = 6.0
    far: float = 0.1
    shrink: float = 1.0 / 3.0
    n_soft: int = 2
    around: float = 2.0
    max_steps: int = 15
    steps_on_the_way: int = 4
    little: float = 0.1
    same_width: float = 2.0


BLOCK_MODES = BlockModeSettings()
# A larger curvature is a difference across a jump of the likelihood, at almost no noise. With it
# the covariance would have no Cholesky factor.
_STEEPEST = 1e12
# Step in log sigma over which gradients of bag means and prior are differenced.
_LOG_SIGMA_STEP = 1e-3


@dataclass(frozen=True, eq=False)
class _Quadratic:
    """A concave quadratic for the within-bag log likelihood: value, gradient, minus the Hessian."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray
    curvature: np.ndarray

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        move = theta - self.theta
        drop = self.curvature @ move
        return self.value + float(move @ (self.gradient - 0.5 * drop)), self.gradient - drop


@dataclass(frozen=True, eq=False)
class FittedMode:
    """A mode: its log posterior given a size of random effects, and a factor of its covariance.

    `size_index` is the index of that size among those of `BagMeans`. The mode maximises the sum of
    `local_quadratic`, likelihood of bag means and prior in a trust region of radius `reach`. It
    `is_inside` unless the radius ended the ascent. The covariance is the inverse curvature.
    """

    value: float
    theta: np.ndarray
    factor: np.ndarray
    size_index: int
    local_quadratic: _Quadratic
    reach: float
    is_inside: bool

    @property
    def evidence(self) -> float:
        """Log of the posterior's mass about the mode by Laplace, up to a constant."""
        return self.value + float(np.log(np.diag(self.factor)).sum())


def refine_modes(
    target: Target, modes: list[Mode], n_steps: int = BLOCK_MODES.max_steps
) -> list[FittedMode]:
    """Return the modes near some points for every size of random effects."""
    thetas = [theta for _, theta in modes]
    factors = [factor_covariance(first_metric(target, theta)) for theta in thetas]
    return _refine_near(target, thetas, factors, n_steps)


def continue_modes(
    target: Target,
    fitted_modes: list[FittedMode],
    power: float,
    n_steps: int = BLOCK_MODES.max_steps,
) -> list[FittedMode]:
    """Continue modes at another power to the target's (numerical continuation).

    Their curvature gives the scale of the steps, also along ridges.
    """
    factors = [
        factor_covariance(_predict_covariance(target, fitted_mode, power))
        for fitted_mode in fitted_modes
    ]
    return _refine_near(
        target, [fitted_mode.theta for fitted_mode in fitted_modes], factors, n_steps
    )


def permute_mode(fitted_mode: FittedMode, order: np.ndarray) -> FittedMode:
    """Return a mode with its columns in another order."""
    places = np.append(order, np.arange(len(order), len(fitted_mode.theta)))
    local_quadratic = replace(
        fitted_mode.local_quadratic,
        theta=fitted_mode.local_quadratic.theta[places],
        gradient=fitted_mode.local_quadratic.gradient[places],
        curvature=fitted_mode.local_quadratic.curvature[np.ix_(places, places)],
    )
    spread = fitted_mode.factor @ fitted_mode.factor.T
    factor = factor_covariance(spread[np.ix_(places, places)])
    return replace(
        fitted_mode, theta=fitted_mode.theta[places], factor=factor, local_quadratic=local_quadratic
    )


def search_soft_directions(target: Target, fitted_mode: FittedMode, power: float) -> list[Mode]:
    """Search for modes along the directions of largest posterior sd of a mode at another power.

    A mode at a low power is wide, and may lie beside the mode at a higher one.
    """
    spread, p = fitted_mode.factor @ fitted_mode.factor.T, target.p
    values, vectors = np.linalg.eigh(spread[:p, :p])
    starts = []
    for k in range(max(0, p - BLOCK_MODES.n_soft), p):
        move = spread[:, :p] @ vectors[:, k] / sqrt(max(float(values[k]), 1e-300))
        starts += [fitted_mode.theta + side * BLOCK_MODES.around * move for side in (1.0, -1.0)]
    return maximise_all(target, starts, _predict_covariance(target, fitted_mode, power))


def _predict_covariance(target: Target, fitted_mode: FittedMode, power: float) -> np.ndarray:
    """Return the covariance at the target's power about a mode found at another power."""
    local_quadratic = replace(
        fitted_mode.local_quadratic,
        curvature=target.power / power * fitted_mode.local_quadratic.curvature,
    )
    return _invert_curvature(
        _fix_size(target, fitted_mode.size_index), local_quadratic, fitted_mode.theta
    )


def _refine_near(
    target: Target,
    thetas: list[np.ndarray],
    factors: list[np.ndarray],
    n_steps: int,
) -> list[FittedMode]:
    """Return the modes near points for every size of random effects."""
    local_quadratics = _fit_quadratics(target, thetas, factors)
    fitted_modes = [
        _maximise_quadratic(
            _fix_size(target, size_index), local_quadratic, size_index, BLOCK_MODES.reach
        )
        for local_quadratic in local_quadratics
        for size_index in range(target.means.n_sizes)
    ]
    done = list[FittedMode]()
    for step in range(n_steps):
        fitted_modes = keep_best(fitted_modes, done, step)
        if not fitted_modes:
            break
        local_quadratics = _fit_quadratics(
            target, [p.theta for p in fitted_modes], [p.factor for p in fitted_modes]
        )
        risen, fallen = list[FittedMode](), list[FittedMode]()
        for old, local_quadratic in zip(fitted_modes, local_quadratics, strict=True):
            alone, reach = (
                _fix_size(target, old.size_index),
                min(old.reach / BLOCK_MODES.shrink, BLOCK_MODES.reach),
            )
            before, reached = _evaluate_start(alone, old), local_quadratic.value
            reached += alone.evaluate_rest(old.theta)[0]
            if reached < before:
                is_mode = old.is_inside and old.value < before + BLOCK_MODES.little
                (done if is_mode else fallen).append(_undo_step(alone, old) if is_mode else old)
                continue
            new = _maximise_quadratic(alone, local_quadratic, old.size_index, reach)
            is_near = new.value < reached + BLOCK_MODES.little
            (done if is_near and new.is_inside else risen).append(new)
        shorter, ended = _shorten_steps(target, fallen)
        fitted_modes, done = [*risen, *shorter], [*done, *ended]
    done += [
        _undo_step(_fix_size(target, fitted_mode.size_index), fitted_mode)
        for fitted_mode in fitted_modes
    ]
    return keep_best(done, [], BLOCK_MODES.max_steps)


def _fix_size(target: Target, size_index: int) -> Target:
    """Return the target with one size of random effects."""
    return replace(target, means=replace(target.means, only=size_index))


def _evaluate_start(target: Target, fitted_mode: FittedMode) -> float:
    """Return the log posterior at the point about which a mode's quadratic is."""
    return (
        fitted_mode.local_quadratic.value
        + target.evaluate_rest(fitted_mode.local_quadratic.theta)[0]
    )


def _shorten_steps(
    target: Target, fitted_modes: list[FittedMode]
) -> tuple[list[FittedMode], list[FittedMode]]:
    """Shorten steps that lowered the log posterior of all rows: one pass for all lengths.

    Return the best of every mode's steps, and as modes the points that no step improves.
    """
    shorter, ended = list[FittedMode](), list[FittedMode]()
    n_shorter = ceil(log(BLOCK_MODES.difference / BLOCK_MODES.reach, BLOCK_MODES.shrink))
    tries = [
        [
            _maximise_quadratic(
                _fix_size(target, old.size_index),
                old.local_quadratic,
                old.size_index,
                old.reach * BLOCK_MODES.shrink**k,
            )
            for k in range(1, n_shorter + 1)
        ]
        for old in fitted_modes
    ]
    thetas = np.array([new.theta for own in tries for new in own]).reshape(-1, target.dim)
    values = iter(target.evaluate_tempered(thetas).tolist())
    for old, own in zip(fitted_modes, tries, strict=True):
        alone = _fix_size(target, old.size_index)
        before = _evaluate_start(alone, old)
        reached = [next(values) + alone.evaluate_rest(new.theta)[0] for new in own]
        best = int(np.argmax(reached))
        if reached[best] > before:
            shorter.append(own[best])
        else:
            ended.append(_undo_step(alone, old))
    return shorter, ended


def _undo_step(target: Target, fitted_mode: FittedMode) -> FittedMode:
    """Return as the mode the point about which its quadratic is, whose density is known."""
    theta = fitted_mode.local_quadratic.theta
    factor = factor_covariance(_invert_curvature(target, fitted_mode.local_quadratic, theta))
    value = _evaluate_start(target, fitted_mode)
    return replace(fitted_mode, value=value, theta=theta, factor=factor, is_inside=True)


def _count_sds(move: np.ndarray, factor: np.ndarray) -> float:
    """Return the length of a move in sds of a factor's spread."""
    return float(np.linalg.norm(np.linalg.solve(factor, move)))


def _fit_quadratics(
    target: Target, thetas: list[np.ndarray], factors: list[np.ndarray]
) -> list[_Quadratic]:
    """Fit quadratics to the within-bag log likelihood about points, in one pass."""
    d, points = target.dim, []
    for theta, factor in zip(thetas, factors, strict=True):
        moves = BLOCK_MODES.difference * factor.T
        points += [theta, *(theta + moves), *(theta - moves)]
    values, slopes = target.evaluate_within_bag(np.array(points))
    local_quadratics = []
    for k, factor in enumerate(factors):
        own = slice(k * (2 * d + 1), (k + 1) * (2 * d + 1))
        value, gradients = (
            target.power * values[own][0],
            target.power * slopes[own],
        )
        bend = (
            -(gradients[1 : d + 1] - gradients[d + 1 :]) @ factor / (2.0 * BLOCK_MODES.difference)
        )
        inverse = np.linalg.inv(factor)
        curvature = _clip_eigenvalues(inverse.T @ (0.5 * (bend + bend.T)) @ inverse, 0.0)
        local_quadratics.append(_Quadratic(thetas[k], float(value), gradients[0], curvature))
    return local_quadratics


def _maximise_quadratic(
    target: Target, local_quadratic: _Quadratic, size_index: int, reach: float
) -> FittedMode:
    """Maximise the sum of quadratic, bag means and prior in a trust region by Newton's method."""
    stiff = np.full(target.dim, (BLOCK_MODES.reach / BLOCK_MODES.far) ** 2)
    if target.log_sigma is None:
        stiff[target.p] = BLOCK_MODES.reach**2
    limit = np.linalg.cholesky(local_quadratic.curvature + np.diag(stiff)).T

    def evaluate(point: np.ndarray) -> tuple[float, np.ndarray]:
        (value, gradient), (other, others) = local_quadratic(point), target.evaluate_rest(point)
        return value + other, gradient + others

    theta = local_quadratic.theta
    value, gradient = evaluate(theta)
    for _ in range(MODES.max_steps):
        step = _invert_curvature(target, local_quadratic, theta) @ gradient
        scale = _clip_step(limit @ (theta - local_quadratic.theta), limit @ step, reach)
        for _ in range(10):
            trial = theta + scale * step
            trial_value, trial_gradient = evaluate(trial)
            if trial_value > value:
                break
            scale *= 0.4
        else:
            break
        gain = trial_value - value
        theta, value, gradient = trial, trial_value, trial_gradient
        if gain < MODES.least_gain:
            break
    factor = factor_covariance(_invert_curvature(target, local_quadratic, theta))
    is_inside = float(np.linalg.norm(limit @ (theta - local_quadratic.theta))) < 0.95 * reach
    return FittedMode(value, theta, factor, size_index, local_quadratic, reach, is_inside)


def _clip_step(place: np.ndarray, step: np.ndarray, reach: float) -> float:
    """Return the share of a step, at most one, that stays within reach."""
    a, b = float(step @ step), float(place @ step)
    room = reach**2 - float(place @ place)
    if a + 2.0 * b <= room or a == 0.0:
        return 1.0
    return max((sqrt(b * b + a * max(room, 0.0)) - b) / a, 0.0)


def factor_covariance(covariance: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor of a covariance, also where rounding made it singular.

    That happens where columns are the same but for rounding and the noise is next to none.
    """
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
        rounding = len(values) * np.finfo(float).eps * values.max()
        roots = vectors * np.sqrt(np.maximum(values, rounding))
        triangle = np.linalg.qr(roots.T)[1].T
        return np.asarray(triangle * np.sign(np.diagonal(triangle)))


def _clip_eigenvalues(curvature: np.ndarray, least: float) -> np.ndarray:
    """Return a symmetric matrix with its eigenvalues clipped from below."""
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    return (vectors * np.clip(values, least, _STEEPEST)) @ vectors.T


def _invert_curvature(target: Target, local_quadratic: _Quadratic, theta: np.ndarray) -> np.ndarray:
    """Return the inverse curvature of quadratic, means and prior at a point.

    No variance exceeds that of the prior's Gaussian factor.
    """
    curvature = local_quadratic.curvature + find_rest_curvature(target, theta)
    return np.linalg.inv(_clip_eigenvalues(curvature, 1.0 / target.options.weight_scale**2))


def find_rest_curvature(target: Target, theta: np.ndarray) -> np.ndarray:
    """Return the curvature of means and prior at a point, for one size of random effects.

    In weights and terms it is exact where gaps are linear in both. Of the prior it has the Gaussian
    factors alone, without that of the noise's share. Whatever involves log sigma is from
    differences of gradients.
    """
    w, log_sigma = target.split(theta)
    p, d = target.p, target.dim
    rows = target.mean_slopes(w, theta[target.term_places])
    inner = target.means.information(target.gaps(theta)[0], log_sigma, rows)
    bend = np.zeros((d, d))
    terms = np.arange(d)[target.term_places]
    places = [*range(p), *terms]
    bend[np.ix_(places, places)] = inner
    bend[range(p), range(p)] += 1.0 / target.options.weight_scale**2
    bend[terms, terms] += target.prior_sds**-2
    if target.log_sigma is None:
        move = _LOG_SIGMA_STEP * (np.arange(d) == p)
        ahead, behind = (target.evaluate_rest(theta + side * move)[1] for side in (1, -1))
        bend[p] = bend[:, p] = -(ahead - behind) / (2.0 * _LOG_SIGMA_STEP)
    return bend


def keep_best(
    fitted_modes: list[FittedMode], beside: list[FittedMode], n_steps: int
) -> list[FittedMode]:
    """Return the modes near the best by evidence, best first, without those known in `beside`.

    `n_steps` were taken so far.
    """
    best = max((fitted_mode.evidence for fitted_mode in [*fitted_modes, *beside]), default=0.0)
    is_early = n_steps < BLOCK_MODES.steps_on_the_way
    on_the_way = MODES.far_below if is_early else MODES.negligible
    kept: list[FittedMode] = []
    # The mode without random effects is thousands of nats below until its weights fit the means of
    # very many rows, which takes a few steps of a trust region.
    is_waited_for = is_early and all(fitted_mode.size_index for fitted_mode in beside)
    for fitted_mode in sorted(fitted_modes, key=lambda each: -each.evidence):
        is_new = all(not _coincide(fitted_mode, other) for other in [*kept, *beside])
        is_near = fitted_mode.evidence > best - (
            MODES.negligible if fitted_mode.is_inside else on_the_way
        )
        is_coming = is_waited_for and fitted_mode.size_index == 0 and not fitted_mode.is_inside
        if is_new and (is_near or is_coming):
            kept.append(fitted_mode)
        is_waited_for &= fitted_mode.size_index > 0
    return kept


def _coincide(left: FittedMode, right: FittedMode) -> bool:
    """Whether two modes are one: within half a typical distance of draws of the right one.

    With different sizes of random effects also of the left one, and with about the same volume.
    """
    move, near = left.theta - right.theta, 0.5 * sqrt(len(left.theta))
    if _count_sds(move, right.factor) > near:
        return False
    widths = [float(np.log(np.diag(fitted_mode.factor)).sum()) for fitted_mode in (left, right)]
    is_alike = (
        abs(widths[0] - widths[1]) < BLOCK_MODES.same_width and _count_sds(move, left.factor) < near
    )
    return left.size_index == right.size_index or is_alike
