"""What the log permanent of a bag has beyond entropic transport, and the limits of its adjoint."""

from numba import njit

from unshuffle.kernels.compiling import INNER

# Slope of the local correction at q = 0: zeta(3/2)/2 from the one-loop determinant of a Gaussian
# band.
C1 = 1.306
# Quadratic and cubic terms from g(1) = 0 (a permutation needs no correction) and g'(1) = 1/2 (rare
# swaps).
C2 = -0.112
C3 = -0.194
# The adjoint is solved to this share of its right-hand side: five to ten steps.
ADJOINT_TOLERANCE = 1e-4
ADJOINT_STEPS = 50
# Over links weaker than this only rounding flows.
LEAST_CONDUCTANCE = 1e-9


@njit(**INNER)
def correct(q):
    """Return log perm(B) per row from the row's collision probability q = sum_j B_ij^2.

    Wide bands: -1 + q zeta(3/2)/2 (the one-loop determinant -1/2 log det(I - B'B) of a Gaussian
    band, of which the Bethe permanent's q/2 (Vontobel 2013) is only the first term); permutations:
    0; rare swaps: slope 1/2, which also continues it where a node of a grid holds less than one
    row.
    """
    if q > 1.0:
        return 0.5 * (q - 1.0)
    return -1.0 + q * (C1 + q * (C2 + q * C3))


@njit(**INNER)
def correct_slope(q):
    """Return the derivative of the correction."""
    return 0.5 if q > 1.0 else C1 + q * (2.0 * C2 + q * 3.0 * C3)
