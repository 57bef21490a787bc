"""From the modes of a posterior to what is reported: its power, its draws, its competing answers.

Estimate, intervals and competing answers are the spatial median, the quantiles and the groups of
one set of draws (`inference.importance`), from one tempered posterior (`inference.calibration`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import exp, log

import numpy as np
from scipy.special import logsumexp

from unshuffle.core.solution import BagEffects, Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import Effort
from unshuffle.core.uncertainty import ModelDraws, Posterior
from unshuffle.data.blocks.row_sample import FEW_BAGS
from unshuffle.data.products import multiply
from unshuffle.inference.calibration import (
    calibrated_count,
    full_power,
    load_calibration,
    prior_share,
)
from unshuffle.inference.diagnostics import Diagnostics, diagnose, measure_difference
from unshuffle.inference.importance import Sample, find_centre, sample_posterior
from unshuffle.inference.many_modes import sample_many_modes
from unshuffle.inference.modes import MODES, Mode, count_starts, keep_distinct, maximise_all
from unshuffle.inference.proposals import Mixture, flatten, make_mixture
from unshuffle.model.bag_means import Effects
from unshuffle.model.posterior import Target
from unshuffle.model.settings import CALIBRATED, FULL, MOST_LABELS
from unshuffle.model.special_cases import Columns
from unshuffle.options import BagOffsets


@dataclass(frozen=True)
class AnswerSettings:
    """From draws to an answer.

    Attributes
    ----------
    reach : float
        Nats below the best from which on a mode has no component: half a billion to one.
    most_of_few : float
        Few bags of more rows count as this number: more labels set dozens of modes tens of nats
        apart, of which a search finds some.
    costly_share : float
        Part of the target effective sample size where every draw reads all data again.
    same_rival : float
        Answers are one where their predictions differ by less than this, in sds of the labels.
    """

    reach: float = 20.0
    most_of_few: float = 100_000.0
    costly_share: float = 0.6
    same_rival: float = 0.1


ANSWER = AnswerSettings()


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
    n_rows = n if n_bags >= FEW_BAGS else min(n, ANSWER.most_of_few)
    count = calibrated_count(load_calibration(), found, n_rows, n_bags)
    return min(full, count / n)


def sample_and_solve(
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
    if target.within_bag.has_passes and sampled is not None and len(modes) > MODES.n_followed:
        sample = sample_many_modes(target, sampled, modes, rng)
    else:
        sample = draw_sample(target, modes, rng)
    effort.report("sampling the posterior", 1.0)
    return _assemble(target, sample, columns, found, rng)


def draw_sample(target: Target, modes: list[Mode], rng: np.random.Generator) -> Sample:
    """Sample by importance, with more draws where each is next to free."""
    o = target.options
    if target.has_means_alone:  # every draw is next to free
        o = replace(o, n_draws=4 * o.n_draws, target_draws=3.0 * o.target_draws)
        target = replace(target, options=o)
    share = ANSWER.costly_share if target.within_bag.has_passes else 1.0
    return sample_posterior(target, mix_modes(target, modes), share * o.target_draws, rng)


def mix_modes(target: Target, modes: list[Mode]) -> Mixture:
    """Place proposals on the modes that are left at the target's power, near the best."""
    if target.within_bag.has_passes:  # mixtures in blocks climb from the modes themselves
        return make_mixture(target, modes)
    climbed = maximise_all(target, [theta for _, theta in modes[: MODES.n_climbed]])
    kept = keep_distinct(target, climbed, target.options.n_components)
    return make_mixture(target, [mode for mode in kept if mode[0] > kept[0][0] - ANSWER.reach])


def _assemble(
    target: Target,
    sample: Sample,
    columns: Columns,
    found: Diagnostics,
    rng: np.random.Generator,
) -> Solution:
    """Turn the sample into draws of all coefficients, their centre and competing answers."""
    p, o, x = target.p, target.options, sample.x
    is_low = sample.effective_draws < o.least_draws
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
            if target.distance(mean, centre) < ANSWER.same_rival:
                groups[i] = (centre, mass + owned[k])
                break
        else:
            groups.append((mean, owned[k]))
    candidates = []
    for _, mass in groups:
        share = float(mass.sum())
        if share < MODES.least_share:
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
