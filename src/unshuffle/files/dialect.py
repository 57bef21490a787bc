"""How a text table is written: delimiter, decimal mark and header, guessed from its first lines."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from unshuffle.errors import InputError, quote

# What spreadsheets and statistics packages write for "no value".
MISSING = frozenset({"", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None"})

# In order of preference when two fit equally well. The space stands for any run of blanks.
_DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "bar", " ": "space"}
_BY_NAME = {name: mark for mark, name in _DELIMITERS.items()} | {"\\t": "\t"}

# Fifty lines settle a dialect; more would only slow files of many thousand columns.
_N_LINES = 50

_EXPONENT = r"([eE][+-]?\d+)?"
_POINT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)" + _EXPONENT + r"|[+-]?(inf|infinity)", re.IGNORECASE)
_COMMA = re.compile(r"[+-]?(\d*,\d+)" + _EXPONENT)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")

Record = list[str]


@dataclass(frozen=True)
class Dialect:
    """How one text table is written, its column names, and what of that was guessed."""

    delimiter: str
    decimal: str
    names: tuple[str, ...]
    # Lines before the first row of data.
    n_header_lines: int
    notes: tuple[str, ...]


def sniff_dialect(
    text: bytes, delimiter: str | None, decimal: str | None, header: bool | None, source: str
) -> Dialect:
    """Settle the dialect of a UTF-8 text; what is given is taken, the rest is guessed and noted."""
    lines, is_whole = _first_lines(text)
    delimiter = _check_marks(delimiter, decimal, source)
    notes = []
    if delimiter is None:
        delimiter, is_split = _choose_delimiter(lines, is_whole, decimal)
        if is_split:
            notes.append(f"delimiter {_DELIMITERS[delimiter]} (guessed)")
    try:
        records, ends = _split(lines, delimiter, is_whole)
    except csv.Error as exc:
        raise InputError(f"{source}, line 1: {exc}; is a quotation mark left open?") from exc
    if not records:
        raise InputError(f"{source}: the file is empty; it needs column names and rows")
    if decimal is None:
        decimal = _choose_decimal(records, delimiter, source)
        if decimal == ",":
            notes.append("decimal comma (guessed)")
    if header is None:
        header, doubt = _has_header(records, decimal)
        notes += doubt
    if not header:
        names = [f"column{i}" for i in range(1, len(records[0]) + 1)]
        return Dialect(delimiter, decimal, tuple(names), 0, (*notes, "no header line"))
    return Dialect(delimiter, decimal, tuple(c.strip() for c in records[0]), ends[0], tuple(notes))


def is_number(cell: str, decimal: str = ".") -> bool:
    """Say whether a cell holds a number in this decimal notation."""
    cell = cell.strip()
    return bool(_POINT.fullmatch(cell) or (decimal == "," and _COMMA.fullmatch(cell)))


def _first_lines(text: bytes) -> tuple[list[str], bool]:
    end = -1
    for _ in range(_N_LINES):
        end = text.find(b"\n", end + 1)
        if end < 0:
            end = len(text)
            break
    lines = text[:end].decode("utf-8").split("\n")
    return [line + "\n" for line in lines], end >= len(text) - 1


def _check_marks(delimiter: str | None, decimal: str | None, source: str) -> str | None:
    if decimal not in (None, ".", ","):
        raise InputError(f"{source}: the decimal mark is '.' or ',', not {quote(decimal)}")
    if delimiter is None:
        return None
    mark = _BY_NAME.get(delimiter, delimiter)
    if len(mark) != 1 or mark in '"\r\n' or not mark.isascii():
        raise InputError(
            f"{source}: a delimiter is one character or one of {', '.join(_BY_NAME)}, "
            f"not {quote(delimiter)}"
        )
    if mark == decimal:
        raise InputError(f"{source}: {quote(mark)} cannot be both delimiter and decimal mark")
    return mark


def _split(lines: Sequence[str], delimiter: str, is_whole: bool) -> tuple[list[Record], list[int]]:
    """Return the records that are not blank and the number of lines read after each."""
    if delimiter == " ":
        lines = [" ".join(line.split()) + "\n" for line in lines]
    reader = csv.reader(lines, delimiter=delimiter)
    pairs = [(record, reader.line_num) for record in reader if "".join(record).strip()]
    # The last record may be cut inside quotation marks.
    pairs = pairs if is_whole or len(pairs) < 2 else pairs[:-1]
    return [record for record, _ in pairs], [end for _, end in pairs]


def _choose_delimiter(
    lines: Sequence[str], is_whole: bool, decimal: str | None
) -> tuple[str, bool]:
    """Choose the mark that splits most lines alike and leaves the most numbers.

    Numbers decide because "1,5;2,5" is split evenly by the comma as well as by the semicolon.
    """
    best, best_share = None, -1.0
    below = [line.strip() for line in lines[1:] if line.strip()]
    if below and "," not in lines[0] and all(_COMMA.fullmatch(line) for line in below):
        return ";", False  # one column of decimal commas under its name
    for mark in _DELIMITERS:
        if mark == decimal:
            continue
        try:
            records, _ = _split(lines, mark, is_whole)
        except csv.Error:
            continue
        counts = Counter(len(record) for record in records)
        n_fields, n_alike = counts.most_common(1)[0] if counts else (0, 0)
        # A few ragged lines are for the reader to report, not a reason to doubt the mark.
        if n_fields < 2 or n_alike < 0.8 * len(records):
            continue
        cells = [cell for record in records[1:] for cell in record]
        notation = "." if mark == "," else ","
        share = sum(is_number(cell, notation) for cell in cells) / max(len(cells), 1)
        if share > best_share:
            best, best_share = mark, share
    # Nothing splits it: one column, for which any mark that does not occur will do.
    return (best, True) if best else ("," if decimal != "," else ";", False)


def _choose_decimal(records: Sequence[Record], delimiter: str, source: str) -> str:
    if delimiter == ",":
        return "."
    cells = [cell.strip() for record in records for cell in record]
    with_comma = [cell for cell in cells if _COMMA.fullmatch(cell) or _THOUSANDS.fullmatch(cell)]
    if not with_comma:
        return "."
    if all(_THOUSANDS.fullmatch(cell) for cell in with_comma):
        # A guess could be wrong by a factor of a thousand.
        raise InputError(
            f"{source}: {quote(with_comma[0])} may be a decimal comma or a thousands mark; "
            "give the decimal mark, or write thousands without one"
        )
    return ","


def _has_header(records: Sequence[Record], decimal: str) -> tuple[bool, list[str]]:
    """Say whether the first record names the columns: text above numbers, or text throughout."""
    first, rest = records[0], records[1:]
    numeric = [cell for cell in first if is_number(cell, decimal)]
    is_text = [cell.strip() not in MISSING and not is_number(cell, decimal) for cell in first]
    above = [text and _is_mostly_numbers(rest, j, decimal) for j, text in enumerate(is_text)]
    if not any(above) and (numeric or not any(is_text)):
        return False, []
    if numeric:
        return True, [f"first line taken as column names although it holds {quote(numeric[0])}"]
    if rest and not any(above):
        return True, ["first line taken as column names although no column below holds numbers"]
    return True, []


def _is_mostly_numbers(records: Sequence[Record], position: int, decimal: str) -> bool:
    cells = [record[position].strip() for record in records if position < len(record)]
    present = [cell for cell in cells if cell not in MISSING]
    return sum(is_number(cell, decimal) for cell in present) > len(present) / 2
