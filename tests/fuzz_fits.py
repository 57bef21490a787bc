"""Fits of whatever one may hand over: a result or one clear line, and never anything else.

    make fuzz                      10 000 fits
    FUZZ_FITS=500 python -m pytest tests/fuzz_fits.py

Hypothesis chooses what the data are like (sizes, ties, scales, bags, masses, bad values, options)
and shrinks what fails; the numbers come from a seed it chooses too. What was ever found is fixed,
and stands as an example in `tests/test_extremes.py`.
"""

from __future__ import annotations

import json
import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from registry_examples import LENGTHY, SOLVERS
from unshuffle import Bag, Histogram, ShuffledLinearRegression, fit

N_FITS = int(os.environ.get("FUZZ_FITS", "10000"))
# Parts that run beside each other, each with a search of its own.
N_PARTS = 4
# One fit in twenty takes a second, the others a hundredth.
QUICK = [name for name in SOLVERS if name not in (*LENGTHY, "certified")]
COLUMNS = (
    "normal", "normal", "ties", "binary", "constant", "twin", "heavy", "huge", "tiny", "far",
    "zeros", "steps",
)  # fmt: skip
LABELS = ("linear", "noisy", "ties", "constant", "apart", "huge", "tiny", "far", "two")
BAGS = (
    "none", "one", "random", "random", "random", "single", "uneven", "words", "words", "missing",
)  # fmt: skip
SCALE = {"huge": 1e150, "tiny": 1e-150}


def draw_column(kind: str, n: int, earlier: list[np.ndarray], rng: np.random.Generator):
    """Return a column of a kind."""
    z = rng.normal(size=n)
    if kind == "ties":
        return rng.integers(0, 3, n).astype(float)
    if kind == "binary":
        return (z > 0).astype(float)
    if kind == "constant":
        return np.full(n, 7.0)
    if kind == "twin":
        return earlier[-1].copy() if earlier else z
    if kind == "heavy":
        return rng.standard_cauchy(n)
    if kind == "far":
        return 1e9 + z
    if kind == "zeros":
        return np.where(z > 0, 0.0, -0.0)
    if kind == "steps":
        return np.arange(n) // max(n // 3, 1) * 1.0
    return z * SCALE.get(kind, 1.0)


def draw_labels(kind: str, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return labels of a kind."""
    n = len(X)
    size = np.abs(X).max(axis=0, initial=0.0)
    z = (X / np.where(size > 0, size, 1.0)) @ rng.normal(size=X.shape[1])
    noise = rng.normal(size=n)
    if kind == "noisy":
        return noise
    if kind == "ties":
        return np.round(z)
    if kind == "constant":
        return np.full(n, -3.0)
    if kind == "apart":
        return np.where(noise > 0, 1e6, -1e6) + z
    if kind == "far":
        return 1e9 + z
    if kind == "two":
        return (z > 0).astype(float)
    return (z + 0.1 * noise) * SCALE.get(kind, 1.0)


def draw_groups(kind: str, n: int, rng: np.random.Generator):
    """Return groups of a kind."""
    if kind == "none":
        return None
    if kind == "single":
        return np.arange(n)
    if kind == "uneven":
        return np.where(np.arange(n) == 0, 1, 0)
    groups = rng.integers(0, 4, n) if kind != "one" else np.zeros(n, dtype=int)
    if kind == "words":
        return np.array(["a", "b", "ü", "a b"])[groups]
    if kind == "missing":
        return np.where(groups == 3, np.nan, groups.astype(float))
    return groups


@st.composite
def cases(draw):
    """Draw what a fit is like."""
    is_lengthy = draw(st.integers(0, 19)) == 0
    method = draw(st.sampled_from(LENGTHY if is_lengthy else QUICK))
    n = draw(st.integers(1, 8)) if method == "exact" else draw(st.integers(0, 60))
    return dict(
        method=method,
        n=n,
        columns=draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4)),
        labels=draw(st.sampled_from(LABELS)),
        bags=draw(st.sampled_from(BAGS)),
        form=draw(st.sampled_from(("table", "table", "bags", "counts", "subset", "bins"))),
        bad=draw(st.sampled_from((None,) * 28 + ("nan", "inf", "minus", "label"))),
        fit_intercept=draw(st.booleans()),
        l1=draw(st.sampled_from((0.0, 0.0, 0.1, 1e6))),
        l2=draw(st.sampled_from((0.0, 0.0, 0.1, 1e6))),
        noise=draw(st.sampled_from((None, None, 0.1, 1e-200, 1e200))),
        n_starts=draw(st.sampled_from((None, 1, 3))),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def make_bags(case: dict, X: np.ndarray, y: np.ndarray, groups, rng: np.random.Generator):
    """Return the data as bags: labels alone, with frequencies, some missing, or a histogram."""
    if groups is None:
        groups = np.zeros(len(y), dtype=int)
    bags = []
    for name in dict.fromkeys(groups.tolist()):
        rows, labels = X[groups == name], rng.permutation(y[groups == name])
        if case["form"] == "counts":
            values, counts = np.unique(labels, return_counts=True)
            bags.append(Bag(rows, values, label_counts=counts))
        elif case["form"] == "subset":
            bags.append(Bag(rows, labels[: max(1, len(labels) // 2)]))
        elif case["form"] == "bins" and len(labels) > 1 and np.ptp(labels) > 0:
            counts, edges = np.histogram(labels, 3)
            bags.append(Bag(rows, Histogram(edges, counts)))
        else:
            bags.append(Bag(rows, labels))
    return bags


def spoil(bad: str | None, X: np.ndarray, y: np.ndarray) -> None:
    """Put a value into the data that no fit can use."""
    if bad is None or not len(y):
        return
    if bad == "label":
        y[-1] = np.nan
    else:
        X[0, 0] = {"nan": np.nan, "inf": np.inf, "minus": -np.inf}[bad]


def run(case: dict):
    """Fit a case; return the weights, the intervals or None, and the summary."""
    rng = np.random.default_rng(case["seed"])
    columns: list[np.ndarray] = []
    for kind in case["columns"]:
        columns.append(draw_column(kind, case["n"], columns, rng))
    X = np.column_stack(columns)
    y = draw_labels(case["labels"], X, rng)
    groups = draw_groups(case["bags"], case["n"], rng)
    spoil(case["bad"], X, y)
    names = ("method", "fit_intercept", "l1", "l2", "noise", "n_starts")
    options = {name: case[name] for name in names}
    if case["form"] == "table":
        model = ShuffledLinearRegression(random_state=0, **options).fit(X, y, groups)
        assert np.isfinite(model.predict(X)).all()
        return model.result_
    return fit(make_bags(case, X, y, groups, rng), rng=0, **options)


@pytest.mark.parametrize("part", range(N_PARTS))
@settings(
    max_examples=max(1, N_FITS // N_PARTS), deadline=None, derandomize=False, print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(cases())
def test_a_fit_is_a_result_or_one_clear_line(part, case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Doubt, misfit and remarks on the data are what a fit may warn of.
        warnings.simplefilter("ignore", UserWarning)
        try:
            found = run(case)
        except ValueError as error:  # ours, or scikit-learn's of its checks
            line = str(error)
            assert line and "\n" not in line and len(line) < 500, line
            event("refused")
            return
    event(f"fitted by {case['method']}")
    assert case["bad"] is None, "bad values were fitted"
    assert np.isfinite(found.weights).all()
    said = json.dumps(found.summary().to_dict(), allow_nan=False)
    assert "NaN" not in said
