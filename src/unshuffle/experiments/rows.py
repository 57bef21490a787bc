"""Rows of results in a CSV file, between fitting and drawing: one line for each fit.

Lines are appended whole and never rewritten. A line counts once its newline is there. A killed
process leaves at most one piece of a line, which reading drops and the next run cuts off.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from unshuffle.errors import InputError, shorten

Settings = Mapping[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """The rows of one experiment, in the order of its plan."""

    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def where(self, **conditions: Any) -> Table:
        """Return the rows whose columns have these values.

        >>> len(Table(({"n": 1}, {"n": 2})).where(n=2))
        1
        """
        return Table(tuple(r for r in self.rows if all(r[k] == v for k, v in conditions.items())))

    def unique(self, column: str) -> list[Any]:
        """Return the values of a column, each once, in order of appearance."""
        return list(dict.fromkeys(row[column] for row in self.rows))

    def values(self, column: str = "error", **conditions: Any) -> np.ndarray:
        """Return a column of numbers from the rows that meet the conditions."""
        return np.array([row[column] for row in self.where(**conditions)], dtype=float)

    def mean(self, column: str = "error", **conditions: Any) -> float:
        """Return the mean of a column, NaN where there is no row."""
        values = self.values(column, **conditions)
        return float(values.mean()) if len(values) else float("nan")


def to_text(value: Any) -> str:
    """Write a value so that reading gives the same value back."""
    value = value.item() if isinstance(value, np.generic) else value
    return repr(value) if isinstance(value, float) else " ".join(str(value).split())


def from_text(text: str) -> int | float | str:
    """Read a value written by `to_text`.

    >>> from_text("3"), from_text("0.5"), from_text("sm")
    (3, 0.5, 'sm')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def row_key(settings: Mapping[str, Any], keys: Iterable[str]) -> tuple[str, ...]:
    """Return what tells a row from every other: its settings as text."""
    return tuple(to_text(settings[key]) for key in keys)


def read_rows(path: Path, columns: Sequence[str]) -> list[Row]:
    """Read the whole lines of a file; a file that is not there has none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise InputError(
            f"{path} cannot be read ({shorten(exc, 100)}): mend its permissions"
        ) from exc
    whole = data[: data.rfind(b"\n") + 1]
    if not whole:
        return []
    lines = list(csv.reader(io.StringIO(whole.decode("utf-8", errors="replace"))))
    if tuple(lines[0]) != tuple(columns):
        raise InputError(
            f"{path} holds other columns than this version writes: choose another --out, or delete "
            "the file and run again"
        )
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(columns):
            raise InputError(
                f"{path} is damaged in line {number} ({len(line)} of {len(columns)} fields): "
                "delete that line and run again"
            )
    return [{k: from_text(v) for k, v in zip(columns, line, strict=True)} for line in lines[1:]]


class RowWriter:
    """Appends rows to a file, each in one write that has reached the disk when it returns."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns = path, tuple(columns)
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as exc:
            raise InputError(f"{path} cannot be written: {shorten(exc, 100)}") from exc
        data = path.read_bytes()
        os.truncate(path, data.rfind(b"\n") + 1)
        if b"\n" not in data:
            self._write(self.columns)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row."""
        self._write([to_text(row[column]) for column in self.columns])

    def _write(self, fields: Sequence[str]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(fields)
        line = text.getvalue().encode()
        try:
            written = os.write(self._handle, line)
            os.fsync(self._handle)
        except OSError as exc:
            raise InputError(f"{self.path} cannot be written: {shorten(exc, 100)}") from exc
        if written < len(line):
            raise InputError(f"{self.path}: the disk is full; make room and run again to go on")

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)
