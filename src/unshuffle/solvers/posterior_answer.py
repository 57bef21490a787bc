"""What every sampler of the posterior answers alike: known noise, constant columns, no data."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from unshuffle.bags import Bags
from unshuffle.noise import Noise
from unshuffle.solution import Candidate, Solution, Status
from unshuffle.uncertainty import Posterior

# Enough to show a prior's quantiles.
_N_PRIOR_DRAWS = 2000


def split_noise(noise: Noise | None, least: float) -> tuple[float | None, float]:
    """Return the log sd of given noise (None without, at least `least`) and its mean.

    Noise with a mean moves every label: the intercept takes it, or the labels lose it.
    """
    if noise is None:
        return None, 0.0
    return max(log(max(noise.sd, 1e-300)), least), float(noise.moments(1)[0])


@dataclass(frozen=True, eq=False)
class Columns:
    """Which columns the sampled weights belong to, and what the intercept is without them."""

    is_kept: np.ndarray
    has_intercept: bool
    shift: float

    def widen(self, x: np.ndarray) -> np.ndarray:
        """Put zeros where constant columns were, and the intercept (the labels are centred)."""
        p = len(self.is_kept)
        full = np.zeros((len(x), p + self.has_intercept))
        full[:, :p][:, self.is_kept] = x[:, : int(self.is_kept.sum())]
        if self.has_intercept:
            full[:, -1] = -self.shift
        return full


def nothing_to_learn(
    bags: Bags,
    has_intercept: bool,
    noise: Noise | None,
    weight_scale: float,
    priors: tuple[str, ...],
    rng: np.random.Generator,
) -> Solution:
    """Return the prior where no column or no label varies: nothing is known about the weights."""
    p = bags.d - has_intercept
    draws = np.zeros((_N_PRIOR_DRAWS, bags.d))
    draws[:, :p] = weight_scale * rng.standard_normal((_N_PRIOR_DRAWS, p))
    weights = np.zeros(bags.d)
    if has_intercept:
        weights[-1] = draws[:, -1] = bags.y.mean()
    sd = float(np.std(bags.y)) if noise is None else noise.sd
    posterior = Posterior(draws, np.ones(len(draws)), np.full(len(draws), sd), True)
    candidate = Candidate(weights, value=0.0, evidence=0.0, share=1.0, noise=sd)
    stats = {"n_starts": 0, "n_evaluations": 0, "priors": priors}
    return Solution(
        (candidate,), Status.NOTHING_VARIES, stats, estimate=weights, uncertainty=posterior
    )
