"""The dialect of a text table (delimiter, marks, header), detected from its first lines."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from unshuffle.errors import InputError, quote
from unshuffle.io.text.notation import (
    MISSING,
    FileMarks,
    NumberFormat,
    find_number_format,
    find_unit,
    read_thousands,
)

# In order of preference when two fit equally well. The space stands for any run of blanks.
_DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "bar", " ": "space"}
# Delimiters that need no note.
_COMMON = ("\t", ",")
_BLANKS = re.compile(r"[ \t]+")
_BY_NAME = {name: mark for mark, name in _DELIMITERS.items()} | {"\\t": "\t"}


Record = list[str]

# The first cells of a column: numbers with an unambiguous decimal mark, digits without a mark, or
# anything else, which is read as text first.
Kind = Literal["decimals", "digits", "text"]
# Numbers with a decimal point or without a mark.
_POINTS = {NumberFormat(), NumberFormat("."), NumberFormat(doubt=".")}


@dataclass(frozen=True)
class Dialect:
    """The dialect of a text table, its column names, and notes on what was guessed."""

    delimiter: str
    marks: FileMarks
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    # Lines before the first row of data.
    n_header_lines: int
    notes: tuple[str, ...]

    @property
    def decimal(self) -> str:
        """The decimal mark."""
        return self.marks.decimal


def sniff_dialect(
    text: bytes,
    delimiter: str | None,
    decimal: str | None,
    header: bool | None,
    source: str,
    thousands: str | None = None,
) -> Dialect:
    """Return the dialect of a UTF-8 text: the given parts, and the rest guessed and noted."""
    lines, is_whole = _first_lines(text)
    delimiter = _check_marks(delimiter, decimal, source)
    thousands = read_thousands(thousands, decimal, source)
    notes = []
    if delimiter is None:
        delimiter, is_split = _choose_delimiter(lines, is_whole, decimal, source)
        if is_split and delimiter not in _COMMON:
            notes.append(f"delimiter {_DELIMITERS[delimiter]} (guessed)")
    try:
        records, ends = _split(lines, delimiter, is_whole)
    except csv.Error as exc:
        raise InputError(f"{source}, line 1: {exc}; is a quotation mark left open?") from exc
    if not records:
        raise InputError(f"{source}: the file is empty; it needs column names and rows")
    marks = _choose_marks(records, delimiter, decimal, thousands)
    if decimal is None and thousands != "." and marks.decimal == ",":
        notes.append("decimal comma (guessed)")
    if header is None:
        header, doubt = _has_header(records, marks.decimal)
        notes += doubt
    kinds = _find_kinds(records[header:], len(records[0]), marks)
    if not header:
        names = [f"column{i}" for i in range(1, len(records[0]) + 1)]
        return Dialect(delimiter, marks, tuple(names), kinds, 0, (*notes, "no header line"))
    names = [cell.strip() for cell in records[0]]
    return Dialect(delimiter, marks, tuple(names), kinds, ends[0], tuple(notes))


def _is_number(cell: str, decimal: str) -> bool:
    """Return whether a cell is a number in this decimal notation, with thousands marks or not."""
    written = find_number_format(cell.strip())
    return written is not None and (decimal == "," or written.decimal != ",")


def _first_lines(text: bytes) -> tuple[list[str], bool]:
    end = -1
    # Fifty lines are enough; more would slow files of many thousand columns.
    for _ in range(50):
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
        lines = [_BLANKS.sub(" ", line.strip(" \t\n")) + "\n" for line in lines]
    reader = csv.reader(lines, delimiter=delimiter)
    pairs = [(record, reader.line_num) for record in reader if "".join(record).strip()]
    # The last record may be cut inside quotation marks.
    pairs = pairs if is_whole or len(pairs) < 2 else pairs[:-1]
    return [record for record, _ in pairs], [end for _, end in pairs]


def _choose_delimiter(
    lines: Sequence[str], is_whole: bool, decimal: str | None, source: str
) -> tuple[str, bool]:
    """Return the mark that splits most lines alike and leaves the most numbers.

    Numbers decide because both comma and semicolon split "1,5;2,5" evenly. Numbers with a unit
    count too, since the blank splits "CHF 7". Marks that split the first line, which may have the
    names, as they split the others are preferred.
    """
    best, rival, best_rank = None, None, (False, -1, -1.0)
    below = [line.strip() for line in lines[1:] if line.strip() not in MISSING]
    are_numbers = all(find_number_format(line) is not None for line in below)
    if "," not in lines[0] and are_numbers and any("," in line for line in below):
        return ";", False  # one column of numbers with commas under its name
    for mark in _DELIMITERS:
        # A tab is a blank as well.
        if mark == decimal or (mark == " " and best == "\t"):
            continue
        try:
            records, _ = _split(lines, mark, is_whole)
        except csv.Error:
            continue
        counts = Counter(len(record) for record in records)
        n_fields, n_alike = counts.most_common(1)[0] if counts else (0, 0)
        # A few ragged lines are tolerated here; the reader reports them.
        most_ragged = max(0.2 * len(records), len(records) > 2)
        if n_fields < 2 or len(records) - n_alike > most_ragged:
            continue
        numbers = _count_numbers(records[1:], "." if mark == "," else ",")
        rank = len(records[0]) == n_fields, numbers, numbers / n_fields
        if rank > best_rank:
            best, rival, best_rank = mark, None, rank
        elif rank == best_rank and numbers and best == ",":  # both occur in cells as well
            rival = mark
    if best is not None and rival is not None:
        raise InputError(
            f"{source}: {_DELIMITERS[best]} and {_DELIMITERS[rival]} split its lines equally well; "
            "name the delimiter"
        )
    # Nothing splits the lines: one column, with any mark that does not occur.
    return (best, True) if best else ("," if decimal != "," else ";", False)


def _count_numbers(records: Sequence[Record], decimal: str) -> int:
    """Return how many cells are numbers, with their unit in columns of one unit."""
    n_fields = max((len(record) for record in records), default=0)
    count = 0
    for j in range(n_fields):
        cells = [record[j] for record in records if j < len(record)]
        unit = find_unit(cells)
        count += sum(
            _is_number(c, decimal) or (unit is not None and find_unit([c]) == unit) for c in cells
        )
    return count


def _choose_marks(
    records: Sequence[Record], delimiter: str, decimal: str | None, thousands: str | None
) -> FileMarks:
    """Return the given marks, and those that the cells below the first line show."""
    if decimal is not None:
        return FileMarks(decimal, thousands, True, frozenset({decimal}), delimiter)
    cells = [cell.strip() for record in records[1:] or records for cell in record]
    written = [each for each in map(find_number_format, cells) if each is not None]
    seen = frozenset({each.decimal for each in written} - {""})
    has_commas = delimiter != "," and "," in seen
    if thousands == ".":
        has_commas, seen = True, seen - {"."}
    elif thousands == ",":
        has_commas, seen = False, seen - {","}
    elif thousands is not None and delimiter != ",":
        has_commas |= any(each.doubt == "," for each in written)
    return FileMarks("," if has_commas else ".", thousands, False, seen, delimiter)


def _find_kinds(records: Sequence[Record], n_columns: int, marks: FileMarks) -> tuple[Kind, ...]:
    """Return the kind of every column, from its cells in these records."""
    kinds: list[Kind] = []
    for j in range(n_columns):
        cells = {record[j].strip() for record in records if j < len(record)} - MISSING
        written = {find_number_format(cell) for cell in cells}
        has_points = NumberFormat(".") in written or not marks.has_doubt
        if marks.decimal == "," or not written <= _POINTS:
            kinds.append("text")
        elif has_points:
            kinds.append("decimals")
        else:
            kinds.append("digits" if written <= {NumberFormat()} else "text")
    return tuple(kinds)


def _has_header(records: Sequence[Record], decimal: str) -> tuple[bool, list[str]]:
    """Return whether the first record names the columns: text above numbers, or only text."""
    first, rest = records[0], records[1:]
    numeric = [cell for cell in first if _is_number(cell, decimal)]
    is_text = [cell.strip() not in MISSING and not _is_number(cell, decimal) for cell in first]
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
    return sum(_is_number(cell, decimal) for cell in present) > len(present) / 2
