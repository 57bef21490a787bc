"""Mixture of right and wrong links with noise of any scale.

The label of pair i has the density

    (1 − qᵢ) Σₖ πₖ N(y − xᵀβ; 0, sₖ²) + qᵢ g(y),

g being the density of the labels of its block. The scales sₖ are a fixed grid, and their shares πₖ
are fitted: a nonparametric scale mixture of normals (Andrews and Mallows 1974), which leaves room
for heavy tails beside wrong links. EM (Dempster, Laird and Rubin 1977) alternates the probability
of each link to be right, the shares, and least squares weighted by these probabilities. That last
step solves the equation of ordinary least squares on the right links, rather than the
maximum-likelihood equation: the adjusted regression shall give what least squares gives on the true
links.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from unshuffle.data.products import FLAT, dot, multiply, predict_rows
from unshuffle.linkage.given_pairs import GivenPairs, weighted_gram, weighted_sum

# A noise sd below this part of the labels' is rounding.
LEAST_SIGMA = float(np.sqrt(np.finfo(float).eps))
# EM ends where step (in standard units) and gain (in nats) are below these, or after so many
# steps: standard errors are a thousand times larger.
_LEAST_STEP, LEAST_GAIN, _MOST_STEPS = 1e-5, 1e-2, 200


@dataclass(frozen=True)
class ScaleMixtureSettings:
    """The noise of links, and the size of a fit.

    Attributes
    ----------
    scales : tuple of float
        Sds of the noise's components, in units of the residuals' median absolute deviation.
    most_pairs : int
        Of twice as many pairs EM runs on about so many first.
    """

    scales: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    most_pairs: int = 10_000


SCALE_MIXTURE = ScaleMixtureSettings()


@dataclass(frozen=True, eq=False)
class Mixture:
    """Where EM ended.

    Attributes
    ----------
    w : coefficients.
    scales, shares : standard deviations of the noise's components and their shares.
    right : (n,) probability of each link to be right.
    log_likelihood : its value there.
    """

    w: np.ndarray
    scales: np.ndarray
    shares: np.ndarray
    right: np.ndarray
    log_likelihood: float

    @property
    def sigma(self) -> float:
        """The noise sd."""
        return sqrt(dot(self.shares, self.scales**2))


def fit_mixture(
    pairs: GivenPairs,
    wrong: np.ndarray,
    start: np.ndarray,
    sigma: float | None = None,
    *,
    moves: bool = True,
) -> Mixture:
    """Fit by EM from `start`; the noise sd may be given, and `moves` False keeps the coefficients.

    `wrong` are the prior probabilities of each link to be wrong, 0 where it is known to be right.
    """
    if sigma is not None:
        return _run_em(pairs, wrong, start, np.array([sigma]), moves)
    n, scales = len(pairs.y), np.array(SCALE_MIXTURE.scales)
    # Of many pairs every k-th in the order of the labels leads near the maximum.
    some = slice(None, None, max(n // SCALE_MIXTURE.most_pairs, 1))
    few = pairs if n < 2 * SCALE_MIXTURE.most_pairs else pairs.take(some)
    rest = np.abs(few.y - predict_rows(few.X, start))
    spread = max(1.4826 * float(np.median(rest)), LEAST_SIGMA)
    found = _run_em(few, wrong[some], start, spread * scales, moves)
    # Where many links are wrong the noise is far below the residuals: the grid follows it.
    while int(found.shares.argmax()) == 0 and found.scales[0] > LEAST_SIGMA:
        found = _run_em(few, wrong[some], found.w, found.scales[0] * scales, moves)
    if few is pairs:
        return found
    return _run_em(pairs, wrong, found.w, found.scales, moves, found.shares, 20)


def _run_em(
    pairs: GivenPairs,
    wrong: np.ndarray,
    start: np.ndarray,
    scales: np.ndarray,
    moves: bool,
    shares: np.ndarray | None = None,
    most_steps: int = _MOST_STEPS,
) -> Mixture:
    """Climb by EM with these scales; a single one is given and has no share to fit."""
    X, y = pairs.X, pairs.y
    w, rest = start, y - predict_rows(X, start)
    shares = np.full(len(scales), 1.0 / len(scales)) if shares is None else shares
    with np.errstate(divide="ignore"):
        log_wrong = np.where(wrong > 0.0, np.log(wrong), -np.inf) + pairs.log_reference
        log_prior = np.log(1.0 - wrong)
    value = -np.inf
    for _ in range(most_steps):
        parts, log_noise = _noise_density(rest, scales, shares)
        own = log_noise + log_prior
        total = np.logaddexp(own, log_wrong)
        right = np.exp(own - total)
        last, value = value, float(total.sum())
        if len(scales) > 1:
            # One observation is added, in equal parts: no share is exactly 0.
            counts = np.einsum("kn,n->k", parts, right) + 1.0 / len(scales)
            shares = counts / counts.sum()
        step = np.zeros(len(w))
        if moves:
            gram = weighted_gram(X, right, X)
            inverse = np.linalg.pinv(gram, rcond=FLAT, hermitian=True)
            step = multiply(inverse, weighted_sum(X, right * rest))
            w = w + step
            rest = y - predict_rows(X, w)
        is_still = float(np.abs(step).max(initial=0.0)) < _LEAST_STEP
        if is_still and value - last < LEAST_GAIN:
            break
    return Mixture(w, scales, shares, right, value)


def measure_influence(pairs: GivenPairs, found: Mixture) -> np.ndarray:
    """Return the influence (n, d) of every pair on the coefficients.

    The equation is Σ rᵢ xᵢ (yᵢ − xᵢᵀβ) = 0, whose derivative takes into account that the
    probabilities rᵢ move with β. The shares of the noise's components are kept, which leaves their
    part of the variance out.
    """
    X, right = pairs.X, found.right
    rest = pairs.y - predict_rows(X, found.w)
    parts, _ = _noise_density(rest, found.scales, found.shares)
    slope = -np.einsum("kn,k->n", parts, found.scales**-2.0) * rest
    moved = right + right * (1.0 - right) * rest * slope
    gram, information = weighted_gram(X, right, X), weighted_gram(X, moved, X)
    values, axes = np.linalg.eigh(gram)
    kept = values > FLAT * max(float(values.max(initial=0.0)), 1e-300)
    whiten = axes[:, kept] / np.sqrt(values[kept])
    ratios, turns = np.linalg.eigh(whiten.T @ information @ whiten)
    basis = whiten @ turns
    # A wrong link that passes for a right one loses information; this share of it is always left.
    inverse = (basis / np.maximum(ratios, 0.1)) @ basis.T
    return multiply(X * (right * rest)[:, None], inverse)


def _noise_density(
    rest: np.ndarray, scales: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of each component (k, n), and the log density of the noise."""
    heights = np.log(np.maximum(shares, 1e-300)) - np.log(scales) - 0.5 * log(2.0 * np.pi)
    logs = heights[:, None] - 0.5 * (rest / scales[:, None]) ** 2
    largest = logs.max(axis=0)
    parts = np.exp(logs - largest)
    total = parts.sum(axis=0)
    return parts / total, largest + np.log(total)


def log_noise_density(rest: np.ndarray, scales: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the log density of the noise at each residual."""
    return _noise_density(rest, scales, shares)[1]
