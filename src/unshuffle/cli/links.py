"""Options on links between rows and labels, read from the columns and files they name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli.options import choose_marks
from unshuffle.errors import InputError, quote

if TYPE_CHECKING:
    import numpy as np

    from unshuffle.data.links import Links
    from unshuffle.io import Design, Table


def find_links(table: Table, design: Design, options: dict[str, Any]) -> Links | None:
    """Return what the options state about links; None for a mismatch rate alone."""
    names = {"probability": options.get("link_probability"), "safe": options.get("safe")}
    audit, share = options.get("audit"), options.get("mislinked")
    explaining, is_by_block = options.get("link_columns") or (), isinstance(share, Path)
    if audit is None and not explaining and not any(names.values()) and not is_by_block:
        return None
    if audit is not None and share is not None:
        raise click.UsageError("give --mislinked or --audit, not both")
    from unshuffle.data.links import Links
    from unshuffle.options import ESTIMATE, check_mislinked

    if isinstance(share, Path):
        share = _read_rates(share, design, options)
    else:
        check_mislinked(share)
    columns = {
        role: _read_shares(table, design, name, role == "safe")
        for role, name in names.items()
        if name is not None
    }
    if explaining:
        columns["columns"] = _read_numbers(table, design, explaining)
    # With match probabilities a share shifts them; without, it is an option of the fit.
    is_option = share == ESTIMATE or not ("probability" in columns or is_by_block)
    rate = None if is_option else share
    return Links(rate=rate, audit=audit, **columns)


def check_numbers(table: Table, name: str, way_out: str = "make it numbers") -> None:
    """Refuse a column of text where numbers are needed."""
    if table.columns[name].dtype == object:
        raise InputError(f"{table.source}: column {quote(name)} holds text; {way_out}")


def _read_rates(path: Path, design: Design, options: dict[str, Any]) -> dict[Any, float]:
    """Return the mismatch rate of every block, by its name in the data."""
    import numpy as np

    from unshuffle.io import read_table
    from unshuffle.io.designs.design_matrix import bag_keys

    if design.groups is None:
        raise click.UsageError("mismatch rates by block need the column of blocks: give --block")
    table = read_table(path, **choose_marks(options))
    block, rate = (table.find(name, "column") for name in ("block", "rate"))
    names, rates = bag_keys(table, block, np.arange(len(table.columns[block]))), table.columns[rate]
    check_numbers(table, rate, "give shares")
    # A block may be called 1 in one file and '1' in the other.
    known = {str(name): name for name in design.groups.tolist()}
    found: dict[Any, float] = {}
    for row, (name, value) in enumerate(zip(names.tolist(), rates.tolist(), strict=True), 1):
        key = known.get(str(name), name)
        if key in found:
            raise InputError(f"{table.source}, row {row}: block {quote(name)} has two rates")
        found[key] = value
    return found


def _read_numbers(table: Table, design: Design, names: Sequence[str]) -> np.ndarray:
    """Return columns of finite numbers (n, k); refuse text and missing values."""
    import numpy as np

    found = []
    for given in names:
        name = table.find(given, "column")
        check_numbers(table, name)
        column = table.columns[name][design.rows]
        if not np.isfinite(column).all():
            row = int(design.rows[np.flatnonzero(~np.isfinite(column))[0]]) + 1
            raise InputError(
                f"{table.source}: column {quote(name)} has no number in row {row}: fill it in"
            )
        found.append(column)
    return np.column_stack(found)


def _read_shares(table: Table, design: Design, name: str, is_binary: bool) -> np.ndarray:
    """Return a column of probabilities, or of 0 and 1; refuse other values with their row."""
    import numpy as np

    name = table.find(name, "column")
    column: np.ndarray = table.columns[name][design.rows]
    words = [str(value).strip().lower() for value in column] if column.dtype == object else []
    if is_binary and words and set(words) <= {"true", "false"}:  # as pandas and R write them
        column = np.array([word == "true" for word in words], dtype=float)
    else:
        check_numbers(table, name)
    fits = np.isin(column, (0, 1)) if is_binary else (column >= 0) & (column <= 1)
    if not fits.all():
        place = int(np.flatnonzero(~fits)[0])
        allowed = "1 for a link that is certainly right, else 0" if is_binary else "from 0 to 1"
        raise InputError(
            f"{table.source}: column {quote(name)} holds {column[place]:g} in row "
            f"{int(design.rows[place]) + 1}: give numbers {allowed}"
        )
    return column
