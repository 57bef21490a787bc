"""Labels as expressions of columns, such as ``log10(FITC-A / PE-Texas Red-A)``.

A recursive-descent parser (Wirth 1976) turns the text into steps of a stack machine on whole
columns; Python never evaluates the text. The grammar::

    sum     = product (("+" | "-") product)*
    product = sign (("*" | "/") sign)*
    sign    = ("+" | "-") sign | power
    power   = value (("^" | "**") sign)?
    value   = number | function "(" sum ")" | "(" sum ")" | name

``×``, ``÷`` and ``−`` mean ``*``, ``/`` and ``-``. The longest matching name of a column is taken
as a value: ``FITC-A`` is that column, ``FITC - A`` a difference. A name in backticks or double
quotation marks is always a column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, quote, shorten, suggest

# Limits against slips and attacks, far beyond real expressions.
MAX_LENGTH, MAX_DEPTH = 1000, 50

Values = NDArray[np.float64]

_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"\w+")
# Characters of an unknown name, for the error message.
_UNKNOWN = re.compile(r"[^()*/^+×÷`\"]+")
_MARKS = frozenset('()*/^+-×÷−`"')
_SAME = {"×": "*", "÷": "/", "−": "-", "**": "^"}
_QUOTES = '`"'


@dataclass(frozen=True)
class Operation:
    """A step on one or two columns; `has_none` marks rows without a value, for the reason `why`."""

    apply: Callable[..., Values]
    n_operands: int = 2
    has_none: Callable[..., NDArray[np.bool_]] | None = None
    why: str = ""


_LOG_DOMAIN = (lambda x: x <= 0, "logarithm of 0 or a negative number")
FUNCTIONS = {
    "log10": Operation(np.log10, 1, *_LOG_DOMAIN),
    "log": Operation(np.log, 1, *_LOG_DOMAIN),
    "exp": Operation(np.exp, 1),
    "sqrt": Operation(np.sqrt, 1, lambda x: x < 0, "root of a negative number"),
    "arcsinh": Operation(np.arcsinh, 1),
}
_BINARY = {
    "+": Operation(np.add),
    "-": Operation(np.subtract),
    "*": Operation(np.multiply),
    "/": Operation(np.divide, 2, lambda x, y: y == 0, "division by 0"),
    "^": Operation(
        np.power,
        2,
        lambda x, y: ((x < 0) & (y != np.floor(y))) | ((x == 0) & (y < 0)),
        "power that is no real number",
    ),
}
_NEGATE = Operation(np.negative, 1)

Step = float | str | Operation


@dataclass(frozen=True)
class Gap:
    """The rows without a value of an expression: their number, the first (from 0), its reason."""

    n_rows: int
    row: int
    why: str


@dataclass(frozen=True)
class Expression:
    """An expression as steps of a stack machine: numbers, names of columns, and operations."""

    text: str
    steps: tuple[Step, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the expression needs, each once."""
        return tuple(dict.fromkeys(step for step in self.steps if isinstance(step, str)))

    @property
    def is_log10(self) -> bool:
        """Whether the value is a logarithm to base 10."""
        return self.steps[-1] is FUNCTIONS["log10"]

    def evaluate(self, columns: Mapping[str, Values]) -> tuple[Values, Gap | None]:
        """Return the value in every row, NaN where there is none, and the gap of such rows.

        Rows with a missing value in a column are NaN and do not count in the gap.
        """
        inputs = [columns[name] for name in self.columns]
        is_known = np.all([np.isfinite(column) for column in inputs], axis=0)
        stack: list[Values] = []
        failures: list[tuple[NDArray[np.bool_], str]] = []
        with np.errstate(all="ignore"):
            for step in self.steps:
                if not isinstance(step, Operation):
                    stack.append(columns[step] if isinstance(step, str) else np.float64(step))  # type: ignore[arg-type]
                    continue
                operands = [stack.pop() for _ in range(step.n_operands)][::-1]
                stack.append(step.apply(*operands))
                if step.has_none is not None:
                    is_none = np.broadcast_to(step.has_none(*operands), is_known.shape)
                    failures += [(is_none, step.why)] if is_none.any() else []
        values = np.broadcast_to(stack.pop(), is_known.shape)
        is_gap = is_known & ~np.isfinite(values)
        gap = _describe_gap(is_gap, failures) if is_gap.any() else None
        return np.where(np.isfinite(values), values, np.nan), gap


def _describe_gap(is_gap: NDArray[np.bool_], failures: list[tuple[NDArray[np.bool_], str]]) -> Gap:
    """Return the number of rows without a value, the first, and the step that failed there."""
    row = int(np.argmax(is_gap))
    why = next((why for is_none, why in failures if is_none[row]), "number too large")
    return Gap(int(is_gap.sum()), row, why)


def is_expression(text: str, names: Collection[str]) -> bool:
    """Return whether a text is no name of a column and has signs of an expression.

    >>> is_expression("a / b", ["a", "b"]), is_expression("FITC-A", ["FITC-A"])
    (True, False)
    """
    return text not in names and not _MARKS.isdisjoint(text)


def parse_expression(text: str, names: Collection[str]) -> Expression:
    """Return a text parsed as an expression of the columns `names`; refuse it with the place.

    >>> parse_expression("log10(FITC-A / 2)", ["FITC-A", "FITC"]).columns
    ('FITC-A',)
    """
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"the label {quote(text, 30)} has {len(text)} characters; an expression may have "
            f"{MAX_LENGTH}: shorten it"
        )
    parser = _Parser(text, names)
    parser.read_whole()
    expression = Expression(text, tuple(parser.steps))
    if not expression.columns:
        raise InputError(f"the label {quote(text)} names no column; {suggest(text, names)}")
    return expression


class _Parser:
    """A recursive-descent parser; `steps` are those read so far."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        self.text, self.place, self.depth = text, 0, 0
        # The longest first, so that FITC-A is found before FITC.
        self.names = sorted((name for name in names if name), key=len, reverse=True)
        self.steps: list[Step] = []

    def read_whole(self) -> None:
        self.read_sum()
        if self.peek():
            raise self.refuse("an operator is expected here, such as + - * / ^")

    def read_sum(self) -> None:
        self.read_product()
        while (mark := self.take("+", "-", "−")) is not None:
            self.read_product()
            self.steps.append(_BINARY[mark])

    def read_product(self) -> None:
        self.read_sign()
        while (mark := self.take("*", "×", "/", "÷", but="**")) is not None:
            self.read_sign()
            self.steps.append(_BINARY[mark])

    def read_sign(self) -> None:
        self.descend()
        mark = self.take("+", "-", "−")
        if mark is None:
            self.read_power()
        else:
            self.read_sign()
            self.steps += [_NEGATE] if mark == "-" else []
        self.depth -= 1

    def read_power(self) -> None:
        self.read_value()
        if self.take("^", "**") is not None:
            self.read_sign()
            self.steps.append(_BINARY["^"])

    def read_value(self) -> None:
        mark = self.peek()
        if mark and mark in _QUOTES:
            self.steps.append(self.read_quoted(mark))
            return
        if mark == "(":
            self.read_parentheses()
            return
        function = self.take_function()
        if function is not None:
            self.read_parentheses()
            self.steps.append(function)
            return
        self.steps.append(self.read_name_or_number())

    def read_parentheses(self) -> None:
        start = self.place
        self.take("(")
        self.read_sum()
        if self.take(")") is None:
            if self.peek():
                raise self.refuse("an operator or ')' is expected here")
            raise self.refuse("this '(' is never closed", start)

    def take_function(self) -> Operation | None:
        """Return the function whose name and parenthesis come next; None without one."""
        word = _WORD.match(self.text, self.place)
        if word is None or not self.text[word.end() :].lstrip().startswith("("):
            return None
        if word[0] not in FUNCTIONS:
            if self.find_name() is not None:
                return None
            raise self.refuse(
                f"no function is called {quote(word[0], 30)}; there are {', '.join(FUNCTIONS)}"
            )
        self.place = word.end()
        self.peek()
        return FUNCTIONS[word[0]]

    def read_quoted(self, mark: str) -> str:
        start = self.place
        end = self.text.find(mark, start + 1)
        if end < 0:
            raise self.refuse("this quotation mark is never closed", start)
        name = self.text[start + 1 : end]
        if name not in self.names:
            raise self.refuse(f"no column is called {quote(name)}; {suggest(name, self.names)}")
        self.place = end + 1
        return name

    def read_name_or_number(self) -> Step:
        number = _NUMBER.match(self.text, self.place)
        name = self.find_name()
        n_digits = 0 if number is None else len(number[0])
        if name is not None and len(name) > n_digits:
            self.place += len(name)
            return name
        if number is not None and not self.is_cut(number[0]):
            self.place += n_digits
            return float(number[0])
        unknown = _UNKNOWN.match(self.text, self.place)
        if unknown is None or not unknown[0].strip():
            raise self.refuse("a column, a number or '(' is expected here")
        wrong = unknown[0].strip()
        raise self.refuse(f"no column is called {quote(wrong)}; {suggest(wrong, self.names)}")

    def find_name(self) -> str | None:
        """Return the longest name of a column that comes next and does not end inside a word."""
        for name in self.names:
            if self.text.startswith(name, self.place) and not self.is_cut(name):
                return name
        return None

    def is_cut(self, token: str) -> bool:
        """Whether a word continues behind a token that comes next."""
        after = self.text[self.place + len(token) :][:1]
        return _WORD.match(token[-1]) is not None and _WORD.match(after) is not None

    def descend(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refuse(f"nested more than {MAX_DEPTH} deep; write it shorter")

    def peek(self) -> str:
        """Skip blanks and return the character that follows, empty at the end."""
        while self.text[self.place : self.place + 1].isspace():
            self.place += 1
        return self.text[self.place : self.place + 1]

    def take(self, *marks: str, but: str | None = None) -> str | None:
        """Return and skip the mark that comes next, in ASCII; None for others, and for ``but``."""
        self.peek()
        if but is not None and self.text.startswith(but, self.place):
            return None
        for mark in marks:
            if self.text.startswith(mark, self.place):
                self.place += len(mark)
                return _SAME.get(mark, mark)
        return None

    def refuse(self, what: str, place: int | None = None) -> InputError:
        """Return the error with the place where the expression breaks."""
        place = self.place if place is None else place
        where = f"character {place + 1}" if place < len(self.text) else "its end"
        rest = shorten(self.text[place:], 20)
        near = f" ({rest!r})" if rest else ""
        return InputError(f"label {quote(self.text)}, {where}{near}: {what}")
