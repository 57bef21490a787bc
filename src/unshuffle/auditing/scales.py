"""Transformations of the label on which an outsider would fit a linear model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scale:
    """A transformation of the label that keeps its order, and the labels that have it."""

    name: str
    transform: Callable[[np.ndarray], np.ndarray]
    allows: Callable[[np.ndarray], np.ndarray]

    @property
    def words(self) -> str:
        """What is fitted, in a few words."""
        return "the label" if self.name == AS_IS else f"{self.name} of the label"


AS_IS, LOG10, SQRT = "as is", "log10", "sqrt"
SCALES = {
    each.name: each
    for each in (
        Scale(AS_IS, np.asarray, np.isfinite),
        Scale(LOG10, np.log10, lambda y: y > 0),
        Scale(SQRT, np.sqrt, lambda y: y >= 0),
    )
}
