"""Regression on linked files with mismatches, at a known or an estimated mismatch rate.

At a given rate two estimates are combined. The Lahiri-Larsen equations hold for any noise. The
mixture of right and wrong links is more precise where its model holds. Hausman's test (1978)
compares them: the mixture has the weight of least variance, times min(1, p/c) with the p-value of
the test and a calibrated c. It is larger where some labels depend less on their row than others,
which misleads the mixture. A calibrated share of the squared gap is added to the variance.

Where the rate is estimated, the answer is the mixture of these estimates over the coarsened
posterior of the rate (see `mismatch_rate`). The test is then made along the coefficients and across
them, since a wrong rate changes their size alone. The point estimate minimises the expected
relative error, over a posterior of the rate that is less coarse than that of the intervals. Where
the noise is so low that links are told one by one, the right ones become known pairs and the others
are matched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaincc

from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.core.uncertainty import Posterior, StudentT
from unshuffle.data.bags import Bags, make_bags
from unshuffle.data.links import MismatchPrior
from unshuffle.data.products import multiply, predict_rows
from unshuffle.errors import InputError
from unshuffle.inference.likelihood import Likelihood
from unshuffle.inference.modes import MODES
from unshuffle.inference.pairing_draws import KnownPairing, Noise, ShuffledPairings
from unshuffle.linkage.adjusted_equations import add_clusters, solve_chambers, solve_lahiri_larsen
from unshuffle.linkage.calibration import LinkCalibration, load_link_calibration
from unshuffle.linkage.given_pairs import GivenPairs, read_pairs
from unshuffle.linkage.link_quality import standardise_quality
from unshuffle.linkage.linked_pairings import LinkedComponent, LinkedPairings
from unshuffle.linkage.mismatch_rate import (
    RATES,
    RateLikelihood,
    fit_quality,
    measure_loose,
    measure_rates,
)
from unshuffle.linkage.scale_mixture import LEAST_SIGMA, Mixture, fit_mixture, measure_influence
from unshuffle.linkage.within_blocks import WithinBlocks, as_one, split_blocks
from unshuffle.model.special_cases import N_DRAWS
from unshuffle.objectives.problem import Problem
from unshuffle.options import ESTIMATE, FitOptions
from unshuffle.solvers.means import solve_means

# Equal data must give equal intervals: draws have a seed of their own.
_SEED = 0
# Weiszfeld's iteration has converged to six digits after so many steps.
_N_WEISZFELD = 60


@dataclass(frozen=True)
class LinkageSettings:
    """Draws, and links that are matched anew.

    Attributes
    ----------
    n_audited : int
        Draws from what is known of an audited rate.
    sharp_noise : float
        Noise below this share of the labels' variance tells links one by one.
    few_wrong : float
        Fewer wrong links than this share leave nothing to gain by matching them.
    """

    n_audited: int = 16
    sharp_noise: float = 0.003
    few_wrong: float = 0.05


LINKAGE = LinkageSettings()

ADJUSTED = {"ll": solve_lahiri_larsen, "chambers": solve_chambers}


@dataclass(frozen=True)
class Linkage(Strategy):
    """Regression on links of which a share (a number, or "estimate") is wrong.

    `prior` says more where more is known of each pair; `equations` names adjusted equations to be
    solved alone.
    """

    share: Any = ESTIMATE
    prior: MismatchPrior | None = None
    equations: str | None = None

    takes_penalty: ClassVar[bool] = False
    why_plain: ClassVar[str | None] = "a link is one label beside one row"

    @property
    def name(self) -> str:
        return self.equations or "mixture"

    @property
    def degree(self) -> int:
        return 0

    def check(self, bags: Bags, options: FitOptions) -> None:
        if bags.n != len(bags.y) or not bags.is_plain:
            raise InputError(
                "mislinked needs one label beside each row, which separate samples, bins and "
                "missing labels do not have: leave mislinked out"
            )
        if options.l1 or options.l2:
            raise InputError("mislinked takes no penalties: leave l1 and l2 at 0")
        if self.equations is not None and self.prior is None and self.share == ESTIMATE:
            raise InputError(
                f"method '{self.equations}' needs a known mismatch rate: give it as mislinked, or "
                "an audit as links=Links(audit=(checked, wrong))"
            )
        super().check(bags, options)

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        pairs = read_pairs(problem.bags, problem.has_intercept)
        sigma = None
        if problem.noise is not None:
            pairs = replace(pairs, y=pairs.y - float(problem.noise.moments(1)[0]))
            sigma = max(problem.noise.sd, LEAST_SIGMA)
        prior = self.prior
        if (prior is None and self.share == 0.0) or pairs.is_known.all():
            return _solve_linked(pairs)
        if prior is not None and prior.columns is not None:
            quality = standardise_quality(prior.columns[pairs.place], pairs.is_known)
            pairs = replace(pairs, quality=quality)
        if (prior is not None and not prior.is_open) or self.share != ESTIMATE:
            wrong = self._draw_wrong(pairs)
            if not wrong.any():
                return _solve_linked(pairs)
            if self.equations is not None:
                return _solve_equations(pairs, wrong, self.equations, sigma)
            return _solve_known(problem, split_blocks(pairs), wrong, sigma, rng, effort)
        rates = measure_rates(pairs, load_link_calibration().ratio)
        return _solve_estimated(problem, split_blocks(pairs), rates, sigma, rng, effort)

    def _draw_wrong(self, pairs: GivenPairs) -> np.ndarray:
        """Return (draws, n) probabilities of pairs to be wrong."""
        if self.prior is None:
            return np.where(pairs.is_known, 0.0, float(self.share))[None]
        is_free = np.empty(len(pairs.y), dtype=bool)
        is_free[pairs.place] = ~pairs.is_known
        prior = self.prior
        if pairs.quality is not None:
            prior = _explain_quality(prior, pairs, is_free)
        drawn = prior.draw(LINKAGE.n_audited, is_free, np.random.default_rng(_SEED))
        return np.asarray(drawn[:, pairs.place])


def _explain_quality(prior: MismatchPrior, pairs: GivenPairs, is_free: np.ndarray) -> MismatchPrior:
    """Return the prior with logits by the columns that explain link quality."""
    exact = prior.at_means()

    def spread(logits: np.ndarray) -> np.ndarray:
        known = replace(exact, logits=pairs.restore(logits))
        drawn = known.draw(1, is_free, np.random.default_rng(_SEED))
        return np.asarray(drawn[0, pairs.place])

    assert pairs.quality is not None
    gamma = fit_quality(pairs, load_link_calibration().ratio, spread)
    return replace(prior, logits=pairs.restore(predict_rows(pairs.quality, gamma)))


@dataclass(frozen=True, eq=False)
class Combined:
    """An estimate at known rates: coefficients, covariance, and the mixture at them.

    `weight` is the least weight of the mixture, `value` its log-likelihood. All else is of the
    pairs of blocks of more than one: `right` the probability of each link to be right, `wrong` its
    prior probability to be wrong, `slopes` the coefficients within blocks.
    """

    w: np.ndarray
    covariance: np.ndarray
    weight: float
    right: np.ndarray
    noise: Noise
    value: float
    wrong: np.ndarray
    slopes: np.ndarray
    slope_covariance: np.ndarray

    @property
    def sigma(self) -> float:
        """The noise sd."""
        return self.noise.sd


def combine(
    parts: WithinBlocks,
    wrong: np.ndarray,
    agreement: float,
    bias: float,
    sigma: float | None,
    *,
    by_direction: bool,
) -> Combined:
    """Combine the Lahiri-Larsen equations with the mixture within blocks, as far as they agree.

    `by_direction` tests agreement along the coefficients and across them.
    """
    pairs, d = parts.inner, parts.inner.X.shape[1]
    adjusted = solve_lahiri_larsen(pairs, wrong)
    model = fit_mixture(pairs, wrong, adjusted.w, sigma)
    own, gap = adjusted.by_pair * parts.lost, model.w - adjusted.w
    difference = measure_influence(pairs, model) * parts.lost - own
    share, weight = np.zeros((d, d)), 0.0
    if wrong.any():
        along = _project_on(model.w) if by_direction else np.eye(d)
        weights = []
        for part in (along, np.eye(d) - along):
            some, apart = (
                add_clusters(pairs, multiply(each, part), parts.is_clustered)
                for each in (own, difference)
            )
            weights.append(_weigh_mixture(agreement, multiply(part, gap), some, apart))
            share += weights[-1] * part
        weight = min(weights)
    step = multiply(share, gap)
    slopes, both = adjusted.w + step, own + multiply(difference, share)
    if weight < 1.0:
        model = fit_mixture(pairs, wrong, slopes, sigma, moves=False)
    return _complete(parts, slopes, both, bias * np.outer(step, step), weight, model, wrong)


def _complete(
    parts: WithinBlocks,
    slopes: np.ndarray,
    influence: np.ndarray,
    more: np.ndarray,
    weight: float,
    model: Mixture,
    wrong: np.ndarray,
) -> Combined:
    """Return what slopes, their influences and `more` variance say of all coefficients."""
    w = parts.complete(slopes)
    lifted = parts.lift_influence(influence, w)
    found = [
        add_clusters(pairs, each, parts.is_clustered)
        for pairs, each in ((parts.inner, influence), (parts.pairs, lifted))
    ]
    own, whole = (np.einsum("ni,nj->ij", each, each) for each in found)
    covariance = whole + parts.lift @ more @ parts.lift.T
    noise, value = Noise(model.scales, model.shares), model.log_likelihood
    return Combined(w, covariance, weight, model.right, noise, value, wrong, slopes, own + more)


def _combine_alone(
    w: np.ndarray, covariance: np.ndarray, weight: float, model: Mixture, wrong: np.ndarray
) -> Combined:
    noise = Noise(model.scales, model.shares)
    value = model.log_likelihood
    return Combined(w, covariance, weight, model.right, noise, value, wrong, w, covariance)


def _project_on(w: np.ndarray) -> np.ndarray:
    """Return the projection on the direction of w; nothing where w is 0."""
    size = float((w * w).sum())
    return np.outer(w, w) / size if size > 0.0 else np.zeros((len(w), len(w)))


def _weigh_mixture(
    agreement: float, gap: np.ndarray, influence: np.ndarray, difference: np.ndarray
) -> float:
    """Return the weight of the mixture in some directions, in which all of these are."""
    agreed = min(1.0, _test_agreement(gap, difference) / agreement)
    return agreed * _weigh_precision(influence, difference)


def _test_agreement(gap: np.ndarray, influence: np.ndarray) -> float:
    """Return the p-value of Hausman's test: whether two estimates differ by chance.

    |gap|² is compared with its distribution under agreement, a weighted sum of χ² that is
    approximated by a multiple of one (Satterthwaite 1946).
    """
    spread = np.einsum("ni,nj->ij", influence, influence)
    mean, size = float(np.trace(spread)), float((spread**2).sum())
    if mean <= 0.0 or size <= 0.0:
        return 1.0
    dof = mean * mean / size
    return float(gammaincc(0.5 * dof, 0.5 * dof * float(gap @ gap) / mean))


def _weigh_precision(influence: np.ndarray, difference: np.ndarray) -> float:
    """Return the weight t from 0 to 1 of the least total variance of influence + t difference."""
    size = float((difference * difference).sum())
    gain = -float((influence * difference).sum())
    return min(max(gain / size, 0.0), 1.0) if size > 0.0 else 1.0


def _solve_linked(pairs: GivenPairs) -> Solution:
    """Return ordinary least squares: no link is wrong."""
    linked = make_bags(pairs.X, pairs.y, pairs.codes, np.ones(len(pairs.y), dtype=bool))
    found = solve_means(linked)
    stats = _make_stats(pairs, 0.0, np.ones(len(pairs.y)))
    return replace(found, stats=stats, pairings=KnownPairing(np.arange(len(pairs.y))))


def _solve_equations(
    pairs: GivenPairs, wrong: np.ndarray, equations: str, sigma: float | None
) -> Solution:
    """Solve adjusted equations alone, averaged over what an audit leaves open."""
    found = [ADJUSTED[equations](pairs, each) for each in wrong]
    models = [
        fit_mixture(pairs, each, one.w, sigma, moves=False)
        for each, one in zip(wrong, found, strict=True)
    ]
    return _average(
        as_one(pairs), wrong,
        [_combine_alone(one.w, one.covariance, 0.0, model, each)
         for one, model, each in zip(found, models, wrong, strict=True)],
    )  # fmt: skip


def _solve_known(
    problem: Problem,
    parts: WithinBlocks,
    wrong: np.ndarray,
    sigma: float | None,
    rng: np.random.Generator,
    effort: Effort,
) -> Solution:
    """Fit at known rates, averaged over what an audit leaves open."""
    known, pairs = load_link_calibration(), parts.pairs
    agreement = known.agree(measure_loose(pairs, wrong.mean(axis=0), known.ratio), is_known=True)
    found = [
        combine(parts, each[parts.places], agreement, known.bias, sigma, by_direction=False)
        for each in wrong
    ]
    answer = _average(parts, wrong, found)
    middle, n_right = found[len(found) // 2], float((1.0 - wrong.mean(axis=0)).sum())
    return _match_wrong(problem, parts, middle, n_right, answer, rng, effort) or answer


def _average(parts: WithinBlocks, wrong: np.ndarray, found: list[Combined]) -> Solution:
    """Average fits at several rates: variances inside and between add up (total variance)."""
    pairs = parts.pairs
    centres = np.array([each.w for each in found])
    w = centres.mean(axis=0)
    spread = sum(each.covariance for each in found) / len(found)
    between = np.einsum("ki,kj->ij", centres - w, centres - w) / max(len(found) - 1, 1)
    # Averages miss 1 by rounding.
    right = np.minimum(parts.restore(np.mean([each.right for each in found], axis=0), 1.0), 1.0)
    is_free = ~pairs.is_known
    rate = float(wrong[:, is_free].mean())
    mass = np.full(len(found), 1.0 / len(found))
    told = load_link_calibration().recalibrate(right, is_known=True)
    stats = replace(_make_stats(pairs, rate, told), mixture_weight=float(found[0].weight))
    sigma = float(np.mean([each.sigma for each in found]))
    return Solution(
        (Candidate(w, -float(np.mean([each.value for each in found]))),),
        Status.CONVERGED,
        stats,
        uncertainty=StudentT(
            w, _factor_covariance(spread + between), _degrees_of_freedom(pairs), sigma
        ),
        pairings=_make_pairings(parts, found, mass, is_known=True),
    )


def _solve_estimated(
    problem: Problem,
    parts: WithinBlocks,
    rates: RateLikelihood,
    sigma: float | None,
    rng: np.random.Generator,
    effort: Effort,
) -> Solution:
    """Mix the fits at all rates that the data leave open."""
    calibrated, pairs = load_link_calibration(), parts.pairs
    mass, sharp = rates.posterior(calibrated), find_point_posterior(rates, calibrated)
    kept = np.flatnonzero(np.maximum(mass, sharp) > MODES.least_share)
    mass, sharp = (each[kept] / each[kept].sum() for each in (mass, sharp))
    agreement = calibrated.agree(rates.loose_weight, is_known=False)
    found = [
        combine(parts, wrong, agreement, calibrated.bias, sigma, by_direction=True)
        for wrong in (rates.spread(parts.inner, place) for place in kept.tolist())
    ]
    right = np.einsum("k,kn->n", mass, np.array([each.right for each in found]))
    right = np.minimum(parts.restore(right, 1.0), 1.0)
    rate = float((mass * RATES[kept]).sum())
    # The middle of its slice stands for each rate.
    ends = np.interp([0.025, 0.975], np.cumsum(mass) - 0.5 * mass, RATES[kept])
    stats = replace(
        _make_stats(pairs, rate, calibrated.recalibrate(right, is_known=False)),
        mislinked_interval=(float(ends[0]), float(ends[1])),
        links_say_nothing=rates.says_nothing,
    )
    best = found[int(mass.argmax())]
    w = find_centre(np.array([each.w for each in found]), sharp, pairs.n_slopes)
    answer = Solution(
        (Candidate(w, -best.value),),
        Status.POSTERIOR,
        stats,
        uncertainty=_draw(found, mass, _degrees_of_freedom(pairs)),
        pairings=_make_pairings(parts, found, mass, is_known=False),
    )
    # Noise that is low enough to tell links one by one tells the rate as well.
    likeliest = max(found, key=lambda each: each.value)
    # Where links say nothing, a narrow component is an overfit to the few labels that it explains.
    if rates.says_nothing:
        return answer
    n_right = float(right.sum())
    return _match_wrong(problem, parts, likeliest, n_right, answer, rng, effort) or answer


def find_point_posterior(rates: RateLikelihood, calibrated: LinkCalibration) -> np.ndarray:
    """Return the posterior of the rate for the point estimate.

    The likelihood counts for more pairs than in the intervals where all labels depend on their rows
    alike: intervals must hold where the model does not.
    """
    loose = rates.loose_weight
    alike = calibrated.pairs_alike
    return rates.posterior(calibrated, alike + loose * (calibrated.pairs - alike))


def _make_pairings(
    parts: WithinBlocks, found: list[Combined], mass: np.ndarray, *, is_known: bool
) -> LinkedPairings:
    """Return what draws whole pairings."""
    fits = tuple(
        LinkedComponent(one.slopes, _factor_covariance(one.slope_covariance), one.wrong, one.noise)
        for one in found
    )
    n = len(parts.pairs.y)
    return LinkedPairings(parts.inner, n, fits, mass, _degrees_of_freedom(parts.pairs), is_known)


def find_centre(centres: np.ndarray, mass: np.ndarray, n_slopes: int) -> np.ndarray:
    """Return the point of least expected relative error Σ mass |w − centre| / |centre|.

    That is a weighted spatial median, by Weiszfeld's iteration (1937). One centre that holds half
    of the weights is the median itself.
    """
    sizes = np.sqrt((centres[:, :n_slopes] ** 2).sum(axis=1))
    weights = mass / np.maximum(sizes, 1e-12 * max(float(sizes.max(initial=0.0)), 1e-300))
    weights = weights / weights.sum()
    if weights.max() >= 0.5:
        return np.asarray(centres[int(weights.argmax())])
    w = (weights[:, None] * centres).sum(axis=0)
    for _ in range(_N_WEISZFELD):
        gaps = np.sqrt(((centres - w)[:, :n_slopes] ** 2).sum(axis=1))
        inverse = weights / np.maximum(gaps, 1e-9 * float(sizes.max()))
        w = (inverse[:, None] * centres).sum(axis=0) / inverse.sum()
    return np.asarray(w)


def _draw(found: list[Combined], mass: np.ndarray, dof: int) -> Posterior:
    """Return draws from the mixture of t distributions over rates."""
    rng = np.random.default_rng(_SEED)
    draws, weights, sigmas = [], [], []
    for each, share in zip(found, mass.tolist(), strict=True):
        n = max(round(share * N_DRAWS), 1)
        factor = np.sqrt(dof / rng.chisquare(dof, n))[:, None]
        steps = multiply(
            rng.standard_normal((n, len(each.w))) * factor, _factor_covariance(each.covariance)
        )
        draws.append(each.w + steps)
        weights.append(np.full(n, share / n))
        sigmas.append(np.full(n, each.sigma))
    return Posterior(np.concatenate(draws), np.concatenate(weights), np.concatenate(sigmas))


def _match_wrong(
    problem: Problem,
    parts: WithinBlocks,
    best: Combined,
    n_right: float,
    answer: Solution,
    rng: np.random.Generator,
    effort: Effort,
) -> Solution | None:
    """Match wrong links anew where the noise tells them one by one; None where it does not.

    `n_right` links are expected to be right.
    """
    # Low noise that explains few of them is an overfit. Where those are the links of labels that
    # hardly vary, it tells nothing.
    right = parts.restore(best.right, 1.0)
    if float(right.sum()) < 0.5 * n_right:
        return None
    pairs = parts.pairs
    spread = float(np.cov(parts.inner.y, aweights=best.right + 1e-12))
    is_sharp = best.weight > 0.5 and best.sigma**2 < LINKAGE.sharp_noise * min(spread, 1.0)
    if not is_sharp or 1.0 - float(right.mean()) < LINKAGE.few_wrong:
        return None
    known = pairs.is_known | (right > 0.5)
    bags = make_bags(pairs.X, pairs.y, pairs.codes, known)
    found = Likelihood().solve(replace(problem, bags=bags), rng, effort)
    pairings = answer.pairings
    if isinstance(found.uncertainty, Posterior):
        pairings = ShuffledPairings(bags, found.uncertainty, pairs.place)
    said = answer.stats
    stats = replace(
        found.stats,
        n_starts=said.n_starts,
        mislinked=said.mislinked,
        links_say_nothing=said.links_say_nothing,
        link_probability=said.link_probability,
        mixture_weight=said.mixture_weight,
    )
    return replace(found, stats=stats, pairings=pairings)


def estimate_share(problem: Problem) -> float:
    """Return the posterior mean of the mismatch rate."""
    calibrated = load_link_calibration()
    rates = measure_rates(read_pairs(problem.bags, problem.has_intercept), calibrated.ratio)
    return float((rates.posterior(calibrated) * RATES).sum())


def _make_stats(pairs: GivenPairs, wrong: float, right: np.ndarray) -> Stats:
    probability = np.where(pairs.is_known, 1.0, right)
    return Stats(n_starts=1, mislinked=wrong, link_probability=pairs.restore(probability))


def _degrees_of_freedom(pairs: GivenPairs) -> int:
    return max(len(pairs.y) - pairs.X.shape[1], 1)


def _factor_covariance(covariance: np.ndarray) -> np.ndarray:
    """Return steps of one sd (rows) in independent directions."""
    values, axes = np.linalg.eigh(0.5 * (covariance + covariance.T))
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * axes.T)
