"""Search for a column that looks like bags, where the user named none."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from unshuffle.io.table import Column, Table

# Frequent names of bag columns, the likeliest first.
NAMES = (
    "bag", "batch", "plate", "pool", "run", "lane", "chip", "tube", "well", "group", "cohort",
    "site", "donor", "subject", "patient", "sample", "block", "session", "experiment", "replicate",
    "day", "file", "box", "tray", "cage", "district", "clinic", "ward", "county",
)  # fmt: skip


def find_forgotten_bag(table: Table, taken: Collection[str]) -> tuple[str, int] | None:
    """Return the column that looks most like bags, and its number of levels; None without one.

    It has a name of bags, and values of text or whole numbers that all repeat. Columns `taken` have
    another role.
    """
    found = []
    for place, name in enumerate(table.names):
        rank = None if name in taken else _rank(name)
        if rank is None:  # most columns, whose levels need not be counted
            continue
        n_levels = _count_levels(table.columns[name])
        if n_levels is not None:
            found.append((rank, place, name, n_levels))
    if not found:
        return None
    _, _, name, n_levels = min(found)
    return name, n_levels


def _rank(name: str) -> tuple[bool, int] | None:
    """Return the rank of a name as that of bags, the likeliest first; None for other names.

    >>> _rank("Plate_ID"), _rank("plate"), _rank("template")
    ((True, 2), (False, 2), None)
    """
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = re.findall(r"[a-z]+", apart.lower())
    ranks = [NAMES.index(word) for word in words if word in NAMES]
    return (len(words) > 1, min(ranks)) if ranks else None


def _count_levels(column: Column) -> int | None:
    """Return the number of levels of a column if all levels repeat; None otherwise."""
    if column.dtype == object:
        values = np.array([str(value) for value in column if value is not None], dtype=str)
    else:
        values = column[column == column]
        if not np.array_equal(values, np.round(values)):
            return None
    counts = np.unique(values, return_counts=True)[1]
    # Levels with fewer than three rows on average are rather row numbers.
    is_one = 2 <= len(counts) <= max(2, len(values) // 3) and counts.min() >= 2
    return len(counts) if is_one else None
