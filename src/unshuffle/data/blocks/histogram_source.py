"""Sources that look at their rows and fill histograms themselves, where the rows lie."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np

from unshuffle.data.blocks.sources import Grid, Source


class HistogramSource(Source):
    """Rows whose histograms are filled by other means than a loop over blocks."""

    # Numbers that the histograms of one call may have.
    room: int

    def fill_all(
        self, grids: Iterable[Grid], centre: np.ndarray, factor: np.ndarray, wants_slopes: bool
    ) -> Iterator[np.ndarray]:
        """Yield the cells of each of some grids."""
        return (self.fill(grid, centre, factor, wants_slopes) for grid in grids)

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

    @property
    def scanner(self) -> ScanningSource:
        """Itself."""
        return self

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
