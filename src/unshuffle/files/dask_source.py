"""Data of Dask as a source of blocks: partitions stay where they are, and only totals travel.

Partitions become arrays once and are persisted by whatever scheduler is running. A pass is one task
for each thread of each worker, over the partitions that lie there, and a tree of merges. What is
added up are whole numbers, so that partitions, workers and lost workers leave the bits as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from unshuffle.core.sources import ArraySource, NumberedSource, Pass
from unshuffle.errors import InputError, import_extra, shorten
from unshuffle.files.dask_pieces import Piece, describe_piece, recode_piece
from unshuffle.files.parquet_source import ParquetSource, RowGroup

Total = TypeVar("Total")

_PURPOSE = "fitting data of Dask"
# Totals that a merge takes at a time: a tree of few levels, none of whose nodes holds many totals.
_FAN_IN = 8
# So few totals are merged here: one of two would travel anyway, and a task more takes 10 ms a pass.
_LAST = 2
# A task is tried again so often where its worker was lost.
_RETRIES = 3
# Addresses of schedulers and workers on this machine.
_NEAR = ("tcp://127.0.0.1:", "tcp://localhost:", "inproc://")
# Rows of Parquet that are one partition, unless a row group has more: 50 MB with five columns.
_PARTITION_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class _Pass(Pass[Any]):
    """What a pass adds up, with what tasks need for it; nothing is reported from there."""

    n_bags: int = field(kw_only=True)
    numbers: np.ndarray | None = field(kw_only=True)
    # Whether totals go to other processes.
    travels: bool = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class _Packed:
    """A table of whole numbers, most of whose rows are zero: the others, and their places."""

    places: np.ndarray
    rows: np.ndarray
    n_rows: int


@dataclass(frozen=True, eq=False)
class DaskSource(NumberedSource):
    """Persisted pieces; `groups` are the places of those that one task takes."""

    pieces: tuple[Any, ...]
    groups: tuple[tuple[int, ...], ...]
    n: int
    d: int
    n_bags: int
    # Whether all workers are on this machine: totals then need no detour by the scheduler.
    is_near: bool = False

    def add_up(self, work: Pass[Total]) -> Total:
        client = find_client()
        sent = _Pass(
            work.start, work.add, work.merge, work.needs_rows, work.needs_labels,
            n_bags=self.n_bags, numbers=self.numbers, travels=client is not None,
        )  # fmt: skip
        groups = [[self.pieces[k] for k in group] for group in self.groups]
        work.report(work.stage, 0.0)
        if client is None:
            found = _work_here(sent, groups)
        else:
            found = _work_there(client, sent, groups, self.is_near)
        work.report(work.stage, 1.0)
        return _unpack(found[0]) if len(found) == 1 else _merge(sent, found)

    def gather(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows, labels and numbers of bags as arrays in memory."""
        pieces = _compute(self.pieces)
        X, y, codes = (
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("X", "y", "codes")
        )
        return X, y, codes


def _work_here(work: _Pass, groups: Sequence[Sequence[Any]]) -> list[Any]:
    """Let the threads or processes of Dask without a cluster add up groups of pieces."""
    delayed = import_extra("dask", "dask", _PURPOSE).delayed
    # One node of the graph, which every task shares, and not an argument copied into each.
    node = delayed(work, name=f"pass-{uuid4().hex}", traverse=False)
    add_up, join = delayed(_add_up, pure=False), delayed(_join, pure=False)
    totals = [add_up(node, group) for group in groups]
    return _compute(_join_in_tree(totals, lambda part: join(node, part)))


def _work_there(
    client: Any, work: _Pass, groups: Sequence[Sequence[Any]], is_near: bool
) -> list[Any]:
    """Let the workers of a cluster add up groups of pieces.

    Tasks are handed over one by one and not as a graph, which takes 10 ms to make for every pass.
    What they add up goes along with each: scattered, it would be lost together with its worker.
    """

    def join(part: list[Any]) -> Any:
        return client.submit(_join, work, part, pure=False, retries=_RETRIES)

    def run() -> Any:
        pieces = [[_find_future(piece) for piece in group] for group in groups]
        totals = client.map(partial(_add_up, work), pieces, pure=False, retries=_RETRIES)
        return client.gather(_join_in_tree(totals, join), direct=is_near)

    return list(_run(run))


def _join_in_tree(totals: list[Any], join: Callable[[list[Any]], Any]) -> list[Any]:
    """Let a few totals at a time be merged until few are left."""
    while len(totals) > _LAST:
        parts = [totals[k : k + _FAN_IN] for k in range(0, len(totals), _FAN_IN)]
        totals = [join(part) if len(part) > 1 else part[0] for part in parts]
    return totals


def _are_near() -> bool:
    """Whether all workers are on this machine: elsewhere nobody knows who can be reached."""
    client = find_client()
    if client is None:
        return False
    addresses = [client.scheduler.address, *client.nthreads()]
    return all(address.startswith(_NEAR) for address in addresses)


def _add_up(work: _Pass, pieces: Sequence[Piece]) -> Any:
    """Return the total of some pieces."""
    total = work.start()
    for piece in pieces:
        source = ArraySource(piece.X, piece.y, piece.codes, work.n_bags, numbers=work.numbers)
        for place in source.places:
            for block in source.read(place, work.needs_rows, work.needs_labels):
                work.add(total, block)
    return _pack(total) if work.travels else total


def _join(work: _Pass, totals: Sequence[Any]) -> Any:
    total = _merge(work, totals)
    return _pack(total) if work.travels else total


def _merge(work: _Pass, totals: Sequence[Any]) -> Any:
    """Merge totals into a new one: a task that is run again must find its inputs as they were."""
    result = work.start()
    for total in totals:
        result = work.merge(result, _unpack(total))
    return result


def _pack(total: Any) -> Any:
    """Leave out the empty cells of histograms: five of six, of 100 000 rows in 20 bags."""
    if not (isinstance(total, np.ndarray) and total.ndim == 2 and total.dtype.kind == "i"):
        return total
    places = np.flatnonzero(np.bitwise_or.reduce(total, axis=1))
    if 2 * len(places) > len(total):
        return total
    return _Packed(places.astype(np.int32), total[places], len(total))


def _unpack(total: Any) -> Any:
    if not isinstance(total, _Packed):
        return total
    whole = np.zeros((total.n_rows, total.rows.shape[1]), total.rows.dtype)
    whole[total.places] = total.rows
    return whole


def as_dask_source(pieces: Sequence[Any]) -> DaskSource:
    """Persist delayed pieces where they are made, and number the bags that they name."""
    dask = import_extra("dask", "dask", _PURPOSE)
    held = _run(dask.persist, *pieces)
    facts = _compute([dask.delayed(describe_piece, pure=False)(piece) for piece in held])
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
    # The pieces with numbers for names share their arrays with those without, which are let go.
    recode = dask.delayed(recode_piece, pure=False)
    coded = [
        recode(piece, np.array([names[key] for key in fact.keys], np.int32))
        for piece, fact in zip(held, facts, strict=True)
        if fact.n
    ]
    held = _run(dask.persist, *coded)
    _compute([dask.delayed(len, pure=False)(piece) for piece in held])  # made by now, somewhere
    held = _balance(held, [fact.n for fact in facts if fact.n])
    return DaskSource(tuple(held), _group(held), n, widths[0], len(names), _are_near())


def spread_parquet(source: ParquetSource) -> DaskSource:
    """Let workers read Parquet files, some row groups for a partition."""
    delayed = import_extra("dask", "dask", _PURPOSE).delayed
    # Workers may stand in other folders.
    groups = [replace(group, path=str(Path(group.path).absolute())) for group in source.groups]
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
    what = delayed(replace(source, groups=()), name=f"files-{uuid4().hex}", traverse=False)
    read = delayed(_read_groups, pure=False)
    return as_dask_source([read(what, part) for part in parts])


def _read_groups(source: ParquetSource, groups: Sequence[RowGroup]) -> Piece | str:
    """Return row groups as a piece, or what is wrong with them."""
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


def _balance(pieces: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Move pieces to workers that hold fewer rows for a thread: every pass waits for the last.

    Of six pieces one of two workers often makes four.
    """
    client = find_client()
    futures = [] if client is None else [_find_future(piece) for piece in pieces]
    if client is None or None in futures:
        return list(pieces)
    n_threads, homes = client.nthreads(), client.who_has(futures)
    places = [(sorted(homes.get(future.key, ())) or [""])[0] for future in futures]
    if any(place not in n_threads for place in places):  # lost by now; tasks follow what is made
        return list(pieces)
    moves = plan_moves(places, sizes, n_threads)
    delayed = import_extra("dask", "dask", _PURPOSE).delayed
    moved = {
        k: client.submit(_stay, futures[k], workers=[place], allow_other_workers=True, pure=False)
        for k, place in moves.items()
    }
    _run(client.gather, [client.submit(len, each, pure=False) for each in moved.values()])
    return [delayed(moved[k]) if k in moved else piece for k, piece in enumerate(pieces)]


def _stay(piece: Piece) -> Piece:
    return piece


def plan_moves(
    places: Sequence[str], sizes: Sequence[int], n_threads: Mapping[str, int]
) -> dict[int, str]:
    """Return which pieces go to which workers, so that the fullest hold less for a thread.

    >>> plan_moves(["a", "a", "a", "a", "b", "b"], [5] * 6, {"a": 1, "b": 1})
    {0: 'b'}
    >>> plan_moves(["a", "b", "b"], [9, 5, 5], {"a": 1, "b": 1})
    {}
    """
    held = dict.fromkeys(sorted(n_threads), 0)
    for place, size in zip(places, sizes, strict=True):
        held[place] += size
    moves: dict[int, str] = {}
    for k in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        to = min(held, key=lambda place: (held[place] + sizes[k]) / n_threads[place])
        if (held[to] + sizes[k]) / n_threads[to] < held[places[k]] / n_threads[places[k]]:
            held[places[k]] -= sizes[k]
            held[to] += sizes[k]
            moves[k] = to
    return moves


def _group(pieces: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Divide pieces among threads: those of a worker among its own.

    Where a worker is lost afterwards the pieces are made again elsewhere, and the tasks follow.
    """
    client = find_client()
    futures = [] if client is None else [_find_future(piece) for piece in pieces]
    if client is None or None in futures:
        dask_system = import_extra("dask.system", "dask", _PURPOSE)
        return _deal(range(len(pieces)), int(dask_system.CPU_COUNT))
    homes = client.who_has(futures)
    n_threads = client.nthreads()
    by_worker: dict[str, list[int]] = {}
    for k, future in enumerate(futures):
        where = sorted(homes.get(future.key, ())) or [""]
        by_worker.setdefault(where[0], []).append(k)
    return tuple(
        group
        for worker, own in sorted(by_worker.items())
        for group in _deal(own, n_threads.get(worker, 1))
    )


def _deal(places: Sequence[int], n_hands: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(places[k::n_hands]) for k in range(min(n_hands, len(places))))


def find_client() -> Any:
    """Return the client of a running cluster; None where Dask works in this process."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        client = distributed.get_client()
    except ValueError:  # there is none
        return None
    return None if client.asynchronous else client


def _find_future(piece: Any) -> Any:
    """Return the future behind a persisted piece; None where it lies in this process."""
    found = sys.modules["distributed"].futures_of(piece)
    return found[0] if found else None


def _compute(things: Sequence[Any]) -> list[Any]:
    dask = import_extra("dask", "dask", _PURPOSE)
    return list(_run(dask.compute, *things))


def _run(action: Callable[..., Any], *things: Any) -> Any:
    """Let Dask do something; what is wrong with its workers is said in a line."""
    try:
        return action(*things)
    except ImportError as exc:
        raise InputError(
            f"a worker of Dask cannot import what it needs ({shorten(exc, 100)}): install the same "
            "unshuffle there as here"
        ) from exc
    except Exception as exc:
        if type(exc).__name__ not in ("KilledWorker", "FutureCancelledError"):
            raise
        raise InputError(
            f"Dask lost the workers of a task ({shorten(exc, 100)}): give them more memory, or "
            "make partitions smaller"
        ) from exc
