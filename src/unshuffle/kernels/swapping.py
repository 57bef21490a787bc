"""Swapping labels between rows: the exact model of the matching, sampled."""

from math import exp, log

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS


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
