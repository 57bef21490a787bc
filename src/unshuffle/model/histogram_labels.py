"""The labels of data in blocks: what their shapes are compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unshuffle.kernels.transport.permanent import EXACT_ROWS
from unshuffle.model.within_bag import Shapes


@dataclass(frozen=True, eq=False)
class BagMoments:
    """Of every bag at a point the means of z + c z², of z², and of their slopes in the weights."""

    means: np.ndarray
    squares: np.ndarray
    slopes: np.ndarray


@dataclass(frozen=True, eq=False)
class HistogramShapes(Shapes):
    """The labels of bags as cells, centred in each bag: what shapes need beside the rows.

    `factors` say how often a row counts (more than once in a sample, never where a bag has no
    shape), `row_means` and `row_squares` are the bags' moments of the rows that are counted.
    """

    values: np.ndarray
    masses: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    factors: np.ndarray
    row_means: np.ndarray
    row_squares: np.ndarray
    # How many bags, the first ones, are held and matched row by row.
    n_held: int = 0
    is_centred = True

    @property
    def approximate(self) -> float:  # type: ignore[override]
        """Share of the labels in bags that no exact permanent is taken of."""
        held = self.sizes[: self.n_held]
        return 1.0 - float(held[held <= EXACT_ROWS].sum()) / float(self.sizes.sum())

    @property
    def worth(self) -> np.ndarray:  # type: ignore[override]
        """Number of labels of each bag."""
        return self.sizes

    def evaluate(
        self, columns: np.ndarray, point: np.ndarray, log_sigma: float, wants_slopes: bool
    ) -> tuple[float, np.ndarray, float]:
        raise NotImplementedError("shapes of blocks are evaluated by their target")

    def evaluate_many(
        self, z: np.ndarray, log_sigmas: np.ndarray, floors: np.ndarray, tolerance: float
    ) -> np.ndarray:
        raise NotImplementedError("shapes of blocks are evaluated by their target")
