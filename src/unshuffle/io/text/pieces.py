"""Text tables piece by piece: what a fit needs of a file that is never held as a whole.

Pieces are parsed by pyarrow (the extra ``parquet``). Where anything is out of the ordinary (other
encodings, nameless columns, categories) `UnusualError` is raised, and the file is left to the
reader that holds all of it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unshuffle.errors import InputError
from unshuffle.io.design_matrix import describe_odd_cell, describe_text
from unshuffle.io.table import source_name
from unshuffle.io.text.arrow import as_floats
from unshuffle.io.text.arrow_pieces import PieceReader, UnusualError
from unshuffle.io.text.decoding import decode_text
from unshuffle.io.text.delimited import find_loose_quotes, line_start, read_plain
from unshuffle.io.text.dialect import Dialect, sniff_dialect
from unshuffle.io.text.notation import MISSING, find_marks, is_number

# Bytes of text at a time: some 40 000 rows of six columns. Four times as many take 110 MB more and
# are no faster.
PIECE_BYTES = 1 << 22
# Bytes from which the dialect is guessed: more than fifty lines, unless these are thousands of
# cells long.
_HEAD_BYTES = 1 << 20
_MARK = b"\xef\xbb\xbf"


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
    if importlib.util.find_spec("pyarrow") is None:
        raise UnusualError("no pyarrow")
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
    reader = PieceReader(file.dialect)
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
                piece = _read_piece(_check_utf8(body), file, reader, numbers, bag, row, line)
                yield replace(piece, n_bytes=len(fresh))
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


def _read_piece(
    body: bytes,
    file: TextFile,
    reader: PieceReader,
    numbers: Sequence[str],
    bag: str | None,
    row: int,
    line: int,
) -> TextPiece:
    pa = importlib.import_module("pyarrow")
    names, dialect = file.dialect.names, file.dialect
    places = [names.index(name) for name in numbers]
    at_bag = None if bag is None else names.index(bag)
    found = None
    has_quotes = b'"' in body
    if body.count(b'"') % 2 == 0 and not (
        has_quotes and find_loose_quotes(dialect.delimiter).search(body)
    ):
        with suppress(pa.ArrowException, ValueError):
            found, cells = reader.read(body, places, at_bag, has_quotes=has_quotes)
    if found is None:
        # Says what is wrong with which line; where nothing is, all of the file is needed.
        read_plain(body, replace(dialect, n_header_lines=line), source_name(file.path))
        raise UnusualError("lines that need a second look")
    columns = {name: as_floats(column) for name, column in zip(numbers, found, strict=True)}
    for name, values in columns.items():
        if values.dtype == object:
            _refuse_text(values, name, numbers[0], file, row)
    bags = None if at_bag is None else _encode(cells)
    if bags is not None and any(_is_doubtful(cell, dialect) for cell in bags[0]):
        raise UnusualError("bags named by fractions")
    return TextPiece(row, columns, bags, len(body))


def _is_doubtful(cell: str, dialect: Dialect) -> bool:
    """Whether a bag's name may be another number than Python reads."""
    written = find_marks(cell)
    has_marks = written is not None and bool(written.doubt or written.thousands)
    return has_marks or (dialect.decimal == "," and "," in cell)


def _refuse_text(values: np.ndarray, name: str, label: str, file: TextFile, row: int) -> None:
    """Refuse a cell of text where a column held numbers; columns of text are categories."""
    texts = [(i, v) for i, v in enumerate(values.tolist()) if v is not None]
    odd = next(((i, v) for i, v in texts if not is_number(v, file.dialect.decimal)), texts[0])
    place = f"{source_name(file.path)}, row {row + odd[0] + 1}"
    if name == label:
        raise InputError(describe_text(place, name, odd[1]))
    if row == 0 and not any(is_number(v, file.dialect.decimal) for _, v in texts):
        raise UnusualError("a column of categories")
    raise InputError(describe_odd_cell(place, name, odd[1]))


def _encode(column: Any) -> tuple[list[str], np.ndarray]:
    """Return the different cells of a column of text, missing ones as "", and each row's."""
    compute = importlib.import_module("pyarrow.compute")
    pa = importlib.import_module("pyarrow")
    column = compute.utf8_trim_whitespace(column)
    encoded = pa.concat_arrays(column.chunks).dictionary_encode()
    cells = ["" if cell in MISSING else cell for cell in encoded.dictionary.to_pylist()]
    return cells, encoded.indices.to_numpy().astype(np.int64)
