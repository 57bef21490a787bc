"""From a table without labels to the features of its samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.io.design_matrix import (
    bag_keys,
    check_numbers,
    check_numeric,
    choose_features,
    code_features,
    complete_rows,
)
from unshuffle.io.missing import Missing
from unshuffle.io.remarks import remark_columns
from unshuffle.io.table import Table, as_text


@dataclass(frozen=True, eq=False)
class Samples:
    """Features X (n, d) of samples, and what else their table says of them.

    ``rows`` holds the place of each sample in its table, counted from 0; ``together`` the names of
    samples that stay together, ``label`` labels that were measured already.
    """

    X: NDArray[np.float64]
    names: tuple[str, ...]
    rows: NDArray[np.intp]
    notes: tuple[str, ...]
    groups: NDArray[Any] | None = None
    together: NDArray[Any] | None = None
    label: NDArray[np.float64] | None = None


def choose_samples(
    table: Table,
    *,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    bag: str | None = None,
    together: str | None = None,
    label: str | None = None,
    categorical: Sequence[str] = (),
    missing: Missing = "error",
) -> Samples:
    """Choose features, bags and what stays together; the other columns are features."""
    asked = {"bag": bag, "together": together, "label": label}
    roles = {
        role: None if name is None else table.find(name, f"{role} column")
        for role, name in asked.items()
    }
    categorical = [table.find(name) for name in categorical]
    chosen = choose_features(table, features, roles, exclude)
    check_numeric(table, [name for name in chosen if name not in categorical])
    if roles["label"] is not None:
        check_numbers(table, roles["label"])
    used = [*chosen, *(name for name in roles.values() if name is not None)]
    rows, notes = complete_rows(table, used, missing)
    X, names, _, more = code_features(table, chosen, categorical, rows)
    numbers = [name for name in chosen if name not in categorical]
    labels = [] if roles["label"] is None else [roles["label"]]
    more += remark_columns(table, numbers, labels, rows, features is not None)
    return Samples(
        X,
        names,
        rows,
        (*table.notes, *notes, *more),
        None if roles["bag"] is None else bag_keys(table, roles["bag"], rows),
        None if roles["together"] is None else as_text(table.columns[roles["together"]][rows]),
        None if roles["label"] is None else table.columns[roles["label"]][rows],
    )
