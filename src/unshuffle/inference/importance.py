"""Adaptive multiple importance sampling (Cornuet, Marin, Mira and Robert 2012)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np
from scipy.special import logsumexp

from unshuffle.inference.proposals import Mixture, adapt, flatten, normalise
from unshuffle.model.posterior import Target

# The centre is wanted to a ten-thousandth of the spread, far below its Monte Carlo error; 200 moves
# get there also between two modes of equal weight.
_NEAR, _MAX_MOVES = 1e-4, 200


@dataclass(frozen=True, eq=False)
class Sample:
    """All draws with their log importance weights, and what further rounds build on.

    `parts` are those of the density at every draw (`Target.parts`), `proposals` the log of the
    summed densities of the mixtures `used`, one for every round. `first` is the mixture at the
    modes.
    """

    x: np.ndarray
    slopes: np.ndarray
    log_weights: np.ndarray
    parts: np.ndarray
    proposals: np.ndarray
    used: tuple[Mixture, ...]
    first: Mixture
    effective_draws: float = 0.0

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return len(self.used)

    @property
    def log_evidence(self) -> float:
        """Log of the posterior's normalising constant."""
        return float(logsumexp(self.log_weights)) - log(len(self.log_weights))


def find_centre(x: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the point of least mean distance to weighted draws: Weiszfeld's iteration (1937).

    Where the draws gather around one point it is there, however far the others are; where they do
    not, it is close to the mean.
    """
    centre = shares @ x
    unit = float(np.sqrt(shares @ ((x - centre) ** 2).sum(axis=1)))
    if unit < 1e-300:  # one point has all the weight, and its gradient would overflow
        return centre
    for _ in range(_MAX_MOVES):
        distance = np.sqrt(((x - centre) ** 2).sum(axis=1))
        towards = shares / np.maximum(distance, _NEAR * unit)
        moved = towards @ x / towards.sum()
        is_done = float(np.abs(moved - centre).max()) < _NEAR * unit
        centre = moved
        if is_done:
            break
    return centre


def reweigh(target: Target, sample: Sample) -> Sample:
    """Return the draws with their weights and effective sample size at the target's power."""
    data = target.mix(sample.parts[:, 0], sample.parts[:, 1])
    logs = data + sample.parts[:, 2] - (sample.proposals - log(sample.n_rounds))
    return replace(sample, log_weights=logs, effective_draws=normalise(logs)[1])


def sample_posterior(
    target: Target, mixture: Mixture, target_draws: float, rng: np.random.Generator
) -> Sample:
    """Sample by adaptive multiple importance sampling (Cornuet et al. 2012).

    All rounds share one deterministic-mixture weight. The mixture adapts between rounds.
    """
    o, sample = target.options, None
    for n_rounds in range(1, o.max_rounds + 1):
        sample = reweigh(target, _add_round(target, mixture, sample, rng))
        if n_rounds >= o.min_rounds and sample.effective_draws >= target_draws:
            break
        mixture = adapt(mixture, sample.x, flatten(sample.log_weights, 5.0 * target.dim))
    assert sample is not None
    return sample


def _add_round(
    target: Target, mixture: Mixture, sample: Sample | None, rng: np.random.Generator
) -> Sample:
    """Return the draws with a round from a mixture added, not yet weighed."""
    x = mixture.draw(target.options.n_draws, rng)
    parts, slopes, logs = target.parts(x), target.slopes(x), mixture.log_density(x)
    if sample is None:
        return Sample(x, slopes, parts[:, 2], parts, logs, (mixture,), mixture)
    # The old draws under the new proposal, the new draws under every one.
    old = np.logaddexp(sample.proposals, mixture.log_density(sample.x))
    fresh = logsumexp([*(each.log_density(x) for each in sample.used), logs], axis=0)
    return replace(
        sample,
        x=np.vstack([sample.x, x]),
        slopes=np.vstack([sample.slopes, slopes]),
        parts=np.vstack([sample.parts, parts]),
        proposals=np.append(old, fresh),
        used=(*sample.used, mixture),
    )
