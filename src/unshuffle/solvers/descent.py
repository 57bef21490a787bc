"""BFGS from many starting points at once, orthant-wise under an L1 penalty; compass search.

BFGS follows Nocedal and Wright (2006), also at kinks of the loss (Lewis and Overton 2013). The
orthant-wise rule for L1 is that of Andrew and Gao (2007). Values and gradients are asked for in
batches (reverse communication). Each starting point moves on its own, so that the result does not
depend on how points are divided among threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import NamedTuple

import numpy as np

from unshuffle import kernels
from unshuffle.data.products import multiply
from unshuffle.objectives.problem import Evaluate
from unshuffle.threads import count_threads, run_all

# Most iterations of a starting point. They take about 60; without a minimum they would not end.
MAX_ITERATIONS = 1000
# The kernel's code for a point that has spent its iterations.
_OUT_OF_ITERATIONS = 3


@dataclass(frozen=True, eq=False)
class Ends:
    """Where each starting point ended: weights (S, d), values (S,), convergence, evaluations.

    `inverses` (S, d, d) are the BFGS approximations of the inverse Hessian.
    """

    weights: np.ndarray
    values: np.ndarray
    is_converged: np.ndarray
    n_evaluations: int
    inverses: np.ndarray


def descend(
    evaluate: Evaluate,
    starts: np.ndarray,
    inverse: np.ndarray,
    l1: np.ndarray,
    tol: float,
    n_jobs: int | None = None,
) -> Ends:
    """Minimise smooth + Σ l1 |w| from every starting point by BFGS (orthant-wise where l1 > 0).

    `inverse` (d, d), or (S, d, d), is the first guess of the inverse Hessian. Directions outside
    its range are never taken, which keeps collinear columns at their minimum-norm weights. A point
    stops when an iteration gains less than `tol`. An error or interrupt in one thread ends all.
    """
    guesses = np.broadcast_to(inverse, (len(starts), *inverse.shape[-2:]))

    def run(part: np.ndarray, stop: Event) -> Ends:
        return _descend_part(evaluate, starts[part], guesses[part], l1, tol, stop)

    n_parts = max(1, min(count_threads(n_jobs), len(starts)))
    parts = run_all(run, np.array_split(np.arange(len(starts)), n_parts), n_jobs)
    return Ends(
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.is_converged for part in parts]),
        sum(part.n_evaluations for part in parts),
        np.concatenate([part.inverses for part in parts]),
    )


def _descend_part(
    evaluate: Evaluate,
    starts: np.ndarray,
    guesses: np.ndarray,
    l1: np.ndarray,
    tol: float,
    stop: Event,
) -> Ends:
    """Descend from the starting points of one thread.

    It returns at once when `stop` is set; the caller ignores the result.
    """
    n_starts = len(starts)
    weights, values = starts.copy(), np.full(n_starts, np.inf)
    counts, inverses = np.zeros((n_starts, 4), dtype=np.int64), guesses.copy()
    alive = np.arange(n_starts)
    state = _first_state(starts, guesses)
    while len(alive) and not stop.is_set():
        trial_values, trial_gradients = evaluate(state.trials)
        running = kernels.advance_descent(
            *state, l1, trial_values, trial_gradients, tol, MAX_ITERATIONS
        )
        # Removing converged points copies the others: wait until a tenth has converged.
        if running > 0.9 * len(alive):
            continue
        is_done = state.counts[:, 0] != 0
        done = alive[is_done]
        weights[done], values[done] = state.weights[is_done], state.values[is_done]
        counts[done], inverses[done] = state.counts[is_done], state.inverses[is_done]
        alive = alive[~is_done]
        state = _State(*(np.ascontiguousarray(part[~is_done]) for part in state))
    is_converged = counts[:, 0] != _OUT_OF_ITERATIONS
    return Ends(weights, values, is_converged, int(counts[:, 3].sum()), inverses)


class _State(NamedTuple):
    """State of every point, in the order of the arguments of `kernels.advance_descent`."""

    weights: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    inverses: np.ndarray
    directions: np.ndarray
    slopes: np.ndarray
    trials: np.ndarray
    scalars: np.ndarray
    counts: np.ndarray


def _first_state(starts: np.ndarray, guesses: np.ndarray) -> _State:
    """Return the state of starting points that have not been evaluated yet."""
    n_starts, d = starts.shape
    return _State(
        weights=starts.copy(),
        values=np.full(n_starts, np.inf),
        gradients=np.zeros((n_starts, d)),
        inverses=guesses.copy(),
        directions=np.zeros((n_starts, d)),
        slopes=np.zeros((n_starts, d)),
        trials=starts.copy(),
        scalars=np.zeros((n_starts, 4)),
        counts=np.zeros((n_starts, 4), dtype=np.int64),
    )


def search_by_compass(
    value: Callable[[np.ndarray], np.ndarray],
    starts: np.ndarray,
    spread: np.ndarray,
    l1: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Minimise a function without useful gradient by compass search (Kolda et al. 2003).

    Every round tries a step forth and back along each axis of a random basis. The columns of
    `spread` are steps of one standard unit. A weight with a kink (`l1` > 0) is also tried at zero,
    where it then stays. The step grows after a gain and shrinks without one. Returns the weights,
    their values and the number of evaluations.
    """
    weights, best = starts.copy(), value(starts)
    step = np.full(len(starts), 0.25)
    drops = 1.0 - np.eye(len(l1))[l1 > 0]
    n_evaluations = len(starts)
    if spread.shape[1] == 0:  # no column varies: there is nowhere to go
        return weights, best, n_evaluations
    for _ in range(60):  # rounds; the step has then shrunk far below any spread
        turn = np.linalg.qr(rng.standard_normal((spread.shape[1],) * 2))[0]
        moves = multiply(spread, turn).T
        moves = np.concatenate([moves, -moves])
        is_free = (weights != 0) | (l1 == 0)
        trials = weights[:, None] + step[:, None, None] * moves * is_free[:, None]
        trials = np.concatenate([trials, weights[:, None] * drops], axis=1)
        values = value(trials.reshape(-1, starts.shape[1])).reshape(len(starts), -1)
        n_evaluations += values.size
        chosen = values.argmin(axis=1)
        lowest = values[np.arange(len(starts)), chosen]
        is_better = lowest < best
        weights[is_better] = trials[is_better, chosen[is_better]]
        best = np.where(is_better, lowest, best)
        step *= np.where(is_better, 1.5, 0.6)
    return weights, best, n_evaluations
