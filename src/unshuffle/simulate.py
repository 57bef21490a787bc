"""Simulation of shuffled data with known truth."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from unshuffle.errors import InputError, suggest

_DRAWS = {
    "normal": lambda rng, shape: rng.normal(1.0, 1.0, shape),
    "uniform": lambda rng, shape: rng.uniform(0.0, 1.0, shape),
    "exponential": lambda rng, shape: rng.exponential(1.0, shape),
    "lognormal": lambda rng, shape: rng.lognormal(0.0, 0.5, shape),
}


@dataclass(frozen=True, eq=False)
class ShuffledData:
    """Simulated shuffled data with their truth.

    Attributes
    ----------
    X : ndarray
        Features, a row for each label.
    y : ndarray
        Labels, shuffled inside bags: `y[i]` need not belong to row i.
    groups : ndarray
        Number of the bag of each row.
    weights, intercept : ndarray, float
        True coefficients.
    noise : float
        True noise sd.
    linked_y : ndarray
        Labels in the order of the rows.

    Examples
    --------
    >>> data = make_shuffled(6, 2, bags=2, rng=0)
    >>> data.X.shape, data.groups.tolist()
    ((6, 2), [0, 0, 0, 1, 1, 1])
    >>> sorted(data.y) == sorted(data.linked_y)
    True
    """

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    weights: np.ndarray
    intercept: float
    noise: float
    linked_y: np.ndarray


def make_shuffled(
    n: int = 1000,
    d: int = 3,
    noise: float | None = None,
    bags: int | Sequence[int] = 1,
    *,
    weights: Sequence[float] | None = None,
    intercept: float = 0.0,
    features: str = "exponential",
    snr_db: float | None = None,
    rng: np.random.Generator | int | None = None,
) -> ShuffledData:
    """Simulate y = π(X w + b) + e.

    Parameters
    ----------
    n, d : int
        Rows and features.
    noise : float, optional
        Sd of the Gaussian noise; 0.1 without `noise` and `snr_db`.
    bags : int or sequence of int
        The number of bags, of sizes as equal as possible, or their sizes.
    weights : sequence of d floats, optional
        The true coefficients. Default: drawn from N(0, 1).
    intercept : float, default=0.0
        The true intercept.
    features : {"exponential", "normal", "uniform", "lognormal"}, default="exponential"
        The distribution of the features; normal means N(1, 1), as in the paper.
    snr_db : float, optional
        In place of `noise`: the mean power of X w + b over that of the noise, in decibels.
    rng : None, int or Generator, default=None
        Seed of the draws.

    Returns
    -------
    ShuffledData
        `X`, `y`, `groups`, and the truth: `weights`, `intercept`, `noise` and `linked_y`, where
        ``linked_y[i]`` belongs to row i.

    Raises
    ------
    InputError
        For sizes and options that make no sense.

    Examples
    --------
    >>> data = make_shuffled(6, 2, noise=0.0, bags=2, rng=1)
    >>> data.X.shape, sorted(set(data.groups.tolist()))
    ((6, 2), [0, 1])
    """
    rng = np.random.default_rng(rng)
    if n < 1 or d < 1:
        raise InputError(f"n and d must be at least 1, got n={n}, d={d}")
    if features not in _DRAWS:
        raise InputError(f"unknown features '{features}': {suggest(features, _DRAWS)}")
    groups = _make_groups(n, bags)
    return measure_samples(
        _DRAWS[features](rng, (n, d)), groups, noise, weights=weights, intercept=intercept,
        snr_db=snr_db, rng=rng,
    )  # fmt: skip


def measure_samples(
    X: np.ndarray,
    groups: np.ndarray,
    noise: float | None = None,
    *,
    weights: Sequence[float] | None = None,
    intercept: float = 0.0,
    snr_db: float | None = None,
    rng: np.random.Generator | int | None = None,
) -> ShuffledData:
    """Simulate the labels of given rows and bags; parameters are those of `make_shuffled`."""
    rng = np.random.default_rng(rng)
    n, d = X.shape
    if noise is not None and snr_db is not None:
        raise InputError("give noise or snr_db, not both")
    if noise is not None and not (np.isfinite(noise) and noise >= 0):
        raise InputError(f"noise must be a finite sd of at least 0, got {noise}")
    drawn = rng.standard_normal(d) if weights is None else weights
    w = np.asarray(drawn, dtype=float)
    if w.shape != (d,):
        raise InputError(f"weights must have d = {d} entries, got {w.size}")
    signal = X @ w + intercept
    if noise is None:
        noise = 0.1 if snr_db is None else float(np.sqrt(np.mean(signal**2) / 10 ** (snr_db / 10)))
    linked = np.asarray(signal + noise * rng.standard_normal(n))
    return ShuffledData(
        X, shuffle_labels(linked, groups, rng), groups, w, float(intercept), noise, linked
    )


def shuffle_labels(
    y: Sequence[float] | np.ndarray,
    groups: Sequence[Hashable] | np.ndarray | None = None,
    rng: np.random.Generator | int | None = None,
) -> np.ndarray:
    """Return the labels permuted at random inside each group.

    Parameters
    ----------
    y : array-like of shape (n,)
        The labels.
    groups : sequence of n hashable labels, optional
        The bag of each label; all of them form one bag without it.
    rng : None, int or Generator, default=None
        Seed of the permutation.

    Returns
    -------
    ndarray of shape (n,)
        The labels in another order.

    Raises
    ------
    InputError
        For labels and groups of different number.

    Examples
    --------
    >>> shuffle_labels([1.0, 2.0, 3.0], ["a", "b", "b"], rng=0)[0].item()
    1.0
    """
    rng = np.random.default_rng(rng)
    shuffled = np.array(y, dtype=float)
    if groups is None:
        return rng.permutation(shuffled)
    if len(groups) != len(shuffled):
        raise InputError(f"groups has {len(groups)} entries but y has {len(shuffled)}")
    members: dict[Hashable, list[int]] = {}
    for i, name in enumerate(groups.tolist() if isinstance(groups, np.ndarray) else groups):
        members.setdefault(name, []).append(i)
    for rows in members.values():
        shuffled[rows] = shuffled[rng.permutation(rows)]
    return shuffled


def _make_groups(n: int, bags: int | Sequence[int]) -> np.ndarray:
    """Return the bag number of every row."""
    if isinstance(bags, int | np.integer):
        if not 1 <= bags <= n:
            raise InputError(f"bags must be between 1 and n = {n}, got {bags}")
        return np.sort(np.arange(n) % bags)
    sizes = list(bags)
    if sum(sizes) != n or min(sizes) < 1:
        raise InputError(f"the bag sizes {sizes} must be at least 1 and add up to n = {n}")
    return np.repeat(np.arange(len(sizes)), sizes)
