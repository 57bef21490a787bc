"""Proposals of importance sampling: Student t's at the modes, one fitted to all draws, a shell.

Components start as Laplace approximations (Tierney and Kadane 1986). The effective sample size of
weights is that of Kong, Liu and Wong (1994).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, lgamma, log, pi, sqrt

import numpy as np
from scipy.special import logsumexp

from unshuffle import kernels
from unshuffle.data.products import multiply
from unshuffle.inference.block_modes import BLOCK_MODES, FittedMode, refine_modes
from unshuffle.inference.modes import MODES, Mode
from unshuffle.model.posterior import Target


@dataclass(frozen=True)
class ProposalSettings:
    """The proposal of importance sampling, and how it adapts.

    Attributes
    ----------
    flat_share : float
        Share of the first draws that is divided equally among the modes. The rest follows the
        Laplace evidence, which is crude.
    defensive : float
        Share of the first draws that come from the shell, which is wide enough for whatever the
        other components miss (Hesterberg 1995).
    old_draws : float
        For how many draws per coordinate the old mean and covariance of a component count when it
        adapts.
    widening : float
        Factor of an adapted covariance, which guards the tails.
    least_shell : float
        Least scale of the Student t of the logarithm of the shell's total variance.
    signal_spread : float
        Scale of the Student t of the log signal variance where the noise is known, and of log
        sigma in `PriorShell`.
    """

    flat_share: float = 0.3
    defensive: float = 0.1
    old_draws: float = 5.0
    widening: float = 1.1
    least_shell: float = 0.15
    signal_spread: float = 0.7


PROPOSALS = ProposalSettings()
# A larger curvature is a difference across a jump of the likelihood, at almost no noise. With it
# the covariance would have no Cholesky factor.
_STEEPEST = 1e10


def normalise(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return importance weights that add up to one, and their effective sample size."""
    shares = np.exp(log_weights - logsumexp(log_weights))
    return shares, 1.0 / float((shares**2).sum())


def flatten(log_weights: np.ndarray, least: float) -> np.ndarray:
    """Return importance weights, tempered until their effective sample size is at least `least`."""
    power = 1.0
    shares, n_effective = normalise(log_weights)
    while n_effective < least and power > 0.01:
        power *= 0.8
        shares, n_effective = normalise(power * log_weights)
    return shares


@dataclass(frozen=True, eq=False)
class Shell:
    """A proposal with all directions of the predictions equally likely.

    With one bag and a low power the posterior of the weights is such a shell, which a few ellipses
    do not cover. The total variance, of signal and noise, is near that of the labels. The noise's
    share of it is Beta(share_low, share_high) as in the prior. Log(total) is Student t about zero;
    terms and level are Gaussian about zero. Where the noise is known, the log of the signal is
    Student t about the log of the variance that the noise leaves.
    """

    target: Target

    @cached_property
    def _centre_and_scale(self) -> tuple[float, float]:
        """Return centre and scale of the log total variance, or of the log signal by known noise.

        The variance of labels that count with the power tells the total.
        """
        t = self.target
        if t.log_sigma is not None:
            # What the noise leaves of the labels' variance, but no less than its standard error.
            left = max(1.0 - exp(2.0 * t.log_sigma), sqrt(2.0 / t.n))
            return log(left), PROPOSALS.signal_spread
        return 0.0, sqrt(PROPOSALS.least_shell**2 + 2.0 / (t.power * t.n))

    @cached_property
    def _inverse_root(self) -> tuple[np.ndarray, float]:
        """The inverse root of the columns' covariance, and half the log determinant of that."""
        values, vectors = np.linalg.eigh(self.target.covariance)
        values = np.maximum(values, 1e-10)
        return (vectors / np.sqrt(values)) @ vectors.T, 0.5 * float(np.log(values).sum())

    @cached_property
    def _other_sds(self) -> np.ndarray:
        """The sds of the coordinates after weights and log sigma."""
        t = self.target
        # Labels are centred: their level strays by sampling error alone.
        return np.array([*t.prior_sds, *[0.3] * t.has_level])

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n points."""
        t, o = self.target, self.target.options
        dof = o.proposal_dof
        directions = rng.standard_normal((n, t.p))
        directions /= np.sqrt((directions**2).sum(axis=1))[:, None]
        centre, spread = self._centre_and_scale
        signal = np.exp(centre + spread * rng.standard_t(dof, n))
        parts = []
        if t.log_sigma is None:
            share = np.clip(rng.beta(o.share_low, o.share_high, n), 1e-12, 1.0 - 1e-12)
            parts = [0.5 * np.log(signal * share)[:, None]]
            signal = signal * (1.0 - share)
        w = multiply(np.sqrt(signal)[:, None] * directions, self._inverse_root[0])
        others = rng.standard_normal((n, len(self._other_sds))) * self._other_sds
        return np.hstack([w, *parts, others])

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log density at every point."""
        t, o = self.target, self.target.options
        dof = o.proposal_dof
        w, others = x[:, : t.p], x[:, t.dim - len(self._other_sds) :]
        signal = np.maximum(np.einsum("ij,jk,ik->i", w, t.covariance, w), 1e-300)
        total, logs = np.log(signal), np.zeros(len(x))
        if t.log_sigma is None:
            # In logs: the noise of draws from a wide component may overflow.
            noise = 2.0 * x[:, t.p]
            total = np.logaddexp(total, noise)
            # Beta of the share; from (total, share) to (signal, log sigma): 2 σ²/total.
            a, b = o.share_low, o.share_high
            logs += a * (noise - total) + (b - 1.0) * (np.log(signal) - total) + log(2.0)
            logs += lgamma(a + b) - lgamma(a) - lgamma(b)
        centre, spread = self._centre_and_scale
        place = (total - centre) / spread
        logs -= 0.5 * (dof + 1.0) * np.log1p(place**2 / dof) + total
        logs += lgamma(0.5 * (dof + 1.0)) - lgamma(0.5 * dof)
        logs -= 0.5 * log(dof * pi) + log(spread)
        # From the signal to weights: the sphere of that radius, and the columns' volume.
        logs += lgamma(0.5 * t.p) - 0.5 * t.p * log(pi) + (1.0 - 0.5 * t.p) * np.log(signal)
        logs += self._inverse_root[1]
        logs -= 0.5 * ((others / self._other_sds) ** 2).sum(axis=1)
        return logs - float((np.log(self._other_sds) + 0.5 * log(2.0 * pi)).sum())


@dataclass(frozen=True, eq=False)
class PriorShell(Shell):
    """The prior of the weights given the noise, whose logarithm is Student t about a centre.

    Bags known by their means determine the sum of weights and contextual effects. The weights may
    then be anywhere between zero and that sum. With more than two columns the prior is very dense
    near zero, and importance weights of draws from Student t components would be very uneven.
    """

    log_sigma: float

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        t, o = self.target, self.target.options
        dof = o.proposal_dof
        directions = rng.standard_normal((n, t.p))
        directions /= np.sqrt((directions**2).sum(axis=1))[:, None]
        log_sigma, parts = np.full(n, self.log_sigma), []
        if t.log_sigma is None:
            log_sigma += PROPOSALS.signal_spread * rng.standard_t(dof, n)
            parts = [log_sigma[:, None]]
        share = np.clip(rng.beta(o.share_low, o.share_high, n), 1e-12, 1.0 - 1e-12)
        signal = np.exp(2.0 * log_sigma) * (1.0 - share) / share
        w = multiply(np.sqrt(signal)[:, None] * directions, self._inverse_root[0])
        others = rng.standard_normal((n, len(self._other_sds))) * self._other_sds
        return np.hstack([w, *parts, others])

    def log_density(self, x: np.ndarray) -> np.ndarray:
        t, o = self.target, self.target.options
        dof = o.proposal_dof
        w, others = x[:, : t.p], x[:, t.dim - len(self._other_sds) :]
        signal = np.maximum(np.einsum("ij,jk,ik->i", w, t.covariance, w), 1e-300)
        noise, logs = np.full(len(x), 2.0 * self.log_sigma), np.zeros(len(x))
        if t.log_sigma is None:
            noise = 2.0 * x[:, t.p]
            place = (x[:, t.p] - self.log_sigma) / PROPOSALS.signal_spread
            logs -= 0.5 * (dof + 1.0) * np.log1p(place**2 / dof)
            logs += lgamma(0.5 * (dof + 1.0)) - lgamma(0.5 * dof)
            logs -= 0.5 * log(dof * pi) + log(PROPOSALS.signal_spread)
        total = np.logaddexp(np.log(signal), noise)
        # Beta of the noise's share; from the share to the signal: the share over the total.
        a, b = o.share_low, o.share_high
        logs += a * (noise - total) + (b - 1.0) * (np.log(signal) - total) - total
        logs += lgamma(a + b) - lgamma(a) - lgamma(b)
        # From the signal to weights, as above.
        logs += lgamma(0.5 * t.p) - 0.5 * t.p * log(pi) + (1.0 - 0.5 * t.p) * np.log(signal)
        logs += self._inverse_root[1]
        logs -= 0.5 * ((others / self._other_sds) ** 2).sum(axis=1)
        return logs - float((np.log(self._other_sds) + 0.5 * log(2.0 * pi)).sum())


@dataclass(frozen=True, eq=False)
class PlainCoordinates:
    """The parameters themselves as coordinates of the components."""

    target: Target

    def transform(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates of points (m, d), and the log determinants of the Jacobian."""
        return x, np.zeros(len(x))

    def restore(self, u: np.ndarray) -> np.ndarray:
        """Return the points that have some coordinates."""
        return u

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        """Return the derivatives of the coordinates at a point."""
        return np.eye(len(theta))


@dataclass(frozen=True, eq=False)
class StandardisedCoordinates(PlainCoordinates):
    """w/σ in place of the weights, and log(wᵀSw + σ²) in place of log σ.

    Labels determine their total variance wᵀSw + σ² much better than noise or weights alone. In
    (w, log σ) the posterior is then a narrow curved shell. Here the total is a coordinate of its
    own, and a Gaussian comes close.
    """

    def transform(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, covariance = self.target.p, self.target.covariance
        u, log_sigmas = x.copy(), x[:, p]
        u[:, :p] *= np.exp(-log_sigmas)[:, None]
        ratios = (multiply(u[:, :p], covariance) * u[:, :p]).sum(axis=1)
        u[:, p] = 2.0 * log_sigmas + np.log1p(ratios)
        return u, log(2.0) - p * log_sigmas

    def restore(self, u: np.ndarray) -> np.ndarray:
        p, covariance = self.target.p, self.target.covariance
        ratios = (multiply(u[:, :p], covariance) * u[:, :p]).sum(axis=1)
        x = u.copy()
        x[:, p] = 0.5 * (u[:, p] - np.log1p(ratios))
        x[:, :p] *= np.exp(x[:, p])[:, None]
        return x

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        p, w, sigma = self.target.p, theta[: self.target.p], exp(theta[self.target.p])
        found, along = np.eye(len(theta)), self.target.covariance @ w
        total = float(w @ along) + sigma**2
        found[:p, :p] /= sigma
        found[:p, p] = -w / sigma
        found[p, :p] = 2.0 * along / total
        found[p, p] = 2.0 * sigma**2 / total
        return found


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of Student t's, means (k, d) and Cholesky factors (k, d, d), and of a shell.

    Means and factors are in `coordinates`. Shares (k + 1,) end with the shell's; the first
    `n_modes` components lie at modes.
    """

    shares: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    dof: float
    shell: Shell
    n_modes: int
    coordinates: PlainCoordinates

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n points."""
        which = rng.choice(len(self.shares), n, p=self.shares)
        steps = rng.standard_normal((n, self.means.shape[1]))
        if np.isfinite(self.dof):  # else they are normal
            steps *= np.sqrt(self.dof / rng.chisquare(self.dof, n))[:, None]
        is_local = which < len(self.means)
        points = np.empty(steps.shape)
        mine = which[is_local]
        moves = np.einsum("kij,kj->ki", self.factors[mine], steps[is_local])
        points[is_local] = self.coordinates.restore(self.means[mine] + moves)
        points[~is_local] = self.shell.draw(int((~is_local).sum()), rng)
        return points

    def log_parts(self, x: np.ndarray) -> np.ndarray:
        """Return log(share × density) of every component (rows) at every point (columns)."""
        parts = np.empty((len(self.shares), len(x)))
        u, log_volumes = self.coordinates.transform(x)
        u = np.ascontiguousarray(u)
        kernels.student_logs(u, self.means, self.factors, self.dof, parts[:-1])
        parts[:-1] += log_volumes
        parts[-1] = self.shell.log_density(x)
        return parts + np.log(np.maximum(self.shares, 1e-300))[:, None]

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log density of the mixture at every point."""
        return np.asarray(logsumexp(self.log_parts(x), axis=0))


def make_mixture(target: Target, modes: list[Mode]) -> Mixture:
    """Place a Laplace component on every mode, and a shell beside them.

    Where bags are known by their means alone, it is a `PriorShell` with half of the draws.
    """
    if target.within_bag.has_passes:
        n_steps = (
            BLOCK_MODES.max_steps
            if len(modes) <= MODES.n_followed
            else BLOCK_MODES.steps_on_the_way
        )
        return _mix_fitted_modes(target, refine_modes(target, modes, n_steps))
    thetas = np.array([theta for _, theta in modes])
    factors = np.linalg.cholesky(_find_covariances(target, list(thetas)))
    shell, wide = Shell(target), PROPOSALS.defensive
    if target.has_means_alone:
        shell, wide = PriorShell(target, target.split(modes[0][1])[1]), 0.5
    shares = np.append((1.0 - wide) * _evidence_shares(modes, factors), wide)
    dof, place = target.options.proposal_dof, PlainCoordinates(target)
    return Mixture(shares, thetas, factors, dof, shell, len(modes), place)


def standardise_components(mixture: Mixture) -> Mixture:
    """Return a mixture whose components are Gaussian in standardised coordinates, to first order.

    With known noise the coordinates stay.
    """
    target = mixture.shell.target
    if target.log_sigma is not None:
        return mixture
    place = StandardisedCoordinates(target)
    moved = np.array([place.jacobian(theta) for theta in mixture.means]) @ mixture.factors
    return replace(
        mixture,
        means=place.transform(mixture.means)[0],
        # The triangular root of J S Jᵀ, from the orthogonal decomposition of (J L)ᵀ.
        factors=np.array([np.linalg.qr(root.T)[1].T for root in moved]),
        coordinates=place,
    )


def _mix_fitted_modes(target: Target, fitted_modes: list[FittedMode]) -> Mixture:
    """Place a component on every fitted mode."""
    factors = np.array([fitted_mode.factor for fitted_mode in fitted_modes])
    shares = _evidence_shares(
        [(fitted_mode.value, fitted_mode.theta) for fitted_mode in fitted_modes], factors
    )
    shares = np.append((1.0 - PROPOSALS.defensive) * shares, PROPOSALS.defensive)
    means = np.array([fitted_mode.theta for fitted_mode in fitted_modes])
    dof, shell, n_modes = target.options.proposal_dof, Shell(target), len(fitted_modes)
    return Mixture(shares, means, factors, dof, shell, n_modes, PlainCoordinates(target))


def _find_covariances(target: Target, thetas: list[np.ndarray]) -> list[np.ndarray]:
    """Return inverse curvatures at modes from differences of the gradient.

    No variance exceeds that of the prior's Gaussian factor.
    """
    d, p = target.dim, target.p
    steps = []
    for theta in thetas:
        # Over a twentieth of sigma differences show the curvature of the mode and not the kinks
        # where single labels swap.
        step = np.full(d, 0.05 * max(exp(target.split(theta)[1]), 0.02))
        if target.log_sigma is None:
            step[p] = 0.05
        steps.append(step)
    moves = [side * np.diag(step) for step in steps for side in (1.0, -1.0)]
    points = np.vstack([np.repeat(thetas, 2, axis=0)[k] + move for k, move in enumerate(moves)])
    slopes = target.evaluate(points)[1].reshape(len(thetas), 2, d, d)
    spreads = []
    for (ahead, behind), step in zip(slopes, steps, strict=True):
        curvature = -(ahead - behind) / (2.0 * step[:, None])
        values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
        values = np.clip(values, 1.0 / target.options.weight_scale**2, _STEEPEST)
        spreads.append((vectors / values) @ vectors.T)
    return spreads


def _evidence_shares(modes: list[Mode], factors: np.ndarray) -> np.ndarray:
    """Return the shares of modes by Laplace evidence, a part of them equal."""
    evidence = np.array([value for value, _ in modes])
    evidence = evidence + np.log(np.einsum("kii->ki", factors)).sum(axis=1)
    shares = np.exp(evidence - logsumexp(evidence))
    return (1.0 - PROPOSALS.flat_share) * shares + PROPOSALS.flat_share / len(shares)


def adapt(mixture: Mixture, x: np.ndarray, shares: np.ndarray) -> Mixture:
    """Move the components at modes towards weighted draws, and fit one more to all draws.

    The component of all draws has their mean and covariance, and half of the next draws. It takes
    the place of that of the round before.
    """
    d, n_modes = x.shape[1], mixture.n_modes
    parts, u = mixture.log_parts(x), mixture.coordinates.transform(x)[0]
    owned = np.exp(parts - logsumexp(parts, axis=0)) * shares
    mass = owned.sum(axis=1)
    means, factors = mixture.means[:n_modes].copy(), mixture.factors[:n_modes].copy()
    for k in range(n_modes):
        n_draws = mass[k] ** 2 / max((owned[k] ** 2).sum(), 1e-300)
        if n_draws < 2.5 * d:  # the covariance would be singular, or nearly so
            continue
        part = owned[k] / mass[k]
        mean, covariance = _describe_draws(u, part)
        credibility = n_draws / (n_draws + PROPOSALS.old_draws * d)
        old = mixture.factors[k] @ mixture.factors[k].T
        means[k] = credibility * mean + (1.0 - credibility) * mixture.means[k]
        mixed = PROPOSALS.widening * credibility * covariance + (1.0 - credibility) * old
        factors[k] = np.linalg.cholesky(mixed + 1e-14 * np.eye(d))
    mean, covariance = _describe_draws(u, shares)
    # A tenth is divided equally: a component without mass so far may still be needed.
    flat = np.append(mass[:n_modes], mass[-1])
    flat = 0.9 * flat / max(flat.sum(), 1e-300) + 0.1 / len(flat)
    flat *= 0.5 / flat.sum()
    return replace(
        mixture,
        shares=np.concatenate([flat[:-1], [0.5], flat[-1:]]),
        means=np.vstack([means, mean]),
        factors=np.concatenate(
            [factors, np.linalg.cholesky(PROPOSALS.widening * covariance + 1e-12 * np.eye(d))[None]]
        ),
    )


def _describe_draws(u: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of weighted draws."""
    mean = shares @ u
    return mean, (u - mean).T * shares @ (u - mean)
