"""Profile likelihood of the mismatch rate of links, from the dependence of labels on rows.

Heavy tails, skewness and heteroscedastic noise look like wrong links in the units of the data. So
rows and labels enter by their ranks alone. With the normal scores u of the fitted values and v of
the labels, both within their block, the density of v given u is

    (1 − q) (Σₖ πₖ N(v − a u; 0, sₖ²) + π₀ N(v − b u; 0, s²)) + q N(v; 0, 1),

since a wrong link is independent of its row. The component with the slope b, between ρ a and a, is
that of labels that depend less on their row than others: without it they pass for wrong links. The
likelihood is maximised over a, b, s and π at every rate of a grid, with this slope free and with
b = a; the two models have posterior probabilities by the criterion of Schwarz (1978), so that the
freedom is used where the data ask for it. The likelihood is coarsened (Miller and Dunson 2019): n
pairs count for n α/(α + n), because no table obeys the model. The prior has a point mass at no
wrong link and the density δ (1 − q)^(δ − 1) elsewhere. `calibration` holds α, ρ, δ and the point
mass. Where columns explain link quality, the coefficients of its logistic model are maximised over
as well (see `link_quality`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
from scipy.special import expit, ndtri

from unshuffle.data.links import shift_logits
from unshuffle.data.products import dot, multiply, predict_rows
from unshuffle.linkage.calibration import LinkCalibration
from unshuffle.linkage.given_pairs import GivenPairs, block_means, weighted_gram, weighted_sum
from unshuffle.linkage.link_quality import fit_logistic, log_prior
from unshuffle.linkage.scale_mixture import LEAST_GAIN, LEAST_SIGMA, SCALE_MIXTURE

# Rates at which everything is fitted.
RATES = np.array(
    [0.0, 0.02, 0.05, *np.arange(0.1, 0.9, 0.05), 0.9, 0.95]
)  # fmt: skip


@dataclass(frozen=True)
class MismatchSettings:
    """The maximum of the likelihood at every rate.

    Attributes
    ----------
    least_scale : float
        Least sd of the noise in normal scores.
    most_steps : int
        Most steps of EM, and most times that it alternates with the coefficients of link quality.
    most_pairs : int
        Of more pairs every k-th in the order of the labels serves: the coarsened likelihood of more
        is the same.
    """

    least_scale: float = 0.02
    most_steps: int = 40
    most_pairs: int = 2000


MISMATCH = MismatchSettings()


@dataclass(frozen=True, eq=False)
class RateLikelihood:
    """Log-likelihood of every rate of `RATES`, and how many pairs there are.

    `values` are those where all labels depend on their rows alike, `loose` those where some depend
    less. `says_nothing` is whether chance explains as well that labels stand beside their rows.
    `gammas` are the coefficients of link quality at every rate; None without its columns.
    """

    values: np.ndarray
    loose: np.ndarray
    n: int
    says_nothing: bool = False
    gammas: np.ndarray | None = None

    def posterior(self, calibrated: LinkCalibration, pairs: float | None = None) -> np.ndarray:
        """Return the coarsened posterior probability of every rate.

        `pairs` stands in for the calibrated α. Where links say nothing every rate but 0 is as
        likely: the labels may depend little on their rows, or all links may be wrong.
        """
        if self.says_nothing:
            calibrated = replace(calibrated, none_wrong=0.0, decay=1.0)
        most = calibrated.pairs if pairs is None else pairs
        power = most / (most + self.n)
        widths = np.gradient(RATES)
        slope = calibrated.decay
        density = (1.0 - calibrated.none_wrong) * widths * slope * (1.0 - RATES) ** (slope - 1.0)
        prior = np.where(RATES == 0.0, calibrated.none_wrong, density)
        found = np.zeros(len(RATES))
        weights = (1.0 - self.loose_weight, self.loose_weight)
        for weight, values in zip(weights, (self.values, self.loose), strict=True):
            mass = prior * np.exp(power * (values - values.max()))
            found += weight * mass / mass.sum()
        return found

    @property
    def gain(self) -> float:
        """Gain of log-likelihood by the free slope."""
        return float(self.loose.max() - self.values.max())

    @property
    def loose_weight(self) -> float:
        """Posterior probability of the free slope, a parameter more (Schwarz 1978)."""
        return _schwarz_weight(self.gain, self.n)

    def spread(self, pairs: GivenPairs, place: int) -> np.ndarray:
        """Return the prior probability of every pair to be wrong at a rate of `RATES`."""
        gamma = None if self.gammas is None else self.gammas[place]
        return _wrong_probabilities(pairs.quality, ~pairs.is_known, float(RATES[place]), gamma)


@dataclass(frozen=True, eq=False)
class Scores:
    """Normal scores u of fitted values and v of labels, and what else the likelihood needs.

    `places` are the pairs they belong to, and `log_reference` is the log density of v for a wrong
    link.
    """

    u: np.ndarray
    v: np.ndarray
    is_free: np.ndarray
    quality: np.ndarray | None
    places: np.ndarray

    @property
    def log_reference(self) -> np.ndarray:
        """Log density of the score of a wrong link's label."""
        return np.asarray(-0.5 * self.v * self.v - 0.5 * log(2.0 * np.pi))

    @property
    def naive(self) -> float:
        """Slope of v on u where every link is taken as right."""
        return dot(self.u, self.v) / dot(self.u, self.u)


@dataclass(frozen=True, eq=False)
class ScoreModel:
    """Right links: the density of v given u.

    `slope`, `scales` and `shares` are those of the noise around the line; `loose_slope`,
    `loose_scale` and `loose_share` those of labels that depend less on their row. The ratio of the
    two slopes is at least `ratio`.
    """

    slope: float
    scales: np.ndarray
    shares: np.ndarray
    ratio: float
    loose_slope: float
    loose_scale: float
    loose_share: float


def measure_rates(pairs: GivenPairs, ratio: float) -> RateLikelihood:
    """Return the profile likelihood of the mismatch rate."""
    scores, n = _score_pairs(pairs)
    u, v = scores.u, scores.v
    n_columns = None if scores.quality is None else scores.quality.shape[1]
    gammas = None if n_columns is None else np.zeros((len(RATES), n_columns))
    if not scores.is_free.any() or dot(u, u) == 0.0 or dot(v, v) == 0.0:
        nothing = np.zeros(len(RATES))
        return RateLikelihood(nothing, nothing, max(n, 1), gammas=gammas)
    size = n / len(u)
    (values, same), (loose, free) = (_measure(scores, each, gammas) for each in (1.0, ratio))
    return RateLikelihood(
        values * size,
        loose * size,
        n,
        not pairs.is_known.any() and _says_nothing(scores, float(values.max()) * size, n),
        free if _schwarz_weight(size * (loose.max() - values.max()), n) > 0.5 else same,
    )


def _says_nothing(scores: Scores, value: float, n: int) -> bool:
    """Return whether chance explains as well that labels stand beside their rows.

    The likelihood gains less than a nat by the links, although the squared correlation of u and v
    is below a tenth with 95 % confidence.
    """
    u, v = scores.u, scores.v
    gain = value - float(scores.log_reference.sum()) * n / len(u)
    r = dot(u, v) / sqrt(dot(u, u) * dot(v, v))
    return gain < 1.0 and (max(r, 0.0) + 1.96 / sqrt(n)) ** 2 < 0.1


def measure_loose(pairs: GivenPairs, wrong: np.ndarray, ratio: float) -> float:
    """Return the posterior probability that some labels depend less on their row than others.

    `wrong` are the known probabilities of pairs to be wrong.
    """
    scores, n = _score_pairs(pairs)
    u, v, own = scores.u, scores.v, wrong[scores.places]
    if len(u) == 0 or dot(u, u) == 0.0 or dot(v, v) == 0.0:
        return 0.0
    right = max(1.0 - float(own.mean()), 1e-3)
    slope = min(scores.naive / right, 1.0)
    strict, free = (
        _maximise(scores, own, _make_start(scores, slope, each))[0] for each in (1.0, ratio)
    )
    return _schwarz_weight((free - strict) * n / len(u), n)


def _schwarz_weight(gain: float, n: int) -> float:
    """Return the posterior probability of a model with one parameter more (Schwarz 1978)."""
    return float(expit(gain - 0.5 * log(n)))


def _measure(
    scores: Scores, ratio: float, start: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the log-likelihood and the coefficients of link quality at every rate."""
    values, model = np.empty(len(RATES)), _make_start(scores, scores.naive, ratio)
    gammas = None if start is None else start.copy()
    gamma = None if gammas is None else gammas[0]
    for place, rate in enumerate(RATES.tolist()):
        # The slope of the right links is that of all over 1 − q, and near that at the last rate.
        starts = [_make_start(scores, min(scores.naive / (1.0 - rate), 1.0), ratio), model]

        def spread(gamma: np.ndarray | None, rate: float = rate) -> np.ndarray:
            return _wrong_probabilities(scores.quality, scores.is_free, rate, gamma)

        values[place], model, gamma = _profile(scores, spread, starts, gamma)
        if gammas is not None and gamma is not None:
            gammas[place] = gamma
    return values, gammas


def fit_quality(
    pairs: GivenPairs, ratio: float, spread: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return the coefficients of link quality at known rates.

    `spread` returns the prior probability of every pair to be wrong, given their logits.
    """
    scores, _ = _score_pairs(pairs)
    assert pairs.quality is not None
    quality, gamma = pairs.quality, np.zeros(pairs.quality.shape[1])
    if not scores.is_free.any() or dot(scores.u, scores.u) == 0.0:
        return gamma

    def wrong(gamma: np.ndarray | None) -> np.ndarray:
        logits = np.zeros(len(quality)) if gamma is None else predict_rows(quality, gamma)
        return spread(logits)[scores.places]

    right = max(1.0 - float(wrong(gamma).mean()), 1e-3)
    start = _make_start(scores, min(scores.naive / right, 1.0), ratio)
    found = _profile(scores, wrong, [start], gamma)[2]
    assert found is not None
    return found


def _wrong_probabilities(
    quality: np.ndarray | None, is_free: np.ndarray, rate: float, gamma: np.ndarray | None
) -> np.ndarray:
    """Return the prior probability of every pair to be wrong: on average the rate."""
    wrong = np.where(is_free, rate, 0.0)
    if quality is not None and gamma is not None and 0.0 < rate < 1.0 and gamma.any():
        wrong[is_free] = shift_logits(predict_rows(quality[is_free], gamma), rate)
    return wrong


def _profile(
    scores: Scores,
    spread: Callable[[np.ndarray | None], np.ndarray],
    starts: list[ScoreModel],
    gamma: np.ndarray | None,
) -> tuple[float, ScoreModel, np.ndarray | None]:
    """Maximise over the model of right links and the coefficients of link quality."""
    wrong = spread(gamma)
    found = [_maximise(scores, wrong, start) for start in starts]
    value, model, posterior = max(found, key=lambda each: each[0])
    if scores.quality is None or gamma is None or not wrong.any():
        return value, model, gamma
    value += log_prior(gamma)
    for _ in range(MISMATCH.most_steps):
        own = scores.is_free
        new = fit_logistic(scores.quality[own], posterior[own], gamma)
        reached, moved, posterior = _maximise(scores, spread(new), model)
        reached += log_prior(new)
        if reached <= value:
            break
        gain, value, model, gamma = reached - value, reached, moved, new
        if gain < LEAST_GAIN:
            break
    return value, model, gamma


def _make_start(scores: Scores, slope: float, ratio: float) -> ScoreModel:
    """Return the model that EM starts from: scales follow the residuals of the slope."""
    rest = scores.v - slope * scores.u
    spread = max(1.4826 * float(np.median(np.abs(rest))), MISMATCH.least_scale)
    scales = np.maximum(spread * np.array(SCALE_MIXTURE.scales), MISMATCH.least_scale)
    share = 1.0 / (len(scales) + 1)
    shares = np.full(len(scales), share)
    # Normal scores have an sd of one.
    return ScoreModel(slope, scales, shares, ratio, ratio * slope, 1.0, share)


def _maximise(
    scores: Scores, wrong: np.ndarray, model: ScoreModel
) -> tuple[float, ScoreModel, np.ndarray]:
    """Maximise over the model of right links by EM.

    Return the log-likelihood, the model, and the posterior probability of pairs to be wrong.
    """
    u, v = scores.u, scores.v
    other, value = wrong * np.exp(scores.log_reference), -np.inf
    slope, scales, shares = model.slope, model.scales, model.shares
    loose, sd, share = model.loose_slope, model.loose_scale, model.loose_share
    heights, right = 1.0 / (scales * sqrt(2.0 * np.pi)), 1.0 - wrong
    for _ in range(MISMATCH.most_steps):
        gap = v - loose * u
        own = np.exp(-0.5 * ((v - slope * u) / scales[:, None]) ** 2)
        own *= (shares * heights)[:, None]
        free = (share / (sd * sqrt(2.0 * np.pi))) * np.exp(-0.5 * (gap / sd) ** 2)
        total = right * (own.sum(axis=0) + free) + other
        last, value = value, float(np.log(np.maximum(total, 1e-300)).sum())
        if value - last < LEAST_GAIN:
            break
        factor = right / np.maximum(total, 1e-300)
        parts, free = own * factor, free * factor
        # One observation is added, in equal parts: no share is exactly 0.
        counts = np.append(parts.sum(axis=1), free.sum()) + 1.0 / (len(scales) + 1)
        shares, share = counts[:-1] / counts.sum(), float(counts[-1] / counts.sum())
        weights = np.einsum("kn,k->n", parts, scales**-2.0)
        slope = dot(weights * u, v) / max(dot(weights * u, u), 1e-300)
        ends = sorted((model.ratio * slope, slope))
        loose = min(max(dot(free * u, v) / max(dot(free * u, u), 1e-300), ends[0]), ends[1])
        sd = max(
            sqrt(dot(free, (v - loose * u) ** 2) / max(float(free.sum()), 1e-300)),
            MISMATCH.least_scale,
        )
    found = replace(
        model, slope=slope, shares=shares, loose_slope=loose, loose_scale=sd, loose_share=share
    )
    return value, found, other / np.maximum(total, 1e-300)


def _score_pairs(pairs: GivenPairs) -> tuple[Scores, int]:
    """Return normal scores of fitted values and labels within blocks, and the number of pairs.

    Fitted values leave their own pair out (Allen 1974), so that many columns do not look like
    dependence. Pairs that are alone in their block say nothing. Of many pairs some serve.
    """
    y = pairs.y - block_means(pairs.y, pairs.codes)
    X = pairs.X.copy()
    for j in range(pairs.n_slopes):
        X[:, j] -= block_means(X[:, j], pairs.codes)
    inverse = np.linalg.pinv(weighted_gram(X, np.ones(len(y)), X), rcond=1e-10, hermitian=True)
    # A leverage of one leaves no fitted value without the pair.
    leverage = np.minimum((multiply(X, inverse) * X).sum(axis=1), 1.0 - LEAST_SIGMA)
    fitted = predict_rows(X, multiply(inverse, weighted_sum(X, y)))
    fitted = (fitted - leverage * y) / (1.0 - leverage)
    places = np.flatnonzero(np.bincount(pairs.codes)[pairs.codes] > 1)
    u, v = (normal_scores((each - block_means(each, pairs.codes))[places]) for each in (fitted, y))
    n = len(places)
    if n > MISMATCH.most_pairs:
        some = np.linspace(0, n - 1, MISMATCH.most_pairs).astype(int)
        u, v, places = u[some], v[some], places[some]
    quality = None if pairs.quality is None else pairs.quality[places]
    return Scores(u, v, ~pairs.is_known[places], quality, places), n


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Return normal quantiles of the ranks, the same for equal values.

    >>> normal_scores(np.array([3.0, 1.0, 1.0, 9.0])).round(2).tolist()
    [0.32, -0.67, -0.67, 1.15]
    """
    _, kinds, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * (counts - 1.0)
    return np.asarray(ndtri((ranks[kinds.reshape(-1)] - 0.5) / len(values)))
