"""Scalings to start a coupling from: the prices of labels at no temperature.

At little noise a coupling is nearly the best assignment of labels to rows. Both sides ascend, and
so do partners in the best assignment (log densities of shifted noise are Monge). Where all rows
have labels it is the monotone coupling; where some have none, dynamic programming finds it. Prices
are half way between the highest and the lowest that keep every label where it is.
"""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.joint_dual import LANES

# Larger sides are represented by this many of their items, at even steps of the mass.
_MOST_ITEMS = 128
# Masses end together if they differ by no more than sums of masses round.
_TIE = 1e-12
# Log densities of a label that range over less need no prices.
_RANGE = 100.0


@njit(**INNER)
def _pick(masses, k, n_items, items):
    """Write which atoms of lane k have the masses at even steps."""
    total = 0.0
    for i in range(masses.shape[0]):
        total += masses[i, k]
    i, passed = 0, masses[0, k]
    for t in range(n_items):
        place = (t + 0.5) / n_items * total
        while passed < place and i < masses.shape[0] - 1:
            i += 1
            passed += masses[i, k]
        items[t] = i


@njit(**INNER)
def _place(logs, k, rows, labels, n_rows, n_labels, at):
    """Write at which row every label stands in the best injection that keeps the order."""
    slack = n_rows - n_labels
    best, is_moved = np.zeros(slack + 1), np.empty((n_labels, slack + 1), np.bool_)
    for j in range(n_labels):
        for s in range(slack + 1):
            value = best[s] + logs[rows[j + s], labels[j], k]
            is_moved[j, s] = s > 0 and best[s - 1] > value
            best[s] = best[s - 1] if is_moved[j, s] else value
    s = slack
    for j in range(n_labels - 1, -1, -1):
        while is_moved[j, s]:
            s -= 1
        at[j] = j + s


@njit(**INNER)
def _price(logs, k, rows, labels, n_rows, n_labels, at, prices):
    """Write the log scalings of labels that keep every label at its row."""
    high, low = np.empty(n_labels), np.empty(n_labels)
    is_free = np.ones(n_rows, np.bool_)
    for j in range(n_labels):
        is_free[at[j]] = False
    for j in range(n_labels):
        low[j], high[j] = -logs[rows[at[j]], labels[j], k], np.inf
        i = at[j] - 1
        while i >= 0 and not is_free[i]:
            i -= 1
        if i >= 0:
            high[j] = -logs[rows[i], labels[j], k]
        i = at[j] + 1
        while i < n_rows and not is_free[i]:
            i += 1
        if i < n_rows:
            high[j] = min(high[j], -logs[rows[i], labels[j], k])
    for j in range(n_labels - 1):
        one, two = rows[at[j]], rows[at[j + 1]]
        most = logs[one, labels[j], k] - logs[one, labels[j + 1], k]
        least = logs[two, labels[j], k] - logs[two, labels[j + 1], k]
        high[j + 1], low[j + 1] = min(high[j + 1], high[j] + most), max(low[j + 1], low[j] + least)
    for j in range(n_labels - 2, -1, -1):
        one, two = rows[at[j]], rows[at[j + 1]]
        most = logs[one, labels[j], k] - logs[one, labels[j + 1], k]
        least = logs[two, labels[j], k] - logs[two, labels[j + 1], k]
        high[j], low[j] = min(high[j], high[j + 1] - least), max(low[j], low[j + 1] - most)
    for j in range(n_labels):
        prices[j] = 0.5 * (high[j] + low[j])


@njit(**INNER)
def _price_all(logs, mz, my, k, g):
    """Write the log scalings of labels that keep the monotone coupling of masses as it is.

    See `coupling.monotone_potentials`, which does it for squared distances.
    """
    n, m = 0, 0
    for i in range(mz.shape[0]):
        n += mz[i, k] > 0.0
    for j in range(my.shape[0]):
        m += my[j, k] > 0.0
    i, j, left_i, left_j = 0, 0, mz[0, k], my[0, k]
    g[0, k] = -logs[0, 0, k]
    while i < n - 1 or j < m - 1:
        both = i < n - 1 and j < m - 1
        if both and abs(left_i - left_j) <= _TIE:
            # Both masses end together: the middle of what is possible.
            most = logs[i, j, k] - logs[i, j + 1, k]
            least = logs[i + 1, j, k] - logs[i + 1, j + 1, k]
            g[j + 1, k] = g[j, k] + 0.5 * (most + least)
            i, j = i + 1, j + 1
            left_i, left_j = mz[i, k], my[j, k]
        elif (left_i < left_j and i < n - 1) or j == m - 1:
            left_j -= left_i
            i += 1
            left_i = mz[i, k]
        else:
            g[j + 1, k] = g[j, k] + logs[i, j, k] - logs[i, j + 1, k]
            left_i -= left_j
            j += 1
            left_j = my[j, k]
    for t in range(m):
        g[t, k] += np.log(my[t, k])


@njit(**INNER)
def _spread_prices(logs, mz, my, k, labels, n_labels, prices, g):
    """Write the scalings of all labels: those priced, and what rows would pay for the others."""
    is_priced = np.zeros(my.shape[0], np.bool_)
    count = np.zeros(my.shape[0])
    for t in range(n_labels):
        j = labels[t]
        count[j] += 1.0
        g[j, k] = prices[t] if not is_priced[j] else g[j, k] + (prices[t] - g[j, k]) / count[j]
        is_priced[j] = True
    n_left = 0
    for j in range(my.shape[0]):
        n_left += my[j, k] > 0.0 and not is_priced[j]
    if n_left == 0:
        return
    pays = np.empty(mz.shape[0])
    for i in range(mz.shape[0]):
        pays[i] = 0.0
        for j in range(my.shape[0]):
            if is_priced[j]:
                pays[i] = max(pays[i], g[j, k] + logs[i, j, k])
    for j in range(my.shape[0]):
        if my[j, k] > 0.0 and not is_priced[j]:
            g[j, k] = np.inf
            for i in range(mz.shape[0]):
                if mz[i, k] > 0.0:
                    g[j, k] = min(g[j, k], pays[i] - logs[i, j, k])


@njit(**OPTIONS)
def begin_lanes(logs, mz, my, jokers, g):
    """Fill log scalings of labels from which `couple_lanes` starts."""
    rows, labels = np.empty(_MOST_ITEMS, np.int64), np.empty(_MOST_ITEMS, np.int64)
    at, prices = np.empty(_MOST_ITEMS, np.int64), np.empty(_MOST_ITEMS)
    highest, least = np.empty(LANES), np.empty(LANES)
    reach, total = np.zeros(LANES), np.zeros((2, LANES))
    for i in range(mz.shape[0]):
        for k in range(LANES):
            total[0, k] += mz[i, k]
    for j in range(my.shape[0]):
        for k in range(LANES):
            highest[k], least[k] = -np.inf, np.inf
        for i in range(mz.shape[0]):
            for k in range(LANES):
                if mz[i, k] > 0.0:
                    highest[k] = max(highest[k], logs[i, j, k])
                    least[k] = min(least[k], logs[i, j, k])
        for k in range(LANES):
            is_label = my[j, k] > 0.0
            total[1, k] += my[j, k]
            g[j, k] = np.log(my[j, k]) - highest[k] if is_label else 0.0
            reach[k] = max(reach[k], highest[k] - least[k] if is_label else 0.0)
    for k in range(LANES):
        if reach[k] < _RANGE:
            continue
        if jokers[k] <= 0.0:
            _price_all(logs, mz, my, k, g)
            continue
        n_rows = min(round(total[0, k]), _MOST_ITEMS)
        n_labels = round(n_rows * total[1, k] / total[0, k])
        n_labels = min(max(n_labels, 1), n_rows - 1)
        _pick(mz, k, n_rows, rows)
        _pick(my, k, n_labels, labels)
        _place(logs, k, rows, labels, n_rows, n_labels, at)
        _price(logs, k, rows, labels, n_rows, n_labels, at, prices)
        _spread_prices(logs, mz, my, k, labels, n_labels, prices, g)
