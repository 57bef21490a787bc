"""Ways to release a table: as it is, with bags merged, with labels rounded or noise added."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from math import floor, log10

import numpy as np

PLAIN, MERGED, ROUNDED, NOISY = "as planned", "bags merged", "labels rounded", "noise added"
# Steps of rounding and sds of noise, over the labels' sd.
_STEPS = (0.25, 0.5, 1.0)


@dataclass(frozen=True, eq=False)
class Release:
    """A table to be released: `y[i]` still belongs to row i, which an outsider does not know.

    `amount` says how much was changed: the bags that are left, the step of rounding, the sd added.
    """

    kind: str
    amount: float | None
    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray

    @property
    def name(self) -> str:
        """What was done, in a few words."""
        if self.kind == MERGED:
            count = int(self.amount or 1)
            return "merged into one bag" if count == 1 else f"merged into {count} bags"
        if self.kind == ROUNDED:
            return f"labels rounded to {self.amount:g}"
        if self.kind == NOISY:
            return f"noise of sd {self.amount:g} added"
        return self.kind

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.bag_rows)

    @cached_property
    def bag_rows(self) -> list[np.ndarray]:
        """The rows of each bag."""
        return [np.flatnonzero(self.groups == r) for r in range(int(self.groups.max()) + 1)]

    @property
    def bag_sizes(self) -> np.ndarray:
        """The size of every row's bag."""
        return np.bincount(self.groups)[self.groups]


def number_bags(groups: list[Hashable] | None, n: int) -> np.ndarray:
    """Return the number of every row's bag, in the order of the bags' names.

    >>> number_bags(["b", "a", "b"], 3).tolist()
    [1, 0, 1]
    """
    if groups is None:
        return np.zeros(n, dtype=np.int64)
    names = sorted(dict.fromkeys(groups), key=lambda name: (isinstance(name, str), _key(name)))
    codes = {name: place for place, name in enumerate(names)}
    return np.array([codes[name] for name in groups], dtype=np.int64)


def _key(name: Hashable) -> tuple[float, str]:
    """Return a sort key: numbers by size, everything else as text."""
    return (float(name), "") if isinstance(name, int | float) else (0.0, str(name))


def list_releases(
    X: np.ndarray, y: np.ndarray, groups: np.ndarray, rng: np.random.Generator
) -> list[Release]:
    """Return the release as planned, and ways to give away less."""
    releases = [Release(PLAIN, None, X, y, groups)]
    n_bags = int(groups.max()) + 1
    counts = []
    while n_bags > 1:
        n_bags = (n_bags + 1) // 2
        counts.append(n_bags)
    # The last is one bag, which hides most; of the others the first are nearest to the plan.
    for count in dict.fromkeys([*counts[:2], *counts[-1:]]):
        merged = groups * count // (int(groups.max()) + 1)
        releases.append(Release(MERGED, count, X, y, merged))
    spread = float(y.std())
    for share in _STEPS:
        step = nice_number(share * spread)
        releases.append(Release(ROUNDED, step, X, step * np.round(y / step), groups))
    errors = np.asarray(rng.standard_normal(len(y)))
    for share in _STEPS:
        sd = nice_number(share * spread)
        releases.append(Release(NOISY, sd, X, y + sd * errors, groups))
    return releases


def nice_number(value: float) -> float:
    """Return the nearest of 1, 2, 2.5 and 5 times a power of ten.

    >>> nice_number(0.23), nice_number(70.0)
    (0.25, 50.0)
    """
    unit = 10.0 ** floor(log10(value))
    near = min((1.0, 2.0, 2.5, 5.0, 10.0), key=lambda each: abs(log10(value / unit / each)))
    return float(f"{near * unit:.3g}")
