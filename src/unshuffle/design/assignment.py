"""Design of bags by exchanges: samples are assigned to runs whose means lie far apart.

The criterion is log det(S_between + ε S_total) − log det(S_total), with the scatter S_between of
the runs' means. It does not depend on the units of the columns, and every direction counts. Rows
are whitened, so that S_total is the identity.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from unshuffle import kernels
from unshuffle.data.products import FLAT, predict_rows
from unshuffle.design.sizes import Limits, fill_runs, make_limits
from unshuffle.errors import InputError
from unshuffle.options import make_rng


@dataclass(frozen=True)
class DesignSettings:
    """The design of bags.

    Attributes
    ----------
    ridge : float
        Share of the total scatter that is added. It decides nothing where the means span a
        direction, and lets them span fewer than there are columns.
    work : float
        Multiplications of one pass over all exchanges, and of all starts: about a second.
    most_starts : int
        Most starts.
    most_columns : int
        Most columns with squares and products; with more, squares alone, or neither.
    spread_of_two, spread : float
        The spread of `choose_spread` for two runs, and for three and more.
    few_runs : int
        Runs up to which spreads help.
    """

    ridge: float = 0.01
    work: float = 1e9
    most_starts: int = 100
    most_columns: int = 80
    spread_of_two: float = 40.0
    spread: float = 2.0
    few_runs: int = 4


DESIGN = DesignSettings()


@dataclass(frozen=True, eq=False)
class Assignment:
    """`runs[i]` is the run of sample i, counted from 0; `value` is what was maximised.

    `shares` are the parts of the variance that lie between the runs, from the direction they spread
    most to the one they spread least: 0 means that the means say nothing in that direction.

    Attributes
    ----------
    runs : ndarray of shape (n,)
        The run of each sample, counted from 0.
    value : float
        What was maximised.
    shares : ndarray
        Parts of the variance between the runs, largest first.

    Examples
    --------
    >>> found = assess_runs([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> found.n_runs, found.sizes.tolist(), found.shares.round(6).tolist()
    (2, [2, 2], [0.2])
    """

    runs: np.ndarray
    value: float
    shares: np.ndarray

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return int(self.runs.max()) + 1

    @property
    def sizes(self) -> np.ndarray:
        """Number of samples of each run."""
        return np.bincount(self.runs)


def assign_runs(
    X: Any,
    runs: int | None = None,
    *,
    sizes: Sequence[int] | None = None,
    capacities: int | Sequence[int] | None = None,
    together: Any = None,
    spread: float = 0.0,
    ridge: float = DESIGN.ridge,
    rng: np.random.Generator | int | None = None,
) -> Assignment:
    """Share out samples among runs so that the runs' means differ in every direction.

    Parameters
    ----------
    X : array (n, d)
        The features of the samples.
    runs : int, optional
        The number of runs, of sizes as equal as possible.
    sizes : sequence of int, optional
        The size of each run, kept exactly.
    capacities : int or sequence of int, optional
        The most samples of a run, one for all or one for each.
    together : sequence, optional
        Samples with the same entry stay in one run. Sizes are then as equal as that allows.
    spread : float
        How much the means of squares and products of the (whitened) features are to differ as well,
        beside those of the features. The runs then differ in their spreads too, which determine
        coefficients for which there are too few means.
    ridge : float, default=0.01
        Share of the total scatter that is added, for directions that the means cannot span.
    rng : None, int or Generator, default=None
        Seed of the starts.

    Returns
    -------
    Assignment
        The run of each sample, and how much of the variance lies between runs.

    Raises
    ------
    InputError
        For features and sizes that make no sense.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    >>> found = assign_runs(X, 2, rng=0)
    >>> len(set(found.runs[:3].tolist())), found.sizes.tolist(), found.shares.round(2).tolist()
    (1, [3, 3], [0.97])
    """
    X = check_rows(X)
    limits = make_limits(len(X), runs, sizes, capacities)
    order = np.lexsort(X.T[::-1])  # results must not depend on the order of the rows
    if not (np.isfinite(spread) and spread >= 0):
        raise InputError(f"spread must be a number of at least 0, got {spread!r}")
    rows = _add_squares(_whiten(X[order]), spread)
    member = _find_units(together, order)
    units, counts = _join_rows(rows, member)
    rng = make_rng(rng)
    best: tuple[float, np.ndarray] | None = None
    n_partners, n_starts = _choose_effort(*units.shape)
    for _ in range(n_starts):
        bag = fill_runs(counts, limits, rng)
        value = _improve(units, counts, bag, limits, ridge, n_partners, rng)
        if best is None or value > best[0]:
            best = value, bag
    assert best is not None
    runs_of = np.empty(len(X), dtype=np.int64)
    runs_of[order] = _number_runs(best[1][member], limits)
    return assess_runs(X, runs_of, ridge=ridge)


def assess_runs(X: Any, runs: Any, *, ridge: float = DESIGN.ridge) -> Assignment:
    """Return the assignment that these runs are, with its value.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The features of the samples.
    runs : sequence of n hashable labels
        The run of each sample.
    ridge : float, default=0.01
        As in `assign_runs`.

    Returns
    -------
    Assignment
        The same runs with their value and shares.

    Raises
    ------
    InputError
        For samples and runs of different number.

    Examples
    --------
    >>> assess_runs([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"]).shares.round(6).tolist()
    [0.8]
    """
    X = check_rows(X)
    if len(runs) != len(X):
        raise InputError(f"there are {len(runs)} entries of runs for {len(X)} samples")
    codes: dict[Hashable, int] = {}
    names = runs.tolist() if isinstance(runs, np.ndarray) else runs
    is_coded = isinstance(runs, np.ndarray) and runs.dtype.kind == "i" and _is_dense(runs)
    bag = np.asarray(runs if is_coded else [codes.setdefault(name, len(codes)) for name in names])
    order = np.lexsort(X.T[::-1])
    rows, bag_of = _whiten(X[order]), bag[order]
    totals = _sum_by(rows, bag_of, int(bag.max()) + 1)
    shares = np.linalg.eigvalsh(_scatter(totals, np.bincount(bag).astype(float), 0.0))[::-1]
    shares = np.clip(shares, 0.0, 1.0)
    return Assignment(bag.astype(np.int64), float(np.log(shares + ridge).sum()), shares)


def choose_spread(X: Any, runs: int) -> float:
    """Return the `spread` that served best in fits: none from five runs on, or two a coefficient.

    With two runs the spreads decide almost alone, with three or four they count beside the means.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The features of the samples.
    runs : int
        Number of runs.

    Returns
    -------
    float
        The `spread` of `assign_runs`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> choose_spread(X, 2), choose_spread(X, 4), choose_spread(X, 8)
    (40.0, 2.0, 0.0)
    """
    q = _whiten(check_rows(X)).shape[1]
    if runs > min(2 * q, DESIGN.few_runs):
        return 0.0
    return DESIGN.spread_of_two if runs <= 2 else DESIGN.spread


def check_rows(X: Any) -> np.ndarray:
    """Return X as finite numbers, (n, d), or say what is wrong with it."""
    try:
        rows = np.asarray(X, dtype=float)
    except (TypeError, ValueError) as exc:
        raise InputError(f"X must hold numbers ({exc}); code categories as columns") from exc
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(f"X must have rows and columns, got the shape {rows.shape}")
    if not np.isfinite(rows).all():
        i, j = np.argwhere(~np.isfinite(rows))[0].tolist()
        raise InputError(f"row {i}, column {j} of X is {rows[i, j]}; mend it or leave it out")
    if (rows == rows[0]).all():
        raise InputError(
            "all samples have the same features, so that no design can tell them apart"
        )
    return rows


def _is_dense(runs: np.ndarray) -> bool:
    return bool(runs.min() == 0 and (np.bincount(runs) > 0).all())


def _whiten(X: np.ndarray) -> np.ndarray:
    """Return rows whose total scatter is the identity, directions without spread left out."""
    largest = np.abs(X).max(axis=0)
    scaled = X / np.where(largest > 0, largest, 1.0)
    scaled = scaled - scaled.mean(axis=0)
    # Taken twice: centring cancels digits of columns far from zero.
    scaled = scaled - scaled.mean(axis=0)
    spread = np.sqrt((scaled**2).sum(axis=0))
    keep = spread > FLAT * np.sqrt(len(X))
    if not keep.any():
        raise InputError("the columns of X vary by rounding only; give columns that vary")
    scaled = scaled[:, keep] / spread[keep]
    values, vectors = np.linalg.eigh(kernels.gram(np.ascontiguousarray(scaled.T)))
    kept = values > FLAT * values[-1]
    axes = vectors[:, kept] / np.sqrt(values[kept])
    return np.column_stack([predict_rows(scaled, axis) for axis in axes.T])


def _add_squares(rows: np.ndarray, spread: float) -> np.ndarray:
    """Return whitened rows with columns of their squares, and of products where they are few."""
    q = rows.shape[1]
    pairs = [(i, j) for i in range(q) for j in range(i, q)]
    if q + len(pairs) > DESIGN.most_columns:
        pairs = [(i, i) for i in range(q)] if 2 * q <= DESIGN.most_columns else []
    if spread == 0 or not pairs:
        return rows
    # Whitened rows have a mean square of 1/n.
    more = len(rows) * np.column_stack([rows[:, i] * rows[:, j] for i, j in pairs])
    more = more - more.mean(axis=0)
    size = np.sqrt((more**2).sum(axis=0))
    is_there = size > FLAT * np.sqrt(len(rows))
    return np.hstack([rows, spread * more[:, is_there] / size[is_there]])


def _find_units(together: Any, order: np.ndarray) -> np.ndarray:
    """Return the unit of each sample, in canonical order: itself, or those it stays with."""
    if together is None:
        return np.arange(len(order))
    names = together.tolist() if isinstance(together, np.ndarray) else list(together)
    if len(names) != len(order):
        raise InputError(f"together has {len(names)} entries for {len(order)} samples")
    codes: dict[Hashable, int] = {}
    return np.array([codes.setdefault(names[i], len(codes)) for i in order.tolist()])


def _join_rows(rows: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums and the numbers of the rows of each unit."""
    counts = np.bincount(member)
    return (rows if (counts == 1).all() else _sum_by(rows, member, len(counts))), counts


def _sum_by(rows: np.ndarray, group: np.ndarray, n_groups: int) -> np.ndarray:
    return np.column_stack(
        [np.bincount(group, weights=column, minlength=n_groups) for column in rows.T]
    )


def _scatter(totals: np.ndarray, counts: np.ndarray, ridge: float) -> np.ndarray:
    """Return Σ total totalᵀ / count + ridge I."""
    scaled = np.ascontiguousarray((totals / np.sqrt(counts)[:, None]).T)
    return np.asarray(kernels.gram(scaled) + ridge * np.eye(len(scaled)))


def _choose_effort(n: int, q: int) -> tuple[int, int]:
    """Return the number of partners that each unit is offered, and of starts."""
    n_partners = int(np.clip(DESIGN.work / (n * q * (q + 4)), 1, n - 1)) if n > 1 else 1
    pass_cost = n * n_partners * q * (q + 4) + 2e4
    return n_partners, int(np.clip(DESIGN.work / (20 * pass_cost), 1, DESIGN.most_starts))


def _improve(
    units: np.ndarray,
    counts: np.ndarray,
    bag: np.ndarray,
    limits: Limits,
    ridge: float,
    n_partners: int,
    rng: np.random.Generator,
) -> float:
    """Exchange units between bags, in place, until nothing is gained; return log det."""
    n_runs, n = len(limits.sizes), len(units)
    is_even = bool((counts == counts[0]).all())
    # From so many units on, pairs of runs are first shared out anew as a whole, by sorting.
    if is_even and n >= 200:
        _split_pairs(units, bag, n_runs, ridge)
    totals = _sum_by(units, bag, n_runs)
    filled = np.bincount(bag, weights=counts, minlength=n_runs)
    low, high = _find_bounds(filled, limits, is_even)
    moves = np.tile(-1 - np.arange(n_runs), (n, 1)) if (low < high).any() else np.empty((n, 0), int)
    sizes = counts.astype(float)
    gain = np.inf
    # Among many samples a pass that gains a thousandth of the determinant or less is the last.
    while gain >= (1e-3 if n_partners < n - 1 else 1e-9):
        # Sums and inverse are made anew: updates gather rounding.
        totals = _sum_by(units, bag, n_runs)
        inverse = np.linalg.inv(_scatter(totals, filled, ridge))
        partners = np.hstack([_choose_partners(n, n_partners, rng), moves])
        gain = kernels.exchange_units(
            units, sizes, bag, totals, filled, low, high, inverse, partners
        )
    return float(np.linalg.slogdet(_scatter(_sum_by(units, bag, n_runs), filled, ridge))[1])


def _number_runs(runs: np.ndarray, limits: Limits) -> np.ndarray:
    """Number runs of equal size and limit by their first sample.

    Otherwise starts that end in the same partition would differ in the numbers of the runs, and
    the last digits of their values would choose between them.
    """
    _, first, filled = np.unique(runs, return_index=True, return_counts=True)
    most = limits.sizes if limits.capacities is None else limits.capacities
    alike: dict[tuple[int, int], list[int]] = {}
    for r, key in enumerate(zip(most.tolist(), filled.tolist(), strict=True)):
        alike.setdefault(key, []).append(r)
    numbers = np.empty(len(filled), dtype=np.int64)
    for own in alike.values():
        numbers[sorted(own, key=first.__getitem__)] = own
    return numbers[runs]


def _find_bounds(
    filled: np.ndarray, limits: Limits, is_even: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and most samples of each run: what it has, where units are all alike."""
    if limits.is_exact or is_even:
        return filled.copy(), filled.copy()
    most = np.full(len(filled), filled.max())
    if limits.capacities is not None:
        most = np.minimum(np.maximum(most, filled), limits.capacities)
    return np.minimum(filled, filled.min()), most


def _choose_partners(n: int, n_partners: int, rng: np.random.Generator) -> np.ndarray:
    """Return the units that each one may change places with: all, or some at random."""
    if n_partners >= n - 1:
        return np.tile(np.arange(n), (n, 1))
    return rng.integers(n, size=(n, n_partners))


def _split_pairs(units: np.ndarray, bag: np.ndarray, n_runs: int, ridge: float) -> None:
    """Share out the units of every two runs anew, in place, until little is gained.

    To first order an exchange between two runs gains by its step along A⁻¹(mean − mean), so that
    parting both runs along it is the best of all exchanges at once. It is taken where the
    determinant itself grows.
    """
    counts = np.bincount(bag, minlength=n_runs).astype(float)
    members = [np.flatnonzero(bag == r) for r in range(n_runs)]
    totals = _sum_by(units, bag, n_runs)
    value = np.linalg.slogdet(_scatter(totals, counts, ridge))[1]
    before = -np.inf
    # Exchanges one by one end what sharing out anew begins: its last passes gain too little.
    while value - before >= 1e-2:
        before = value
        for a, b in combinations(range(n_runs), 2):
            gap = totals[a] / counts[a] - totals[b] / counts[b]
            axis = np.linalg.solve(_scatter(totals, counts, ridge), gap)
            both = np.concatenate([members[a], members[b]])
            first = len(members[a])
            order = np.argpartition(-predict_rows(units[both], axis), first - 1)
            upper = both[order[:first]]
            new = totals.copy()
            new[a] = units[upper].sum(axis=0)
            new[b] = totals[a] + totals[b] - new[a]
            reached = np.linalg.slogdet(_scatter(new, counts, ridge))[1]
            if reached > value:
                value, totals = reached, new
                members[a], members[b] = upper, both[order[first:]]
    for r, rows in enumerate(members):
        bag[rows] = r
