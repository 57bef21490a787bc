"""Plain tables of numbers, as programs write them: read in pieces, straight into columns.

Text of a piece is read, looked at and parsed while it lies in the nearest memory, and never held
as a whole. Whatever is not plain (quotation marks, blank lines, other letters, text in a cell) is
left to the reader of whole files, which alone says what is wrong or was guessed: here nothing is
ever refused.
"""

from __future__ import annotations

import importlib
import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle
from typing import Any

import numpy as np

from unshuffle.errors import InputError
from unshuffle.io.table import Table
from unshuffle.io.text.arrow import fill_floats
from unshuffle.io.text.arrow_pieces import PieceReader, UnusualError
from unshuffle.io.text.decoding import decode_text
from unshuffle.io.text.delimited import line_start
from unshuffle.io.text.dialect import Dialect, sniff_dialect

# Bytes read at a time, and the longest line. One piece is parsed while the next is read; with two,
# the command line had to wait for its imports, which need the other of two processors.
_PIECE, _LONGEST, _PARSED = 1 << 22, 1 << 16, 1
# Smaller files are read as a whole in no time.
_LEAST = 1 << 22
# Bytes from which the dialect is guessed, and lines that must be among them: one more than a guess
# looks at, so that it is that of the whole text.
_HEAD, _HEAD_LINES = 1 << 18, 51
# Bytes that plain tables do not hold: zeros, old line ends, quotation marks.
_ODD = (b"\0", b"\r", b'"')
# Room for this share of rows more than the first piece lets expect.
_AMPLE = 0.02


def read_numbers(
    path: str, source: str, digest: Any, apart: Sequence[str] = (), **given: Any
) -> Table | None:
    """Read a file of plain numbers; None where it is anything else, and nothing is known of it.

    `digest` is given all bytes, unless it is None. Columns lie row by row, as a fit needs them, but
    for those that are to stand `apart`. ``given`` is what is known of the dialect, but for the
    encoding.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size < _LEAST:
                return None
            importlib.import_module("pyarrow")
            return _read(file, status.st_size, source, digest, apart, given)
    except (OSError, ImportError, InputError, UnusualError, ValueError):
        return None  # named by the reader of whole files


def _read(
    file: Any,
    size: int,
    source: str,
    digest: Any,
    apart: Sequence[str],
    given: Mapping[str, Any],
) -> Table | None:
    dialect, columns, pieces = None, None, deque[Future[list[Any] | None]]()
    with ThreadPoolExecutor(_PARSED) as pool:
        for body in _cut(file, digest):
            if body is None:
                return None
            if dialect is None:
                dialect = _find_dialect(bytes(body[:_HEAD]), source, given)
                if dialect is None:
                    return None
                body = body[line_start(bytes(body[:_HEAD]), dialect.n_header_lines) :]
                is_apart = [name in apart for name in dialect.names]
                columns = _Columns(is_apart, size / max(len(body), 1))
                reader = PieceReader(dialect)
            assert columns is not None
            pieces.append(pool.submit(_parse, body, reader, len(dialect.names)))
            if len(pieces) > _PARSED and not columns.take(pieces.popleft().result()):
                return None
        while pieces:
            if columns is None or not columns.take(pieces.popleft().result()):
                return None
    if dialect is None or columns is None or not columns.n:
        return None
    values = dict(zip(dialect.names, columns.finish(), strict=True))
    return Table(dialect.names, values, columns.n, source, dialect.notes)


def _cut(file: Any, digest: Any) -> Iterator[memoryview | None]:
    """Yield pieces of whole lines, or None where one is not plain; the last few stay as they are.

    Buffers are used in turn: one is filled while the pieces in the others are parsed.
    """
    buffers = cycle([bytearray(_PIECE + _LONGEST) for _ in range(_PARSED + 1)])
    left = b""
    for text in buffers:
        text[: len(left)] = left
        n_read = file.readinto(memoryview(text)[len(left) : len(left) + _PIECE])
        n_held = len(left) + n_read
        end = text.rfind(b"\n", 0, n_held) + 1 if n_read else n_held
        if digest is not None:
            digest.update(memoryview(text)[len(left) : n_held])
        left = bytes(memoryview(text)[end:n_held])
        if len(left) > _LONGEST or not _is_plain(text, n_held):
            yield None
        if end:
            yield memoryview(text)[:end]
        if not n_read:
            return


def _parse(body: memoryview, reader: PieceReader, n_columns: int) -> list[Any] | None:
    """Return the columns of some lines; None where not all of these are rows of numbers."""
    pa = importlib.import_module("pyarrow")
    if not len(body):
        return []
    n_lines = int(np.count_nonzero(np.frombuffer(body, np.uint8) == ord("\n")))
    n_lines += body[-1] != ord("\n")
    try:
        found, _ = reader.read(body, range(n_columns), has_quotes=False, is_alone=False)
    except pa.ArrowException:
        return None
    # Blank lines are left out.
    is_whole = all(len(column) == n_lines for column in found)
    has_text = any(isinstance(column, np.ndarray) and column.dtype == object for column in found)
    return found if is_whole and not has_text else None


def _is_plain(text: bytearray, n_held: int) -> bool:
    """Whether the beginning of a buffer holds plain letters alone; it may look at old ones too."""
    return text.isascii() and all(text.find(odd, 0, n_held) < 0 for odd in _ODD)


def _find_dialect(head: bytes, source: str, given: Mapping[str, Any]) -> Dialect | None:
    """Return how a table is written, from its whole first lines; None where it is not plain."""
    head = head[: head.rfind(b"\n") + 1]
    if head.count(b"\n") < _HEAD_LINES or head.startswith((b"FCS", b"PAR1", b"PK")):
        return None
    if head.lstrip().startswith((b"{", b"[")) or decode_text(head, None, source)[1]:
        return None
    dialect = sniff_dialect(head, **given, source=source)
    is_plain = dialect.delimiter != " " and dialect.decimal == "." and len(dialect.names) > 1
    has_names = all(dialect.names) and len(set(dialect.names)) == len(dialect.names)
    return dialect if is_plain and has_names else None


class _Columns:
    """Columns as they grow: row by row in one array, and some apart."""

    def __init__(self, is_apart: Sequence[bool], n_pieces: float) -> None:
        self.n, self._room = 0, 0
        self._is_apart, self._n_pieces = is_apart, n_pieces
        self._values = [np.empty(0) for _ in is_apart]

    def take(self, found: Sequence[Any] | None) -> bool:
        """Take columns of some rows; say whether there were any to take."""
        if found is None:
            return False
        if not found:
            return True
        stop = self.n + len(found[0])
        self._make_room(stop)
        for column, values in zip(found, self._values, strict=True):
            fill_floats(column, values[self.n : stop])
        self.n = stop
        return True

    def _make_room(self, n_rows: int) -> None:
        if n_rows <= self._room:
            return
        # After the first piece for all of them; memory that is not written to is not taken.
        self._room = int((1.0 + _AMPLE) * max(n_rows * self._n_pieces, n_rows)) + 1
        self._n_pieces = 2.0
        beside = np.empty((self._room, len(self._is_apart) - sum(self._is_apart)))
        places = iter(beside.T)
        for j, is_apart in enumerate(self._is_apart):
            grown = np.empty(self._room) if is_apart else next(places)
            grown[: self.n] = self._values[j][: self.n]
            self._values[j] = grown

    def finish(self) -> list[np.ndarray]:
        """Return the columns."""
        return [values[: self.n] for values in self._values]
