"""Adaptive importance sampling from a mixture of Student t's around the modes."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, logsumexp

from unshuffle.posterior.model import Steps, Target
from unshuffle.posterior.modes import Mode, climb_all, keep_distinct

# The untilted posterior has fewer, broader modes: those reached from the best ten suffice.
_N_PLAIN = 4
# Laplace evidence is crude: no component starts below its part of this share.
_FLAT_SHARE = 0.3
# Share of the draws that go to a component as wide as the prior.
_GUARD_SHARE = 0.1
# In adapting, the old component counts as if it were worth 5 d draws; 10 % wider guards the tails.
_OLD_DRAWS, _WIDER = 5.0, 1.1
# Local components of a round; no other number was tried.
_N_LOCAL = 30
# The centre is wanted to a ten-thousandth of the spread, far below its Monte Carlo error; 200 moves
# get there also between two modes of equal weight.
_NEAR, _MAX_MOVES = 1e-4, 200


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of Student t's: shares (k,), means (k, d), Cholesky factors (k, d, d)."""

    shares: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    dof: float

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n points."""
        which = rng.choice(len(self.shares), n, p=self.shares)
        steps = rng.standard_normal((n, self.means.shape[1]))
        steps *= np.sqrt(self.dof / rng.chisquare(self.dof, n))[:, None]
        return self.means[which] + np.einsum("kij,kj->ki", self.factors[which], steps)

    def log_parts(self, x: np.ndarray) -> np.ndarray:
        """Return log(share × density) of every component (rows) at every point (columns)."""
        d, dof = self.means.shape[1], self.dof
        constant = gammaln(0.5 * (dof + d)) - gammaln(0.5 * dof) - 0.5 * d * log(dof * np.pi)
        parts = np.empty((len(self.shares), len(x)))
        for k, factor in enumerate(self.factors):
            gaps = solve_triangular(factor, (x - self.means[k]).T, lower=True, check_finite=False)
            size = np.log(np.abs(np.diag(factor))).sum()
            parts[k] = constant - size - 0.5 * (dof + d) * np.log1p((gaps**2).sum(axis=0) / dof)
            parts[k] += log(max(self.shares[k], 1e-300))
        return parts

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log density of the mixture at every point."""
        return np.asarray(logsumexp(self.log_parts(x), axis=0))


@dataclass(frozen=True, eq=False)
class Sample:
    """All draws with their log weights, plain and tilted, and how the sampling went."""

    x: np.ndarray
    slopes: np.ndarray
    log_plain: np.ndarray
    log_tilted: np.ndarray
    effective_draws: float
    mixture: Mixture
    n_rounds: int
    # What further rounds at another power build on: the parts of the density at every draw, the
    # log of the summed proposals, and the proposals.
    parts: np.ndarray
    proposals: np.ndarray
    used: tuple[Mixture, ...]

    @property
    def log_evidence(self) -> float:
        """Log of the posterior's normalising constant."""
        return float(logsumexp(self.log_plain)) - log(len(self.log_plain))


def make_mixture(target: Target, modes: list[Mode]) -> Mixture:
    """Place a Laplace component on every mode of the tilted and of the plain posterior."""
    plain: list[Mode] = []
    if target.log_sigma is None:
        climbed = climb_all(target, [theta for _, theta in modes[:_N_PLAIN]], 0.0)
        plain = keep_distinct(target, climbed, _N_PLAIN)
    every = modes + plain
    spreads = target.drive([_laplace(target, theta) for _, theta in every])
    factors = np.array([np.linalg.cholesky(spread) for spread in spreads])
    shares = _evidence_shares(modes, factors[: len(modes)])
    if plain:
        others = _evidence_shares(plain, factors[len(modes) :])
        shares = np.append(0.5 * shares, 0.5 * others)
    means = np.array([theta for _, theta in every])
    return _with_guard(target, Mixture(shares, means, factors, target.options.proposal_dof))


def _with_guard(target: Target, mixture: Mixture) -> Mixture:
    """Add a component as wide as the prior: it finds what no start reached when n is small."""
    scale = np.full(target.dim, target.options.weight_scale)
    centre = np.zeros(target.dim)
    if target.log_sigma is None:
        scale[target.p], centre[target.p] = 1.0, -0.7  # sd(y)/2, times 2.7 or less
    if target.has_curve:
        scale[target.curve_place] = target.curve_scale
    if target.has_level:
        scale[-1] = 0.3  # labels are centred: the level strays by sampling error alone
    return Mixture(
        np.append((1.0 - _GUARD_SHARE) * mixture.shares, _GUARD_SHARE),
        np.vstack([mixture.means, centre]),
        np.concatenate([mixture.factors, np.diag(scale)[None]]),
        mixture.dof,
    )


def _laplace(target: Target, theta: np.ndarray) -> Steps[np.ndarray]:
    """Return the inverse curvature at a mode from differences of the gradient, within the prior."""
    d, p = target.dim, target.p
    sigma = exp(target.split(theta)[1])
    curvature = np.zeros((d, d))
    for k in range(d):
        # Steps of a twentieth of sigma see the shape of the mode and not the kinks of single swaps.
        is_noise = target.log_sigma is None and k == p
        step = 0.05 if is_noise else 0.05 * max(sigma, 0.02)
        move = np.zeros(d)
        move[k] = step
        (_, ahead), (_, behind) = (yield theta + move, 0.5), (yield theta - move, 0.5)
        curvature[k] = -(ahead - behind) / (2.0 * step)
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    spread = (vectors / np.maximum(values, 1.0 / target.options.weight_scale**2)) @ vectors.T
    return spread


def _evidence_shares(modes: list[Mode], factors: np.ndarray) -> np.ndarray:
    """Return the shares of modes by Laplace evidence, flattened."""
    evidence = np.array([value for value, _ in modes])
    evidence = evidence + np.log(np.einsum("kii->ki", factors)).sum(axis=1)
    shares = np.exp(evidence - logsumexp(evidence))
    return (1.0 - _FLAT_SHARE) * shares + _FLAT_SHARE / len(shares)


def _adapt(mixture: Mixture, x: np.ndarray, shares: np.ndarray) -> Mixture:
    """Move shares, means and covariances towards the weighted draws, component by component."""
    d = x.shape[1]
    parts = mixture.log_parts(x)
    owned = np.exp(parts - logsumexp(parts, axis=0)) * shares
    mass = owned.sum(axis=1)
    means, factors = mixture.means.copy(), mixture.factors.copy()
    for k in range(len(mass)):
        n_draws = mass[k] ** 2 / max((owned[k] ** 2).sum(), 1e-300)
        if n_draws < 2.5 * d:  # fewer make a covariance that is singular or nearly so
            continue
        part = owned[k] / mass[k]
        mean = part @ x
        covariance = (x - mean).T * part @ (x - mean)
        trust = n_draws / (n_draws + _OLD_DRAWS * d)
        old = mixture.factors[k] @ mixture.factors[k].T
        means[k] = trust * mean + (1.0 - trust) * mixture.means[k]
        mixed = _WIDER * trust * covariance + (1.0 - trust) * old
        factors[k] = np.linalg.cholesky(mixed + 1e-14 * np.eye(d))
    # A tenth stays spread over all: a component that found nothing yet may still be needed.
    flat = 0.9 * mass / max(mass.sum(), 1e-300) + 0.1 / len(mass)
    return Mixture(flat / flat.sum(), means, factors, mixture.dof)


def normalise(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return weights that add up to one, and how many equal draws they are worth."""
    shares = np.exp(log_weights - logsumexp(log_weights))
    return shares, 1.0 / float((shares**2).sum())


def flatten(log_weights: np.ndarray, least: float) -> np.ndarray:
    """Return weights flattened just enough to be worth a least number of equal draws."""
    power = 1.0
    shares, worth = normalise(log_weights)
    while worth < least and power > 0.01:
        power *= 0.8
        shares, worth = normalise(power * log_weights)
    return shares


def limit_tilt(log_plain: np.ndarray, log_tilted: np.ndarray, limit: float) -> np.ndarray:
    """Return log weights whose tilt is weakened until it moves at most `limit` nats.

    The move is the Kullback-Leibler divergence of the tilted from the plain posterior.
    """
    plain = normalise(log_plain)[0]
    low, high = 0.0, 1.0
    power = 1.0
    for _ in range(20):  # bisection to 1e-6; the first trial is the full tilt
        mixed = log_plain + power * (log_tilted - log_plain)
        shares = normalise(mixed)[0]
        ratio = np.log(np.maximum(shares, 1e-300) / np.maximum(plain, 1e-300))
        if float(shares @ ratio) > limit:
            high = power
        else:
            low = power
            if power == 1.0:
                break
        power = 0.5 * (low + high)
    return mixed


def find_centre(x: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the point of least mean distance to weighted draws, by Weiszfeld's iteration.

    Where the draws gather around one point it is there, however far the others are; where they do
    not, it is close to the mean.
    """
    centre = shares @ x
    unit = max(float(np.sqrt(shares @ ((x - centre) ** 2).sum(axis=1))), 1e-300)
    for _ in range(_MAX_MOVES):
        distance = np.sqrt(((x - centre) ** 2).sum(axis=1))
        pull = shares / np.maximum(distance, _NEAR * unit)
        moved = pull @ x / pull.sum()
        is_done = float(np.abs(moved - centre).max()) < _NEAR * unit
        centre = moved
        if is_done:
            break
    return centre


def _follow(
    mixture: Mixture, n_modes: int, x: np.ndarray, shares: np.ndarray, rng: np.random.Generator
) -> Mixture:
    """Adapt the modes' components, and put half of the draws on local ones around weighted draws.

    A weak likelihood leaves ridges and shells, which are no few ellipses: local components with
    the covariance of their neighbourhood follow them (effective draws with five columns and one or
    four bags rose from about 10 to 20-460 of 3200).
    """
    d = x.shape[1]
    adapted = _adapt(mixture, x, shares)
    centres = x[rng.choice(len(x), _N_LOCAL, p=shares)]
    mean = shares @ x
    spread = (x - mean).T * shares @ (x - mean) + 1e-12 * np.eye(d)
    metric = np.linalg.inv(spread)
    factors = np.empty((_N_LOCAL, d, d))
    for k, centre in enumerate(centres):
        gap = x - centre
        far = np.einsum("ij,jk,ik->i", gap, metric, gap)
        near = shares * np.exp(-far / d)
        local = gap.T * (near / near.sum()) @ gap
        factors[k] = np.linalg.cholesky(0.5 * local + 0.05 * spread + 1e-13 * np.eye(d))
    old = adapted.shares[:n_modes] / adapted.shares[:n_modes].sum()
    return Mixture(
        np.append(0.5 * old, np.full(_N_LOCAL, 0.5 / _N_LOCAL)),
        np.vstack([adapted.means[:n_modes], centres]),
        np.concatenate([adapted.factors[:n_modes], factors]),
        mixture.dof,
    )


def sample_posterior(
    target: Target, mixture: Mixture, rng: np.random.Generator, earlier: Sample | None = None
) -> Sample:
    """Draw in rounds, adapting the mixture; all rounds count by their joint mixture density.

    So do the rounds of an `earlier` sample at another power of the same target.
    """
    o = target.options
    first, n_modes = mixture, len(mixture.shares)
    if earlier is None:
        x, seen, total = np.empty((0, target.dim)), np.empty((0, 4)), np.empty(0)
        used: list[Mixture] = []
    else:
        x, seen, total, used = earlier.x, earlier.parts, earlier.proposals, list(earlier.used)
    for n_rounds in range(1, o.max_rounds + 1):
        new = mixture.draw(o.n_draws, rng)
        # The old draws under the new mixture, the new draws under every one.
        if used:
            total = np.logaddexp(total, mixture.log_density(x))
        used.append(mixture)
        fresh = logsumexp([each.log_density(new) for each in used], axis=0)
        total = np.append(total, fresh)
        x = np.vstack([x, new])
        seen = np.vstack([seen, target.all_parts(new)])
        data = target.mix(seen[:, 0], seen[:, 1]) - (total - log(len(used)))
        plain, tilted = data + seen[:, 2], data + seen[:, 3]
        worth = min(normalise(plain)[1], normalise(tilted)[1])
        if n_rounds >= o.min_rounds and worth >= o.target_draws:
            break
        least = 5.0 * target.dim
        mixed = 0.5 * (flatten(plain, least) + flatten(tilted, least))
        mixture = _follow(mixture, n_modes, x, mixed, rng)
    return Sample(
        x, target.slopes(x), plain, tilted, worth, first, n_rounds, seen, total, tuple(used)
    )
