"""Rows in a scratch file as a source of blocks.

A fit makes hundreds of passes over its rows, and parsing text takes ten times as long as a pass. So
text is parsed once, and its numbers are written to a temporary file without a name, which the
system deletes with the process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import numpy as np

from unshuffle.data.blocks.sources import BLOCK_ROWS, Block, ThreadedSource
from unshuffle.errors import InputError, shorten

Total = TypeVar("Total")


class Scratch:
    """A temporary file without a name: arrays are appended, and read by any thread."""

    def __init__(self) -> None:
        # Unbuffered: a block is larger than any buffer.
        self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed when let go)
        self._lock = Lock()
        self.size = 0

    def append(self, values: np.ndarray) -> None:
        """Write an array at the end."""
        try:
            left = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
            while left:
                left = left[self.file.write(left) :]
        except OSError as exc:
            raise InputError(
                f"no room for a scratch copy of the data in {tempfile.gettempdir()} after "
                f"{self.size / 2**20:.0f} MB ({shorten(exc, 80)}): name a folder with more room by "
                "the variable TMPDIR, or write the data to Parquet, which needs no copy"
            ) from exc
        self.size += values.nbytes

    def read(self, place: int, values: np.ndarray) -> np.ndarray:
        """Fill an array with the bytes at a place."""
        left = values.reshape(-1).view(np.uint8).data
        with self._lock:
            self.file.seek(place)
            while left:
                n_read = self.file.readinto(left)
                if not n_read:
                    raise InputError("the scratch copy of the data was cut off; fit again")
                left = left[n_read:]
        return values


@dataclass(frozen=True)
class _Place:
    """The place of a block in the scratch file (labels, bags, then features), and its rows."""

    first: int
    n_rows: int


@dataclass(frozen=True, eq=False)
class ScratchSource(ThreadedSource):
    """Blocks of a scratch file."""

    scratch: Scratch
    places: tuple[_Place, ...]
    n: int
    d: int
    n_bags: int
    n_jobs: int | None = None

    def gather(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows, labels and numbers of bags as arrays in memory."""
        X, y, codes = np.empty((self.n, self.d)), np.empty(self.n), np.empty(self.n, np.int64)
        row = 0
        for place in self.places:
            (block,), part = self.read(place), slice(row, row + place.n_rows)
            X[part], y[part], codes[part] = block.X, block.y, block.codes
            row += place.n_rows
        return X, y, codes

    def read(
        self, place: _Place, needs_rows: bool = True, needs_labels: bool = True
    ) -> list[Block]:
        m = place.n_rows
        y = np.empty(m if needs_labels else 0)
        if needs_labels:
            self.scratch.read(place.first, y)
        codes = self.scratch.read(place.first + 8 * m, np.empty(m, np.int64))
        X = np.empty((m if needs_rows else 0, self.d))
        if needs_rows:
            self.scratch.read(place.first + 16 * m, X)
        return [Block(X, y, self.number(codes), np.empty(0, np.int64))]


class ScratchWriter:
    """Writes rows, added in pieces of any size, in blocks."""

    def __init__(self, d: int) -> None:
        self.scratch = Scratch()
        self.n = 0
        self._d = d
        self._places: list[_Place] = []
        self._pending: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._n_pending = 0

    def add(self, X: np.ndarray, y: np.ndarray, codes: np.ndarray) -> None:
        """Add rows, labels and the numbers of their bags."""
        self.n += len(y)
        for first in range(0, len(y), BLOCK_ROWS):
            part = slice(first, first + BLOCK_ROWS)
            self._pending.append((X[part], y[part], codes[part]))
            self._n_pending += len(y[part])
            if self._n_pending >= BLOCK_ROWS:
                self._write_block()

    def finish(
        self,
        n_bags: int,
        numbers: Sequence[int],
        n_jobs: int | None,
        names: Sequence[Hashable] | None = None,
    ) -> ScratchSource:
        """Return the source; code k means the bag ``numbers[k]`` of these names."""
        self._write_block()
        return ScratchSource(
            self.scratch, tuple(self._places), self.n, self._d, n_bags, n_jobs,
            numbers=np.asarray(numbers, np.int64),
            bag_names=None if names is None else tuple(names),
        )  # fmt: skip

    def _write_block(self) -> None:
        if not self._n_pending:
            return
        X, y, codes = (np.concatenate(parts) for parts in zip(*self._pending, strict=True))
        self._places.append(_Place(self.scratch.size, len(y)))
        self.scratch.append(np.asarray(y, np.float64) + 0.0)
        self.scratch.append(np.asarray(codes, np.int64))
        self.scratch.append(np.asarray(X, np.float64))
        self._pending, self._n_pending = [], 0
