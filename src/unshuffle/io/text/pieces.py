"""Text tables piece by piece: what a fit needs of a file that is never in memory as a whole.

Where anything needs all of the file (other encodings, nameless columns, categories, marks that only
the whole column can decide) `UnusualError` is raised, and the file is to be read as a whole.
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
from unshuffle.io.text.notation import Texts, Written, find_marks, is_number
from unshuffle.io.text.parsing import parse_lines

# Bytes of text at a time: some 40 000 rows of six columns. Four times as many take 110 MB more and
# are no faster.
PIECE_BYTES = 1 << 22
# Bytes from which the dialect is guessed: more than fifty lines, unless these are thousands of
# cells long.
_HEAD_BYTES = 1 << 20
_MARK = b"\xef\xbb\xbf"


class UnusualError(Exception):
    """Raised where a file is better read as a whole."""


@dataclass(frozen=True)
class TextFile:
    """A text file, how it is written, and where its rows begin."""

    path: str
    dialect: Dialect
    notes: tuple[str, ...]
    first_byte: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return self.dialect.names


@dataclass(frozen=True, eq=False)
class TextPiece:
    """Some lines of a text file: numbers of columns asked for, and the cells of the bag's."""

    first_row: int
    numbers: dict[str, np.ndarray]
    # Different cells, and which of them each row has; None where no bag was asked for.
    bags: tuple[list[str], np.ndarray] | None
    n_bytes: int


def open_text(path: str, **given: Any) -> TextFile:
    """Look at the beginning of a text file; ``given`` is what is known of its dialect."""
    if given.get("encoding") is not None:
        raise UnusualError("an encoding is given")
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head.strip():
        raise InputError(f"{source_name(path)}: the file is empty; it needs column names and rows")
    if head.startswith((b"\x1f\x8b", b"PAR1", b"PK\x03\x04", b"FCS")):
        raise UnusualError("no plain text")
    n_mark = len(_MARK) if head.startswith(_MARK) else 0
    whole = head[n_mark : head.rfind(b"\n") + 1]
    if not whole or whole.count(b'"') % 2:
        raise UnusualError("long lines")
    source = source_name(path)
    text, notes = decode_text(_check_utf8(whole), None, source)
    dialect = sniff_dialect(
        text, given.get("delimiter"), given.get("decimal"), given.get("header"), source,
        given.get("thousands"),
    )  # fmt: skip
    if dialect.delimiter == " " or len(dialect.names) < 2 or not all(dialect.names):
        raise UnusualError("columns that need a second look")
    if len(set(dialect.names)) < len(dialect.names):
        raise UnusualError("columns of one name")
    noted = ["encoding utf-8-sig (guessed)"] if n_mark else []
    first_byte = n_mark + line_start(whole, dialect.n_header_lines)
    return TextFile(path, dialect, (*noted, *notes, *dialect.notes), first_byte)


def read_pieces(
    file: TextFile, numbers: Sequence[str], bag: str | None, digest: Any = None
) -> Iterator[TextPiece]:
    """Yield the rows of a text file piece by piece; `digest` is given all of its bytes."""
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
                n_rows = len(next(iter(piece.numbers.values())))
                row, line = row + n_rows, line + body.count(b"\n")
            if not fresh:
                return


def _find_end(text: bytes) -> int:
    """Return where the last whole line ends; quotation marks around line ends stay together."""
    end = text.rfind(b"\n") + 1
    n_quotes = text.count(b'"', 0, end)
    while end and n_quotes % 2:
        before = text.rfind(b"\n", 0, end - 1) + 1
        n_quotes -= text.count(b'"', before, end)
        end = before
    if not end and len(text) > 4 * PIECE_BYTES:
        raise UnusualError("a line or a quotation without end")
    return end


def _check_utf8(text: bytes) -> bytes:
    """Return a piece of text with plain line ends; raise where it is anything but UTF-8."""
    if b"\0" in text:
        raise UnusualError("zero bytes")
    if not text.isascii():
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise UnusualError("another encoding") from exc
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
        if b"\r" in text:
            raise UnusualError("old line ends")
    return text


class _PieceReader:
    """Reads the pieces of a file one after the other.

    A column may be read piece by piece where its marks have one reading in every piece, and the
    same. What the pieces before have shown of them is kept in mind.
    """

    def __init__(self, file: TextFile, numbers: Sequence[str], bag: str | None) -> None:
        self._file, self._numbers = file, numbers
        names = file.names
        self._places = [names.index(name) for name in numbers]
        self._bag = None if bag is None else names.index(bag)
        self._kinds = list(file.dialect.kinds)
        # Columns that hold decimals beyond doubt, numbers without a mark, and cells in doubt.
        self._clear = {j for j, kind in enumerate(self._kinds) if kind == "decimals"}
        self._plain: set[int] = set()
        self._doubtful: set[int] = set()

    def read(self, body: bytes, row: int, line: int, n_bytes: int) -> TextPiece:
        """Return a piece of whole lines; `row` and `line` are the numbers of those before it."""
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
        if isinstance(found[-1], Texts) and at_bag is not None:
            bags = [level or "" for level in found[-1].levels], found[-1].codes
            if any(_is_doubtful(cell, dialect) for cell in bags[0]):
                raise UnusualError("bags named by fractions")
        return TextPiece(row, numbers, bags, n_bytes)

    def _as_numbers(self, j: int, name: str, column: Any, row: int) -> np.ndarray:
        if not isinstance(column, Texts):
            if j not in self._clear:
                self._look(j, column)
            return np.asarray(column)
        written, mark = column.find_marks(), self._file.dialect.decimal
        if written is None:
            self._refuse_text(column, name, row)
        shown = set(written.values())
        if not shown <= {Written(), Written(doubt=mark)}:
            raise UnusualError("numbers with thousands marks")
        if j not in self._clear:
            self._doubtful.add(j)
            self._kinds[j] = "text"
            if Written() in shown:
                self._plain.add(j)
            self._check(j)
        return column.convert(written, ())

    def _look(self, j: int, values: np.ndarray) -> None:
        """Keep in mind what a column of numbers shows: fractions, or whole numbers."""
        there = values[np.isfinite(values)]
        if (there != np.floor(there)).any():
            self._clear.add(j)
            self._kinds[j] = "decimals" if self._file.dialect.decimal == "." else "text"
        elif len(there):
            self._plain.add(j)
            self._check(j)

    def _check(self, j: int) -> None:
        """Leave a column to the reader of whole files whose cells in doubt need its judgement."""
        dialect = self._file.dialect
        is_alone = j not in self._plain and dialect.marks.seen == {dialect.decimal}
        if j in self._doubtful and not is_alone:
            raise UnusualError("a mark that may separate thousands")

    def _refuse_text(self, column: Texts, name: str, row: int) -> NoReturn:
        """Refuse a cell of text where a column had numbers; columns of text are categories."""
        file = self._file
        texts = [level for level in column.levels if level is not None]
        odd = [level for level in texts if not is_number(level, file.dialect.decimal)]
        cell = (odd or texts)[0]
        place = f"{source_name(file.path)}, row {row + column.find_row(cell) + 1}"
        if name == self._numbers[0]:
            raise InputError(describe_text(place, name, cell))
        if row == 0 and len(odd) == len(texts):
            raise UnusualError("a column of categories")
        raise InputError(describe_odd_cell(place, name, cell))


def _is_doubtful(cell: str, dialect: Dialect) -> bool:
    """Whether a bag's name may be another number than Python reads."""
    written = find_marks(cell)
    has_marks = written is not None and bool(written.doubt or written.thousands)
    return has_marks or (dialect.decimal == "," and "," in cell)
