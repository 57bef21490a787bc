"""Linear combinations of coefficients with their intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.data.products import dot
from unshuffle.errors import shorten
from unshuffle.formatting import align, show_number
from unshuffle.formulas.contrasts import read_contrast
from unshuffle.results.verdict import Facts, need_uncertainty


@dataclass(frozen=True)
class Contrast:
    """A linear combination of coefficients, with sd and interval from the posterior draws.

    Attributes
    ----------
    expression : str
        The combination, as it was asked for.
    estimate : float
        Its value at the estimated coefficients.
    sd : float
        Its posterior sd, or its standard error; infinite where the data say nothing.
    low, high : float
        Ends of the interval.
    level : float
        Probability of the interval.

    Examples
    --------
    >>> print(Contrast("x1 - x2", 1.0, 0.5, 0.02, 1.98, 0.95))
    contrast  estimate   sd   low  high
    x1 - x2          1  0.5  0.02  1.98
    """

    expression: str
    estimate: float
    sd: float
    low: float
    high: float
    level: float

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        numbers = (self.estimate, self.sd, self.low, self.high)
        lines = [
            ("contrast", "estimate", "sd", "low", "high"),
            (shorten(self.expression), *map(show_number, numbers)),
        ]
        return "\n".join(align(lines))


def find_contrast(solution: Solution, facts: Facts, text: str, level: float) -> Contrast:
    """Return a linear combination of coefficients, or say why it has no interval."""
    *factors, constant = read_contrast(text, facts.names).tolist()
    combined = np.array(factors)
    unsure = need_uncertainty(solution, facts.method)
    estimate = dot(combined, solution.weights) + constant
    low, high = unsure.interval_at(combined[None, :], level, new_label=False)[0].tolist()
    sd = unsure.sd_of(combined)
    if np.isinf(sd):  # the data say nothing about a coefficient
        low, high = -np.inf, np.inf
    return Contrast(text, estimate, sd, low + constant, high + constant, level)
