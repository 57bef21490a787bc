"""Text and cytometry files as a source of blocks: read once, piece by piece, to a scratch file."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unshuffle.errors import InputError
from unshuffle.io.columns.expressions import is_expression
from unshuffle.io.columns.forgotten_bags import find_forgotten_bag
from unshuffle.io.columns.missing import (
    DROPPED_LABELS,
    Missing,
    describe_dropped,
    describe_missing,
    describe_no_logs,
    describe_none_complete,
    note_logs,
)
from unshuffle.io.columns.remarks import OutlierSearch, numbers_rows, remark_aside, remark_numbers
from unshuffle.io.designs.design_matrix import LARGEST_WHOLE, choose_features, describe_odd_bag
from unshuffle.io.paths import describe_file_bags, find_partitions
from unshuffle.io.reading import check_stems, read_table
from unshuffle.io.sources.scratch_source import ScratchSource, ScratchWriter
from unshuffle.io.table import Table, check_in_all, check_same_names, join_notes, source_name
from unshuffle.io.text.pieces import TablePiece, TextFile, WholeFileError, open_text, read_pieces
from unshuffle.progress import Report, say_nothing


@dataclass(frozen=True)
class ColumnChoice:
    """The columns of a fit as `make_design` takes them; with `log10` labels become logarithms."""

    label: str
    features: tuple[str, ...] | None = None
    bag: str | None = None
    log10: bool = False
    drop_missing: bool = False


@dataclass(frozen=True, eq=False)
class ScratchTable:
    """Rows in a scratch file, with the columns they come from and notes on them."""

    source: ScratchSource
    label: str
    features: tuple[str, ...]
    # The column of bags; None where each file is a bag, or all rows are one.
    bag: str | None
    notes: tuple[str, ...]
    sha256: str
    n_read: int
    # A column that looks like bags where none was named, and its number of values.
    forgotten: tuple[str, int] | None


@dataclass(frozen=True)
class _Chosen:
    """The names of the columns of a fit."""

    label: str
    features: tuple[str, ...]
    bag: str | None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that hold numbers, the label first."""
        return (self.label, *self.features)


def read_to_scratch(
    paths: Sequence[str],
    asked: ColumnChoice,
    *,
    n_jobs: int | None = None,
    report: Report = say_nothing,
    **given: Any,
) -> ScratchTable:
    """Read the columns of a fit from files, piece by piece, to a scratch file.

    Several files are one table if they have the bag column asked for, else each is a bag. ``given``
    are the options of `read_table`. `WholeFileError` is raised for files that have to be read as a
    whole.
    """
    first = _open(paths[0], given)
    reader = _ScratchReader(paths, _make_head(first), asked, report)
    for k, path in enumerate(paths):
        reader.add_file(first if k == 0 else _open(path, given))
    return reader.finish(n_jobs)


class _ScratchReader:
    """Reads files to a scratch file, and collects bags, notes and missing values."""

    def __init__(
        self, paths: Sequence[str], head: Table, asked: ColumnChoice, report: Report
    ) -> None:
        self.paths, self.asked, self.report = paths, asked, report
        self.n_bytes, self.n_all_bytes = 0, sum(Path(path).stat().st_size for path in paths)
        # Names and source of the first file, without its cells.
        self.head = _make_table(head.names, head.source, aliases=head.aliases)
        self.chosen = _choose(head, asked, len(paths))
        self.writer = ScratchWriter(len(self.chosen.features))
        self.notes: list[str] = []
        self.file_notes: list[tuple[str, str]] = []
        self.digests: list[str] = []
        # For each file the cells of the bag column, with their numbers and first rows.
        self.cells: list[dict[str, tuple[int, int]]] = []
        self.n_codes = 0
        self.n_read = 0
        self.missing: dict[str, int] = {}
        # The first missing value (file, row, column, value), and the first label without a
        # logarithm. They are refused in the end, with the number of such rows.
        self.first_missing: tuple[str, int, str, float] | None = None
        self.first_no_log: tuple[str, int, float] | None = None
        self.n_no_log = 0
        self.forgotten: tuple[str, int] | None = None
        self.outliers = OutlierSearch()
        self.numbered: list[str] = []
        self.aside = remark_aside(head) if asked.features is None else []
        if self.chosen.bag is None and len(paths) > 1:
            check_stems(paths)
            self._note_file_bags(head)

    def add_file(self, opened: TextFile | Table) -> None:
        """Read the rows of a file."""
        head = _make_head(opened)
        self._check_columns(head)
        self.file_notes += [(head.source, note) for note in head.notes]
        self.cells.append({})
        digest, n_before = hashlib.sha256(), self.n_read
        for piece in _read(opened, self.chosen, digest):
            self._add_piece(piece, head.source)
        if self.n_read == n_before:
            raise InputError(
                f"{head.source}: no rows of data, only column names; is the file complete?"
            )
        self.digests.append(head.sha256 or digest.hexdigest())

    def _check_columns(self, head: Table) -> None:
        """Refuse a file with other columns; where features are named, with other used columns."""
        tables = [self.head, head]
        if self.asked.features is None:
            check_same_names(tables)
            return
        bag = self.chosen.bag
        for name in (*self.chosen.numbers, *([] if bag is None else [bag])):
            check_in_all(tables, name)

    def _note_file_bags(self, head: Table) -> None:
        """Note that each file is a bag where no file has the bag column asked for."""
        bag = self.asked.bag
        if bag is None:
            return
        if find_partitions(self.paths, bag) is not None:
            raise WholeFileError("folders name its bags")
        self.notes.append(describe_file_bags(bag, head.names))

    def _add_piece(self, piece: TablePiece, source: str) -> None:
        """Write the complete rows of a piece, and count the others."""
        chosen = self.chosen
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
        self.writer.add(np.column_stack(list(values.values())), y, self._number_bags(piece)[kept])
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
        self, piece: TablePiece, numbers: Mapping[str, np.ndarray], source: str
    ) -> np.ndarray:
        """Return which rows have no missing value, and count the others."""
        chosen = self.chosen
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

    def _number_bags(self, piece: TablePiece) -> np.ndarray:
        """Return the number of each row's bag: of its cell in this file, or of the file."""
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

    def finish(self, n_jobs: int | None) -> ScratchTable:
        """Return the rows of all files; refuse missing values unless they are dropped."""
        head, chosen = self.head, self.chosen
        if not self.asked.drop_missing:
            self._refuse_missing(chosen.label)
        if self.writer.n == 0:
            raise InputError(describe_none_complete(head.source, self.missing))
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
        return ScratchTable(
            source, chosen.label, chosen.features, chosen.bag, notes, digest, self.n_read,
            self.forgotten,
        )  # fmt: skip

    def _refuse_missing(self, label: str) -> None:
        """Refuse missing values, with their number and the first."""
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
        """Return notes on logarithms, dropped rows and odd columns."""
        missing: Missing = "drop" if self.asked.drop_missing else "error"
        notes = [note_logs(missing)] if self.asked.log10 else []
        n_dropped = self.n_read - self.writer.n
        if n_dropped:
            dropped = describe_dropped(source, n_dropped, self.n_read, self.missing)
            notes += [dropped, DROPPED_LABELS]
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
                    place = f"{source_name(path)}, row {row + 1}"
                    raise InputError(describe_odd_bag(place, bag, key))
                # Rows with missing cells were not written.
                numbers.append(names.setdefault(key, len(names)) if cell else 0)
        return numbers, list(names)


def _open(path: str, given: Mapping[str, Any]) -> TextFile | Table:
    """Return a text file opened, or the table of an FCS file."""
    how = {name: value for name, value in given.items() if name != "allow_offset_error"}
    try:
        with open(path, "rb") as file:
            is_fcs = file.read(3) == b"FCS"
    except OSError as exc:  # explained when it is read as a whole
        raise WholeFileError("it cannot be opened") from exc
    return read_table(path, **given) if is_fcs else open_text(path, **how)


def _make_head(opened: TextFile | Table) -> Table:
    """Return the table of an FCS file, or names and notes of a text file."""
    if isinstance(opened, Table):
        return opened
    return _make_table(opened.names, source_name(opened.path), notes=opened.notes)


def _make_table(names: tuple[str, ...], source: str, **facts: Any) -> Table:
    """Return a table without rows."""
    return Table(names, {name: np.empty(0) for name in names}, 0, source, **facts)


def _choose(head: Table, asked: ColumnChoice, n_files: int) -> _Chosen:
    """Return the columns asked for; refuse unknown ones."""
    if is_expression(asked.label, [*head.names, *head.aliases]):
        raise WholeFileError("its label is an expression")
    label = head.find(asked.label, "label column")
    bag = asked.bag
    if bag is not None and (n_files == 1 or bag in head.columns):
        bag = head.find(bag, "bag column")
    else:
        bag = None
    features = choose_features(head, asked.features, {"label": label, "bag": bag})
    return _Chosen(label, tuple(features), bag)


def _read(opened: TextFile | Table, chosen: _Chosen, digest: Any) -> Iterator[TablePiece]:
    """Yield the rows of a text file in pieces, or those of a table at once."""
    if isinstance(opened, TextFile):
        yield from read_pieces(opened, chosen.numbers, chosen.bag, digest)
        return
    if chosen.bag is not None or any(opened.columns[n].dtype == object for n in chosen.numbers):
        raise WholeFileError("a table that is read as a whole")
    size = sum(column.nbytes for column in opened.columns.values())
    yield TablePiece(0, {name: opened.columns[name] for name in chosen.numbers}, None, size)


def _as_column(own: Mapping[str, tuple[int, int]]) -> list[float] | None:
    """Return the cells of a file's bag column as numbers; None where one is text."""
    if any("_" in cell for cell in own):
        return None  # Python reads 1_000 as a number, no other program does
    try:
        return [float(cell or "nan") for cell in own]
    except ValueError:
        return None


def _is_whole(value: float) -> bool:
    return bool(value == np.floor(value) and abs(value) < LARGEST_WHOLE)
