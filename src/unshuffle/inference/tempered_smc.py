"""Tempered sequential Monte Carlo (Del Moral, Doucet and Jasra 2006) for posteriors of few bags.

With columns of one distribution the posterior has a mode for every order of their weights, and no
search finds all of them. A population of draws at a low power covers the modes. It is reweighted,
resampled and moved while the power grows. Some moves exchange weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
from scipy.special import logsumexp

from unshuffle.inference.modes import exchange
from unshuffle.inference.moves import JITTER, STEP, WHOLE, count_effective, halve, sweep
from unshuffle.inference.proposals import Shell, normalise
from unshuffle.model.posterior import Target


@dataclass(frozen=True)
class TemperedSettings:
    """Size of the population, and its moves.

    Attributes
    ----------
    n_drawn : int
        Number of draws in the population.
    at_first : int
        The first draws, from the shell, are this many times the population.
    enough_effective : float
        The power grows so far that the effective sample size is this share of the population.
    n_sweeps : int
        Sweeps of moves after each step of the power. There are three times as many at the full
        power of the target, and the draws after each of these are kept.
    symmetric : float
        Share of moves along the symmetries of exchangeable columns. A third of them each permutes
        all weights, exchanges two, and changes the sign of one.
    aligned : float
        Share of the other moves that go along the difference of two draws whose weights were first
        put in the order of the moved draw's.
    weaker : float
        Share of the power at which sampled rows stand in for all rows. All rows then reweight the
        draws.
    """

    n_drawn: int = 256
    at_first: int = 8
    enough_effective: float = 0.5
    n_sweeps: int = 4
    symmetric: float = 0.3
    aligned: float = 0.7
    weaker: float = 0.6


TEMPERED = TemperedSettings()


@dataclass(frozen=True, eq=False)
class TemperedDraws:
    """Draws of a posterior with the parts of their density, evidence and sample size."""

    x: np.ndarray
    parts: np.ndarray
    log_evidence: float
    effective_draws: float


def sample_tempered(target: Target, rng: np.random.Generator) -> TemperedDraws:
    """Sample the posterior at the target's power by tempered sequential Monte Carlo."""
    shell = Shell(target)
    x = shell.draw(TEMPERED.at_first * TEMPERED.n_drawn, rng)
    log_evidence, power = -log(len(x)), 0.0
    parts = target.parts(x)
    is_inside = np.isfinite(parts[:, 0])
    x, parts = x[is_inside], parts[is_inside]
    logs = parts[:, 2] - shell.log_density(x) + _log_likelihood(target, 0.0, parts)
    seen_x, seen_parts = [], []
    while power < target.power:
        power, logs = raise_power(target, power, parts, logs)
        log_evidence += float(logsumexp(logs))
        chosen = _resample(normalise(logs)[0], rng)
        x, parts, logs = x[chosen], parts[chosen], np.full(TEMPERED.n_drawn, -log(TEMPERED.n_drawn))
        reached, is_there = replace(target, power=power), power == target.power
        for _ in range(3 * TEMPERED.n_sweeps if is_there else TEMPERED.n_sweeps):
            x, parts = _move(reached, x, parts, rng)
            if is_there:
                seen_x.append(x)
                seen_parts.append(parts)
    n_effective = count_effective(np.array(seen_x))
    return TemperedDraws(np.vstack(seen_x), np.vstack(seen_parts), log_evidence, n_effective)


def _log_likelihood(target: Target, power: float, parts: np.ndarray) -> np.ndarray:
    """Return the log likelihood of draws at a power."""
    return np.asarray(replace(target, power=power).mix(parts[:, 0], parts[:, 1]))


def raise_power(
    target: Target, power: float, parts: np.ndarray, logs: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the largest power with enough effective sample size, and the log weights there.

    By bisection (Jasra et al. 2011). Where no power tried has enough, the one with the most.
    """
    least, before = (
        TEMPERED.enough_effective * TEMPERED.n_drawn,
        _log_likelihood(target, power, parts),
    )
    low, high, best = 0.0, 1.0, (0.0, power, logs)
    share = 1.0
    for _ in range(np.finfo(float).nmant):
        reached = target.power if share == 1.0 else power + share * (target.power - power)
        moved = logs + _log_likelihood(target, reached, parts) - before
        n_effective = min(normalise(moved)[1], least)
        best = max(best, (n_effective, reached, moved), key=lambda each: each[:2])
        low, high = (share, high) if n_effective == least else (low, share)
        if low == high:
            break
        share = 0.5 * (low + high)
    return best[1:]


def _resample(shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the indices of draws by systematic resampling (Kitagawa 1996)."""
    steps = (np.arange(TEMPERED.n_drawn) + rng.random()) / TEMPERED.n_drawn
    return np.minimum(np.searchsorted(np.cumsum(shares), steps), len(shares) - 1)


def _move(
    target: Target, x: np.ndarray, parts: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws after one sweep of moves."""
    x, parts = x.copy(), parts.copy()

    def propose(mine: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return propose_steps(mine, others, target.p, rng)

    halves = halve(len(x), rng)
    sweep(x, parts, halves, propose, target.parts, target.log_density, rng)
    return x, parts


def propose_steps(
    x: np.ndarray, others: np.ndarray, p: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return a trial for every point, and which trials have a reverse move.

    A move along an aligned difference has one only if it keeps the order of the point's weights.
    """
    n, d = x.shape
    first, second = (others[rng.integers(len(others), size=n)] for _ in range(2))
    ranks = _rank_weights(x, p)
    is_aligned = rng.random(n) < TEMPERED.aligned
    for each in (first, second):
        ordered = np.take_along_axis(np.sort(each[:, :p], axis=1), ranks, axis=1)
        each[is_aligned, :p] = ordered[is_aligned]
    length = np.where(rng.random(n) < WHOLE, 1.0, STEP / sqrt(2.0 * d))
    jitter = (JITTER * others.std(axis=0) + 1e-12) * rng.standard_normal(x.shape)
    trial = x + length[:, None] * (first - second) + jitter
    is_allowed = ~is_aligned | (_rank_weights(trial, p) == ranks).all(axis=1)
    kinds = np.where(rng.random(n) < TEMPERED.symmetric, rng.integers(3, size=n), 3)
    for k in np.flatnonzero(kinds < 3):
        trial[k], is_allowed[k] = x[k], True
        i, j = (int(k) for k in rng.integers(p, size=2))
        if kinds[k] == 0:
            trial[k, :p] = x[k, rng.permutation(p)]
        elif kinds[k] == 1:
            trial[k, [i, j]] = x[k, [j, i]]
        else:
            trial[k] = exchange(x[k], i, i)
        trial[k] += jitter[k]
    return trial, is_allowed


def _rank_weights(x: np.ndarray, p: int) -> np.ndarray:
    """Return the rank of every weight among those of its point."""
    return np.argsort(np.argsort(x[:, :p], axis=1), axis=1)
