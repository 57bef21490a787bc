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

from dataclasses import asdict, dataclass, replace
from functools import partial
from math import exp, log
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from unshuffle.core.bags import Bags
from unshuffle.core.losses import Squared
from unshuffle.core.pairing import Permutation
from unshuffle.core.penalties import no_penalty
from unshuffle.core.problem import Problem
from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.core.uncertainty import Posterior
from unshuffle.posterior.block_target import BlockTarget
from unshuffle.posterior.columns import Columns, nothing_to_learn
from unshuffle.posterior.estimating import Draws, blend, hear, keep_inside, lean
from unshuffle.posterior.exact_answers import solve_exactly
from unshuffle.posterior.importance import (
    Sample,
    find_centre,
    reweigh,
    sample_posterior,
)
from unshuffle.posterior.many_modes import MANY_MODES, bet_on_many, sample_many
from unshuffle.posterior.model import Target
from unshuffle.posterior.modes import (
    Mode,
    climb_all,
    count_starts,
    find_modes,
    keep_distinct,
)
from unshuffle.posterior.offsets import average_offsets, declare_offsets, widen_levels
from unshuffle.posterior.options import Settings
from unshuffle.posterior.posing import pose
from unshuffle.posterior.proposals import Mixture, flatten, make_mixture
from unshuffle.posterior.trust import (
    Signs,
    choose_powers,
    read_signs,
)
from unshuffle.posterior.walking import walk
from unshuffle.solvers import multistart

__all__ = ["Likelihood", "answer", "solve"]

# Modes further than this below the best are out of reach: 20 nats are half a billion to one.
_REACH = 20.0
# Least-squares answers that are refined besides the annealed starts.
_N_FITTED = 6
# Modes that are followed to another power of the likelihood: weaker ones merge into fewer.
_N_CLIMBED = 12
# Walkers worth fewer independent draws than this have hardly left their starts, and did not explore
# the posterior: the 64 of them count as 64 where none moved at all. Measured: 64.5 and 67 with 20
# columns (200 rows, 4 bags), 64 with 30 and 40; 84 to 107 with 5 and 10.
_THIN = 80.0
# In blocks the estimate's posterior is looked for from the draws of the intervals' one unless its
# power is so many times as large.
_MUCH_SHARPER = 1.6
# Answers whose predictions differ by less than 10 % of sd(y) are told as one.
_SAME_RIVAL = 0.1
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

    The fields `lean_…` and `tilt_…` choose the point estimate, `trust` how far the likelihood is
    believed; all were set on simulations and on splits that no reported figure uses. The rest is
    numerical effort.

    Parameters
    ----------
    weight_scale : float, default=2.5
        Sd of the factor that bounds a weight, in units of sd(y)/sd(x_j).
    share_low, share_high : float, default=0.5, 1.0
        The noise's share of the labels' variance is Beta(share_low, share_high).
    curve_scale : float, default=0.3
        Prior sd of the curve c of the mean law z + c (z² − mean z²) with many bags, closed with
        one; 0 makes the law straight.

    Examples
    --------
    >>> Likelihood(weight_scale=2.5).weight_scale
    2.5
    """

    takes_penalty: ClassVar[bool] = False
    has_posterior: ClassVar[bool] = True
    takes_offsets: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = False
    has_passes: ClassVar[bool] = True

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
    target = declare_offsets(target, problem.offsets)
    fitted = _fit_least_squares(bags, columns, rng, effort)
    if not problem.offsets.is_declared:
        exact = solve_exactly(bags, columns, noise, fitted, effort)
        if exact is not None:
            return exact
    effort.report("looking for modes", 0.0)
    modes = find_modes(target, fitted[:_N_FITTED], rng)
    effort.report("looking for modes", 1.0)
    # Least squares does not know of known pairs, nor of labels that lack their row.
    is_plain = target.homes is None and bags.pairing.name == Permutation.name
    return answer(target, columns, modes, rng, effort, fitted[0][0] if is_plain else None)


def answer(
    target: Target,
    columns: Columns,
    modes: list[Mode],
    rng: np.random.Generator,
    effort: Effort,
    fitted: np.ndarray | None = None,
    thinner: BlockTarget | None = None,
) -> Solution:
    """Judge the modes, sample the posterior around them, and say what follows.

    `fitted` is the answer of least squares, a second opinion for the estimate. `thinner`, of few
    bags, is the posterior of a sample of their rows, which serves where few labels are trusted; it
    is that of all rows where these are not many.
    """
    signs = read_signs(target, modes)
    if target.means.offset_share == 1.0:  # what was said beforehand is no misfit
        signs = replace(signs, offset_probability=0.0)
    power, bet = choose_powers(target, signs)
    effort.report("sampling the posterior", 0.0)
    plain, sharper = replace(target, power=power), replace(target, power=bet)
    if isinstance(plain, BlockTarget) and thinner is not None and len(modes) > MANY_MODES:
        drawn = sample = sample_many(plain, thinner, modes, rng)
        effort.report("sampling the posterior", 0.5)
        sharp = bet_on_many(sharper, modes, sample.first, rng)
    else:
        drawn, sample = _sample_plain(plain, modes, rng)
        effort.report("sampling the posterior", 0.5)
        # The estimate may bet where the intervals may not: it sees the shapes at a higher power.
        sharp = _sample_leaning(sharper, modes, rng, drawn)
    effort.report("sampling the posterior", 1.0)
    # Thin weights are flattened towards the mixture: an average over the modes found then takes the
    # place of the luck of one draw.
    leaning = flatten(lean(sharp, target), target.options.least_draws)
    draws = blend(sample, sharp, leaning, target.options)
    centre = find_centre(sharp.slopes, leaning)
    if fitted is not None and not target.options.bets_in_full:
        centre = hear(centre, fitted, sharp, leaning, target, signs)
    estimate = keep_inside(centre, draws)
    target = replace(target, power=power)
    return _assemble(target, sample, draws, drawn.first, estimate, columns, signs, rng)


def _sample_plain(
    target: Target, modes: list[Mode], rng: np.random.Generator
) -> tuple[Sample, Sample]:
    """Return the importance sample that intervals come from, and the walkers where it is thin."""
    o = target.options
    mixture = _mix_modes(target, modes, 0.0)
    drawn = sample_posterior(target, mixture, _plain, o.target_draws, rng)
    if drawn.effective_draws < o.least_draws:
        return drawn, walk(target, drawn, rng)
    return drawn, drawn


def _sample_leaning(
    target: Target, modes: list[Mode], rng: np.random.Generator, earlier: Sample
) -> Sample:
    """Return the sample that the estimate comes from: the earlier draws, and more if they are few.

    An average needs fewer draws than the ends of intervals do.
    """
    o = target.options

    weigh = partial(lean, target=target)
    sample = reweigh(target, earlier, weigh)
    if sample.effective_draws >= o.estimate_draws:
        return sample
    if isinstance(target, BlockTarget) and target.power < _MUCH_SHARPER * earlier.power:
        mixture = replace(earlier.first, tilt=1.0)
    else:
        mixture = _mix_modes(target, modes, 1.0)
    return sample_posterior(target, mixture, weigh, o.estimate_draws, rng, earlier)


def _mix_modes(target: Target, modes: list[Mode], tilt: float) -> Mixture:
    """Place proposals on the modes that are left at the target's power, near the best."""
    if isinstance(target, BlockTarget):  # mixtures in blocks climb from the modes themselves
        return make_mixture(target, modes, tilt)
    climbed = climb_all(target, [theta for _, theta in modes[:_N_CLIMBED]], tilt)
    kept = keep_distinct(target, climbed, target.options.n_components)
    return make_mixture(target, [mode for mode in kept if mode[0] > kept[0][0] - _REACH], tilt)


def _plain(sample: Sample) -> np.ndarray:
    """Return the log weights of the posterior."""
    return sample.log_plain


def _fit_least_squares(
    bags: Bags, columns: Columns, rng: np.random.Generator, effort: Effort
) -> list[tuple[np.ndarray, float]]:
    """Return the least-squares answers, best first, and their mean squared gaps."""
    problem = Problem(bags, Squared(), None, no_penalty(bags.d))
    found = multistart.solve(problem, rng, replace(effort, n_starts=None))
    p = len(columns.is_kept)
    return [(c.weights[:p][columns.is_kept], c.value) for c in found.candidates]


def _assemble(
    target: Target,
    sample: Sample,
    draws: Draws,
    mixture: Mixture,
    estimate: np.ndarray,
    columns: Columns,
    signs: Signs,
    rng: np.random.Generator,
) -> Solution:
    """Turn the sample into draws of all weights, an estimate and competing answers."""
    p, o = target.p, target.options
    is_thin = sample.effective_draws < _THIN
    x, shares = draws.x, draws.shares
    is_free = target.log_sigma is None
    sigma = np.exp(x[:, p]) if is_free else np.full(len(x), exp(target.log_sigma or 0.0))
    levels = target.draw_levels(x, sigma, rng) if columns.has_intercept else np.zeros(len(x))
    law = average_offsets(target, x, shares)
    weights = columns.widen(draws.slopes, widen_levels(target, levels, sigma, law))
    stats = {
        "n_starts": count_starts(target),
        "n_evaluations": target.evaluations.n,
        "n_rounds": sample.n_rounds,
        "effective_draws": sample.effective_draws,
        "likelihood_power": target.power,
        "log_evidence": sample.log_evidence,
        "signs": asdict(signs),
        "priors": o.priors(target.log_sigma, target.power, target.shapes.has_shaped_noise),
    }
    return Solution(
        candidates=_competing_answers(target, draws, sample.log_evidence, mixture, columns),
        status=Status.THIN_POSTERIOR if is_thin else Status.POSTERIOR,
        stats=stats,
        estimate=columns.widen(estimate[None], target.mean_level(x, shares))[0],
        uncertainty=Posterior(weights, shares, sigma, is_thin),
        misfits=signs.reasons,
        offsets=law,
    )


def _competing_answers(
    target: Target,
    draws: Draws,
    log_evidence: float,
    mixture: Mixture,
    columns: Columns,
) -> tuple[Candidate, ...]:
    """Return the answers with a share of the posterior, largest first; overlapping ones are one.

    Every draw belongs to the modes of the first mixture.
    """
    parts = mixture.log_parts(draws.x)[: mixture.n_modes]
    owned = np.exp(parts - logsumexp(parts, axis=0)) * draws.shares
    groups: list[tuple[np.ndarray, np.ndarray]] = []
    for k in np.argsort(-owned.sum(axis=1), kind="stable"):
        mean = owned[k] @ draws.slopes / max(owned[k].sum(), 1e-300)
        for i, (centre, mass) in enumerate(groups):
            if target.distance(mean, centre) < _SAME_RIVAL:
                groups[i] = (centre, mass + owned[k])
                break
        else:
            groups.append((mean, owned[k]))
    candidates = []
    for _, mass in groups:
        share = float(mass.sum())
        if share < _LEAST_SHARE:
            continue
        mean = mass @ draws.slopes / share
        evidence = log_evidence + log(share)
        candidates.append(
            Candidate(
                columns.widen(mean[None], target.mean_level(draws.x, mass / share))[0],
                value=-evidence,
                evidence=evidence,
                share=share,
                noise=exp(target.split(mass @ draws.x / share)[1]),
            )
        )
    return tuple(sorted(candidates, key=lambda c: c.value))
