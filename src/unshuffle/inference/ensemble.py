"""Differential evolution moves of an ensemble (DE-MC; ter Braak 2006).

They sample posteriors that importance sampling cannot follow. At a low power the posterior of many
columns is a broad shell, which no mixture of few ellipses covers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from unshuffle.inference.importance import Sample
from unshuffle.inference.moves import JITTER, STEP, WHOLE, sweep
from unshuffle.inference.proposals import flatten
from unshuffle.model.posterior import Target


@dataclass(frozen=True)
class EnsembleSettings:
    """Size and length of the ensemble.

    Attributes
    ----------
    n_members : int
        Members. They move in two halves, each along differences of the other.
    least_sweeps, most_sweeps : int
        Moves of every member: at most four for each coordinate, or half of the most; the last two
        thirds are kept.
    enough : float
        Effective sample size at which the moves end.
    """

    n_members: int = 64
    least_sweeps: int = 18
    most_sweeps: int = 90
    enough: float = 110.0


ENSEMBLE = EnsembleSettings()


def sample_ensemble(target: Target, sample: Sample, rng: np.random.Generator) -> Sample:
    """Replace a sample of low effective size by draws of an ensemble that starts from it."""
    d, s = target.dim, ENSEMBLE
    chances = flatten(sample.log_weights, 0.5 * s.n_members)
    chosen = rng.choice(len(sample.x), s.n_members, p=chances)
    x, parts = sample.x[chosen].copy(), sample.parts[chosen].copy()
    jitter = JITTER * x.std(axis=0) + 1e-12
    seen_x, seen_parts = [], []
    halves = np.arange(s.n_members).reshape(2, -1)

    def propose(mine: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, bool]:
        pairs = np.array([rng.choice(len(others), 2, replace=False) for _ in mine])
        length = np.where(rng.random(len(mine)) < WHOLE, 1.0, STEP / sqrt(2.0 * d))
        trial = mine + length[:, None] * (others[pairs[:, 0]] - others[pairs[:, 1]])
        return trial + jitter * rng.standard_normal(trial.shape), True

    # An ensemble needs the more moves the more coordinates there are.
    most_sweeps = max(s.most_sweeps // 2, min(s.most_sweeps, 4 * d))
    for n in range(1, most_sweeps + 1):
        sweep(x, parts, (halves[0], halves[1]), propose, target.parts, target.log_density, rng)
        seen_x.append(x.copy())
        seen_parts.append(parts.copy())
        if n >= s.least_sweeps and n % (s.least_sweeps // 2) == 0:
            n_effective = count_effective(np.array(seen_x[n // 3 :]))
            if n_effective >= s.enough:
                break
    kept, their = np.array(seen_x[n // 3 :]), np.vstack(seen_parts[n // 3 :])
    flat = kept.reshape(-1, d)
    # Equal weights that keep the evidence of the sample: an ensemble has none.
    plain = np.full(len(flat), sample.log_evidence)
    return replace(
        sample,
        x=flat,
        slopes=target.slopes(flat),
        log_weights=plain,
        effective_draws=n_effective,
        parts=their,
        is_exact=np.ones(len(flat), bool),
    )


def count_effective(kept: np.ndarray) -> float:
    """Return the effective sample size of an ensemble's means, by the worst coordinate."""
    n_sweeps, n_members, _ = kept.shape
    between = kept.mean(axis=0).var(axis=0)
    total = kept.reshape(-1, kept.shape[2]).var(axis=0)
    ratio = float(np.max(between / np.maximum(total, 1e-300)))
    return n_members * min(1.0 / max(ratio, 1e-300), float(n_sweeps))
