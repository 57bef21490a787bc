"""Features of samples whose labels are not measured or to be released."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, quote
from unshuffle.io.columns.missing import Missing
from unshuffle.io.columns.remarks import remark_columns
from unshuffle.io.designs.design_matrix import (
    bag_keys,
    check_numbers,
    check_numeric,
    choose_features,
    code_features,
    complete_rows,
)
from unshuffle.io.table import Table, as_text


@dataclass(frozen=True, eq=False)
class Samples:
    """Features X (n, d) of samples, and other columns of their table.

    ``rows`` are the places of samples in their table, from 0; ``together`` names samples that stay
    in one run, and ``label`` are labels measured before. ``known`` (n, k) are columns that are no
    features.
    """

    X: NDArray[np.float64]
    names: tuple[str, ...]
    rows: NDArray[np.intp]
    notes: tuple[str, ...]
    groups: NDArray[Any] | None = None
    together: NDArray[Any] | None = None
    label: NDArray[np.float64] | None = None
    known: NDArray[np.float64] | None = None
    known_names: tuple[str, ...] = ()


def choose_samples(
    table: Table,
    *,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    bag: str | None = None,
    together: str | None = None,
    label: str | None = None,
    known: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: Missing = "error",
) -> Samples:
    """Return features, bags and other columns of a table; columns without a role are features.

    ``known`` columns are coded like features and kept apart; the label may be one of them.
    """
    asked = {"bag": bag, "together": together, "label": label}
    roles = {
        role: None if name is None else table.find(name, f"{role} column")
        for role, name in asked.items()
    }
    categorical = [table.find(name) for name in categorical]
    known = list(dict.fromkeys(table.find(name, "known column") for name in known))
    if features is None:
        taken = {*roles.values(), *exclude}
        exclude = [*exclude, *(name for name in known if name not in taken)]
    chosen = choose_features(table, features, roles, exclude)
    for name in known:
        if name in chosen:
            raise InputError(
                f"{table.source}: {quote(name)} is a feature, which is released, and cannot be a "
                "known column as well; name it once"
            )
    check_numeric(table, [name for name in (*chosen, *known) if name not in categorical])
    if roles["label"] is not None:
        check_numbers(table, roles["label"])
    used = [*chosen, *known, *(name for name in roles.values() if name is not None)]
    rows, notes = complete_rows(table, list(dict.fromkeys(used)), missing)
    X, names, _, more = code_features(table, chosen, categorical, rows)
    aside, known_names = None, tuple[str, ...]()
    if known:
        aside, known_names, _, others = code_features(table, known, categorical, rows)
        more += others
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
        aside,
        known_names,
    )
