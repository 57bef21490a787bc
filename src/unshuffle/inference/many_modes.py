"""Posteriors of few bags of very many rows: dozens of modes, on narrow ridges.

With columns of one distribution every order of the weights explains a lone bag nearly as well. The
posterior is sampled by a population that moves about while labels are added (`tempered_smc`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unshuffle.inference.importance import Sample
from unshuffle.inference.modes import Mode
from unshuffle.inference.proposals import Mixture, make_mixture, normalise
from unshuffle.inference.tempered_smc import TEMPERED, rise
from unshuffle.model.posterior import Target


def sample_many(
    target: Target, sampled: Target, modes: list[Mode], rng: np.random.Generator
) -> Sample:
    """Return a sample of a posterior of many modes, from some rows where that has very many.

    What some rows say of modes that are far apart errs by a part of a nat. At a part of the power
    that loses none of them, and all rows weigh the draws.
    """
    mixture = make_mixture(replace(sampled, power=target.power), modes)
    if sampled.within_bag is target.within_bag:
        risen = rise(target, rng)
        x, parts, n_effective = risen.x, risen.parts, risen.effective_draws
        logs = np.full(len(x), risen.log_evidence)
    else:
        weaker = replace(sampled, power=TEMPERED.weaker * target.power)
        risen = rise(weaker, rng)
        chosen = rng.choice(len(risen.x), target.options.n_draws, replace=False)
        x, old, parts = risen.x[chosen], risen.parts[chosen], target.parts(risen.x[chosen])
        logs = target.mix(parts[:, 0], parts[:, 1]) - weaker.mix(old[:, 0], old[:, 1])
        logs += risen.log_evidence
        n_effective = min(risen.effective_draws, normalise(logs)[1])
    return _as_sample(target, x, parts, logs, mixture, n_effective)


def _as_sample(
    target: Target,
    x: np.ndarray,
    parts: np.ndarray,
    logs: np.ndarray,
    mixture: Mixture,
    n_effective: float,
) -> Sample:
    """Return points that come from no round of a mixture, with their log weights."""
    return Sample(
        x=x,
        slopes=target.slopes(x),
        log_weights=logs,
        parts=parts,
        proposals=np.zeros(len(x)),
        used=(mixture,),
        rounds=(1.0,),
        first=mixture,
        is_exact=np.ones(len(x), bool),
        effective_draws=n_effective,
    )
