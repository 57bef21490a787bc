"""The posterior density of weights, noise and terms of the mean function, in standard units."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from unshuffle.data.products import multiply
from unshuffle.model.bag_mean_statistics import MeanStatistics, sum_moments
from unshuffle.model.bag_means import Effects
from unshuffle.model.parameters import Coordinates
from unshuffle.model.points import Evaluated, Parameters
from unshuffle.model.settings import FLAT, LOG_SIGMA_MAX, LOG_SIGMA_MIN

# This share of the total variance is added to the signal, so that the prior is finite at w = 0.
SIGNAL_FLOOR = 1e-3
# Bytes for the work on bag means of the points that are evaluated at a time.
MEMORY = 12e6

Result = TypeVar("Result")
# A search by reverse communication: it yields points and is sent their values and gradients.
Steps = Generator[np.ndarray, tuple[Any, np.ndarray], Result]


@dataclass(frozen=True, eq=False)
class Target(Coordinates):
    """Log posterior of θ.

    The likelihood of the labels is the product of that of deviations from bag means (`within_bag`,
    raised to `power`) and that of the bag means (`means`). Independent evaluations are made at
    once, by `n_jobs` threads.
    """

    def evaluate(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log posterior of points (m, dim), and its gradients."""
        params = self.read_points(thetas)
        return self._log_posterior(thetas, params, self._evaluate_inside(params, True))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log posterior and its gradient at one point."""
        values, gradients = self.evaluate(theta[None])
        return float(values[0]), gradients[0]

    def run_searches(self, steps: list[Steps[Result]]) -> list[Result]:
        """Run searches by reverse communication, and evaluate the points of all of them at once."""
        results: dict[int, Any] = {}
        asked = {i: next(step) for i, step in enumerate(steps)}
        while asked:
            values, gradients = self.evaluate(np.vstack(list(asked.values())))
            start = 0
            for i, points in list(asked.items()):
                stop = start + len(np.atleast_2d(points))
                own: Any = slice(start, stop) if points.ndim == 2 else start
                try:
                    asked[i] = steps[i].send((values[own], gradients[own]))
                except StopIteration as end:
                    results[i] = end.value
                    del asked[i]
                start = stop
        return [results[i] for i in range(len(steps))]

    def likelihood(
        self, w: np.ndarray, log_sigma: float, coefs: Any = 0.0, level: float = 0.0
    ) -> tuple[float, np.ndarray, float]:
        """Return the log likelihood at its power, and its slopes: see `Evaluated`.

        One number in place of the coefficients counts for all terms.
        """
        every = np.zeros((1, len(self.terms))) + coefs
        params = self._make_parameters(w[None], log_sigma, every, np.array([level]))
        found = self._log_likelihood(params, self._evaluate_inside(params, True))
        return float(found.values[0]), found.gradients[0], float(found.by_sigmas[0])

    def likelihoods(
        self, weights: np.ndarray, log_sigma: float, wants_slopes: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log likelihoods of straight mean functions at many weights, and their slopes.

        Without slopes these are zeros.
        """
        nothing = np.zeros(len(weights))
        straight = np.zeros((len(weights), len(self.terms)))
        params = self._make_parameters(weights, log_sigma, straight, nothing)
        found = self._evaluate_inside(params, wants_slopes)
        if not wants_slopes:
            return self.mix(found.values, self._evaluate_means(params)), np.zeros(weights.shape)
        found = self._log_likelihood(params, found)
        return found.values, found.gradients[:, : self.p]

    def parts(self, x: np.ndarray) -> np.ndarray:
        """Return, for many points (m, dim), three numbers each: two log likelihoods, the log prior.

        The likelihoods are those within bags and of bag means, at full power.
        """
        params = self.read_points(x)
        means, inside = self._evaluate_means(params), np.flatnonzero(params.is_inside)
        within_bag = np.full(len(x), -np.inf)
        within_bag[inside] = self._evaluate_inside(params.part(inside), False).values
        return params.join(within_bag, means)

    def evaluate_within_bag(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the within-bag log likelihood at full power at points, and its gradients."""
        found = self._evaluate_inside(self.read_points(thetas), True)
        return found.values, self._arrange(found.gradients, found.by_sigmas)

    def evaluate_tempered(self, thetas: np.ndarray) -> np.ndarray:
        """Return the within-bag log likelihood at points, times the target's power."""
        return self.power * self._evaluate_inside(self.read_points(thetas), False).values

    def evaluate_rest(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log likelihood of the bag means plus log prior at a point, and the gradient."""
        size = self.p + len(self.terms) + 1
        nothing = Evaluated(np.zeros(1), np.zeros((1, size)), np.zeros(1))
        values, gradients = self._log_posterior(theta[None], self.read_points(theta[None]), nothing)
        return float(values[0]), gradients[0]

    def _evaluate_inside(self, params: Parameters, wants_slopes: bool) -> Evaluated:
        """Return the within-bag log likelihood at full power at points."""
        self.evaluations.add(len(params))
        found = self.within_bag.evaluate(params, self.power, wants_slopes, self.n_jobs)
        if wants_slopes and not self.within_bag.is_centred:
            self._add_centres(params, found.gradients)
        return found

    def _add_centres(self, params: Parameters, gradients: np.ndarray) -> None:
        """Add to gradients in (w, terms, level) those through the terms' centres, which w moves.

        To move a centre by one is to move the level by −c.
        """
        for k in range(len(params)):
            by_level = gradients[k, -1]
            for t, each in enumerate(self.terms):
                _, turned = each.turn(params.w[k])
                gradients[k, : self.p] -= by_level * each.degree * params.coefs[k, t] * turned
                gradients[k, self.p + t] -= by_level * params.centres[k, t]

    def _arrange(self, gradients: np.ndarray, by_sigmas: np.ndarray) -> np.ndarray:
        """Arrange gradients in (w, terms, level) and log sigma in the order of the coordinates."""
        parts = [gradients[:, : self.p]]
        if self.log_sigma is None:
            parts.append(by_sigmas[:, None])
        parts.append(gradients[:, self.p : -1])
        if self.has_level:
            parts.append(gradients[:, -1:])
        return np.hstack(parts)

    def _log_posterior(
        self, thetas: np.ndarray, params: Parameters, within_bag: Evaluated
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log posteriors and gradients, given the full within-bag log likelihood."""
        found = self._log_likelihood(params, within_bag)
        prior, prior_gradients, prior_by_sigmas = self.prior(params.w, params.log_sigmas)
        gradients, sds = found.gradients, self.prior_sds
        gradients[:, : self.p] += prior_gradients
        gradients[:, self.p : -1] -= params.coefs / sds**2
        values = found.values + prior - 0.5 * ((params.coefs / sds) ** 2).sum(axis=1)
        return values, self._arrange(gradients, found.by_sigmas + prior_by_sigmas)

    def _log_likelihood(self, params: Parameters, within_bag: Evaluated) -> Evaluated:
        """Return log likelihoods and gradients, given the full within-bag log likelihood."""
        size = max(1, int(MEMORY / (64.0 * self.n_bags * max(self.means.n_sizes, 1))))
        values, by_sigmas = np.empty(len(params)), np.empty(len(params))
        gradients = np.empty(within_bag.gradients.shape)
        for start in range(0, len(params), size):
            part = slice(start, start + size)
            own = self._evaluate_mean_gradients(params.part(part))
            values[part], gradients[part], by_sigmas[part] = own
        within, between = self.power, self._means_power
        return Evaluated(
            within * within_bag.values + between * values,
            within * within_bag.gradients + between * gradients,
            within * within_bag.by_sigmas + between * by_sigmas,
        )

    def _evaluate_mean_gradients(self, params: Parameters) -> Evaluated:
        """Return the log likelihoods of the bag means, and their gradients."""
        variances = self.within_bag.variances(params)
        values, by_gap, by_variance, by_sigmas = self.means.evaluate(
            self._gaps(params), variances, params.log_sigmas
        )
        gradients = self.within_bag.variance_gradients(params, by_variance)
        for k, own in enumerate(by_gap):
            slopes = self.mean_slopes(params.w[k], params.coefs[k])
            gradients[k, :-1] -= (slopes * own[:, None]).sum(axis=0)
        gradients[:, -1] -= by_gap.sum(axis=1)
        return Evaluated(values, gradients, by_sigmas)

    def mean_slopes(self, w: np.ndarray, coefs: np.ndarray) -> np.ndarray:
        """Return the slopes of every bag's mean prediction in (w, terms), (R, p + T)."""
        slopes, columns = self.bag_rows, list[np.ndarray]()
        for coef, each in zip(coefs, self.terms, strict=True):
            by_bag, whole = each.turn(w)
            slopes = slopes + each.degree * coef * (by_bag - whole)
            columns.append((by_bag * w).sum(axis=1) - float(w @ whole))
        return np.column_stack([slopes, *columns]) if columns else slopes

    def _gaps(self, params: Parameters) -> np.ndarray:
        """Return the residuals of the bag means at points, (m, R)."""
        gaps = self.bag_labels - multiply(params.w, self.bag_rows.T) - params.levels[:, None]
        for t, each in enumerate(self.terms):
            moved = each.bag_means(params.w) - params.centres[:, t, None]
            gaps -= params.coefs[:, t, None] * moved
        return np.asarray(gaps)

    @cached_property
    def _mean_statistics(self) -> MeanStatistics | None:
        """Sufficient statistics of very many bag means; None where they would save nothing."""
        if not self.within_bag.is_centred or self.original_bags is not None:
            return None
        return sum_moments(self.sizes, self.bag_labels, self.bag_rows, self.terms)

    def _evaluate_means(self, params: Parameters) -> np.ndarray:
        """Return the log likelihood of the bag means at many points, some at a time."""
        totals = self._mean_statistics
        if totals is not None:
            return totals.log_density(self.means, params)
        size = max(1, int(MEMORY / (64.0 * self.n_bags * max(self.means.n_sizes, 1))))
        found = [np.empty(0)]
        for start in range(0, len(params), size):
            some = params.part(slice(start, start + size))
            gaps, variances = self._gaps(some), self.within_bag.variances(some)
            found.append(self.means.evaluate_many(gaps, variances, some.log_sigmas))
        return np.concatenate(found)

    @property
    def _means_power(self) -> float:
        """The power of the likelihood of bag means.

        It is 1, or 1 − `power` where the within-bag likelihood contains that of the bag means.
        """
        return 1.0 if self.within_bag.is_centred else 1.0 - self.power

    def mix(self, within_bag: Any, means: Any) -> Any:
        """Return the log likelihood from its two parts, numbers or arrays, each times its power."""
        return self.power * within_bag + self._means_power * means

    def log_density(self, parts: np.ndarray) -> np.ndarray:
        """Return the log posterior of points from the parts of their density."""
        return np.asarray(self.mix(parts[:, 0], parts[:, 1]) + parts[:, 2])

    def gaps(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the residuals of the bag means at a point, and variances of predictions."""
        params = self.read_points(theta[None])
        return self._gaps(params)[0], self.within_bag.variances(params)[0]

    def offset_shares(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the possible sds of random effects, and the probability of each, at a point."""
        return self.means.size_shares(*self.gaps(theta), self.split(theta)[1])

    def draw_effects(self, x: np.ndarray, rng: np.random.Generator) -> Effects:
        """Draw bag effects and intercept given draws of the other parameters (m, dim)."""
        params, totals = self.read_points(x), self._mean_statistics
        if totals is not None:
            return totals.draw_effects(self.means, params, rng)
        gaps, variances = self._gaps(params), self.within_bag.variances(params)
        drawn = self.means.draw_effects(gaps, variances, params.log_sigmas, rng)
        return drawn._replace(levels=params.levels) if self.has_level else drawn

    def bag_distributions(
        self, theta: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield labels and predictions of each bag: see `WithinBag.bag_distributions`."""
        return self.within_bag.bag_distributions(self.read_points(theta[None]))

    def small_bags(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return labels and predictions of small bags: see `WithinBag.small_bags`."""
        return self.within_bag.small_bags(self.read_points(theta[None]))

    def _log_prior(self, square: Any, signal: Any, log_sigma: Any) -> Any:
        """Return the log prior given wᵀw, the signal variance and log σ, of one point or of many.

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

    def prior(self, w: np.ndarray, log_sigma: Any) -> tuple[Any, np.ndarray, Any]:
        """Return the log prior and its derivatives in the weights and in log σ.

        Of one point, weights (p,), or of many, (m, p).
        """
        o = self.options
        if o.prior == FLAT:
            return np.zeros(w.shape[:-1]), np.zeros(w.shape), np.zeros(w.shape[:-1])
        noise = np.exp(2.0 * np.asarray(log_sigma))
        cov_w = multiply(w, self.covariance)
        signal = (w * cov_w).sum(axis=-1)
        total = signal + noise
        raised = signal + SIGNAL_FLOOR * total
        k = o.share_high - 0.5 * self.p
        both = o.share_low + o.share_high
        value = self._log_prior((w * w).sum(axis=-1), signal, log_sigma)
        along = k * 2.0 * (1.0 + SIGNAL_FLOOR) / raised - 2.0 * both / total
        gradient = along[..., None] * cov_w - w / o.weight_scale**2
        slope = 2.0 * o.share_low + (k * 2.0 * SIGNAL_FLOOR / raised - 2.0 * both / total) * noise
        return value, gradient, slope

    def read_points(self, x: np.ndarray) -> Parameters:
        """Split many points into their coordinates, and return them with their log priors."""
        w, coefs = x[:, : self.p], x[:, self.term_places]
        levels = x[:, -1] if self.has_level else np.zeros(len(x))
        if self.log_sigma is not None:
            return self._make_parameters(w, self.log_sigma, coefs, levels)
        log_sigmas = np.clip(x[:, self.p], LOG_SIGMA_MIN, LOG_SIGMA_MAX)
        params = self._make_parameters(w, log_sigmas, coefs, levels)
        return replace(params, is_inside=log_sigmas == x[:, self.p])

    def _make_parameters(
        self, w: np.ndarray, log_sigmas: Any, coefs: np.ndarray, levels: Any
    ) -> Parameters:
        """Return points with their log priors; the noise may be one for all."""
        w, n = np.ascontiguousarray(w), len(w)
        log_sigmas = log_sigmas + np.zeros(n)
        signals = (multiply(w, self.covariance) * w).sum(axis=1)
        centres = np.empty((n, len(self.terms)))
        for t, each in enumerate(self.terms):
            centres[:, t] = each.means(w)
        log_prior = self._log_prior((w * w).sum(axis=1), signals, log_sigmas)
        log_prior = log_prior - 0.5 * ((coefs / self.prior_sds) ** 2).sum(axis=1)
        return Parameters(
            degrees=self.degrees,
            w=w,
            log_sigmas=log_sigmas,
            coefs=np.ascontiguousarray(coefs),
            levels=np.ascontiguousarray(levels),
            centres=centres,
            signals=signals,
            log_prior=log_prior,
            is_inside=np.ones(n, bool),
        )
