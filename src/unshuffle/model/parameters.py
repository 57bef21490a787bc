"""What a point of the posterior means: weights, noise, terms of the mean function and level."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt
from threading import Lock
from typing import Self

import numpy as np

from unshuffle.core.mean_function import TERMS
from unshuffle.data.anchors import count_original_bags
from unshuffle.model.bag_means import BagMeans
from unshuffle.model.mean_function import OpenTerm
from unshuffle.model.settings import LOG_SIGMA_MAX, LOG_SIGMA_MIN, Settings
from unshuffle.model.within_bag import WithinBag


@dataclass
class Counter:
    """How often the likelihood was evaluated, by all threads."""

    n: int = 0
    lock: Lock = field(default_factory=Lock)

    def add(self, n: int = 1) -> None:
        """Count one, or several."""
        with self.lock:
            self.n += n


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The data in standard units, and their points θ = [weights …, log sigma, terms …, level].

    Log sigma is absent where the noise is known, a term's coefficient where its prior is closed,
    the level (the intercept of centred rows) where it is integrated out or there is none. Bags have
    mean rows `bag_rows` (R, p) and mean labels; the columns have a `covariance`. `known_terms` are
    the terms whose moments are known.
    """

    bag_rows: np.ndarray
    bag_labels: np.ndarray
    covariance: np.ndarray
    within_bag: WithinBag
    means: BagMeans
    log_sigma: float | None
    options: Settings
    known_terms: tuple[OpenTerm, ...] = ()
    has_level: bool = False
    # The bag as given of each bag here, where known pairs stand as bags of one row.
    original_bags: np.ndarray | None = None
    # Which bags are known by their mean label alone; None where there are none.
    is_mean: np.ndarray | None = None
    power: float = 1.0
    n_jobs: int | None = None
    evaluations: Counter = field(default_factory=Counter)

    @property
    def n(self) -> float:
        """Number of labels, as the deviations count."""
        return float(self.within_bag.label_counts.sum())

    @property
    def p(self) -> int:
        """Number of weights, the intercept left out."""
        return self.bag_rows.shape[1]

    @property
    def n_bags(self) -> int:
        """Number of bags, a known pair being one."""
        return len(self.bag_labels)

    @property
    def n_original_bags(self) -> int:
        """Number of bags as given."""
        return count_original_bags(self.original_bags, self.n_bags)

    @property
    def n_shuffled(self) -> float:
        """Number of labels, as the deviations count, that are no known pairs or means."""
        is_shuffled = self.means.m > 1.0
        if self.is_mean is not None:
            is_shuffled &= ~self.is_mean
        return float(self.sizes[is_shuffled].sum())

    @property
    def n_known_means(self) -> int:
        """Number of bags of several labels of which only the mean is known."""
        return 0 if self.is_mean is None else int((self.is_mean & (self.means.m > 1.0)).sum())

    @property
    def has_means_alone(self) -> bool:
        """Whether every label known of bags of several is a mean."""
        return self.n_known_means > 0 and self.n_shuffled == 0.0

    @property
    def sizes(self) -> np.ndarray:
        """Labels of every bag, as they count."""
        return self.within_bag.label_counts

    @cached_property
    def prior_sds(self) -> np.ndarray:
        """Prior sds of the open terms' coefficients.

        Terms open with the bags, since in one bag nothing tells a curve from other weights, and
        close as the share of linked pairs grows, which need none.
        """
        return self._curve_scale * np.array([each.term.scale for each in self.terms])

    @property
    def _curve_scale(self) -> float:
        opened = (1.0 - 1.0 / self.n_bags) ** 2
        return self.options.curve_scale * opened * self.n_shuffled / self.n

    @cached_property
    def terms(self) -> tuple[OpenTerm, ...]:
        """The terms whose coefficients are free coordinates."""
        return self.known_terms if self._curve_scale > 0.0 else ()

    @cached_property
    def degrees(self) -> np.ndarray:
        """Powers of the open terms."""
        return np.array([each.degree for each in self.terms], dtype=np.int64)

    @property
    def dim(self) -> int:
        """Number of free coordinates: weights, log sigma unless known, open terms, the level."""
        return self.p + (self.log_sigma is None) + len(self.terms) + self.has_level

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Split coordinates into weights and log sigma, which is kept inside its range."""
        w = theta[: self.p].copy()
        if self.log_sigma is not None:
            return w, self.log_sigma
        return w, float(min(max(theta[self.p], LOG_SIGMA_MIN), LOG_SIGMA_MAX))

    def join(self, w: np.ndarray, log_sigma: float) -> np.ndarray:
        """Return the coordinates of weights and a noise level, the mean function straight."""
        level = [log_sigma] if self.log_sigma is None else []
        return np.concatenate([w, level, [0.0] * (len(self.terms) + self.has_level)])

    @property
    def term_places(self) -> slice:
        """Where the coefficients of the open terms stand among the coordinates."""
        start = self.p + (self.log_sigma is None)
        return slice(start, start + len(self.terms))

    def level(self, theta: np.ndarray) -> float:
        """Return the level's coordinate."""
        return float(theta[-1]) if self.has_level else 0.0

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """Turn draws of θ into least-squares slopes of mean functions, w + Σ c Σ⁻¹ cov(x, zᵏ)."""
        w = slopes = x[:, : self.p]
        if not self.terms:
            return w
        inverse = np.linalg.pinv(self.covariance, rcond=1e-10, hermitian=True)
        for coefs, each in zip(x[:, self.term_places].T, self.terms, strict=True):
            slopes = slopes + coefs[:, None] * np.einsum("jk,mk->mj", inverse, each.pooled(w))
        return slopes

    def place_terms(self, values: np.ndarray) -> np.ndarray:
        """Return numbers of the open terms (m, open) among those of all, which are zero."""
        found = np.zeros((len(values), len(TERMS)))
        found[:, [TERMS.index(each.term) for each in self.terms]] = values
        return found

    def prediction_spread(self, theta: np.ndarray) -> float:
        """Return the sd of all predictions z."""
        w = theta[: self.p]
        return sqrt(max(float(w @ self.covariance @ w), 0.0))

    def label_items(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return both ends of the labels, how much each counts, and where bags begin and end."""
        low, high, counts, offsets = self.within_bag.label_items(self.bag_labels)
        if self.is_mean is not None:
            counts = np.where(np.repeat(self.is_mean, np.diff(offsets)), 0.0, counts)
        return low, high, counts, offsets

    def distance(self, a: np.ndarray, b: np.ndarray) -> float:
        """Return the root mean square difference of two answers' predictions, in label spreads."""
        gap = a[: self.p] - b[: self.p]
        return sqrt(max(float(gap @ self.covariance @ gap), 0.0))

    def with_effects(
        self, offset_share: float, offset_sd: float | None, context_share: float
    ) -> Self:
        """Return the same with another prior of random and contextual bag effects."""
        means = replace(
            self.means,
            offset_share=offset_share,
            offset_sd=offset_sd,
            context_share=context_share,
        )
        return replace(self, means=means)

    @cached_property
    def home_sizes(self) -> np.ndarray:
        """Labels of every original bag."""
        m = self.means.m
        return m if self.original_bags is None else np.bincount(self.original_bags, m)

    @cached_property
    def home_rows(self) -> np.ndarray:
        """Mean rows of every original bag, (H, p)."""
        if self.original_bags is None:
            return self.bag_rows
        sums = np.zeros((len(self.home_sizes), self.p))
        np.add.at(sums, self.original_bags, self.means.m[:, None] * self.bag_rows)
        return np.asarray(sums / self.home_sizes[:, None])

    @property
    def effect_rows(self) -> np.ndarray:
        """Mean rows of the original bags that have effects, zero for linked pairs, (H, p)."""
        return self.home_rows * (self.home_sizes > 1.0)[:, None]

    @property
    def n_effective(self) -> int:
        """Number of original bags of several labels, at least one: others are linked pairs."""
        return max(int((self.home_sizes > 1.0).sum()), 1)

    @cached_property
    def between_share(self) -> np.ndarray:
        """S⁻¹S_b, (p, p): pooled slopes are w + S⁻¹S_b δ with a contextual effect δ.

        S is the covariance of the rows, S_b that of the mean rows of original bags with effects.
        """
        sizes = self.home_sizes * (self.home_sizes > 1.0)
        between = (self.home_rows * sizes[:, None]).T @ self.home_rows / self.home_sizes.sum()
        inverse = np.linalg.pinv(self.covariance, rcond=1e-10, hermitian=True)
        return np.asarray(inverse @ between)
