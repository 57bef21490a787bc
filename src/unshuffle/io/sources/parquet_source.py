"""Parquet files as a source of blocks, read by row groups."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from unshuffle.data.blocks.sources import BLOCK_ROWS, Block, ThreadedSource
from unshuffle.errors import InputError, import_extra, quote, shorten, suggest
from unshuffle.io.parquet import is_index
from unshuffle.io.paths import find_partitions
from unshuffle.io.sources.room import find_room
from unshuffle.progress import Report, say_nothing

Total = TypeVar("Total")

# Most bytes of decoded rows kept in memory: ten million rows of five columns.
CACHE_BYTES = 600 * 10**6


@dataclass(frozen=True)
class RowGroup:
    """A row group: its file, its number, its first row in the file, and its size."""

    path: str
    number: int
    first_row: int
    n_rows: int


class BlockCache:
    """A cache of decoded row groups, up to a number of bytes.

    A fit makes hundreds of passes, and decoding takes five times as long as reading plain numbers.
    """

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._lock = Lock()
        self._blocks: dict[tuple[str, int], list[Block]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockCache, ()  # other processes start with an empty cache

    def find(self, group: RowGroup) -> list[Block] | None:
        """Return the blocks of a row group; None if they are not in the cache."""
        return self._blocks.get((group.path, group.number))

    def add(self, group: RowGroup, blocks: list[Block]) -> None:
        """Add the blocks of a row group if there is room."""
        size = sum(block.X.nbytes + block.y.nbytes + block.codes.nbytes for block in blocks)
        with self._lock:
            if size <= self._room:
                self._room -= size
                self._blocks[group.path, group.number] = blocks

    @property
    def has_room(self) -> bool:
        """Whether there is room for more blocks."""
        return self._room > 0


@dataclass(frozen=True, eq=False)
class ParquetSource(ThreadedSource):
    """Rows of Parquet files, with a bag column or a bag for each file."""

    # The row groups.
    places: tuple[RowGroup, ...]
    n: int
    n_bags: int
    label: str
    features: tuple[str, ...]
    bag: str | None
    names: Mapping[Hashable, int]
    n_jobs: int | None = None
    cache: BlockCache = field(default_factory=BlockCache)

    @property
    def d(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return len(self.features)

    def read(
        self, place: RowGroup, needs_rows: bool = True, needs_labels: bool = True
    ) -> Iterator[Block]:
        cached = self.cache.find(place)
        is_new = cached is None and needs_rows and self.cache.has_room
        found: list[Block] = []
        for block in cached or self._decode(place, needs_rows, needs_labels or is_new):
            if is_new:
                found.append(block)
            X = block.X if needs_rows else block.X[:0]
            y = block.y if needs_labels else block.y[:0]
            yield replace(block, X=X, y=y, codes=self.number(block.codes))
        if is_new:
            self.cache.add(place, found)

    def _decode(self, group: RowGroup, needs_rows: bool, needs_labels: bool) -> Iterator[Block]:
        features = self.features if needs_rows else ()
        labels = [self.label] if needs_labels else []
        wanted = [*features, *labels, *([] if self.bag is None else [self.bag])]
        for first_row, batch in read_batches(group, wanted):
            X = np.empty((batch.num_rows, len(features)))
            for j, name in enumerate(features):
                X[:, j] = _as_numbers(batch.column(name), name, group, first_row)
            y = np.empty(0)
            if needs_labels:
                y = _as_numbers(batch.column(self.label), self.label, group, first_row)
            if self.bag is None:
                codes = np.full(batch.num_rows, self.names[group.path], np.int64)
            else:
                codes = self._number(batch.column(self.bag), group, first_row)
            yield Block(X, y + 0.0, codes, np.empty(0, np.int64))

    def _number(self, column: Any, group: RowGroup, first_row: int) -> np.ndarray:
        keys, places = encode_bags(column, str(self.bag), group, first_row)
        return np.array([self.names[key] for key in keys], np.int64)[places]


def read_batches(group: RowGroup, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
    """Yield columns of a row group in blocks, each with its first row in the file."""
    pa = import_extra("pyarrow", "parquet", "reading Parquet files")
    parquet = import_extra("pyarrow.parquet", "parquet", "reading Parquet files")
    row = group.first_row
    try:
        with parquet.ParquetFile(group.path) as file:
            pieces = file.iter_batches(
                BLOCK_ROWS, row_groups=[group.number], columns=list(columns), use_threads=False
            )
            for piece in pieces:
                yield row, piece
                row += piece.num_rows
    except pa.ArrowCancelled as exc:
        raise KeyboardInterrupt from exc
    except (pa.ArrowException, OSError) as exc:
        raise InputError(
            f"{group.path}: row group {group.number} (from row {row + 1} on) cannot be read "
            f"({shorten(exc, 100)}); write or fetch the file again"
        ) from exc


def _as_numbers(column: Any, name: str, group: RowGroup, first_row: int) -> np.ndarray:
    """Return a column as finite numbers; refuse missing and infinite values."""
    values = np.asarray(column.cast("float64", safe=False).to_numpy(zero_copy_only=False))
    is_wrong = ~np.isfinite(values)
    if is_wrong.any():
        at = int(np.argmax(is_wrong))
        # A missing value reads as NaN.
        what = "is missing" if np.isnan(values[at]) else f"is {values[at]:g}"
        raise InputError(
            f"{group.path}, row {first_row + at + 1}: column {quote(name)} {what}; mend it, leave "
            "the column out, or drop such rows (missing='drop')"
        )
    return values


def encode_bags(
    column: Any, name: str, group: RowGroup, first_row: int
) -> tuple[list[Hashable], np.ndarray]:
    """Return the different bag names of a column, and the place of each row's name."""
    encoded = column.dictionary_encode() if not hasattr(column, "dictionary") else column
    if encoded.null_count:
        at = int(np.argmax(encoded.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(
            f"{group.path}, row {first_row + at + 1}: the bag column {quote(name)} is missing; "
            "mend it, or drop such rows (missing='drop')"
        )
    places = encoded.indices.to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), np.asarray(places, np.int64)


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """Parquet files of the same columns, of which only the metadata are read."""

    paths: tuple[str, ...]
    groups: tuple[RowGroup, ...]
    # Names of columns, and whether they hold numbers.
    columns: Mapping[str, bool]
    # Columns of the index of a frame.
    left_out: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(group.n_rows for group in self.groups)

    def find_sha256(self, report: Report = say_nothing) -> str:
        """Return the hash of the files' bytes, one after another."""
        digest, n_read = hashlib.sha256(), 0
        n_bytes = sum(Path(path).stat().st_size for path in self.paths)
        for path in self.paths:
            with open(path, "rb") as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
                    n_read += len(piece)
                    report("hashing the files", min(1.0, n_read / n_bytes))
        return digest.hexdigest()

    def names_bags(self, bag: str) -> bool:
        """Whether a column, or the folders of all files, name the bags."""
        return bag in self.columns or find_partitions(self.paths, bag) is not None

    def as_source(
        self,
        label: str,
        features: Sequence[str] | None,
        bag: str | None,
        n_jobs: int | None = None,
        report: Report = say_nothing,
    ) -> ParquetSource:
        """Return the source of blocks; `bag` names a column, or is None for a bag each file.

        Folders such as ``bag=3`` stand for a column of that name.
        """
        folders = None if bag in self.columns else find_partitions(self.paths, bag)
        bag = bag if folders is None else None
        for name in (label, *(features or ()), *([] if bag is None else [bag])):
            if name not in self.columns:
                raise InputError(
                    f"{self.paths[0]}: no column {quote(name)}; {suggest(name, self.columns)}"
                )
        chosen = tuple(features or [name for name in self.columns if name not in (label, bag)])
        if not self.columns[label]:
            raise InputError(
                f"{self.paths[0]}: the label column {quote(label)} holds no numbers; name another, "
                "or turn it into numbers first"
            )
        for name in chosen:
            if not self.columns[name]:
                raise InputError(
                    f"{self.paths[0]}: column {quote(name)} holds no numbers; leave it out with "
                    "--features, or turn it into numbers first"
                )
        names: dict[Hashable, int] = {}
        if bag is None:
            numbers = {name: r for r, name in enumerate(dict.fromkeys(folders or self.paths))}
            names = {
                path: numbers[name]
                for path, name in zip(self.paths, folders or self.paths, strict=True)
            }
        else:
            for place, group in enumerate(self.groups):
                report("looking at the bags", place / len(self.groups))
                for first_row, batch in read_batches(group, [bag]):
                    for key in encode_bags(batch.column(bag), bag, group, first_row)[0]:
                        names.setdefault(key, len(names))
        free = find_room()
        room = CACHE_BYTES if free is None else min(CACHE_BYTES, free // 4)
        return ParquetSource(
            self.groups, self.n, len(set(names.values())), label, chosen, bag, names, n_jobs,
            cache=BlockCache(room),
            bag_names=tuple(names) if folders is None else tuple(dict.fromkeys(folders)),
        )  # fmt: skip


def open_parquet(paths: Sequence[str]) -> ParquetTable:
    """Return files of the same columns, of which only the metadata are read."""
    parquet = import_extra("pyarrow.parquet", "parquet", "reading Parquet files")
    groups: list[RowGroup] = []
    columns: dict[str, bool] | None = None
    left_out: dict[str, None] = {}
    for path in paths:
        own, sizes = _open_one(path, parquet)
        left_out |= dict.fromkeys(filter(is_index, own))
        own = {name: is_number for name, is_number in own.items() if not is_index(name)}
        if not sum(sizes):
            raise InputError(f"{path}: the file holds no rows; leave it out")
        columns = columns or own
        if own != columns:
            raise InputError(f"{path}: {_tell_apart(own, columns, paths[0])}")
        first_row = 0
        for number, size in enumerate(sizes):
            if size:
                groups.append(RowGroup(str(path), number, first_row, size))
            first_row += size
    return ParquetTable(tuple(paths), tuple(groups), columns or {}, tuple(left_out))


def _open_one(path: str, parquet: Any) -> tuple[dict[str, bool], list[int]]:
    """Return the columns of a file and the sizes of its row groups."""
    pa = import_extra("pyarrow", "parquet", "reading Parquet files")
    try:
        with open(path, "rb") as start:
            mark = start.read(4)
        if mark and mark != b"PAR1":
            raise InputError(
                f"{path}: named {Path(path).suffix} but not a Parquet file; if it is text, rename "
                "it to .csv"
            )
        with parquet.ParquetFile(path) as file:
            kinds = {
                str(field.name): bool(
                    pa.types.is_integer(field.type)
                    or pa.types.is_floating(field.type)
                    or pa.types.is_decimal(field.type)
                )
                for field in file.schema_arrow
            }
            meta = file.metadata
            return kinds, [meta.row_group(k).num_rows for k in range(meta.num_row_groups)]
    except FileNotFoundError as exc:
        raise InputError(f"{path}: no such file; check the name and the folder") from exc
    except (pa.ArrowException, OSError) as exc:
        raise InputError(
            f"{path}: the Parquet file is empty, broken or cut off ({shorten(exc, 100)}); "
            "write or fetch it again, or leave it out"
        ) from exc


def _tell_apart(own: Mapping[str, bool], others: Mapping[str, bool], first: str) -> str:
    """Return a sentence on how the columns of a file differ from those of the first."""
    for name in others:
        if name not in own:
            return f"has no column {quote(name)}, which {first} has; give files of the same columns"
    for name in own:
        if name not in others:
            return f"has a column {quote(name)} that {first} lacks; give files of the same columns"
    name = next(name for name in own if own[name] != others[name])
    mine, theirs = ("numbers" if kind[name] else "no numbers" for kind in (own, others))
    return f"column {quote(name)} holds {mine}, in {first} {theirs}; give it one type in all files"
