"""Reader of the first sheet of Excel workbooks, by openpyxl (the extra ``excel``)."""

import io
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from unshuffle.errors import InputError, import_extra, quote, shorten
from unshuffle.io.table import Column, Table, make_table

# The old binary format, which openpyxl does not read.
_OLD_WORKBOOK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ZIP = b"PK\x03\x04"


def is_workbook(data: bytes) -> bool:
    """Return whether the bytes are a workbook, old or new, or another zip file."""
    return data.startswith((_ZIP, _OLD_WORKBOOK))


def read_excel(data: bytes, source: str, digest: str) -> Table:
    """Read the first sheet of a workbook; its first row that is not empty has the names.

    Numbers are read as stored, not as displayed, and formulas by their stored value.
    """
    if data.startswith(_OLD_WORKBOOK):
        raise InputError(
            f"{source}: is an Excel workbook of the old format (.xls); save it as .xlsx, or save "
            "the sheet as CSV"
        )
    if not _holds_workbook(data):
        raise InputError(
            f"{source}: is a zip file, or an Excel workbook that is broken or cut off; unpack it, "
            "or open it in Excel and save the sheet as CSV"
        )
    openpyxl = import_extra("openpyxl", "excel", "reading Excel workbooks (or save it as CSV)")
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheets = book.worksheets
        rows = [list(row) for row in sheets[0].iter_rows(values_only=True)]
    # Corrupt files raise many kinds of errors.
    except Exception as exc:
        raise InputError(
            f"{source}: the Excel workbook cannot be read ({shorten(exc, 100)}); save the sheet "
            "as CSV"
        ) from exc
    rows = [row for row in rows if any(not _is_empty(cell) for cell in row)]
    if not rows:
        raise InputError(
            f"{source}: the sheet {quote(sheets[0].title)} is empty; put the table on the first "
            "sheet, or save it as CSV"
        )
    names, columns = _make_columns(rows)
    notes = [f"sheet {quote(sheets[0].title, 30)} of {len(sheets)} is read"] if sheets[1:] else []
    return make_table(names, columns, source, notes, digest)


def _holds_workbook(data: bytes) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False


def _make_columns(rows: Sequence[list[Any]]) -> tuple[list[str], list[Column]]:
    """Return names and columns, without columns that are empty and nameless."""
    width = max(len(row) for row in rows)
    filled = [row + [None] * (width - len(row)) for row in rows]
    head, body = filled[0], filled[1:]
    names, columns = [], []
    for j, name in enumerate(head):
        cells = [None if _is_empty(row[j]) else row[j] for row in body]
        if _is_empty(name) and all(cell is None for cell in cells):
            continue
        names.append(f"column {j + 1}" if _is_empty(name) else str(name).strip())
        columns.append(_convert(cells))
    return names, columns


def _convert(cells: Sequence[Any]) -> Column:
    is_number = all(
        cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))
        for cell in cells
    )
    if is_number:
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    texts = [None if cell is None else _as_text(cell) for cell in cells]
    return np.array(texts, dtype=object)


def _as_text(cell: Any) -> str:
    """Return a cell as text, whole numbers without a decimal point."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return f"{cell:.17g}" if isinstance(cell, float) else str(cell).strip()


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())
