"""Sources of rows in blocks, and sums over the blocks (map and reduce).

Blocks are read in any order by any number of workers, so sums must not depend on the order: they
are of whole numbers. Sources for files, clusters and graphics cards implement `add_up` and
`renumbered`.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from math import ceil, sqrt
from threading import Event
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from unshuffle.data.bag import choose_kind, number_tightly
from unshuffle.progress import Report, say_nothing
from unshuffle.threads import count_threads, map_all, run_all

Total = TypeVar("Total")

# Rows of a block: 2.6 MB with five columns.
BLOCK_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows (m, d), their labels and the numbers of their bags.

    `masses` are the frequencies of rows; empty if all are 1. `X` is empty in a pass without rows,
    and `y` in one without labels.
    """

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    masses: np.ndarray


@dataclass(frozen=True, eq=False)
class Pass(Generic[Total]):
    """A sum over all blocks.

    Every worker starts a total of its own and adds blocks to it in place; the totals are merged in
    any order. Rows and labels are read where the pass needs them. `report` gets the stage and the
    share of blocks that are done.
    """

    start: Callable[[], Total]
    add: Callable[[Total, Block], None]
    merge: Callable[[Total, Total], Total]
    needs_rows: bool = True
    needs_labels: bool = True
    report: Report = say_nothing
    stage: str = ""


class Grid(Protocol):
    """The grids of histograms of some points: see `kernels.fill_cells`.

    The mean prediction of bag r at point p lies ``-lows[p, r]`` cells behind the first node.
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


class Source(ABC):
    """Rows and labels with the number of their bag, in blocks."""

    # Numbers of rows, of columns, and of bags.
    n: int
    d: int
    n_bags: int
    # Names of the bags by their numbers, where they have names.
    bag_names: tuple[Hashable, ...] | None = None
    # Most numbers in the histograms of one call of `fill_all`.
    room: int | None = None

    def fill_all(
        self, grids: Iterable[Grid], centre: np.ndarray, factor: np.ndarray, wants_slopes: bool
    ) -> Iterator[np.ndarray] | None:
        """Yield the histograms of grids; None where they are filled block by block."""
        return None

    @property
    def scanner(self) -> ScanningSource | None:
        """The source itself if it computes passes without a loop over blocks."""
        return None

    def map_reduce(
        self,
        start: Callable[[], Total],
        add: Callable[[Total, Block], None],
        merge: Callable[[Total, Total], Total],
        *,
        needs_rows: bool = True,
        needs_labels: bool = True,
        report: Report = say_nothing,
        stage: str = "",
    ) -> Total:
        """Return the total of all blocks: see `Pass`."""
        return self.add_up(Pass(start, add, merge, needs_rows, needs_labels, report, stage))

    @abstractmethod
    def add_up(self, work: Pass[Total]) -> Total:
        """Return the total of all blocks."""

    def add_up_all(self, works: Iterable[Pass[Total]]) -> Iterator[Total]:
        """Yield the totals of some passes, in order.

        Workers may compute the next passes while the caller uses a total.
        """
        for work in works:
            yield self.add_up(work)

    @abstractmethod
    def renumbered(self, codes: np.ndarray) -> Source:
        """Return the same rows where bag r has the number ``codes[r]``."""


class HistogramSource(Source):
    """A source that fills histograms where its rows are, without a loop over blocks."""

    # Most numbers in the histograms of one call.
    room: int

    def fill_all(
        self, grids: Iterable[Grid], centre: np.ndarray, factor: np.ndarray, wants_slopes: bool
    ) -> Iterator[np.ndarray]:
        """Yield the histograms of grids."""
        return (self.fill(grid, centre, factor, wants_slopes) for grid in grids)

    @abstractmethod
    def fill(
        self, grid: Grid, centre: np.ndarray, factor: np.ndarray, wants_slopes: bool
    ) -> np.ndarray:
        """Return the cells that `kernels.fill_cells` would fill, bit for bit, of rows standardised
        by `centre` and `factor`."""


class ScanningSource(Source):
    """A source that computes the first pass where its rows are, with the same whole numbers.

    `kernels.scanning` defines the sums.
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


@dataclass(frozen=True, eq=False)
class NumberedSource(Source):
    """A source whose bags are renumbered by a table, without reading the rows again."""

    # The number of the bag of each code; None if codes are numbers.
    numbers: np.ndarray | None = field(default=None, kw_only=True)
    bag_names: tuple[Hashable, ...] | None = field(default=None, kw_only=True)

    def renumbered(self, codes: np.ndarray) -> Self:
        numbers = codes if self.numbers is None else codes[self.numbers]
        return replace(self, numbers=np.asarray(numbers, dtype=np.int64))

    def number(self, codes: np.ndarray) -> np.ndarray:
        """Return the numbers of bags by their codes."""
        return codes if self.numbers is None else self.numbers[codes]


class ThreadedSource(NumberedSource):
    """A source read by threads of this process, which take its places in turn."""

    # The places of blocks, and the number of threads.
    places: Sequence[Any]
    n_jobs: int | None

    @abstractmethod
    def read(
        self, place: Any, needs_rows: bool = True, needs_labels: bool = True
    ) -> Iterable[Block]:
        """Return the blocks at a place."""

    def add_up(self, work: Pass[Total]) -> Total:
        def read(place: Any) -> Iterable[Block]:
            return self.read(place, work.needs_rows, work.needs_labels)

        return reduce_in_threads(read, self.places, work, limit_threads(self.n_jobs, self.n))


@dataclass(frozen=True, eq=False)
class ArraySource(ThreadedSource):
    """Arrays in memory as a source, without a copy."""

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    n_bags: int
    n_jobs: int | None = None
    masses: np.ndarray | None = None
    block_rows: int = BLOCK_ROWS

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return len(self.y)

    @property
    def d(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self.X.shape[1]

    @property
    def places(self) -> Sequence[int]:  # type: ignore[override]
        """The first row of every block."""
        return range(0, self.n, self.block_rows)

    def read(self, place: int, needs_rows: bool = True, needs_labels: bool = True) -> list[Block]:
        part = slice(place, min(place + self.block_rows, self.n))
        X = np.ascontiguousarray(self.X[part if needs_rows else slice(0, 0)], dtype=np.float64)
        y = self._find_labels(part) if needs_labels else np.empty(0)
        masses = np.empty(0, np.int64) if self.masses is None else self.masses[part]
        return [Block(X, y, self._find_codes(part), masses)]

    def _find_labels(self, part: slice) -> np.ndarray:
        y = self.y[part]
        return y if self._are_labels_ready else np.asarray(y, dtype=np.float64) + 0.0

    def _find_codes(self, part: slice) -> np.ndarray:
        if self.n_bags == 1:
            return self._only_bag[: part.stop - part.start]
        return np.ascontiguousarray(self.number(self.codes[part]), dtype=np.int64)

    @cached_property
    def _only_bag(self) -> np.ndarray:
        """The codes of the only bag, made once: filling them takes as long as a pass over rows."""
        return np.zeros(min(self.block_rows, self.n), np.int64)

    @cached_property
    def _are_labels_ready(self) -> bool:
        """Whether labels are used without a copy: there is no zero, which may be -0.0."""
        y = self.y
        is_plain = y.dtype == np.float64 and y.flags.c_contiguous and y.flags.writeable
        return bool(is_plain and (y != 0.0).all())


def limit_threads(n_jobs: int | None, n_rows: int) -> int:
    """Return the number of threads with a total of their own: few for few blocks.

    Making and merging the histograms of a thread takes about as long as counting a block.

    >>> [limit_threads(16, n) for n in (1000, 100_000, 1_000_000, 10_000_000, 100_000_000)]
    [1, 2, 4, 13, 16]
    """
    return max(1, min(count_threads(n_jobs), ceil(sqrt(n_rows / BLOCK_ROWS))))


def reduce_in_threads(
    read: Callable[[Any], Iterable[Block]],
    places: Sequence[Any],
    work: Pass[Total],
    n_jobs: int | None,
) -> Total:
    """Sum blocks in threads, each with a total of its own, and merge the totals in pairs."""
    tickets, done = count(), count(1)

    def take(total: Total, stop: Event) -> Total:
        # `next` of a counter is atomic, so no two threads get the same place.
        for ticket in iter(tickets.__next__, len(places) + 1):
            if ticket >= len(places) or stop.is_set():
                break
            for block in read(places[ticket]):
                work.add(total, block)
            work.report(work.stage, next(done) / len(places))
        return total

    n_workers = max(1, min(count_threads(n_jobs), len(places)))
    # Made here: what a thread allocates and frees stays with its allocator.
    totals = run_all(take, [work.start() for _ in range(n_workers)], n_jobs)
    while len(totals) > 1:
        pairs = list(zip(totals[::2], totals[1::2], strict=False))
        totals = map_all(lambda pair: work.merge(*pair), pairs, n_jobs) + totals[2 * len(pairs) :]
    return totals[0]


def number_bags(groups: Sequence[Hashable] | np.ndarray | None, n: int) -> tuple[np.ndarray, int]:
    """Return the number of every row's bag as a small integer, and how many bags there are.

    >>> number_bags(["b", "a", "b"], 3)[1]
    2
    """
    if groups is None:
        return np.zeros(n, np.int8), 1
    codes = number_tightly(groups)
    n_bags = int(codes.max()) + 1
    return codes.astype(choose_kind(n_bags), copy=False), n_bags


def collect_rows(
    source: Source, choose: Callable[[Block], np.ndarray], needs_labels: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bags, rows and labels of all blocks that `choose` picks, one bag after another.

    `choose` returns the places of rows in a block. In each bag rows and labels are sorted, each by
    themselves, so their order does not depend on the blocks. Without `needs_labels` there are none.
    """
    d = source.d

    def start() -> list[tuple[np.ndarray, ...]]:
        return [(np.empty(0, np.int64), np.empty((0, d)), np.empty(0))]

    def add(total: list[tuple[np.ndarray, ...]], block: Block) -> None:
        own = choose(block)
        if len(own):
            y = (block.y[own] if needs_labels else block.y[:0]) + 0.0
            total.append((block.codes[own].astype(np.int64), block.X[own] + 0.0, y))

    parts = source.map_reduce(start, add, operator.add, needs_labels=needs_labels)
    codes, rows, y = (np.concatenate([part[k] for part in parts]) for k in range(3))
    del parts
    order = np.lexsort([*rows.T[::-1], codes])
    return codes[order], rows[order], y[np.lexsort([y, codes])] if needs_labels else y
