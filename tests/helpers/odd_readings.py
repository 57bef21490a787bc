"""How every reader takes an odd file, beside what it holds."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np

from odd_files import OddFile
from unshuffle.errors import InputError
from unshuffle.io import make_design, read_table
from unshuffle.io.sources.table_source import ColumnChoice, read_to_scratch
from unshuffle.io.text import parsing, pieces
from unshuffle.io.text.pieces import WholeFileError

# What says that a guess may be wrong: of marks, and of the first line.
GUESSES = ("thousands mark", "decimal mark")
NAMES = "first line taken as column names"


def check_file(odd: OddFile, folder: Path) -> list[str]:
    """Read a file by every reader; return what it came to, for the tally."""
    path = folder / "odd.csv"
    path.write_bytes(odd.content)
    whole = _read(path, odd)
    with patch.object(parsing, "read_with_pyarrow", lambda *args: None):
        _assert_alike(_read(path, odd), whole)
    if isinstance(whole, str):
        assert whole.isprintable() and len(whole) < 500, whole
        return ["refused", "refused though clean"][: 1 + (not odd.oddities)]
    found = _check_table(odd, whole)
    _check_stream(path, odd, whole)
    return ["read", *found]


def _read(path: Path, odd: OddFile) -> object:
    try:
        return read_table(path, **odd.options)
    except InputError as error:
        return str(error)


def _assert_alike(one, other):
    """Two readers give the same table, or the same words."""
    if isinstance(other, str) or isinstance(one, str):
        assert one == other
        return
    assert (one.names, one.notes, one.n_rows) == (other.names, other.notes, other.n_rows)
    for name in other.names:
        assert one.columns[name].dtype == other.columns[name].dtype, name
        if one.columns[name].dtype == object:
            assert one.columns[name].tolist() == other.columns[name].tolist()
        else:
            np.testing.assert_array_equal(one.columns[name], other.columns[name])


def _check_table(odd: OddFile, table) -> list[str]:
    """Every number is the one that was meant, or a note names it."""
    is_said = any(note.startswith(NAMES) for note in table.notes)
    if table.n_rows != len(odd.columns[0].cells) or len(table.names) != len(odd.columns):
        assert is_said or "one column" in odd.oddities or "ragged" in odd.oddities
        return ["another shape, said"]
    found = []
    for column, name in zip(odd.columns, table.names, strict=True):
        values = table.columns[name]
        assert not odd.has_header or name == column.name or "ragged" in odd.oddities
        if values.dtype != object:
            assert column.is_number, (column.cells[:5], values[:5])
            meant = [np.nan if value is None else value for value in column.truth]
            if not np.array_equal(values, meant, equal_nan=True):
                assert any(note.startswith(GUESSES) for note in table.notes), (meant, values)
                found.append("wrong guess, said")
        elif not column.is_number:
            assert values.tolist() == column.truth
        elif len(table.names) > 1:
            _assert_refused(table, name)
            found.append("numbers refused")
    return found


def _assert_refused(table, name):
    """Numbers that were read as text are no categories."""
    label = next(each for each in table.names if each != name)
    for asked in ({"label": label, "features": [name]}, {"label": name}):
        try:
            design = make_design(table, **asked, missing="drop")
        except InputError:
            continue
        raise AssertionError((name, design.feature_names))


def _check_stream(path: Path, odd: OddFile, table) -> None:
    """What is read in small pieces is what the whole file holds, or is left to its reader."""
    numbers = [name for name in table.names if table.columns[name].dtype != object]
    if len(numbers) < 2 or odd.content.startswith(b"\x1f\x8b"):
        return
    label, features = numbers[0], tuple(numbers[1:])
    with patch.object(pieces, "PIECE_BYTES", 256):
        try:
            asked = ColumnChoice(label, features, drop_missing=True)
            laid = read_to_scratch([str(path)], asked, **odd.options)
        except WholeFileError:
            return
        except InputError as error:
            assert "\n" not in str(error)
            return
    X, y, _ = laid.source.gather()
    design = make_design(table, label=label, features=features, missing="drop")
    np.testing.assert_array_equal(X, design.X)
    np.testing.assert_array_equal(y, design.y)
