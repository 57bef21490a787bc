"""The monotone coupling of two samples on a line, and the limits of Sinkhorn's scaling.

Lengths are in units of sigma.
"""

from numba import njit

from unshuffle.kernels.compiling import OPTIONS

# Masses end together if they differ by no more than sums of masses round.
_TIE = 1e-12
# exp(-18) = 1.5e-8: entries this far below the best path change log-likelihoods by less than 1e-6
# per row. They are none.
CUT = 18.0
# Nats that the last step may gain where slopes are wanted. The dual's error is then a twentieth of
# it, and that of what is not stationary (corrections, barycentres) some 1e-4: a hundredth of a
# posterior sd shows no jumps.
PRECISE = 1e-6
# A step that gains less than this share of the mass is rounding.
ROUNDED = 1e-12
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


@njit(**OPTIONS)
def fill_gauge(sides, sizes, partners, ends):
    """Fill the dual potentials of monotone couplings, and the columns that each row needs.

    ``sides`` (6, m, lanes) hold points and masses of rows, then of columns, both ascending, and
    take the potentials of both; ``sizes`` (2, lanes) are their numbers. In this gauge the kernel
    exp(-(cost - alpha - beta)) is at most one and equals one along the coupling, so no scaling can
    overflow however small sigma is. ``ends`` (2, m) widen to the first and last column of each row
    whose entry exceeds exp(-CUT); neither falls from row to row (Monge). ``partners`` (2, m) hold
    the first and last column of each row in the coupling in between. Columns beyond the sizes get
    places of their own: no link has length zero.
    """
    z, mz, alpha = sides[0], sides[1], sides[4]
    y, my, beta = sides[2], sides[3], sides[5]
    first, last, starts, stops = partners[0], partners[1], ends[0], ends[1]
    for k in range(sides.shape[2]):
        row, column = sizes[0, k] - 1, sizes[1, k] - 1
        i, j = 0, 0
        gap = z[0, k] - y[0, k]
        alpha[0, k], beta[0, k], first[0] = 0.0, 0.5 * gap * gap, 0
        left_i, left_j = mz[0, k], my[0, k]
        while i < row or j < column:
            if i < row and j < column and -_TIE <= left_i - left_j <= _TIE:
                # Both masses end together: any potential in an interval will do, its middle keeps
                # the band symmetric.
                across, ahead = z[i + 1, k] - y[j, k], z[i + 1, k] - y[j + 1, k]
                behind = z[i, k] - y[j + 1, k]
                high = 0.5 * ahead * ahead - (0.5 * across * across - beta[j, k])
                last[i] = j
                j += 1
                beta[j, k] = 0.5 * (0.5 * behind * behind - alpha[i, k] + high)
                i += 1
                alpha[i, k] = 0.5 * ahead * ahead - beta[j, k]
                first[i], left_i, left_j = j, mz[i, k], my[j, k]
            elif (left_i < left_j and i < row) or j == column:
                last[i], left_j = j, left_j - left_i
                i += 1
                gap = z[i, k] - y[j, k]
                alpha[i, k] = 0.5 * gap * gap - beta[j, k]
                first[i], left_i = j, mz[i, k]
            else:
                left_i -= left_j
                j += 1
                gap = z[i, k] - y[j, k]
                beta[j, k] = 0.5 * gap * gap - alpha[i, k]
                left_j = my[j, k]
        last[i] = column
        low, high_end = 0, 0
        for i in range(row + 1):
            while low < first[i]:
                gap = z[i, k] - y[low, k]
                if not 0.5 * gap * gap - alpha[i, k] - beta[low, k] >= CUT:  # NaN ends it, too
                    break
                low += 1
            high_end = last[i] if last[i] > high_end else high_end
            while high_end < column:
                gap = z[i, k] - y[high_end + 1, k]
                if 0.5 * gap * gap - alpha[i, k] - beta[high_end + 1, k] >= CUT:
                    break
                high_end += 1
            starts[i] = low if low < starts[i] else starts[i]
            stops[i] = high_end if high_end > stops[i] else stops[i]
        for j in range(column + 1, sides.shape[1]):
            y[j, k] = y[column, k] + (j - column)
