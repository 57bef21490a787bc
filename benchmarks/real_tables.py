"""The two corpora of real tables: loading, bags, features under test, and measures.

`real_tables.npz` (R² from .5 to .98) and `real_tables_noisy.npz` (R² from .1 to .5) lie in the
folder that UNSHUFFLE_DATA names. Columns and label are standardised; the truth is OLS on the linked
table. Random bags have equal sizes, at least three rows each.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

CORPORA = {"clean": "real_tables.npz", "noisy": "real_tables_noisy.npz"}
BAGS = ("1", "4", "10", "natural")
N_FOLDS = 5


class Table(NamedTuple):
    """Standardised columns and linked label, natural bags (or None), and the linked OLS slopes."""

    X: np.ndarray
    y: np.ndarray
    natural: np.ndarray | None
    truth: np.ndarray


class Split(NamedTuple):
    """A table in bags: rows, linked and shuffled labels, groups."""

    X: np.ndarray
    linked: np.ndarray
    y: np.ndarray
    groups: np.ndarray


@cache
def load_tables(corpus: str) -> dict[str, Table]:
    """Return the tables of a corpus by name."""
    folder = os.environ.get("UNSHUFFLE_DATA")
    if not folder:
        raise SystemExit(f"set UNSHUFFLE_DATA to the folder that holds {CORPORA[corpus]}")
    found, tables = np.load(Path(folder) / CORPORA[corpus]), {}
    for name in sorted({key.split("|")[0] for key in found.files}):
        X, y = found[name + "|X"].astype(float), found[name + "|y"].astype(float)
        X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
        bags = found[name + "|bags"] if name + "|bags" in found.files else None
        truth = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), y, rcond=None)[0][:-1]
        tables[name] = Table(X, y, bags, truth)
    return tables


def package_fold(name: str) -> int:
    """Return the fold of a table: tables of one R package share one."""
    package = name.split("/")[0].lower()
    return sum((k + 1) * ord(letter) for k, letter in enumerate(package)) % N_FOLDS


def split(corpus: str, name: str, bags: str, seed: int) -> Split | None:
    """Return a table in bags with labels shuffled inside; None where it has no such bags."""
    tables = load_tables(corpus)
    X, y, natural, _ = tables[name]
    rng = np.random.default_rng([seed, sorted(tables).index(name), sum(map(ord, bags))])
    if bags == "natural":
        if natural is None:
            return None
        groups = np.unique(natural, return_inverse=True)[1]
    else:
        n_bags = int(bags)
        if len(y) < 3 * n_bags:
            return None
        groups = np.empty(len(y), dtype=int)
        groups[rng.permutation(len(y))] = np.arange(len(y)) % n_bags
    shuffled = y.copy()
    for r in np.unique(groups):
        rows = np.flatnonzero(groups == r)
        shuffled[rows] = rng.permutation(shuffled[rows])
    return Split(X, y, shuffled, groups)


def relative_error(weights: np.ndarray, truth: np.ndarray) -> float:
    """Return |ŵ − w|/|w|."""
    return float(np.linalg.norm(weights - truth) / np.linalg.norm(truth))


def judge(ends: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return coverage and interval score (width + 40 × overshoot, widths capped at 10)."""
    low, high = np.asarray(ends)[: len(truth)].T
    over = np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)
    score = np.minimum(high - low, 10.0) + 40.0 * over
    return float(np.mean(over == 0)), float(np.mean(score))


def bootstrap_error(values: np.ndarray, n: int = 1000) -> float:
    """Return the bootstrap standard error of a mean over tables."""
    rng = np.random.default_rng(0)
    return float(values[rng.integers(len(values), size=(n, len(values)))].mean(axis=1).std())
