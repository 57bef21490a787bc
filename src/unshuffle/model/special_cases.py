"""What every sampler of the posterior answers alike: known noise, constant columns, no data."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from scipy.special import gammaincinv, ndtri

from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.uncertainty import Posterior
from unshuffle.data.bags import Bags
from unshuffle.data.products import dot
from unshuffle.objectives.noise import Noise

# Draws in an answer. At even steps they give a 95 % interval within 2 %, also with one degree of
# freedom, and they are more than the effective ones of any run of a sampler.
N_DRAWS = 4000
_GOLDEN = (sqrt(5.0) - 1.0) / 2.0


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

    def widen(self, x: np.ndarray, level: float | np.ndarray = 0.0) -> np.ndarray:
        """Put zeros where constant columns were, and the intercept (the labels are centred)."""
        p = len(self.is_kept)
        full = np.zeros((len(x), p + self.has_intercept))
        full[:, :p][:, self.is_kept] = x[:, : int(self.is_kept.sum())]
        if self.has_intercept:
            full[:, -1] = level - self.shift
        return full


@dataclass(frozen=True)
class Plain:
    """Labels as a plain sample: numbers of rows and weights, mean, and sum of squared gaps.

    With an intercept the gaps are from the mean, else from zero. `varies` says whether labels
    differ, `has_columns` whether some column does.
    """

    n: int
    d: int
    mean: float
    square: float
    varies: bool
    has_columns: bool


def nothing_to_learn(bags: Bags, has_intercept: bool, noise: Noise | None) -> Solution:
    """Answer where no column or no label varies: nothing is known about the weights."""
    p = bags.d - has_intercept
    mean = float(bags.y.mean())
    rest = bags.y - mean if has_intercept else bags.y
    varies, has_columns = bool(np.ptp(bags.y) > 0), bool(bags.X[:, :p].any())
    plain = Plain(bags.n, bags.d, mean, dot(rest, rest), varies, has_columns)
    return answer_nothing(plain, has_intercept, noise)


def answer_nothing(plain: Plain, has_intercept: bool, noise: Noise | None) -> Solution:
    """Answer from the labels as a plain sample.

    Without a column the labels are one, whatever their order, and the intercept is their mean with
    its textbook interval. Where the columns vary, an unknown weight leaves the intercept as
    unknown.
    """
    p = plain.d - has_intercept
    shift = 0.0 if noise is None else float(noise.moments(1)[0])
    weights = np.zeros(plain.d)
    if has_intercept:
        weights[-1] = plain.mean - shift
    sigma = _draw_noise(plain, has_intercept, noise)
    draws = np.repeat(weights[None], N_DRAWS, axis=0)
    unknown, sentence = list(range(p)), "No prior was used."
    if has_intercept and (sigma is None or plain.has_columns):
        unknown.append(p)
    elif has_intercept and sigma is not None:
        # Steps of the golden ratio are even through every range of the noise's quantiles.
        steps = (np.arange(N_DRAWS) * _GOLDEN + 0.5) % 1.0
        draws[:, -1] += sigma / sqrt(plain.n) * ndtri(steps)
        reference = "normal" if noise is not None else "t"
        sentence = (
            f"The intercept is the mean of the labels, with its textbook {reference} interval."
        )
    known = np.zeros(N_DRAWS) if sigma is None else sigma
    posterior = Posterior(
        draws, np.ones(N_DRAWS), known, unknown=tuple(unknown), has_noise=sigma is not None
    )
    candidate = Candidate(weights, value=0.0, evidence=0.0, share=1.0, noise=posterior.noise)
    stats = Stats(n_starts=0, n_evaluations=0, priors=(sentence,))
    return Solution(
        (candidate,), Status.NOTHING_VARIES, stats, estimate=weights, uncertainty=posterior
    )


def _draw_noise(plain: Plain, has_intercept: bool, noise: Noise | None) -> np.ndarray | None:
    """Return draws of the sd of labels that are nothing but noise, None where they show none.

    With σ² = Σ(y − ȳ)²/χ² the intercept's draws follow Student's t, which covers at its level for
    any number of labels; σ fixed at its estimate would cover 70 % instead of 95 % with two.
    """
    if noise is not None:
        return np.full(N_DRAWS, noise.sd)
    dof = plain.n - has_intercept
    # Labels that are all the same show no noise at all, which no sample of a noise would.
    if dof < 1 or not plain.varies:
        return None
    # Even steps through the quantiles: with one degree of freedom the mean of random draws would
    # follow the largest of them.
    chi_squares = 2.0 * gammaincinv(0.5 * dof, (np.arange(N_DRAWS) + 0.5) / N_DRAWS)
    return np.asarray(np.sqrt(plain.square / chi_squares))
