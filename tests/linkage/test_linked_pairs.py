"""Bags of one row are linked pairs: ordinary least squares with t intervals, by every way in."""

import csv
import io
import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from unshuffle import Bag, ShuffledLinearRegression, fit, methods
from unshuffle.cli.app import run

N = 150


def make_pairs(n=N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2] + [0.0, 100.0, 3.0]
    return X, X @ [1.0, -0.2, 3.0] + 5.0 + 2.0 * rng.standard_t(5, size=n)


@pytest.fixture(scope="module")
def book():
    """The regression of statsmodels: coefficients with the intercept last, intervals, noise sd."""
    statsmodels = pytest.importorskip("statsmodels.api")
    X, y = make_pairs()
    found = statsmodels.OLS(y, np.column_stack([X, np.ones(len(y))])).fit()
    return found.params, found.bse, found.conf_int(0.1), np.sqrt(found.scale)


def check(book, coef, sds, ends, noise):
    params, errors, intervals, sd = book
    assert_allclose(coef, params, rtol=1e-9)
    assert_allclose(sds, errors, rtol=1e-9)
    assert_allclose(ends, intervals, rtol=1e-9)
    assert noise == pytest.approx(sd, rel=1e-9)


def check_fit(book, found):
    rows = found.summary(0.9).rows
    check(
        book,
        [row.estimate for row in rows],
        [row.sd for row in rows],
        [(row.low, row.high) for row in rows],
        found.noise,
    )
    assert found.method == "means" and found.posterior is None
    assert "Every pair is known: ordinary least squares" in found.summary().explanation[1]


def fit_with_groups(X, y, **options):
    return ShuffledLinearRegression(random_state=0, **options).fit(X, y, np.arange(N)).result_


WAYS = {
    "estimator": fit_with_groups,
    "names in any order": lambda X, y, **options: (
        ShuffledLinearRegression(**options).fit(X, y, [f"{7 * r % N}" for r in range(N)]).result_
    ),
    "bags": lambda X, y, **options: fit(
        [Bag(x[None], [label]) for x, label in zip(X, y, strict=True)], **options
    ),
    "anchors": lambda X, y, **options: (
        ShuffledLinearRegression(**options).fit(X, y, anchors=np.ones(N, bool)).result_
    ),
}


@pytest.mark.parametrize("method", ["auto", "likelihood"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_python_is_ordinary_least_squares(way, method, book):
    check_fit(book, WAYS[way](*make_pairs(), method=method))


@pytest.mark.parametrize("method", ["auto", "likelihood"])
@pytest.mark.parametrize("way", ["estimator", "bags"])
def test_every_way_in_blocks_is_ordinary_least_squares(way, method, book, monkeypatch):
    monkeypatch.setattr(methods, "BLOCKS_ABOVE", N - 1)
    check_fit(book, WAYS[way](*make_pairs(), method=method))


@pytest.mark.parametrize("kind", ["csv", "parquet", "csv in pieces", "parquet in blocks"])
def test_every_file_gives_ordinary_least_squares(kind, book, folder, capsys, monkeypatch):
    X, y = make_pairs()
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y, "pool": np.arange(N)}
    if kind.startswith("csv"):
        name, text = "d.csv", io.StringIO()
        writer = csv.writer(text)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        (folder / name).write_text(text.getvalue())
    else:
        pytest.importorskip("pyarrow")
        name = "d.parquet"
        pytest.importorskip("pandas").DataFrame(columns).to_parquet(name)
    if kind.endswith(("pieces", "blocks")):
        monkeypatch.setattr(methods, "BLOCKS_ABOVE", N - 1)
        monkeypatch.setattr("unshuffle.cli.load_blocks.MEMORY_BYTES", 10)
    how = ["--label", "y", "--bag", "pool", "--level", "0.9", "--json", "-q"]
    assert run(["fit", name, *how]) == 0
    found = json.loads(capsys.readouterr().out)
    entries = [*found["coefficients"].values(), found["intercept"]]
    check(
        book,
        [entry["estimate"] for entry in entries],
        [entry["sd"] for entry in entries],
        [(entry["low"], entry["high"]) for entry in entries],
        found["noise"],
    )
    assert found["method"] == "means" and found["bags"] == N
    assert any("in blocks" in note or "pieces" in note for note in found["data"]["notes"]) == (
        kind.endswith(("pieces", "blocks"))
    )


@pytest.mark.parametrize("limit", [20_000, N - 1])
def test_collinear_columns_of_linked_pairs_are_left_to_the_prior(limit, monkeypatch):
    """Least squares has no one answer: what the columns do together is known, in blocks too."""
    monkeypatch.setattr(methods, "BLOCKS_ABOVE", limit)
    X, y = make_pairs()
    X = np.column_stack([X, 2.0 * X[:, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = fit_with_groups(X, y)
    assert found.method == "likelihood"
    w = np.linalg.lstsq(np.column_stack([X[:, :3], np.ones(N)]), y, rcond=None)[0]
    assert found.coef[0] + 2.0 * found.coef[3] == pytest.approx(w[0], abs=0.1)
    assert_allclose(found.coef[1:3], w[1:3], atol=0.2)
