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
from collections.abc import Mapping
from typing import Any

import numpy as np

from unshuffle.errors import InputError
from unshuffle.files.arrow import fill_floats
from unshuffle.files.decoding import decode_text
from unshuffle.files.delimited import line_start, read_arrow
from unshuffle.files.dialect import Dialect, sniff_dialect
from unshuffle.files.table import Table

# Bytes read at a time: half as many take as long, and eight times as many 30 MB more.
_PIECE = 1 << 22
# Smaller files are read as a whole in no time.
_LEAST = 1 << 22
# Bytes from which the dialect is guessed, and lines that must be among them: one more than a guess
# looks at, so that it is that of the whole text.
_HEAD, _HEAD_LINES = 1 << 18, 51
# Bytes that plain tables do not hold: zeros, old line ends, quotation marks.
_ODD = (b"\0", b"\r", b'"')
# Room for this share of rows more than the first piece lets expect.
_AMPLE = 0.02


def read_numbers(path: str, source: str, digest: Any, **given: Any) -> Table | None:
    """Read a file of plain numbers; None where it is anything else, and nothing is known of it.

    `digest` is given all bytes, unless it is None; ``given`` is what is known of the dialect, but
    for the encoding.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size < _LEAST:
                return None
            importlib.import_module("pyarrow")
            return _read(file, status.st_size, source, digest, given)
    except (OSError, ImportError, InputError, ValueError):
        return None  # named by the reader of whole files


def _read(
    file: Any, size: int, source: str, digest: Any, given: Mapping[str, Any]
) -> Table | None:
    text, n_left = bytearray(2 * _PIECE), 0
    dialect, columns = None, None
    while True:
        n_read = file.readinto(memoryview(text)[n_left : n_left + _PIECE])
        n_held = n_left + n_read
        end = text.rfind(b"\n", 0, n_held) + 1 if n_read else n_held
        if digest is not None:
            digest.update(memoryview(text)[n_left:n_held])
        if not _is_plain(text, n_held):
            return None
        start = 0
        if dialect is None:
            dialect = _find_dialect(bytes(text[: min(end, _HEAD)]), source, given)
            if dialect is None:
                return None
            start = line_start(text, dialect.n_header_lines)
            columns = _Columns(len(dialect.names), (size - start) / max(end - start, 1))
        assert columns is not None
        if start < end and not columns.take(memoryview(text)[start:end], dialect):
            return None
        n_left = n_held - end
        if not n_read:
            break
        if n_left > _PIECE:
            return None
        text[:n_left] = text[end:n_held]
    if not columns.n:
        return None
    values = dict(zip(dialect.names, columns.finish(), strict=True))
    return Table(dialect.names, values, columns.n, source, dialect.notes)


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
    """Columns as they grow."""

    def __init__(self, n_columns: int, n_pieces: float) -> None:
        self.n = 0
        self._values = [np.empty(0) for _ in range(n_columns)]
        self._n_pieces = n_pieces

    def take(self, body: memoryview, dialect: Dialect) -> bool:
        """Take the rows of some lines; say whether all of these are rows of numbers."""
        pa = importlib.import_module("pyarrow")
        n_lines = int(np.count_nonzero(np.frombuffer(body, np.uint8) == ord("\n")))
        n_lines += body[-1] != ord("\n")
        kinds = dict.fromkeys(range(len(self._values)), pa.float64())
        try:
            found = read_arrow(body, dialect, kinds, has_quotes=False)
        except pa.ArrowException:
            return False
        stop = self.n + n_lines
        self._make_room(stop)
        for column, values in zip(found.values(), self._values, strict=True):
            if len(column) != n_lines:  # blank lines are left out
                return False
            fill_floats(column, values[self.n : stop])
        self.n = stop
        return True

    def _make_room(self, n_rows: int) -> None:
        if n_rows <= len(self._values[0]):
            return
        # After the first piece for all of them; memory that is not written to is not taken.
        wanted = int((1.0 + _AMPLE) * max(n_rows * self._n_pieces, n_rows)) + 1
        self._n_pieces = 2.0
        for j, values in enumerate(self._values):
            self._values[j] = np.empty(wanted)
            self._values[j][: self.n] = values[: self.n]

    def finish(self) -> list[np.ndarray]:
        """Return the columns."""
        return [values[: self.n] for values in self._values]
