"""Odd text files with the table that they hold: a generator that knows nothing of the readers.

A number is made of digits, and written with the marks of its file; its value comes from the digits.
So truth and text share no code with what is tested.
"""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass, field
from random import Random

BLANKS = (" ", "\u00a0", "\u202f", "\u2009")
APOSTROPHES = ("'", "\u2019")
MISSING = ("", "NA", "NaN", "NULL", "N/A")
ODD_MISSING = ("-", "n.a.", "?", ".", "missing")
WORDS = ("low", "mid", "high", "a b", "O'Hara", "na\u00efve", 'so "so"', "x-y", "x;y", "1st of May")
DATES = ("2020-01-{:02}", "{:02}.01.2020", "{:02}/01/2020", "2020-01-{:02} 10:30")
UNITS = ("{}%", "{} %", "\u20ac {}", "${}", "{} kg", "{}\u20ac", "CHF {}", "{} mg/dl")
NAMES = ("x{}", "col {}", "Wert_{}", "gr\u00f6\u00dfe {}")
KINDS = (
    "digits", "digits", "digits", "decimals", "decimals", "decimals", "trimmed", "trimmed",
    "thousandths", "grouped", "grouped", "grouped decimals", "scientific", "rounded", "codes",
    "words", "dates", "units",
)  # fmt: skip


@dataclass
class Column:
    """A column: its cells as written, and what they mean (a number, a text, or None)."""

    name: str
    kind: str
    cells: list[str] = field(default_factory=list)
    truth: list[float | str | None] = field(default_factory=list)

    @property
    def is_number(self) -> bool:
        """Whether its cells are numbers, with a unit or not."""
        return self.kind not in ("words", "dates")


@dataclass
class OddFile:
    """A file, its columns, the options of its reader, and what is wrong with it."""

    content: bytes
    columns: list[Column]
    options: dict[str, str]
    has_header: bool
    # What a reader may refuse: nothing in a clean file.
    oddities: list[str]
    thousands: str


def make_file(seed: object) -> OddFile:
    """Return the odd file of a seed."""
    rng = Random(repr(seed))  # noqa: S311
    delimiter = rng.choice(",,,;;;\t\t| ")
    decimal = rng.choice(".." if delimiter == "," else ".,")
    if delimiter == "," and rng.random() < 0.05:
        decimal = ","
    marks = (".", ",") * 4 + BLANKS + APOSTROPHES
    thousands = rng.choice([each for each in marks if each != decimal])
    if thousands in " \u00a0\u202f\u2009" and delimiter == " ":
        thousands = "'"
    n = rng.choice((3, 8, 20, 40, 60, 120))
    columns = [_make_column(rng, k, n, decimal, thousands) for k in range(rng.randint(1, 5))]
    if delimiter == " ":
        columns = [_without_blanks(column) for column in columns]
    oddities = [each.kind for each in columns if each.kind == "units"]
    if decimal == delimiter:
        oddities.append("decimal comma between commas")
    if len(columns) == 1:
        oddities.append("one column")
    if delimiter != " ":  # which takes several for one
        _spoil_missing(rng, columns, oddities)
    has_header = rng.random() < 0.9
    lines = [list(row) for row in zip(*(column.cells for column in columns), strict=True)]
    if has_header:
        lines.insert(0, [column.name for column in columns])
    elif not any(column.is_number for column in columns):
        oddities.append("no header")
    text = _write(rng, lines, delimiter, oddities)
    content = _encode(rng, text, oddities)
    options = {}
    for name, value in (("delimiter", delimiter), ("decimal", decimal), ("thousands", thousands)):
        if rng.random() < 0.15:
            options[name] = value
    if options.get("delimiter") == options.get("decimal"):
        options.pop("decimal", None)
    return OddFile(content, columns, options, has_header, oddities, thousands)


def _make_column(rng: Random, place: int, n: int, decimal: str, thousands: str) -> Column:
    kind = rng.choice(KINDS)
    column = Column(
        rng.choice(("x{}", "col {}", "Wert_{}", "gr\u00f6\u00dfe {}")).format(place), kind
    )
    n_digits, has_signs = rng.randint(1, 5), rng.random() < 0.3
    template = rng.choice(DATES if kind == "dates" else UNITS)
    for _ in range(n):
        if kind == "words":
            text = truth = rng.choice(WORDS)
        elif kind == "dates":
            text = truth = template.format(rng.randint(1, 28))
        else:
            sign = "-" if has_signs and rng.random() < 0.5 else ""
            whole, fraction, exponent = _draw_digits(rng, kind, n_digits)
            is_grouped = kind.startswith("grouped") or (kind == "units" and rng.random() < 0.3)
            shown = _group(whole, thousands) if is_grouped else whole
            text = sign + shown + (decimal + fraction if fraction else "") + exponent
            truth = float(f"{sign}{whole}.{fraction or 0}{exponent}")
            if kind == "units":
                text = template.format(text)
        column.cells.append(text)
        column.truth.append(truth)
    return column


def _draw_digits(rng: Random, kind: str, n_digits: int) -> tuple[str, str, str]:
    """Return the digits of a number before and after the decimal mark, and its exponent."""
    most = 10 ** (rng.randint(1, 7) if kind.startswith("grouped") else rng.randint(1, 4))
    whole = str(rng.randrange(most))
    if kind in ("digits", "units"):
        return whole, "", ""
    if kind == "codes":
        return rng.choice(("1", "2", "3", "999", "9")), "", ""
    if kind == "rounded":
        return str(100 * rng.randrange(100)), "", ""
    if kind == "grouped":
        return whole, "", ""
    if kind == "scientific":
        return whole[0], str(rng.randrange(10**n_digits)), f"e{rng.randint(-5, 5):+03d}"
    n_after = {"thousandths": 3, "grouped decimals": 2}.get(kind, n_digits)
    fraction = f"{rng.randrange(10**n_after):0{n_after}d}"
    return whole, fraction.rstrip("0") if kind == "trimmed" else fraction, ""


def _group(whole: str, mark: str) -> str:
    """Put a mark between groups of three digits."""
    head = len(whole) % 3
    groups = [whole[:head]] if head else []
    groups += [whole[k : k + 3] for k in range(head, len(whole), 3)]
    return mark.join(groups)


def _without_blanks(column: Column) -> Column:
    """Return a column whose cells hold no blanks, as between blanks there are none."""
    column.name = column.name.replace(" ", "_")
    column.cells = [cell.replace(" ", "_").replace('"', "") for cell in column.cells]
    if not column.is_number:
        column.truth = list(column.cells)
    elif column.kind == "units":
        column.kind = "words"
        column.truth = list(column.cells)
    return column


def _spoil_missing(rng: Random, columns: list[Column], oddities: list[str]) -> None:
    """Leave out values: by an empty cell or a usual word, or by an unusual word."""
    for column in columns:
        if rng.random() > 0.15:
            continue
        is_odd = rng.random() < 0.3
        word = rng.choice(ODD_MISSING if is_odd else MISSING)
        for row in range(len(column.cells)):
            if rng.random() < 0.2:
                column.cells[row] = word
                column.truth[row] = word if is_odd and not column.is_number else None
                if is_odd and "odd missing" not in oddities:
                    oddities.append("odd missing")
                if word == "" and "empty cells" not in oddities:
                    oddities.append("empty cells")


def _write(rng: Random, lines: list[list[str]], delimiter: str, oddities: list[str]) -> str:
    """Write lines with quotation marks where they are needed, or everywhere; blanks and more."""
    style = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    if delimiter not in ", " and rng.random() < 0.1 and style == csv.QUOTE_MINIMAL:
        lines = [[f" {cell} " if cell and '"' not in cell else cell for cell in x] for x in lines]
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, quoting=style, lineterminator="\n").writerows(lines)
    text = out.getvalue()
    if len(lines[0]) > 1 and rng.random() < 0.05:
        written = text.split("\n")
        place = rng.randrange(len(written) - 1)
        written[place] += delimiter + "surplus"
        text = "\n".join(written)
        oddities.append("ragged")
    if rng.random() < 0.1:
        written = text.split("\n")
        written.insert(rng.randrange(1, len(written) + 1), rng.choice(("", "  ")))
        text = "\n".join(written)
        oddities.append("blank line")
    if rng.random() < 0.2:
        text = text.rstrip("\n")
    end = rng.choice(("\n", "\n", "\r\n", "\r"))
    return text.replace("\n", end)


def _encode(rng: Random, text: str, oddities: list[str]) -> bytes:
    """Return the bytes of a text in one of the usual encodings, now and then packed."""
    encoding = rng.choice(("utf-8",) * 6 + ("utf-8-sig", "utf-16", "cp1252"))
    if encoding == "cp1252":
        text = text.replace("\u202f", "\u00a0").replace("\u2009", "\u00a0")
    content = text.encode(encoding)
    if encoding != "utf-8":
        oddities.append(encoding)
    return gzip.compress(content) if rng.random() < 0.03 else content
