"""Replica exchange (Geyer 1991) for the exact shuffled model: label swaps, weights, exchanges.

A replica is a matching and its weights w; a level is a precision u of the labels and a noise level
log σ of the prior (u = 1/σ² but for the hottest levels, which lead to u = 0). Its density is

    exp(−½ u |y_π − Xw|²) N(w; 0, s²) signal^k total^(−b),

signal = (1 + f) q + f σ², total = q + σ², q = Σ cᵢwᵢ². A negative power is a mixture of
exponentials, x^(−b) ∝ ∫ μ^(b−1) exp(−μx) dμ, so that given mixing numbers μ (of total) and λ (of
signal, for k < 0) the weights are Gaussian. A positive power of the signal is met by refusing some
moves.

Everything is in coordinates in which XᵀX is diagonal. Given the matching the weights are then
independent, and integrating them out costs p additions for each swap.
"""

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS

# Random numbers of a replica and sweep beside those of its swaps: the direction of the sweep, and
# the acceptance of new labels and of new weights.
_DIRECTION, _LABELS, _WEIGHTS = 0, 1, 2
N_SPARE = 3


class Model(NamedTuple):
    """The data in diagonal coordinates, and the prior.

    ``rows`` (n, p); ``labels`` sorted in each bag; ``gram`` and ``spreads`` the diagonals of XᵀX
    and XᵀX/n; ``reach`` how many labels of each bag lie within one unit; ``prior`` the numbers s,
    b, k, f; ``squares`` yᵀy. ``beside[l]`` is the row that label l stood beside, and ``cost`` what
    the log prior of a matching loses for every label that belongs to another row; 0: nothing.
    """

    rows: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    gram: np.ndarray
    spreads: np.ndarray
    reach: np.ndarray
    prior: np.ndarray
    squares: float
    beside: np.ndarray
    cost: float


class State(NamedTuple):
    """Replicas: ``holder[r, l]`` is the row of label l, ``products`` Xᵀy, ``level`` the level."""

    holder: np.ndarray
    products: np.ndarray
    weights: np.ndarray
    level: np.ndarray


class Chance(NamedTuple):
    """The random numbers of a few sweeps: all have axes (sweep, replica, …)."""

    pairs: np.ndarray
    normals: np.ndarray
    gammas: np.ndarray
    spare: np.ndarray
    exchanges: np.ndarray


class Record(NamedTuple):
    """What is kept of every sweep and level.

    ``sums`` (sweep, level, 2) are |y_π − Xw|² and q, ``draws`` (sweep, level, p) the weights,
    ``holders`` (sweep // ``every``, level, n) the matchings, ``refusals`` the refused chances of
    each pair of levels; ``trips[0]`` counts replicas that came from the first level to the last.
    """

    sums: np.ndarray
    draws: np.ndarray
    holders: np.ndarray
    refusals: np.ndarray
    trips: np.ndarray
    every: int


@njit(**OPTIONS)
def swap_labels(model, holder, products, gains, noise, is_forward, uniforms):
    """Swap labels near in rank inside each bag, the weights integrated out; one pass over all.

    The log density of a matching is ½ Σ gains·products². Labels a, b of rows i, j change the
    products by (a − b)(x_j − x_i). The labels tried do not depend on their rows, so that proposals
    are symmetric; they are up to 2 ``noise`` apart. Where labels were given beside a row, half of
    the proposals are anywhere in the bag, since wrong links are far apart.
    """
    p = products.size
    for r in range(model.offsets.size - 1):
        lo, hi = model.offsets[r], model.offsets[r + 1]
        span = max(1.0, min(2.0 * noise * model.reach[r], hi - lo - 1.0))
        for step in range(lo, hi - 1):
            at = step if is_forward else hi - 2 - (step - lo)
            far, width = uniforms[at, 0], span
            if model.cost > 0.0:
                width = hi - lo - 1.0 if far < 0.5 else span
                far = 2.0 * far if far < 0.5 else 2.0 * far - 1.0
            other = min(at + 1 + int(far * width), hi - 1)
            i, j = holder[at], holder[other]
            gap = model.labels[at] - model.labels[other]
            gain = 0.0
            if model.cost > 0.0:
                own, own_other = model.beside[at], model.beside[other]
                kept = (i == own) + (j == own_other)
                gain = model.cost * ((j == own) + (i == own_other) - kept)
            for k in range(p):
                move = gap * (model.rows[j, k] - model.rows[i, k])
                gain += gains[k] * move * (products[k] + 0.5 * move)
            if gain >= 0.0 or uniforms[at, 1] < exp(gain):
                holder[at], holder[other] = j, i
                for k in range(p):
                    products[k] += gap * (model.rows[j, k] - model.rows[i, k])


@njit(**OPTIONS)
def residual_and_signal(model, products, weights):
    """Return |y_π − Xw|² and q."""
    residual, power = model.squares, 0.0
    for k in range(weights.size):
        residual += weights[k] * (model.gram[k] * weights[k] - 2.0 * products[k])
        power += model.spreads[k] * weights[k] * weights[k]
    return max(residual, 0.0), power


@njit(**OPTIONS)
def level_density(prior, precision, log_sigma, residual, power):
    """Return the part of a replica's log density that differs between levels."""
    _, both, excess, floor = prior
    total = power + exp(2.0 * log_sigma)
    signal = power + floor * total
    return -0.5 * precision * residual + excess * log(signal) - both * log(total)


@njit(**OPTIONS)
def draw_weights(mean_factors, variances, products, normals, out):
    """Draw the weights given matching and mixing numbers: independent Gaussians."""
    for k in range(products.size):
        out[k] = mean_factors[k] * products[k] + sqrt(variances[k]) * normals[k]


@njit(**OPTIONS)
def _is_taken(model, log_sigma, old, new, uniform):
    """Return whether a move of the weights survives a positive power of the signal."""
    excess, floor = model.prior[2], model.prior[3]
    if excess <= 0.0:
        return True
    before = after = floor * exp(2.0 * log_sigma)
    for k in range(old.size):
        before += (1.0 + floor) * model.spreads[k] * old[k] * old[k]
        after += (1.0 + floor) * model.spreads[k] * new[k] * new[k]
    return log(1.0 - uniform) < excess * (log(after) - log(before))


@njit(**OPTIONS)
def _move_replica(model, state, r, precision, log_sigma, chance, t):
    """Draw the mixing numbers of one replica, sweep over its labels, and draw its weights."""
    scale, _, excess, floor = model.prior
    holder, products, weights = state.holder[r], state.products[r], state.weights[r]
    p = products.size
    power = residual_and_signal(model, products, weights)[1]
    total = power + exp(2.0 * log_sigma)
    pressure = chance.gammas[t, r, 1] / total
    if excess < 0.0:
        pressure += (1.0 + floor) * chance.gammas[t, r, 0] / (power + floor * total)
    means, variances, gains = np.empty(p), np.empty(p), np.empty(p)
    for k in range(p):
        variances[k] = 1.0 / (
            precision * model.gram[k] + 1.0 / scale**2 + 2.0 * pressure * model.spreads[k]
        )
        means[k] = precision * variances[k]
        gains[k] = precision * means[k]
    noise = 1.0 / sqrt(max(precision, 1e-12))
    # Forward and backward with equal chance, so that the sweep as a whole is reversible: only then
    # may it be refused as a whole.
    is_forward = chance.spare[t, r, _DIRECTION] < 0.5
    new_holder, new_products, new_weights = holder.copy(), products.copy(), np.empty(p)
    swap_labels(model, new_holder, new_products, gains, noise, is_forward, chance.pairs[t, r])
    draw_weights(means, variances, new_products, chance.normals[t, r, 0], new_weights)
    if _is_taken(model, log_sigma, weights, new_weights, chance.spare[t, r, _LABELS]):
        holder[:], products[:], weights[:] = new_holder, new_products, new_weights
    # Once more by itself: a refused sweep does not leave the weights where they were.
    if excess > 0.0:
        draw_weights(means, variances, products, chance.normals[t, r, 1], new_weights)
        if _is_taken(model, log_sigma, weights, new_weights, chance.spare[t, r, _WEIGHTS]):
            weights[:] = new_weights


@njit(**OPTIONS)
def exchange_levels(prior, levels, state, sums, uniforms, parity, record):
    """Offer neighbouring levels to exchange their replicas: even pairs and odd pairs in turn.

    The fixed alternation lets a replica travel in one direction while exchanges are accepted, which
    takes as many sweeps as levels; with random pairs it would diffuse.
    """
    n_levels = levels.shape[0]
    replica = np.empty(n_levels, np.int64)
    for r in range(n_levels):
        replica[state.level[r]] = r
    for k in range(parity, n_levels - 1, 2):
        r, s = replica[k], replica[k + 1]
        gain = 0.0
        for m in range(2):
            there = level_density(prior, levels[k + m, 0], levels[k + m, 1], sums[s, 0], sums[s, 1])
            here = level_density(prior, levels[k + m, 0], levels[k + m, 1], sums[r, 0], sums[r, 1])
            gain += (1 - 2 * m) * (there - here)
        chance = 1.0 if gain >= 0.0 else exp(gain)
        record.refusals[k] += 1.0 - chance
        if uniforms[k] < chance:
            state.level[r], state.level[s] = k + 1, k
    for r in range(n_levels):
        if state.level[r] == 0:
            record.trips[1 + r] = 1.0
        elif state.level[r] == n_levels - 1:
            record.trips[0] += record.trips[1 + r]
            record.trips[1 + r] = 0.0


@njit(**OPTIONS)
def advance_replicas(model, state, levels, chance, record, first):
    """Run a few sweeps of all replicas, exchanging after each; sweep ``first + t`` is recorded.

    ``levels`` holds precision and log σ of each level.
    """
    n_levels = levels.shape[0]
    sums = np.empty((n_levels, 2))
    for t in range(chance.pairs.shape[0]):
        now = first + t
        for r in range(n_levels):
            k = state.level[r]
            _move_replica(model, state, r, levels[k, 0], levels[k, 1], chance, t)
            sums[r, :] = residual_and_signal(model, state.products[r], state.weights[r])
            record.sums[now, k] = sums[r]
            record.draws[now, k] = state.weights[r]
            if now % record.every == 0:
                record.holders[now // record.every, k] = state.holder[r]
        exchange_levels(model.prior, levels, state, sums, chance.exchanges[t], now % 2, record)
