"""Sources that fill histograms of predictions themselves, where their rows lie."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

import numpy as np

from unshuffle.core.sources import Source


class Grid(Protocol):
    """Where the histograms of some points lie: see `kernels.fill_sums`.

    Of point p and bag r the mean prediction lies ``-lows[p, r]`` cells behind the first node.
    """

    @property
    def weights(self) -> np.ndarray: ...
    @property
    def curves(self) -> np.ndarray: ...
    @property
    def per_cell(self) -> np.ndarray: ...
    @property
    def lows(self) -> np.ndarray: ...
    @property
    def starts(self) -> np.ndarray: ...
    @property
    def sizes(self) -> np.ndarray: ...
    @property
    def tails(self) -> np.ndarray: ...
    @property
    def units(self) -> np.ndarray: ...
    @property
    def bases(self) -> np.ndarray: ...


class HistogramSource(Source):
    """Rows whose histograms are filled by other means than a loop over blocks."""

    # Numbers that the histograms of one call may have.
    room: int

    @abstractmethod
    def fill(
        self, grid: Grid, centre: np.ndarray, factor: np.ndarray, wants_slopes: bool
    ) -> np.ndarray:
        """Return the cells that `kernels.fill_sums` or `kernels.fill_counts` would fill, bit for
        bit, of rows standardised by `centre` and `factor`."""
