"""What the command line takes and prints where links are of unknown quality."""

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from command_line import assert_one_line
from linked_data import fit, make_links
from unshuffle import Links
from unshuffle.cli.app import run


@pytest.fixture
def registers(tmp_path, monkeypatch):
    """A table of links with match probabilities, safe pairs and names."""
    monkeypatch.chdir(tmp_path)
    X, y, groups, linked = make_links(200, blocks=4)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "village": groups, "truth": linked})
    frame["match"] = np.where(y == linked, 0.9, 0.2)
    frame["sure"] = ((y == linked) & (np.arange(200) < 40)).astype(int)
    frame["distance"] = (y != linked) + np.random.default_rng(1).normal(size=200)
    frame["name"] = [f"p{i}" for i in range(200)]
    frame["safe"], frame["never"] = 1, 0.0
    frame["certain"] = frame["sure"].astype(bool)
    frame.to_csv("d.csv", index=False)
    return frame


DATA = ["d.csv", "--label", "y", "--block", "village", "--features", "a,b", "-q"]


def fit_json(capsys, *args):
    assert run(["fit", *DATA, "--json", *args]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_command_line_takes_what_is_known_of_links(registers, capsys):
    X, y = registers[["a", "b"]].to_numpy(), registers["y"].to_numpy()
    asked = {
        "match": (["--link-probability", "match"], Links(probability=registers["match"])),
        "audit": (["--audit", "50,15"], Links(audit=(50, 15))),
        "rate": (["--mismatch-rate", "0.3"], Links(rate=0.3)),
        "safe": (["--mislinked", "0.3", "--safe", "sure"], Links(rate=0.3, safe=registers["sure"])),
        "words": (
            ["--mislinked", "0.3", "--safe", "certain"],
            Links(rate=0.3, safe=registers["certain"]),
        ),
        "columns": (
            ["--mislinked", "0.3", "--link-columns", "distance"],
            Links(rate=0.3, columns=registers["distance"]),
        ),
        "calibrated": (
            ["--mislinked", "estimate", "--link-probability", "match"],
            Links(columns=np.log(registers["match"] / (1 - registers["match"]))),
        ),
        "both": (
            ["--mislinked", "0.3", "--link-probability", "match"],
            Links(rate=0.3, probability=registers["match"]),
        ),
    }
    for args, links in asked.values():
        found = fit_json(capsys, *args)["coefficients"]
        expected = fit(X, y, registers["village"].to_numpy(), links).coef_
        assert_allclose([found[name]["estimate"] for name in "ab"], expected, rtol=1e-9)


def test_columns_about_links_are_no_features(registers, capsys):
    registers[["a", "b", "y", "match", "sure"]].to_csv("d.csv", index=False)
    args = [
        "d.csv",
        "--label",
        "y",
        "-q",
        "--json",
        "--link-probability",
        "match",
        "--safe",
        "sure",
    ]
    assert run(["fit", *args]) == 0
    assert list(json.loads(capsys.readouterr().out)["coefficients"]) == ["a", "b"]


def test_match_carries_names_and_probabilities_of_links(registers, capsys):
    assert run(["match", *DATA, "--mislinked", "0.3", "--id", "name"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["id"] for row in rows] == registers["name"].tolist()
    said = np.array([float(row["link_probability"]) for row in rows])
    is_right = (registers["y"] == registers["truth"]).to_numpy()
    assert said[is_right].mean() > said[~is_right].mean() + 0.3


def test_ids_that_are_numbers_are_written_as_in_the_file(registers, capsys):
    registers["number"] = 7000 + np.arange(len(registers))
    registers.to_csv(DATA[0], index=False)
    assert run(["match", *DATA, "--method", "ls", "--id", "number", "-q"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["id"] for row in rows] == [str(each) for each in registers["number"]]


def test_compare_shows_regressions_that_know_of_links_beside_those_that_do_not(registers, capsys):
    args = ["--mislinked", "0.3", "--truth", "truth", "--json"]
    names = "auto,ll,chambers,ols,huber"
    assert run(["compare", *DATA, *args, "--methods", names]) == 0
    rows = {row["method"]: row for row in json.loads(capsys.readouterr().out)["methods"]}
    assert list(rows) == ["mixture", "ll", "chambers", "ols", "huber"]
    X, y = registers[["a", "b"]].to_numpy(), registers["y"].to_numpy()
    ols = np.linalg.lstsq(np.column_stack([X, np.ones(200)]), y, rcond=None)[0][:2]
    assert_allclose(list(rows["ols"]["coefficients"].values()), ols, rtol=1e-6)
    assert rows["mixture"]["error"] < min(rows["ols"]["error"], rows["huber"]["error"])


def test_a_file_gives_the_mismatch_rate_of_every_block(registers, capsys):
    """In any order, and with names that are numbers in one file and text in the other."""
    registers["village"] = np.array(["1", "2", "3", "x"])[registers["village"]]
    registers.to_csv("d.csv", index=False)
    rates = {"x": 0.2, "3": 0.5, "1": 0.1, "2": 0.4}
    lines = [f"{name},{rate}" for name, rate in rates.items()]
    for name, head, links in (
        ("rates.csv", "block,rate", Links(rate=rates)),
        ("more.csv", "block,rate", Links(rate=rates, probability=registers["match"])),
    ):
        with open(name, "w") as file:
            file.write("\n".join([head, *lines]) + "\n")
        more = [] if links.probability is None else ["--link-probability", "match"]
        found = fit_json(capsys, "--mismatch-rate", name, *more)["coefficients"]
        X, y = registers[["a", "b"]].to_numpy(), registers["y"].to_numpy()
        expected = fit(X, y, registers["village"].to_numpy(), links).coef_
        assert_allclose([found[each]["estimate"] for each in "ab"], expected, rtol=1e-9)
    assert run(["compare", *DATA, "--mislinked", "rates.csv", "--methods", "auto,ll,ols"]) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("block,rate\n0,0.1\n1,0.2\n2,1.4\n3,0.1\n", ["rate=1.4", "block '2'", "0 to 1"]),
        ("block,rate\n0,0.1\n1,0.2\n2,-0.4\n3,0.1\n", ["rate=-0.4", "block '2'"]),
        ("block,rate\n0,0.1\n1,0.2\n2,0.4\n", ["nothing of block '3'"]),
        ("block,rate\n0,0.1\n1,0.2\n2,0.4\n3,0\n7,0.1\n", ["block '7'", "do not have"]),
        ("block,rate\n0,0.1\n1,0.2\n1,0.4\n3,0\n", ["row 3", "'1' has two rates"]),
        ("block,rate\n0,few\n1,0.2\n2,0.4\n3,0\n", ["rates.csv", "'rate'", "text"]),
        ("village,rate\n0,0.1\n", ["rates.csv", "'block'"]),
    ],
)
def test_wrong_rates_by_block_are_one_line(registers, capsys, text, words):
    with open("rates.csv", "w") as file:
        file.write(text)
    code = run(["fit", *DATA, "--mislinked", "rates.csv"])
    assert_one_line(code, capsys.readouterr(), words)


def test_rates_by_block_need_blocks_and_a_file_that_exists(registers, capsys):
    with open("rates.csv", "w") as file:
        file.write("block,rate\n0,0.1\n")
    data = ["d.csv", "--label", "y", "--features", "a,b", "-q"]
    for args, words in (
        (["--mislinked", "rates.csv"], ["--block"]),
        (["--mislinked", "none.csv"], ["no file 'none.csv'"]),
        (["--mislinked", "rates.csv", "--audit", "20,3"], ["--mislinked or --audit"]),
    ):
        assert_one_line(run(["fit", *data, *args]), capsys.readouterr(), words)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--mislinked", "1.2"], ["1.2", "from 0 to 1"]),
        (["--mislinked", "nan"], ["nan", "from 0 to 1"]),
        (["--safe", "safe", "--link-probability", "never"], ["safe", "match probability of 0"]),
        (["--mislinked", "0.2", "--separate"], ["separate"]),
        (["--link-probability", "match", "--separate"], ["--separate"]),
        (["--audit", "0,0"], ["0 wrong of 0"]),
        (["--audit", "20,-1"], ["-1 wrong of 20"]),
        (["--link-probability", "b"], ["'b'", "from 0 to 1", "row"]),
        (["--link-probability", "name"], ["'name'", "text"]),
        (["--safe", "match"], ["'match'", "row 1", "certainly right"]),
        (["--safe", "nobody"], ["nobody"]),
        (["--link-columns", "name"], ["'name'", "text"]),
        (["--link-columns", "distance", "--link-probability", "match"], ["give one of them"]),
        (["--audit", "20"], ["'20'", "200,14"]),
        (["--audit", "20,30"], ["30 wrong of 20"]),
        (["--audit", "20,3", "--mislinked", "0.1"], ["--mislinked or --audit"]),
        (["--mislinked", "0.1", "--method", "ls"], ["'ls'", "auto"]),
        (["--method", "ll"], ["'ll'", "known mismatch rate"]),
    ],
)
def test_wrong_links_on_the_command_line_are_one_line(registers, capsys, args, words):
    code = run(["fit", *DATA, *args])
    assert_one_line(code, capsys.readouterr(), words)


def test_match_writes_completed_tables(registers, capsys):
    args = ["match", *DATA, "--mislinked", "0.3", "--id", "name", "--draws", "10", "--out", "d/e"]
    assert run(args) == 0
    assert capsys.readouterr().out == ""
    tables = [pd.read_csv(f"d/e/completed-{k:02d}.csv") for k in range(1, 11)]
    X, y = registers[["a", "b"]].to_numpy(), registers["y"].to_numpy()
    model = fit(X, y, registers["village"].to_numpy(), mislinked=0.3)
    for table, pairing in zip(tables, model.sample_pairings(10, 0), strict=True):
        assert list(table.columns) == ["row", "id", "bag", "a", "b", "y", "label_row"]
        assert (table["id"] == registers["name"]).all() and (table["row"] - 1 == table.index).all()
        assert (table["label_row"] - 1 == pairing).all()
        assert_allclose(table["y"], y[pairing])
    assert run([*args, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 10


def test_completed_tables_of_shuffled_labels(registers, capsys):
    assert run(["match", *DATA, "--draws", "2", "--out", "c"]) == 0
    tables = [pd.read_csv(f"c/completed-{k}.csv") for k in (1, 2)]
    for table in tables:
        assert sorted(table["y"]) == sorted(registers["y"])
        beside = registers["village"].to_numpy()[table["label_row"] - 1]
        assert (beside == registers["village"]).all()


def test_draws_need_a_folder(registers, capsys):
    assert run(["match", *DATA, "--draws", "2"]) == 2
    assert "--out" in capsys.readouterr().err
    code = run(["match", *DATA, "--draws", "2", "--out", "d.csv"])
    assert_one_line(code, capsys.readouterr(), ["d.csv: is a file"])


def test_rows_and_labels_of_two_files_are_completed(registers, capsys):
    registers[["a", "b", "village"]].to_csv("rows.csv", index=False)
    registers[["y", "village"]].iloc[::-1].to_csv("labels.csv", index=False)
    args = ["--rows", "rows.csv", "--labels", "labels.csv", "--label", "y", "--bag", "village"]
    assert run(["match", *args, "-q", "--draws", "2", "--out", "c"]) == 0
    for k in (1, 2):
        table = pd.read_csv(f"c/completed-{k}.csv")
        assert list(table.columns) == ["row", "bag", "a", "b", "y"]
        means = table.groupby("bag")["y"].mean()
        assert_allclose(means, registers.groupby("village")["y"].mean())
