"""Decimal and thousands marks of numbers in text columns, and how ambiguous marks are resolved.

A point or comma before exactly three digits may separate thousands or decimals. The other cells of
the column decide, then the options, then the other columns. If none of them does, it is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unshuffle.errors import InputError, quote
from unshuffle.io.table import Column

# Cells for missing values, as spreadsheets and statistics packages write them.
MISSING = frozenset({"", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None"})

_THOUSANDS = {"space": " ", "point": ".", "comma": ",", "apostrophe": "'"}
# Typographic blanks and apostrophes.
_VARIANTS = {**dict.fromkeys("\u00a0\u2007\u2009\u202f", " "), "\u2019": "'"}
_OTHER = {".": ",", ",": "."}

_EXPONENT = r"([eE][+-]?\d+)?"
_POINT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)" + _EXPONENT + r"|[+-]?(inf|infinity)", re.IGNORECASE)
_COMMA = re.compile(r"[+-]?(\d*,\d+)" + _EXPONENT)
_GROUPED = re.compile(
    rf"[+-]?[1-9]\d{{0,2}}(?P<mark>[.,' {''.join(_VARIANTS)}])\d{{3}}"
    r"(?P<more>(?:(?P=mark)\d{3})*)(?:(?!(?P=mark))(?P<decimal>[.,])\d+)?"
)

# Signs of shares and currencies, and abbreviations of currencies.
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
class TextColumn:
    """A column of text: its different cells (None if missing), and each row's place in them."""

    levels: list[str | None]
    codes: np.ndarray

    @property
    def cells(self) -> Column:
        """The column; rows share their texts."""
        return np.array(self.levels, dtype=object)[self.codes]

    def find_row(self, level: str | None) -> int:
        """Return the first row with a cell."""
        return int(np.argmax(self.codes == self.levels.index(level)))

    def find_number_format(self) -> dict[str, NumberFormat] | None:
        """Return the format of each different number; None where a cell is no number."""
        found: dict[str, NumberFormat] = {}
        for level in self.levels:
            written = None if level is None else find_number_format(level)
            if level is not None and written is None:
                return None
            if level is not None and written is not None:
                found[level] = written
        return found

    def convert(self, written: Mapping[str, NumberFormat], separators: Collection[str]) -> Column:
        """Return the numbers; ambiguous marks separate thousands where they are `separators`."""
        numbers = [
            np.nan if level is None else _convert(level, written[level], separators)
            for level in self.levels
        ]
        return np.array(numbers)[self.codes]


@dataclass(frozen=True)
class NumberFormat:
    """The marks of one number; a mark in `doubt` may separate thousands or decimals."""

    decimal: str = ""
    thousands: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class FileMarks:
    """The marks of a whole file, as far as they are known.

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
        """Whether the decimal mark may also separate thousands."""
        return not self.is_given and self.thousands is None


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell is a number without thousands marks in this decimal notation."""
    cell = cell.strip()
    return bool(_POINT.fullmatch(cell) or (decimal == "," and _COMMA.fullmatch(cell)))


def find_number_format(cell: str) -> NumberFormat | None:
    """Return the marks of a number; None where the cell is no number.

    >>> find_number_format("1.234,5")
    NumberFormat(decimal=',', thousands='.', doubt='')
    >>> find_number_format("1.665").doubt, find_number_format("0.665").decimal
    ('.', '.')
    >>> find_number_format("12 kg") is None
    True
    """
    grouped = _GROUPED.fullmatch(cell)
    if grouped is not None:
        mark = _VARIANTS.get(grouped["mark"], grouped["mark"])
        if mark in _OTHER and not grouped["more"] and not grouped["decimal"]:
            return NumberFormat(doubt=mark)
        return NumberFormat(grouped["decimal"] or "", mark)
    if _POINT.fullmatch(cell) or cell.lstrip("+-").lower() == "nan":
        return NumberFormat("." if "." in cell else "")
    return NumberFormat(",") if _COMMA.fullmatch(cell) else None


def find_unit(cells: Collection[str]) -> str | None:
    """Return the unit beside the numbers of these cells; None without a unit.

    A sign such as % is a unit in any cell, letters only in most cells: "1a" may be a name.

    >>> find_unit(["17%", "8 %", "none"]), find_unit(["€ 12", "€ 1,200"]), find_unit(["1a", "1b"])
    ('%', '€', None)
    """
    units: Counter[str] = Counter()
    for cell in cells:
        found = _WITH_UNIT.fullmatch(cell.strip())
        if found and find_number_format(found["number"].strip()) is not None:
            units[found["before"] or found["after"] or ""] += 1
    for unit, count in units.most_common():
        if unit and (count > len(cells) / 2 or any(sign in unit for sign in _SIGNS)):
            return unit
    return None


def shows_decimals(cells: Iterable[str | None], mark: str) -> bool:
    """Return whether some cell has this decimal mark without ambiguity."""
    found = (
        find_number_format(cell.strip()) for cell in cells if cell is not None and mark in cell
    )
    return any(each is not None and each.decimal == mark for each in found)


def read_thousands(given: str | None, decimal: str | None, source: str) -> str | None:
    """Return the thousands mark given as a character or by its name."""
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


def convert_texts(
    names: Sequence[str], columns: Sequence[Column | TextColumn], marks: FileMarks, source: str
) -> tuple[list[Column], list[str]]:
    """Turn columns of text into numbers where all their cells are numbers, and note guesses.

    A column with ambiguous marks is refused, unless other cells, options or columns decide.
    """
    settled: list[Column] = []
    guesses: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    for name, column in zip(names, columns, strict=True):
        if not isinstance(column, TextColumn):
            settled.append(column)
            continue
        written = column.find_number_format()
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


def _is_consistent(written: Mapping[str, NumberFormat], marks: FileMarks) -> bool:
    """Whether the unambiguous cells of a column agree with each other and with the options."""
    decimals = {each.decimal for each in written.values()} - {""}
    thousands = {each.thousands for each in written.values()} - {""}
    if "," in decimals and marks.decimal != ",":
        return False
    return not decimals & thousands and (marks.thousands is None or thousands <= {marks.thousands})


class _Doubt:
    """The decision whether an ambiguous mark of a column separates thousands or decimals."""

    def __init__(self, mark: str, written: Mapping[str, NumberFormat], marks: FileMarks) -> None:
        self.mark = mark
        cells = [cell for cell, each in written.items() if each.doubt == mark]
        self.cell = cells[0]
        self.delimiter = marks.delimiter
        self.beside = _find_unmarked(written, cells)
        self.is_guess, self.other_use = False, ""
        self.is_thousands = self._decide(written, marks)

    def _decide(self, written: Mapping[str, NumberFormat], marks: FileMarks) -> bool | None:
        """Return whether the mark separates thousands; None where nothing decides."""
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
        # Tables with semicolons come from countries where the decimal mark is a comma.
        self.is_guess = True
        return False if mark == "." and marks.delimiter != ";" else None

    def describe(self, name: str, column: TextColumn, source: str) -> str:
        """Return the error message, with both readings."""
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


def _find_unmarked(written: Mapping[str, NumberFormat], doubtful: Sequence[str]) -> str | None:
    """Return a number without marks as evidence that marks separate thousands; None without one.

    It is of the size of the others without their marks. A program that writes three decimals with
    trailing zeros would have written them here too.
    """
    plain = [cell for cell, each in written.items() if each == NumberFormat() and is_number(cell)]
    plain = [cell for cell in plain if np.isfinite(float(cell))]
    if not plain:
        return None
    largest = max(plain, key=lambda cell: abs(float(cell)))
    smallest = min(abs(float(_join(cell, cell[-4]))) for cell in doubtful)
    # Numbers are of one size if they differ by at most a factor of ten.
    is_near = 10.0 * abs(float(largest)) >= smallest
    return largest if is_near or any(cell.endswith("0") for cell in doubtful) else None


def _join(cell: str, mark: str) -> str:
    return cell.replace(mark, "")


def _split(cell: str, mark: str) -> str:
    return cell.replace(mark, ".")


def _convert(cell: str, written: NumberFormat, separators: Collection[str]) -> float:
    """Return the number of a cell, without its thousands marks."""
    mark = written.thousands or (written.doubt if written.doubt in separators else "")
    left_out = {mark, *(each for each, same in _VARIANTS.items() if same == mark)}
    text = "".join(letter for letter in cell if letter not in left_out)
    return float(text.replace(",", "."))


def _describe_guess(mark: str, is_thousands: bool, places: Sequence[tuple[str, str]]) -> str:
    """Return a note on how cells with an ambiguous mark are read, with the first of them."""
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
