"""Bags from a design, and designs with one label for each row."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.data.bags import Bag, Bags, join_bags, make_bags
from unshuffle.data.labels import Histogram
from unshuffle.errors import InputError
from unshuffle.io.designs.design_matrix import Apart, Design
from unshuffle.io.designs.label_tables import make_edges


def join_design(design: Design) -> Bags:
    """Return the bags of a design in canonical order."""
    apart = design.apart
    if apart is None and design.counts is None:
        return make_bags(design.X, design.y, design.groups, design.anchors)
    if design.anchors is not None:
        raise InputError(
            "anchors are pairs of a row and its label, and separate samples have none; leave the "
            "anchor column out"
        )
    side = apart or Apart(design.groups, design.counts)
    keys, codes = encode_bags(design.groups, side.groups, len(design.X), len(design.y))
    bags = []
    # In the order of their first rows, as in `name_bags`.
    members = zip(*(_split(code, len(keys)) for code in codes), strict=True)
    for rows, labels in sorted(members, key=lambda each: int(each[0][0])):
        row_counts = None if design.counts is None else design.counts[rows]
        label_counts = None if side.counts is None else side.counts[labels]
        y: Any = design.y[labels]
        if side.is_mean is not None and side.is_mean[labels[0]]:
            value = float(y[0])
            mean, total = (None, value) if side.are_totals else (value, None)
            bags.append(Bag(design.X[rows], row_counts=row_counts, mean=mean, total=total))
            continue
        if side.high is not None:
            assert label_counts is not None
            y = Histogram(*make_edges(y, side.high[labels], label_counts))
            label_counts = None
        bags.append(Bag(design.X[rows], y, row_counts, label_counts))
    return join_bags(bags, side.same_individuals)


def name_bags(design: Design) -> list[Any] | None:
    """Return the names of the bags in the order of their first rows; None for one bag."""
    return None if design.groups is None else list(dict.fromkeys(design.groups.tolist()))


def expand_design(design: Design, purpose: str) -> Design:
    """Return a design with one label for each row; rows are repeated by their frequency.

    Labels in a table of their own are assigned to the rows of their bag in any order. Designs where
    that is impossible are refused, with the reason.
    """
    apart = design.apart
    if apart is not None and apart.is_mean is not None:
        raise InputError(
            f"{purpose} needs one label for each row, and of some bags only the mean is known; use "
            "'unshuffle fit'"
        )
    if apart is not None:
        pairing = join_design(design).pairing
        if not pairing.has_individuals:
            raise InputError(
                f"{purpose} needs rows and labels of the same individuals, but these are separate "
                "samples, where no label belongs to a row; use 'unshuffle fit'"
            )
        if apart.high is not None or not pairing.is_usual:
            what = "labels in bins" if apart.high is not None else "some labels missing"
            raise InputError(
                f"{purpose} needs one label for each row, and here are {what}; give every label "
                "on a line of its own, or use 'unshuffle fit'"
            )
    if design.counts is None and apart is None:
        return design
    places = _repeat(design.counts, len(design.X))
    groups = None if design.groups is None else design.groups[places]
    y = design.y[places] if apart is None else design.y[_repeat(apart.counts, len(design.y))]
    if apart is not None and groups is not None and apart.groups is not None:
        y = assign_labels(y, groups, apart.groups[_repeat(apart.counts, len(design.y))])
    X, rows = design.X[places], design.rows[places]
    return dataclasses.replace(design, X=X, y=y, groups=groups, rows=rows, counts=None, apart=None)


def assign_labels(
    y: NDArray[np.float64], groups: NDArray[Any], other: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the labels in the order of rows: each row has some label of its bag."""
    _, codes = np.unique(np.concatenate([groups, other]), return_inverse=True)
    row_codes, label_codes = codes[: len(groups)], codes[len(groups) :]
    dealt = np.empty(len(y))
    dealt[np.argsort(row_codes, kind="stable")] = y[np.argsort(label_codes, kind="stable")]
    return dealt


def _repeat(counts: NDArray[np.float64] | None, n: int) -> NDArray[np.intp]:
    """Return the places of n items, each repeated by its frequency."""
    return np.arange(n) if counts is None else np.repeat(np.arange(n), counts.astype(int))


def encode_bags(
    groups: NDArray[Any] | None, other: NDArray[Any] | None, n: int, m: int
) -> tuple[NDArray[Any], tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return the names of bags, and the number of the bag of each row and of each label."""
    if groups is None or other is None:
        return np.array([""]), (np.zeros(n, dtype=np.intp), np.zeros(m, dtype=np.intp))
    keys, both = np.unique(np.concatenate([groups, other]), return_inverse=True)
    return keys, (both[:n], both[n:])


def _split(codes: NDArray[np.intp], n_bags: int) -> list[NDArray[np.intp]]:
    """Return the places of the members of each bag."""
    ends = np.cumsum(np.bincount(codes, minlength=n_bags))[:-1]
    return np.split(np.argsort(codes, kind="stable"), ends)
