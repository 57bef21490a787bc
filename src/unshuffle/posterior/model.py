"""The posterior density of weights and noise, in standard units."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log
from threading import Lock

import numpy as np

from unshuffle import kernels
from unshuffle.core.bags import Bags
from unshuffle.core.noise import Noise
from unshuffle.posterior.columns import Columns, split_noise
from unshuffle.posterior.options import LOG_SIGMA_MAX, LOG_SIGMA_MIN, Settings

# This part of the total variance keeps the prior of the direction finite where signal vanishes.
SIGNAL_FLOOR = 1e-3
# Step of differences in log sigma: far above the Sinkhorn tolerance, far below the width of modes.
_STEP = 0.01


@dataclass
class Counter:
    """How often the likelihood was evaluated, by all threads."""

    n: int = 0
    lock: Lock = field(default_factory=Lock)

    def add(self) -> None:
        """Count one."""
        with self.lock:
            self.n += 1


@dataclass(frozen=True, eq=False)
class Target:
    """Log posterior of θ = [weights …, log sigma] (log sigma absent where the noise is known).

    The bag means leave the permanent exactly, since the sum over a bag does not depend on the
    permutation: `within` and `labels` are centred in each bag, and the means `bag_rows`,
    `bag_labels` enter as ordinary Gaussian residuals. `power` below one weakens what the deviations
    say, `means_power` what the means say. Evaluations that do not wait for one another go to
    `n_jobs` threads.
    """

    within: np.ndarray
    labels: np.ndarray
    bag_rows: np.ndarray
    bag_labels: np.ndarray
    offsets: np.ndarray
    covariance: np.ndarray
    dof: float
    log_sigma: float | None
    options: Settings
    power: float = 1.0
    means_power: float = 1.0
    n_jobs: int | None = None
    evaluations: Counter = field(default_factory=Counter)

    @property
    def n(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def p(self) -> int:
        """Number of weights, the intercept left out."""
        return self.within.shape[1]

    @property
    def dim(self) -> int:
        """Number of free coordinates: the weights, and log sigma unless it is known."""
        return self.p + (self.log_sigma is None)

    @property
    def bag_of_row(self) -> np.ndarray:
        """The bag of every row."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Split coordinates into weights and log sigma, which is kept inside its range."""
        w = theta[: self.p].copy()
        if self.log_sigma is not None:
            return w, self.log_sigma
        return w, float(min(max(theta[self.p], LOG_SIGMA_MIN), LOG_SIGMA_MAX))

    def likelihood(self, w: np.ndarray, log_sigma: float) -> tuple[float, np.ndarray, float]:
        """Return the log likelihood at its powers, and its slopes in weights and log sigma."""
        self.evaluations.add()
        return kernels.log_likelihood(
            self.within, self.labels, self.offsets, self.bag_rows, self.bag_labels, w, log_sigma,
            self.dof, self.power, self.means_power,
        )  # fmt: skip

    def prior(
        self, w: np.ndarray, log_sigma: float, tilt: float
    ) -> tuple[float, np.ndarray, float]:
        """Return the log prior and its slopes; `tilt` scales the low-noise factor of the estimate.

        w ~ N(0, weight_scale²) times a Beta(share_low, share_high) on the noise's share of the
        total variance, with the direction of w uniform.
        """
        o = self.options
        noise = exp(2.0 * log_sigma)
        pull = self.covariance @ w
        power = float(w @ pull)
        total = power + noise
        signal = power + SIGNAL_FLOOR * total
        k = o.share_high - 0.5 * self.p
        both = o.share_low + o.share_high
        ratio = noise / o.tilt_share
        half = 0.5 * tilt * o.tilt_weight
        value = -0.5 * float(w @ w) / o.weight_scale**2 + k * log(signal) - both * log(total)
        value += 2.0 * o.share_low * log_sigma - half * np.log1p(ratio)
        along = k * 2.0 * (1.0 + SIGNAL_FLOOR) / signal - 2.0 * both / total
        gradient = -w / o.weight_scale**2 + along * pull
        slope = 2.0 * o.share_low + (k * 2.0 * SIGNAL_FLOOR / signal - 2.0 * both / total) * noise
        slope -= 2.0 * half * ratio / (1.0 + ratio)
        return value, gradient, slope

    def noise_offset(self, theta: np.ndarray) -> float:
        """Return what the kernel's slope in log sigma lacks, by a central difference.

        The correction's slope is that of a Gaussian band: off by a few hundredths per row, which
        is nothing at n = 100 but leads a climb astray at n = 10 000. It changes slowly, so that a
        climb needs it only at its start and end.
        """
        if self.log_sigma is not None:
            return 0.0
        w, level = self.split(theta)
        up, down = (self.likelihood(w, level + step)[0] for step in (_STEP, -_STEP))
        return (up - down) / (2 * _STEP) - self.likelihood(w, level)[2]

    def __call__(self, theta: np.ndarray, tilt: float) -> tuple[float, np.ndarray]:
        """Return the log posterior and its gradient in the free coordinates."""
        w, log_sigma = self.split(theta)
        value, gradient, slope = self.likelihood(w, log_sigma)
        prior, prior_gradient, prior_slope = self.prior(w, log_sigma, tilt)
        gradient = gradient + prior_gradient
        if self.log_sigma is None:
            gradient = np.append(gradient, slope + prior_slope)
        return value + prior, gradient

    def parts(self, theta: np.ndarray) -> tuple[float, float, float]:
        """Return log likelihood (at its powers), log prior, and log prior with the full tilt."""
        if self.log_sigma is None and not LOG_SIGMA_MIN <= theta[self.p] <= LOG_SIGMA_MAX:
            return -1e300, 0.0, 0.0  # outside the prior's support
        w, log_sigma = self.split(theta)
        value = self.likelihood(w, log_sigma)[0]
        if not np.isfinite(value):
            return -1e300, 0.0, 0.0
        return value, self.prior(w, log_sigma, 0.0)[0], self.prior(w, log_sigma, 1.0)[0]

    def squared_distance(self, a: np.ndarray, b: np.ndarray) -> float:
        """Return the variance of the difference of two answers' predictions."""
        gap = a[: self.p] - b[: self.p]
        return float(gap @ self.covariance @ gap)


def make_target(
    features: np.ndarray,
    bags: Bags,
    dof: float,
    log_sigma: float | None,
    options: Settings,
    n_jobs: int | None = None,
) -> Target:
    """Split standardised data into bag means and deviations from them."""
    sizes, y = bags.sizes, bags.y
    bag_of_row = np.repeat(np.arange(bags.n_bags), sizes)
    bag_rows = np.add.reduceat(features, bags.offsets[:-1], axis=0) / sizes[:, None]
    bag_labels = np.add.reduceat(y, bags.offsets[:-1]) / sizes
    return Target(
        within=np.ascontiguousarray(features - bag_rows[bag_of_row]),
        labels=y - bag_labels[bag_of_row],
        bag_rows=np.ascontiguousarray(bag_rows),
        bag_labels=bag_labels,
        offsets=np.ascontiguousarray(bags.offsets, dtype=np.int64),
        covariance=features.T @ features / bags.n,
        dof=dof,
        log_sigma=log_sigma,
        options=options,
        n_jobs=n_jobs,
    )


def pose(
    bags: Bags,
    has_intercept: bool,
    noise: Noise | None,
    options: Settings,
    n_jobs: int | None = None,
) -> tuple[Target, Columns, Bags] | None:
    """Return the posterior of standardised bags, its columns, and the bags less the noise's mean.

    With an intercept the last column of the bags is ones. None where no column or no label varies.
    """
    p = bags.d - has_intercept
    is_kept = np.asarray(bags.X[:, :p].any(axis=0))
    if not is_kept.any() or (has_intercept and np.ptp(bags.y) == 0):
        return None
    known, shift = split_noise(noise, LOG_SIGMA_MIN)
    if not has_intercept:
        bags = bags.mapped(bags.X, shift, 1.0)
    features = np.ascontiguousarray(bags.X[:, :p][:, is_kept])
    target = make_target(features, bags, bags.n - float(has_intercept), known, options, n_jobs)
    return target, Columns(is_kept, has_intercept, shift), bags
