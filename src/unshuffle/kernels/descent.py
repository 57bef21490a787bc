"""One step of BFGS for many points, by reverse communication (Nocedal and Wright 2006)."""

from math import sqrt

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS

# Line search: the usual constants of the weak Wolfe conditions, which also suit losses with kinks
# (Lewis and Overton 2013).
_SUFFICIENT_DECREASE, _CURVATURE = 1e-4, 0.9
_MAX_HALVINGS = 30


@njit(**INNER)
def _sign(value):
    """Return 1, -1, or zero and NaN as they are. (NumPy's takes longer to compile.)"""
    if value > 0.0:
        return 1.0
    return -1.0 if value < 0.0 else value


@njit(**INNER)
def _find_slope(s, weights, gradients, l1, slopes):
    """Fill the steepest-descent slope of f + Σ l1|w|, zero where a weight rests at its kink."""
    for j in range(l1.size):
        w, slope = weights[s, j], gradients[s, j]
        if w != 0.0 or l1[j] == 0.0:
            slopes[s, j] = slope + l1[j] * _sign(w)
        elif slope > l1[j]:
            slopes[s, j] = slope - l1[j]
        elif slope < -l1[j]:
            slopes[s, j] = slope + l1[j]
        else:
            slopes[s, j] = 0.0


@njit(**INNER)
def _aim(s, slopes, inverses, l1, directions):
    """Fill the quasi-Newton direction; return the slope along it (non-negative: no descent)."""
    d = l1.size
    along = 0.0
    for i in range(d):
        total = 0.0
        for j in range(d):
            total -= inverses[s, i, j] * slopes[s, j]
        # Orthant-wise rule: a penalised weight moves only downhill of its own slope.
        if l1[i] > 0.0 and total * slopes[s, i] >= 0.0:
            total = 0.0
        directions[s, i] = total
        along += total * slopes[s, i]
    return along


@njit(**INNER)
def _place_trial(s, weights, slopes, l1, directions, step, trials):
    """Fill the trial point; a penalised weight that would cross zero stops at zero."""
    for j in range(l1.size):
        w = weights[s, j]
        trials[s, j] = w + step * directions[s, j]
        if l1[j] > 0.0:
            side = _sign(w) if w != 0.0 else -_sign(slopes[s, j])
            if trials[s, j] * side <= 0.0:
                trials[s, j] = 0.0


@njit(**INNER)
def _update_inverse(s, inverses, move, change, is_first):
    """Apply the BFGS update in place; skipped where the curvature is not positive."""
    d = move.size
    curvature, size, length = 0.0, 0.0, 0.0
    for j in range(d):
        curvature += move[j] * change[j]
        size += change[j] * change[j]
        length += move[j] * move[j]
    image = np.empty(d)
    spread = 0.0
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += inverses[s, i, j] * change[j]
        image[i] = total
        spread += total * change[i]
    if not (curvature > 1e-12 * sqrt(size) * sqrt(length)) or spread <= 0.0:
        return
    if is_first:
        # Shanno and Phua: the first curvature seen sets the scale of the first guess.
        ratio = curvature / spread
        for i in range(d):
            image[i] *= ratio
            for j in range(d):
                inverses[s, i, j] *= ratio
        spread *= ratio
    for i in range(d):
        for j in range(d):
            inverses[s, i, j] += (1 + spread / curvature) * move[i] * move[j] / curvature - (
                image[i] * move[j] + move[i] * image[j]
            ) / curvature


@njit(**OPTIONS)
def advance_descent(
    weights,
    values,
    gradients,
    inverses,
    directions,
    slopes,
    trials,
    scalars,
    counts,
    l1,
    trial_values,
    trial_gradients,
    tol,
    max_iter,
):
    """Move every running start one evaluation ahead; return how many still run.

    Reverse communication: the caller evaluates the smooth part at `trials`, this function
    tests the result and proposes the next trial. `scalars` holds step, low, high and the
    slope along the direction; `counts` holds state (0 running, 1 converged, 2 stuck, 3 out of
    iterations), iterations, halvings and evaluations.
    """
    running = 0
    d = weights.shape[1]
    change = np.empty(d)
    move = np.empty(d)
    has_kinks = False
    for j in range(d):
        has_kinks = has_kinks or l1[j] > 0.0
    for s in range(weights.shape[0]):
        if counts[s, 0] != 0:
            continue
        counts[s, 3] += 1
        value = trial_values[s]
        for j in range(d):
            value += l1[j] * abs(trials[s, j])
        if counts[s, 1] == 0:  # the very first evaluation of this start
            accepted, drop = True, np.inf
        else:
            step, low, high, along = scalars[s, 0], scalars[s, 1], scalars[s, 2], scalars[s, 3]
            drop = values[s] - value
            slope_there = 0.0
            expected = 0.0
            for j in range(d):
                slope_there += trial_gradients[s, j] * directions[s, j]
                expected += slopes[s, j] * (trials[s, j] - weights[s, j])
            if not (value <= values[s] + _SUFFICIENT_DECREASE * expected):
                high = step
                accepted = False
            elif not has_kinks and slope_there < _CURVATURE * along and counts[s, 2] < 10:
                low = step
                accepted = False
            else:
                accepted = True
            if not accepted:
                counts[s, 2] += 1
                step = 0.5 * (low + high) if high < np.inf else 2.0 * step
                scalars[s, 0], scalars[s, 1], scalars[s, 2] = step, low, high
                if counts[s, 2] > _MAX_HALVINGS:
                    counts[s, 0] = 2
                    continue
                _place_trial(s, weights, slopes, l1, directions, step, trials)
                running += 1
                continue
        if not abs(value) < np.inf:
            counts[s, 0] = 2
            values[s] = np.inf
            continue
        if counts[s, 1] > 0:
            for j in range(d):
                move[j] = trials[s, j] - weights[s, j]
                change[j] = trial_gradients[s, j] - gradients[s, j]
            _update_inverse(s, inverses, move, change, counts[s, 1] == 1)
        for j in range(d):
            weights[s, j], gradients[s, j] = trials[s, j], trial_gradients[s, j]
        values[s] = value
        counts[s, 1] += 1
        _find_slope(s, weights, gradients, l1, slopes)
        along = _aim(s, slopes, inverses, l1, directions)
        if drop < tol or not (along < 0.0):
            counts[s, 0] = 1
            continue
        if counts[s, 1] > max_iter:
            counts[s, 0] = 3
            continue
        scalars[s, 0], scalars[s, 1], scalars[s, 2] = 1.0, 0.0, np.inf
        scalars[s, 3] = along
        counts[s, 2] = 0
        _place_trial(s, weights, slopes, l1, directions, scalars[s, 0], trials)
        running += 1
    return running
