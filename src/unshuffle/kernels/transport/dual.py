"""The dual of entropic transport between masses, by Newton steps in the labels' scalings.

Sinkhorn's iteration needs hundreds of passes where noise is low; its curvature is at hand, banded
where predictions and labels are sorted, and the same factor serves the slopes of whatever is made
of the coupling.
"""

from math import exp, log, sqrt

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS

# A margin error t (as a share) costs about n t² nats in the value and t in the slopes.
MARGIN_TOLERANCE = 1e-8
# Log densities that range over more than this are approached from higher temperatures, where the
# Newton steps are short. There margins met to one in a hundred bring the next within reach. A range
# of 2000 would take 7 steps instead of 17 at usual noise, but leaves margins unmet at low noise.
_RANGE, _COOLING, _WARM_STEPS, _MAX_STEPS = 40.0, 2.0, 20, 60
_WARM_TOLERANCE = 1e-2
# No Newton step moves a log scaling further than this: the quadratic holds for a few units.
_LONGEST = 4.0
# exp(-45) is below the rounding of any sum it would enter.
_NOTHING = 45.0
# Labels whose partners are certain leave their scalings free: this share of their mass holds them.
_RIDGE = 1e-13


@njit(**OPTIONS)
def _plan_rows(log_kernel, row_masses, temperature, g, plan, first, last):
    """Fill the coupling whose rows are met exactly by the log scalings g of the labels.

    Returns the log scalings of the rows; ``first`` and ``last`` enclose what is not nothing.
    """
    n_rows, n_labels = log_kernel.shape
    f = np.empty(n_rows)
    for i in range(n_rows):
        highest = -np.inf
        for j in range(n_labels):
            plan[i, j] = log_kernel[i, j] / temperature + g[j]
            highest = max(highest, plan[i, j])
        total = 0.0
        first[i], last[i] = n_labels, 0
        for j in range(n_labels):
            if plan[i, j] < highest - _NOTHING:
                plan[i, j] = 0.0
                continue
            plan[i, j] = exp(plan[i, j] - highest)
            total += plan[i, j]
            first[i] = min(first[i], j)
            last[i] = j
        f[i] = log(row_masses[i] / total) - highest
        for j in range(first[i], last[i] + 1):
            plan[i, j] *= row_masses[i] / total
    return f


@njit(**OPTIONS)
def factor_dual(plan, row_masses, columns, first, last):
    """Return the Cholesky factor of diag(columns) − Pᵀ diag(1/rows) P without its last label.

    It is the curvature of the dual in the labels' scalings, which are free up to a constant: the
    last one is kept. Returns the factor and where each of its rows begins.
    """
    n_rows, n_labels = plan.shape
    size = n_labels - 1
    begin = np.arange(size)
    factor = np.zeros((size, size))
    for j in range(size):
        factor[j, j] = columns[j] * (1.0 + _RIDGE)
    for i in range(n_rows):
        end = min(last[i], size - 1)
        for j in range(first[i], end + 1):
            part = plan[i, j] / row_masses[i]
            if part == 0.0:
                continue
            begin[j] = min(begin[j], first[i])
            for k in range(first[i], j + 1):
                factor[j, k] -= part * plan[i, k]
    for j in range(size):
        for k in range(begin[j], j):
            total = factor[j, k]
            for t in range(max(begin[j], begin[k]), k):
                total -= factor[j, t] * factor[k, t]
            factor[j, k] = total / factor[k, k]
        total = factor[j, j]
        for t in range(begin[j], j):
            total -= factor[j, t] * factor[j, t]
        factor[j, j] = sqrt(max(total, _RIDGE * columns[j]))
    return factor, begin


@njit(**OPTIONS)
def solve_dual(factor, begin, target):
    """Return the solution of the factored system, with a zero for the label that is kept."""
    size = factor.shape[0]
    found = np.zeros(size + 1)
    for j in range(size):
        total = target[j]
        for t in range(begin[j], j):
            total -= factor[j, t] * found[t]
        found[j] = total / factor[j, j]
    for j in range(size - 1, -1, -1):
        found[j] /= factor[j, j]
        for t in range(begin[j], j):
            found[t] -= factor[j, t] * found[j]
    return found


@njit(**OPTIONS)
def _newton(
    log_kernel, row_masses, label_masses, temperature, g, limit, tolerance, plan, first, last
):
    """Take Newton steps on the dual at a temperature until the labels' margins are met.

    `g` moves in place. A step that makes the margins worse is cut. Returns the rows' scalings and
    the labels' margins.
    """
    n_labels = log_kernel.shape[1]
    total = row_masses.sum()
    step, length, best = np.zeros(n_labels), 1.0, np.inf
    for k in range(limit + 1):
        f = _plan_rows(log_kernel, row_masses, temperature, g, plan, first, last)
        columns = np.zeros(n_labels)
        for i in range(plan.shape[0]):
            for j in range(first[i], last[i] + 1):
                columns[j] += plan[i, j]
        error = np.abs(columns - label_masses).sum()
        if error < tolerance * total or k == limit:
            break
        if error > 4.0 * best and length > 1e-3:
            # Back towards where the step began.
            g -= 0.75 * length * step
            length *= 0.25
            continue
        best = min(best, error)
        # Sinkhorn's own step first: it is right where a label has hardly any mass yet.
        starved = False
        for j in range(n_labels):
            if columns[j] < 1e-3 * label_masses[j]:
                starved = True
        if starved:
            step, length = np.log(label_masses / np.maximum(columns, 1e-280)), 1.0
            g += step
            best = np.inf
            continue
        factor, begin = factor_dual(plan, row_masses, columns, first, last)
        step = solve_dual(factor, begin, label_masses - columns)
        length = min(1.0, _LONGEST / max(np.abs(step).max(), 1e-300))
        g += length * step
    return f, columns


@njit(**OPTIONS)
def couple(log_kernel, row_masses, label_masses, plan, first, last):
    """Return the log scalings of the doubly stochastic coupling, and its labels' margins."""
    n_rows, n_labels = log_kernel.shape
    g = np.zeros(n_labels)
    reach = 0.0
    for j in range(n_labels):
        highest, least = -np.inf, np.inf
        for i in range(n_rows):
            highest = max(highest, log_kernel[i, j])
            least = min(least, log_kernel[i, j])
        g[j] = -highest
        reach = max(reach, highest - least)
    log_labels = np.log(label_masses)
    temperature = max(1.0, reach / _RANGE)
    g = g / temperature + log_labels
    while temperature > 1.0:
        _newton(
            log_kernel,
            row_masses,
            label_masses,
            temperature,
            g,
            _WARM_STEPS,
            _WARM_TOLERANCE,
            plan,
            first,
            last,
        )
        step = min(_COOLING, temperature)
        temperature /= step
        # Costs keep their scalings; the masses in them do not scale with the temperature.
        g = step * (g - log_labels) + log_labels
    f, columns = _newton(
        log_kernel,
        row_masses,
        label_masses,
        1.0,
        g,
        _MAX_STEPS,
        MARGIN_TOLERANCE,
        plan,
        first,
        last,
    )
    return f - np.log(row_masses), g - log_labels, columns
