"""Text tables: comma, semicolon, tab, bar or blank separated.

Two readers give the same columns. With pyarrow a million rows of six numbers take under a second;
without it the csv module reads them in chunks in a few seconds, so that pyarrow stays an extra.
Whatever pyarrow refuses is read again by the csv module, which alone knows line numbers: every
message about a broken file is written in one place.
"""

import csv
import importlib
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from unshuffle.errors import InputError, quote
from unshuffle.files.arrow import as_floats
from unshuffle.files.decoding import decode_text
from unshuffle.files.dialect import MISSING, Dialect, sniff_dialect
from unshuffle.files.table import Column, Table, check_names, make_table

# Rows held as Python strings at a time: some 10 MB for six columns.
_CHUNK = 32_768
# Bytes that pyarrow parses at a time, or so many lines where these are long: sixteen times as many
# take twice as long, for new memory.
_BLOCK, _LINES = 1 << 20, 16
# A byte that is no blank.
_SOMETHING = re.compile(rb"\S")


def read_delimited(
    data: bytes,
    source: str,
    digest: str,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
) -> Table:
    """Read a text table; blanks around a cell carry no meaning."""
    text, notes = decode_text(data, encoding, source)
    dialect = sniff_dialect(text, delimiter, decimal, header, source)
    names = [name or f"column {i}" for i, name in enumerate(dialect.names, start=1)]
    check_names(names, source)
    if dialect.delimiter == " ":
        text = _join_blanks(text)
    start = line_start(text, dialect.n_header_lines)
    columns = read_fast(text, dialect, start)
    if columns is None:
        columns = read_plain(text[start:], dialect, source)
    names, columns, dropped = _drop_nameless(names, columns, dialect.names)
    return make_table(names, columns, source, [*notes, *dialect.notes, *dropped], digest)


def read_fast(text: bytes, dialect: Dialect, start: int = 0) -> list[Column] | None:
    """Read what begins at `start` with pyarrow; None when it is not there or refuses the text."""
    # One column is left to the csv module: there a blank line and a missing cell look the same.
    # So is an odd number of quotation marks: pyarrow reads one left open to the end of the file.
    n_quotes = text.count(b'"', start) if b'"' in text else 0
    if len(dialect.names) < 2 or n_quotes % 2 or _SOMETHING.search(text, start) is None:
        return None
    if n_quotes and find_loose_quotes(dialect.delimiter).search(text[start:]):
        return None
    body = memoryview(text)[start:]  # a copy would take a fifth of the time of parsing it
    try:
        pa = importlib.import_module("pyarrow")
    except ImportError:
        return None
    try:
        if dialect.decimal == ".":
            # Most tables are numbers throughout, and quickly read as such.
            kinds = dict.fromkeys(range(len(dialect.names)), pa.float64())
            found = read_arrow(body, dialect, kinds, has_quotes=n_quotes > 0)
            return [as_floats(column) for column in found.values()]
    except (pa.ArrowException, ValueError):
        pass
    try:
        # All cells as text: a type guessed from the first block would fail later.
        kinds = dict.fromkeys(range(len(dialect.names)), pa.string())
        columns = list(read_arrow(body, dialect, kinds, has_quotes=n_quotes > 0).values())
    except (pa.ArrowException, ValueError):
        return None
    return [convert_arrow(column, dialect.decimal) for column in columns]


def find_loose_quotes(delimiter: str) -> re.Pattern[bytes]:
    """Return what finds quotation marks that neither begin nor end a cell, as in ``"2"x``.

    pyarrow takes such cells as they come, where the csv module says what is wrong with them. Marks
    are doubled inside cells, so that an odd number of them begins or ends one.
    """
    mark = re.escape(delimiter.encode())
    other = rb'[^"\n' + mark + rb"]"
    return re.compile(other + rb'"(?:"")*' + other + rb"|(?:^|[\n" + mark + rb'])(?:"")+' + other)


def read_arrow(
    body: bytes | memoryview,
    dialect: Dialect,
    kinds: Mapping[int, Any],
    *,
    has_quotes: bool,
    is_alone: bool = True,
) -> dict[int, Any]:
    """Read columns of these types by their place; pyarrow's exceptions say that it cannot.

    Where others read beside it, pyarrow takes no threads of its own.
    """
    pa = importlib.import_module("pyarrow")
    arrow_csv = importlib.import_module("pyarrow.csv")
    keys = [str(i) for i in range(len(dialect.names))]
    line = bytes(body[:_BLOCK]).find(b"\n")
    size = max(_BLOCK, _LINES * (line if line >= 0 else len(body)))
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(body),
            read_options=arrow_csv.ReadOptions(
                column_names=keys, block_size=min(size, 1 << 30), use_threads=is_alone
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=dialect.delimiter, newlines_in_values=has_quotes
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=[str(j) for j in sorted(kinds)],
                column_types={str(j): kind for j, kind in kinds.items()},
                null_values=sorted(MISSING),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowCancelled as exc:
        # While it reads, pyarrow takes Ctrl-C for itself.
        raise KeyboardInterrupt from exc
    return {j: table.column(str(j)) for j in sorted(kinds)}


def read_plain(body: bytes, dialect: Dialect, source: str) -> list[Column]:
    """Read with the csv module, and name the line of whatever is wrong."""
    text_columns: set[int] = set()
    while True:
        columns, late = _read_pass(body, dialect, source, text_columns)
        if not late:
            return columns
        # A column that turned out to be text after its first chunk: its numbers were parsed
        # away, so read again. One pass finds all such columns.
        text_columns |= late


def convert_arrow(column: Any, decimal: str) -> Column:
    compute = importlib.import_module("pyarrow.compute")
    pa = importlib.import_module("pyarrow")
    column = compute.utf8_trim_whitespace(column)
    is_missing = compute.is_in(column, value_set=pa.array(sorted(MISSING)))
    numbers = compute.if_else(is_missing, pa.scalar(None, pa.string()), column)
    if decimal == ",":
        numbers = compute.replace_substring(numbers, ",", ".")
    try:
        return as_floats(compute.cast(numbers, pa.float64()))
    except pa.ArrowInvalid:
        pass
    # Few different texts, each converted once and shared by all its cells.
    encoded = pa.concat_arrays(column.chunks).dictionary_encode()
    levels = encoded.dictionary.to_pylist()
    codes = encoded.indices.to_numpy()
    return np.asarray(_convert_cells(levels, decimal)[codes])


def _convert_cells(cells: Sequence[str], decimal: str) -> Column:
    try:
        return _parse_numbers(cells, decimal)
    except ValueError:
        return _clean_text(cells, {})


def _parse_numbers(cells: Sequence[str], decimal: str) -> Column:
    """Parse cells as numbers, missing ones as NaN; ValueError when one is neither."""
    if "_" in "".join(cells):
        raise ValueError("Python reads 1_000 as a number, no other program does")
    if decimal == ",":
        cells = [cell.replace(",", ".") for cell in cells]
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        stripped = (cell.strip() for cell in cells)
        return np.array([np.nan if cell in MISSING else float(cell) for cell in stripped])


def _clean_text(cells: Sequence[str], shared: dict[str, str | None]) -> Column:
    clean = []
    for cell in cells:
        if cell not in shared:
            word = cell.strip()
            shared[cell] = None if word in MISSING else word
        clean.append(shared[cell])
    return np.array(clean, dtype=object)


def _read_pass(
    body: bytes, dialect: Dialect, source: str, text_columns: set[int]
) -> tuple[list[Column], set[int]]:
    """Read all chunks once; also return the columns that should have been read as text."""
    n_columns = len(dialect.names)
    parts: list[list[Column]] = [[] for _ in range(n_columns)]
    shared: list[dict[str, str | None]] = [{} for _ in range(n_columns)]
    texts, late = set(text_columns), set[int]()
    records = _iter_records(body, dialect, source)
    while chunk := list(itertools.islice(records, _CHUNK)):
        for j, cells in enumerate(zip(*chunk, strict=True)):
            if j not in texts and j not in late:
                try:
                    parts[j].append(_parse_numbers(cells, dialect.decimal))
                    continue
                except ValueError:
                    (late if parts[j] else texts).add(j)
            if j in texts:
                parts[j].append(_clean_text(cells, shared[j]))
    empty = np.empty(0)
    return [np.concatenate(part) if part else empty for part in parts], late


def _iter_records(body: bytes, dialect: Dialect, source: str) -> Iterator[list[str]]:
    lines = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8", newline="\n")
    reader = csv.reader(lines, delimiter=dialect.delimiter, strict=True)
    n_columns, start = len(dialect.names), dialect.n_header_lines + 1
    try:
        for record in reader:
            if len(record) == n_columns and (n_columns > 1 or record[0].strip()):
                yield record
            elif len(record) > 1 or (record and record[0].strip()):
                raise InputError(
                    f"{source}, line {start}: {len(record)} fields where the first line has "
                    f"{n_columns}; mend that line, or name the delimiter"
                )
            start = dialect.n_header_lines + reader.line_num + 1
    except csv.Error as exc:
        raise InputError(f"{source}, line {start}: {exc}; is a quotation mark left open?") from exc


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
