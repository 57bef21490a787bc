"""Passes over pieces in Dask: one task for each group of pieces, and a tree of merges.

On a cluster tasks are submitted one by one, those of the next passes before the first is done.
Without one, Dask computes a graph for every pass in threads or processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

from unshuffle import kernels
from unshuffle.data.blocks.sources import ArraySource, Pass
from unshuffle.errors import import_extra
from unshuffle.io.dask.calls import PURPOSE, compute, find_future, run
from unshuffle.io.dask.pieces import Piece

# Totals merged by one task.
_FAN_IN = 8
# The last totals are merged in this process, which saves a task of 10 ms.
_LAST = 2
# Passes submitted in advance. Workers keep their totals, of up to 12 MB each.
AHEAD = 2
# How often a task is repeated when its worker is lost.
_RETRIES = 3
# Rows of a block. Workers of Dask return freed memory at once, so large blocks cost new pages.
_BLOCK_ROWS = 12_288


@dataclass(frozen=True, eq=False)
class SentPass(Pass[Any]):
    """A pass with the data that tasks need; tasks report no progress."""

    n_bags: int = field(kw_only=True)
    numbers: np.ndarray | None = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Packed:
    """A sparse table of whole numbers: the rows that are not zero, and their places."""

    places: np.ndarray
    rows: np.ndarray
    n_rows: int


@dataclass(frozen=True, eq=False)
class Parcel:
    """A table of whole numbers that is pickled as a sparse one if most rows are zero."""

    table: np.ndarray

    def __sizeof__(self) -> int:
        """Bytes, by which schedulers decide what to move."""
        return int(self.table.nbytes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the empty cells of histograms, which are most of them."""
        places = kernels.find_filled(self.table)
        if 2 * len(places) > len(self.table):
            return Parcel, (self.table,)
        return Packed, (places, self.table[places], len(self.table))


def compute_here(work: SentPass, groups: Sequence[Sequence[Any]]) -> Any:
    """Return the total of a pass by the threads or processes of Dask without a cluster."""
    delayed = import_extra("dask", "dask", PURPOSE).delayed
    # A node of the graph that all tasks share, in place of a copy in each.
    node = delayed(work, name=f"pass-{uuid4().hex}", traverse=False)
    add, join = delayed(_add_up, pure=False), delayed(_merge_packed, pure=False)
    totals = [add(node, group) for group in groups]
    return finish(work, compute(_join_in_tree(totals, lambda part: join(node, part))))


def compute_on_cluster(
    client: Any, works: Iterable[SentPass], groups: Sequence[Sequence[Any]], is_near: bool
) -> Iterator[Any]:
    """Yield the total of each pass from the workers of a cluster.

    Workers compute the next passes meanwhile.
    """
    waiting = deque[tuple[SentPass, list[Any]]]()

    def fetch() -> Any:
        work, totals = waiting.popleft()
        return finish(work, run(partial(client.gather, direct=is_near), totals))

    for work in works:
        waiting.append((work, run(submit, client, work, groups)))
        if len(waiting) > AHEAD:
            yield fetch()
    while waiting:
        yield fetch()


def submit(client: Any, work: SentPass, groups: Sequence[Sequence[Any]]) -> list[Any]:
    """Submit a pass to workers; return the futures of its last totals.

    Tasks are submitted one by one: a graph takes 10 ms to build. The pass goes along with each
    task, since scattered data are lost together with their worker.
    """

    def join(part: list[Any]) -> Any:
        return client.submit(_merge_packed, work, part, pure=False, retries=_RETRIES)

    pieces = [[find_future(piece) for piece in group] for group in groups]
    totals = client.map(partial(_add_up, work), pieces, pure=False, retries=_RETRIES)
    return _join_in_tree(totals, join)


def _join_in_tree(totals: list[Any], join: Callable[[list[Any]], Any]) -> list[Any]:
    """Merge a few totals at a time until few are left."""
    while len(totals) > _LAST:
        parts = [totals[k : k + _FAN_IN] for k in range(0, len(totals), _FAN_IN)]
        totals = [join(part) if len(part) > 1 else part[0] for part in parts]
    return totals


def finish(work: SentPass, totals: Sequence[Any]) -> Any:
    """Return the merged total of the last ones."""
    return unpack(totals[0]) if len(totals) == 1 else _merge(work, totals)


def _add_up(work: SentPass, pieces: Sequence[Piece]) -> Any:
    """Return the total of some pieces."""
    total = work.start()
    for piece in pieces:
        source = ArraySource(
            piece.X, piece.y, piece.codes, work.n_bags, numbers=work.numbers,
            block_rows=_BLOCK_ROWS,
        )  # fmt: skip
        for place in source.places:
            for block in source.read(place, work.needs_rows, work.needs_labels):
                work.add(total, block)
    return pack(total)


def _merge_packed(work: SentPass, totals: Sequence[Any]) -> Any:
    return pack(_merge(work, totals))


def _merge(work: SentPass, totals: Sequence[Any]) -> Any:
    """Merge totals into a new one; inputs stay unchanged, for a task may run twice."""
    result = work.start()
    for total in totals:
        result = work.merge(result, unpack(total))
    return result


def pack(total: Any) -> Any:
    """Return a total in the form that is pickled compactly."""
    is_table = isinstance(total, np.ndarray) and total.ndim == 2 and total.dtype == np.int64
    return Parcel(total) if is_table else total


def unpack(total: Any) -> Any:
    """Return a total from either form."""
    if isinstance(total, Parcel):
        return total.table
    if not isinstance(total, Packed):
        return total
    whole = np.zeros((total.n_rows, total.rows.shape[1]), total.rows.dtype)
    whole[total.places] = total.rows
    return whole
