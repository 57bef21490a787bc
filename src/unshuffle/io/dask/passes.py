"""Passes over pieces of Dask: tasks that add up, and a tree of merges.

On a cluster tasks are handed over one by one, those of the next passes before the first is done;
without one Dask's threads or processes take a graph for every pass.
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

# Totals that a merge takes at a time: a tree of few levels, none of whose nodes holds many totals.
_FAN_IN = 8
# So few totals are merged here: one of two would travel anyway, and a task more takes 10 ms a pass.
_LAST = 2
# Passes that workers have before them while something is made here of the one before: the next, and
# one more for who is done with it sooner. Workers hold so many totals of up to 12 MB and one.
AHEAD = 2
# A task is tried again so often where its worker was lost.
_RETRIES = 3
# Rows of a block. Dask has its workers give memory back at once, so that numbers of bags of 128 kB
# are new pages for every block: all passes over blocks of 65 536 rows took 1.2 times as long.
_BLOCK_ROWS = 12_288


@dataclass(frozen=True, eq=False)
class SentPass(Pass[Any]):
    """What a pass adds up, with what tasks need for it; nothing is reported from there."""

    n_bags: int = field(kw_only=True)
    numbers: np.ndarray | None = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class Packed:
    """A table of whole numbers, most of whose rows are zero: the others, and their places."""

    places: np.ndarray
    rows: np.ndarray
    n_rows: int


@dataclass(frozen=True, eq=False)
class Parcel:
    """A table of whole numbers that is packed when it goes to another process, and not before."""

    table: np.ndarray

    def __sizeof__(self) -> int:
        """Bytes, by which schedulers decide what to move."""
        return int(self.table.nbytes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the empty cells of histograms: five of six, of 100 000 rows in 20 bags."""
        places = kernels.find_filled(self.table)
        if 2 * len(places) > len(self.table):
            return Parcel, (self.table,)
        return Packed, (places, self.table[places], len(self.table))


def work_here(work: SentPass, groups: Sequence[Sequence[Any]]) -> Any:
    """Let the threads or processes of Dask without a cluster add up groups of pieces."""
    delayed = import_extra("dask", "dask", PURPOSE).delayed
    # One node of the graph, which every task shares, and not an argument copied into each.
    node = delayed(work, name=f"pass-{uuid4().hex}", traverse=False)
    add, join = delayed(_add_up, pure=False), delayed(_join, pure=False)
    totals = [add(node, group) for group in groups]
    return finish(work, compute(_join_in_tree(totals, lambda part: join(node, part))))


def work_there(
    client: Any, works: Iterable[SentPass], groups: Sequence[Sequence[Any]], is_near: bool
) -> Iterator[Any]:
    """Let the workers of a cluster add up groups of pieces; yield the total of each pass.

    Workers are at the next passes meanwhile.
    """
    waiting = deque[tuple[SentPass, list[Any]]]()

    def fetch() -> Any:
        work, totals = waiting.popleft()
        return finish(work, run(partial(client.gather, direct=is_near), totals))

    for work in works:
        waiting.append((work, run(hand_over, client, work, groups)))
        if len(waiting) > AHEAD:
            yield fetch()
    while waiting:
        yield fetch()


def hand_over(client: Any, work: SentPass, groups: Sequence[Sequence[Any]]) -> list[Any]:
    """Hand a pass over to workers; return the futures of its last totals.

    Tasks are handed over one by one and not as a graph, which takes 10 ms to make for every pass.
    What they add up goes along with each: scattered, it would be lost together with its worker.
    """

    def join(part: list[Any]) -> Any:
        return client.submit(_join, work, part, pure=False, retries=_RETRIES)

    pieces = [[find_future(piece) for piece in group] for group in groups]
    totals = client.map(partial(_add_up, work), pieces, pure=False, retries=_RETRIES)
    return _join_in_tree(totals, join)


def _join_in_tree(totals: list[Any], join: Callable[[list[Any]], Any]) -> list[Any]:
    """Let a few totals at a time be merged until few are left."""
    while len(totals) > _LAST:
        parts = [totals[k : k + _FAN_IN] for k in range(0, len(totals), _FAN_IN)]
        totals = [join(part) if len(part) > 1 else part[0] for part in parts]
    return totals


def finish(work: SentPass, totals: Sequence[Any]) -> Any:
    """Return the total of the last ones."""
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


def _join(work: SentPass, totals: Sequence[Any]) -> Any:
    return pack(_merge(work, totals))


def _merge(work: SentPass, totals: Sequence[Any]) -> Any:
    """Merge totals into a new one: a task that is run again must find its inputs as they were."""
    result = work.start()
    for total in totals:
        result = work.merge(result, unpack(total))
    return result


def pack(total: Any) -> Any:
    """Return a total as it may travel."""
    is_table = isinstance(total, np.ndarray) and total.ndim == 2 and total.dtype == np.int64
    return Parcel(total) if is_table else total


def unpack(total: Any) -> Any:
    """Return a total that may have travelled."""
    if isinstance(total, Parcel):
        return total.table
    if not isinstance(total, Packed):
        return total
    whole = np.zeros((total.n_rows, total.rows.shape[1]), total.rows.dtype)
    whole[total.places] = total.rows
    return whole
