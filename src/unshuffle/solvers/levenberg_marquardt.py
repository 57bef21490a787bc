"""Levenberg–Marquardt descent from many starting points at once.

The method of Levenberg (1944) and Marquardt (1963), for least squares whose Gauss-Newton curvature
is known. LS of many rows is a flat bent valley: BFGS takes 40 to 60 evaluations along it, this 8 to
15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from unshuffle.objectives.problem import Curve

# Shares of the rows' own curvature: below the first a direction is flat, and no step is tried at a
# damping below the second or above the third.
_FLAT, _LEAST_DAMPING, _MOST_DAMPING = 1e-6, 1e-8, 10.0


@dataclass(frozen=True)
class DampingSettings:
    """How the damping of Levenberg and Marquardt changes with what a step gained.

    Attributes
    ----------
    initial : float
        First damping, as a share of the rows' own curvature.
    good : float
        A step is good if it gains more than this share of the predicted gain.
    after_good, after_loss : float
        Factors of the damping after a good step, and after one that gains nothing. After other
        steps the damping stays.
    """

    initial: float = 1e-2
    good: float = 0.5
    after_good: float = 0.2
    after_loss: float = 8.0


DAMPING = DampingSettings()


@dataclass(frozen=True, eq=False)
class Descents:
    """State of each starting point: weights (S, d), value, gradient, curvature and damping."""

    weights: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    curves: np.ndarray
    damping: np.ndarray
    is_running: np.ndarray
    n_evaluations: int

    @classmethod
    def begin(cls, curve: Curve, starts: np.ndarray) -> Self:
        values, gradients, curves = curve(starts)
        damping, is_running = np.full(len(starts), DAMPING.initial), np.isfinite(values)
        return cls(starts.copy(), values, gradients, curves, damping, is_running, len(starts))


def descend_damped(
    curve: Curve,
    descents: Descents,
    own: np.ndarray,
    metric: np.ndarray,
    tol: float,
    n_passes: int,
    limits: Sequence[float] = (np.inf,),
) -> Descents:
    """Continue some of the descents for so many evaluations, or until a step gains less than `tol`.

    `metric` (d, d) is the curvature in which damping is measured; directions outside its range are
    never taken. Every pass evaluates one point of each descent that is still running. A descent
    stops when its value is above `limits[k]` times the lowest after pass k; the last limit also
    counts for all later passes.
    """
    whitening = _whiten(metric)
    weights, values = descents.weights.copy(), descents.values.copy()
    gradients, curves = descents.gradients.copy(), descents.curves.copy()
    damping = descents.damping.copy()
    is_running, n_evaluations = descents.is_running.copy(), descents.n_evaluations
    for n_done in range(n_passes):
        alive = own[is_running[own]]
        if not len(alive):
            break
        aims = [_damped_step(gradients[i], curves[i], damping[i], whitening) for i in alive]
        trials = weights[alive] + np.stack([step for step, _ in aims])
        found, slopes, bends = curve(trials)
        n_evaluations += len(alive)
        for k, (i, (_, predicted)) in enumerate(zip(alive, aims, strict=True)):
            gain = values[i] - found[k]
            if gain > 0.0:
                weights[i], values[i] = trials[k], found[k]
                gradients[i], curves[i] = slopes[k], bends[k]
            damping[i] *= _update_damping(gain, predicted, damping[i])
            is_gaining = (gain if gain > 0.0 else predicted) >= tol
            is_running[i] = is_gaining and damping[i] <= _MOST_DAMPING
        # Values below _FLAT are as small as the error of the cells, and their ratios are noise.
        best, limit = np.nanmin(values[own]), limits[min(n_done, len(limits) - 1)]
        is_running[alive] &= values[alive] - best <= (limit - 1.0) * max(best, _FLAT)
    return Descents(weights, values, gradients, curves, damping, is_running, n_evaluations)


def _whiten(metric: np.ndarray) -> np.ndarray:
    """Return the directions (d, k) in which the metric is one."""
    sizes, vectors = np.linalg.eigh(metric)
    keep = sizes > 1e-10 * sizes.max()
    return np.asarray(vectors[:, keep] / np.sqrt(sizes[keep]))


def _damped_step(
    gradient: np.ndarray, curve: np.ndarray, damping: float, whitening: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return a damped step, and its predicted gain."""
    bends, axes = np.linalg.eigh(whitening.T @ curve @ whitening)
    bends = np.maximum(bends, _FLAT)
    slopes = axes.T @ (whitening.T @ gradient)
    moves = slopes / (bends + damping)
    predicted = float(slopes @ moves - 0.5 * bends @ moves**2)
    return -whitening @ (axes @ moves), predicted


def _update_damping(gain: float, predicted: float, damping: float) -> float:
    """Return the factor of the damping after a step that gained so much."""
    least = _LEAST_DAMPING
    if gain > DAMPING.good * predicted:
        return DAMPING.after_good if damping > least * _FLAT else 1.0
    if gain > 0.0:
        return 1.0
    return max(DAMPING.after_loss, least / damping)
