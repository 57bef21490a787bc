"""How many samples each run takes, and a first way to fill the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from unshuffle.errors import InputError


@dataclass(frozen=True, eq=False)
class Limits:
    """The number of samples of each run: exactly `sizes`, or at most `capacities`."""

    sizes: np.ndarray
    capacities: np.ndarray | None
    is_exact: bool


def make_limits(
    n: int,
    runs: int | None,
    sizes: Sequence[int] | None,
    capacities: int | Sequence[int] | None,
) -> Limits:
    """Return the sizes of the runs: those given, or as equal as the capacities allow.

    >>> make_limits(10, 3, None, None).sizes.tolist()
    [4, 3, 3]
    >>> make_limits(10, 3, None, [2, 9, 9]).sizes.tolist()
    [2, 4, 4]
    """
    if sizes is not None and capacities is not None:
        raise InputError("give sizes or capacities, not both: sizes are kept exactly")
    if sizes is not None:
        return _take_sizes(n, runs, sizes)
    if runs is None and isinstance(capacities, Sequence | np.ndarray):
        runs = len(capacities)
    n_runs = _check_runs(n, runs)
    if capacities is None:
        return Limits(_share_out(n, np.full(n_runs, n)), None, False)
    most = _whole_numbers(capacities, "capacities", n_runs)
    if most.sum() < n:
        raise InputError(
            f"the capacities add up to {most.sum()} but there are {n} samples; raise them or plan "
            "more runs"
        )
    return Limits(_share_out(n, most), most, False)


def _take_sizes(n: int, runs: int | None, sizes: Sequence[int]) -> Limits:
    exact = _whole_numbers(sizes, "sizes", len(np.atleast_1d(sizes)))
    if runs is not None and runs != len(exact):
        raise InputError(f"there are {len(exact)} sizes for {runs} runs; give one for each run")
    if exact.sum() != n:
        raise InputError(
            f"the sizes add up to {exact.sum()} but there are {n} samples; mend them, or give "
            "capacities, which need not be filled"
        )
    return Limits(exact, exact, True)


def _check_runs(n: int, runs: int | None) -> int:
    if not isinstance(runs, Integral) or isinstance(runs, bool) or runs < 1:
        raise InputError(f"the number of runs must be a whole number from 1, got {runs!r}")
    if runs > n:
        raise InputError(f"{runs} runs are more than the {n} samples; plan at most {n} runs")
    return int(runs)


def _whole_numbers(values: int | Sequence[int], name: str, n_runs: int) -> np.ndarray:
    """Return one whole number from 1 for each run; a single one serves all runs."""
    found = np.asarray(values)
    if found.ndim == 0:
        found = np.full(n_runs, found)
    if found.shape != (n_runs,):
        raise InputError(f"there are {found.size} {name} for {n_runs} runs; give one for each run")
    if found.dtype.kind not in "iu" or (found < 1).any():
        raise InputError(f"{name} must be whole numbers from 1, got {found.tolist()}")
    return found.astype(np.int64)


def _share_out(n: int, most: np.ndarray) -> np.ndarray:
    """Return sizes as equal as their limits allow, the earlier runs taking what is left over."""
    sizes = np.zeros(len(most), dtype=np.int64)
    while (left := n - int(sizes.sum())) > 0:
        is_open = np.flatnonzero(sizes < most)
        share = left // len(is_open)
        if share == 0:
            sizes[is_open[:left]] += 1
        else:
            sizes[is_open] = np.minimum(sizes[is_open] + share, most[is_open])
    return sizes


def fill_runs(sizes: np.ndarray, limits: Limits, rng: np.random.Generator) -> np.ndarray:
    """Return the run of each unit of the given sizes, at random but inside the limits."""
    if (sizes == 1).all():
        return rng.permutation(np.repeat(np.arange(len(limits.sizes)), limits.sizes))
    largest = limits.capacities if limits.capacities is not None else limits.sizes
    if limits.capacities is not None and sizes.max() > largest.max():
        raise InputError(
            f"{sizes.max()} samples must stay together but the largest run takes {largest.max()}; "
            "raise its capacity or part the samples"
        )
    if len(sizes) < len(limits.sizes):
        raise InputError(
            f"the samples make {len(sizes)} groups that stay together, fewer than the "
            f"{len(limits.sizes)} runs; plan at most {len(sizes)} runs"
        )
    # Filling runs exactly with groups is bin packing, which has no fast solution. Those met in
    # practice are solved by the first few random packings.
    for _ in range(500):
        bag = _pack(sizes, limits, rng)
        if bag is not None:
            return bag
    raise InputError(
        "no way was found to fill the runs with samples that stay together: "
        + (
            "give capacities instead of exact sizes, or part some of them"
            if limits.is_exact
            else "raise the capacities or part some of them"
        )
    )


def _pack(sizes: np.ndarray, limits: Limits, rng: np.random.Generator) -> np.ndarray | None:
    """Place the largest units first, each where most room is left; None where one does not fit."""
    order = rng.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    room = limits.sizes.astype(np.int64).copy()
    spare = None if limits.capacities is None else limits.capacities - limits.sizes
    bag = np.empty(len(sizes), dtype=np.int64)
    n_filled = np.zeros(len(room), dtype=np.int64)
    for place, i in enumerate(order):
        # Empty runs must not stay so: at the end each remaining unit has to open one.
        n_left, n_empty = len(order) - place, int((n_filled == 0).sum())
        fits = np.ones(len(room), dtype=bool) if spare is None else room + spare >= sizes[i]
        if n_left <= n_empty:
            fits &= n_filled == 0
        if not fits.any():
            return None
        chosen = np.flatnonzero(fits)
        most = chosen[room[chosen] == room[chosen].max()]
        r = int(most[rng.integers(len(most))])
        bag[i] = r
        room[r] -= sizes[i]
        n_filled[r] += 1
    return bag
