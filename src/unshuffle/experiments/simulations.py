"""A simulated fit, its error and its expected time, for several experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unshuffle.errors import InputError
from unshuffle.estimator import ShuffledLinearRegression
from unshuffle.experiments.rows import Row
from unshuffle.simulate import ShuffledData, shuffle_labels

# Seconds of one fit, measured on one core of a 2-core machine with the kernels compiled; they
# order the progress bar and the estimates of --list, nothing else.
MOMENT_SECONDS = {1: 0.005, 2: 0.02, 3: 0.03, 4: 0.08, 5: 0.2, 6: 0.5, 7: 1.5, 8: 3.0}


def relative_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Return |ŵ − w₀| / |w₀|.

    >>> relative_error(np.array([3.0, 4.0]), np.array([3.0, 0.0]))
    1.3333333333333333
    """
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def simulate(
    X: np.ndarray,
    weights: Sequence[float] | np.ndarray,
    noise: float,
    bags: int,
    rng: np.random.Generator,
) -> ShuffledData:
    """Make labels for given rows, split them at random into bags, and shuffle inside each."""
    w = np.asarray(weights, dtype=float)
    linked = X @ w + noise * rng.standard_normal(len(X))
    groups = random_bags(len(X), bags, rng)
    return ShuffledData(X, shuffle_labels(linked, groups, rng), groups, w, 0.0, noise, linked)


def random_bags(n: int, bags: int, rng: np.random.Generator) -> np.ndarray:
    """Split n rows at random into bags of sizes as equal as possible."""
    groups = np.empty(n, dtype=int)
    groups[rng.permutation(n)] = np.arange(n) % bags
    return groups


def noise_at_snr(signal: np.ndarray, decibels: float) -> float:
    """Return the sd of noise at this ratio of mean powers."""
    return float(np.sqrt(np.mean(signal**2) / 10 ** (decibels / 10)))


def fit_simulated(data: ShuffledData, method: str, rng: np.random.Generator, **options: Any) -> Row:
    """Fit simulated data without an intercept, as the paper's simulations do.

    "ols" is ordinary least squares on the linked labels: what a fit could reach at best.
    """
    if method == "ols":
        weights = np.linalg.lstsq(data.X, data.linked_y, rcond=None)[0]
        value = float(np.mean((data.X @ weights - data.linked_y) ** 2))
        return make_row(relative_error(weights, data.weights), value, "ols", "EXACT")
    return fit_and_compare(
        data.X,
        data.y,
        data.groups,
        data.weights,
        rng,
        method=method,
        fit_intercept=False,
        **options,
    )


def fit_and_compare(
    X: np.ndarray,
    y: np.ndarray,
    groups: np.ndarray,
    truth: np.ndarray,
    rng: np.random.Generator,
    **options: Any,
) -> Row:
    """Fit, and compare with the true weights (the intercept last, where one is fitted).

    A fit that refuses its data becomes a row without an error, so that a run of hours goes on; its
    reason stands under `status`, and means over it are shown as failed.
    """
    model = ShuffledLinearRegression(random_state=int(rng.integers(2**32)), n_jobs=1, **options)
    try:
        model.fit(X, y, groups=groups.tolist())
    except InputError as exc:
        return make_row(float("nan"), float("nan"), "none", f"failed: {exc}")
    weights = np.append(model.coef_, model.intercept_) if model.fit_intercept else model.coef_
    solution = model.solution_
    return make_row(
        relative_error(weights, truth), solution.value, model.method_, solution.status.name
    )


def make_row(error: float, value: float, chosen: str, status: str) -> Row:
    """Put together the results that every row has."""
    return {"error": error, "value": value, "chosen": chosen, "status": status}


def fit_seconds(method: str, n: int, d: int, bags: int = 1) -> float:
    """Estimate the seconds of one fit."""
    if method in ("ols", "control"):
        return 0.01
    if method == "auto":
        return 0.5 * d * (n / 200) ** 0.35
    if method in ("sm", "na-sm"):
        n_moments = max(-(-d // bags), 2 if d > 1 else 1)
        return MOMENT_SECONDS.get(n_moments, 10.0)
    factor = {"emd": 2.0, "ks": 4.0, "small-d": 3.0}.get(method, 1.0)
    searching = 0.02 if d <= 2 else 0.1 * d
    return factor * searching * max(n / 1000, 0.1) ** 0.6
