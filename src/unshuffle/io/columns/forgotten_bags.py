"""Columns that look like bags, for those who forgot to name one."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from unshuffle.io.table import Column, Table

# What columns of bags are called, the likeliest first.
NAMES = (
    "bag", "batch", "plate", "pool", "run", "lane", "chip", "tube", "well", "group", "cohort",
    "site", "donor", "subject", "patient", "sample", "block", "session", "experiment", "replicate",
    "day", "file", "box", "tray", "cage", "district", "clinic", "ward", "county",
)  # fmt: skip


def find_forgotten_bag(table: Table, taken: Collection[str]) -> tuple[str, int] | None:
    """Return the column that is most likely a bag and its number of levels, if there is one.

    Its name says so, its values are text or whole numbers, and each of them repeats; columns
    `taken` as something else are left out.
    """
    found = []
    for place, name in enumerate(table.names):
        rank = None if name in taken else _rank(name)
        if rank is None:  # most columns: their levels need not be counted
            continue
        n_levels = _count_levels(table.columns[name])
        if n_levels is not None:
            found.append((rank, place, name, n_levels))
    if not found:
        return None
    _, _, name, n_levels = min(found)
    return name, n_levels


def _rank(name: str) -> tuple[bool, int] | None:
    """Return how likely a name is that of bags, least first; None where it says nothing.

    >>> _rank("Plate_ID"), _rank("plate"), _rank("template")
    ((True, 2), (False, 2), None)
    """
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = re.findall(r"[a-z]+", apart.lower())
    ranks = [NAMES.index(word) for word in words if word in NAMES]
    return (len(words) > 1, min(ranks)) if ranks else None


def _count_levels(column: Column) -> int | None:
    """Return the number of levels of a column whose levels all repeat, None of any other."""
    if column.dtype == object:
        values = np.array([str(value) for value in column if value is not None], dtype=str)
    else:
        values = column[column == column]
        if not np.array_equal(values, np.round(values)):
            return None
    counts = np.unique(values, return_counts=True)[1]
    # Bags of fewer rows than this, on average, are rather numbers of rows.
    is_one = 2 <= len(counts) <= max(2, len(values) // 3) and counts.min() >= 2
    return len(counts) if is_one else None
