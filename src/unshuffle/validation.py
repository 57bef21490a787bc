"""Validation of the input of the scikit-learn estimator."""

from __future__ import annotations

from datetime import date, time, timedelta
from typing import Any

import narwhals as nw
import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from unshuffle.errors import InputError, quote
from unshuffle.io.columns.groups import check_groups
from unshuffle.objectives.checks import check_values

__all__ = ["check_data", "check_groups"]


def check_data(model: BaseEstimator, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return X and y validated by scikit-learn; errors name column, row and way out.

    With `reset` the model learns its columns here, otherwise X must have the columns of the fit.
    """
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] > 1:
        raise InputError(
            f"y should be a 1d array, got shape {tuple(shape)}: fit one label column at a time"
        )
    # Sparse matrices have no length; scikit-learn refuses them.
    if hasattr(X, "__len__") and hasattr(y, "__len__") and not issparse(X) and len(X) != len(y):
        raise InputError(
            f"X has {len(X)} rows but y has {len(y)} labels, inconsistent numbers of samples: "
            "give one label for each row, bag by bag"
        )
    _refuse_duplicates(X)
    # Before the conversion, which would turn dates into nanoseconds.
    dates = _find_dates(X, y)
    if dates is not None:
        raise InputError(dates)
    try:
        X, y = validate_data(
            model,
            X,
            y,
            reset=reset,
            dtype=np.float64,
            y_numeric=True,
            ensure_all_finite=False,
        )
    except (TypeError, ValueError) as exc:
        offender = _find_text(X) or _find_gap(y)
        if offender is None:
            raise
        raise InputError(offender) from exc
    y = np.asarray(y, dtype=np.float64)
    check_values(X, y, getattr(model, "feature_names_in_", None))
    return X, y


def _refuse_duplicates(X: Any) -> None:
    """Refuse a frame with two columns of one name, which would be ambiguous."""
    first: dict[Any, int] = {}
    columns = getattr(X, "columns", None)
    for place, name in enumerate([] if columns is None else list(columns), start=1):
        if name in first:
            raise InputError(
                f"columns {first[name]} and {place} of X are both called {quote(name)}: rename one "
                "of them, or leave it out"
            )
        first[name] = place


def _find_gap(y: Any) -> str | None:
    """Return the error for the first label that is no finite number; None without one."""
    if y is None:
        return None
    for row, value in enumerate(np.ravel(np.asarray(y, dtype=object)).tolist()):
        if isinstance(value, complex):  # refused by scikit-learn
            return None
        try:
            number = float(value)
        except (TypeError, ValueError):
            return (
                f"y holds {quote(value)} in row {row}, which is no number: turn labels into "
                "numbers first, or drop them together with one row of their bag"
            )
        if not np.isfinite(number):
            return (
                f"y holds {'NaN' if np.isnan(number) else 'infinity (inf)'} in row {row}: drop the "
                "label together with one row of its bag, or fill it in"
            )
    return None


def _list_columns(X: Any) -> list[tuple[str, list[Any]]]:
    """Return the columns of a frame or of an array of objects, each with its name in quotes."""
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        return [(quote(name), frame[name].to_list()) for name in frame.columns]
    array = np.asarray(X, dtype=object)
    if array.ndim != 2:
        return []
    return [(str(j), array[:, j].tolist()) for j in range(array.shape[1])]


def _find_text(X: Any) -> str | None:
    """Return the error for the first entry that is no number; None without one."""
    for name, values in _list_columns(X):
        for row, value in enumerate(values):
            if isinstance(value, str | bytes):
                return (
                    f"X holds the text {quote(value)} in column {name}, row {row}: turn categories "
                    "into numbers first, for instance with sklearn's OneHotEncoder(drop='first')"
                )
            if isinstance(value, date | time | timedelta):
                return _describe_dates(f"column {name} of X")
    return None


def _find_dates(X: Any, y: Any) -> str | None:
    """Return the error for the first column of dates or times; None without one."""
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        for name, dtype in frame.schema.items():
            if dtype.is_temporal():
                return _describe_dates(f"column {quote(name)} of X")
    elif isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        return _describe_dates("X")
    labels = nw.from_native(y, pass_through=True, allow_series=True, eager_only=True)
    if isinstance(labels, nw.Series):
        return _describe_dates("y") if labels.dtype.is_temporal() else None
    return _describe_dates("y") if isinstance(y, np.ndarray) and y.dtype.kind in "mM" else None


def _describe_dates(what: str) -> str:
    return f"{what} holds dates or times: turn them into numbers first, for instance days"
