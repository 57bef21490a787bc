"""Adaptive multiple importance sampling (Cornuet, Marin, Mira and Robert 2012)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np
from scipy.special import logsumexp

from unshuffle.inference.proposals import Mixture, adapt, flatten, normalise, standardise
from unshuffle.inference.surrogate import (
    SURROGATE,
    SurrogateProposal,
    build_proposal,
    fit_surrogate,
)
from unshuffle.model.posterior import Target

# The centre is wanted to a ten-thousandth of the spread, far below its Monte Carlo error; 200 moves
# get there also between two modes of equal weight.
_NEAR, _MAX_MOVES = 1e-4, 200


@dataclass(frozen=True, eq=False)
class Sample:
    """All draws with their log importance weights, and what further rounds build on.

    `parts` are those of the density at every draw (`Target.parts`), `proposals` the log of the
    summed densities of the proposals `used`, one for every round, each counted by its draws
    (`rounds`: one where it has as many as a round of rows in memory). `first` is the mixture at
    the modes. The within-bag likelihood of draws that are not `is_exact` is the surrogate's.
    """

    x: np.ndarray
    slopes: np.ndarray
    log_weights: np.ndarray
    parts: np.ndarray
    proposals: np.ndarray
    used: tuple[Proposal, ...]
    rounds: tuple[float, ...]
    first: Mixture
    is_exact: np.ndarray
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


# Where a round draws.
Proposal = Mixture | SurrogateProposal


def reweigh(target: Target, sample: Sample) -> Sample:
    """Return the draws with their weights and effective sample size at the target's power."""
    data = target.mix(sample.parts[:, 0], sample.parts[:, 1])
    logs = data + sample.parts[:, 2] - (sample.proposals - log(sum(sample.rounds)))
    return replace(sample, log_weights=logs, effective_draws=normalise(logs)[1])


def sample_posterior(
    target: Target,
    mixture: Mixture,
    target_draws: float,
    rng: np.random.Generator,
) -> Sample:
    """Sample by adaptive multiple importance sampling (Cornuet et al. 2012).

    All rounds share one deterministic-mixture weight. The mixture adapts between rounds. In blocks
    the first rounds draw from a surrogate; where that misses a part of the posterior, the mixture
    takes over.
    """
    o, sample = target.options, None
    has_surrogate, max_rounds = target.within_bag.has_passes, o.max_rounds
    if has_surrogate:
        mixture, max_rounds = fit_surrogate(target, mixture, rng), SURROGATE.max_rounds
    for n_rounds in range(1, max_rounds + 1):
        proposal: Proposal = mixture
        n_draws = o.n_draws
        if has_surrogate:
            proposal, n_draws = _choose_proposal(target, mixture, sample, rng)
        new = _draw(target, proposal, n_draws, rng)
        sample = reweigh(target, _add_round(target, new, proposal, mixture, sample))
        if n_rounds >= o.min_rounds and sample.effective_draws >= target_draws:
            break
        if has_surrogate and sample.effective_draws < 0.5 * o.least_draws:
            mixture, has_surrogate = standardise(mixture), False
        if not has_surrogate:
            shares = flatten(sample.log_weights, 5.0 * target.dim)
            mixture = adapt(mixture, sample.x, shares)
    assert sample is not None
    return sample


def _choose_proposal(
    target: Target, mixture: Mixture, sample: Sample | None, rng: np.random.Generator
) -> tuple[Proposal, int]:
    """Return the surrogate's proposal for the next round in blocks, and the number of draws."""
    n_draws = target.options.n_draws
    drawn = (np.empty((0, target.dim)), np.empty(0))
    if sample is not None:
        drawn = sample.x[sample.is_exact], sample.parts[sample.is_exact, 0]
    n_draws *= SURROGATE.first_round if sample is None else 1
    return build_proposal(target, mixture, drawn, n_draws, rng) or mixture, n_draws


# Points, their parts and slopes, and which were evaluated exactly.
_Drawn = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _draw(target: Target, proposal: Proposal, n_draws: int, rng: np.random.Generator) -> _Drawn:
    """Return draws of a proposal."""
    x = proposal.draw(n_draws, rng)
    slopes = target.slopes(x)
    if isinstance(proposal, SurrogateProposal) and target.within_bag.has_passes:
        parts, is_exact = evaluate_some(target, proposal, x)
        return x, parts, slopes, is_exact
    return x, target.parts(x), slopes, np.ones(len(x), bool)


def evaluate_some(
    target: Target, proposal: SurrogateProposal, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the parts of draws of a surrogate, and which of them are exact.

    One in a few, and whatever came from the mixture; all of them where the surrogate is not right.
    """
    n, n_walked = len(x), len(x) - proposal.count_defensive(len(x))
    is_exact = np.arange(n) % SURROGATE.every == 0
    is_seen = is_exact | (np.arange(n) >= n_walked)
    params = target.read_points(x)
    expected = proposal.surrogate.within_bag(x, params)
    parts = target.parts_of_means(params)
    parts[is_seen] = target.parts(x[is_seen])
    walked = np.flatnonzero(is_exact[:n_walked] & params.is_inside[:n_walked])
    error = target.power * parts[walked, 0] - expected[walked]
    middle = float(np.median(error)) if len(walked) else 0.0
    if len(walked) and float(np.abs(error - middle).mean()) < SURROGATE.right:
        left = np.flatnonzero(~is_seen & params.is_inside)
        parts[left, 0] = (expected[left] + middle) / target.power
        return parts, is_exact
    parts[~is_seen] = target.parts(x[~is_seen])
    return parts, np.ones(n, bool)


def _add_round(
    target: Target, new: _Drawn, proposal: Proposal, mixture: Mixture, sample: Sample | None
) -> Sample:
    """Return the draws with a round from a proposal added, not yet weighed."""
    x, parts, slopes, is_exact = new
    share = len(x) / target.options.n_draws
    logs = proposal.log_density(x) + log(share)
    if sample is None:
        return Sample(x, slopes, parts[:, 2], parts, logs, (proposal,), (share,), mixture, is_exact)
    # The old draws under the new proposal, the new draws under every one.
    old = np.logaddexp(sample.proposals, proposal.log_density(sample.x) + log(share))
    earlier = zip(sample.used, sample.rounds, strict=True)
    fresh = logsumexp([*(each.log_density(x) + log(part) for each, part in earlier), logs], axis=0)
    return replace(
        sample,
        x=np.vstack([sample.x, x]),
        slopes=np.vstack([sample.slopes, slopes]),
        parts=np.vstack([sample.parts, parts]),
        proposals=np.append(old, fresh),
        used=(*sample.used, proposal),
        rounds=(*sample.rounds, share),
        is_exact=np.append(sample.is_exact, is_exact),
    )
