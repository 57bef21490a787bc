"""Dask collections as a source of blocks: partitions stay on their workers, only totals are sent.

Partitions become arrays once and are persisted by the running scheduler. A pass is one task for
each thread of each worker, over the partitions on that worker, and a tree of merges. Sums are of
whole numbers, so partitions, workers and lost workers do not change the bits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from unshuffle.data.blocks.sources import NumberedSource, Pass
from unshuffle.errors import InputError, import_extra
from unshuffle.io.dask.calls import PURPOSE, compute, find_client, find_future, run
from unshuffle.io.dask.passes import SentPass, compute_here, compute_on_cluster
from unshuffle.io.dask.pieces import Piece, describe_piece, recode_piece, sort_piece
from unshuffle.io.sources.parquet_source import ParquetSource, RowGroup

Total = TypeVar("Total")

# Addresses of schedulers and workers on this machine.
_NEAR = ("tcp://127.0.0.1:", "tcp://localhost:", "inproc://")
# Rows of Parquet that are one partition, unless a row group has more: 50 MB with five columns.
_PARTITION_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class DaskSource(NumberedSource):
    """Persisted pieces; `groups` are the places of the pieces of each task."""

    pieces: tuple[Any, ...]
    groups: tuple[tuple[int, ...], ...]
    n: int
    d: int
    n_bags: int
    # Whether all workers are on this machine: totals are then fetched directly.
    is_near: bool = False

    def add_up(self, work: Pass[Total]) -> Total:
        work.report(work.stage, 0.0)
        (total,) = self.add_up_all([work])
        work.report(work.stage, 1.0)
        return total

    def add_up_all(self, works: Iterable[Pass[Total]]) -> Iterator[Total]:
        client, sent = find_client(), (self._send(work) for work in works)
        groups = [[self.pieces[k] for k in group] for group in self.groups]
        if client is None:
            return (compute_here(work, groups) for work in sent)
        return compute_on_cluster(client, sent, groups, self.is_near)

    def _send(self, work: Pass[Any]) -> SentPass:
        """Return a pass with the data that its tasks need."""
        return SentPass(
            work.start, work.add, work.merge, work.needs_rows, work.needs_labels,
            n_bags=self.n_bags, numbers=self.numbers,
        )  # fmt: skip

    def gather(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows, labels and numbers of bags as arrays in memory."""
        pieces = compute(self.pieces)
        X, y, codes = (
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("X", "y", "codes")
        )
        return X, y, codes


def _are_near() -> bool:
    """Whether all workers are on this machine, where they can be reached directly."""
    client = find_client()
    if client is None:
        return False
    addresses = [client.scheduler.address, *client.nthreads()]
    return all(address.startswith(_NEAR) for address in addresses)


def as_dask_source(pieces: Sequence[Any]) -> DaskSource:
    """Return the source of delayed pieces, persisted on their workers, with bags numbered."""
    dask = import_extra("dask", "dask", PURPOSE)
    kept = run(dask.persist, *(dask.delayed(sort_piece, pure=False)(piece) for piece in pieces))
    facts = compute([dask.delayed(describe_piece, pure=False)(piece) for piece in kept])
    for k, fact in enumerate(facts):
        if isinstance(fact, str):
            raise InputError(f"partition {k}: {fact}")
    widths = [fact.d for fact in facts]
    for k, d in enumerate(widths):
        if d != widths[0]:
            raise InputError(
                f"partition {k}: X has {d} columns, in partition 0 {widths[0]}; give every "
                "partition the same columns"
            )
    n = sum(fact.n for fact in facts)
    if not n:
        raise InputError(f"{len(facts)} partitions hold no rows at all; check what is read")
    names: dict[Hashable, int] = {}
    for fact in facts:
        for key in fact.keys:
            names.setdefault(key, len(names))
    # Pieces with numbered bags share their arrays with the pieces before, which are released.
    recode = dask.delayed(recode_piece, pure=False)
    coded = [
        recode(piece, np.array([names[key] for key in fact.keys], np.int32))
        for piece, fact in zip(kept, facts, strict=True)
        if fact.n
    ]
    kept = run(dask.persist, *coded)
    compute(
        [dask.delayed(len, pure=False)(piece) for piece in kept]
    )  # wait until they are computed
    kept = _balance(kept, [fact.n for fact in facts if fact.n])
    return DaskSource(
        tuple(kept), _group(kept), n, widths[0], len(names), _are_near(), bag_names=tuple(names)
    )


def spread_parquet(source: ParquetSource) -> DaskSource:
    """Return Parquet files as a source that workers read, some row groups for each partition."""
    delayed = import_extra("dask", "dask", PURPOSE).delayed
    # Workers may have other working directories.
    groups = [replace(group, path=str(Path(group.path).absolute())) for group in source.places]
    if source.bag is None:
        names: dict[Hashable, int] = {
            str(Path(str(path)).absolute()): r for path, r in source.names.items()
        }
        source = replace(source, names=names)
    parts: list[list[RowGroup]] = []
    n_rows = _PARTITION_ROWS
    for group in groups:
        if n_rows + group.n_rows > _PARTITION_ROWS:
            parts.append([])
            n_rows = 0
        parts[-1].append(group)
        n_rows += group.n_rows
    what = delayed(replace(source, places=()), name=f"files-{uuid4().hex}", traverse=False)
    read = delayed(_read_groups, pure=False)
    found = as_dask_source([read(what, part) for part in parts])
    # Pieces number their bags as the source of files does.
    if source.bag_names is None or found.bag_names is None:
        return found
    called = tuple(source.bag_names[int(str(code))] for code in found.bag_names)
    return replace(found, bag_names=called)


def _read_groups(source: ParquetSource, groups: Sequence[RowGroup]) -> Piece | str:
    """Return row groups as a piece, or an error as a sentence."""
    try:
        blocks = [block for group in groups for block in source.read(group)]
    except InputError as exc:
        return str(exc)
    return Piece(
        np.concatenate([block.X for block in blocks]),
        np.concatenate([block.y for block in blocks]),
        np.concatenate([block.codes for block in blocks]),
        tuple(range(source.n_bags)),
    )


def _find_owners(pieces: Sequence[Any]) -> tuple[Any, list[Any], list[str]]:
    """Return client, futures and workers of pieces; None and nothing if they are not on a cluster.

    The worker of a piece that was lost is "".
    """
    client = find_client()
    futures = [] if client is None else [find_future(piece) for piece in pieces]
    if client is None or None in futures:
        return None, [], []
    owners = client.who_has(futures)
    return client, futures, [min(owners.get(each.key, ()), default="") for each in futures]


def _balance(pieces: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Move pieces to workers with fewer rows per thread, for every pass waits for the slowest."""
    client, futures, places = _find_owners(pieces)
    if client is None:
        return list(pieces)
    n_threads = client.nthreads()
    if any(place not in n_threads for place in places):  # a worker was lost: tasks find the pieces
        return list(pieces)
    moves = plan_moves(places, sizes, n_threads)
    delayed = import_extra("dask", "dask", PURPOSE).delayed
    moved = {
        k: client.submit(_stay, futures[k], workers=[place], allow_other_workers=True, pure=False)
        for k, place in moves.items()
    }
    run(client.gather, [client.submit(len, each, pure=False) for each in moved.values()])
    return [delayed(moved[k]) if k in moved else piece for k, piece in enumerate(pieces)]


def _stay(piece: Piece) -> Piece:
    return piece


def plan_moves(
    places: Sequence[str], sizes: Sequence[int], n_threads: Mapping[str, int]
) -> dict[int, str]:
    """Return which pieces move to which workers, to lower the most rows per thread.

    >>> plan_moves(["a", "a", "a", "a", "b", "b"], [5] * 6, {"a": 1, "b": 1})
    {0: 'b'}
    >>> plan_moves(["a", "b", "b"], [9, 5, 5], {"a": 1, "b": 1})
    {}
    """
    load = dict.fromkeys(sorted(n_threads), 0)
    for place, size in zip(places, sizes, strict=True):
        load[place] += size
    moves: dict[int, str] = {}
    for k in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        to = min(load, key=lambda place: (load[place] + sizes[k]) / n_threads[place])
        if (load[to] + sizes[k]) / n_threads[to] < load[places[k]] / n_threads[places[k]]:
            load[places[k]] -= sizes[k]
            load[to] += sizes[k]
            moves[k] = to
    return moves


def _group(pieces: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Divide pieces among threads: those of a worker among its own.

    If a worker is lost later, its pieces are computed again elsewhere, and tasks follow them.
    """
    client, _, places = _find_owners(pieces)
    if client is None:
        dask_system = import_extra("dask.system", "dask", PURPOSE)
        return _deal(range(len(pieces)), int(dask_system.CPU_COUNT))
    n_threads = client.nthreads()
    by_worker: dict[str, list[int]] = {}
    for k, place in enumerate(places):
        by_worker.setdefault(place, []).append(k)
    return tuple(
        group
        for worker, own in sorted(by_worker.items())
        for group in _deal(own, n_threads.get(worker, 1))
    )


def _deal(places: Sequence[int], n_hands: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(places[k::n_hands]) for k in range(min(n_hands, len(places))))
