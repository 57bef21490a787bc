"""Text tables read piece by piece, without the whole file in memory.

`WholeFileError` is raised where reading depends on the whole file: other encodings, nameless
columns, categories, and marks that only the whole column decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from unshuffle.errors import InputError
from unshuffle.io.designs.design_matrix import describe_odd_cell, describe_text
from unshuffle.io.table import source_name
from unshuffle.io.text.decoding import decode_text
from unshuffle.io.text.delimited import line_start
from unshuffle.io.text.dialect import Dialect, sniff_dialect
from unshuffle.io.text.notation import NumberFormat, TextColumn, find_number_format, is_number
from unshuffle.io.text.parsing import parse_lines

# Bytes of text at a time: some 40 000 rows of six columns. Larger pieces are no faster.
PIECE_BYTES = 1 << 22
# Bytes from which the dialect is guessed: more than fifty lines, unless these are thousands of
# cells long.
_HEAD_BYTES = 1 << 20
_MARK = b"\xef\xbb\xbf"


class WholeFileError(Exception):
    """Raised where a file has to be read as a whole."""


@dataclass(frozen=True)
class TextFile:
    """A text file with its dialect and the place of its first row."""

    path: str
    dialect: Dialect
    notes: tuple[str, ...]
    first_byte: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return self.dialect.names


@dataclass(frozen=True, eq=False)
class TablePiece:
    """Some rows of a table: columns of numbers, and the cells of the bag column."""

    first_row: int
    numbers: dict[str, np.ndarray]
    # Different cells, and the place of each row's cell among them; None without a bag column.
    bags: tuple[list[str], np.ndarray] | None
    n_bytes: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.numbers.values())))


def open_text(path: str, **given: Any) -> TextFile:
    """Read the beginning of a text file; ``given`` are the known parts of its dialect."""
    if given.get("encoding") is not None:
        raise WholeFileError("an encoding is given")
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head.strip():
        raise InputError(f"{source_name(path)}: the file is empty; it needs column names and rows")
    if head.startswith((b"\x1f\x8b", b"PAR1", b"PK\x03\x04", b"FCS")):
        raise WholeFileError("no plain text")
    n_mark = len(_MARK) if head.startswith(_MARK) else 0
    whole = head[n_mark : head.rfind(b"\n") + 1]
    if not whole or whole.count(b'"') % 2:
        raise WholeFileError("long lines")
    source = source_name(path)
    text, notes = decode_text(_check_utf8(whole), None, source)
    dialect = sniff_dialect(
        text, given.get("delimiter"), given.get("decimal"), given.get("header"), source,
        given.get("thousands"),
    )  # fmt: skip
    if dialect.delimiter == " " or len(dialect.names) < 2 or not all(dialect.names):
        raise WholeFileError("columns that need a second look")
    if len(set(dialect.names)) < len(dialect.names):
        raise WholeFileError("columns of one name")
    noted = ["encoding utf-8-sig (guessed)"] if n_mark else []
    first_byte = n_mark + line_start(whole, dialect.n_header_lines)
    return TextFile(path, dialect, (*noted, *notes, *dialect.notes), first_byte)


def read_pieces(
    file: TextFile, numbers: Sequence[str], bag: str | None, digest: Any = None
) -> Iterator[TablePiece]:
    """Yield the rows of a text file piece by piece; `digest` is updated with all bytes."""
    row, line = 0, file.dialect.n_header_lines
    reader = _PieceReader(file, numbers, bag)
    with open(file.path, "rb") as stream:
        head = stream.read(file.first_byte)
        if digest is not None:
            digest.update(head)
        left = b""
        while True:
            fresh = stream.read(PIECE_BYTES)
            if digest is not None:
                digest.update(fresh)
            left += fresh
            end = len(left) if not fresh else _find_end(left)
            body, left = left[:end], left[end:]
            if body.strip():
                piece = reader.read(_check_utf8(body), row, line, len(fresh))
                yield piece
                row, line = row + piece.n_rows, line + body.count(b"\n")
            if not fresh:
                return


def _find_end(text: bytes) -> int:
    """Return the end of the last whole line; a line may go on inside quotation marks."""
    end = text.rfind(b"\n") + 1
    n_quotes = text.count(b'"', 0, end)
    while end and n_quotes % 2:
        before = text.rfind(b"\n", 0, end - 1) + 1
        n_quotes -= text.count(b'"', before, end)
        end = before
    if not end and len(text) > 4 * PIECE_BYTES:
        raise WholeFileError("a line or a quotation without end")
    return end


def _check_utf8(text: bytes) -> bytes:
    """Return a piece of UTF-8 text with plain line ends; refuse any other."""
    if b"\0" in text:
        raise WholeFileError("zero bytes")
    if not text.isascii():
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise WholeFileError("another encoding") from exc
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
        if b"\r" in text:
            raise WholeFileError("old line ends")
    return text


class _PieceReader:
    """Reads the pieces of a file in order.

    The marks of a column must have one reading, the same in every piece; the reader keeps what the
    pieces before have shown.
    """

    def __init__(self, file: TextFile, numbers: Sequence[str], bag: str | None) -> None:
        self._file, self._numbers = file, numbers
        names = file.names
        self._places = [names.index(name) for name in numbers]
        self._bag = None if bag is None else names.index(bag)
        self._kinds = list(file.dialect.kinds)
        # Columns with decimals of one reading, with numbers without marks, with ambiguous marks.
        self._clear = {j for j, kind in enumerate(self._kinds) if kind == "decimals"}
        self._plain: set[int] = set()
        self._doubtful: set[int] = set()

    def read(self, body: bytes, row: int, line: int, n_bytes: int) -> TablePiece:
        """Return a piece of whole lines; `row` and `line` count those before it."""
        file, at_bag = self._file, self._bag
        dialect = replace(file.dialect, kinds=tuple(self._kinds), n_header_lines=line)
        places = self._places if at_bag is None else [*self._places, at_bag]
        texts = () if at_bag is None else (at_bag,)
        found = parse_lines(body, dialect, source_name(file.path), places=places, texts=texts)
        numbers = {
            name: self._as_numbers(j, name, column, row)
            for j, name, column in zip(self._places, self._numbers, found, strict=False)
        }
        bags = None
        if isinstance(found[-1], TextColumn) and at_bag is not None:
            bags = [level or "" for level in found[-1].levels], found[-1].codes
            if any(_is_doubtful(cell, dialect) for cell in bags[0]):
                raise WholeFileError("bags named by fractions")
        return TablePiece(row, numbers, bags, n_bytes)

    def _as_numbers(self, j: int, name: str, column: Any, row: int) -> np.ndarray:
        if not isinstance(column, TextColumn):
            if j not in self._clear:
                self._record(j, column)
            return np.asarray(column)
        written, mark = column.find_number_format(), self._file.dialect.decimal
        if written is None:
            self._refuse_text(column, name, row)
        shown = set(written.values())
        if not shown <= {NumberFormat(), NumberFormat(doubt=mark)}:
            raise WholeFileError("numbers with thousands marks")
        if j not in self._clear:
            self._doubtful.add(j)
            self._kinds[j] = "text"
            if NumberFormat() in shown:
                self._plain.add(j)
            self._check(j)
        return column.convert(written, ())

    def _record(self, j: int, values: np.ndarray) -> None:
        """Record whether a column of numbers has fractions or whole numbers."""
        there = values[np.isfinite(values)]
        if (there != np.floor(there)).any():
            self._clear.add(j)
            self._kinds[j] = "decimals" if self._file.dialect.decimal == "." else "text"
        elif len(there):
            self._plain.add(j)
            self._check(j)

    def _check(self, j: int) -> None:
        """Raise for a column whose ambiguous marks only the whole file decides."""
        dialect = self._file.dialect
        is_alone = j not in self._plain and dialect.marks.seen == {dialect.decimal}
        if j in self._doubtful and not is_alone:
            raise WholeFileError("a mark that may separate thousands")

    def _refuse_text(self, column: TextColumn, name: str, row: int) -> NoReturn:
        """Refuse a cell of text in a column of numbers; columns of text are read as a whole."""
        file = self._file
        texts = [level for level in column.levels if level is not None]
        odd = [level for level in texts if not is_number(level, file.dialect.decimal)]
        cell = (odd or texts)[0]
        place = f"{source_name(file.path)}, row {row + column.find_row(cell) + 1}"
        if name == self._numbers[0]:
            raise InputError(describe_text(place, name, cell))
        if row == 0 and len(odd) == len(texts):
            raise WholeFileError("a column of categories")
        raise InputError(describe_odd_cell(place, name, cell))


def _is_doubtful(cell: str, dialect: Dialect) -> bool:
    """Whether a bag name is a number with marks, which Python may read as another number."""
    written = find_number_format(cell)
    has_marks = written is not None and bool(written.doubt or written.thousands)
    return has_marks or (dialect.decimal == "," and "," in cell)
