"""Any source, with its rows on a card: looked at here once, and filled into histograms there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from unshuffle import kernels
from unshuffle.core.histogram_source import Grid, HistogramSource
from unshuffle.core.progress import Report, say_nothing
from unshuffle.core.sources import Block, Source
from unshuffle.gpu.devices import Device
from unshuffle.gpu.filling import DeviceRows, Filling, place, start_filling

Total = TypeVar("Total")

# Numbers of the histograms of a call: 256 MB, of which the first point takes about one.
_ROOM = 1 << 25
# Bytes of the card that rows leave to histograms and to what is on its way.
_SPARE = 2 * 8 * _ROOM


@dataclass(frozen=True, eq=False)
class DeviceSource(HistogramSource):
    """Rows of another source on a card.

    They are sent once where they fit its memory, and block by block in every pass where they do
    not; the histograms are the same to the bit.
    """

    inner: Source
    device: Device
    room: int = _ROOM

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return self.inner.n

    @property
    def d(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self.inner.d

    @property
    def n_bags(self) -> int:  # type: ignore[override]
        """Number of bags."""
        return self.inner.n_bags

    def map_reduce(
        self,
        start: Callable[[], Total],
        add: Callable[[Total, Block], None],
        merge: Callable[[Total, Total], Total],
        *,
        needs_rows: bool = True,
        report: Report = say_nothing,
        stage: str = "",
    ) -> Total:
        return self.inner.map_reduce(
            start, add, merge, needs_rows=needs_rows, report=report, stage=stage
        )

    def renumbered(self, codes: np.ndarray) -> DeviceSource:
        return replace(self, inner=self.inner.renumbered(codes))

    @cached_property
    def fits(self) -> bool:
        """Whether all rows fit the memory of the card."""
        return 8 * self.n * self.d + _SPARE <= self.device.free_bytes()

    def fill(
        self, grid: Grid, centre: np.ndarray, factor: np.ndarray, wants_slopes: bool
    ) -> np.ndarray:
        filling = start_filling(self.device, grid, self.d, wants_slopes)
        units = self.device.send(centre), self.device.send(factor)
        if self.fits:
            filling.add(self._held, *units)
        else:
            self._stream(filling, *units)
        return self.device.fetch(filling.cells)

    @cached_property
    def _held(self) -> DeviceRows:
        """All rows on the card, bag by bag."""
        device, lock = self.device, Lock()
        ends = np.concatenate([[0], np.cumsum(self._count_rows())])
        columns = device.make((self.d, self.n), np.float64)
        free = ends[:-1].copy()

        def add(_: None, block: Block) -> None:
            order, parts = kernels.order_by_bag(block.codes, self.n_bags)
            lengths = np.diff(parts)
            targets = np.empty(len(order), np.int64)
            with lock:
                # Where in a bag a row lies is nothing to what is added up.
                targets[order] = np.arange(len(order)) + np.repeat(free - parts[:-1], lengths)
                free[:] += lengths
                place(device, block.X, targets, columns, self.n)

        self.inner.map_reduce(_start_nothing, add, _merge_nothing)
        return DeviceRows(columns, self.n, ends)

    def _count_rows(self) -> np.ndarray:
        def start() -> np.ndarray:
            return np.zeros(self.n_bags, np.int64)

        def add(total: np.ndarray, block: Block) -> None:
            total += np.bincount(block.codes, minlength=self.n_bags)

        def merge(total: np.ndarray, other: np.ndarray) -> np.ndarray:
            return total + other

        return self.inner.map_reduce(start, add, merge, needs_rows=False)

    def _stream(self, filling: Filling, centre: Any, factor: Any) -> None:
        """Send every block, fill, and let it go."""
        device, lock = self.device, Lock()

        def add(_: None, block: Block) -> None:
            order, ends = kernels.order_by_bag(block.codes, self.n_bags)
            m = len(order)
            targets = np.empty(m, np.int64)
            targets[order] = np.arange(m)
            with lock:
                columns = device.make((self.d, m), np.float64)
                place(device, block.X, targets, columns, m)
                filling.add(DeviceRows(columns, m, ends), centre, factor)

        self.inner.map_reduce(_start_nothing, add, _merge_nothing)


def _start_nothing() -> None:
    """Start a total of nothing: what is added up lies on the card."""


def _merge_nothing(total: None, other: None) -> None:
    """Merge nothing."""
