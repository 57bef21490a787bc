"""Notes and refusals for odd columns: units, outliers, codes, labels without a logarithm."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_line import assert_one_line
from tables import fcs_bytes
from unshuffle import Bag, OutlierWarning, ShuffledLinearRegression, fit
from unshuffle.cli import load_blocks
from unshuffle.cli.app import run

N = 60
MEANS = ["--bag", "bag", "--method", "means", "--no-intercept"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write a table of two features, with columns replaced or cells poked; return its name."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a, b = rng.uniform(20, 60, N).round(1), rng.normal(50, 5, N).round(1)
    columns = {"a": a, "b": b, "bag": np.arange(N) % 4, "y": (2 * a + b).round(2)}

    def write(name="data.csv", **changes):
        found = {key: list(map(str, values)) for key, values in columns.items()}
        for key, change in changes.items():
            if isinstance(change, dict):
                for row, cell in change.items():
                    found[key][row - 1] = cell
            else:
                found[key] = list(map(str, change))
        lines = [",".join(found), *map(",".join, zip(*found.values(), strict=True))]
        Path(name).write_text("\n".join(lines) + "\n")
        return name

    return write


UNITS = {
    "percent": "{}%",
    "percent and blank": "{} %",
    "euro": "\u20ac {}",
    "dollars and thousands": '"${},200"',
    "kilograms": "{} kg",
    "francs": "CHF {}",
}


@pytest.mark.parametrize("template", UNITS.values(), ids=UNITS)
def test_a_number_with_a_unit_is_no_category(template, table, capsys):
    cells = [template.format(k % 20) for k in range(N)]
    first = cells[0].strip('"')
    code = run(["fit", table(c=cells), "--label", "y", *MEANS])
    words = ["data.csv", "row 1", "column 'c'", f"'{first}'", "unit", "--categorical"]
    assert_one_line(code, capsys.readouterr(), words)
    code = run(["fit", "data.csv", "--label", "c", *MEANS])
    assert_one_line(code, capsys.readouterr(), ["data.csv", "row 1", "'c'", f"'{first}'", "unit"])
    declared = ["fit", "data.csv", "--label", "y", "--features", "c", "--categorical", "c", "-q"]
    assert run([*declared, "--method", "ls", "--bag", "bag"]) == 0


def test_names_with_digits_stay_categories_and_many_names_do_not(table, capsys):
    classes = ["1a", "1b", "2a", "A3"]
    cells = [classes[k % 4] for k in range(N)]
    args = ["--label", "y", "--features", "c", "--bag", "bag", "--method", "ls", "--json"]
    assert run(["fit", table(c=cells), *args]) == 0
    assert len(json.loads(capsys.readouterr().out)["coefficients"]) == 3
    code = run(["fit", table(c=[f"name{k % 40}" for k in range(N)]), *args])
    words = ["'c'", "40 different texts", "--categorical", "leave it out"]
    assert_one_line(code, capsys.readouterr(), words)


OUTLIERS = {
    "one huge cell": ({"a": {7: "1e15"}}, ["row 7", "'a'", "1e+15", "robust sds"]),
    "a huge label": ({"y": {9: "99999"}}, ["row 9", "'y'", "99999", "robust sds"]),
    "a code": ({"b": {3: "999", 8: "999"}}, ["row 3", "'b'", "999 in 2 rows", "missing value"]),
    "a negative code": ({"a": {5: "-9"}}, ["row 5", "'a'", "-9", "the only negative value"]),
}


@pytest.mark.parametrize(("changes", "words"), OUTLIERS.values(), ids=OUTLIERS)
def test_a_cell_far_from_all_others_is_noted_and_fitted(changes, words, table, capsys):
    name = table(**changes)
    for more in ([], ["--features", "a,b"]):
        assert run(["fit", name, "--label", "y", *MEANS, *more]) == 0
        (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("outlier")]
        assert all(word in line for word in ["data.csv", *words])
    assert run(["fit", name, "--label", "y", *MEANS, "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_outliers_are_noted_of_two_files_and_by_match_plan_and_compare(table, capsys):
    table("rows.csv", b={3: "9999"})
    table("labels.csv", y={4: "-50000"})
    two = ["--rows", "rows.csv", "--labels", "labels.csv", "--features", "a,b", "--label", "y"]
    assert run(["fit", *two, *MEANS]) == 0
    told = capsys.readouterr().err
    assert "rows.csv, row 3, column 'b'" in told and "labels.csv, row 4, column 'y'" in told
    for command in (
        ["match", "rows.csv", "--label", "y", *MEANS],
        ["compare", "rows.csv", "--label", "y", "--bag", "bag", "--methods", "means"],
        ["plan", "rows.csv", "--bag", "bag", "--noise", "1", "--method", "ls", "--trials", "2"],
    ):
        assert run(command) == 0
        assert "outlier: rows.csv, row 3, column 'b' holds 9999" in capsys.readouterr().err


def test_outliers_of_files_read_in_pieces_are_noted_where_they_are(table, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    from unshuffle.io.text import pieces

    monkeypatch.setattr(load_blocks, "MEMORY_BYTES", 0)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 500)
    name = table(b={50: "1e9"}, a={2: "62.5"})
    assert run(["fit", name, "--label", "y", "--bag", "bag", "--method", "ls"]) == 0
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("outlier")]
    assert "data.csv, row 50, column 'b' holds 1e+09" in line and "'a'" not in line


def fit_means(X, y, groups):
    return ShuffledLinearRegression("means", fit_intercept=False).fit(X, y, groups)


def draw(n=N):
    rng = np.random.default_rng(0)
    X = rng.normal(50, 5, (n, 2))
    return X, X @ [2.0, 1.0], np.arange(n) % 4


def test_the_estimator_warns_of_outliers_by_a_class_of_their_own():
    X, y, groups = draw()
    X[7, 1] = 1e15
    with pytest.warns(OutlierWarning, match=r"X, row 7, column 1 holds 1e\+15") as heard:
        fit_means(X, y, groups)
    assert heard[0].filename == __file__
    frame = pd.DataFrame(X, columns=["age", "height"])
    with pytest.warns(OutlierWarning, match=r"X, row 7, column 'height'"):
        fit_means(frame, y, groups)
    X[7, 1], y[3] = 50.0, -999.0
    with pytest.warns(OutlierWarning, match=r"y, row 3 holds -999"):
        fit_means(X, y, groups)
    bags = [Bag(X[groups == g], y[groups == g]) for g in range(4)]
    with pytest.warns(OutlierWarning, match=r"y, bag 3, row 0 holds -999") as heard:
        fit(bags, method="means", fit_intercept=False)
    assert heard[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", OutlierWarning)
        fit_means(X, y, groups)


ORDINARY = {
    "normal": lambda rng: rng.normal(size=2000),
    "exponential": lambda rng: rng.exponential(size=2000),
    "lognormal": lambda rng: rng.lognormal(0, 1, 2000),
    "counts": lambda rng: rng.negative_binomial(1, 0.1, 2000).astype(float),
    "zero and one": lambda rng: (rng.random(2000) < 0.3).astype(float),
    "rare ones": lambda rng: (rng.random(2000) < 0.001).astype(float),
    "mostly zero": lambda rng: np.where(rng.random(2000) < 0.7, 0.0, rng.exponential(100, 2000)),
    "two groups": lambda rng: rng.normal(np.where(rng.random(2000) < 0.2, 1000, 0), 1),
    "constant": lambda rng: np.full(2000, 3.0),
    "a dose with controls": lambda rng: rng.choice([0.0, 1.0, 2.0, 5.0, 500.0], 2000),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_columns_are_no_outliers(name):
    column = ORDINARY[name](np.random.default_rng(1))
    X, y, _ = draw(2000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutlierWarning)
        fit_means(np.column_stack([X, column]), y, np.arange(2000) % 5)


NO_LOGS = {"y": {5: "-3.5", 9: "0"}}


@pytest.mark.parametrize("is_streamed", [False, True])
def test_labels_without_a_logarithm_are_counted_and_can_be_dropped(
    is_streamed, table, capsys, monkeypatch
):
    if is_streamed:
        pytest.importorskip("pyarrow")
        monkeypatch.setattr(load_blocks, "MEMORY_BYTES", 0)
    args = ["fit", table(**NO_LOGS), "--label", "y", "--bag", "bag", "--method", "ls", "--log10"]
    words = ["data.csv: 2 of 60 labels", "0 or negative", "row 5", "-3.5", "--missing drop"]
    assert_one_line(run(args), capsys.readouterr(), words)
    assert run([*args, "--missing", "drop", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == N - 2


def test_labels_of_a_cytometry_file_without_a_logarithm_can_be_dropped(table, capsys):
    rng = np.random.default_rng(0)
    events = np.column_stack([rng.uniform(1, 100, (50, 3)), np.arange(50)])
    events[[2, 30], 0] = -7.5, -1
    Path("run.fcs").write_bytes(fcs_bytes(events, ["FITC-A", "SSC-A", "FSC-A", "Time"]))
    args = ["fit", "run.fcs", "--label", "FITC-A", "--method", "ls", "--log10"]
    words = ["run.fcs: 2 of 50 labels", "no logarithm", "row 3", "-7.5", "--missing drop"]
    assert_one_line(run(args), capsys.readouterr(), words)
    assert run([*args, "--missing", "drop", "--json"]) == 0
    out, err = capsys.readouterr()
    assert set(json.loads(out)["coefficients"]) == {"SSC-A", "FSC-A"}
    assert "column 'Time' is the time of acquisition" in err
    chosen = ["--missing", "drop", "--features", "SSC-A,Time", "--json"]
    assert run([*args, *chosen]) == 0
    out, err = capsys.readouterr()
    assert "Time" in json.loads(out)["coefficients"] and "acquisition" not in err


@pytest.mark.parametrize("is_streamed", [False, True])
def test_rows_that_miss_a_value_are_counted(is_streamed, table, capsys, monkeypatch):
    if is_streamed:
        pytest.importorskip("pyarrow")
        monkeypatch.setattr(load_blocks, "MEMORY_BYTES", 0)
    name = table(a={4: "", 8: "NA"}, b={8: "", 20: "inf"})
    code = run(["fit", name, "--label", "y", "--bag", "bag", "--method", "ls"])
    words = ["data.csv, row 4: missing value in column 'a'", "3 of 60 rows", "--missing drop"]
    assert_one_line(code, capsys.readouterr(), words)


IDS = {
    "running": ("x", range(1, N + 1), True),
    "named": ("patient_id", range(1000, 1000 + 7 * N, 7), True),
    "in any order": ("x", np.random.default_rng(0).permutation(N), True),
    "repeated": ("x", np.arange(N) // 2, False),
    "spread": ("humid", range(1000, 1000 + 7 * N, 7), False),
    "fractions": ("x", np.arange(N) / 2, False),
}


@pytest.mark.parametrize("case", IDS)
def test_numbers_of_rows_are_noted_where_they_are_features(case, table, capsys):
    name, cells, is_noted = IDS[case]
    args = ["fit", table(**{name: cells}), "--label", "y", *MEANS]
    assert run(args) == 0
    assert (f"look like numbers of rows: '{name}'" in capsys.readouterr().err) == is_noted
    for chosen in (["--features", f"a,{name}"], ["--exclude", name]):
        assert run([*args, *chosen]) == 0
        assert "numbers of rows" not in capsys.readouterr().err
