"""Labels as a table with one line for each bag: its mean or total, alone or beside full bags."""

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, quote
from unshuffle.io.table import Table

MEAN, TOTAL = "mean", "total"


def find_mean_column(table: Table, label: str | None) -> str | None:
    """Return the column that holds means or totals; None where there is none.

    A column that is named as the label holds labels, whatever its name.
    """
    found = [name for name in (MEAN, TOTAL) if name in table.names and name != label]
    if len(found) == 2:
        raise InputError(
            f"{table.source} has a column {quote(MEAN)} and a column {quote(TOTAL)}; leave one out"
        )
    return found[0] if found else None


def is_mean_table(table: Table, label: str | None) -> bool:
    """Return whether a table of labels tells bags by their mean or total."""
    return find_mean_column(table, label) is not None


def check_single(
    table: Table, codes: NDArray[np.intp], is_mean: NDArray[np.bool_], keys: NDArray[np.generic]
) -> None:
    """Refuse a bag with several means, or with a mean and labels of its own."""
    n_lines = np.bincount(codes, minlength=len(keys))
    wrong = np.flatnonzero((n_lines > 1) & (np.bincount(codes, is_mean, len(keys)) > 0))
    if len(wrong):
        r = int(wrong[0])
        raise InputError(
            f"{table.source}: bag {quote(keys[r], 30)} has a mean or total and {n_lines[r] - 1} "
            "more lines; give one line with its mean or total, or name the column with --label if "
            "it holds single labels"
        )
