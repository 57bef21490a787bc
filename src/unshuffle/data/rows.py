"""Rows of features, each with its frequency."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unshuffle.data.labels import has_several


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of all bags end to end: bag r holds ``offsets[r]:offsets[r + 1]``.

    ``X`` is stored by columns, as the kernels read it. Masses are frequencies of rows; ``order[i]``
    is the place of row i in the data as given.
    """

    X: np.ndarray
    masses: np.ndarray
    offsets: np.ndarray
    order: np.ndarray

    @cached_property
    def has_masses(self) -> bool:
        """Whether some mass is not 1."""
        return has_several(self.masses)

    @cached_property
    def totals(self) -> np.ndarray:
        """Number of rows of each bag, by mass."""
        return np.add.reduceat(self.masses, self.offsets[:-1])
