"""Reader of text tables separated by commas, semicolons, tabs, bars or blanks."""

import re
from collections.abc import Collection, Sequence

import numpy as np

from unshuffle.errors import quote
from unshuffle.io.columns.missing_codes import MissingCodes, clear_table
from unshuffle.io.table import Column, Table, check_names, make_table
from unshuffle.io.text.decoding import decode_text
from unshuffle.io.text.dialect import sniff_dialect
from unshuffle.io.text.notation import TextColumn, convert_texts
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
    codes: MissingCodes | None = None,
    texts: Collection[str] = (),
) -> Table:
    """Read a text table; blanks around cells are ignored.

    Cells with one of the missing ``codes`` are missing values. The columns ``texts`` are read as
    text.
    """
    text, notes = decode_text(data, encoding, source)
    dialect = sniff_dialect(text, delimiter, decimal, header, source, thousands)
    names = [name or f"column {i}" for i, name in enumerate(dialect.names, start=1)]
    check_names(names, source)
    if dialect.delimiter == " ":
        text = _join_blanks(text)
    start = line_start(text, dialect.n_header_lines)
    places = [place for place, name in enumerate(names) if name in texts]
    parsed = parse_lines(text, dialect, source, start=start, texts=places)
    parsed, cleared = _clear_codes(names, parsed, codes)
    for place in places:
        column = parsed[place]
        parsed[place] = column.cells if isinstance(column, TextColumn) else column
    columns, guesses = convert_texts(names, parsed, dialect.marks, source)
    names, columns, dropped = _drop_nameless(names, columns, dialect.names)
    said = [*notes, *dialect.notes, *guesses, *dropped]
    table = make_table(names, columns, source, said, digest)
    return clear_table(table, codes, cleared) if codes else table


def _clear_codes(
    names: Sequence[str], columns: Sequence[Column | TextColumn], codes: MissingCodes | None
) -> tuple[list[Column | TextColumn], dict[str, int]]:
    """Clear missing codes in columns of text: the rest may be numbers."""
    cleared: dict[str, int] = {}
    kept: list[Column | TextColumn] = []
    for name, column in zip(names, columns, strict=True):
        if codes and isinstance(column, TextColumn):
            column, cleared[name] = codes.clear_texts(name, column)
        kept.append(column)
    return kept, cleared


def line_start(text: bytes, n_lines: int) -> int:
    """Return the place where the text after `n_lines` lines begins."""
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
