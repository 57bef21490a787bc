"""A population of walkers, for posteriors that importance sampling cannot follow.

At a low power the posterior of many columns is a broad shell: no mixture of few ellipses covers it,
but walkers that step along the differences of one another (differential evolution) cross it easily.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np

from unshuffle.inference.importance import OUT_OF_REACH, Sample
from unshuffle.inference.proposals import flatten
from unshuffle.model.posterior import Target

# Walkers move in two halves, each along differences of the other, so that a half is evaluated at
# once. Two thirds of the sweeps are kept. Walking ends early once the walkers are worth so many
# independent draws, which is asked every few sweeps.
_N_WALKERS, _LEAST_SWEEPS, _MOST_SWEEPS, _ASK_EVERY, _ENOUGH = 64, 18, 90, 9, 110.0
# The step of differential evolution that is best for Gaussians, and the jitter that makes it
# irreducible, as a share of the walkers' spread.
_STEP, _JITTER = 2.38, 1e-3
# One step in ten is a whole difference, which leads from mode to mode.
_WHOLE = 0.1


def walk(target: Target, sample: Sample, rng: np.random.Generator) -> Sample:
    """Walk on from a thin sample of the target; the walkers' draws take its place."""
    d = target.dim
    chosen = rng.choice(len(sample.x), _N_WALKERS, p=flatten(sample.log_weights, 0.5 * _N_WALKERS))
    x, parts = sample.x[chosen].copy(), sample.parts[chosen].copy()
    value = _log_posterior(target, parts)
    jitter = _JITTER * x.std(axis=0) + 1e-12
    seen_x, seen_parts = [], []
    halves = np.arange(_N_WALKERS).reshape(2, -1)
    for sweep in range(1, _MOST_SWEEPS + 1):
        for mine, others in (halves, halves[::-1]):
            pairs = np.array([rng.choice(others, 2, replace=False) for _ in mine])
            length = np.where(rng.random(len(mine)) < _WHOLE, 1.0, _STEP / sqrt(2.0 * d))
            trial = x[mine] + length[:, None] * (x[pairs[:, 0]] - x[pairs[:, 1]])
            trial += jitter * rng.standard_normal(trial.shape)
            trial_parts = target.parts(trial, float(value.min()) - OUT_OF_REACH)
            trial_value = _log_posterior(target, trial_parts)
            is_taken = np.log(rng.random(len(mine))) < trial_value - value[mine]
            moved = mine[is_taken]
            x[moved], parts[moved] = trial[is_taken], trial_parts[is_taken]
            value[moved] = trial_value[is_taken]
        seen_x.append(x.copy())
        seen_parts.append(parts.copy())
        if sweep >= _LEAST_SWEEPS and sweep % _ASK_EVERY == 0:
            worth = count_effective(np.array(seen_x[sweep // 3 :]))
            if worth >= _ENOUGH:
                break
    kept, their = np.array(seen_x[sweep // 3 :]), np.vstack(seen_parts[sweep // 3 :])
    flat = kept.reshape(-1, d)
    # Equal weights that keep the evidence, which walkers do not tell.
    plain = np.full(len(flat), sample.log_evidence)
    return replace(
        sample,
        x=flat,
        slopes=target.slopes(flat),
        log_weights=plain,
        effective_draws=worth,
        parts=their,
        is_exact=np.ones(len(flat), bool),
    )


def _log_posterior(target: Target, parts: np.ndarray) -> np.ndarray:
    """Return the log posterior of draws from the parts of their density."""
    return target.mix(parts[:, 0], parts[:, 1]) + parts[:, 2]


def count_effective(kept: np.ndarray) -> float:
    """Return how many independent draws the walkers' means are worth, by the worst coordinate."""
    n_sweeps, n_walkers, _ = kept.shape
    between = kept.mean(axis=0).var(axis=0)
    total = kept.reshape(-1, kept.shape[2]).var(axis=0)
    ratio = float(np.max(between / np.maximum(total, 1e-300)))
    return n_walkers * min(1.0 / max(ratio, 1e-300), float(n_sweeps))
