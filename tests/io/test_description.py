"""A description names what a fit would stumble over, and nothing in a clean table."""

import csv
import shlex

import numpy as np
import pytest

from unshuffle.cli.app import run
from unshuffle.errors import InputError
from unshuffle.io import read_table
from unshuffle.io.columns.remarks import find_alike
from unshuffle.io.description import describe_table, find_codes, read_common

N = 120
ROW = np.arange(N)


def write_columns(path, **columns):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def make_columns(rng):
    """Return a clean table: features, a bag and a label, as text and numbers."""
    return {
        "age": rng.normal(45, 12, N).round(1),
        "sex": rng.choice(["f", "m"], N),
        "child": rng.integers(0, 2, N),
        "district": np.repeat([f"D{k}" for k in range(12)], N // 12),
        "income": rng.lognormal(8, 0.4, N).round(),
    }


def describe(tmp_path, **columns):
    path = tmp_path / "t.csv"
    write_columns(path, **columns)
    found = describe_table(read_table(path))
    return found, {each.name: each for each in found.columns}


def test_a_clean_table_has_no_remarks(tmp_path):
    for seed in range(30):
        found, columns = describe(tmp_path, **make_columns(np.random.default_rng(1000 + seed)))
        assert found.remarks == ()
        assert (found.label, found.bag) == ("income", "district")
        types = [each.type for each in found.columns]
        assert types == ["numbers", "text", "0 and 1", "text", "whole numbers"]
        assert columns["district"].n_levels == 12


# Name → (what is done to a column, a word of the remark).
ODD = {
    "a slip": ("age", lambda c: np.where(ROW == 7, 4500.0, c), "row 8 holds 4500"),
    "a code": ("age", lambda c: np.where(ROW % 9 == 4, 999, c), "999 in 13 rows"),
    "a negative code": ("income", lambda c: np.where(ROW % 9 == 4, -9, c), "row 5 holds -9"),
    "a constant": ("child", lambda c: np.ones(N), "holds 1 in every row"),
    "row names": ("age", lambda c: np.arange(N) + 17, "numbers of rows"),
    "names": ("sex", lambda c: [f"p{k}" for k in range(N)], "different in every row"),
    "dates": ("sex", lambda c: [f"2021-03-{k % 28 + 1:02}" for k in range(N)], "dates: count days"),
    "alike": ("district", lambda c: np.where(ROW % 10 == 3, "d-1", c), "'d-1' (12) and 'D1'"),
    "many texts": ("sex", lambda c: [f"t{k // 2}" for k in range(N)], "60 different texts"),
    "nothing": ("child", lambda c: [""] * N, "holds no value"),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_what_is_odd_about_one_column_is_said_of_that_column_alone(tmp_path, case):
    name, change, words = ODD[case]
    columns = make_columns(np.random.default_rng(1000))
    columns[name] = change(columns[name])
    found, facts = describe(tmp_path, **columns)
    assert [remark.split(":")[0] for remark in found.remarks] == [f"column '{name}'"]
    assert words in facts[name].remarks[0]


def test_missing_values_are_counted_with_the_first_row(tmp_path):
    columns = make_columns(np.random.default_rng(1000))
    ages, sexes = columns["age"].astype(object), columns["sex"].astype(object)
    ages[[5, 50]], sexes[[9]] = "", "NA"
    _, facts = describe(tmp_path, **{**columns, "age": ages, "sex": sexes})
    assert (facts["age"].n_missing, facts["age"].first_missing) == (2, 6)
    assert (facts["sex"].n_missing, facts["sex"].first_missing) == (1, 10)
    assert (facts["income"].n_missing, facts["income"].first_missing) == (0, None)


def test_range_and_levels_are_those_of_the_column(tmp_path):
    columns = make_columns(np.random.default_rng(1001))
    _, facts = describe(tmp_path, **columns)
    age = facts["age"]
    known = columns["age"]
    assert (age.low, age.median, age.high) == (known.min(), np.median(known), known.max())
    values, counts = np.unique(columns["sex"], return_counts=True)
    assert dict(facts["sex"].levels) == dict(zip(values, counts, strict=True))


def test_names_are_alike_where_case_blanks_and_marks_are_all_that_differs():
    assert find_alike(["a b", "A_B", "ab", "ac"]) == [["a b", "A_B", "ab"]]
    assert find_alike(["a1", "a2", "-", "+"]) == []


def test_codes_stand_apart_and_are_in_several_rows():
    ages = np.arange(20.0, 90.0)
    assert find_codes(np.append(ages, [999.0, 999.0, -9.0, -9.0])) == [(999.0, 2), (-9.0, 2)]
    # 99 is an age, and a single 999 is an outlier.
    assert find_codes(np.append(ages, [99.0, 99.0])) == []
    assert find_codes(np.append(ages, 999.0)) == []


def test_files_are_described_by_the_columns_that_all_have(tmp_path):
    rng = np.random.default_rng(0)
    for name, other in (("one", "a"), ("two", "b")):
        write_columns(tmp_path / f"{name}.csv", **{"x": rng.normal(size=9), other: range(9)})
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    table = read_common(paths, "file")
    assert table.names == ("x", "file") and table.n_rows == 18
    assert any("'a', 'b'" in note for note in table.notes)
    write_columns(paths[1], z=range(9))
    with pytest.raises(InputError, match="differ in the column"):
        read_common(paths, "file")


def test_the_command_names_columns_and_the_fit(folder, capsys):
    assert run(["describe", "data.csv"]) == 0
    printed = capsys.readouterr().out
    assert "data.csv: 120 rows, 4 columns" in printed
    assert "unshuffle fit data.csv --label y --bag bag" in printed
    assert run(["describe", "none.csv"]) == 2


def test_channels_of_a_cytometry_file_are_listed_by_both_names(tmp_path, capsys):
    flowio = pytest.importorskip("flowio")
    path = tmp_path / "run.fcs"
    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        events = rng.lognormal(5, 1, (50, 3)).ravel()
        flowio.create_fcs(
            file, events, ["FSC-A", "FITC-A", "Time"], opt_channel_names=["", "GFP", ""]
        )
    assert run(["describe", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "long name" in printed and "GFP" in printed and "time of acquisition" in printed
    assert f"unshuffle fit {path} --label FITC-A" in printed


def test_the_suggested_command_takes_the_table_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    columns = make_columns(np.random.default_rng(0))
    days = np.datetime64("2020-01-01") + ((ROW * 37) % 400).astype("timedelta64[D]")
    odd = {"person": [f"p{k:03d}" for k in ROW], "visit": days, "flat": ["x"] * N}
    age = [999.0, 999.0, *columns["age"][2:]]
    write_columns("data.csv", **{**odd, **columns, "age": age})
    assert run(["describe", "data.csv"]) == 0
    command = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert command[:3] == ["unshuffle", "fit", "data.csv"]
    options = dict(zip(command[3::2], command[4::2], strict=True))
    assert options == {
        "--label": "income", "--bag": "district", "--id": "person", "--dates": "visit",
        "--na": "age=999", "--exclude": "flat", "--missing": "drop",
    }  # fmt: skip
    assert run([*command[1:], "--method", "ls", "-q"]) == 0


def test_a_column_that_runs_through_the_rows_is_suggested_as_bag(tmp_path):
    columns = {"x": np.random.default_rng(0).normal(size=60), "y": np.arange(60) ** 2 % 37}
    for crate, bag in ((np.arange(60) // 10, "crate"), (np.arange(60) % 6, None)):
        write_columns(tmp_path / "data.csv", **columns, crate=crate)
        assert describe_table(read_table(tmp_path / "data.csv")).bag == bag
