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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from unshuffle.errors import InputError, quote
from unshuffle.io.table import Column, Table, check_names, make_table
from unshuffle.io.text.arrow import as_floats
from unshuffle.io.text.decoding import decode_text
from unshuffle.io.text.dialect import Dialect, Kind, sniff_dialect
from unshuffle.io.text.notation import MISSING, settle_columns, shows_decimals

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
    columns = read_fast(text, dialect, start)
    if columns is None:
        columns = read_plain(text[start:], dialect, source)
    columns, guesses = settle_columns(names, columns, dialect.marks, source)
    names, columns, dropped = _drop_nameless(names, columns, dialect.names)
    return make_table(names, columns, source, [*notes, *dialect.notes, *guesses, *dropped], digest)


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
    types = choose_types(dialect.kinds, body)
    as_text = [kind if kind == pa.float64() else pa.string() for kind in types]
    for kinds in dict.fromkeys(map(tuple, (types, as_text, [pa.string()] * len(types)))):
        try:
            found = read_arrow(body, dialect, dict(enumerate(kinds)), has_quotes=n_quotes > 0)
        except (pa.ArrowException, ValueError):
            continue
        # Looking for points in the whole text takes no time, in each column a tenth of reading it.
        has_points = dialect.decimal == "," and text.find(b".", start) >= 0
        return [convert_arrow(column, dialect, has_points) for column in found.values()]
    return None


def choose_types(kinds: Sequence[Kind], body: bytes | memoryview) -> list[Any]:
    """Return the types in which pyarrow is to read the columns of a text.

    Digits are read as integers, which no cell with a decimal point passes: 1.000 among them is
    seen, and looked at as text. What pyarrow takes for hexadecimal integers is none here.
    """
    pa = importlib.import_module("pyarrow")
    has_digits = "digits" in kinds
    letters = np.frombuffer(body, np.uint8) | ord(" ") if has_digits else np.empty(0)
    digits = pa.string() if (letters == ord("x")).any() else pa.int64()
    types = {"decimals": pa.float64(), "digits": digits, "text": pa.string()}
    return [types[kind] for kind in kinds]


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


def convert_arrow(column: Any, dialect: Dialect, has_points: bool) -> Column:
    """Return a column of pyarrow as numbers; as text where it is none, or its marks are in doubt.

    Beside decimal commas it may only be doubted where the text `has_points`.
    """
    pa = importlib.import_module("pyarrow")
    if column.type != pa.string():
        return as_floats(column)
    cells = trim(column)
    first = cells.slice(0, _CHUNK).to_pylist()
    is_clear = not (has_points and has_mark(cells, "."))
    is_clear = is_clear and _is_clear(partial(has_mark, cells), first, dialect)
    values = as_numbers(cells, dialect.decimal) if is_clear else None
    return as_texts(column) if values is None else values


def trim(column: Any) -> Any:
    """Return a column of pyarrow's text, without blanks around cells and with missing ones null."""
    compute = importlib.import_module("pyarrow.compute")
    pa = importlib.import_module("pyarrow")
    column = compute.utf8_trim_whitespace(column)
    is_missing = compute.is_in(column, value_set=pa.array(sorted(MISSING)))
    return compute.if_else(is_missing, pa.scalar(None, pa.string()), column)


def has_mark(cells: Any, mark: str) -> bool:
    """Whether some cell of pyarrow's text has this mark."""
    compute = importlib.import_module("pyarrow.compute")
    return bool(compute.any(compute.match_substring(cells, mark)).as_py())


def as_numbers(cells: Any, decimal: str) -> Column | None:
    """Return cells of pyarrow's text as numbers; None where some cell is none."""
    compute = importlib.import_module("pyarrow.compute")
    pa = importlib.import_module("pyarrow")
    if decimal == ",":
        cells = compute.replace_substring(cells, ",", ".")
    try:
        return as_floats(compute.cast(cells, pa.float64()))
    except pa.ArrowInvalid:
        return None


def as_texts(column: Any) -> Column:
    """Return a column of pyarrow's text as texts, each one shared by all its cells."""
    pa = importlib.import_module("pyarrow")
    encoded = pa.concat_arrays(column.chunks).dictionary_encode()
    levels = _clean_text(encoded.dictionary.to_pylist(), {})
    return np.asarray(levels[encoded.indices.to_numpy()])


def _is_clear(has: Callable[[str], bool], cells: Sequence[str], dialect: Dialect) -> bool:
    """Whether a column's decimal mark has one reading, by whether it `has` it and some `cells`."""
    mark = dialect.decimal
    if not dialect.marks.has_doubt or shows_decimals(cells[:_LINES], mark):
        return True
    return not has(mark) or shows_decimals(cells, mark)


def _parse_numbers(cells: Sequence[str], dialect: Dialect) -> Column:
    """Parse cells as numbers, missing ones as NaN; ValueError when one is neither, or in doubt."""
    text = "".join(cells)
    if "_" in text:
        raise ValueError("Python reads 1_000 as a number, no other program does")
    has_others = dialect.decimal == "," and "." in text
    if has_others or not _is_clear(text.__contains__, cells, dialect):
        raise ValueError("a mark may separate thousands or decimals")
    if dialect.decimal == ",":
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
                    parts[j].append(_parse_numbers(cells, dialect))
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
            # In one column a blank line is no row, and quotation marks around nothing are one.
            if len(record) == n_columns and (n_columns > 1 or record[0].strip() or not record[0]):
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
