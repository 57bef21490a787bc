"""Sources that look at their rows and fill histograms themselves, where the rows lie."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

import numpy as np

from unshuffle.data.blocks.sources import Source


class Grid(Protocol):
    """Where the histograms of some points lie: see `kernels.fill_cells`.

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
        """Return the cells that `kernels.fill_cells` would fill, bit for bit, of rows standardised
        by `centre` and `factor`."""


class ScanningSource(Source):
    """Rows that are looked at by other means than a loop over blocks, with the same whole numbers.

    See `kernels.scanning` for what is added up.
    """

    @abstractmethod
    def find_ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the sizes of bags (R), the extremes of columns (d, 2), and of labels (R, 2)."""

    @abstractmethod
    def find_rows(
        self, seed: int, limit: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return hashes, bags and rows of a hash up to the limit; None where more than most are."""

    @abstractmethod
    def add_moments(
        self, base: np.ndarray, factor: np.ndarray, unit: float, cubes: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what `kernels.add_moments` adds up, the third moments where they are wanted."""

    @abstractmethod
    def add_label_squares(self, base: float, factor: float, unit: float) -> int:
        """Return what `kernels.add_label_squares` returns."""

    @abstractmethod
    def add_to_cells(
        self, offsets: np.ndarray, edges: np.ndarray, widths: np.ndarray, unit: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return what `kernels.add_to_cells` adds up: numbers, sums, least and largest labels."""
