"""Text and cytometry files as a source of blocks: read once, in pieces, into a scratch file."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unshuffle.errors import InputError, quote
from unshuffle.io.columns.expressions import is_expression
from unshuffle.io.columns.forgotten_bags import find_forgotten_bag
from unshuffle.io.columns.missing import (
    Missing,
    describe_missing,
    describe_no_logs,
    list_counts,
    note_logs,
)
from unshuffle.io.columns.remarks import OutlierSearch, numbers_rows, remark_aside, remark_numbers
from unshuffle.io.designs.design_matrix import LARGEST_WHOLE, choose_features
from unshuffle.io.paths import describe_file_bags, find_partitions
from unshuffle.io.reading import check_stems, read_table
from unshuffle.io.sources.scratch_source import ScratchSource, ScratchWriter
from unshuffle.io.table import Table, check_in_all, check_same_names, join_notes, source_name
from unshuffle.io.text.pieces import TextFile, UnusualError, open_text, read_pieces
from unshuffle.progress import Report, say_nothing


@dataclass(frozen=True)
class Asked:
    """What a fit needs of a table: see `make_design`; with `log10` labels become logarithms."""

    label: str
    features: tuple[str, ...] | None = None
    bag: str | None = None
    log10: bool = False
    drop_missing: bool = False


@dataclass(frozen=True, eq=False)
class Laid:
    """Rows laid down in a scratch file, and what is to be said of them."""

    source: ScratchSource
    label: str
    features: tuple[str, ...]
    # The column of bags; None where every file is one, or all are.
    bag: str | None
    notes: tuple[str, ...]
    sha256: str
    n_read: int
    # A column that looks like bags where none was named, and its number of values.
    forgotten: tuple[str, int] | None


@dataclass(frozen=True)
class _Chosen:
    """Columns as a file calls them."""

    label: str
    features: tuple[str, ...]
    bag: str | None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that hold numbers, the label first."""
        return (self.label, *self.features)


@dataclass(frozen=True, eq=False)
class _Piece:
    """Rows of a file: numbers by column, and cells of the bag's column where there is one."""

    first_row: int
    numbers: Mapping[str, np.ndarray]
    bags: tuple[list[str], np.ndarray] | None
    n_bytes: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.numbers.values())))


def lay_down(
    paths: Sequence[str],
    asked: Asked,
    *,
    n_jobs: int | None = None,
    report: Report = say_nothing,
    **given: Any,
) -> Laid:
    """Read files once, piece by piece, and lay down what a fit needs of them.

    Several files are one table where they have the bag column that was asked for, and a bag each
    otherwise. ``given`` are the options of `read_table`. Raises `UnusualError` where files are
    better read as a whole.
    """
    laying = _Laying(paths, asked, given, report)
    for path in paths:
        laying.take(path)
    return laying.finish(n_jobs)


class _Laying:
    """Files on their way into a scratch file."""

    def __init__(
        self, paths: Sequence[str], asked: Asked, given: Mapping[str, Any], report: Report
    ) -> None:
        self.paths, self.asked, self.given, self.report = paths, asked, given, report
        self.n_bytes, self.n_all_bytes = 0, sum(Path(path).stat().st_size for path in paths)
        self.head: Table | None = None
        self.chosen: _Chosen | None = None
        self.writer = ScratchWriter(0)
        self.notes: list[str] = []
        self.file_notes: list[tuple[str, str]] = []
        self.digests: list[str] = []
        # Of each file the cells that name bags, with their numbers and first rows.
        self.cells: list[dict[str, tuple[int, int]]] = []
        self.n_codes = 0
        self.n_read = 0
        self.missing: dict[str, int] = {}
        # File, row, column and value of the first missing value, and the first label that has no
        # logarithm: refused once all rows are counted.
        self.first_missing: tuple[str, int, str, float] | None = None
        self.first_no_log: tuple[str, int, float] | None = None
        self.n_no_log = 0
        self.forgotten: tuple[str, int] | None = None
        self.outliers = OutlierSearch()
        self.numbered: list[str] = []
        self.aside: list[str] = []

    def take(self, path: str) -> None:
        """Read a file."""
        opened = _open(path, self.given)
        head = opened if isinstance(opened, Table) else _make_head(opened)
        if self.head is None:
            self.head = _without_columns(head)
            self.chosen = _choose(head, self.asked, len(self.paths))
            self.aside = remark_aside(head) if self.asked.features is None else []
            self.writer = ScratchWriter(len(self.chosen.features))
            if self.chosen.bag is None and len(self.paths) > 1:
                check_stems(self.paths)
                self._check_bag(head)
        else:
            self._check_columns(head)
        assert self.chosen is not None
        self.file_notes += [(head.source, note) for note in head.notes]
        self.cells.append({})
        digest, n_before = hashlib.sha256(), self.n_read
        for piece in _read(opened, self.chosen, digest):
            self._take_piece(piece, head.source)
        if self.n_read == n_before:
            raise InputError(
                f"{head.source}: no rows of data, only column names; is the file complete?"
            )
        self.digests.append(head.sha256 or digest.hexdigest())

    def _check_columns(self, head: Table) -> None:
        """Refuse a file that differs in its columns; in unused ones where features are named."""
        assert self.head is not None and self.chosen is not None
        tables = [self.head, head]
        if self.asked.features is None:
            check_same_names(tables)
            return
        bag = self.chosen.bag
        for name in (*self.chosen.numbers, *([] if bag is None else [bag])):
            check_in_all(tables, name)

    def _check_bag(self, head: Table) -> None:
        """Say that files are a bag each although a column was named."""
        bag = self.asked.bag
        if bag is None:
            return
        if find_partitions(self.paths, bag) is not None:
            raise UnusualError("folders name its bags")
        self.notes.append(describe_file_bags(bag, head.names))

    def _take_piece(self, piece: _Piece, source: str) -> None:
        chosen = self.chosen
        assert chosen is not None
        if self.n_read == 0 and self.asked.bag is None and len(self.paths) == 1:
            columns = {name: piece.numbers[name] for name in chosen.features}
            table = Table(chosen.features, columns, piece.n_rows, source)
            self.forgotten = find_forgotten_bag(table, self.asked.features or ())
        if self.n_read == 0 and self.asked.features is None:
            self.numbered = [
                name for name in chosen.features if numbers_rows(piece.numbers[name], name)
            ]
        numbers = dict(piece.numbers)
        if self.asked.log10:
            y = numbers[chosen.label]
            self._count_no_logs(y, piece.first_row, source)
            numbers[chosen.label] = np.log10(y, out=np.full(len(y), np.nan), where=y > 0)
        kept = self._find_complete(piece, numbers, source)
        rows = np.flatnonzero(kept) + piece.first_row + 1
        values = {name: numbers[name][kept] for name in chosen.numbers}
        for name, column in values.items():
            is_log = self.asked.log10 and name == chosen.label
            self.outliers.look(name, column, rows, source, is_log)
        y = values.pop(chosen.label)
        self.writer.add(np.column_stack(list(values.values())), y, self._number(piece)[kept])
        self.n_read += piece.n_rows
        self.n_bytes += piece.n_bytes
        self.report("reading", min(1.0, self.n_bytes / max(self.n_all_bytes, 1)))

    def _count_no_logs(self, y: np.ndarray, first_row: int, source: str) -> None:
        without = np.flatnonzero(y <= 0)
        self.n_no_log += len(without)
        if len(without) and self.first_no_log is None:
            at = int(without[0])
            self.first_no_log = (source, first_row + at + 1, float(y[at]))

    def _find_complete(
        self, piece: _Piece, numbers: Mapping[str, np.ndarray], source: str
    ) -> np.ndarray:
        """Return which rows have all their cells, and count the others."""
        chosen = self.chosen
        assert chosen is not None
        there = {name: np.isfinite(numbers[name]) for name in (*chosen.features, chosen.label)}
        if piece.bags is not None and chosen.bag is not None:
            cells, places = piece.bags
            there[chosen.bag] = np.array([bool(cell) for cell in cells], dtype=bool)[places]
        kept = np.logical_and.reduce(list(there.values()))
        if kept.all():
            return kept
        if self.first_missing is None:
            at = int(np.argmin(kept))
            name = next(name for name in there if not there[name][at])
            value = float(numbers[name][at]) if name in numbers else np.nan
            self.first_missing = (source, piece.first_row + at + 1, name, value)
        for name, each in there.items():
            if not each.all():
                self.missing[name] = self.missing.get(name, 0) + int((~each).sum())
        return kept

    def _number(self, piece: _Piece) -> np.ndarray:
        """Return a number for the bag of each row: of its cell in this file, or of the file."""
        own = self.cells[-1]
        cells, places = piece.bags or ([""], np.zeros(piece.n_rows, np.int64))
        codes = np.empty(len(cells), np.int64)
        for k, cell in enumerate(cells):
            if cell not in own:
                row = piece.first_row + int(np.argmax(places == k))
                own[cell] = (self.n_codes, row)
                self.n_codes += 1
            codes[k] = own[cell][0]
        return codes[places]

    def finish(self, n_jobs: int | None) -> Laid:
        """Return what was laid down."""
        head, chosen = self.head, self.chosen
        assert head is not None and chosen is not None
        if not self.asked.drop_missing:
            self._refuse_missing(chosen.label)
        if self.writer.n == 0:
            worst = max(self.missing, key=lambda name: self.missing[name], default=chosen.label)
            raise InputError(
                f"{head.source}: every row misses a value (column {quote(worst)} in "
                f"{self.missing.get(worst, 0)} rows); leave such columns out"
            )
        several = len(self.paths) > 1
        names: list[Hashable] | None = None
        if chosen.bag is None:
            numbers = list(range(self.n_codes)) if several else [0] * self.n_codes
        else:
            numbers, names = self._name_bags(chosen.bag)
        digest = self.digests[0]
        if len(self.digests) > 1:
            digest = hashlib.sha256("".join(self.digests).encode()).hexdigest()
        source = self.writer.finish(max(numbers) + 1, numbers, n_jobs, names)
        more = f" and {len(self.paths) - 1} more" if several else ""
        noted = join_notes(self.file_notes) if several else [note for _, note in self.file_notes]
        notes = (*self.notes, *noted, *self._describe(head.source + more))
        return Laid(
            source, chosen.label, chosen.features, chosen.bag, notes, digest, self.n_read,
            self.forgotten,
        )  # fmt: skip

    def _refuse_missing(self, label: str) -> None:
        """Refuse rows that miss a value, with the number of them and the first."""
        if self.first_no_log is not None:
            source, row, value = self.first_no_log
            what = describe_no_logs(source, self.n_no_log, self.n_read, row, label, value)
            raise InputError(what)
        if self.first_missing is not None:
            n_missing = self.n_read - self.writer.n
            source, row, name, value = self.first_missing
            raise InputError(
                describe_missing(
                    source, n_missing, self.n_read, row, name, value, counts=self.missing
                )
            )

    def _describe(self, source: str) -> list[str]:
        missing: Missing = "drop" if self.asked.drop_missing else "error"
        notes = [note_logs(missing)] if self.asked.log10 else []
        n_dropped = self.n_read - self.writer.n
        if n_dropped:
            notes += [
                f"{source}: dropped {n_dropped} of {self.n_read} rows with missing or infinite "
                f"values ({list_counts(self.missing)})",
                "labels are not linked to rows, so a dropped row takes along a label of its bag "
                "that may belong to another row",
            ]
        return [*notes, *self.outliers.describe(), *remark_numbers(self.numbered), *self.aside]

    def _name_bags(self, bag: str) -> tuple[list[int], list[Hashable]]:
        """Return the number of the bag of every cell, and the names: whole numbers, or text."""
        columns = [_as_column(own) for own in self.cells]
        all_numbers = all(values is not None for values in columns)
        names: dict[Any, int] = {}
        numbers: list[int] = []
        for path, own, values in zip(self.paths, self.cells, columns, strict=True):
            for k, (cell, (_, row)) in enumerate(own.items()):
                key: Any = cell
                if values is not None:
                    key = values[k] if all_numbers else f"{values[k]:.17g}"
                if all_numbers and cell and not _is_whole(key):
                    raise InputError(
                        f"{source_name(path)}, row {row + 1}: the bag column {quote(bag)} holds "
                        f"{key:.17g}, which names no bag; use whole numbers below 2^53 or text"
                    )
                # Missing cells are on no row that was laid down.
                numbers.append(names.setdefault(key, len(names)) if cell else 0)
        return numbers, list(names)


def _open(path: str, given: Mapping[str, Any]) -> TextFile | Table:
    """Open a text file, or read any other as a whole."""
    how = {name: value for name, value in given.items() if name != "allow_offset_error"}
    try:
        with open(path, "rb") as file:
            is_fcs = file.read(3) == b"FCS"
    except OSError as exc:  # named in the words of whole files
        raise UnusualError("it cannot be opened") from exc
    return read_table(path, **given) if is_fcs else open_text(path, **how)


def _make_head(file: TextFile) -> Table:
    """Return names and notes of a text file as a table without rows."""
    columns = {name: np.empty(0) for name in file.names}
    return Table(file.names, columns, 0, source_name(file.path), file.notes)


def _without_columns(table: Table) -> Table:
    columns = {name: np.empty(0) for name in table.names}
    return Table(table.names, columns, 0, table.source, aliases=table.aliases)


def _choose(head: Table, asked: Asked, n_files: int) -> _Chosen:
    """Return the columns that are asked for; an unknown one is named."""
    if is_expression(asked.label, [*head.names, *head.aliases]):
        raise UnusualError("its label is an expression")
    label = head.find(asked.label, "label column")
    bag = asked.bag
    if bag is not None and (n_files == 1 or bag in head.columns):
        bag = head.find(bag, "bag column")
    else:
        bag = None
    features = choose_features(head, asked.features, {"label": label, "bag": bag})
    return _Chosen(label, tuple(features), bag)


def _read(opened: TextFile | Table, chosen: _Chosen, digest: Any) -> Iterator[_Piece]:
    if isinstance(opened, TextFile):
        for piece in read_pieces(opened, chosen.numbers, chosen.bag, digest):
            yield _Piece(piece.first_row, piece.numbers, piece.bags, piece.n_bytes)
        return
    if chosen.bag is not None or any(opened.columns[n].dtype == object for n in chosen.numbers):
        raise UnusualError("a table that is read as a whole")
    size = sum(column.nbytes for column in opened.columns.values())
    yield _Piece(0, {name: opened.columns[name] for name in chosen.numbers}, None, size)


def _as_column(own: Mapping[str, tuple[int, int]]) -> list[float] | None:
    """Return the cells of a file's bag column as numbers; None where one of them is none."""
    if any("_" in cell for cell in own):
        return None  # Python reads 1_000 as a number, no other program does
    try:
        return [float(cell or "nan") for cell in own]
    except ValueError:
        return None


def _is_whole(value: float) -> bool:
    return bool(value == np.floor(value) and abs(value) < LARGEST_WHOLE)
