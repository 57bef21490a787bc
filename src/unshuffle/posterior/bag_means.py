"""What the means of bags say: ordinary residuals, with offsets that bags may share.

The gap between a bag's mean label and its mean prediction has variance σ²/m, plus that of labels
inside their bins, plus what sampling rows adds, plus (tσ)² where the labels of a bag share an
offset. The size t is none, or one of a few, and summed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, log

import numpy as np

# Offsets between bags, in units of the noise's sd: none, or one of a grid in steps of about two.
# No other grid was tried.
OFFSETS = np.array([0.0, 0.1, 0.25, 0.5, 1.0, 2.0])
# Where bags are said to be offset they may be so by more than any noise.
DECLARED_OFFSETS = np.array([0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])


@dataclass(frozen=True, eq=False)
class BagMeans:
    """The law of the gaps of R bags: labels of each, fixed variances, and factors of var(z).

    `offset_share` is the prior probability that bags are offset at all; `offset_sd`, where given,
    is the sd of the offsets. With an intercept the common offset is integrated out.
    """

    m: np.ndarray
    fixed: np.ndarray
    factors: np.ndarray
    has_intercept: bool
    offset_share: float = 0.0
    offset_sd: float | None = None

    @cached_property
    def _sizes(self) -> np.ndarray:
        """The offsets that are possible, in units of sigma."""
        if self.offset_share == 1.0:
            return DECLARED_OFFSETS
        return OFFSETS[:1] if self.offset_share == 0.0 else OFFSETS

    @cached_property
    def _log_prior(self) -> np.ndarray:
        share = self.offset_share
        if share == 1.0:
            return np.full(len(self._sizes), -log(len(self._sizes)))
        return np.log(np.where(self._sizes > 0.0, share / (len(OFFSETS) - 1), 1.0 - share))

    def evaluate(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigma: float
    ) -> tuple[float, np.ndarray, np.ndarray, float]:
        """Return the log density of the gaps, and its slopes in them, in var(z), in log sigma."""
        value, shares, weights, rest, s2 = self._weigh(gaps, variances, log_sigma)
        by_variance = 0.5 * weights * (weights * rest * rest - 1.0)
        if self.has_intercept:
            by_variance += 0.5 * weights**2 / weights.sum(axis=1, keepdims=True)
        per_s2 = 1.0 / self.m + self._offset_variances(1.0)[:, None] * (self.offset_sd is None)
        slope = float((shares @ (by_variance * per_s2)).sum()) * 2.0 * s2
        return value, -(shares @ (weights * rest)), (shares @ by_variance) * self.factors, slope

    def offset_law(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigma: float
    ) -> tuple[float, float]:
        """Return the probability that bags are offset, and the mean sd of their offsets."""
        shares = self._weigh(gaps, variances, log_sigma)[1]
        sds = np.sqrt(self._offset_variances(exp(2.0 * log_sigma)))
        return float(shares[sds > 0.0].sum()), float((shares * sds).sum())

    def _offset_variances(self, s2: float) -> np.ndarray:
        if self.offset_sd is not None:
            return np.array([self.offset_sd**2])
        return s2 * self._sizes**2

    def _weigh(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigma: float
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, float]:
        """Return the log density, the offsets' shares, 1/variances, gaps about their centre, σ²."""
        s2 = exp(2.0 * log_sigma)
        own = s2 / self.m + self.fixed + self.factors * variances
        weights = 1.0 / (own + self._offset_variances(s2)[:, None])
        centre = 0.0
        logs = 0.5 * np.log(weights).sum(axis=1)
        if self.has_intercept:
            total = weights.sum(axis=1)
            centre = ((weights * gaps).sum(axis=1) / total)[:, None]
            logs -= 0.5 * np.log(total)
        rest = gaps - centre
        logs -= 0.5 * (weights * rest * rest).sum(axis=1)
        if self.offset_sd is None:
            logs += self._log_prior
        # By hand: SciPy's logsumexp takes longer than the permanents of a small table.
        best = float(logs.max())
        shares = np.exp(logs - best)
        mass = float(shares.sum())
        return best + log(mass), shares / mass, weights, np.broadcast_to(rest, weights.shape), s2
