"""How the numbers of a text column are written: decimal marks, thousands marks, and doubt.

A point or comma before exactly three digits may separate thousands or decimals. The other cells of
the column decide, then the options, then the other columns. What none of them decides is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unshuffle.errors import InputError, quote
from unshuffle.io.table import Column

# What spreadsheets and statistics packages write for "no value".
MISSING = frozenset({"", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None"})

_THOUSANDS = {"space": " ", "point": ".", "comma": ",", "apostrophe": "'"}
# Blanks and apostrophes of other kinds than those of a keyboard.
_VARIANTS = {**dict.fromkeys("\u00a0\u2007\u2009\u202f", " "), "\u2019": "'"}
_OTHER = {".": ",", ",": "."}

_EXPONENT = r"([eE][+-]?\d+)?"
_POINT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)" + _EXPONENT + r"|[+-]?(inf|infinity)", re.IGNORECASE)
_COMMA = re.compile(r"[+-]?(\d*,\d+)" + _EXPONENT)
_GROUPED = re.compile(
    rf"[+-]?[1-9]\d{{0,2}}(?P<mark>[.,' {''.join(_VARIANTS)}])\d{{3}}"
    r"(?P<more>(?:(?P=mark)\d{3})*)(?:(?!(?P=mark))(?P<decimal>[.,])\d+)?"
)

# Signs of currencies and shares, and what else stands before a number that is money.
_MONEY = "$€£¥₹₽₩₺₴₪฿₫₦₱¢"
_SIGNS = f"%‰°{_MONEY}"
_CURRENCY = (
    rf"[^\W\d_]{{0,3}}[{_MONEY}]|Fr\.|kr\.?|Rs\.?|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|"
    r"HUF|AUD|CAD|NZD|BRL|MXN|ZAR|RUB|TRY|KRW"
)
_WITH_UNIT = re.compile(
    rf"(?:[+-]?(?P<before>{_CURRENCY})\s?)?(?P<number>[+-]?\d[\d.,' {''.join(_VARIANTS)}]*)"
    rf"(?P<after>[{_SIGNS}]\S?|[^\W\d_]\S{{0,9}})?"
)


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of text: its different cells, None for missing ones, and which each row has."""

    levels: list[str | None]
    codes: np.ndarray

    @property
    def cells(self) -> Column:
        """The column, each text shared by all of its rows."""
        return np.array(self.levels, dtype=object)[self.codes]

    def find_row(self, level: str | None) -> int:
        """Return the first row that has a cell."""
        return int(np.argmax(self.codes == self.levels.index(level)))

    def find_marks(self) -> dict[str, Written] | None:
        """Return how each different number is written; None where a cell is no number."""
        found: dict[str, Written] = {}
        for level in self.levels:
            written = None if level is None else find_marks(level)
            if level is not None and written is None:
                return None
            if level is not None and written is not None:
                found[level] = written
        return found

    def convert(self, written: Mapping[str, Written], separators: Collection[str]) -> Column:
        """Return the numbers; marks in doubt separate thousands where they are `separators`."""
        numbers = [
            np.nan if level is None else _convert(level, written[level], separators)
            for level in self.levels
        ]
        return np.array(numbers)[self.codes]


@dataclass(frozen=True)
class Written:
    """How one number is written; a mark in doubt may separate thousands or decimals."""

    decimal: str = ""
    thousands: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class Marks:
    """What is known of the marks of a whole file.

    ``decimal`` is the decimal mark, given or guessed, and ``thousands`` the thousands mark where
    one was given. ``seen`` are the decimal marks of cells that have one reading.
    """

    decimal: str
    thousands: str | None
    is_given: bool
    seen: frozenset[str]
    delimiter: str

    @property
    def has_doubt(self) -> bool:
        """Whether the decimal mark may as well separate thousands."""
        return not self.is_given and self.thousands is None


def is_number(cell: str, decimal: str = ".") -> bool:
    """Say whether a cell holds a number without thousands marks in this decimal notation."""
    cell = cell.strip()
    return bool(_POINT.fullmatch(cell) or (decimal == "," and _COMMA.fullmatch(cell)))


def find_marks(cell: str) -> Written | None:
    """Return how a number is written; None where the cell holds no number.

    >>> find_marks("1.234,5")
    Written(decimal=',', thousands='.', doubt='')
    >>> find_marks("1.665").doubt, find_marks("0.665").decimal, find_marks("12 kg")
    ('.', '.', None)
    """
    grouped = _GROUPED.fullmatch(cell)
    if grouped is not None:
        mark = _VARIANTS.get(grouped["mark"], grouped["mark"])
        if mark in _OTHER and not grouped["more"] and not grouped["decimal"]:
            return Written(doubt=mark)
        return Written(grouped["decimal"] or "", mark)
    if _POINT.fullmatch(cell) or cell.lstrip("+-").lower() == "nan":
        return Written("." if "." in cell else "")
    return Written(",") if _COMMA.fullmatch(cell) else None


def find_unit(cells: Collection[str]) -> str | None:
    """Return the unit that stands beside numbers in these cells; None where none does.

    A sign such as % is one in any cell, letters are in most cells: "1a" may be a name.

    >>> find_unit(["17%", "8 %", "none"]), find_unit(["€ 12", "€ 1,200"]), find_unit(["1a", "1b"])
    ('%', '€', None)
    """
    units: Counter[str] = Counter()
    for cell in cells:
        found = _WITH_UNIT.fullmatch(cell.strip())
        if found and find_marks(found["number"].strip()) is not None:
            units[found["before"] or found["after"] or ""] += 1
    for unit, count in units.most_common():
        if unit and (count > len(cells) / 2 or any(sign in unit for sign in _SIGNS)):
            return unit
    return None


def shows_decimals(cells: Iterable[str | None], mark: str) -> bool:
    """Say whether some cell has this decimal mark and no other reading."""
    found = (find_marks(cell.strip()) for cell in cells if cell is not None and mark in cell)
    return any(each is not None and each.decimal == mark for each in found)


def read_thousands(given: str | None, decimal: str | None, source: str) -> str | None:
    """Return a thousands mark that was given by itself or by its name."""
    if given is None:
        return None
    mark = _THOUSANDS.get(given, _VARIANTS.get(given, given))
    if mark not in _THOUSANDS.values():
        raise InputError(
            f"{source}: a thousands mark is one of {', '.join(_THOUSANDS)}, not {quote(given)}"
        )
    if mark == decimal:
        raise InputError(f"{source}: {quote(mark)} cannot be both decimal and thousands mark")
    return mark


def settle_columns(
    names: Sequence[str], columns: Sequence[Column | Texts], marks: Marks, source: str
) -> tuple[list[Column], list[str]]:
    """Turn columns of text into numbers where all their cells are numbers, and note guesses.

    A column whose marks have two readings is refused, unless other cells, options or columns
    decide.
    """
    settled: list[Column] = []
    guesses: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    for name, column in zip(names, columns, strict=True):
        if not isinstance(column, Texts):
            settled.append(column)
            continue
        written = column.find_marks()
        if written is None or not _is_consistent(written, marks):
            settled.append(column.cells)
            continue
        separators = set()
        for mark in sorted({each.doubt for each in written.values()} - {""}):
            doubt = _Doubt(mark, written, marks)
            if doubt.is_thousands is None:
                raise InputError(doubt.describe(name, column, source))
            if doubt.is_thousands:
                separators.add(mark)
            if doubt.is_guess:
                guesses.setdefault((mark, doubt.is_thousands), []).append((name, doubt.cell))
        settled.append(column.convert(written, separators))
    return settled, [_describe_guess(*key, places) for key, places in guesses.items()]


def _is_consistent(written: Mapping[str, Written], marks: Marks) -> bool:
    """Whether a column's cells with one reading go together, and with the options."""
    decimals = {each.decimal for each in written.values()} - {""}
    thousands = {each.thousands for each in written.values()} - {""}
    if "," in decimals and marks.decimal != ",":
        return False
    return not decimals & thousands and (marks.thousands is None or thousands <= {marks.thousands})


class _Doubt:
    """A mark of a column that may separate thousands or decimals, and what decides it."""

    def __init__(self, mark: str, written: Mapping[str, Written], marks: Marks) -> None:
        self.mark = mark
        cells = [cell for cell, each in written.items() if each.doubt == mark]
        self.cell = cells[0]
        self.delimiter = marks.delimiter
        self.beside = _find_unmarked(written, cells)
        self.is_guess, self.other_use = False, ""
        self.is_thousands = self._decide(written, marks)

    def _decide(self, written: Mapping[str, Written], marks: Marks) -> bool | None:
        """Return whether the mark separates thousands; None where nothing tells."""
        mark, other = self.mark, _OTHER[self.mark]
        decimals = {each.decimal for each in written.values()}
        if mark in decimals:
            is_refused = marks.thousands == mark or other in decimals
            self.other_use = next(c for c, each in written.items() if each.decimal == mark)
            return None if is_refused else False
        if any(each.thousands == mark for each in written.values()):
            return True
        if marks.thousands is not None:
            return mark == marks.thousands
        if marks.is_given and mark == marks.decimal:
            return False
        is_only_other = other in marks.seen and mark not in marks.seen
        is_delimiter = mark == marks.delimiter and mark not in marks.seen
        if other in decimals or is_only_other or is_delimiter:
            self.is_guess = True
            return True
        if self.beside is not None:
            return None
        if mark in marks.seen:
            return None if other in marks.seen else False
        # Tables with semicolons come from places where the decimal mark is a comma.
        self.is_guess = True
        return False if mark == "." and marks.delimiter != ";" else None

    def describe(self, name: str, column: Texts, source: str) -> str:
        """Return the refusal, with both readings."""
        place = f"{source}, row {column.find_row(self.cell) + 1}: column {quote(name)}"
        if self.other_use:
            return (
                f"{place} holds {quote(self.cell)}, but also {quote(self.other_use)}, where "
                f"{quote(self.mark)} is the decimal mark; write one of them otherwise"
            )
        beside = "" if self.beside is None else f" beside {quote(self.beside)}"
        way_out = f"thousands='{self.mark}' or decimal='{self.mark}'"
        if self.mark == self.delimiter:
            way_out = f"thousands='{self.mark}', or write decimals with a point"
        return (
            f"{place} holds {quote(self.cell)}{beside}, which may be "
            f"{_join(self.cell, self.mark)} or a decimal {_split(self.cell, self.mark)}; "
            f"give {way_out}"
        )


def _find_unmarked(written: Mapping[str, Written], doubtful: Sequence[str]) -> str | None:
    """Return an unmarked number that speaks for thousands in doubtful cells; None without one.

    It is of their size without the mark. A program that writes decimals of three digits, with
    zeros at their ends, would have written them here too.
    """
    plain = [cell for cell, each in written.items() if each == Written() and is_number(cell)]
    plain = [cell for cell in plain if np.isfinite(float(cell))]
    if not plain:
        return None
    largest = max(plain, key=lambda cell: abs(float(cell)))
    smallest = min(abs(float(_join(cell, cell[-4]))) for cell in doubtful)
    # Numbers are of one size where they differ by no more than this factor.
    is_near = 10.0 * abs(float(largest)) >= smallest
    return largest if is_near or any(cell.endswith("0") for cell in doubtful) else None


def _join(cell: str, mark: str) -> str:
    return cell.replace(mark, "")


def _split(cell: str, mark: str) -> str:
    return cell.replace(mark, ".")


def _convert(cell: str, written: Written, separators: Collection[str]) -> float:
    """Return the number that a cell holds, its thousands marks left out."""
    mark = written.thousands or (written.doubt if written.doubt in separators else "")
    left_out = {mark, *(each for each, same in _VARIANTS.items() if same == mark)}
    text = "".join(letter for letter in cell if letter not in left_out)
    return float(text.replace(",", "."))


def _describe_guess(mark: str, is_thousands: bool, places: Sequence[tuple[str, str]]) -> str:
    """Say how cells with a mark in doubt are read, with the first of them."""
    name, cell = places[0]
    more = len(places) - 1
    where = f"column {quote(name, 30)}" + (f" and {more} more" if more else "")
    joined, decimal = _join(cell, mark), _split(cell, mark)
    if is_thousands:
        return f"thousands mark {quote(mark)} (guessed): {quote(cell)} in {where} is {joined}"
    return (
        f"decimal mark {quote(mark)} (guessed): {quote(cell)} in {where} is {decimal}; "
        f"for {joined} give thousands='{mark}'"
    )
