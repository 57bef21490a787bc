"""Gibbs sampling of the matching by exchanges of two labels (Wu 1998)."""

from math import exp, log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER, OPTIONS


@njit(**OPTIONS)
def swap_counts(z, y, kind, order, start, s2, reach, uniforms, burn, counts, totals):
    """Swap labels between rows near in rank, adding up each row's conditional label probabilities.

    Rows ``order`` are ascending in z, y is sorted; the state starts at the rank matching. Labels
    are counted by their ``kind``, which is the same for equal ones. Swapping
    labels a, b of rows i, j has the chance 1/(1 + exp(-(a - b)(z_j - z_i)/s2)), and both outcomes
    are counted with their chance; `totals` counts them all, also those outside a row's window.
    """
    n, width = z.size, counts.shape[1]
    label = np.arange(n)
    for sweep in range(uniforms.shape[0]):
        for i in range(n - 1):
            # Partner distance is geometric-like with mean ``reach``; out of range means the nearest
            # end.
            j = min(i + 1 + int(-log(1.0 - uniforms[sweep, i, 0]) * reach), n - 1)
            gain = (y[label[i]] - y[label[j]]) * (z[order[j]] - z[order[i]]) / s2
            chance = 1.0 / (1.0 + exp(-gain)) if gain > -700.0 else 0.0
            if sweep >= burn:
                for row, stay, go in (
                    (order[i], kind[label[i]], kind[label[j]]),
                    (order[j], kind[label[j]], kind[label[i]]),
                ):
                    totals[row] += 1.0
                    k, m = stay - start[row], go - start[row]
                    if 0 <= k < width:
                        counts[row, k] += 1.0 - chance
                    if 0 <= m < width:
                        counts[row, m] += chance
            if uniforms[sweep, i, 1] < chance:
                label[i], label[j] = label[j], label[i]


@njit(**INNER)
def _noise_log(error, heights, precisions):
    largest = -np.inf
    for k in range(heights.size):
        largest = max(largest, heights[k] - 0.5 * precisions[k] * error * error)
    total = 0.0
    for k in range(heights.size):
        total += exp(heights[k] - 0.5 * precisions[k] * error * error - largest)
    return largest + log(total)


@njit(**INNER)
def _compare_noise(new, old, heights, precisions):
    """Return the log density of one error less that of another."""
    if heights.size == 1:
        return 0.5 * precisions[0] * (old * old - new * new)
    return _noise_log(new, heights, precisions) - _noise_log(old, heights, precisions)


@njit(**OPTIONS)
def exchange_labels(z, y, label, order, offsets, reaches, heights, precisions, uniforms):
    """Gibbs sampling of a pairing: exchange the labels of two rows of a bag, again and again.

    ``label`` (n,) holds for each row the place of its label in y, or -1, and is changed in place.
    Rows ``order[offsets[r]:offsets[r + 1]]`` form bag r, ascending in their mean label z; partners
    are about ``reaches[r]`` ranks apart. The noise has the log density
    log sum_k exp(heights[k] - precisions[k] e^2 / 2).
    """
    for sweep in range(uniforms.shape[0]):
        for r in range(offsets.size - 1):
            stop = offsets[r + 1]
            for place in range(offsets[r], stop - 1):
                other = place + 1 + int(-log(1.0 - uniforms[sweep, place, 0]) * reaches[r])
                i, j = order[place], order[min(other, stop - 1)]
                a, b = label[i], label[j]
                gain = 0.0
                if a >= 0:
                    gain += _compare_noise(y[a] - z[j], y[a] - z[i], heights, precisions)
                if b >= 0:
                    gain += _compare_noise(y[b] - z[i], y[b] - z[j], heights, precisions)
                chance = 1.0 / (1.0 + exp(-gain)) if gain > -700.0 else 0.0
                if uniforms[sweep, place, 1] < chance:
                    label[i], label[j] = b, a
