"""The posterior density of weights, noise and curve, in standard units."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, sqrt
from threading import Lock
from typing import Any, Self, TypeVar, cast

import numpy as np

from unshuffle.core.bags import Bags
from unshuffle.core.noise import Noise
from unshuffle.core.products import multiply, predict_rows
from unshuffle.core.threads import map_all
from unshuffle.posterior.bag_means import AnchoredMeans, BagMeans
from unshuffle.posterior.columns import Columns, split_noise
from unshuffle.posterior.options import LOG_SIGMA_MAX, LOG_SIGMA_MIN, Settings
from unshuffle.posterior.shapes import PairedShapes, PermutationShapes, Shapes, make_shapes

# This part of the total variance keeps the prior of the direction finite where signal vanishes.
SIGNAL_FLOOR = 1e-3
# Points that are evaluated in one go, and the most predictions that they may take (16 MB).
_BATCH, _BATCH_ROWS = 50, 2_000_000
# Nats that the last step of a scaling may gain in drawing, at full power, and ever: values then err
# by a few thousandths of a nat as they count, and a draw takes a quarter less time (half at low
# powers).
_ROUGH, _ROUGHEST = 1e-4, 1e-2
# The parts of a point that cannot be.
_OUTSIDE = (-1e300, 0.0, 0.0, 0.0)

Result = TypeVar("Result")
# A search that asks from outside: it hands out a point and a tilt, and is given value and gradient.
Steps = Generator[tuple[np.ndarray, float], tuple[float, np.ndarray], Result]


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
class Laws:
    """Many points: weights (m, p), and one number each of the rest."""

    w: np.ndarray
    log_sigmas: np.ndarray
    curves: np.ndarray
    signals: np.ndarray
    plain: np.ndarray
    tilted: np.ndarray
    is_inside: np.ndarray

    def join(self, shapes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the parts of the points from the log likelihoods of their shapes and means."""
        parts = np.stack([shapes, means, self.plain, self.tilted], axis=1)
        parts[~(self.is_inside & np.isfinite(shapes))] = _OUTSIDE
        return parts


@dataclass(frozen=True, eq=False)
class Target:
    """Log posterior of θ = [weights …, log sigma, curve, level].

    Log sigma is absent where the noise is known, the curve where its prior is closed, the level
    (the intercept of centred rows) where it is integrated out or there is none. `rows` (p, n)
    are the standardised columns, `masses` how often each row counts. The law of the labels is a
    weighted sum of the deviations inside bags (`shapes`, at a `power` below one where they are not
    trusted in full) and of the `means` of bags. Evaluations that do not wait for one another go to
    `n_jobs` threads.
    """

    rows: np.ndarray
    masses: np.ndarray
    offsets: np.ndarray
    bag_rows: np.ndarray
    bag_labels: np.ndarray
    covariance: np.ndarray
    shapes: Shapes
    means: BagMeans
    log_sigma: float | None
    options: Settings
    third: np.ndarray
    has_level: bool = False
    # The bag as given of each bag here, where known pairs stand as bags of one row.
    homes: np.ndarray | None = None
    power: float = 1.0
    n_jobs: int | None = None
    evaluations: Counter = field(default_factory=Counter)

    @property
    def n(self) -> float:
        """Number of labels, as the deviations count."""
        return float(self.shapes.worth.sum())

    @property
    def p(self) -> int:
        """Number of weights, the intercept left out."""
        return len(self.rows)

    @property
    def n_bags(self) -> int:
        """Number of bags, a known pair being one."""
        return len(self.offsets) - 1

    @property
    def n_homes(self) -> int:
        """Number of bags as given."""
        return self.n_bags if self.homes is None else int(self.homes.max()) + 1

    @property
    def n_shuffled(self) -> float:
        """Number of labels, as the deviations count, that are no known pairs."""
        return self.n if self.homes is None else float(self.sizes[self.sizes > 1.0].sum())

    @property
    def sizes(self) -> np.ndarray:
        """Labels of every bag, as they count."""
        return self.shapes.worth

    @property
    def curve_scale(self) -> float:
        """Prior sd of the curve: it opens with the bags, since in one bag nothing tells a curve
        from other weights. A known pair tells as much of it as the mean of a bag.
        """
        return self.options.curve_scale * (1.0 - 1.0 / self.n_bags) ** 2

    @property
    def has_curve(self) -> bool:
        """Whether the curve is a free coordinate."""
        return self.curve_scale > 0.0

    @property
    def dim(self) -> int:
        """Number of free coordinates: weights, log sigma unless known, the curve unless flat."""
        return self.p + (self.log_sigma is None) + self.has_curve + self.has_level

    @cached_property
    def bag_of_row(self) -> np.ndarray:
        """The bag of every row."""
        return np.repeat(np.arange(self.n_bags), np.diff(self.offsets))

    @cached_property
    def row_totals(self) -> np.ndarray:
        """Rows of every bag, by mass."""
        return np.add.reduceat(self.masses, self.offsets[:-1])

    @cached_property
    def within(self) -> np.ndarray:
        """The columns less the means of their bags, (p, n)."""
        return self.rows - self.bag_rows.T[:, self.bag_of_row]

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Split coordinates into weights and log sigma, which is kept inside its range."""
        w = theta[: self.p].copy()
        if self.log_sigma is not None:
            return w, self.log_sigma
        return w, float(min(max(theta[self.p], LOG_SIGMA_MIN), LOG_SIGMA_MAX))

    def join(self, w: np.ndarray, log_sigma: float) -> np.ndarray:
        """Return the coordinates of weights and a noise level, the curve flat."""
        level = [log_sigma] if self.log_sigma is None else []
        return np.concatenate([w, level, [0.0] * (self.has_curve + self.has_level)])

    def curve(self, theta: np.ndarray) -> float:
        """Return the curve's coordinate."""
        return float(theta[self.curve_place]) if self.has_curve else 0.0

    @property
    def curve_place(self) -> int:
        """Where the curve stands among the coordinates, if it is one of them."""
        return self.p + (self.log_sigma is None)

    def level(self, theta: np.ndarray) -> float:
        """Return the level's coordinate."""
        return float(theta[-1]) if self.has_level else 0.0

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """Turn draws of θ into the least-squares slopes of their laws, w + c Σ⁻¹ cov(x, z²)."""
        w = x[:, : self.p]
        if not self.has_curve:
            return w
        moments = np.einsum("jkl,mk,ml->mj", self.third, w, w)
        inverse = np.linalg.pinv(self.covariance, rcond=1e-10, hermitian=True)
        at = self.curve_place
        return w + x[:, at : at + 1] * np.einsum("jk,mk->mj", inverse, moments)

    def predict(self, theta: np.ndarray) -> np.ndarray:
        """Return the law's mean of every row; an intercept integrated out is left out."""
        w, curve = theta[: self.p], self.curve(theta)
        z = predict_rows(self.rows.T, w) + self.level(theta)
        if not curve:
            return z
        straight = z - self.level(theta)
        return z + curve * (straight**2 - float(w @ self.covariance @ w))

    def _bend(
        self, w: np.ndarray, curve: float, level: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the slopes of the mean law in (w, c, level), (k, n), their bag means, and a point.

        The law g = z + c (z² − mean z²) + level is the product of its slopes with the point
        (w, −c, level), so that whoever evaluates a linear law evaluates the curved one and its
        exact slopes. They are centred in each bag where the shapes are.
        """
        if not self.has_curve and self.shapes.is_centred:
            return self.within, self.bag_rows, w
        slopes, point = self.rows, w
        if self.has_curve:
            pull = self.covariance @ w
            z = predict_rows(self.rows.T, w)
            bent = self.rows * (1.0 + 2.0 * curve * z) - (2.0 * curve * pull)[:, None]
            slopes = np.vstack([bent, z * z - float(w @ pull)])
            point = np.append(w, -curve)
        if self.has_level:
            slopes = np.vstack([slopes, np.ones(slopes.shape[1])])
            point = np.append(point, level)
        sums = np.add.reduceat(slopes * self.masses, self.offsets[:-1], axis=1)
        means = sums / self.row_totals
        if self.shapes.is_centred:
            slopes = slopes - means[:, self.bag_of_row]
        return np.ascontiguousarray(slopes), np.ascontiguousarray(means.T), point

    def _gaps(
        self, columns: np.ndarray, means: np.ndarray, point: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the gaps of bag means, the variances of predictions in bags, and predictions.

        Where the variances do not matter they are zero, and the predictions None.
        """
        gaps = self.bag_labels - predict_rows(means, point)
        if not isinstance(self.shapes, PairedShapes) or not self.means.factors.any():
            return gaps, np.zeros(self.n_bags), None
        z = predict_rows(columns.T, point)
        return gaps, self.shapes.prediction_variances(z), z

    @property
    def _means_power(self) -> float:
        """How much the means count beside the shapes, which hold them unless they are centred."""
        return 1.0 if self.shapes.is_centred else 1.0 - self.power

    def likelihood(
        self, w: np.ndarray, log_sigma: float, curve: float = 0.0, level: float = 0.0
    ) -> tuple[float, np.ndarray, float]:
        """Return the log likelihood at its power, and its slopes in (w, c, level) and log sigma."""
        self.evaluations.add()
        columns, means, point = self._bend(w, curve, level)
        value, gradient, slope = self.shapes.evaluate(columns, point, log_sigma, True)
        gaps, variances, z = self._gaps(columns, means, point)
        other, by_gap, by_variance, other_slope = self.means.evaluate(gaps, variances, log_sigma)
        others = -(means * by_gap[:, None]).sum(axis=0)
        if z is not None and isinstance(self.shapes, PairedShapes):
            others = others + self.shapes.pull_variances(columns, z, by_variance)
        share = self._means_power
        return (
            self.power * value + share * other,
            self.power * gradient + share * others,
            self.power * slope + share * other_slope,
        )

    def value(self, w: np.ndarray, log_sigma: float) -> float:
        """Return the log likelihood of a straight law at its power."""
        self.evaluations.add()
        columns, means, point = self._bend(w, 0.0, 0.0)
        value = self.shapes.evaluate(columns, point, log_sigma, False)[0]
        gaps, variances, _ = self._gaps(columns, means, point)
        return self.mix(value, self.means.evaluate(gaps, variances, log_sigma)[0])

    def mix(self, shapes: Any, means: Any) -> Any:
        """Return the log likelihood at its power from its two parts, numbers or arrays."""
        return self.power * shapes + self._means_power * means

    def offset_law(self, theta: np.ndarray) -> tuple[float, float]:
        """Return the probability that bags are offset, and the offsets' mean sd, at a point."""
        sds, shares = self.offset_shares(theta)
        return float((shares * (sds > 0.0)).sum()), float((shares * sds).sum())

    def offset_shares(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sds of offsets that are possible, and how probable each is, at a point."""
        w, log_sigma = self.split(theta)
        gaps, variances, _ = self._gaps(*self._bend(w, self.curve(theta), self.level(theta)))
        return self.means.offset_shares(gaps, variances, log_sigma)

    def bag_laws(
        self, theta: np.ndarray, n_atoms: int
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield the labels of each bag (as a slice), atoms of its predictions, and their shares.

        Bags of more rows than so many atoms are told by as many quantiles.
        """
        z = self.predict(theta)
        offsets = self.label_items()[3]
        middles = (np.arange(n_atoms) + 0.5) / n_atoms
        for r in range(self.n_bags):
            start, stop = self.offsets[r], self.offsets[r + 1]
            part, masses = z[start:stop], self.masses[start:stop]
            if len(part) > n_atoms:
                order = np.argsort(part, kind="stable")
                places = np.cumsum(masses[order]) - 0.5 * masses[order]
                part = np.interp(middles, places / masses.sum(), part[order])
                masses = np.ones(n_atoms)
            yield slice(offsets[r], offsets[r + 1]), part, masses / masses.sum()

    def prediction_spread(self, theta: np.ndarray) -> float:
        """Return the sd of all predictions."""
        return float(self.predict(theta).std())

    def label_items(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return both ends of the labels, how much each counts, and where bags begin and end."""
        shapes = self.shapes
        if isinstance(shapes, PairedShapes):
            sizes = np.diff(shapes.labels.offsets)
            labels, shares = shapes.labels, np.repeat(shapes.shares, sizes)
            return labels.low, labels.high, labels.masses * shares, labels.offsets
        assert isinstance(shapes, PermutationShapes)
        y = shapes.labels + self.bag_labels[self.bag_of_row]
        return y, y, np.ones(len(y)), self.offsets

    def _log_prior(self, square: Any, signal: Any, log_sigma: Any, tilt: float) -> Any:
        """Return the log prior of weights with a sum of squares and a signal, or of many.

        w ~ N(0, weight_scale²) times a Beta(share_low, share_high) on the noise's share of the
        total variance, with the direction of w uniform.
        """
        o = self.options
        noise = np.exp(2.0 * log_sigma)
        total = signal + noise
        value = -0.5 * square * self._bound(tilt) - (o.share_low + o.share_high) * np.log(total)
        value += (o.share_high - 0.5 * self.p) * np.log(signal + SIGNAL_FLOOR * total)
        lean = 0.5 * tilt * o.tilt_weight * np.log1p(noise / o.tilt_share)
        return value + 2.0 * o.share_low * log_sigma - lean

    def _bound(self, tilt: float) -> float:
        """Return the precision that bounds weights: the estimate's lean has a closer one."""
        o = self.options
        return (1.0 - tilt) / o.weight_scale**2 + tilt / min(o.lean_scale, o.weight_scale) ** 2

    def close_bound(self, x: np.ndarray) -> np.ndarray:
        """Return what the estimate's closer bound on the weights adds to log priors of points."""
        return -0.5 * (x[:, : self.p] ** 2).sum(axis=1) * (self._bound(1.0) - self._bound(0.0))

    def prior(
        self, w: np.ndarray, log_sigma: float, tilt: float
    ) -> tuple[float, np.ndarray, float]:
        """Return the log prior and its slopes; `tilt` scales the estimate's low-noise factor."""
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
        bound = self._bound(tilt)
        value = float(self._log_prior(float(w @ w), power, log_sigma, tilt))
        along = k * 2.0 * (1.0 + SIGNAL_FLOOR) / signal - 2.0 * both / total
        gradient = -w * bound + along * pull
        slope = 2.0 * o.share_low + (k * 2.0 * SIGNAL_FLOOR / signal - 2.0 * both / total) * noise
        slope -= 2.0 * half * ratio / (1.0 + ratio)
        return value, gradient, slope

    def __call__(self, theta: np.ndarray, tilt: float) -> tuple[float, np.ndarray]:
        """Return the log posterior and its gradient in the free coordinates."""
        w, log_sigma = self.split(theta)
        found = self.likelihood(w, log_sigma, self.curve(theta), self.level(theta))
        return self.add_prior(theta, tilt, found)

    def add_prior(
        self, theta: np.ndarray, tilt: float, likelihood: tuple[float, np.ndarray, float]
    ) -> tuple[float, np.ndarray]:
        """Return the log posterior and its gradient from those of the likelihood."""
        value, gradient, slope = likelihood
        w, log_sigma = self.split(theta)
        curve = self.curve(theta)
        prior, prior_gradient, prior_slope = self.prior(w, log_sigma, tilt)
        parts = [gradient[: self.p] + prior_gradient]
        if self.log_sigma is None:
            parts.append(np.array([slope + prior_slope]))
        if self.has_curve:
            prior -= 0.5 * (curve / self.curve_scale) ** 2
            parts.append(np.array([gradient[self.p] - curve / self.curve_scale**2]))
        if self.has_level:
            parts.append(gradient[-1:])
        return value + prior, np.concatenate(parts)

    def parts(self, x: np.ndarray, floor: float = -np.inf) -> np.ndarray:
        """Return, for many points (m, dim), four numbers each: log likelihoods and log priors.

        The likelihoods are those of shapes and of means at full power, the priors plain and tilted.
        Where the log posterior is surely below the floor the point may count as impossible.
        """
        size = max(1, min(_BATCH, _BATCH_ROWS // max(self.rows.shape[1], 1)))
        batches = [x[k : k + size] for k in range(0, len(x), size)]
        found = map_all(lambda batch: self._parts_of_batch(batch, floor), batches, self.n_jobs)
        return np.concatenate(found)

    def _parts_of_batch(self, x: np.ndarray, floor: float) -> np.ndarray:
        self.evaluations.add(len(x))
        law = self.read_points(x)
        z = self._predict_many(law, x[:, -1] if self.has_level else np.zeros(len(x)))
        averages = np.add.reduceat(z * self.masses, self.offsets[:-1], axis=1) / self.row_totals
        means = self._weigh_averages(z, averages, law.log_sigmas)
        if self.shapes.is_centred:
            z = z - averages[:, self.bag_of_row]
        tolerance = min(_ROUGH / self.power, _ROUGHEST)
        reached = np.maximum(law.plain, law.tilted) + self._means_power * means
        floors = np.where(law.is_inside, (floor - reached) / self.power, np.inf)
        shapes = self.shapes.evaluate_many(z, law.log_sigmas, floors, tolerance)
        return law.join(shapes, means)

    def read_points(self, x: np.ndarray) -> Laws:
        """Split many points into their coordinates, and return them with their log priors."""
        w, nothing = x[:, : self.p], np.zeros(len(x))
        curves = x[:, self.curve_place] if self.has_curve else nothing
        log_sigmas, is_inside = nothing + (self.log_sigma or 0.0), nothing == 0.0
        if self.log_sigma is None:
            log_sigmas = np.clip(x[:, self.p], LOG_SIGMA_MIN, LOG_SIGMA_MAX)
            is_inside = log_sigmas == x[:, self.p]
        signals = np.array([each @ self.covariance @ each for each in w])
        bend = -0.5 * (curves / self.curve_scale) ** 2 if self.has_curve else nothing
        squares = (w * w).sum(axis=1)
        plain, tilted = (
            self._log_prior(squares, signals, log_sigmas, tilt) + bend for tilt in (0.0, 1.0)
        )
        return Laws(w, log_sigmas, curves, signals, plain, tilted, is_inside)

    def _predict_many(self, law: Laws, levels: np.ndarray) -> np.ndarray:
        """Return the mean laws of all rows, (m, n)."""
        z = multiply(law.w, self.rows)
        if self.has_curve:
            z = z + law.curves[:, None] * (z * z - law.signals[:, None])
        return z + levels[:, None] if self.has_level else z

    def _weigh_averages(
        self, z: np.ndarray, averages: np.ndarray, log_sigmas: np.ndarray
    ) -> np.ndarray:
        """Return the log likelihoods of the means of bags at many predictions."""
        variances = np.zeros(averages.shape)
        if isinstance(self.shapes, PairedShapes) and self.means.factors.any():
            variances = self.shapes.prediction_variances(z)
        return self.means.evaluate_many(self.bag_labels - averages, variances, log_sigmas)

    def drive(self, steps: list[Steps[Result]]) -> list[Result]:
        """Run searches that ask for values and gradients, and return what each returns."""
        return map_all(self._drive_one, steps, self.n_jobs)

    def _drive_one(self, steps: Steps[Result]) -> Result:
        try:
            asked = next(steps)
            while True:
                asked = steps.send(self(*asked))
        except StopIteration as end:
            return cast(Result, end.value)

    def draw_levels(self, x: np.ndarray, sigma: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the intercept of centred rows at draws of θ; integrated out, it is Gaussian."""
        if self.has_level:
            return x[:, -1]
        return sigma / sqrt(float(self.means.m.sum())) * rng.standard_normal(len(x))

    def mean_level(self, x: np.ndarray, shares: np.ndarray) -> float:
        """Return the mean level of weighted draws; integrated out, it is that of centred labels."""
        return float((shares * x[:, -1]).sum()) if self.has_level else 0.0

    def distance(self, a: np.ndarray, b: np.ndarray) -> float:
        """Return the root mean square difference of two answers' predictions, in label spreads."""
        gap = a[: self.p] - b[: self.p]
        return sqrt(max(float(gap @ self.covariance @ gap), 0.0))

    def with_offsets(self, share: float, sd: float | None = None) -> Self:
        """Return the target with a prior probability, or a given sd, of offsets between bags."""
        return replace(self, means=replace(self.means, offset_share=share, offset_sd=sd))


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
    target = make_target(bags, np.flatnonzero(is_kept), has_intercept, noise, options)
    return (
        replace(target, log_sigma=known, n_jobs=n_jobs),
        Columns(is_kept, has_intercept, shift),
        bags,
    )


def make_target(
    bags: Bags,
    kept: np.ndarray,
    has_intercept: bool,
    noise: Noise | None,
    options: Settings,
) -> Target:
    """Split standardised data into bag means and deviations from them; the noise is unknown."""
    stats = bags.statistics
    rows = np.ascontiguousarray(bags.columns[kept])
    masses = np.ascontiguousarray(bags.rows.masses)
    shapes = make_shapes(bags, noise)
    weights = np.full(bags.n, 1.0 / bags.n) if stats.row_weights is None else stats.row_weights
    third = np.empty((0, 0, 0))
    if options.curve_scale > 0.0 and bags.n_bags > 1:
        # cov(x, x xᵀ): without an intercept the rows have a mean.
        gram, mean = stats.gram[np.ix_(kept, kept)], (rows * weights).sum(axis=1)
        third = np.einsum("ji,ki,li->jkl", rows * weights, rows, rows)
        third -= mean[:, None, None] * gram
    return Target(
        rows=rows,
        masses=masses,
        offsets=np.ascontiguousarray(bags.offsets, dtype=np.int64),
        bag_rows=np.ascontiguousarray(stats.row_means[:, kept]),
        bag_labels=stats.label_means,
        covariance=stats.gram[np.ix_(kept, kept)],
        shapes=shapes,
        means=_make_means(bags, shapes, has_intercept),
        log_sigma=None,
        options=options,
        third=third,
        has_level=has_intercept and not shapes.is_centred,
        homes=bags.homes,
    )


def _make_means(bags: Bags, shapes: Shapes, has_intercept: bool) -> BagMeans:
    """Return the law of the means of bags."""
    m, n = (np.asarray(each, dtype=float) for each in (bags.statistics.m, bags.statistics.n))
    fixed, factors = np.zeros(len(m)), np.zeros(len(m))
    if isinstance(shapes, PairedShapes):
        fixed, factors = shapes.spreads / m, bags.pairing.row_factors(n, m)
    is_free = has_intercept and shapes.is_centred
    if bags.homes is None:
        return BagMeans(m, fixed, factors, is_free)
    return AnchoredMeans(m, fixed, factors, is_free, homes=bags.homes)
