"""Validation of `groups`, the bag of every row, given as a column or a sequence."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import narwhals as nw
import numpy as np

from unshuffle.errors import InputError, quote


def _is_missing(name: Any) -> bool:
    """Return whether a name is None, NaN, NaT or pandas' NA (which compares as unknown)."""
    try:
        return name is None or bool(name != name)
    except TypeError:
        return True


def check_groups(groups: Any, n: int) -> Any:
    """Return groups as a collection of names; refuse a wrong length and missing names."""
    if groups is None:
        return None
    if isinstance(groups, str | bytes):
        name = quote(groups, 30)
        raise InputError(
            f"groups={name} is a name, and groups are the bag of every row: give the column itself "
            f"(groups=frame[{name}]), and leave it out of X"
        )
    frame = nw.from_native(groups, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame) or (isinstance(groups, np.ndarray) and groups.ndim != 1):
        raise InputError(f"groups must be one column of names, got shape {np.shape(groups)}")
    items = frame.to_list() if isinstance(frame, nw.Series) else groups
    if not isinstance(items, Collection):
        raise InputError(f"groups={quote(groups)} is not understood: give the bag of every row")
    if len(items) != n:
        raise InputError(
            f"groups has {len(items)} entries but there are {n} rows: give the bag of every row"
        )
    is_complete = isinstance(items, np.ndarray) and items.dtype.kind in "iubUS"
    for row, name in enumerate(() if is_complete else items):
        try:
            hash(name)
        except TypeError as exc:
            raise InputError(
                f"groups holds {quote(name)} in row {row}, which is no name: give numbers or texts"
            ) from exc
        if _is_missing(name):
            raise InputError(f"groups holds {name} in row {row}: give every row a bag, or drop it")
    return items
