"""Descent from many starts at once, and a search without derivatives for the finish.

The solvers ask for values and gradients in batches (reverse communication), so that one descent
serves every loss, compiled or not; each start moves on its own, so that the result does not
depend on how starts are divided among threads.
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

# Far beyond what any start needs (about 60 evaluations); it only ends starts that cycle.
MAX_ITERATIONS = 1000
_OUT_OF_ITERATIONS = 3


@dataclass(frozen=True, eq=False)
class Ends:
    """Where every start ended: weights (S, d), values (S,), whether it converged, evaluations.

    `inverses` (S, d, d) are what it has learned of the inverse Hessian.
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
    """Minimise smooth + Σ l1 |w| from every start by BFGS (orthant-wise where l1 > 0).

    `inverse` (d, d), or (S, d, d), is the first guess of the inverse Hessian; directions outside
    its range are never taken, which keeps collinear columns at their minimum-norm weights. A
    start stops when an iteration gains less than `tol`. An error or interrupt in one thread ends
    them all.
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
    """Run the starts of one thread to their ends, dropping those that are done on the way.

    Once `stop` is set, it returns what it has, which nobody will read.
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
        # Copying survivors costs as much as a few evaluations: wait until a tenth is done.
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
    """What `kernels.advance_descent` keeps for every start, in the order of its arguments."""

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
    """Return the state of starts that have not been evaluated yet."""
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


def search_without_slopes(
    value: Callable[[np.ndarray], np.ndarray],
    starts: np.ndarray,
    spread: np.ndarray,
    l1: np.ndarray,
    rng: np.random.Generator,
    n_rounds: int = 60,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Minimise a value that has no useful slope from good starts, by a shrinking compass.

    Every round tries a step forth and back along each axis of a random basis (in the coordinates
    `spread`, whose columns are steps of one standard unit), and each weight with a kink (`l1` > 0)
    at exactly zero, where it then stays; the step grows after a gain and shrinks without one.
    Returns the weights, their values and the number of evaluations.
    """
    weights, best = starts.copy(), value(starts)
    step = np.full(len(starts), 0.25)
    drops = 1.0 - np.eye(len(l1))[l1 > 0]
    n_evaluations = len(starts)
    if spread.shape[1] == 0:  # no column varies: there is nowhere to go
        return weights, best, n_evaluations
    for _ in range(n_rounds):
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
