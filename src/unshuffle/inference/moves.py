"""Differential evolution moves of an ensemble (DE-MC; ter Braak 2006), whatever density it samples.

Each half of the members moves along differences of the other half, so that trials of a half may be
evaluated at once and the density is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# The length of a move that is best for Gaussians, over √(2d); the share of moves that are a whole
# difference, which leads from mode to mode; and the jitter that makes moves irreducible, as a share
# of the spread.
STEP, WHOLE, JITTER = 2.38, 0.1, 1e-3

Halves = tuple[np.ndarray, np.ndarray]
# Trials of some points by the others, and which trials could lead back as they came.
Propose = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | bool]]


def halve(n: int, rng: np.random.Generator) -> Halves:
    """Return the places of n members in two halves at random."""
    order = rng.permutation(n)
    return order[: n // 2], order[n // 2 :]


def sweep(
    x: np.ndarray,
    known: np.ndarray,
    halves: Halves,
    propose: Propose,
    evaluate: Callable[[np.ndarray], np.ndarray],
    log_density: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
) -> None:
    """Move every member once, or leave it where it is, by the rule of Metropolis.

    What `evaluate` finds at points is `known` of each member, and gives its log density.
    """
    for mine, others in (halves, halves[::-1]):
        trial, is_allowed = propose(x[mine], x[others])
        found = evaluate(trial)
        gain = log_density(found) - log_density(known[mine])
        is_taken = is_allowed & (np.log(rng.random(len(mine))) < gain)
        x[mine[is_taken]], known[mine[is_taken]] = trial[is_taken], found[is_taken]


def count_effective(kept: np.ndarray) -> float:
    """Return the effective sample size of an ensemble's means, by the worst coordinate."""
    n_sweeps, n_members, _ = kept.shape
    between = kept.mean(axis=0).var(axis=0)
    total = kept.reshape(-1, kept.shape[2]).var(axis=0)
    ratio = float(np.max(between / np.maximum(total, 1e-300)))
    return n_members * min(1.0 / max(ratio, 1e-300), float(n_sweeps))
