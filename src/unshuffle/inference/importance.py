"""Adaptive multiple importance sampling (Cornuet, Marin, Mira and Robert 2012)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np
from scipy.special import logsumexp

from unshuffle.inference.proposals import Mixture, adapt, flatten, normalise, standardise_components
from unshuffle.model.posterior import Target

# The spatial median is found to a ten-thousandth of the spread, far below its Monte Carlo error.
# 200 moves are enough also for two modes of equal mass.
_NEAR, _MAX_MOVES = 1e-4, 200


@dataclass(frozen=True, eq=False)
class Sample:
    """All draws with their log importance weights, and what further rounds build on.

    `slopes` are the least-squares slopes of each draw (`Target.slopes`), `parts` the parts of its
    density (`Target.parts`). `log_proposals` is the log of the sum of the densities of the mixtures
    `used`, one for every round. `first` is the mixture at the modes, before it adapts.
    """

    x: np.ndarray
    slopes: np.ndarray
    log_weights: np.ndarray
    parts: np.ndarray
    log_proposals: np.ndarray
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
    """Return the spatial median of weighted draws by Weiszfeld's iteration (1937).

    It is the point of least mean distance. Where most of the weight is around one point it is
    there, however far the other draws are; elsewhere it is close to the mean.
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
    logs = data + sample.parts[:, 2] - (sample.log_proposals - log(sample.n_rounds))
    return replace(sample, log_weights=logs, effective_draws=normalise(logs)[1])


def sample_posterior(
    target: Target, mixture: Mixture, target_draws: float, rng: np.random.Generator
) -> Sample:
    """Sample by adaptive multiple importance sampling (Cornuet et al. 2012).

    Draws of all rounds are weighted by the mean density of all rounds' mixtures (deterministic
    mixture weights). The mixture begins with Laplace components at the modes, in standardised
    coordinates, and adapts between rounds.
    """
    o, first = target.options, mixture
    mixture = standardise_components(mixture)
    sample = _draw_round(target, mixture, rng, first)
    while True:
        sample = reweigh(target, sample)
        is_enough = sample.n_rounds >= o.min_rounds and sample.effective_draws >= target_draws
        if is_enough or sample.n_rounds >= o.max_rounds:
            return sample
        mixture = adapt(mixture, sample.x, flatten(sample.log_weights, 5.0 * target.dim))
        sample = _add_round(sample, _draw_round(target, mixture, rng, first))


def _draw_round(
    target: Target, mixture: Mixture, rng: np.random.Generator, first: Mixture
) -> Sample:
    """Return a round of draws from a mixture, not yet weighed."""
    x = mixture.draw(target.options.n_draws, rng)
    parts, logs = target.parts(x), mixture.log_density(x)
    return Sample(x, target.slopes(x), parts[:, 2], parts, logs, (mixture,), first)


def _add_round(sample: Sample, new: Sample) -> Sample:
    """Return earlier draws with a round added, not yet weighed."""
    # The old draws under the new proposal, the new draws under every one.
    (mixture,) = new.used
    old = np.logaddexp(sample.log_proposals, mixture.log_density(sample.x))
    earlier = [each.log_density(new.x) for each in sample.used]
    return replace(
        sample,
        x=np.vstack([sample.x, new.x]),
        slopes=np.vstack([sample.slopes, new.slopes]),
        parts=np.vstack([sample.parts, new.parts]),
        log_proposals=np.append(old, logsumexp([*earlier, new.log_proposals], axis=0)),
        used=(*sample.used, mixture),
    )
