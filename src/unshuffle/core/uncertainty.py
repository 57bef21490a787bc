"""How sure an answer is: a posterior by weighted draws, or a textbook t distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.stats import t as student_t

from unshuffle.core.products import dot
from unshuffle.errors import InputError


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
        if not self.has_interval:
            raise InputError(
                "there are as many weights as bags, so that nothing is left to measure the error: "
                "add a bag, or use method 'likelihood'"
            )
        reach = student_t.ppf(0.5 + level / 2, self.dof) * root_sum_square(self.spreads)
        return np.stack([self.centre - reach, self.centre + reach], axis=1)

    def mapped(self, to_user: Callable[[np.ndarray], np.ndarray], scale: float) -> StudentT:
        base = to_user(np.zeros(len(self.centre)))
        sd = None if self.residual_sd is None else self.residual_sd * scale
        return StudentT(to_user(self.centre), to_user(self.spreads) - base, self.dof, sd)
