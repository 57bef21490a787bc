"""Scalings to start a coupling from: the prices of labels at no temperature.

At little noise a coupling is nearly the best assignment of labels to rows. Both sides ascend, and
so do partners in the best assignment (log densities of shifted noise are Monge). Where all rows
have labels it is the monotone coupling; where some have none, dynamic programming finds it. Prices
are half way between the highest and the lowest that keep every label where it is.
"""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS
from unshuffle.kernels.transport.partial_transport import NONE, read_log, read_one_log
from unshuffle.kernels.transport.vectors import LANES, choose, fill, read, write

# Masses are represented by their atoms at even steps of the mass: as many as there are atoms, but
# at least and at most so many.
_LEAST_ATOMS, _MOST_ATOMS = 128, 2048
# Masses end together if they differ by no more than sums of masses round.
_TIE = 1e-12
# Log densities of a label that range over less need no prices.
_RANGE = 100.0


@njit(**INNER)
def _pick(masses, k, n_atoms, atoms):
    """Write which atoms of lane k have the masses at even steps."""
    total = 0.0
    for i in range(masses.shape[0]):
        total += masses[i, k]
    i, passed = 0, masses[0, k]
    for t in range(n_atoms):
        place = (t + 0.5) / n_atoms * total
        while passed < place and i < masses.shape[0] - 1:
            i += 1
            passed += masses[i, k]
        atoms[t] = i


@njit(**INNER)
def _place(given, k, rows, labels, n_rows, n_labels, at):
    """Write at which row every label stands in the best injection that keeps the order."""
    slack = n_rows - n_labels
    best, is_moved = np.zeros(slack + 1), np.empty((n_labels, slack + 1), np.bool_)
    for j in range(n_labels):
        for s in range(slack + 1):
            value = best[s] + read_one_log(given, rows[j + s], labels[j], k)
            is_moved[j, s] = s > 0 and best[s - 1] > value
            best[s] = best[s - 1] if is_moved[j, s] else value
    s = slack
    for j in range(n_labels - 1, -1, -1):
        while is_moved[j, s]:
            s -= 1
        at[j] = j + s


@njit(**INNER)
def _fall(given, i, j, other, k):
    """Return by how much the log density of a row falls from one label to another."""
    return read_one_log(given, i, j, k) - read_one_log(given, i, other, k)


@njit(**INNER)
def _price(given, k, rows, labels, n_rows, n_labels, at, prices):
    """Write the log scalings of labels that keep every label at its row."""
    high, low = np.empty(n_labels), np.empty(n_labels)
    is_free = np.ones(n_rows, np.bool_)
    for j in range(n_labels):
        is_free[at[j]] = False
    for j in range(n_labels):
        low[j], high[j] = -read_one_log(given, rows[at[j]], labels[j], k), np.inf
        i = at[j] - 1
        while i >= 0 and not is_free[i]:
            i -= 1
        if i >= 0:
            high[j] = -read_one_log(given, rows[i], labels[j], k)
        i = at[j] + 1
        while i < n_rows and not is_free[i]:
            i += 1
        if i < n_rows:
            high[j] = min(high[j], -read_one_log(given, rows[i], labels[j], k))
    for j in range(n_labels - 1):
        one, two = rows[at[j]], rows[at[j + 1]]
        most = _fall(given, one, labels[j], labels[j + 1], k)
        least = _fall(given, two, labels[j], labels[j + 1], k)
        high[j + 1], low[j + 1] = min(high[j + 1], high[j] + most), max(low[j + 1], low[j] + least)
    for j in range(n_labels - 2, -1, -1):
        one, two = rows[at[j]], rows[at[j + 1]]
        most = _fall(given, one, labels[j], labels[j + 1], k)
        least = _fall(given, two, labels[j], labels[j + 1], k)
        high[j], low[j] = min(high[j], high[j + 1] - least), max(low[j], low[j + 1] - most)
    for j in range(n_labels):
        prices[j] = 0.5 * (high[j] + low[j])


@njit(**INNER)
def _price_all(given, k, g):
    """Write the log scalings of labels that keep the monotone coupling of masses as it is.

    See `coupling.monotone_potentials`, which does it for squared distances.
    """
    n, m = 0, 0
    for i in range(given.mz.shape[0]):
        n += given.mz[i, k] > 0.0
    for j in range(given.my.shape[0]):
        m += given.my[j, k] > 0.0
    i, j, left_i, left_j = 0, 0, given.mz[0, k], given.my[0, k]
    g[0, k] = -read_one_log(given, 0, 0, k)
    while i < n - 1 or j < m - 1:
        both = i < n - 1 and j < m - 1
        if both and abs(left_i - left_j) <= _TIE:
            # Both masses end together: the middle of what is possible.
            most = _fall(given, i, j, j + 1, k)
            least = _fall(given, i + 1, j, j + 1, k)
            g[j + 1, k] = g[j, k] + 0.5 * (most + least)
            i, j = i + 1, j + 1
            left_i, left_j = given.mz[i, k], given.my[j, k]
        elif (left_i < left_j and i < n - 1) or j == m - 1:
            left_j -= left_i
            i += 1
            left_i = given.mz[i, k]
        else:
            g[j + 1, k] = g[j, k] + _fall(given, i, j, j + 1, k)
            left_i -= left_j
            j += 1
            left_j = given.my[j, k]
    for t in range(m):
        g[t, k] += np.log(given.my[t, k])


@njit(**INNER)
def _spread_prices(given, k, labels, n_labels, prices, g):
    """Write the scalings of all labels: those priced, and what rows would pay for the others."""
    is_priced = np.zeros(given.my.shape[0], np.bool_)
    count = np.zeros(given.my.shape[0])
    for t in range(n_labels):
        j = labels[t]
        count[j] += 1.0
        g[j, k] = prices[t] if not is_priced[j] else g[j, k] + (prices[t] - g[j, k]) / count[j]
        is_priced[j] = True
    n_left = 0
    for j in range(given.my.shape[0]):
        n_left += given.my[j, k] > 0.0 and not is_priced[j]
    if n_left == 0:
        return
    pays = np.empty(given.mz.shape[0])
    for i in range(given.mz.shape[0]):
        pays[i] = 0.0
        for j in range(given.my.shape[0]):
            if is_priced[j]:
                pays[i] = max(pays[i], g[j, k] + read_one_log(given, i, j, k))
    for j in range(given.my.shape[0]):
        if given.my[j, k] > 0.0 and not is_priced[j]:
            g[j, k] = np.inf
            for i in range(given.mz.shape[0]):
                if given.mz[i, k] > 0.0:
                    g[j, k] = min(g[j, k], pays[i] - read_one_log(given, i, j, k))


@njit(**INNER)
def _begin_at_best(given, g, reach):
    """Write log masses less the largest log density of each label, and the range of these.

    The range is that of the label whose log densities range most.
    """
    widest = fill(0.0)
    for j in range(given.my.shape[0]):
        highest, least = fill(NONE), fill(-NONE)
        for i in range(given.mz.shape[0]):
            x, mass = read_log(given, i, j), read(given.mz, i)
            highest = choose(mass, 0.0, choose(x, highest, x, highest), highest)
            least = choose(mass, 0.0, choose(least, x, x, least), least)
        write(g, j, highest)
        own = choose(read(given.my, j), 0.0, highest - least, 0.0)
        widest = choose(own, widest, own, widest)
    write(reach, 0, widest)
    for j in range(given.my.shape[0]):
        for k in range(LANES):
            is_label = given.my[j, k] > 0.0
            g[j, k] = np.log(given.my[j, k]) - g[j, k] if is_label else NONE


@njit(**OPTIONS)
def begin_scalings(given, g):
    """Fill log scalings of labels from which `match_labels` starts."""
    rows, labels = np.empty(_MOST_ATOMS, np.int64), np.empty(_MOST_ATOMS, np.int64)
    at, prices = np.empty(_MOST_ATOMS, np.int64), np.empty(_MOST_ATOMS)
    reach = np.empty((1, LANES))
    _begin_at_best(given, g, reach)
    for k in range(LANES):
        if reach[0, k] < _RANGE:
            continue
        if given.slack[0, k] <= 0.0:
            _price_all(given, k, g)
            continue
        total_z, total_y, n_atoms = 0.0, 0.0, 0
        for i in range(given.mz.shape[0]):
            total_z += given.mz[i, k]
            n_atoms += given.mz[i, k] > 0.0
        for j in range(given.my.shape[0]):
            total_y += given.my[j, k]
        n_rows = min(round(total_z), max(n_atoms, _LEAST_ATOMS), _MOST_ATOMS)
        n_labels = round(n_rows * total_y / total_z)
        n_labels = min(max(n_labels, 1), n_rows - 1)
        _pick(given.mz, k, n_rows, rows)
        _pick(given.my, k, n_labels, labels)
        _place(given, k, rows, labels, n_rows, n_labels, at)
        _price(given, k, rows, labels, n_rows, n_labels, at, prices)
        _spread_prices(given, k, labels, n_labels, prices, g)
