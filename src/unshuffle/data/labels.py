"""Labels as a weighted sample of values or bins.

A mass is a frequency: mass 2 is the label written twice. The labels of a bin are between its ends;
raw labels are bins of width zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from unshuffle.errors import InputError

# Losses that compare points replace a bin by 2 to 16 points, about 512 in all, with the variance of
# a uniform distribution on the bin.
_MOST_POINTS, _POINTS_OF_ALL = 16, 512


@dataclass(frozen=True, eq=False)
class Histogram:
    """The labels of one bag as counts between edges; the first and last edge may be infinite.

    Bin k holds ``counts[k]`` labels between ``edges[k]`` and ``edges[k + 1]``. A bin of width zero
    holds labels of exactly that value.

    Parameters
    ----------
    edges : array-like of shape (k + 1,)
        Ends of the bins, increasing.
    counts : array-like of shape (k,)
        Number of labels in each bin.

    Raises
    ------
    InputError
        For edges and counts that do not belong together.

    Examples
    --------
    >>> Histogram([0.0, 1.0, 2.0], [3, 1]).n
    4
    """

    edges: np.ndarray
    counts: np.ndarray

    def __post_init__(self) -> None:
        edges = _as_row(self.edges, "the edges of a histogram")
        counts = _as_row(self.counts, "the counts of a histogram")
        if len(edges) != len(counts) + 1 or len(counts) == 0:
            raise InputError(
                f"a histogram of {len(counts)} counts needs {len(counts) + 1} edges, got "
                f"{len(edges)}: give every bin its two ends"
            )
        check_edges(edges[:-1], edges[1:])
        check_counts(counts, "count", "bin")
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "counts", counts)

    @property
    def n(self) -> int:
        """Number of labels in all bins."""
        return int(self.counts.sum())


def as_numbers(values: Any, what: str) -> np.ndarray:
    """Return an array of floats, of any shape; refuse text."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as exc:
        raise InputError(f"{what} must be numbers: {exc}") from exc


def _as_row(values: Any, what: str) -> np.ndarray:
    """Return a one-dimensional array of floats; refuse any other."""
    found = as_numbers(values, what)
    if found.ndim != 1:
        raise InputError(f"{what} must be one row of numbers, got shape {found.shape}")
    return found


def check_edges(low: np.ndarray, high: np.ndarray) -> None:
    """Refuse bins whose ends are NaN or decrease, and bins without a finite end."""
    wrong = np.flatnonzero(np.isnan(low) | np.isnan(high) | ~(low <= high))
    if len(wrong):
        k = wrong[0]
        raise InputError(
            f"bin {k} goes from {low[k]:g} to {high[k]:g}: edges must be numbers that do not "
            "decrease"
        )
    endless = np.flatnonzero((np.isinf(low) & np.isinf(high)) | (low == np.inf) | (high == -np.inf))
    if len(endless):
        k = endless[0]
        raise InputError(
            f"bin {k} goes from {low[k]:g} to {high[k]:g} and says nothing: give it at least "
            "one end, or leave it out"
        )


def check_counts(counts: np.ndarray, what: str, place: str) -> None:
    """Refuse frequencies that are no whole numbers of at least 0, or all 0."""
    wrong = np.flatnonzero(~(np.isfinite(counts) & (counts >= 0) & (counts == np.floor(counts))))
    if len(wrong):
        k = wrong[0]
        raise InputError(
            f"{place} {k} has the {what} {counts[k]:g}: a {what} says how often an item stands "
            "there, so give whole numbers of at least 0"
        )
    if not counts.any():
        raise InputError(f"every {what} is 0, so that nothing is left: give at least one item")


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of all bags end to end: bin ``low`` to ``high`` holds ``masses`` labels.

    Bag r holds the items ``offsets[r]:offsets[r + 1]``, sorted; ``order[i]`` is the place of item i
    in the data as given. For raw labels `low` and `high` are one array.
    """

    low: np.ndarray
    high: np.ndarray
    masses: np.ndarray
    offsets: np.ndarray
    order: np.ndarray

    @property
    def is_raw(self) -> bool:
        """Whether every label is known to its last digit."""
        return self.low is self.high

    @cached_property
    def has_masses(self) -> bool:
        """Whether some mass is not 1."""
        return has_several(self.masses)

    @cached_property
    def values(self) -> np.ndarray:
        """One value for each item: the middle of its bin."""
        if self.is_raw:
            return self.low
        low, high = self._closed
        return 0.5 * (low + high)

    @cached_property
    def _closed(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the bins, where an open one is as wide as its neighbour."""
        low, high = self.low.copy(), self.high.copy()
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            width = high[start:stop] - low[start:stop]
            finite = width[np.isfinite(width)]
            if low[start] == -np.inf:
                low[start] = high[start] - (finite[0] if len(finite) else 0.0)
            if high[stop - 1] == np.inf:
                high[stop - 1] = low[stop - 1] + (finite[-1] if len(finite) else 0.0)
        return low, high

    @cached_property
    def totals(self) -> np.ndarray:
        """Number of labels of each bag."""
        return np.add.reduceat(self.masses, self.offsets[:-1])

    @cached_property
    def points(self) -> Labels:
        """The same labels as points: a bin becomes a few of equal mass, of its mean and variance.

        For losses that compare points. With J points in even steps the variance would be that of
        the bin times 1 − 1/J², so the steps are widened to keep it.
        """
        if self.is_raw:
            return self
        low, high = self._closed
        n_points = int(np.clip(_POINTS_OF_ALL // len(low), 2, _MOST_POINTS))
        steps = (np.arange(n_points) + 0.5) / n_points - 0.5
        steps /= np.sqrt(1.0 - 1.0 / n_points**2)
        values, masses, sizes, places = [], [], [], []
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            part = slice(start, stop)
            is_wide = high[part] > low[part]
            copies = np.where(is_wide, n_points, 1)
            spread = np.where(is_wide[:, None], steps, 0.0) * (high[part] - low[part])[:, None]
            points = (0.5 * (low[part] + high[part]))[:, None] + spread
            keep = np.arange(n_points) < copies[:, None]
            values.append(points[keep])
            masses.append(np.repeat(self.masses[part] / copies, copies))
            sizes.append(int(copies.sum()))
            places.append(np.repeat(self.order[part], copies))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        bag = np.repeat(np.arange(len(sizes)), sizes)
        # The widened steps of bins that touch may cross.
        order = np.lexsort([np.concatenate(values), bag])
        found, stood = np.concatenate(values)[order], np.concatenate(places)[order]
        return Labels(found, found, np.concatenate(masses)[order], offsets, stood)

    def mapped(self, shift: float, scale: float) -> Labels:
        """Return (labels − shift)/scale."""
        low = (self.low - shift) / scale
        high = low if self.is_raw else (self.high - shift) / scale
        return replace(self, low=low, high=high)


def unit_masses(n: int) -> np.ndarray:
    """Return n ones that take no memory."""
    return np.broadcast_to(np.float64(1.0), n)


def has_several(masses: np.ndarray) -> bool:
    """Return whether some mass is not 1; broadcast ones are recognised by their strides."""
    return masses.strides != (0,) and bool((masses != 1.0).any())
