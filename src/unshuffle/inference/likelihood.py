"""The posterior of the shuffled model: its modes, its draws, its centre.

Inside a bag the labels are y = π(Xw + b) + e with an unknown permutation and Gaussian noise, so
that the likelihood is a permanent (DeGroot and Goel 1980),

    log p(y | w, σ) = −n log σ + Σ_r [log perm exp(−(y_j − z_i)²/2σ²) − log n_r!] + const.

The permanent is taken exactly for bags of up to ten rows, and otherwise as the value of entropic
transport (Sinkhorn's scaling, on a grid where that is cheaper) with a local correction. Modes are
found from many starts; adaptive multiple importance sampling from a mixture around them draws from
one tempered posterior (`inference.calibration`). Estimate, intervals and competing answers are the
spatial median, the quantiles and the groups of these draws.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import exp, log
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from unshuffle.core.solution import BagEffects, Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.core.uncertainty import ModelDraws, Posterior
from unshuffle.data.bags import Bags
from unshuffle.data.blocks.row_sample import FEW_BAGS
from unshuffle.data.products import multiply
from unshuffle.inference.calibration import (
    calibrated_count,
    full_power,
    load_calibration,
    prior_share,
)
from unshuffle.inference.diagnostics import Diagnostics, diagnose, measure_difference
from unshuffle.inference.ensemble import walk
from unshuffle.inference.importance import Sample, find_centre, sample_posterior
from unshuffle.inference.many_modes import MANY_MODES, sample_many
from unshuffle.inference.modes import Mode, climb_all, count_starts, find_modes, keep_distinct
from unshuffle.inference.noiseless import solve_exactly
from unshuffle.inference.proposals import Mixture, flatten, make_mixture
from unshuffle.model.bag_means import Effects
from unshuffle.model.building import build_target
from unshuffle.model.posterior import Target
from unshuffle.model.settings import CALIBRATED, FLAT, FULL, MOST_LABELS, Settings
from unshuffle.model.special_cases import Columns, nothing_to_learn
from unshuffle.objectives.losses import Squared
from unshuffle.objectives.penalties import no_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.options import BagOffsets, FitOptions
from unshuffle.solvers import multistart
from unshuffle.solvers.means import solve_linked

__all__ = ["Likelihood", "answer", "declare_effects", "search", "solve"]

# Modes further than this below the best are out of reach: 20 nats are half a billion to one.
_REACH = 20.0
# Least-squares answers that are refined besides the annealed starts.
_N_FITTED = 6
# Modes that are followed to another power of the likelihood: weaker ones merge into fewer.
_N_CLIMBED = 12
# An ensemble with a lower effective sample size has hardly left its starts: 64 members count as 64
# where none moved at all. Measured: 64.5 and 67 with 20 columns (200 rows, 4 bags), 64 with 30 and
# 40; 84 to 107 with 5 and 10.
_LOW_SAMPLE_SIZE = 80.0
# Few bags of more rows count as so many would: more labels set dozens of modes tens of nats apart,
# of which a search finds some.
_MOST_OF_FEW = 100_000.0
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

    `power` tempers the within-bag likelihood; the rest is numerical effort.

    Parameters
    ----------
    weight_scale : float, default=2.5
        Sd of the factor that bounds a weight, in units of sd(y)/sd(x_j).
    share_low, share_high : float, default=0.5, 1.0
        The noise's share of the labels' variance is Beta(share_low, share_high).
    prior : "share" or "flat", default="share"
        "flat" drops all of the above: the density is constant in the weights and in log σ. Of use
        with bags known by their means alone, where it gives weighted least squares.
    power : "calibrated", "full" or float, default="calibrated"
        Power of the within-bag likelihood: calibrated on real tables; "full" declares that the
        linear model with this noise holds; a number in (0, 1] is taken as it is.
    approximate_power : float, default=0.8
        Power of approximate permanents at full power, beside exact ones.
    curve_scale : float, default=0.3
        Prior sd of the curvature c of the mean function z + c (z² − mean z²) with many bags, closed
        with one; 0 makes the mean linear.

    n_starts, n_refined, n_components : int, default=80, 16, 16
        Starts of the search for modes, starts refined, and modes kept.
    n_draws : int, default=400
        Draws of each round of importance sampling.
    min_rounds, max_rounds : int, default=1, 3
        Least and most rounds.
    target_draws, least_draws : float, default=250.0, 100.0
        Effective sample size at which sampling may stop, and below which nothing is identified.
    proposal_dof : float, default=5.0
        Degrees of freedom of the proposal, a mixture of t distributions.

    Examples
    --------
    >>> Likelihood(weight_scale=2.5).weight_scale
    2.5
    """

    takes_penalty: ClassVar[bool] = False
    has_posterior: ClassVar[bool] = True
    takes_offsets: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = False
    takes_known_means: ClassVar[bool] = True
    has_passes: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "likelihood"

    def declare(self, options: FitOptions) -> Likelihood:
        return replace(self, power=FULL) if options.model_holds else self

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        return solve(problem, self, rng, effort)


def solve(
    problem: Problem, options: Settings, rng: np.random.Generator, effort: Effort
) -> Solution:
    """Sample the posterior of a problem in standard units."""
    if effort.n_starts is not None:
        options = replace(options, n_starts=effort.n_starts)
    found = search(problem, options, rng, effort)
    if isinstance(found, Solution):
        return found
    return answer(*found, rng, effort)


def search(
    problem: Problem, options: Settings, rng: np.random.Generator, effort: Effort
) -> tuple[Target, Columns, list[Mode]] | Solution:
    """Return the target and its modes at full power, or the solution where nothing is sampled."""
    bags, has_intercept, noise = problem.bags, problem.has_intercept, problem.noise
    if bags.is_linked and noise is None and bags.n > bags.d and not problem.offsets.is_declared:
        found = solve_linked(bags)
        if found is not None:
            return found
    if _is_weighted_regression(problem, options):
        found = solve_linked(bags)
        if found is not None:
            return replace(found, stats=replace(found.stats, method="likelihood"))
    if options.power == FULL or bags.known_means is not None:
        # The mean of a curved function needs the squares of all rows.
        options = replace(options, curve_scale=0.0)
    built = build_target(bags, has_intercept, noise, options, effort.n_jobs)
    if built is None:
        return nothing_to_learn(bags, has_intercept, noise)
    target, columns, bags = built
    target = declare_effects(target, problem.offsets)
    fitted = fit_least_squares(bags, columns, rng, effort)
    if not problem.offsets.is_declared and bags.known_means is None:
        exact = solve_exactly(bags, columns, noise, fitted, effort)
        if exact is not None:
            return exact
    effort.report("looking for modes", 0.0)
    modes = find_modes(target, fitted[:_N_FITTED], rng)
    effort.report("looking for modes", 1.0)
    return target, columns, modes


def _is_weighted_regression(problem: Problem, options: Settings) -> bool:
    """Whether the posterior is that of weighted least squares: means alone, flat, no effects."""
    known = problem.bags.known_means
    return (
        known is not None
        and known.has_means_alone
        and options.prior == FLAT
        and problem.noise is None
        and problem.offsets.share == 0.0
    )


def declare_effects(target: Target, known: BagOffsets) -> Target:
    """Return the target with the prior of bag effects, as known or as calibrated."""
    if known.share == 0.0 or target.n_effective < 2:
        return target.with_effects(0.0, None, 0.0)
    numbers, difference = load_calibration(), measure_difference(target)
    share = known.share
    if share is None:
        share = prior_share(numbers.offset_low, numbers.offset_high, difference)
    # No label inside a bag contradicts contextual effects where means alone are known: forty random
    # bags of clean tables have interval scores of 0.74 and 0.62 with all and 0.3 of the prior.
    low = numbers.context_low * (0.3 if target.has_means_alone else 1.0)
    context = prior_share(low, numbers.context_high, difference)
    return target.with_effects(share, known.sd, context)


def choose_power(target: Target, found: Diagnostics) -> float:
    """Return the power of the within-bag likelihood: declared, or calibrated on real tables."""
    n, options = target.n_shuffled, target.options
    if n == 0.0:
        return 1.0  # known pairs alone have no within-bag likelihood
    full = full_power(target.within_bag.approximate, options.approximate_power)
    full = min(full, MOST_LABELS / n)
    if options.power == FULL:
        return full
    if options.power != CALIBRATED:
        return min(float(options.power), MOST_LABELS / n)
    n_bags = max(target.n_effective - target.n_known_means, 1)
    n_rows = n if n_bags >= FEW_BAGS else min(n, _MOST_OF_FEW)
    count = calibrated_count(load_calibration(), found, n_rows, n_bags)
    return min(full, count / n)


def answer(
    target: Target,
    columns: Columns,
    modes: list[Mode],
    rng: np.random.Generator,
    effort: Effort,
    sampled: Target | None = None,
) -> Solution:
    """Choose the power, sample the posterior around the modes, and report what follows.

    `sampled`, of few bags, is the posterior of a sample of their rows, or of all rows where these
    are not many.
    """
    found = diagnose(target, modes)
    target = replace(target, power=choose_power(target, found))
    effort.report("sampling the posterior", 0.0)
    if target.within_bag.has_passes and sampled is not None and len(modes) > MANY_MODES:
        sample = sample_many(target, sampled, modes, rng)
    else:
        sample = draw_sample(target, modes, rng)
    effort.report("sampling the posterior", 1.0)
    return _assemble(target, sample, columns, found, rng)


def draw_sample(target: Target, modes: list[Mode], rng: np.random.Generator) -> Sample:
    """Sample by importance, or by an ensemble where the effective sample size is low."""
    o = target.options
    if target.has_means_alone:  # every draw is next to free
        o = replace(o, n_draws=4 * o.n_draws, target_draws=3.0 * o.target_draws)
        target = replace(target, options=o)
    sample = sample_posterior(target, mix_modes(target, modes), o.target_draws, rng)
    return walk(target, sample, rng) if sample.effective_draws < o.least_draws else sample


def mix_modes(target: Target, modes: list[Mode]) -> Mixture:
    """Place proposals on the modes that are left at the target's power, near the best."""
    if target.within_bag.has_passes:  # mixtures in blocks climb from the modes themselves
        return make_mixture(target, modes)
    climbed = climb_all(target, [theta for _, theta in modes[:_N_CLIMBED]])
    kept = keep_distinct(target, climbed, target.options.n_components)
    return make_mixture(target, [mode for mode in kept if mode[0] > kept[0][0] - _REACH])


def fit_least_squares(
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
    columns: Columns,
    found: Diagnostics,
    rng: np.random.Generator,
) -> Solution:
    """Turn the sample into draws of all coefficients, their centre and competing answers."""
    p, o, x = target.p, target.options, sample.x
    is_low = sample.effective_draws < _LOW_SAMPLE_SIZE
    # Weights of a low effective sample size are flattened towards the proposal: an average over
    # the modes found then takes the place of the luck of one draw.
    shares = flatten(sample.log_weights, o.least_draws)
    sigma = np.full(len(x), exp(target.log_sigma or 0.0))
    if target.log_sigma is None:
        sigma = np.exp(x[:, p])
    effects = target.draw_effects(x, rng)
    slopes = sample.slopes + multiply(effects.contexts, target.between_share.T)
    levels = effects.levels if columns.has_intercept else np.zeros(len(x))
    centre = find_centre(np.column_stack([slopes, levels]), shares)
    weights = columns.widen(slopes, levels)
    stats = Stats(
        n_starts=count_starts(target),
        n_evaluations=target.evaluations.n,
        n_rounds=sample.n_rounds,
        effective_draws=sample.effective_draws,
        likelihood_power=target.power,
        log_evidence=sample.log_evidence,
        diagnostics=asdict(found),
        priors=o.priors(target.log_sigma, target.power, target.within_bag.has_shaped_noise),
    )
    is_declared = target.means.offset_share == 1.0  # what was declared is no misfit
    return Solution(
        candidates=_competing_answers(target, sample, shares, slopes, levels, columns),
        status=Status.THIN_POSTERIOR if is_low else Status.POSTERIOR,
        stats=stats,
        estimate=columns.widen(centre[None, :p], centre[p:])[0],
        uncertainty=Posterior(
            weights, shares, sigma, is_low, model=_model_draws(target, x, effects, columns)
        ),
        misfits=(replace(found, offset_probability=0.0) if is_declared else found).misfits,
        effects=_describe_effects(target, effects, sigma, shares, columns),
    )


def _model_draws(target: Target, x: np.ndarray, effects: Effects, columns: Columns) -> ModelDraws:
    """Return the draws of what predictions need beside pooled coefficients and noise."""
    params, p = target.read_points(x), len(columns.is_kept)
    contexts, between = effects.contexts, target.between_share

    def widen(slopes: np.ndarray) -> np.ndarray:
        return columns.widen(slopes)[:, :p]

    # Given its own row, the mean row of a new bag varies by S_b − S_b S⁻¹ S_b.
    spread = target.covariance @ between
    spread = spread - spread.T @ between
    variances = np.maximum(np.einsum("mj,jk,mk->m", contexts, spread, contexts), 0.0)
    offsets = effects.offsets
    if offsets is not None:
        offsets = offsets + multiply(contexts, target.effect_rows.T)
    return ModelDraws(
        within=widen(params.w),
        bends=widen(target.slopes(x) - params.w),
        pooled_contexts=widen(multiply(contexts, between.T)),
        curves=target.place_terms(params.coefs),
        signals=target.place_terms(params.centres),
        effect_sds=np.sqrt(effects.offset_sds**2 + variances),
        bag_effects=offsets,
        centre=np.zeros(p),
        factors=np.ones(p),
        has_intercept=columns.has_intercept,
    )


def _describe_effects(
    target: Target,
    effects: Effects,
    sigma: np.ndarray,
    shares: np.ndarray,
    columns: Columns,
) -> BagEffects | None:
    """Return the posterior of the bag effects; None for one bag, which has none."""
    if target.n_original_bags < 2:
        return None
    mean = shares @ effects.contexts
    spread = np.sqrt(np.maximum(shares @ (effects.contexts - mean) ** 2, 0.0))
    p = len(columns.is_kept)
    ratios, sizes = effects.offset_sds / sigma, target.means.sizes
    masses = [float(shares @ np.isclose(ratios, size)) for size in sizes]
    is_declared = target.means.offset_share == 1.0
    probability = 1.0 if is_declared else min(float(shares @ (effects.offset_sds > 0.0)), 1.0)
    return BagEffects(
        offset_probability=probability,
        offset_sd=float(shares @ effects.offset_sds),
        context_probability=min(float(shares @ (effects.context_sds > 0.0)), 1.0),
        contexts=tuple(columns.widen(mean[None])[0][:p].tolist()),
        context_sds=tuple(columns.widen(spread[None])[0][:p].tolist()),
        sizes=tuple(float(size * (shares @ sigma)) for size in sizes),
        shares=tuple(masses),
        rests_on_prior=target.means.context_share > 0.0 and target.n_effective <= target.p + 1,
    )


def _competing_answers(
    target: Target,
    sample: Sample,
    shares: np.ndarray,
    slopes: np.ndarray,
    levels: np.ndarray,
    columns: Columns,
) -> tuple[Candidate, ...]:
    """Return groups of the draws as answers, largest first; groups that overlap are one.

    Every draw belongs to the components of the first mixture in proportion to their densities.
    """
    mixture = sample.first
    parts = mixture.log_parts(sample.x)[: mixture.n_modes]
    owned = np.exp(parts - logsumexp(parts, axis=0)) * shares
    groups: list[tuple[np.ndarray, np.ndarray]] = []
    for k in np.argsort(-owned.sum(axis=1), kind="stable"):
        mean = owned[k] @ slopes / max(owned[k].sum(), 1e-300)
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
        mean, level = mass @ slopes / share, float(mass @ levels / share)
        evidence = sample.log_evidence + log(share)
        candidates.append(
            Candidate(
                columns.widen(mean[None], level)[0],
                value=-evidence,
                evidence=evidence,
                share=share,
                noise=exp(target.split(mass @ sample.x / share)[1]),
            )
        )
    return tuple(sorted(candidates, key=lambda c: c.value))
