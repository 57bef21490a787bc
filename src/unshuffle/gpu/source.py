"""Sources of blocks whose histograms are filled on a card."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeVar

import numpy as np

from unshuffle.data.blocks.sources import (
    Block,
    Grid,
    HistogramSource,
    Pass,
    ScanningSource,
    Source,
)
from unshuffle.errors import InputError
from unshuffle.gpu import scanning
from unshuffle.gpu.devices import Device, find_device
from unshuffle.gpu.filling import point_bytes, start_filling
from unshuffle.gpu.rows import DeviceRows, merge_nothing, send_block, send_source, start_nothing
from unshuffle.progress import Report, say_nothing

Total = TypeVar("Total")

# Numbers of the histograms of a call: 256 MB, of which a point takes about one.
_ROOM = 1 << 25
# Bytes of the card left for histograms and transfers.
_SPARE = 2 * 8 * _ROOM


@dataclass(frozen=True, eq=False)
class StreamedSource(HistogramSource):
    """Rows that do not fit the card's memory, and are sent block by block in every pass."""

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

    def add_up(self, work: Pass[Total]) -> Total:
        return self.inner.add_up(work)

    def renumbered(self, codes: np.ndarray) -> StreamedSource:
        return replace(self, inner=self.inner.renumbered(codes))

    def fill(
        self, grid: Grid, centre: np.ndarray, factor: np.ndarray, wants_slopes: bool
    ) -> np.ndarray:
        device, lock = self.device, Lock()
        filling = start_filling(device, grid, self.d, wants_slopes)
        units = device.send(centre), device.send(factor)

        def add(_: None, block: Block) -> None:
            with lock:
                filling.add(send_block(device, block, self.n_bags), *units)

        self.inner.map_reduce(start_nothing, add, merge_nothing, needs_labels=False)
        return device.fetch(filling.cells)


@dataclass(frozen=True, eq=False)
class ResidentSource(StreamedSource, ScanningSource):
    """Rows in the memory of a card; `inner` has the same rows on the host."""

    rows: DeviceRows | None = None

    @property
    def resident(self) -> DeviceRows:
        """The rows on the card."""
        assert self.rows is not None  # dataclasses want a default behind that of their base
        return self.rows

    def renumbered(self, codes: np.ndarray) -> ResidentSource:
        return replace(
            self, inner=self.inner.renumbered(codes), rows=self.resident.renumbered(codes)
        )

    def fill(
        self, grid: Grid, centre: np.ndarray, factor: np.ndarray, wants_slopes: bool
    ) -> np.ndarray:
        filling = start_filling(self.device, grid, self.d, wants_slopes)
        filling.add(self.resident, self.device.send(centre), self.device.send(factor))
        return self.device.fetch(filling.cells)

    def find_ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sizes = np.zeros(self.n_bags, np.int64)
        sizes[self.resident.bags] = np.diff(self.resident.ends)
        return sizes, *scanning.scan_ends(self.device, self.resident, self.d)

    def find_rows(
        self, seed: int, limit: int, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        return scanning.find_rows(self.device, self.resident, self.d, seed, limit, most)

    def add_moments(
        self, base: np.ndarray, factor: np.ndarray, unit: float, cubes: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return scanning.scan_moments(self.device, self.resident, base, factor, unit, cubes)

    def add_label_squares(self, base: float, factor: float, unit: float) -> int:
        return scanning.scan_squares(self.device, self.resident, self.d, base, factor, unit)

    def add_to_cells(
        self, offsets: np.ndarray, edges: np.ndarray, widths: np.ndarray, unit: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return scanning.scan_labels(
            self.device, self.resident, self.d, offsets, edges, widths, unit
        )


def move_source(source: Source, name: str | None, report: Report = say_nothing) -> Source:
    """Return a source on the card of this name; the source itself where none is asked for."""
    device = find_device(name)
    return source if device is None else place_source(source, device, report)


def place_source(source: Source, device: Device, report: Report = say_nothing) -> StreamedSource:
    """Send the rows of a source to a card where they fit it, or block by block in every pass."""
    if point_bytes(source.d) > device.shared_bytes // 2:
        raise InputError(
            f"{source.d} columns are more than the card's shared memory has room for: leave device "
            "out to fit on the processor, or use fewer features"
        )
    if 8 * source.n * (source.d + 1) + _SPARE > device.free_bytes():
        return StreamedSource(source, device)
    return ResidentSource(source, device, rows=send_source(device, source, report))
