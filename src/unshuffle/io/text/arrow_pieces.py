"""Text read in pieces by pyarrow: columns of numbers whose marks have one reading.

No cell of a column is seen twice. What its marks may mean is kept in mind from piece to piece, and
what only the whole column can decide raises `UnusualError`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from unshuffle.io.text.delimited import (
    as_numbers,
    as_texts,
    choose_types,
    has_mark,
    read_arrow,
    trim,
)
from unshuffle.io.text.dialect import Dialect
from unshuffle.io.text.notation import find_marks, shows_decimals

# What pyarrow reads as an integer; and a number whose mark is in doubt, with the mark to be put in.
_DIGITS = r"^-?[0-9]{1,18}$"
_DOUBT = r"^[+-]?[1-9][0-9]{0,2}[%s][0-9]{3}$"


class UnusualError(Exception):
    """Raised where a file is better read as a whole."""


class PieceReader:
    """Reads the pieces of a text one after the other."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._kinds = list(dialect.kinds)
        # Columns in which there were cells without a mark, and columns of cells in doubt.
        self._plain: set[int] = set()
        self._doubtful: set[int] = set()

    def read(
        self,
        body: bytes | memoryview,
        places: Sequence[int],
        at_text: int | None = None,
        *,
        has_quotes: bool,
        is_alone: bool = True,
    ) -> tuple[list[Any], Any]:
        """Return columns as numbers, or as text where they are none, and one as pyarrow's text.

        Numbers are columns of pyarrow or arrays. pyarrow's exceptions say that it cannot read the
        piece.
        """
        pa = importlib.import_module("pyarrow")
        types = choose_types(self._kinds, body)
        kinds = {j: types[j] for j in places}
        as_text = {j: kind if kind == pa.float64() else pa.string() for j, kind in kinds.items()}
        attempts = [kinds, as_text, dict.fromkeys(kinds, pa.string())]
        for k, attempt in enumerate(attempts):
            asked = attempt if at_text is None else {**attempt, at_text: pa.string()}
            try:
                found = read_arrow(
                    body, self._dialect, asked, has_quotes=has_quotes, is_alone=is_alone
                )
                break
            except (pa.ArrowException, ValueError):
                if k == len(attempts) - 1:
                    raise
        columns = [self._convert(j, found[j]) for j in places]
        return columns, None if at_text is None else found[at_text]

    def _convert(self, j: int, column: Any) -> Any:
        pa = importlib.import_module("pyarrow")
        if column.type != pa.string():
            if column.type == pa.int64() and column.null_count < len(column):
                self._plain.add(j)
                self._check(j)
            return column
        marks, cells = self._dialect.marks, trim(column)
        if marks.decimal == "," and has_mark(cells, "."):
            raise UnusualError("numbers with points and commas")
        values = as_numbers(cells, marks.decimal)
        if values is None:
            values = as_texts(column)
            if all(find_marks(cell) is not None for cell in values.tolist() if cell is not None):
                raise UnusualError("numbers with thousands marks")
        elif marks.has_doubt:
            self._look(j, cells)
        return values

    def _look(self, j: int, cells: Any) -> None:
        """Keep in mind what the marks of a column may mean, and read it faster where that helps."""
        compute = importlib.import_module("pyarrow.compute")
        mark = self._dialect.decimal
        if not has_mark(cells, mark):
            if cells.null_count < len(cells):
                self._plain.add(j)
            is_digits = compute.all(compute.match_substring_regex(cells, _DIGITS)).as_py()
            if mark == "." and is_digits is not False:
                self._kinds[j] = "digits"
        elif compute.all(compute.match_substring_regex(cells, _DOUBT % mark)).as_py():
            self._doubtful.add(j)
            self._kinds[j] = "text"
        elif shows_decimals(cells.to_pylist(), mark):
            self._kinds[j] = "decimals" if mark == "." else "text"
            self._doubtful.discard(j)
            return
        else:
            raise UnusualError("a mark that may separate thousands")
        self._check(j)

    def _check(self, j: int) -> None:
        """Leave a column to the reader of whole files whose cells in doubt need its judgement."""
        if j not in self._doubtful:
            return
        if j in self._plain or self._dialect.marks.seen != {self._dialect.decimal}:
            raise UnusualError("a mark that may separate thousands")
