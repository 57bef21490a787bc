"""The mismatch rate of links of unknown quality, told from the dependence of labels on rows.

Heavy tails, skewness and heteroscedastic noise look like wrong links in the units of the data. So
rows and labels enter by their ranks alone: with u and v the normal scores of the fitted values and
of the labels, both within their block, the density of v given u is

    (1 − q) Σₖ πₖ N(v − a u; 0, sₖ²) + q N(v; 0, 1),

since a wrong link is independent of its row. The likelihood is maximised over a and π at every rate
of a grid, and coarsened (Miller and Dunson 2019): n pairs count for n α/(α + n), because no table
obeys the model. The prior has a point mass at no wrong link and the density b (1 − q)ᵇ⁻¹ elsewhere.
`link_calibration` holds α, the point mass and b.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from scipy.special import ndtri

from unshuffle.data.products import dot, multiply, predict_rows
from unshuffle.linkage.calibration import LinkCalibration
from unshuffle.linkage.given_pairs import GivenPairs, block_means, weighted_gram, weighted_sum

# Rates at which everything is fitted.
RATES = np.array(
    [0.0, 0.02, 0.05, *np.arange(0.1, 0.9, 0.05), 0.9, 0.95]
)  # fmt: skip
# Components of the noise in units of the residuals' median absolute deviation, and its least scale
# in normal scores.
_SCALES, _LEAST_SCALE = 2.0 ** np.arange(-2.0, 5.0), 0.02
_MOST_STEPS, _LEAST_GAIN = 25, 1e-2
# Beyond so many pairs every k-th in the order of the labels serves: the coarsened likelihood of
# more is the same.
_MOST_PAIRS = 2000
# No pair has a leverage above this: its fitted value without itself would be unbounded.
_MOST_LEVERAGE = 0.99


@dataclass(frozen=True, eq=False)
class RateLikelihood:
    """Log-likelihood of every rate of `RATES`, of independence, and how many pairs there are.

    `most_r2` is the upper end of a 95 % interval of the squared correlation of u and v.
    """

    values: np.ndarray
    independent: float
    n: int
    most_r2: float

    def posterior(self, calibrated: LinkCalibration) -> np.ndarray:
        """Return the coarsened posterior probability of every rate."""
        power = calibrated.pairs / (calibrated.pairs + self.n)
        widths = np.gradient(RATES)
        slope = calibrated.decay
        density = (1.0 - calibrated.none_wrong) * widths * slope * (1.0 - RATES) ** (slope - 1.0)
        prior = np.where(RATES == 0.0, calibrated.none_wrong, density)
        mass = prior * np.exp(power * (self.values - self.values.max()))
        return np.asarray(mass / mass.sum())


def measure_rates(pairs: GivenPairs) -> RateLikelihood:
    """Return the profile likelihood of the mismatch rate."""
    u, v, is_free = _score_pairs(pairs)
    n = len(u)
    if n > _MOST_PAIRS:
        some = np.linspace(0, n - 1, _MOST_PAIRS).astype(int)
        u, v, is_free = u[some], v[some], is_free[some]
    if not is_free.any() or dot(u, u) == 0.0 or dot(v, v) == 0.0:
        return RateLikelihood(np.zeros(len(RATES)), 0.0, max(n, 1), 1.0)
    log_reference = -0.5 * v * v - 0.5 * log(2.0 * np.pi)
    naive = dot(u, v) / dot(u, u)
    values, slope = np.empty(len(RATES)), naive
    for place, rate in enumerate(RATES):
        wrong = np.where(is_free, rate, 0.0)
        # The slope of the right links is that of all over 1 − q, and near that at the last rate.
        starts = {min(naive / (1.0 - rate), 1.0), slope}
        found = [_maximise(u, v, wrong, log_reference, start) for start in sorted(starts)]
        values[place], slope = max(found)
    size = n / len(u)
    r = dot(u, v) / sqrt(dot(u, u) * dot(v, v))
    return RateLikelihood(
        values * size,
        float(log_reference.sum()) * size,
        n,
        min((max(r, 0.0) + 1.96 / sqrt(n)) ** 2, 1.0),
    )


def _maximise(
    u: np.ndarray, v: np.ndarray, wrong: np.ndarray, log_reference: np.ndarray, slope: float
) -> tuple[float, float]:
    """Maximise over slope and noise by EM; return the log-likelihood and the slope."""
    rest = v - slope * u
    spread = max(1.4826 * float(np.median(np.abs(rest))), _LEAST_SCALE)
    scales = np.maximum(spread * _SCALES, _LEAST_SCALE)
    shares = np.full(len(scales), 1.0 / len(scales))
    other, value = wrong * np.exp(log_reference), -np.inf
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
    return value, slope


def _score_pairs(pairs: GivenPairs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return normal scores of fitted values and labels within blocks, and which pairs are free.

    Fitted values leave their own pair out (Allen 1974), so that many columns do not look like
    dependence.
    """
    X, y = pairs.X, pairs.y
    inverse = np.linalg.pinv(weighted_gram(X, np.ones(len(y)), X), rcond=1e-10, hermitian=True)
    leverage = np.minimum((multiply(X, inverse) * X).sum(axis=1), _MOST_LEVERAGE)
    fitted = predict_rows(X, multiply(inverse, weighted_sum(X, y)))
    fitted = (fitted - leverage * y) / (1.0 - leverage)
    kept = np.bincount(pairs.codes)[pairs.codes] > 1
    u, v = (normal_scores((each - block_means(each, pairs.codes))[kept]) for each in (fitted, y))
    return u, v, ~pairs.is_known[kept]


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Return normal quantiles of the ranks, the same for equal values.

    >>> normal_scores(np.array([3.0, 1.0, 1.0, 9.0])).round(2).tolist()
    [0.32, -0.67, -0.67, 1.15]
    """
    _, kinds, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * (counts - 1.0)
    return np.asarray(ndtri((ranks[kinds.reshape(-1)] - 0.5) / len(values)))
