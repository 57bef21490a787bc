"""Damped Gauss-Newton from many starts at once, for values that tell their curvature.

Least squares of many rows is a flat bent valley, along which BFGS has to learn its way: it takes 40
to 60 evaluations a start. The curvature of quantiles knows the valley: 8 to 15 are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from unshuffle.objectives.problem import Curve

# Added to curvatures, in units of the rows' own: what a descent begins with, and how it changes
# where a step gains most of what was foretold, some of it, hardly any of it, or nothing.
_DAMPING, _SURE, _FAIR = 1e-2, 0.5, 0.1
_SOFTER, _HARDER, _BACK = 0.2, 3.0, 8.0
# Curvature below which a direction counts as flat, the least damping that a step back begins at,
# and the damping at which there is nothing left to try.
_FLAT, _LEAST, _MOST = 1e-6, 1e-8, 10.0
# Values lower than this, in the labels' variance, are too near to what counting in cells errs by to
# be told apart by their ratio.
_FINE = 1e-6


@dataclass(frozen=True, eq=False)
class Racers:
    """Where starts are: weights (S, d), value, gradient, curvature and damping of each."""

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
        damping, is_running = np.full(len(starts), _DAMPING), np.isfinite(values)
        return cls(starts.copy(), values, gradients, curves, damping, is_running, len(starts))


def descend_damped(
    curve: Curve,
    racers: Racers,
    own: np.ndarray,
    metric: np.ndarray,
    tol: float,
    n_passes: int,
    limits: Sequence[float] = (np.inf,),
) -> Racers:
    """Move some of the racers so many evaluations ahead, or until a step gains less than `tol`.

    `metric` (d, d) is the curvature that damping is measured in; directions outside its range are
    never taken. Every pass asks for one point of each racer that is still running. Those that are
    so many times as high as the lowest after the first pass, the second, … stop; the last limit
    holds from its pass on.
    """
    whitening = _whiten(metric)
    parts = [racers.weights, racers.values, racers.gradients, racers.curves, racers.damping]
    weights, values, gradients, curves, damping = (part.copy() for part in parts)
    is_running, n_evaluations = racers.is_running.copy(), racers.n_evaluations
    for n_done in range(n_passes):
        alive = own[is_running[own]]
        if not len(alive):
            break
        aims = [_aim(gradients[i], curves[i], damping[i], whitening) for i in alive]
        trials = weights[alive] + np.stack([step for step, _ in aims])
        found, slopes, bends = curve(trials)
        n_evaluations += len(alive)
        for k, (i, (_, foretold)) in enumerate(zip(alive, aims, strict=True)):
            gain = values[i] - found[k]
            if gain > 0.0:
                weights[i], values[i] = trials[k], found[k]
                gradients[i], curves[i] = slopes[k], bends[k]
            damping[i] *= _judge(gain, foretold, damping[i])
            is_running[i] = (gain if gain > 0.0 else foretold) >= tol and damping[i] <= _MOST
        best, limit = np.nanmin(values[own]), limits[min(n_done, len(limits) - 1)]
        is_running[alive] &= values[alive] - best <= (limit - 1.0) * max(best, _FINE)
    return Racers(weights, values, gradients, curves, damping, is_running, n_evaluations)


def _whiten(metric: np.ndarray) -> np.ndarray:
    """Return the directions (d, k) in which the metric is one."""
    sizes, vectors = np.linalg.eigh(metric)
    keep = sizes > 1e-10 * sizes.max()
    return np.asarray(vectors[:, keep] / np.sqrt(sizes[keep]))


def _aim(
    gradient: np.ndarray, curve: np.ndarray, damping: float, whitening: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return a damped step, and how much it should gain."""
    bends, axes = np.linalg.eigh(whitening.T @ curve @ whitening)
    bends = np.maximum(bends, _FLAT)
    slopes = axes.T @ (whitening.T @ gradient)
    moves = slopes / (bends + damping)
    foretold = float(slopes @ moves - 0.5 * bends @ moves**2)
    return -whitening @ (axes @ moves), foretold


def _judge(gain: float, foretold: float, damping: float) -> float:
    """Return the factor of the damping after a step that gained so much."""
    if gain > _SURE * foretold:
        return _SOFTER if damping > _LEAST * _FLAT else 1.0
    if gain > _FAIR * foretold:
        return 1.0
    if gain > 0.0:
        return _HARDER
    return max(_BACK, _LEAST / damping)
