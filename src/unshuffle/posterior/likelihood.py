"""The likelihood of the shuffled model: its posterior, its modes, its mean.

Inside a bag the labels are y = π(Xw + b) + e with an unknown permutation and Gaussian noise, so
that the likelihood is a permanent,

    log p(y | w, σ) = −n log σ + Σ_r [log perm exp(−(y_j − z_i)²/2σ²) − log n_r!] + const.

The permanent is taken exactly for bags of up to ten rows, and otherwise as the value of entropic
transport (Sinkhorn's scaling, on a grid where that is cheaper) with a local correction. Modes are
found from many starts, and importance sampling from a mixture around them gives estimate,
intervals and evidence at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from unshuffle.core.bags import Bags
from unshuffle.core.losses import Squared
from unshuffle.core.penalties import no_penalty
from unshuffle.core.problem import Problem
from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.core.uncertainty import Posterior
from unshuffle.posterior.columns import Columns, nothing_to_learn
from unshuffle.posterior.importance import (
    Sample,
    find_centre,
    flatten,
    limit_tilt,
    make_mixture,
    normalise,
    sample_posterior,
)
from unshuffle.posterior.misfit import choose_powers
from unshuffle.posterior.model import Target, pose
from unshuffle.posterior.modes import (
    Mode,
    climb_all,
    count_starts,
    find_modes,
    keep_distinct,
)
from unshuffle.posterior.options import Settings
from unshuffle.solvers import multistart

__all__ = ["Likelihood", "solve"]

# Modes further than this below the best are out of reach: 20 nats are half a billion to one.
_REACH = 20.0
# Least-squares answers that are refined besides the annealed starts.
_N_FITTED = 10
# A posterior that cannot be explored (too many narrow modes) is sampled again with the likelihood
# at this power, for estimate and intervals: on tuning splits it cost least among 0.1, 0.3 and 1.
_WEAKENING = 0.3
# Share of the posterior at low noise below which the estimate does not lean towards low noise, and
# above which it may in full.
_LEAST_LOW, _ENOUGH_LOW = 0.1, 0.3
# Answers whose predictions differ by less than 10 % of sd(y) are told as one.
_SAME_ANSWER = 0.01
# Below this power of the likelihood the misfit is worth a warning.
_MISFIT_POWER = 0.4
# One in a thousand is not a competitor.
_LEAST_SHARE = 1e-3


@dataclass(frozen=True)
class Likelihood(Settings, Strategy):
    """The posterior of the shuffled model; the prior's scale is yours to change.

    In standard units (sd(y) = sd(x_j) = 1) the prior density of weights w and log σ is

        exp(−|w|²/2 weight_scale²) · s^(share_high − p/2) · σ^(2 share_low) / (s + σ²)^(both),

    s = wᵀ cov(x) w being the signal's variance and both = share_low + share_high: every direction
    of the predictions is as likely, the noise's share σ²/(s + σ²) is Beta(share_low, share_high),
    the scale is free, and a Gaussian factor bounds the weights.

    Parameters
    ----------
    weight_scale : float, default=1.0
        Sd of the factor that bounds a weight, in units of sd(y)/sd(x_j).
    share_low, share_high : float, default=0.5, 1.0
        The noise's share of the labels' variance is Beta(share_low, share_high).

    The fields `tilt_…` choose the point estimate, `trust` and `coarse_…` how far the likelihood is
    believed; all were set on simulations and on splits that no reported figure uses. The rest is
    numerical effort.

    >>> Likelihood(weight_scale=2.5).weight_scale
    2.5
    """

    takes_penalty: ClassVar[bool] = False
    has_posterior: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "likelihood"

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        return solve(problem, self, rng, effort)


def solve(
    problem: Problem, options: Settings, rng: np.random.Generator, effort: Effort
) -> Solution:
    """Sample the posterior of a problem in standard units."""
    bags, has_intercept, noise = problem.bags, problem.has_intercept, problem.noise
    if effort.n_starts is not None:
        options = replace(options, n_starts=effort.n_starts)
    posed = pose(bags, has_intercept, noise, options, effort.n_jobs)
    if posed is None:
        return nothing_to_learn(bags, has_intercept, noise)
    target, columns, bags = posed
    fitted = _fit_least_squares(bags, columns, rng, effort)
    modes = find_modes(target, fitted, rng)
    powers = choose_powers(target, modes)
    target, sample = _sample_at(target, modes, powers, rng)
    is_thin = sample.effective_draws < options.least_draws
    if is_thin:
        target, sample = _sample_at(target, modes, (_WEAKENING * powers[0], powers[1]), rng)
    estimate = _choose_estimate(sample, target)
    return _assemble(target, sample, estimate, columns, is_thin, rng)


def _choose_estimate(sample: Sample, target: Target) -> np.ndarray:
    """Return the weights of least mean distance to the posterior under the low-noise tilt.

    Thin weights are flattened towards the mixture: an average over the modes found then takes the
    place of the luck of one draw. The tilt fades where the posterior sees hardly any mass at low
    noise, and never takes the estimate out of its own 95 % intervals.
    """
    p, o = target.p, target.options
    x = sample.x[:, :p]
    plain = flatten(sample.log_plain, o.least_draws)
    if target.log_sigma is not None:
        return find_centre(x, plain)
    is_low = np.exp(2.0 * sample.x[:, p]) < o.tilt_ceiling
    low = float(normalise(sample.log_plain)[0] @ is_low)
    limit = o.tilt_limit * min(max((low - _LEAST_LOW) / (_ENOUGH_LOW - _LEAST_LOW), 0.0), 1.0)
    tilted = limit_tilt(sample.log_plain, sample.log_tilted, limit)
    centre = find_centre(x, flatten(tilted, o.least_draws))
    ends = Posterior(x, plain, np.exp(sample.x[:, p])).interval(0.95)
    return np.clip(centre, ends[:, 0], ends[:, 1])


def _sample_at(
    target: Target, modes: list[Mode], powers: tuple[float, float], rng: np.random.Generator
) -> tuple[Target, Sample]:
    """Sample the posterior with the likelihood at its powers, from the modes that remain there."""
    if min(powers) < 1.0:
        target = replace(target, power=powers[0], means_power=powers[1])
        climbed = climb_all(target, [theta for _, theta in modes], 1.0)
        modes = keep_distinct(target, climbed, target.options.n_components)
    modes = [mode for mode in modes if mode[0] > modes[0][0] - _REACH]
    return target, sample_posterior(target, make_mixture(target, modes), rng)


def _fit_least_squares(
    bags: Bags, columns: Columns, rng: np.random.Generator, effort: Effort
) -> list[tuple[np.ndarray, float]]:
    """Return the best least-squares answers and their mean squared gaps."""
    problem = Problem(bags, Squared(), None, no_penalty(bags.d))
    found = multistart.solve(problem, rng, replace(effort, n_starts=None))
    p = len(columns.is_kept)
    return [(c.weights[:p][columns.is_kept], c.value) for c in found.candidates[:_N_FITTED]]


def _assemble(
    target: Target,
    sample: Sample,
    estimate: np.ndarray,
    columns: Columns,
    is_thin: bool,
    rng: np.random.Generator,
) -> Solution:
    """Turn the sample into draws of all weights, an estimate and competing answers."""
    p, o = target.p, target.options
    shares = flatten(sample.log_plain, o.least_draws)
    draws = columns.widen(sample.x)
    if target.log_sigma is None:
        sigma = np.exp(sample.x[:, p])
    else:
        sigma = np.full(len(draws), exp(target.log_sigma))
    if columns.has_intercept:
        # Given the weights the intercept is exactly Gaussian about its centred value.
        spread = sigma / sqrt(target.means_power * target.n)
        draws[:, -1] += spread * rng.standard_normal(len(draws))
    if is_thin:
        status = Status.THIN_POSTERIOR
    else:
        status = Status.MISFIT if target.power < _MISFIT_POWER else Status.POSTERIOR
    stats = {
        "n_starts": count_starts(target),
        "n_evaluations": target.evaluations.n,
        "n_rounds": sample.n_rounds,
        "effective_draws": sample.effective_draws,
        "likelihood_power": target.power,
        "means_power": target.means_power,
        "log_evidence": sample.log_evidence,
        "priors": o.priors(target.log_sigma, target.power, target.means_power),
    }
    return Solution(
        candidates=_competing_answers(target, sample, shares, columns),
        status=status,
        stats=stats,
        estimate=columns.widen(estimate[None])[0],
        uncertainty=Posterior(draws, shares, sigma, is_thin),
    )


def _competing_answers(
    target: Target,
    sample: Sample,
    shares: np.ndarray,
    columns: Columns,
) -> tuple[Candidate, ...]:
    """Return the answers with a share of the posterior, largest first; overlapping ones are one."""
    parts = sample.mixture.log_parts(sample.x)
    owned = np.exp(parts - logsumexp(parts, axis=0)) * shares
    groups: list[tuple[np.ndarray, np.ndarray]] = []
    for k in np.argsort(-owned.sum(axis=1), kind="stable"):
        mean = owned[k] @ sample.x / max(owned[k].sum(), 1e-300)
        for i, (centre, mass) in enumerate(groups):
            if target.squared_distance(mean, centre) < _SAME_ANSWER:
                groups[i] = (centre, mass + owned[k])
                break
        else:
            groups.append((mean, owned[k]))
    candidates = []
    for _, mass in groups:
        share = float(mass.sum())
        if share < _LEAST_SHARE:
            continue
        mean = mass @ sample.x / share
        evidence = sample.log_evidence + log(share)
        candidates.append(
            Candidate(
                columns.widen(mean[None])[0],
                value=-evidence,
                evidence=evidence,
                share=share,
                noise=exp(target.split(mean)[1]),
            )
        )
    return tuple(sorted(candidates, key=lambda c: c.value))
