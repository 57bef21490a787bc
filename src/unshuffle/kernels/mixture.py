"""Densities of the multivariate t distribution."""

from math import lgamma, log, log1p, pi

import numpy as np
from numba import njit

from unshuffle.kernels.compiling import OPTIONS


@njit(**OPTIONS)
def student_logs(x, means, factors, dof, logs):
    """Fill (k, m) log densities of k components at m points: means (k, d), factors lower (k, d, d).

    A component has scale L Lᵀ; L⁻¹(x − mean) is found by substitution.
    """
    m, d = x.shape
    constant = lgamma(0.5 * (dof + d)) - lgamma(0.5 * dof) - 0.5 * d * log(dof * pi)
    gap = np.empty(d)
    for k in range(means.shape[0]):
        size = 0.0
        for j in range(d):
            size += log(abs(factors[k, j, j]))
        for i in range(m):
            square = 0.0
            for j in range(d):
                rest = x[i, j] - means[k, j]
                for before in range(j):
                    rest -= factors[k, j, before] * gap[before]
                gap[j] = rest / factors[k, j, j]
                square += gap[j] * gap[j]
            logs[k, i] = constant - size - 0.5 * (dof + d) * log1p(square / dof)
