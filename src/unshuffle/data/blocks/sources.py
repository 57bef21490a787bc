"""Where rows come from: blocks that fit the memory, and one way to add them up.

A source hands out blocks in any order, to any number of workers; whatever is added up from them
must not depend on it. Other sources (files, clusters, graphics cards) implement the same two
methods, `add_up` and `renumbered`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from math import ceil, sqrt
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np

from unshuffle.data.bag import choose_kind, number_tightly
from unshuffle.progress import Report, say_nothing
from unshuffle.threads import count_threads, map_all, run_all

if TYPE_CHECKING:
    from unshuffle.data.blocks.histogram_source import ScanningSource

Total = TypeVar("Total")

# Rows of a block: 2.6 MB with five columns, and enough work that handing blocks out costs nothing.
BLOCK_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows (m, d), their labels and the numbers of their bags.

    `masses` say how often each row counts; empty: once each. Where rows are not asked for `X` has
    none, and so with labels and `y`.
    """

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    masses: np.ndarray


@dataclass(frozen=True, eq=False)
class Pass(Generic[Total]):
    """What is added up from all blocks.

    Every worker starts a total of its own, adds blocks to it in place, and the totals are merged in
    any order. Rows and labels are read where they are needed, bags always. `report` is told of the
    stage how far it is.
    """

    start: Callable[[], Total]
    add: Callable[[Total, Block], None]
    merge: Callable[[Total, Total], Total]
    needs_rows: bool = True
    needs_labels: bool = True
    report: Report = say_nothing
    stage: str = ""


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


class Source(ABC):
    """Rows and labels with the number of their bag, in blocks."""

    # Numbers of rows, of columns, and of bags.
    n: int
    d: int
    n_bags: int
    # Names of the bags by their numbers, where they have names.
    bag_names: tuple[Hashable, ...] | None = None
    # Numbers that the histograms of one call of `fill_all` may have.
    room: int | None = None

    def fill_all(
        self, grids: Iterable[Grid], centre: np.ndarray, factor: np.ndarray, wants_slopes: bool
    ) -> Iterator[np.ndarray] | None:
        """Yield the cells of each of some grids; None where these are added up block by block."""
        return None

    @property
    def scanner(self) -> ScanningSource | None:
        """The source itself where it adds up passes by other means than a loop over blocks."""
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

        Others may be at the next passes while something is made of a total here.
        """
        for work in works:
            yield self.add_up(work)

    @abstractmethod
    def renumbered(self, codes: np.ndarray) -> Source:
        """Return the same rows where bag r has the number ``codes[r]``."""


@dataclass(frozen=True, eq=False)
class NumberedSource(Source):
    """Rows whose bags get other numbers by a table, and are not read again for it."""

    # The number of the bag that every code means; None: the code.
    numbers: np.ndarray | None = field(default=None, kw_only=True)
    bag_names: tuple[Hashable, ...] | None = field(default=None, kw_only=True)

    def renumbered(self, codes: np.ndarray) -> Self:
        numbers = codes if self.numbers is None else codes[self.numbers]
        return replace(self, numbers=np.asarray(numbers, dtype=np.int64))

    def number(self, codes: np.ndarray) -> np.ndarray:
        """Return the present numbers of bags by their codes."""
        return codes if self.numbers is None else self.numbers[codes]


class ThreadedSource(NumberedSource):
    """Rows that threads of this process read, each at the next place that nobody has taken."""

    # Where blocks are read, and how many threads do.
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
    """Arrays in memory, read where they are."""

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
        """Numbers of the only bag: to make them for every pass takes as long as adding rows up."""
        return np.zeros(min(self.block_rows, self.n), np.int64)

    @cached_property
    def _are_labels_ready(self) -> bool:
        """Whether labels are handed out as they lie: none is a zero, which may be negative."""
        y = self.y
        is_plain = y.dtype == np.float64 and y.flags.c_contiguous and y.flags.writeable
        return bool(is_plain and (y != 0.0).all())


def limit_threads(n_jobs: int | None, n_rows: int) -> int:
    """Return how many threads have a total of their own: few for few blocks.

    Histograms take about as long to make and to merge as a block takes to be counted. With 16
    threads a fit of a million rows took three times the processor time of one.

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
    """Let threads take places in turn, each with a total of its own; merge these two by two."""
    tickets, done = count(), count(1)

    def take(total: Total, stop: Event) -> Total:
        # Taking the next number of a counter is one step of the interpreter, so that no two
        # threads get the same.
        for ticket in iter(tickets.__next__, len(places) + 1):
            if ticket >= len(places) or stop.is_set():
                break
            for block in read(places[ticket]):
                work.add(total, block)
            work.report(work.stage, next(done) / len(places))
        return total

    n_workers = max(1, min(count_threads(n_jobs), len(places)))
    # Made here: allocators keep for a thread what it has freed, 30 MB beside a million rows.
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
