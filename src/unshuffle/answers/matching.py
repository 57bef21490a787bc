"""Which label belongs to which row: the most likely order, and how sure each match is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unshuffle import kernels
from unshuffle.core.bags import Bags
from unshuffle.core.products import multiply, predict_rows
from unshuffle.core.uncertainty import Posterior

# Posterior draws averaged over, and sweeps of the swap sampler for each. A probability that hangs
# on one uncertain weight errs by 0.5/√draws at most: 0.065 with 60 draws, 0.02 with 600. So small
# data, where a single match matters and draws are cheap, get more of them.
_MIN_DRAWS, _MAX_DRAWS, _DRAWN_ROWS = 60, 600, 30_000
_N_BURNT, _N_KEPT = 20, 40
# A row remembers at most this many candidate labels, which covers any match worth reporting.
_WINDOW = 512
# Equal data must give equal probabilities, so the sampler has a seed of its own.
_SEED = 0


@dataclass(frozen=True, eq=False)
class Match:
    """`order[i]` is the index in `y` of the label matched to row i; `probability[i]` of it.

    `probability` is None for methods without a posterior: a probability that ignores how uncertain
    the weights are would be wrong.
    """

    order: np.ndarray
    probability: np.ndarray | None


def match_labels(bags: Bags, w: np.ndarray, intercept: float, posterior: Posterior | None) -> Match:
    """Match ranks of predictions to ranks of labels, the most likely order given the weights.

    With a posterior, each match gets its probability, averaged over draws of weights and noise
    and, for each, over permutations drawn from the exact model. The result refers to rows and
    labels as the user gave them.
    """
    order = np.empty(bags.n, dtype=int)
    probability = np.empty(bags.n)
    z = predict_rows(bags.X, w) + intercept
    rng = np.random.default_rng(_SEED)
    if posterior is not None:
        n_draws = int(np.clip(_DRAWN_ROWS // bags.n, _MIN_DRAWS, _MAX_DRAWS))
        pick = rng.choice(len(posterior.shares), n_draws, p=posterior.shares)
        draws, sigma = posterior.draws[pick], posterior.sigma[pick]
    for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        by_rank = np.argsort(z[start:stop], kind="stable")
        rows = bags.rows.order[start + by_rank]
        order[rows] = bags.labels.order[start:stop]
        if posterior is None:
            continue
        table, first = _match_bag(bags.X[start:stop], bags.y[start:stop], draws, sigma, rng)
        place = np.arange(stop - start) - first[by_rank]
        is_seen = (place >= 0) & (place < table.shape[1])
        seen = table[by_rank, np.where(is_seen, place, 0)]
        probability[rows] = np.where(is_seen, seen, 0.0)
    return Match(order, None if posterior is None else probability)


def _match_bag(
    X: np.ndarray, y: np.ndarray, draws: np.ndarray, sigma: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the match probabilities of one bag (rows × candidates) and each row's first candidate.

    `y` is sorted; candidates are a window of labels around the rank of the row's mean prediction.
    """
    n, d = X.shape
    if n == 1:
        return np.ones((1, 1)), np.zeros(1, dtype=np.int64)
    z = multiply(draws[:, :d], X.T)
    if draws.shape[1] > d:
        z = z + draws[:, d:]
    # Divided before they are added up: the sum could overflow.
    mean = (z / len(z)).sum(axis=0)
    rank = np.argsort(np.argsort(mean, kind="stable"), kind="stable")
    width = min(n, _WINDOW)
    first = np.clip(rank - width // 2, 0, n - width)
    counts, totals = np.zeros((n, width)), np.zeros(n)
    # Noise below the resolution of the labels would divide by zero and decide nothing.
    size = float(np.ptp(y)) or float(np.abs(z).max()) or 1.0
    floor = max(1e-12 * size, np.finfo(float).smallest_subnormal)
    for predictions, sd in zip(z, np.maximum(sigma, floor), strict=True):
        order = np.argsort(predictions, kind="stable")
        # In units of the noise, whose square could overflow.
        scaled = predictions / sd
        spread = scaled[order[-1]] - scaled[order[0]]
        # Labels within one sigma of a prediction, on average: the natural length of a swap.
        reach = max(1.0, n / max(spread, 1.0))
        uniforms = rng.random((_N_BURNT + _N_KEPT, n, 2))
        kernels.swap_counts(
            scaled, y / sd, order, first, 1.0, reach, uniforms, _N_BURNT, counts, totals
        )
    return counts / np.maximum(totals, 1e-300)[:, None], first
