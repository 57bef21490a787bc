"""Anchors: known pairs of a row and its label."""

from __future__ import annotations

from typing import Any

import numpy as np

from unshuffle.errors import InputError, quote

# Place of the label of a row without an anchor.
NO_LABEL = -1
_FORMS = (
    "give True or False for every row, the numbers of the rows whose label stands beside them, or "
    f"for every row the place of its label in y ({NO_LABEL} where it is not known)"
)


def find_links(anchors: Any, n: int, place: str = "") -> np.ndarray | None:
    """Return the place of each row's label, −1 where it is unknown; None without known pairs.

    `place` goes before the row in error messages ("bag 3, ").

    >>> find_links([True, False, True], 3).tolist()
    [0, -1, 2]
    >>> find_links([2], 3).tolist(), find_links([1, 0, -1], 3).tolist()
    ([-1, -1, 2], [1, 0, -1])
    """
    if anchors is None:
        return None
    values = _as_array(anchors)
    if values.size == 0:
        return None
    links = np.full(n, NO_LABEL)
    if values.dtype == bool:
        if len(values) != n:
            raise InputError(
                f"anchors has {len(values)} entries but there are {place}{n} rows: say True or "
                "False for every row"
            )
        links[values] = np.flatnonzero(values)
    elif len(values) == n:
        _check_places(values, n, NO_LABEL, place)
        links = values.astype(int)
    else:
        _check_places(values, n, 0, place)
        if len(values) > n:
            raise InputError(
                f"anchors has {len(values)} entries but there are {place}{n} rows: {_FORMS}"
            )
        _check_once(np.sort(values), place, "row")
        links[values.astype(int)] = values
    _check_once(np.sort(links[links != NO_LABEL]), place, "label", values)
    return links if (links != NO_LABEL).any() else None


def count_original_bags(original_bags: np.ndarray | None, n_bags: int) -> int:
    """Return the number of bags as given, of which known pairs are parts; without any, all are.

    >>> count_original_bags(None, 3), count_original_bags(np.array([0, 1, 0]), 3)
    (3, 2)
    """
    return n_bags if original_bags is None else int(original_bags.max()) + 1


def split_pairs(codes: np.ndarray, links: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bag numbers of rows and of labels, each pair in a bag of its own, and original bags.

    `codes` number the bags as given, of rows and labels alike.

    >>> rows, labels, original_bags = split_pairs(np.array([0, 0, 0]), np.array([-1, 2, -1]))
    >>> rows.tolist(), labels.tolist(), original_bags.tolist()
    ([0, 1, 0], [0, 0, 1], [0, 0])
    """
    known = np.flatnonzero(links != NO_LABEL)
    outside = known[codes[known] != codes[links[known]]]
    if len(outside):
        row = int(outside[0])
        raise InputError(
            f"the anchor of row {row} is label {links[row]}, which is in another bag: a pair must "
            "lie inside one bag; mend the groups or the anchor"
        )
    first = int(codes.max()) + 1
    row_codes, label_codes = codes.copy(), codes.copy()
    row_codes[known] = label_codes[links[known]] = first + np.arange(len(known))
    original_bags = np.concatenate([np.arange(first), codes[known]])
    # Bags whose every pair is known are empty now.
    used, row_codes = np.unique(row_codes, return_inverse=True)
    return row_codes, np.searchsorted(used, label_codes), original_bags[used]


def find_beside(row_order: np.ndarray, label_order: np.ndarray) -> np.ndarray:
    """Return for each label the row beside which it was given, both in canonical order.

    `row_order` and `label_order` are the places in the data as given.

    >>> find_beside(np.array([2, 0, 1]), np.array([0, 1, 2])).tolist()
    [1, 2, 0]
    """
    place = np.empty(len(row_order), dtype=np.int64)
    place[row_order] = np.arange(len(row_order))
    return place[label_order]


def _as_array(anchors: Any) -> np.ndarray:
    """Return a one-dimensional array of booleans or whole numbers."""
    import narwhals as nw  # a fit without anchors does without it

    frame = nw.from_native(anchors, allow_series=True, pass_through=True)
    if isinstance(frame, nw.Series):
        frame = frame.to_list()
    try:
        values = np.asarray(frame)
    except ValueError as exc:
        raise InputError(f"anchors={quote(anchors)} is not understood: {_FORMS}") from exc
    if values.ndim != 1:
        raise InputError(f"anchors must be one row, got shape {values.shape}: {_FORMS}")
    if values.size and values.dtype.kind not in "biu":
        odd = next((v for v in values.tolist() if not isinstance(v, bool | int)), values[0])
        raise InputError(f"anchors holds {quote(odd)}, which is no pair: {_FORMS}")
    return values


def _check_places(values: np.ndarray, n: int, least: int, place: str) -> None:
    """Refuse places outside the data."""
    wrong = values[(values < least) | (values >= n)]
    if len(wrong):
        raise InputError(
            f"the anchor {wrong[0]} is outside {place or 'the data, '}rows 0 to {n - 1}: {_FORMS}"
        )


def _check_once(places: np.ndarray, place: str, what: str, given: np.ndarray | None = None) -> None:
    """Refuse a row or a label that is named twice; `places` are sorted."""
    twice = places[1:][places[1:] == places[:-1]]
    if len(twice):
        hint = "name it once"
        if given is not None and set(given.tolist()) <= {0, 1}:
            hint = "for a column of 0 and 1 give booleans, anchors.astype(bool)"
        raise InputError(f"{place}{what} {twice[0]} is used twice in the anchors: {hint}")
