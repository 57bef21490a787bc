"""Text tables: comma, semicolon, tab, bar or blank separated."""

import re
from collections.abc import Sequence

import numpy as np

from unshuffle.errors import quote
from unshuffle.io.table import Column, Table, check_names, make_table
from unshuffle.io.text.decoding import decode_text
from unshuffle.io.text.dialect import sniff_dialect
from unshuffle.io.text.notation import settle_columns
from unshuffle.io.text.parsing import parse_lines


def read_delimited(
    data: bytes,
    source: str,
    digest: str,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
) -> Table:
    """Read a text table; blanks around a cell carry no meaning."""
    text, notes = decode_text(data, encoding, source)
    dialect = sniff_dialect(text, delimiter, decimal, header, source, thousands)
    names = [name or f"column {i}" for i, name in enumerate(dialect.names, start=1)]
    check_names(names, source)
    if dialect.delimiter == " ":
        text = _join_blanks(text)
    start = line_start(text, dialect.n_header_lines)
    parsed = parse_lines(text, dialect, source, start=start)
    columns, guesses = settle_columns(names, parsed, dialect.marks, source)
    names, columns, dropped = _drop_nameless(names, columns, dialect.names)
    return make_table(names, columns, source, [*notes, *dialect.notes, *guesses, *dropped], digest)


def line_start(text: bytes, n_lines: int) -> int:
    start = 0
    for _ in range(n_lines):
        end = text.find(b"\n", start)
        if end < 0:
            return len(text)
        start = end + 1
    return start


def _join_blanks(text: bytes) -> bytes:
    return re.sub(rb"(?m)^ | $", b"", re.sub(rb"[ \t]+", b" ", text))


def _drop_nameless(
    names: list[str], columns: list[Column], given: Sequence[str]
) -> tuple[list[str], list[Column], list[str]]:
    """Leave out nameless columns that are empty or only count rows, as spreadsheets write them."""
    kept, notes = [], []
    for j, column in enumerate(columns):
        if given[j]:
            kept.append(j)
            continue
        is_empty = column.dtype != object and bool(np.isnan(column).all())
        is_count = column.dtype != object and len(column) > 1 and bool((np.diff(column) == 1).all())
        if (is_empty or is_count) and len(columns) > 1:
            what = "is empty" if is_empty else "only counts rows"
            notes.append(f"column {j + 1} has no name and {what}: left out")
        else:
            kept.append(j)
            notes.append(f"column {j + 1} has no name: called {quote(names[j])}")
    return [names[j] for j in kept], [columns[j] for j in kept], notes
