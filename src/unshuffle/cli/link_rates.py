"""Mismatch rates by block, read from a file of two columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli.options import choose_marks
from unshuffle.errors import InputError, quote

if TYPE_CHECKING:
    from unshuffle.io import Design

_BLOCK, _RATE = "block", "rate"


def read_rates(path: Path, design: Design, options: dict[str, Any]) -> dict[Any, float]:
    """Return the mismatch rate of every block, by its name in the data."""
    import numpy as np

    from unshuffle.io import read_table
    from unshuffle.io.designs.design_matrix import bag_keys

    if design.groups is None:
        raise click.UsageError("mismatch rates by block need the column of blocks: give --block")
    table = read_table(path, **choose_marks(options))
    block, rate = (table.find(name, "column") for name in (_BLOCK, _RATE))
    names, rates = bag_keys(table, block, np.arange(len(table.columns[block]))), table.columns[rate]
    if rates.dtype == object:
        raise InputError(f"{table.source}: column {quote(rate)} holds text; give shares")
    # 1 in one file may be '1' in the other.
    known = {str(name): name for name in design.groups.tolist()}
    found: dict[Any, float] = {}
    for row, (name, value) in enumerate(zip(names.tolist(), rates.tolist(), strict=True), 1):
        key = known.get(str(name), name)
        if key in found:
            raise InputError(f"{table.source}, row {row}: block {quote(name)} has two rates")
        found[key] = value
    return found
