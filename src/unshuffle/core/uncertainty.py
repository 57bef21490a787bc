"""How sure an answer is: a posterior by weighted draws, or a textbook t distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from unshuffle.core.products import dot, multiply
from unshuffle.errors import InputError

# Predictions × draws held at once.
_BLOCK = 2_000_000
# An estimate keeps this share of the way to the end of its interval at most.
INSIDE = 0.9
# A quantile of a mixture is known to this share of where it can lie; halving alone takes 34 steps,
# with slopes it is about 6.
_CLOSE, _MOST_STEPS = 1e-10, 60


def root_sum_square(rows: np.ndarray) -> np.ndarray:
    """Return the root of the sum of squares of each column, also where the squares overflow.

    >>> (root_sum_square(np.array([[3e200], [4e200]])) / 1e200).round(6).tolist()
    [5.0]
    """
    largest = np.abs(rows).max(axis=0, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(largest * np.sqrt(((rows / unit) ** 2).sum(axis=0)))


class Uncertainty(ABC):
    """What is known about the weights [features …, intercept], beyond one estimate."""

    @property
    @abstractmethod
    def noise(self) -> float | None:
        """Estimated sd of the noise."""

    @property
    @abstractmethod
    def has_interval(self) -> bool:
        """Whether there are intervals to be had."""

    @abstractmethod
    def interval(self, level: float) -> np.ndarray:
        """Return one row (low, high) per weight."""

    @abstractmethod
    def sd_at(self, rows: np.ndarray) -> np.ndarray:
        """Return the sd of a new label at rows of as many columns as there are weights."""

    @abstractmethod
    def interval_at(self, rows: np.ndarray, level: float, new_label: bool) -> np.ndarray:
        """Return (low, high) of the prediction, or of a new label, at every row."""

    @abstractmethod
    def mapped(self, to_user: Callable[[np.ndarray], np.ndarray], scale: float) -> Uncertainty:
        """Return the same in other units: `to_user` is affine, the noise grows by `scale`."""


@dataclass(frozen=True, eq=False)
class Posterior(Uncertainty):
    """Weighted draws from the posterior of weights (m, d) and noise sd (m,).

    `unknown` are the positions of weights of which the data say nothing: their interval is the
    whole line, whatever the draws. Without `has_noise` the same holds for the noise.

    >>> posterior = Posterior(np.array([[0.0], [1.0], [2.0]]), np.array([1, 2, 1.0]), np.ones(3))
    >>> posterior.mean.tolist(), posterior.noise
    ([1.0], 1.0)
    """

    draws: np.ndarray
    draw_weights: np.ndarray
    sigma: np.ndarray
    # Set where the sampler could not explore the posterior: the draws are then from a weakened
    # likelihood, wider than the posterior if the modes found are those that matter.
    is_thin: bool = False
    unknown: tuple[int, ...] = ()
    has_noise: bool = True

    @cached_property
    def shares(self) -> np.ndarray:
        """The draws' weights, adding up to one."""
        return self.draw_weights / self.draw_weights.sum()

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean of the weights."""
        return np.asarray((self.shares[:, None] * self.draws).sum(axis=0))

    @property
    def noise(self) -> float | None:
        return dot(self.shares, self.sigma) if self.has_noise else None

    @property
    def has_interval(self) -> bool:
        return True

    def interval(self, level: float) -> np.ndarray:
        tail = (1.0 - level) / 2
        ends = np.stack(
            [
                self.quantiles(self.draws[:, j], (tail, 1.0 - tail))
                for j in range(self.draws.shape[1])
            ]
        )
        ends[list(self.unknown)] = -np.inf, np.inf
        return ends

    def quantiles(self, values: np.ndarray, levels: tuple[float, ...]) -> np.ndarray:
        """Return quantiles of one value for each draw, each at the middle of its share."""
        order = np.argsort(values, kind="stable")
        shares = self.shares[order]
        return np.interp(levels, np.cumsum(shares) - 0.5 * shares, values[order])

    def sd_at(self, rows: np.ndarray) -> np.ndarray:
        roots = np.sqrt(self.shares)
        sds = []
        for part in _cut(rows, len(self.shares)):
            z = multiply(part, self.draws.T)
            gaps = z - (self.shares * z).sum(axis=1)[:, None]
            sds.append(root_sum_square((roots * gaps).T))
        noise = root_sum_square((roots * self.sigma)[:, None])
        return np.asarray(np.hypot(np.concatenate(sds), noise))

    def interval_at(self, rows: np.ndarray, level: float, new_label: bool) -> np.ndarray:
        tail = (1.0 - level) / 2
        ends = []
        for part in _cut(rows, len(self.shares)):
            z = multiply(part, self.draws.T)
            if new_label:
                ends.append(np.stack([self._mixture(z, tail), self._mixture(z, 1.0 - tail)], 1))
            else:
                ends.append(np.stack([self.quantiles(each, (tail, 1.0 - tail)) for each in z]))
        return np.concatenate(ends)

    def _mixture(self, z: np.ndarray, probability: float) -> np.ndarray:
        """Return a quantile, for every row, of the mixture of normals about predictions (n, m).

        Newton's steps kept between two ends that halve where a step would leave them. Every row
        goes its own way, so that it does not matter which rows come along.
        """
        from scipy.special import ndtr, ndtri  # slow to import, and for posteriors only

        # Without noise a normal is a point; in place of zero something far below any spread.
        size = np.maximum(np.abs(z).max(axis=1), np.finfo(float).tiny)
        reach = z + ndtri(probability) * self.sigma
        low, high = reach.min(axis=1), reach.max(axis=1)
        limit = _CLOSE * (high - low) + 1e-15 * size
        place = 0.5 * low + 0.5 * high
        going = np.flatnonzero(high - low > limit)
        for _ in range(_MOST_STEPS):
            if len(going) == 0:
                break
            at = place[going]
            sigma = np.maximum(self.sigma, 1e-15 * size[going, None])
            steps = (at[:, None] - z[going]) / sigma
            above = (self.shares * ndtr(steps)).sum(axis=1) - probability
            low[going] = np.where(above < 0, at, low[going])
            high[going] = np.where(above < 0, high[going], at)
            heights = self.shares * np.exp(-0.5 * steps**2)
            # Noise below the range has an endless slope, and its step, like one of none, halves.
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                slope = (heights / sigma).sum(axis=1) / np.sqrt(2 * np.pi)
                new = at - above / slope
            middle = 0.5 * low[going] + 0.5 * high[going]
            is_inside = (new > low[going]) & (new < high[going])
            new = np.where(is_inside, new, middle)
            place[going] = new
            done = (np.abs(new - at) <= limit[going]) | (high[going] - low[going] <= limit[going])
            going = going[~done]
        return place

    def hold(self, estimate: np.ndarray) -> np.ndarray:
        """Return an estimate that lies in its own 95 % intervals.

        One outside moves towards the mean of the draws, all weights together, so that slopes and
        intercept still belong together. Solvers keep slopes inside; the intercept at a far-off zero
        of the columns follows from them, and may not be.
        """
        ends, mean = self.interval(0.95), self.mean
        is_out = (estimate < ends[:, 0]) | (estimate > ends[:, 1])
        if not is_out.any():
            return estimate
        end = np.where(estimate > ends[:, 1], ends[:, 1], ends[:, 0])[is_out]
        gap = (estimate - mean)[is_out]
        kept = float(np.min(INSIDE * (end - mean[is_out]) / gap))
        return mean + min(max(kept, 0.0), 1.0) * (estimate - mean)

    def share_beyond(self, centre: np.ndarray, scales: np.ndarray, radius: float) -> float:
        """Return the mass further than radius · |centre| from a centre, in units of `scales`.

        Only the first ``len(scales)`` weights count: the intercept is left out.
        """
        gaps, parts, _ = self.measure(centre, scales)
        limit = radius * np.sqrt((parts**2).sum())
        return dot(self.shares, np.sqrt((gaps**2).sum(axis=1)) > limit)

    def measure(
        self, centre: np.ndarray, scales: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the draws less a centre, the centre, and the unit of both.

        Weights are times `scales`, and the unit is the largest of them: squares of labels beyond
        1e154 would overflow.
        """
        k = len(scales)
        parts, drawn = centre[:k] * scales, self.draws[:, :k] * scales
        unit = float(max(np.abs(parts).max(initial=0.0), np.abs(drawn).max(initial=0.0))) or 1.0
        return drawn / unit - parts / unit, parts / unit, unit

    def mapped(self, to_user: Callable[[np.ndarray], np.ndarray], scale: float) -> Posterior:
        return replace(self, draws=to_user(self.draws), sigma=self.sigma * scale)


@dataclass(frozen=True, eq=False)
class StudentT(Uncertainty):
    """Weights with normal errors of estimated variance, as in textbook regression.

    The rows of `spreads` are steps of one sd in independent directions: their products add up to
    the covariance, which would overflow for weights beyond 1e154.
    """

    centre: np.ndarray
    spreads: np.ndarray
    dof: int
    residual_sd: float | None

    @property
    def noise(self) -> float | None:
        return self.residual_sd

    @property
    def has_interval(self) -> bool:
        return self.dof >= 1

    def interval(self, level: float) -> np.ndarray:
        self._check()
        reach = self._quantile(level) * root_sum_square(self.spreads)
        return np.stack([self.centre - reach, self.centre + reach], axis=1)

    def sd_at(self, rows: np.ndarray) -> np.ndarray:
        """Return the textbook's standard error of a new label."""
        self._check()
        return self._errors_at(rows, new_label=True)

    def interval_at(self, rows: np.ndarray, level: float, new_label: bool) -> np.ndarray:
        self._check()
        reach = self._quantile(level) * self._errors_at(rows, new_label)
        z = multiply(rows, self.centre)
        return np.stack([z - reach, z + reach], axis=1)

    def _quantile(self, level: float) -> float:
        """Return how many standard errors an interval reaches to either side."""
        from scipy.special import stdtrit  # slow to import, and for intervals only

        return float(stdtrit(self.dof, 0.5 + level / 2))

    def _check(self) -> None:
        if not self.has_interval:
            raise InputError(
                "there are as many weights as bags, so that nothing is left to measure the error: "
                "add a bag, or use method 'likelihood'"
            )

    def _errors_at(self, rows: np.ndarray, new_label: bool) -> np.ndarray:
        parts = multiply(self.spreads, rows.T)
        if new_label:
            parts = np.concatenate([parts, np.full((1, len(rows)), self.residual_sd)])
        return root_sum_square(parts)

    def mapped(self, to_user: Callable[[np.ndarray], np.ndarray], scale: float) -> StudentT:
        base = to_user(np.zeros(len(self.centre)))
        sd = None if self.residual_sd is None else self.residual_sd * scale
        return StudentT(to_user(self.centre), to_user(self.spreads) - base, self.dof, sd)


def _cut(rows: np.ndarray, n_draws: int) -> list[np.ndarray]:
    """Cut rows so that the predictions of all draws for a piece fit in memory."""
    size = max(1, _BLOCK // max(n_draws, 1))
    return [rows[start : start + size] for start in range(0, max(len(rows), 1), size)]
