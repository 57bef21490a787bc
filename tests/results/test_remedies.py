"""Remedies fit the data: nothing is advised that they have already, or that cannot help."""

import csv

import numpy as np
import pytest

from unshuffle import ShuffledLinearRegression
from unshuffle.cli.app import run


def write_table(path, columns, y, n_bags=10):
    """Write columns and labels, shuffled inside bags."""
    rng = np.random.default_rng(0)
    groups = np.arange(len(y)) % n_bags
    for r in range(n_bags):
        own = np.flatnonzero(groups == r)
        y[own] = y[rng.permutation(own)]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, "bag", "y"])
        cells = zip(*columns.values(), groups, y, strict=True)
        writer.writerows([f"{value:.6g}" for value in row] for row in cells)


def fit_text(capsys, *args):
    assert run(["fit", "data.csv", "--label", "y", "--bag", "bag", "--seed", "1", *args]) == 0
    return capsys.readouterr().out


def bend(z, noise, rng):
    """Return labels whose mean is curved in z."""
    unit, middle = z.std(), z - z.mean()
    return z + noise * unit * rng.normal(size=len(z)) + 0.4 * middle**2 / unit


@pytest.mark.parametrize("kind", ["uneven", "curved"])
def test_no_logarithm_is_advised_where_labels_are_logarithms(kind, folder, capsys):
    rng = np.random.default_rng(0)
    if kind == "uneven":
        X = rng.uniform(-1.7, 1.7, size=(1000, 1))
        z = X[:, 0]
        y = z + 0.3 * z.std() * np.exp(0.5 * z / z.std()) * rng.normal(size=1000)
    else:
        X = rng.exponential(size=(1000, 3)) - 1.0
        y = bend(X @ [1.0, -0.6, 0.4], 0.3, rng)
    write_table("data.csv", {f"x{j}": x for j, x in enumerate(X.T)}, 10**y)
    told = fit_text(capsys, "--log10")
    assert "does not fit" in told
    remedy = "squares of the columns" if kind == "curved" else "another transformation of the label"
    assert f"What may help: {remedy}." in told and "logarithm" not in told


def test_squares_are_not_advised_of_columns_of_two_values(folder, capsys):
    rng = np.random.default_rng(0)
    X = (rng.random((1000, 6)) < [0.3, 0.5, 0.4, 0.2, 0.6, 0.35]).astype(float)
    y = bend(X @ [1.0, 0.9, 0.8, 1.1, 0.7, 0.5], 0.15, rng) - 1.0
    write_table("data.csv", dict(zip("abcdef", X.T, strict=True)), y)
    told = fit_text(capsys)
    assert "a curved mean" in told
    assert "squares" not in told and "products of the columns" in told
    # Some labels are negative and have no logarithm.
    assert "logarithm" not in told


def test_squares_are_advised_of_the_columns_that_have_them():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.exponential(size=1000), rng.random(1000) < 0.4])
    y = bend(X @ [1.0, 0.3], 0.2, rng)
    y -= y.min() + 1.0  # without logarithms
    model = ShuffledLinearRegression(random_state=0).fit(X, y, np.arange(1000) % 10)
    assert "What may help: squares of x0." in str(model.summary())


def test_a_logarithm_is_advised_first_where_labels_have_one():
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(1000, 3))
    y = bend(X @ [1.0, 0.6, 0.4], 0.2, rng)
    model = ShuffledLinearRegression(random_state=0)
    model.fit(X, y - y.min() + 1.0, np.arange(1000) % 10)
    assert "What may help: the logarithm of the label." in str(model.summary())


def test_more_bags_are_not_advised_for_collinear_columns(folder, capsys):
    rng = np.random.default_rng(0)
    level = rng.integers(0, 3, 240)
    dummies = {name: (level == j).astype(float) for j, name in enumerate("abc")}
    x = rng.exponential(size=240)
    y = 1.5 * x + dummies["a"] - 0.5 * dummies["b"] + 0.3 * rng.normal(size=240)
    write_table("data.csv", {"x": x, **dummies}, y, n_bags=8)
    told = fit_text(capsys)
    assert "leaving out one of a, b, c" in told
    assert "more bags" not in told
    # Two copies of a column, without an intercept.
    write_table("data.csv", {"x": x, "twice": 2 * x}, 1.5 * x + 0.1 * rng.normal(size=240))
    told = fit_text(capsys, "--no-intercept")
    assert "leaving out one of x, twice" in told and "more bags" not in told
