"""Parsing lines of delimited text into columns, of a whole file or a piece of it.

Two parsers give the same columns. pyarrow, an extra, reads a million rows of six numbers in under a
second, the csv module in a few seconds. Text that pyarrow refuses is read again by the csv module,
which knows line numbers: all messages on broken files come from there.
"""

import csv
import importlib
import io
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from unshuffle.errors import InputError
from unshuffle.io.table import Column
from unshuffle.io.text.arrow import as_floats
from unshuffle.io.text.dialect import Dialect, Kind
from unshuffle.io.text.notation import MISSING, TextColumn, shows_decimals

# Rows kept as Python strings at a time: some 10 MB for six columns.
CHUNK = 32_768
# Bytes that pyarrow parses at a time, or lines where these are long. Larger blocks are slower, for
# they allocate more.
_BLOCK, _LINES = 1 << 20, 16
# A byte other than a blank.
_SOMETHING = re.compile(rb"\S")


def parse_lines(
    text: bytes,
    dialect: Dialect,
    source: str,
    *,
    start: int = 0,
    places: Sequence[int] | None = None,
    texts: Collection[int] = (),
) -> list[Column | TextColumn]:
    """Return the columns at these places (all by default) of the lines that begin at `start`.

    A column is numeric if all its cells are numbers and the decimal mark is unambiguous in these
    lines. All others are text, and so are the columns of `texts`.
    """
    places = range(len(dialect.names)) if places is None else places
    found = read_with_pyarrow(text, dialect, start, places, texts)
    if found is None:
        found = read_with_csv(text[start:], dialect, source, places, texts)
    return found


def read_with_pyarrow(
    text: bytes,
    dialect: Dialect,
    start: int,
    places: Sequence[int],
    texts: Collection[int] = (),
) -> list[Column | TextColumn] | None:
    """Parse lines with pyarrow; None if it is not installed or refuses the text."""
    # The csv module reads single columns, where a blank line looks like a missing cell, and odd
    # numbers of quotation marks: pyarrow reads an open one to the end of the file.
    n_quotes = text.count(b'"', start)
    if len(dialect.names) < 2 or n_quotes % 2 or _SOMETHING.search(text, start) is None:
        return None
    body = memoryview(text)[start:]  # a copy would take a fifth of the time of parsing it
    if n_quotes and _find_loose_quotes(dialect.delimiter).search(body):
        return None
    try:
        pa = importlib.import_module("pyarrow")
    except ImportError:
        return None
    has_x = any(text.find(letter, start) >= 0 for letter in (b"x", b"X"))
    kinds = _choose_types(dialect.kinds, has_x)
    first = {j: pa.string() if j in texts else kinds[j] for j in places}
    second = {j: kind if kind == pa.float64() else pa.string() for j, kind in first.items()}
    for attempt in (first, second, dict.fromkeys(first, pa.string())):
        try:
            table = _read_arrow(body, dialect, attempt, has_quotes=n_quotes > 0)
        except (pa.ArrowException, ValueError):
            continue
        # Searching the whole text for points is faster than searching each column.
        has_points = dialect.decimal == "," and text.find(b".", start) >= 0
        # `pop` frees each column of pyarrow once it is converted.
        return [_convert(table.pop(j), dialect, has_points, j in texts) for j in places]
    return None


def _choose_types(kinds: Sequence[Kind], has_x: bool) -> list[Any]:
    """Return the types as which pyarrow reads the columns of a text.

    Digits are read as integers, so a cell such as 1.000 fails and the column is read as text. With
    an x in the text digits are read as text, for pyarrow accepts hexadecimal integers.
    """
    pa = importlib.import_module("pyarrow")
    digits = pa.string() if has_x else pa.int64()
    types = {"decimals": pa.float64(), "digits": digits, "text": pa.string()}
    return [types[kind] for kind in kinds]


def _find_loose_quotes(delimiter: str) -> re.Pattern[bytes]:
    """Return a pattern of quotation marks that neither begin nor end a cell, as in ``"2"x``.

    pyarrow accepts such cells; the csv module refuses them. Inside cells marks are doubled, so an
    odd number of them begins or ends a cell.
    """
    mark = re.escape(delimiter.encode())
    other = rb'[^"\n' + mark + rb"]"
    return re.compile(other + rb'"(?:"")*' + other + rb"|(?:^|[\n" + mark + rb'])(?:"")+' + other)


def _read_arrow(
    body: bytes | memoryview,
    dialect: Dialect,
    kinds: Mapping[int, Any],
    *,
    has_quotes: bool,
) -> dict[int, Any]:
    """Return columns of these types by their place; raises the exceptions of pyarrow."""
    pa = importlib.import_module("pyarrow")
    arrow_csv = importlib.import_module("pyarrow.csv")
    keys = [str(i) for i in range(len(dialect.names))]
    line = bytes(body[:_BLOCK]).find(b"\n")
    size = max(_BLOCK, _LINES * (line if line >= 0 else len(body)))
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(body),
            read_options=arrow_csv.ReadOptions(column_names=keys, block_size=min(size, 1 << 30)),
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


def _convert(column: Any, dialect: Dialect, has_points: bool, is_text: bool) -> Column | TextColumn:
    """Return a column of pyarrow as numbers, or as text if cells are no numbers or ambiguous.

    With decimal commas, only a text that `has_points` may be ambiguous.
    """
    pa = importlib.import_module("pyarrow")
    if column.type != pa.string():
        return as_floats(column)
    values = None if is_text else _as_numbers(column, dialect, has_points)
    if values is not None:
        return values
    encoded = pa.concat_arrays(column.chunks).dictionary_encode()
    texts = _LevelNumbers()
    codes = np.array([texts.find(cell) for cell in encoded.dictionary.to_pylist()], np.int64)
    return TextColumn(texts.levels, codes[encoded.indices.to_numpy()])


def _as_numbers(column: Any, dialect: Dialect, has_points: bool) -> Column | None:
    """Return a column of pyarrow's text as numbers; None if a cell is no number or ambiguous."""
    compute = importlib.import_module("pyarrow.compute")
    pa = importlib.import_module("pyarrow")
    cells = compute.utf8_trim_whitespace(column)
    is_missing = compute.is_in(cells, value_set=pa.array(sorted(MISSING)))
    cells = compute.if_else(is_missing, pa.scalar(None, pa.string()), cells)
    first = cells.slice(0, CHUNK).to_pylist()
    if has_points and _has_mark(cells, "."):
        return None
    if not _is_clear(partial(_has_mark, cells), first, dialect):
        return None
    if dialect.decimal == ",":
        cells = compute.replace_substring(cells, ",", ".")
    try:
        return as_floats(compute.cast(cells, pa.float64()))
    except pa.ArrowInvalid:
        return None


def _has_mark(cells: Any, mark: str) -> bool:
    """Whether some cell of pyarrow's text has this mark."""
    compute = importlib.import_module("pyarrow.compute")
    return bool(compute.any(compute.match_substring(cells, mark)).as_py())


class _LevelNumbers:
    """The different cells of a column of text, stripped and numbered as they come."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._levels: dict[str | None, int] = {}

    @property
    def levels(self) -> list[str | None]:
        """The different cells in order; None for missing ones."""
        return list(self._levels)

    def find(self, cell: str) -> int:
        """Return the number of a cell."""
        code = self._codes.get(cell)
        if code is None:
            word = cell.strip()
            clean = None if word in MISSING else word
            code = self._codes[cell] = self._levels.setdefault(clean, len(self._levels))
        return code


def _is_clear(has: Callable[[str], bool], cells: Sequence[str], dialect: Dialect) -> bool:
    """Whether the decimal mark is unambiguous; `has` finds a mark in the column of `cells`."""
    mark = dialect.decimal
    if not dialect.marks.has_doubt or shows_decimals(cells[:_LINES], mark):
        return True
    return not has(mark) or shows_decimals(cells, mark)


def _parse_numbers(cells: Sequence[str], dialect: Dialect) -> Column:
    """Return cells as numbers, missing ones as NaN; ValueError for other or ambiguous cells."""
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


def read_with_csv(
    body: bytes,
    dialect: Dialect,
    source: str,
    places: Sequence[int],
    texts: Collection[int] = (),
) -> list[Column | TextColumn]:
    """Parse lines with the csv module; errors name the line."""
    as_text = set(texts)
    while True:
        columns, late = _read_pass(body, dialect, source, places, as_text)
        if not late:
            return columns
        # Columns that turn out to be text after their first chunk are read again as text.
        as_text |= late


def _read_pass(
    body: bytes, dialect: Dialect, source: str, places: Sequence[int], as_text: set[int]
) -> tuple[list[Column | TextColumn], set[int]]:
    """Read all chunks once; also return the columns that have to be read again as text."""
    parts: dict[int, list[np.ndarray]] = {j: [] for j in places}
    builders = {j: _LevelNumbers() for j in places}
    texts, late = set(as_text), set[int]()
    records = _iter_records(body, dialect, source)
    while chunk := list(itertools.islice(records, CHUNK)):
        for j in places:
            cells = [record[j] for record in chunk]
            if j not in texts and j not in late:
                try:
                    parts[j].append(_parse_numbers(cells, dialect))
                    continue
                except ValueError:
                    (late if parts[j] else texts).add(j)
            if j in texts:
                parts[j].append(np.array([builders[j].find(cell) for cell in cells], np.int64))
    if late:
        return [], late
    none = np.empty(0, np.int64)
    columns: list[Column | TextColumn] = []
    for j, part in parts.items():
        values = np.concatenate([none, *part])
        columns.append(
            TextColumn(builders[j].levels, values) if j in texts else values.astype(float)
        )
    return columns, late


def _iter_records(body: bytes, dialect: Dialect, source: str) -> Iterator[list[str]]:
    """Yield the records of the csv module; refuse records of another length."""
    lines = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8", newline="\n")
    reader = csv.reader(lines, delimiter=dialect.delimiter, strict=True)
    n_columns, start = len(dialect.names), dialect.n_header_lines + 1
    try:
        for record in reader:
            # With one column a blank line is no row, but an empty pair of quotation marks is.
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
