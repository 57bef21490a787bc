"""The mismatch rate of links of unknown quality, told from the dependence of labels on rows.

Heavy tails, skewness and heteroscedastic noise look like wrong links in the units of the data. So
rows and labels enter by their ranks alone: with u and v the normal scores of the fitted values and
of the labels, both within their block, the density of v given u is

    (1 − q) Σₖ πₖ N(v − a u; 0, sₖ²) + q N(v; 0, 1),

since a wrong link is independent of its row. The likelihood is maximised over a and π at every rate
of a grid, and coarsened (Miller and Dunson 2019): n pairs count for n α/(α + n), because no table
obeys the model. The prior has a point mass at no wrong link and the density b (1 − q)ᵇ⁻¹ elsewhere.
`link_calibration` holds α, the point mass and b. Where columns explain link quality, the
coefficients of its logistic model are maximised over as well (see `link_quality`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from scipy.special import ndtri

from unshuffle.data.links import shift_logits
from unshuffle.data.products import dot, multiply, predict_rows
from unshuffle.linkage.calibration import LinkCalibration
from unshuffle.linkage.given_pairs import GivenPairs, block_means, weighted_gram, weighted_sum
from unshuffle.linkage.link_quality import fit_logistic, log_prior

# Rates at which everything is fitted.
RATES = np.array(
    [0.0, 0.02, 0.05, *np.arange(0.1, 0.9, 0.05), 0.9, 0.95]
)  # fmt: skip
# Components of the noise in units of the residuals' median absolute deviation, and its least scale
# in normal scores.
_SCALES, _LEAST_SCALE = 2.0 ** np.arange(-2.0, 5.0), 0.02
_MOST_STEPS, _LEAST_GAIN = 25, 1e-2
# EM alternates with the coefficients of link quality so often at most.
_MOST_ROUNDS = 15
# Beyond so many pairs every k-th in the order of the labels serves: the coarsened likelihood of
# more is the same.
_MOST_PAIRS = 2000
# No pair has a leverage above this: its fitted value without itself would be unbounded.
_MOST_LEVERAGE = 0.99


@dataclass(frozen=True, eq=False)
class RateLikelihood:
    """Log-likelihood of every rate of `RATES`, of independence, and how many pairs there are.

    `most_r2` is the upper end of a 95 % interval of the squared correlation of u and v. `gammas`
    are the coefficients of link quality at every rate; None without its columns.
    """

    values: np.ndarray
    independent: float
    n: int
    most_r2: float
    gammas: np.ndarray | None = None

    def posterior(self, calibrated: LinkCalibration) -> np.ndarray:
        """Return the coarsened posterior probability of every rate."""
        power = calibrated.pairs / (calibrated.pairs + self.n)
        widths = np.gradient(RATES)
        slope = calibrated.decay
        density = (1.0 - calibrated.none_wrong) * widths * slope * (1.0 - RATES) ** (slope - 1.0)
        prior = np.where(RATES == 0.0, calibrated.none_wrong, density)
        mass = prior * np.exp(power * (self.values - self.values.max()))
        return np.asarray(mass / mass.sum())

    def spread(self, pairs: GivenPairs, place: int) -> np.ndarray:
        """Return the prior probability of every pair to be wrong at a rate of `RATES`."""
        gamma = None if self.gammas is None else self.gammas[place]
        return _spread(pairs.quality, ~pairs.is_known, float(RATES[place]), gamma)


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


def measure_rates(pairs: GivenPairs) -> RateLikelihood:
    """Return the profile likelihood of the mismatch rate."""
    scores, n = _score_pairs(pairs)
    u, v = scores.u, scores.v
    n_columns = None if scores.quality is None else scores.quality.shape[1]
    gammas = None if n_columns is None else np.zeros((len(RATES), n_columns))
    if not scores.is_free.any() or dot(u, u) == 0.0 or dot(v, v) == 0.0:
        return RateLikelihood(np.zeros(len(RATES)), 0.0, max(n, 1), 1.0, gammas)
    values, slope = np.empty(len(RATES)), scores.naive
    gamma = None if gammas is None else gammas[0]
    for place, rate in enumerate(RATES.tolist()):
        # The slope of the right links is that of all over 1 − q, and near that at the last rate.
        starts = [min(scores.naive / (1.0 - rate), 1.0), slope]

        def spread(gamma: np.ndarray | None, rate: float = rate) -> np.ndarray:
            return _spread(scores.quality, scores.is_free, rate, gamma)

        values[place], slope, gamma = _profile(scores, spread, starts, gamma)
        if gammas is not None and gamma is not None:
            gammas[place] = gamma
    size = n / len(u)
    r = dot(u, v) / sqrt(dot(u, u) * dot(v, v))
    return RateLikelihood(
        values * size,
        float(scores.log_reference.sum()) * size,
        n,
        min((max(r, 0.0) + 1.96 / sqrt(n)) ** 2, 1.0),
        gammas,
    )


def fit_quality(pairs: GivenPairs, spread: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
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
    found = _profile(scores, wrong, [min(scores.naive / right, 1.0), scores.naive], gamma)[2]
    assert found is not None
    return found


def _spread(
    quality: np.ndarray | None, is_free: np.ndarray, rate: float, gamma: np.ndarray | None
) -> np.ndarray:
    """Return the prior probability of every pair to be wrong: the rate in the mean."""
    wrong = np.where(is_free, rate, 0.0)
    if quality is not None and gamma is not None and 0.0 < rate < 1.0 and gamma.any():
        wrong[is_free] = shift_logits(predict_rows(quality[is_free], gamma), rate)
    return wrong


def _profile(
    scores: Scores,
    spread: Callable[[np.ndarray | None], np.ndarray],
    starts: list[float],
    gamma: np.ndarray | None,
) -> tuple[float, float, np.ndarray | None]:
    """Maximise over slope, noise and the coefficients of link quality; return all but the noise."""
    wrong = spread(gamma)
    value, slope, posterior = max(
        (_maximise(scores, wrong, start) for start in sorted(set(starts))),
        key=lambda found: found[:2],
    )
    if scores.quality is None or gamma is None or not wrong.any():
        return value, slope, gamma
    value += log_prior(gamma)
    for _ in range(_MOST_ROUNDS):
        own = scores.is_free
        new = fit_logistic(scores.quality[own], posterior[own], gamma)
        found, moved, posterior = _maximise(scores, spread(new), slope)
        found += log_prior(new)
        if found <= value:
            break
        gain, value, slope, gamma = found - value, found, moved, new
        if gain < _LEAST_GAIN:
            break
    return value, slope, gamma


def _maximise(scores: Scores, wrong: np.ndarray, slope: float) -> tuple[float, float, np.ndarray]:
    """Maximise over slope and noise by EM.

    Return the log-likelihood, the slope, and the posterior probability of pairs to be wrong.
    """
    u, v = scores.u, scores.v
    rest = v - slope * u
    spread = max(1.4826 * float(np.median(np.abs(rest))), _LEAST_SCALE)
    scales = np.maximum(spread * _SCALES, _LEAST_SCALE)
    shares = np.full(len(scales), 1.0 / len(scales))
    other, value = wrong * np.exp(scores.log_reference), -np.inf
    for _ in range(_MOST_STEPS):
        rest = v - slope * u
        own = np.exp(-0.5 * (rest / scales[:, None]) ** 2)
        own *= (shares / (scales * sqrt(2.0 * np.pi)))[:, None]
        total = (1.0 - wrong) * own.sum(axis=0) + other
        last, value = value, float(np.log(np.maximum(total, 1e-300)).sum())
        if value - last < _LEAST_GAIN:
            break
        parts = own * ((1.0 - wrong) / np.maximum(total, 1e-300))
        counts = parts.sum(axis=1) + 1.0 / len(scales)
        shares = counts / counts.sum()
        weights = np.einsum("kn,k->n", parts, scales**-2.0)
        slope = dot(weights * u, v) / max(dot(weights * u, u), 1e-300)
    return value, slope, other / np.maximum(total, 1e-300)


def _score_pairs(pairs: GivenPairs) -> tuple[Scores, int]:
    """Return normal scores of fitted values and labels within blocks, and the number of pairs.

    Fitted values leave their own pair out (Allen 1974), so that many columns do not look like
    dependence. Pairs that are alone in their block say nothing. Of many pairs some serve.
    """
    X, y = pairs.X, pairs.y
    inverse = np.linalg.pinv(weighted_gram(X, np.ones(len(y)), X), rcond=1e-10, hermitian=True)
    leverage = np.minimum((multiply(X, inverse) * X).sum(axis=1), _MOST_LEVERAGE)
    fitted = predict_rows(X, multiply(inverse, weighted_sum(X, y)))
    fitted = (fitted - leverage * y) / (1.0 - leverage)
    places = np.flatnonzero(np.bincount(pairs.codes)[pairs.codes] > 1)
    u, v = (normal_scores((each - block_means(each, pairs.codes))[places]) for each in (fitted, y))
    n = len(places)
    if n > _MOST_PAIRS:
        some = np.linspace(0, n - 1, _MOST_PAIRS).astype(int)
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
