"""Points of the posterior, many at a time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from unshuffle.core.mean_function import take_power

# The parts of a point that cannot be.
_OUTSIDE = (-1e300, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Parameters:
    """Many points: weights (m, p), coefficients of terms (m, T), and one number each of the rest.

    A point predicts z + Σ c (zᵏ − centre) + level with z = xᵀw, where each term has a degree k and
    the mean of zᵏ over all rows as centre, (m, T). The signal is wᵀ cov(x) w.
    """

    degrees: np.ndarray
    w: np.ndarray
    log_sigmas: np.ndarray
    coefs: np.ndarray
    levels: np.ndarray
    centres: np.ndarray
    signals: np.ndarray
    log_prior: np.ndarray
    is_inside: np.ndarray

    def __len__(self) -> int:
        return len(self.w)

    def part(self, chosen: slice | np.ndarray) -> Parameters:
        """Return some of the points."""
        parts = (getattr(self, each.name)[chosen] for each in fields(self)[1:])
        return Parameters(self.degrees, *parts)

    @property
    def curves(self) -> np.ndarray:
        """Coefficients of z², zero where that is no open term."""
        return np.asarray(self.coefs[:, self.degrees == 2].sum(axis=1))

    def join(self, within_bag: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the parts of the points from the log likelihoods inside bags and of means."""
        parts = np.stack([within_bag, means, self.log_prior], axis=1)
        parts[~(self.is_inside & np.isfinite(within_bag))] = _OUTSIDE
        return parts


class Evaluated(NamedTuple):
    """Log likelihoods at m points, their slopes in (w, terms, level), and in log sigma.

    Those of the likelihood inside bags leave out what w does to the centres of the terms.
    """

    values: np.ndarray
    gradients: np.ndarray
    by_sigmas: np.ndarray


def predict(rows: np.ndarray, params: Parameters, k: int) -> np.ndarray:
    """Return what point k predicts of rows (p, n)."""
    z = np.zeros(rows.shape[1])
    for weight, column in zip(params.w[k], rows, strict=True):
        z += weight * column
    found = z
    for t, degree in enumerate(params.degrees):
        found = found + params.coefs[k, t] * (take_power(z, degree) - params.centres[k, t])
    return np.asarray(found + params.levels[k])
