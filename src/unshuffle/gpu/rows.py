"""Rows and labels in the memory of a card, bag by bag, and their transfer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import iadd
from threading import Lock
from typing import Any

import numpy as np

from unshuffle import kernels
from unshuffle.data.blocks.sources import Block, Source
from unshuffle.gpu.devices import LINES, Device
from unshuffle.progress import Report, say_nothing


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Columns (d, n) and labels (n) on a card, sorted by bag.

    Rows from ``ends[k]`` to ``ends[k + 1]`` are of bag ``bags[k]``.
    """

    columns: Any
    labels: Any
    ends: np.ndarray
    bags: np.ndarray
    # Tiles that were sent already, by their number of rows.
    sent: dict[int, tuple[Any, int]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.ends[-1])

    def renumbered(self, codes: np.ndarray) -> DeviceRows:
        """Return the same rows where bag r has the number ``codes[r]``."""
        return replace(self, bags=codes[self.bags], sent={})

    def cut(self, device: Device, n_rows: int) -> tuple[Any, int]:
        """Return tiles of so many rows (bag, first row, end) on the card, and their number."""
        if n_rows not in self.sent:
            tiles = cut_rows(self.ends, self.bags, n_rows)
            self.sent[n_rows] = device.send(tiles), len(tiles)
        return self.sent[n_rows]


def cut_rows(ends: np.ndarray, bags: np.ndarray, n_rows: int) -> np.ndarray:
    """Return bag, first row and end of pieces of at most so many rows.

    >>> cut_rows(np.array([0, 3, 3, 4]), np.array([1, 2, 0]), 2).tolist()
    [[1, 0, 2], [1, 2, 3], [0, 3, 4]]
    """
    n_pieces = -(-np.diff(ends) // n_rows)
    bag = np.repeat(np.arange(len(bags)), n_pieces)
    piece = np.arange(len(bag)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    first = ends[bag] + n_rows * piece
    last = np.minimum(first + n_rows, ends[bag + 1])
    return np.stack([bags[bag], first, last], axis=1).astype(np.int64)


def send_block(device: Device, block: Block, n_bags: int) -> DeviceRows:
    """Send the rows of a block, without their labels."""
    order, ends = kernels.order_by_bag(block.codes, n_bags)
    targets = np.empty(len(order), np.int64)
    targets[order] = np.arange(len(order))
    columns = device.make((block.X.shape[1], len(order)), np.float64)
    _place(device, block, targets, columns, None)
    return DeviceRows(columns, None, ends, np.arange(n_bags))


def send_source(device: Device, source: Source, report: Report = say_nothing) -> DeviceRows:
    """Send all rows and labels of a source: a look at the bags of rows, and one at all."""
    lock, n_bags = Lock(), source.n_bags
    ends = np.concatenate([[0], np.cumsum(_count_rows(source))])
    columns = device.make((source.d, source.n), np.float64)
    labels = device.make((source.n,), np.float64)
    free = ends[:-1].copy()

    def add(_: None, block: Block) -> None:
        order, parts = kernels.order_by_bag(block.codes, n_bags)
        lengths = np.diff(parts)
        targets = np.empty(len(order), np.int64)
        with lock:
            # Sums do not depend on the place of a row in its bag.
            targets[order] = np.arange(len(order)) + np.repeat(free - parts[:-1], lengths)
            free[:] += lengths
            _place(device, block, targets, columns, labels)

    source.map_reduce(start_nothing, add, merge_nothing, report=report, stage="sending rows")
    return DeviceRows(columns, labels, ends, np.arange(n_bags))


def _place(
    device: Device, block: Block, targets: np.ndarray, columns: Any, labels: Any | None
) -> None:
    """Write rows, and labels where they are wanted, to their places on a card."""
    m, d = block.X.shape
    X, stride = device.send(block.X), columns.shape[1]
    has_labels = labels is not None
    y, labels = (device.send(block.y), labels) if has_labels else (X, columns)
    arguments = (X, y, int(has_labels), device.send(targets), m, stride, columns, labels)
    device.run("place_rows", d, max(1, -(-m // LINES)), 0, arguments)


def _count_rows(source: Source) -> np.ndarray:
    """Return the number of rows of every bag."""

    def start() -> np.ndarray:
        return np.zeros(source.n_bags, np.int64)

    def add(total: np.ndarray, block: Block) -> None:
        total += np.bincount(block.codes, minlength=source.n_bags)

    return source.map_reduce(start, add, iadd, needs_rows=False, needs_labels=False)


def start_nothing() -> None:
    """Return an empty total: the sums are on the card."""


def merge_nothing(total: None, other: None) -> None:
    """Merge empty totals."""
