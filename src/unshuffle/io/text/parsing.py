"""Lines of delimited text become columns, a whole file at once or piece by piece.

Two parsers give the same columns. With pyarrow a million rows of six numbers take under a second;
without it the csv module reads them in chunks in a few seconds, so that pyarrow stays an extra.
Whatever pyarrow refuses is read again by the csv module, which alone knows line numbers: every
message about a broken file is written in one place.
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
from unshuffle.io.text.notation import MISSING, Texts, shows_decimals

# Rows kept as Python strings at a time: some 10 MB for six columns.
CHUNK = 32_768
# Bytes that pyarrow parses at a time, or so many lines where these are long: sixteen times as many
# take twice as long, for new memory.
_BLOCK, _LINES = 1 << 20, 16
# A byte that is no blank.
_SOMETHING = re.compile(rb"\S")


def parse_lines(
    text: bytes,
    dialect: Dialect,
    source: str,
    *,
    start: int = 0,
    places: Sequence[int] | None = None,
    texts: Collection[int] = (),
) -> list[Column | Texts]:
    """Return the columns at these places (all by default) of the lines that begin at `start`.

    A column is numbers where each of its cells is one and the decimal mark has one reading in
    these lines. Any other is text, and so are the columns of `texts`, whatever they hold.
    """
    places = range(len(dialect.names)) if places is None else places
    found = read_fast(text, dialect, start, places, texts)
    if found is None:
        found = read_plain(text[start:], dialect, source, places, texts)
    return found


def read_fast(
    text: bytes,
    dialect: Dialect,
    start: int,
    places: Sequence[int],
    texts: Collection[int] = (),
) -> list[Column | Texts] | None:
    """Parse lines with pyarrow; None when it is not there or refuses the text."""
    # One column is left to the csv module: there a blank line and a missing cell look the same.
    # So is an odd number of quotation marks: pyarrow reads one left open to the end of the file.
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
        # Looking for points in the whole text takes no time, in each column a tenth of reading it.
        has_points = dialect.decimal == "," and text.find(b".", start) >= 0
        # Each column of pyarrow is let go once it is converted.
        return [_convert(table.pop(j), dialect, has_points, j in texts) for j in places]
    return None


def _choose_types(kinds: Sequence[Kind], has_x: bool) -> list[Any]:
    """Return the types in which pyarrow is to read the columns of a text.

    Digits are read as integers, which no cell with a decimal point passes: 1.000 among them is
    seen, and looked at as text. What pyarrow takes for hexadecimal integers is none here.
    """
    pa = importlib.import_module("pyarrow")
    digits = pa.string() if has_x else pa.int64()
    types = {"decimals": pa.float64(), "digits": digits, "text": pa.string()}
    return [types[kind] for kind in kinds]


def _find_loose_quotes(delimiter: str) -> re.Pattern[bytes]:
    """Return what finds quotation marks that neither begin nor end a cell, as in ``"2"x``.

    pyarrow takes such cells as they come, where the csv module says what is wrong with them. Marks
    are doubled inside cells, so that an odd number of them begins or ends one.
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
    """Read columns of these types by their place; pyarrow's exceptions say that it cannot."""
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


def _convert(column: Any, dialect: Dialect, has_points: bool, is_text: bool) -> Column | Texts:
    """Return a column of pyarrow as numbers; as text where it is none, or its marks are in doubt.

    Beside decimal commas it may only be doubted where the text `has_points`.
    """
    pa = importlib.import_module("pyarrow")
    if column.type != pa.string():
        return as_floats(column)
    values = None if is_text else _as_numbers(column, dialect, has_points)
    if values is not None:
        return values
    encoded = pa.concat_arrays(column.chunks).dictionary_encode()
    texts = _TextBuilder()
    codes = np.array([texts.find(cell) for cell in encoded.dictionary.to_pylist()], np.int64)
    return Texts(texts.levels, codes[encoded.indices.to_numpy()])


def _as_numbers(column: Any, dialect: Dialect, has_points: bool) -> Column | None:
    """Return a column of pyarrow's text as numbers; None where some cell is none, or in doubt."""
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


class _TextBuilder:
    """Numbers the different cells of a column of text, without the blanks around them."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._levels: dict[str | None, int] = {}

    @property
    def levels(self) -> list[str | None]:
        """The different cells, in order; None stands for missing ones."""
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


def read_plain(
    body: bytes,
    dialect: Dialect,
    source: str,
    places: Sequence[int],
    texts: Collection[int] = (),
) -> list[Column | Texts]:
    """Parse lines with the csv module, and name the line of whatever is wrong."""
    as_text = set(texts)
    while True:
        columns, late = _read_pass(body, dialect, source, places, as_text)
        if not late:
            return columns
        # A column that turned out to be text after its first chunk: its numbers were parsed
        # away, so read again. One pass finds all such columns.
        as_text |= late


def _read_pass(
    body: bytes, dialect: Dialect, source: str, places: Sequence[int], as_text: set[int]
) -> tuple[list[Column | Texts], set[int]]:
    """Read all chunks once; also return the columns that should have been read as text."""
    parts: dict[int, list[np.ndarray]] = {j: [] for j in places}
    builders = {j: _TextBuilder() for j in places}
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
    columns: list[Column | Texts] = []
    for j, part in parts.items():
        values = np.concatenate([none, *part])
        columns.append(Texts(builders[j].levels, values) if j in texts else values.astype(float))
    return columns, late


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
