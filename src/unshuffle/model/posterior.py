"""The posterior density of weights, noise and curve, in standard units."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, fields
from math import exp
from typing import Any, TypeVar, cast

import numpy as np

from unshuffle.data.products import multiply, predict_rows
from unshuffle.model.bag_means import Effects
from unshuffle.model.parameters import Coordinates
from unshuffle.model.settings import FLAT, LOG_SIGMA_MAX, LOG_SIGMA_MIN
from unshuffle.model.within_bag import PairedShapes
from unshuffle.threads import map_all

# This part of the total variance keeps the prior of the direction finite where signal vanishes.
SIGNAL_FLOOR = 1e-3
# Points that are evaluated in one go, and the most predictions that they may take (16 MB).
_BATCH, _BATCH_ROWS = 50, 2_000_000
# Nats that the last step of a scaling may gain in drawing, at full power, and ever: values then err
# by a few thousandths of a nat as they count, and a draw takes a quarter less time (half at low
# powers).
_ROUGH, _ROUGHEST = 1e-4, 1e-2
# The parts of a point that cannot be.
_OUTSIDE = (-1e300, 0.0, 0.0)

Result = TypeVar("Result")
# A search by reverse communication: it yields a point and is sent its value and gradient.
Steps = Generator[np.ndarray, tuple[float, np.ndarray], Result]


@dataclass(frozen=True, eq=False)
class Laws:
    """Many points: weights (m, p), and one number each of the rest."""

    w: np.ndarray
    log_sigmas: np.ndarray
    curves: np.ndarray
    signals: np.ndarray
    log_prior: np.ndarray
    is_inside: np.ndarray

    def part(self, chosen: slice) -> Laws:
        """Return some of the points."""
        return Laws(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def join(self, shapes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the parts of the points from the log likelihoods of their shapes and means."""
        parts = np.stack([shapes, means, self.log_prior], axis=1)
        parts[~(self.is_inside & np.isfinite(shapes))] = _OUTSIDE
        return parts


@dataclass(frozen=True, eq=False)
class Target(Coordinates):
    """Log posterior of θ.

    The law of the labels is a weighted sum of the deviations inside bags (`shapes`, at a `power`
    below one where they are not trusted in full) and of the `means` of bags. Evaluations that do
    not wait for one another go to `n_jobs` threads.
    """

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

    def gaps(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the residuals of the bag means at a point, and variances of predictions."""
        w, _ = self.split(theta)
        return self._gaps(*self._bend(w, self.curve(theta), self.level(theta)))[:2]

    def offset_shares(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the possible sds of random effects, and the probability of each, at a point."""
        return self.means.size_shares(*self.gaps(theta), self.split(theta)[1])

    def draw_effects(self, x: np.ndarray, rng: np.random.Generator) -> Effects:
        """Draw bag effects and intercept given draws of the other parameters (m, dim)."""
        law = self.read_points(x)
        levels = x[:, -1] if self.has_level else np.zeros(len(x))
        gaps, variances = np.empty((2, len(x), self.n_bags))
        size = max(1, _BATCH_ROWS // max(self.rows.shape[1], 1))
        for k in range(0, len(x), size):
            part = slice(k, k + size)
            z = self._predict_many(law.part(part), levels[part])
            averages = self._average(z)
            gaps[part] = self.bag_labels - averages
            variances[part] = self._variances(z, averages)
        drawn = self.means.draw_effects(gaps, variances, law.log_sigmas, rng)
        return drawn._replace(levels=levels) if self.has_level else drawn

    def _log_prior(self, square: Any, signal: Any, log_sigma: Any) -> Any:
        """Return the log prior of weights with a sum of squares and a signal, or of many.

        w ~ N(0, weight_scale²) times a Beta(share_low, share_high) on the noise's share of the
        total variance, with the direction of w uniform.
        """
        o = self.options
        if o.prior == FLAT:
            return np.zeros(np.shape(square))
        total = signal + np.exp(2.0 * log_sigma)
        value = -0.5 * square / o.weight_scale**2
        value -= (o.share_low + o.share_high) * np.log(total)
        value += (o.share_high - 0.5 * self.p) * np.log(signal + SIGNAL_FLOOR * total)
        return value + 2.0 * o.share_low * log_sigma

    def prior(self, w: np.ndarray, log_sigma: float) -> tuple[float, np.ndarray, float]:
        """Return the log prior and its derivatives in the weights and in log σ."""
        o = self.options
        if o.prior == FLAT:
            return 0.0, np.zeros(self.p), 0.0
        noise = exp(2.0 * log_sigma)
        pull = self.covariance @ w
        power = float(w @ pull)
        total = power + noise
        signal = power + SIGNAL_FLOOR * total
        k = o.share_high - 0.5 * self.p
        both = o.share_low + o.share_high
        value = float(self._log_prior(float(w @ w), power, log_sigma))
        along = k * 2.0 * (1.0 + SIGNAL_FLOOR) / signal - 2.0 * both / total
        gradient = -w / o.weight_scale**2 + along * pull
        slope = 2.0 * o.share_low + (k * 2.0 * SIGNAL_FLOOR / signal - 2.0 * both / total) * noise
        return value, gradient, slope

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log posterior and its gradient in the free coordinates."""
        w, log_sigma = self.split(theta)
        found = self.likelihood(w, log_sigma, self.curve(theta), self.level(theta))
        return self.add_prior(theta, found)

    def add_prior(
        self, theta: np.ndarray, likelihood: tuple[float, np.ndarray, float]
    ) -> tuple[float, np.ndarray]:
        """Return the log posterior and its gradient from those of the likelihood."""
        value, gradient, slope = likelihood
        w, log_sigma = self.split(theta)
        curve = self.curve(theta)
        prior, prior_gradient, prior_slope = self.prior(w, log_sigma)
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
        """Return, for many points (m, dim), three numbers each: two log likelihoods, the log prior.

        The likelihoods are those of shapes and of means at full power.
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
        averages = self._average(z)
        gaps, variances = self.bag_labels - averages, self._variances(z, averages)
        means = self.means.evaluate_many(gaps, variances, law.log_sigmas)
        if self.shapes.is_centred:
            z = z - averages[:, self.bag_of_row]
        tolerance = min(_ROUGH / self.power, _ROUGHEST)
        reached = law.log_prior + self._means_power * means
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
        log_prior = self._log_prior(squares, signals, log_sigmas) + bend
        return Laws(w, log_sigmas, curves, signals, log_prior, is_inside)

    def _predict_many(self, law: Laws, levels: np.ndarray) -> np.ndarray:
        """Return the mean laws of all rows, (m, n)."""
        z = multiply(law.w, self.rows)
        if self.has_curve:
            z = z + law.curves[:, None] * (z * z - law.signals[:, None])
        return z + levels[:, None] if self.has_level else z

    def _average(self, z: np.ndarray) -> np.ndarray:
        """Return the bag means of predictions (m, n)."""
        sums = np.add.reduceat(z * self.masses, self.offsets[:-1], axis=1)
        return np.asarray(sums / self.row_totals)

    def _variances(self, z: np.ndarray, averages: np.ndarray) -> np.ndarray:
        """Return the variances of predictions in bags, zero where they do not matter."""
        if isinstance(self.shapes, PairedShapes) and self.means.factors.any():
            return self.shapes.prediction_variances(z)
        return np.zeros(averages.shape)

    def drive(self, steps: list[Steps[Result]]) -> list[Result]:
        """Run searches that ask for values and gradients, and return what each returns."""
        return map_all(self._drive_one, steps, self.n_jobs)

    def _drive_one(self, steps: Steps[Result]) -> Result:
        try:
            asked = next(steps)
            while True:
                asked = steps.send(self(asked))
        except StopIteration as end:
            return cast(Result, end.value)
