"""Terms of the mean function of a label, z + Σ c (zᵏ − mean of zᵏ) with z = xᵀw, in one list.

Coordinates and prior, likelihood and gradient, starts and proposals, predictions, saved models and
the draws that users read loop over the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np


@dataclass(frozen=True)
class Term:
    """A power of the straight prediction z, with a coefficient of its own.

    Attributes
    ----------
    name : of the coefficient's draws, in what users read.
    degree : the power, at least 2: the first is that of the weights.
    scale : prior sd of the coefficient in units of `curve_scale`.
    """

    name: str
    degree: int
    scale: float = 1.0

    @property
    def variance(self) -> float:
        """Variance of zᵏ for a standard normal z.

        >>> [Term("", degree).variance for degree in (2, 3)]
        [2.0, 15.0]
        """
        k = self.degree
        mean = prod(range(1, k, 2)) if k % 2 == 0 else 0
        return float(prod(range(1, 2 * k, 2)) - mean**2)


# A saved model identifies terms by their positions: append new ones.
TERMS = (Term("curvature", 2),)


def take_power(z: np.ndarray, degree: int) -> np.ndarray:
    """Return a power by multiplying, which has the same bits on every machine."""
    power = z
    for _ in range(degree - 1):
        power = power * z
    return power
