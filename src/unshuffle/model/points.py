"""Points of the posterior, many at a time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

# The parts of a point that cannot be.
_OUTSIDE = (-1e300, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Parameters:
    """Many points: weights (m, p), and one number each of the rest.

    A point predicts z + c (z² − signal) + level with z = xᵀw, signal = wᵀ cov(x) w.
    """

    w: np.ndarray
    log_sigmas: np.ndarray
    curves: np.ndarray
    levels: np.ndarray
    signals: np.ndarray
    log_prior: np.ndarray
    is_inside: np.ndarray

    def __len__(self) -> int:
        return len(self.w)

    def part(self, chosen: slice | np.ndarray) -> Parameters:
        """Return some of the points."""
        return Parameters(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def join(self, within_bag: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the parts of the points from the log likelihoods inside bags and of means."""
        parts = np.stack([within_bag, means, self.log_prior], axis=1)
        parts[~(self.is_inside & np.isfinite(within_bag))] = _OUTSIDE
        return parts


class Evaluated(NamedTuple):
    """Log likelihoods at m points, their slopes in (w, c, level), (m, p + 2), and in log sigma."""

    values: np.ndarray
    gradients: np.ndarray
    by_sigmas: np.ndarray


def predict(rows: np.ndarray, params: Parameters, k: int) -> np.ndarray:
    """Return what point k predicts of rows (p, n)."""
    z = np.zeros(rows.shape[1])
    for weight, column in zip(params.w[k], rows, strict=True):
        z += weight * column
    return np.asarray(z + params.curves[k] * (z * z - params.signals[k]) + params.levels[k])
