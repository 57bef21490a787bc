"""What the means of bags say: ordinary residuals, with offsets that bags may share.

The gap between a bag's mean label and its mean prediction has variance σ²/m, plus that of labels
inside their bins, plus what sampling rows adds, plus (tσ)² where the labels of a bag share an
offset. The size t is none, or one of a few, and summed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

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
    is the sd of the offsets; `only` one of the sizes that are possible leaves the others out. With
    an intercept the common offset is integrated out.
    """

    m: np.ndarray
    fixed: np.ndarray
    factors: np.ndarray
    has_intercept: bool
    offset_share: float = 0.0
    offset_sd: float | None = None
    only: int | None = None

    @property
    def n_sizes(self) -> int:
        """How many sizes of offsets are possible."""
        return 1 if self.offset_sd is not None else len(self._all_sizes)

    @property
    def _all_sizes(self) -> np.ndarray:
        if self.offset_share == 1.0:
            return DECLARED_OFFSETS
        return OFFSETS[:1] if self.offset_share == 0.0 else OFFSETS

    @cached_property
    def _sizes(self) -> np.ndarray:
        """The offsets that are possible, in units of sigma."""
        return self._all_sizes[
            slice(None) if self.only is None else slice(self.only, self.only + 1)
        ]

    @cached_property
    def _log_prior(self) -> np.ndarray:
        share = self.offset_share
        if share == 1.0:
            return np.full(len(self._sizes), -np.log(len(self._all_sizes)))
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
        by_gap = -(shares @ (weights * rest))
        return float(value), by_gap, (shares @ by_variance) * self.factors, slope

    def evaluate_many(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigmas: np.ndarray
    ) -> np.ndarray:
        """Return the log densities of many sets of gaps (m, R), without slopes."""
        return self._weigh(gaps, variances, log_sigmas)[0]

    def evaluate_classes(
        self, m: np.ndarray, counts: np.ndarray, sums: np.ndarray, log_sigmas: np.ndarray
    ) -> np.ndarray:
        """Return the same for bags whose gaps have the noise alone, class by class.

        Of k classes of so many bags of m labels each, `sums` (2, n, k) are those of the gaps and of
        their squares.
        """
        s2 = np.exp(2.0 * log_sigmas)
        variances = np.divide.outer(s2, m)[:, None, :] + self._offset_variances(s2)[..., None]
        weights = 1.0 / variances
        logs = 0.5 * (counts * np.log(weights)).sum(axis=-1)
        logs -= 0.5 * (weights * sums[1][:, None, :]).sum(axis=-1)
        if self.has_intercept:
            total = (counts * weights).sum(axis=-1)
            logs += 0.5 * (weights * sums[0][:, None, :]).sum(axis=-1) ** 2 / total
            logs -= 0.5 * np.log(total)
        if self.offset_sd is None:
            logs += self._log_prior
        best = logs.max(axis=-1)
        return np.asarray(best + np.log(np.exp(logs - best[:, None]).sum(axis=-1)))

    def offset_law(self, gaps: np.ndarray, variances: np.ndarray, log_sigma: Any) -> tuple:
        """Return the probability that bags are offset, and the mean sd of their offsets.

        Of one set of gaps, or of many at once.
        """
        sds, shares = self.offset_shares(gaps, variances, log_sigma)
        return (shares * (sds > 0.0)).sum(axis=-1), (shares * sds).sum(axis=-1)

    def offset_shares(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigma: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the sds of offsets that are possible, and how probable each of them is."""
        _, shares, _, _, s2 = self._weigh(gaps, variances, log_sigma)
        return np.sqrt(self._offset_variances(s2)), shares

    def precisions(self, log_sigma: float) -> np.ndarray:
        """Return 1/variance of every gap, for the first size of offsets."""
        s2 = float(np.exp(2.0 * log_sigma))
        return np.asarray(1.0 / (s2 / self.m + self.fixed + self._offset_variances(s2)[0]))

    def _offset_variances(self, s2: Any) -> np.ndarray:
        """Return the variances of the offsets that are possible, (…, their number)."""
        if self.offset_sd is not None:
            return np.array([self.offset_sd**2])
        return np.multiply.outer(s2, self._sizes**2)

    def _weigh(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigma: Any
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, Any]:
        """Return the log density, the offsets' shares, 1/variances, gaps about their centre, σ².

        Gaps and variances are (…, R), log sigma (…); weights and the centred gaps (…, sizes, R).
        """
        s2 = np.exp(2.0 * log_sigma)
        own = np.divide.outer(s2, self.m) + self.fixed + self.factors * variances
        weights = 1.0 / (own[..., None, :] + self._offset_variances(s2)[..., None])
        rest = np.broadcast_to(gaps[..., None, :], weights.shape)
        logs = 0.5 * np.log(weights).sum(axis=-1)
        if self.has_intercept:
            total = weights.sum(axis=-1)
            rest = rest - ((weights * rest).sum(axis=-1) / total)[..., None]
            logs -= 0.5 * np.log(total)
        logs -= 0.5 * (weights * rest * rest).sum(axis=-1)
        if self.offset_sd is None:
            logs += self._log_prior
        # By hand: SciPy's logsumexp takes longer than the permanents of a small table.
        best = logs.max(axis=-1)
        shares = np.exp(logs - best[..., None])
        mass = shares.sum(axis=-1)
        return best + np.log(mass), shares / mass[..., None], weights, rest, s2


@dataclass(frozen=True, eq=False)
class AnchoredMeans(BagMeans):
    """The same where known pairs stand as bags of one row and share the offset of their bag.

    `homes` numbers, for each of the R, the bag that it was part of. With an offset in common the
    law splits: the mean gap of a home, weighted by labels, is that of the bag as given, offsets and
    all, and what is left inside homes has the noise alone.
    """

    homes: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))

    @cached_property
    def _totals(self) -> np.ndarray:
        """Labels of each home."""
        return np.bincount(self.homes, self.m)

    @cached_property
    def _given(self) -> BagMeans:
        """The law of the bags as given; with one label for each row nothing but noise adds up."""
        nothing = np.zeros(len(self._totals))
        return BagMeans(
            self._totals, nothing, nothing, self.has_intercept, self.offset_share, self.offset_sd
        )

    def _split(self, gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean gaps of homes (…, H), and what is left of each gap (…, R)."""
        sums = np.zeros((*gaps.shape[:-1], len(self._totals)))
        # One after the other: the order of the sum must not hang on how many points there are.
        np.add.at(sums.T, self.homes, (gaps * self.m).T)
        means = sums / self._totals
        return means, gaps - means[..., self.homes]

    def _inside(self, rest: np.ndarray, log_sigma: Any) -> Any:
        """Return the log density of gaps about those of their homes."""
        n_free = len(self.m) - len(self._totals)
        squares = (self.m * rest * rest).sum(axis=-1)
        return -0.5 * squares * np.exp(-2.0 * log_sigma) - n_free * log_sigma

    def evaluate(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigma: float
    ) -> tuple[float, np.ndarray, np.ndarray, float]:
        means, rest = self._split(gaps)
        value, by_gap, _, slope = self._given.evaluate(means, np.zeros(len(means)), log_sigma)
        precision = float(np.exp(-2.0 * log_sigma))
        by_gap = (by_gap / self._totals)[self.homes] * self.m - self.m * rest * precision
        n_free = len(self.m) - len(self._totals)
        slope += float((self.m * rest * rest).sum()) * precision - n_free
        return value + float(self._inside(rest, log_sigma)), by_gap, np.zeros(len(gaps)), slope

    def evaluate_many(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigmas: np.ndarray
    ) -> np.ndarray:
        means, rest = self._split(gaps)
        values = self._given.evaluate_many(means, np.zeros(means.shape), log_sigmas)
        return np.asarray(values + self._inside(rest, log_sigmas))

    def offset_shares(
        self, gaps: np.ndarray, variances: np.ndarray, log_sigma: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        means = self._split(gaps)[0]
        return self._given.offset_shares(means, np.zeros(means.shape), log_sigma)
