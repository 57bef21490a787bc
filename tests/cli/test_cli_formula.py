"""``--formula``: label and features in one text, kept with the model for new rows."""

import csv
import json

import numpy as np
import pytest

from unshuffle import load
from unshuffle.cli.app import run

pytest.importorskip("formulaic")

TEXT = "log(y) ~ x * C(kind, Treatment('b')) + C(k)"


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A file of rows whose log labels depend on x and on a kind, shuffled in pools."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pool = np.repeat(np.arange(40), 4)
    x = np.round(rng.normal(size=160) + rng.normal(size=40)[pool], 3)
    kind, k = rng.choice(list("abc"), 160), rng.integers(0, 2, 160)
    y = np.exp(0.5 * x + (kind == "a") + 0.01 * rng.normal(size=160))
    for r in range(40):
        y[pool == r] = rng.permutation(y[pool == r])
    with open("data.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "kind", "k", "pool", "y"])
        columns = (each.tolist() for each in (x, kind, k, pool, y))
        writer.writerows(zip(*columns, strict=True))
    return "data.csv"


FIT = ["fit", "data.csv", "--bag", "pool", "--method", "means", "-q"]


def test_a_formula_is_fitted_kept_and_applied_to_new_rows(table, capsys):
    assert run([*FIT, "--formula", TEXT, "--save", "model.json"]) == 0
    shown = capsys.readouterr().out
    assert "coefficient (label: log(y))" in shown
    assert run([*FIT, "--formula", TEXT, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    names = ["x", "C(kind)[T.a]", "C(kind)[T.c]", "C(k)[T.1]", "x:C(kind)[T.a]", "x:C(kind)[T.c]"]
    assert list(told["coefficients"]) == names and told["label"] == "log(y)"
    assert told["coefficients"]["x"]["estimate"] == pytest.approx(0.5, abs=0.05)
    assert run(["predict", "model.json", "data.csv", "-q"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    with open("data.csv", newline="") as file:
        read = list(csv.DictReader(file))
    data = {
        "x": [float(each["x"]) for each in read],
        "kind": [each["kind"] for each in read],
        "k": [int(each["k"]) for each in read],
    }
    expected = load("model.json").predict(data)
    np.testing.assert_array_equal([float(row["prediction"]) for row in rows], expected)


@pytest.mark.parametrize("command", ["match", "compare"])
def test_other_commands_take_a_formula(table, command, capsys):
    more = ["--methods", "means"] if command == "compare" else ["--method", "means"]
    args = [command, "data.csv", "--bag", "pool", "-q", "--formula", "y ~ . - k", *more]
    assert run(args) == 0
    shown = capsys.readouterr().out
    assert ("kind[T.b]" in shown and "pool" not in shown) or shown.startswith("row,label")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--formula", "y ~ x", "--label", "y"], "give --formula or --label, not both"),
        (["--formula", "y ~ x", "--log10"], "give --formula or --log10, not both"),
        (["--formula", "y ~ x", "--no-intercept"], "'- 1' for no intercept"),
        (["--formula", "y ~ z"], "no column is called 'z'"),
        (["--formula", "y ~"], "formula 'y ~'"),
    ],
)
def test_what_a_formula_cannot_mean_is_refused_in_one_line(table, more, message, capsys):
    assert run([*FIT, *more]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1


def test_missing_values_of_the_columns_used_are_dropped_where_asked(table, capsys):
    with open("data.csv", "a") as file:
        file.write(",a,1,0,1.0\n")
    assert run([*FIT, "--formula", "y ~ x"]) == 2
    assert "--missing drop" in capsys.readouterr().err
    assert run([*FIT, "--formula", "y ~ x", "--missing", "drop", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 160
    assert run([*FIT, "--formula", "y ~ kind", "--json"]) == 0  # x is not used
    assert json.loads(capsys.readouterr().out)["n"] == 161
