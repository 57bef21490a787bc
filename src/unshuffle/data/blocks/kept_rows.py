"""Rows and labels of small bags, taken out of their blocks in an order that no block decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from unshuffle.data.blocks.sources import Block, Source

# Parts of a total: rows, labels and bags of some blocks.
_Parts = list[tuple[np.ndarray, np.ndarray, np.ndarray]]


def hold_rows(
    source: Source, is_kept: np.ndarray, needs_labels: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows (m, d) of some bags, one bag after another, and their labels, if needed.

    In each bag both ascend, each for itself: which row stood beside which label is lost.
    """

    def start() -> _Parts:
        return []

    def add(total: _Parts, block: Block) -> None:
        own = np.flatnonzero(is_kept[block.codes])
        if len(own):
            y = (block.y[own] if needs_labels else block.y[:0]) + 0.0
            total.append((block.X[own] + 0.0, y, block.codes[own]))

    def merge(total: _Parts, other: _Parts) -> Any:
        return total + other

    parts = source.map_reduce(start, add, merge, needs_labels=needs_labels)
    rows, y, codes = (np.concatenate([part[k] for part in parts]) for k in range(3))
    del parts
    order = np.lexsort([*rows.T[::-1], codes])
    return rows[order], y[np.lexsort([y, codes])] if needs_labels else y
