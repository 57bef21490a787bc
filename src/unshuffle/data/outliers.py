"""Outliers: cells far from all others of their column, by mistake or as codes for missing values.

Distances from the median are in robust standard deviations (1.4826 times the median absolute
deviation; Hampel 1974). Heavy tails are far away too, but without a gap.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unshuffle.errors import OutlierWarning, quote

# Fewer rows have no robust spread.
LEAST_ROWS = 10
# Numbers that statistics packages use for missing values.
_CODE = re.compile(r"-?(7+|8+|9+[789]?)")


@dataclass(frozen=True)
class OutlierSettings:
    """Which cells are outliers; docs/decisions/003-outliers.md has the tables.

    Attributes
    ----------
    far : float
        Least distance from the median, in robust standard deviations.
    gap : float
        The distance is at least so many times that of the next value.
    share : float
        Largest share of the rows that far cells may have; codes may have any.
    sample_rows : int
        Median and spread are those of about so many evenly spaced rows.
    """

    far: float = 10.0
    gap: float = 3.0
    share: float = 0.01
    sample_rows: int = 10_000


OUTLIERS = OutlierSettings()


@dataclass(frozen=True)
class Outlier:
    """The farthest cells of a column.

    ``row`` is the first of them, ``rows`` their number, ``rest`` the farthest value on their side
    that is none of them, and ``centre`` the median. ``sds`` is their least distance; None for a
    negative code among positive numbers, which may lie near. With ``is_log`` all of these are
    logarithms.
    """

    row: int
    value: float
    rows: int
    sds: float | None
    rest: float
    centre: float
    is_log: bool = False

    def stands_out(self, low: float, high: float) -> bool:
        """Return whether the cell is an outlier beside other values from low to high."""
        if self.sds is None:
            return low >= 0
        reach = max(high - self.centre, 0.0) if self.value > self.centre else self.centre - low
        return abs(self.value - self.centre) >= OUTLIERS.gap * reach

    def describe(self) -> str:
        """Return a phrase on the value of the cell, and the distance of it or its logarithm."""
        rows = f" in {self.rows} rows" if self.rows > 1 else ""
        value = 10.0**self.value if self.is_log else self.value
        if self.sds is None:
            return f"holds {value:.6g}{rows}, the only negative value"
        of_log = " of log10" if self.is_log else ""
        return f"holds {value:.6g}{rows}, {self.sds:.3g} robust sds{of_log} from the median"


def is_code(value: float) -> bool:
    """Return whether a number looks like a code of missing values.

    >>> [is_code(value) for value in (999.0, -9.0, 98.0, 12.0, 1e15)]
    [True, True, True, False, False]
    """
    return _CODE.fullmatch(f"{value:g}") is not None


def find_outlier(values: np.ndarray) -> Outlier | None:
    """Return the cells of a column that lie beyond a gap, or hold a code, if there are any.

    Columns whose median absolute deviation is 0, such as most of 0 and 1, have no far cells. Values
    are finite, or NaN where they are missing.
    """
    centre, spread = _measure(values)
    if spread > 0:
        largest, smallest = np.nanmax(values), np.nanmin(values)
        for sign, end in ((1.0, largest), (-1.0, smallest)):
            with np.errstate(over="ignore"):
                is_far = sign * (end - centre) / spread > OUTLIERS.far
            found = _find_far_cells(values, centre, sign * spread) if is_far else None
            if found is not None:
                return found
    return _find_negative_code(values)


def _find_far_cells(values: np.ndarray, centre: float, unit: float) -> Outlier | None:
    """Return the cells beyond the outermost gap on one side, in units of the spread."""
    with np.errstate(over="ignore", invalid="ignore"):
        distances = (values - centre) / unit
        is_far = distances > OUTLIERS.far
        rest = np.max(distances, where=~is_far & (distances == distances), initial=0.0)
        order = np.append(np.sort(distances[is_far])[::-1], rest)
        gaps = np.flatnonzero(order[:-1] >= OUTLIERS.gap * order[1:])
    if not len(gaps):
        return None
    is_out = distances >= order[gaps[0]]
    rows = np.flatnonzero(is_out)
    codes = map(is_code, np.unique(values[rows]).tolist())
    if len(rows) > max(1.0, OUTLIERS.share * len(values)) and not all(codes):
        return None
    others = values[~is_out]
    end = np.nanmax(others) if unit > 0 else np.nanmin(others)
    row, sds = int(rows[0]), float(order[gaps[0]])
    return Outlier(row, float(values[row]), len(rows), sds, float(end), centre)


def _find_negative_code(values: np.ndarray) -> Outlier | None:
    """Return a negative code where no other value is negative."""
    if len(values) < LEAST_ROWS or not is_code(float(np.nanmin(values, initial=0.0))):
        return None
    rows = np.flatnonzero(values < 0)
    codes = np.unique(values[rows])
    others = values[values >= 0]
    if len(codes) > 1 or not len(others):
        return None
    row, rest = int(rows[0]), float(others.min())
    return Outlier(row, float(codes[0]), len(rows), None, rest, float(np.median(others)))


def _measure(values: np.ndarray) -> tuple[float, float]:
    """Return the median and the robust sd of a column, of many rows from evenly spaced ones."""
    some = values[:: max(1, len(values) // OUTLIERS.sample_rows)]
    some = some[some == some]
    if len(some) < LEAST_ROWS:
        return 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        centre = float(np.median(some))
        spread = 1.4826 * float(np.median(np.abs(some - centre)))
    # Numbers whose sums overflow are refused elsewhere.
    return (centre, spread) if np.isfinite([centre, spread]).all() else (0.0, 0.0)


def warn_of_outliers(
    X: np.ndarray,
    y: np.ndarray,
    names: Sequence[str] | None = None,
    name_row: Callable[[int], str] = "row {}".format,
    name_label: Callable[[int], str] = "row {}".format,
    stacklevel: int = 2,
) -> None:
    """Warn of outliers in features and labels, with the names of columns and rows."""
    found = []
    for j, column in enumerate(X.T):
        outlier = find_outlier(column)
        if outlier is not None:
            name = str(j) if names is None else quote(names[j])
            found.append((f"X, {name_row(outlier.row)}, column {name}", outlier))
    label = find_outlier(y)
    if label is not None:
        found.append((f"y, {name_label(label.row)}", label))
    if found:
        warnings.warn(describe_outliers(found), OutlierWarning, stacklevel=stacklevel + 1)


def describe_outliers(found: Sequence[tuple[str, Outlier]]) -> str:
    """Return a sentence on the outliers of a table, each with the column and row it is in."""
    n_named = 3
    shown = "; ".join(f"{where} {each.describe()}" for where, each in found[:n_named])
    more = f"; {len(found) - n_named} more columns have such" if len(found) > n_named else ""
    way_out = "mend it, or leave the row out"
    if any(is_code(each.value) for _, each in found[:n_named]):
        way_out = "if it stands for a missing value, leave the row out, otherwise mend it"
    return f"outlier: {shown}{more}; {way_out}"
