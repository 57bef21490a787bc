"""Convergence and effective sample size of chains, and the evidence by bridge sampling.

The split R̂ is that of Gelman and Rubin (1992) and Vehtari et al. (2021), the evidence the ratio of
Bennett (1976; Meng and Wong 1996).
"""

from __future__ import annotations

from math import ceil, comb, exp, factorial, lgamma, log, pi, sqrt

import numpy as np
from scipy.special import expit, logsumexp

# Trapezoids this wide in the log of a mixing number err by exp(-2π (π/2)/0.6) = 7e-8 (times 100 for
# powers of three): the integrand is analytic within π/2 of the real line.
_STEP = 0.6
# exp(-18) is nothing, and so is the tail beyond 40.
_LEAST, _MOST = 18.0, 40.0


def split_chains(chains: np.ndarray) -> np.ndarray:
    """Cut chains (m, n) in halves, so that a drift shows as a difference of chains."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, half : 2 * half]])


def split_rhat(chains: np.ndarray, variance: float) -> float:
    """Return Gelman and Rubin's ratio of spreads: 1 where the halves of all chains agree.

    The chains (m, n) are of a mean over several draws, or of one; `variance` is that of the
    posterior inside a chain, to which the variance between chains is added.
    """
    between = float(split_chains(chains).mean(axis=1).var(ddof=1))
    if between == 0.0:
        return 1.0
    return sqrt((variance + between) / variance) if variance > 0 else float("inf")


def effective_draws(chains: np.ndarray, variance: float) -> float:
    """Return how many independent draws of this variance give as sure a mean as the chains (m, n).

    Autocorrelations are summed up to the first negative pair (Geyer); chains that disagree count as
    correlated.
    """
    halves = split_chains(chains)
    m, n = halves.shape
    inside = float(halves.var(axis=1, ddof=1).mean())
    whole = inside * (n - 1) / n + float(halves.mean(axis=1).var(ddof=1))
    if whole == 0.0:
        return float(chains.size)
    centred = halves - halves.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    covariances = np.fft.irfft(spectrum, axis=1)[:, :n].mean(axis=0) / n
    correlations = 1.0 - (inside - covariances) / whole
    correlations[0] = 1.0
    pairs = correlations[: n - n % 2].reshape(-1, 2).sum(axis=1)
    is_over = pairs <= 0.0
    end = int(np.argmax(is_over)) if is_over.any() else len(pairs)
    kept = np.minimum.accumulate(pairs[:end])
    # Alternating draws may count for more than independent ones; that is not relied on.
    time = max(2.0 * float(kept.sum()) - 1.0, 1.0)
    return m * n / time * variance / whole


def bridge_levels(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """Return log Z(k + 1) − log Z(k) for each pair of neighbouring levels.

    Both arrays (draws, pairs) hold the log density at level k + 1 less that at level k: `forward`
    of draws at level k, `backward` of draws at level k + 1. Bennett's ratio, the estimate of least
    variance from both, is found by bisection.
    """
    low = np.minimum(forward, backward).min(axis=0)
    high = np.maximum(forward, backward).max(axis=0)
    # Halving 60 times reaches rounding from any range.
    for _ in range(60):
        middle = 0.5 * (low + high)
        surplus = expit(forward - middle).sum(axis=0) - expit(middle - backward).sum(axis=0)
        low, high = np.where(surplus > 0, middle, low), np.where(surplus > 0, high, middle)
    return 0.5 * (low + high)


def log_prior_mass(
    spreads: np.ndarray, scale: float, powers: tuple[float, float, float], log_sigma: float
) -> float:
    """Return log ∫ exp(−|w|²/2s²) signal^k total^(−b) dw at one noise level; `powers` are b, k, f.

    signal = (1 + f) q + f σ² and total = q + σ² with q = Σ spreads·w². A negative power is a
    mixture of exponentials, under which q has moments in closed form; a positive one is first made
    negative by whole powers, which are such moments.
    """
    both, excess, floor = powers
    # The remaining power is at least a half, so that the range of its mixing number is short.
    whole = max(0, ceil(excess + 0.5))
    rest = whole - excess
    variance = exp(2.0 * log_sigma)
    widest = log(max(float(spreads.sum()) * scale**2, variance))
    x = np.arange(-_LEAST / rest - widest, log(_MOST / (floor * variance)), _STEP)
    y = np.arange(-_LEAST / both - widest, log(_MOST / variance), _STEP)
    rate = np.exp(x)[:, None] * (1.0 + floor) + np.exp(y)
    density = rest * x[:, None] + both * y - lgamma(rest) - lgamma(both) + 2.0 * log(_STEP)
    density -= (np.exp(x)[:, None] * floor + np.exp(y)) * variance
    density -= 0.5 * sum(np.log1p(2.0 * rate * scale**2 * c) for c in spreads)
    narrowed = [scale**2 * c / (1.0 + 2.0 * rate * scale**2 * c) for c in spreads]
    signal = sum(
        comb(whole, i) * (1.0 + floor) ** i * moment * (floor * variance) ** (whole - i)
        for i, moment in enumerate(_quadratic_moments(narrowed, whole))
    )
    mass = float(logsumexp(density, b=signal))
    return mass + 0.5 * len(spreads) * log(2.0 * pi * scale**2)


def _quadratic_moments(variances: list[np.ndarray], order: int) -> list[np.ndarray]:
    """Return E[qⁱ], i = 0 … order, of q = Σ vⱼ χ²ⱼ from its cumulants 2^(i−1) (i−1)! Σ vⱼⁱ."""
    moments = [np.ones_like(variances[0])]
    cumulants = [
        2.0 ** (i - 1) * factorial(i - 1) * sum(v**i for v in variances)
        for i in range(1, order + 1)
    ]
    for i in range(1, order + 1):
        moments.append(
            sum(
                (comb(i - 1, j - 1) * cumulants[j - 1] * moments[i - j] for j in range(1, i + 1)),
                np.zeros_like(variances[0]),
            )
        )
    return moments
