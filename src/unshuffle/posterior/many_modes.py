"""Posteriors of few bags of very many rows: dozens of modes, on thin ridges.

With columns of one law every order of the weights explains a lone bag nearly as well. Intervals
come from a population that moves about while labels are added (`rising`), the estimate from the
best modes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from unshuffle.posterior.block_target import BlockTarget
from unshuffle.posterior.estimating import lean
from unshuffle.posterior.importance import Sample, sample_posterior
from unshuffle.posterior.model import Target
from unshuffle.posterior.modes import Mode
from unshuffle.posterior.proposals import Mixture, make_mixture, normalise
from unshuffle.posterior.rising import rise

# More modes than these are not sampled around one by one in intervals.
MANY_MODES = 6
# Some rows tell the modes of the intervals' posterior at this part of its power, and all rows weigh
# so many draws of that.
_WEAKER, _N_WEIGHED = 0.6, 600
# The estimate is sampled around the first few modes unless it counts more labels than this, or
# draws are worth less than that: then it is the best of fewer still.
_N_BOLD, _THIN_RIDGES, _LEAST_BOLD, _N_ALONE = 6, 1e5, 20.0, 2


def sample_many(
    target: BlockTarget, thinner: BlockTarget, modes: list[Mode], rng: np.random.Generator
) -> Sample:
    """Return a sample of a posterior of many modes, from some rows where that has very many.

    What some rows say of modes that are far apart errs by a part of a nat. At a part of the power
    that loses none of them, and all rows weigh the draws.
    """
    mixture = make_mixture(replace(thinner, power=target.power), modes, 0.0)
    if thinner.source is target.source:
        risen = rise(target, rng)
        x, parts, worth = risen.x, risen.parts, risen.effective_draws
        logs = np.full(len(x), risen.log_evidence)
    else:
        weaker = replace(thinner, power=_WEAKER * target.power)
        risen = rise(weaker, rng)
        chosen = rng.choice(len(risen.x), _N_WEIGHED, replace=False)
        x, old, parts = risen.x[chosen], risen.parts[chosen], target.parts(risen.x[chosen])
        logs = target.mix(parts[:, 0], parts[:, 1]) - weaker.mix(old[:, 0], old[:, 1])
        logs += risen.log_evidence
        worth = min(risen.effective_draws, normalise(logs)[1])
    return _as_sample(target, x, parts, logs, mixture, worth)


def bet_on_many(
    target: Target, modes: list[Mode], first: Mixture, rng: np.random.Generator
) -> Sample:
    """Return the sample that the estimate of many modes comes from, or the best mode alone.

    The ridges of very many labels are thin and bent, and draws about a mode miss them.
    """
    is_thin = target.power * target.n > _THIN_RIDGES
    mixture = make_mixture(target, modes[: _N_ALONE if is_thin else _N_BOLD], 1.0)
    if not is_thin:
        weigh = partial(lean, target=target)
        drawn = sample_posterior(target, mixture, weigh, target.options.estimate_draws, rng)
        if drawn.effective_draws >= _LEAST_BOLD:
            return drawn
    best = mixture.means[[int(np.argmax(mixture.shares[: mixture.n_modes]))]]
    return _as_sample(target, best, target.parts(best), np.zeros(1), first, 1.0)


def _as_sample(
    target: Target,
    x: np.ndarray,
    parts: np.ndarray,
    logs: np.ndarray,
    mixture: Mixture,
    worth: float,
) -> Sample:
    """Return points that come from no round of a mixture, with their log weights."""
    return Sample(
        x=x,
        slopes=target.slopes(x),
        log_plain=logs,
        log_tilted=logs + parts[:, 3] - parts[:, 2],
        parts=parts,
        proposals=np.zeros(len(x)),
        used=(mixture,),
        rounds=(1.0,),
        first=mixture,
        is_judged=np.ones(len(x), bool),
        judged=(1.0,),
        power=target.power,
        effective_draws=worth,
    )
