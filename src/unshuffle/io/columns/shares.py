"""Weights of rows as shares of their bag, which sum to 1 or 100."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, quote
from unshuffle.io.table import Table

# Rows that the shares of a bag stand for, so many that sampling error is negligible.
ROWS_OF_BAG = 100_000
_WHOLES = (1.0, 100.0)


def read_shares(
    table: Table,
    weight: str,
    places: NDArray[np.intp],
    groups: NDArray[Any] | None,
    sizes: NDArray[Any] | None = None,
) -> NDArray[np.float64] | None:
    """Return the frequencies of rows whose weights are shares; None if weights are counts.

    Weights are shares where some are no whole numbers. Whole numbers are per cent where they sum to
    100 in every bag, unless ``sizes``, the numbers of labels of the bags, are 100 too.
    """
    column = table.columns[weight][places]
    keys = np.zeros(len(places), dtype=int) if groups is None else groups
    names, codes = np.unique(keys, return_inverse=True)
    sums = np.bincount(codes, column, minlength=len(names))
    if (column < 0).any():
        return None  # refused later, as counts
    if bool((column == np.floor(column)).all()):
        is_hundred = bool((sums == 100.0).all()) and len(column) > len(names)
        if not is_hundred or (sizes is not None and bool((sizes == 100.0).all())):
            return None
    # Rounded shares may differ from their sum by 2 %.
    fits = [np.abs(sums - whole) <= 0.02 * whole for whole in _WHOLES]
    best = max(fits, key=lambda each: int(each.sum()))
    if not best.all():
        r = int(np.argmin(best))
        bag = "" if groups is None else f" of bag {quote(names[r], 30)}"
        at = int(np.argmax(column != np.floor(column)))
        raise InputError(
            f"{table.source}, row {places[at] + 1}: the weight column {quote(weight)} holds "
            f"{column[at]:g}, and the weights{bag} sum to {sums[r]:g}; give whole numbers, or "
            "shares that sum to 1 (or to 100) in every bag"
        )
    return np.asarray(np.rint(column / sums[codes] * ROWS_OF_BAG))


def describe_shares(table: Table, weight: str) -> str:
    """Return the note that weights are shares."""
    return (
        f"{table.source}: column {quote(weight, 30)} holds shares of the rows of a bag, which are "
        "taken as exact"
    )
