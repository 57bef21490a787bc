"""The monotone coupling of two samples on a line, and the limits of Sinkhorn's scaling.

Lengths are in units of sigma.
"""

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import INNER

# Masses end together if they differ by no more than sums of masses round.
_TIE = 1e-12
# Nats that the last step may gain where slopes are wanted. The dual's error is then a twentieth of
# it, and that of what is not stationary (corrections, barycentres) some 1e-4: a hundredth of a
# posterior sd shows no jumps.
PRECISE = 1e-6
# Sums of masses round to this share of all.
ROUNDING = 1e-13
# Six to nine passes get there on average, 14 in 95 of 100 problems, 29 at most; what ran into the
# limit (one setting of eight had it) still had margins right to 5e-6.
MAX_PASSES = 50
# Of the preconditioned step this share converges fastest: 0.7 and 0.9 both need about an eighth
# more passes.
STEP_SHARE = 0.8
# A step changes no ratio of scalings by more than exp(8) over a link and exp(30) in all: what is
# further off moves again.
LONGEST_DROP, LONGEST = 8.0, 30.0
# Sums that are divided by are no smaller; NaN stays what it is.
LEAST = 1e-300


@njit(**INNER)
def monotone_potentials(z, mz, y, my):
    """Return potentials of the monotone coupling, and each z node's first and last partner.

    In this gauge the kernel exp(-(cost - alpha - beta)) is at most one and equals one along the
    coupling, so that no scaling can overflow however small sigma is.
    """
    nz, ny = z.size, y.size
    alpha, beta = np.zeros(nz), np.zeros(ny)
    first, last = np.zeros(nz, np.int64), np.zeros(nz, np.int64)
    i, j = 0, 0
    beta[0] = 0.5 * (z[0] - y[0]) ** 2
    left_i, left_j = mz[0], my[0]
    while i < nz - 1 or j < ny - 1:
        both = i < nz - 1 and j < ny - 1
        if both and abs(left_i - left_j) <= _TIE:
            # Both masses end together: any potential in an interval will do, its middle keeps the
            # band symmetric.
            alpha_next = 0.5 * (z[i + 1] - y[j]) ** 2 - beta[j]
            high = 0.5 * (z[i + 1] - y[j + 1]) ** 2 - alpha_next
            low = 0.5 * (z[i] - y[j + 1]) ** 2 - alpha[i]
            last[i] = j
            i, j = i + 1, j + 1
            beta[j] = 0.5 * (low + high)
            alpha[i] = 0.5 * (z[i] - y[j]) ** 2 - beta[j]
            first[i], left_i, left_j = j, mz[i], my[j]
        elif (left_i < left_j and i < nz - 1) or j == ny - 1:
            last[i], left_j = j, left_j - left_i
            i += 1
            first[i], left_i = j, mz[i]
            alpha[i] = 0.5 * (z[i] - y[j]) ** 2 - beta[j]
        else:
            left_i -= left_j
            j += 1
            left_j = my[j]
            beta[j] = 0.5 * (z[i] - y[j]) ** 2 - alpha[i]
    last[i] = ny - 1
    return alpha, beta, first, last
