"""Histograms of predictions on a card: the division of rows, points and cells among blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unshuffle.data.blocks.sources import Grid
from unshuffle.gpu.devices import Device
from unshuffle.gpu.rows import DeviceRows
from unshuffle.kernels.filling import tail_node

# Shared memory of a block of threads: three fit a processor of nearly all cards since 2020, and
# several points share the reading of rows.
_SHARED = 72 * 1024
# Most points of a block, which share the reading of rows.
_MOST_POINTS = 8
# Rows of a block: fewer where the card would have too few blocks, but enough that reading rows
# takes longer than writing cells.
_MOST_ROWS, _LEAST_ROWS = 1 << 16, 1 << 12
# Blocks for each processor of the card: many even out their ends.
_BLOCKS = 16


@dataclass(frozen=True, eq=False)
class Filling:
    """Histograms of a grid on a card, while rows are added.

    `nodes` are those beyond a window, `lows` the first cells that blocks keep for themselves, and
    `wanted` how many cells each point would like there.
    """

    device: Device
    d: int
    n_bags: int
    wants_slopes: bool
    scales: tuple[Any, ...]
    nodes: Any
    means: np.ndarray
    lengths: np.ndarray
    wanted: np.ndarray
    cells: Any

    @property
    def name(self) -> str:
        """The kernel that fills."""
        return "fill_sums" if self.wants_slopes else "fill_counts"

    @property
    def cell_bytes(self) -> int:
        """Shared memory of a cell: its number, and two words for each sum."""
        return 4 * (2 * self.d + 5 if self.wants_slopes else 3)

    def add(self, rows: DeviceRows, centre: Any, factor: Any) -> None:
        """Add rows to the cells; points whose windows are about as wide share blocks."""
        classes = np.ceil(np.log2(self.wanted))
        for each in np.unique(classes):
            self._add_to(np.flatnonzero(classes == each), rows, centre, factor)

    def _add_to(self, chosen: np.ndarray, rows: DeviceRows, centre: Any, factor: Any) -> None:
        device = self.device
        limit = (device.shared_bytes - point_bytes(self.d)) // self.cell_bytes
        window = int(min(self.wanted[chosen].max(), limit))
        each = point_bytes(self.d) + window * self.cell_bytes
        n_own = int(np.clip(min(_SHARED, device.shared_bytes) // each, 1, _MOST_POINTS))
        n_own = min(n_own, len(chosen))
        n_groups = -(-len(chosen) // n_own)
        n_rows = rows.n * n_groups // (_BLOCKS * device.n_processors)
        # Powers of two keep the number of different cuts small.
        n_rows = 1 << int(np.clip(n_rows, _LEAST_ROWS, _MOST_ROWS)).bit_length() - 1
        tiles, n_tiles = rows.cut(device, n_rows)
        # Around the mean, but inside the histogram where that is wide enough.
        lows = self.means - window // 2
        lows = np.maximum(np.minimum(lows, self.lengths - window), 0)
        device.run(
            self.name,
            self.d,
            n_tiles * n_groups,
            n_own * each,
            (
                rows.columns, rows.n, tiles, centre, factor, self.n_bags,
                device.send(chosen.astype(np.int64)), len(chosen), n_own, *self.scales,
                device.send(lows), window, self.nodes, self.cells,
            ),
        )  # fmt: skip


def point_bytes(d: int) -> int:
    """Return the shared memory of a point in a block of threads (`Point` of the kernels)."""
    return 8 * (d + 7)


def start_filling(device: Device, grid: Grid, d: int, wants_slopes: bool) -> Filling:
    """Return empty histograms of a grid on a card."""
    lengths = grid.sizes + 2 * grid.tails
    scales = tuple(
        device.send(np.ascontiguousarray(each))
        for each in (
            grid.weights, grid.curves, grid.per_cell, grid.starts, grid.sizes, grid.tails,
            grid.bases, grid.units,
        )
    )  # fmt: skip
    nodes = np.array([tail_node(k) for k in range(int(grid.tails.max()) + 1)])
    width = d + 3 if wants_slopes else 2
    return Filling(
        device=device,
        d=d,
        n_bags=grid.sizes.shape[1],
        wants_slopes=wants_slopes,
        scales=scales,
        nodes=device.send(nodes),
        means=grid.tails - grid.lows.astype(np.int64),
        lengths=lengths,
        # Half of the even cells, which reach ten sds to either side: in five sds lie all rows of
        # normal columns, and 99 % of skew ones.
        wanted=grid.sizes.max(axis=1) // 2 + 2,
        cells=device.make((int(lengths.sum()), width), np.int64, is_zero=True),
    )
