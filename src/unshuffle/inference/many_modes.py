"""Tempered sequential Monte Carlo for few bags of many rows, from sampled rows to all.

With columns of one distribution every order of the weights is a mode of a lone bag.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unshuffle.inference.importance import Sample
from unshuffle.inference.modes import Mode
from unshuffle.inference.proposals import Mixture, make_mixture, normalise
from unshuffle.inference.tempered_smc import TEMPERED, sample_tempered
from unshuffle.model.posterior import Target


def sample_many_modes(
    target: Target, sampled: Target, modes: list[Mode], rng: np.random.Generator
) -> Sample:
    """Sample a posterior of many modes, on sampled rows where there are very many.

    The likelihood of sampled rows errs by a part of a nat between distant modes. So they are
    sampled at a part of the power, and all rows reweight the draws.
    """
    mixture = make_mixture(replace(sampled, power=target.power), modes)
    if sampled.within_bag is target.within_bag:
        drawn = sample_tempered(target, rng)
        x, parts, n_effective = drawn.x, drawn.parts, drawn.effective_draws
        logs = np.full(len(x), drawn.log_evidence)
    else:
        weaker = replace(sampled, power=TEMPERED.weaker * target.power)
        drawn = sample_tempered(weaker, rng)
        chosen = rng.choice(len(drawn.x), 3 * target.options.n_draws, replace=False)
        x, old, parts = drawn.x[chosen], drawn.parts[chosen], target.parts(drawn.x[chosen])
        logs = target.mix(parts[:, 0], parts[:, 1]) - weaker.mix(old[:, 0], old[:, 1])
        logs += drawn.log_evidence
        n_effective = min(drawn.effective_draws, normalise(logs)[1])
    return _as_sample(target, x, parts, logs, mixture, n_effective)


def _as_sample(
    target: Target,
    x: np.ndarray,
    parts: np.ndarray,
    logs: np.ndarray,
    mixture: Mixture,
    n_effective: float,
) -> Sample:
    """Return points that no round of a mixture drew as a sample, with their log weights."""
    return Sample(
        x=x,
        slopes=target.slopes(x),
        log_weights=logs,
        parts=parts,
        log_proposals=np.zeros(len(x)),
        used=(mixture,),
        first=mixture,
        effective_draws=n_effective,
    )
