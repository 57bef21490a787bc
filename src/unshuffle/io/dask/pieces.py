"""Pieces of Dask collections: each partition as arrays, checked by the worker that has it.

A worker returns an error as a sentence, for it would print a raised one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unshuffle import kernels
from unshuffle.data.bag import choose_kind
from unshuffle.errors import InputError, import_extra, quote

_PURPOSE = "fitting data of Dask"


@dataclass(frozen=True, eq=False)
class Piece:
    """A partition as arrays; bag ``codes[i]`` of row i is called ``keys[codes[i]]``."""

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    keys: tuple[Hashable, ...]

    def __len__(self) -> int:
        return len(self.y)

    def __sizeof__(self) -> int:
        """Bytes, by which schedulers decide what to move."""
        return int(self.X.nbytes + self.y.nbytes + self.codes.nbytes)


@dataclass(frozen=True, eq=False)
class PieceFacts:
    """Rows, columns and names of bags of a piece."""

    n: int
    d: int
    keys: tuple[Hashable, ...]


def is_dask(thing: Any) -> bool:
    """Whether an object is a collection of Dask, without importing Dask."""
    return hasattr(type(thing), "__dask_graph__")


def describe_piece(piece: Piece | str) -> PieceFacts | str:
    """Return the facts of a piece, or its error."""
    return piece if isinstance(piece, str) else PieceFacts(len(piece), piece.X.shape[1], piece.keys)


def sort_piece(piece: Piece | str) -> Piece | str:
    """Return the piece with the rows of every bag together.

    A pass over rows of mixed bags would use the histograms of all bags at once, which no cache
    holds. Any order gives the same bits.
    """
    if isinstance(piece, str) or (piece.codes[1:] >= piece.codes[:-1]).all():
        return piece
    order, _ = kernels.order_by_bag(piece.codes.astype(np.int64), len(piece.keys))
    return Piece(piece.X[order], piece.y[order], piece.codes[order], piece.keys)


def recode_piece(piece: Piece, numbers: np.ndarray) -> Piece:
    """Return the piece with the numbers of its bags among all bags."""
    small = numbers.astype(choose_kind(int(numbers.max())))
    return Piece(piece.X, piece.y, small[piece.codes], ())


def cut_into_pieces(X: Any, y: Any, groups: Any) -> tuple[list[Any], Any]:
    """Return a delayed piece for each partition, and an empty table of the columns."""
    dask = import_extra("dask", "dask", _PURPOSE)
    given = {"X": X, "y": y} if groups is None else {"X": X, "y": y, "groups": groups}
    for name, thing in given.items():
        if not is_dask(thing):
            other = next(each for each in given if is_dask(given[each]))
            raise InputError(
                f"{name} is {type(thing).__name__} where {other} is of Dask: take all from one "
                "table of Dask, as in fit(ddf[features], ddf[label], groups=ddf[bag])"
            )
        wanted = 2 if name == "X" else 1
        if getattr(thing, "ndim", None) != wanted:
            what = "a table, as ddf[['a', 'b']]" if wanted == 2 else "one column, as ddf['a']"
            raise InputError(f"{name} must be {what}, got {type(thing).__name__} of Dask")
    empty = _check_columns(X, y)
    if all(hasattr(thing, "map_partitions") for thing in given.values()):
        _check_numbers({name: thing.npartitions for name, thing in given.items()})
        frames = import_extra("dask.dataframe", "dask", _PURPOSE)
        # One expression, so that what the columns share is computed once. Its meta is not used.
        made = frames.map_partitions(
            make_piece, *given.values(), meta=(None, object), enforce_metadata=False,
            align_dataframes=False, clear_divisions=True,
        )  # fmt: skip
        return list(made.to_delayed()), empty
    parts = {name: _list_partitions(thing) for name, thing in given.items()}
    _check_numbers({name: len(each) for name, each in parts.items()})
    make = dask.delayed(make_piece, pure=False)
    return [make(*each) for each in zip(*parts.values(), strict=True)], empty


def _list_partitions(thing: Any) -> list[Any]:
    """Return the partitions of a frame, or of an array by rows."""
    if hasattr(thing, "npartitions") and hasattr(thing, "map_partitions"):
        return list(thing.to_delayed())
    whole = thing.rechunk({1: -1}) if thing.ndim == 2 and thing.numblocks[1] > 1 else thing
    # Without optimisation, what arrays share keeps its key and is computed once.
    return list(np.ravel(whole.to_delayed(optimize_graph=False)))


def _check_numbers(numbers: dict[str, int]) -> None:
    for name, number in numbers.items():
        if number != numbers["X"]:
            raise InputError(
                f"X has {numbers['X']} partitions but {name} has {number}, so that there is no "
                f"partition {min(number, numbers['X'])} in one of them: take all from one table of "
                "Dask, or rechunk them alike"
            )


def _check_columns(X: Any, y: Any) -> Any:
    """Refuse columns whose types are no numbers; return an empty table of the same columns."""
    if not hasattr(X, "map_partitions") or not hasattr(X, "columns"):
        for name, thing in (("X", X), ("y", y)):
            _check_type(thing.dtype, name)
        return np.empty((0, int(X.shape[1])))
    for name, dtype in X.dtypes.items():
        _check_type(dtype, f"column {quote(name)} of X")
    _check_type(y.dtype, "y")
    return X._meta


def _check_type(dtype: Any, what: str) -> None:
    kind = getattr(dtype, "kind", "O")
    if kind in "mM":
        raise InputError(f"{what} holds dates or times: turn them into numbers first, such as days")
    if kind == "c":
        raise InputError(f"{what} holds complex numbers: fit real and imaginary parts apart")
    # Objects may be numbers; partitions are checked later.
    if kind in "US" or str(dtype).startswith(("string", "category")):
        raise InputError(
            f"{what} holds text ({dtype}): turn categories into numbers first, for instance with "
            "dask.dataframe.get_dummies, or leave it out"
        )


def make_piece(X: Any, y: Any, groups: Any = None) -> Piece | str:
    """Return a partition as arrays, or its error as a sentence."""
    try:
        return _make_piece(X, y, groups)
    except InputError as exc:
        return str(exc)


def _make_piece(X: Any, y: Any, groups: Any) -> Piece:
    for name, thing in (("y", y), ("groups", groups)):
        if thing is not None and len(thing) != len(X):
            raise InputError(
                f"X has {len(X)} rows but {name} has {len(thing)}: take all from one table of "
                "Dask, or rechunk them alike"
            )
    if hasattr(X, "columns"):
        columns = [(f"column {quote(name)} of X", X.iloc[:, j]) for j, name in enumerate(X.columns)]
    else:
        columns = [(f"column {j} of X", X[:, j]) for j in range(X.shape[1])]
    # Half the memory, and the same numbers.
    is_short = bool(columns) and all(each.dtype == np.float32 for _, each in columns)
    rows = np.empty((len(X), len(columns)), np.float32 if is_short else np.float64)
    for j, (name, column) in enumerate(columns):
        rows[:, j] = _as_numbers(column, name)
    labels = _as_numbers(y, "y")
    if groups is None:
        return Piece(rows, labels, np.zeros(len(rows), np.int8), (0,))
    return Piece(rows, labels, *_number_names(groups))


def _as_numbers(column: Any, what: str) -> np.ndarray:
    """Return a column as finite numbers; refuse text, missing and infinite values."""
    _check_type(column.dtype, what)
    try:
        if hasattr(column, "to_numpy"):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as exc:
        raise InputError(_find_text(np.asarray(column, dtype=object), what)) from exc
    is_wrong = ~np.isfinite(values)
    if is_wrong.any():
        at = int(np.argmax(is_wrong))
        said = "no number (missing or NaN)" if np.isnan(values[at]) else "infinity"
        raise InputError(
            f"row {at} of it holds {said} in {what}; fill it in, or drop the row before the fit"
        )
    return np.asarray(values)


def _find_text(values: np.ndarray, what: str) -> str:
    for row, value in enumerate(values.tolist()):
        try:
            float(value)
        except (TypeError, ValueError):
            return (
                f"row {row} of it holds {quote(value)} in {what}, which is no number; turn it into "
                "numbers first, or drop the row before the fit"
            )
    return f"{what} holds what is no number; turn it into numbers first"


def _number_names(groups: Any) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """Return the place of each row's bag name among the different names, and these."""
    if hasattr(groups, "factorize"):
        codes, found = groups.factorize()
        keys = tuple(found.tolist())
    elif groups.dtype != object:
        found, codes = np.unique(groups, return_inverse=True)
        keys = tuple(found.tolist())
        codes = np.where(groups == groups, codes, -1)
    else:
        places: dict[Hashable, int] = {}
        is_there = [name is not None and name == name for name in groups.tolist()]
        codes = np.array([
            places.setdefault(name, len(places)) if there else -1
            for name, there in zip(groups.tolist(), is_there, strict=True)
        ], np.int64)  # fmt: skip
        keys = tuple(places)
    if (codes < 0).any():
        at = int(np.argmax(codes < 0))
        raise InputError(f"row {at} of it has no bag in groups; fill it in, or drop the row")
    return codes.astype(np.int32), keys
