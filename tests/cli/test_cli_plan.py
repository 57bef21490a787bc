"""Properties of ``unshuffle plan``: what it prints and writes, and how it refuses."""

import csv
import io
import json
import re
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from command_line import FIT, assert_one_line
from page_reader import Page
from unshuffle.cli.app import run

PLAN = ["plan", "samples.csv", "--noise", "0.1", "--trials", "2", "--method", "ls"]


@pytest.fixture
def samples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).exponential(size=(24, 2))
    lines = [f"{a:.4f},{b:.4f},donor {i // 2},{i % 3},7" for i, (a, b) in enumerate(X.tolist())]
    Path("samples.csv").write_text("\n".join(["dose,age,donor,pool,flat", *lines]) + "\n")
    Path("weights.csv").write_text("feature,weight\nage,-1\ndose,2\n")
    return tmp_path


FEATURES = ["--features", "dose,age"]


def test_a_plan_is_printed_and_written(samples, capsys):
    how = [*FEATURES, "--runs", "1,2,4", "--label-sd", "1", "--together", "donor"]
    assert run([*PLAN, *how, "--out", "plan.csv"]) == 0
    streams = capsys.readouterr()
    assert (
        "Expected error: 2 designed" in streams.out and "With offsets between runs" in streams.out
    )
    assert "24 samples, 2 features: dose, age" in streams.err
    rows = list(csv.DictReader(io.StringIO(Path("plan.csv").read_text())))
    known = list(csv.DictReader(io.StringIO(Path("samples.csv").read_text())))
    assert list(rows[0]) == ["row", "runs_1", "runs_2", "runs_4", *known[0]]
    for row, sample in zip(rows, known, strict=True):
        assert float(row["dose"]) == float(sample["dose"]) and row["donor"] == sample["donor"]
    assert [row["row"] for row in rows] == [str(i + 1) for i in range(24)]
    for a, b in zip(rows[::2], rows[1::2], strict=True):
        assert a["runs_4"] == b["runs_4"]  # a donor's samples stay together
    assert {row["runs_4"] for row in rows} == {"1", "2", "3", "4"}


def test_ids_are_carried_to_the_plan(samples, capsys):
    head, *lines = Path("samples.csv").read_text().split("\n")[:-1]
    named = [f"{line},{900 + i}" for i, line in enumerate(lines)]
    Path("samples.csv").write_text("\n".join([f"{head},barcode", *named]) + "\n")
    how = ["--exclude", "donor,pool,flat", "--runs", "2", "--label-sd", "1", "--id", "barcode"]
    assert run([*PLAN, *how, "--out", "plan.csv", "--json"]) == 0
    streams = capsys.readouterr()
    assert "2 features: dose, age" in streams.err  # the id is none
    rows = list(csv.DictReader(io.StringIO(Path("plan.csv").read_text())))
    assert [row["id"] for row in rows] == [str(900 + i) for i in range(24)]
    found = json.loads(streams.out)
    assert found["ids"] == {row["row"]: row["id"] for row in rows}
    schema = resources.files("unshuffle") / "schema" / "plan.schema.json"
    jsonschema.validate(found, json.loads(schema.read_text(encoding="utf-8")))


def test_json_is_one_object_and_the_same_for_the_same_seed(samples, capsys):
    how = [*PLAN, *FEATURES, "--runs", "2", "--weights", "weights.csv", "--json"]
    assert run([*how, "-q"]) == 0
    first = capsys.readouterr()
    found = json.loads(first.out)
    assert first.err == ""
    assert set(found) == {
        "verdict", "notes", "trials", "designs", "expectations", "assignment", "ids", "provenance"
    }  # fmt: skip
    assert sorted(found["assignment"]["2"].values()) == [1] * 12 + [2] * 12
    assert found["designs"]["2"]["sizes"] == [12, 12]
    assert found["expectations"][0]["weights"]["dose"]["sign_known"] is None  # of least squares
    assert run([*how, "-q", "--jobs", "2"]) == 0
    again = json.loads(capsys.readouterr().out)
    del found["provenance"], again["provenance"]
    assert again == found


@pytest.mark.parametrize("seed", ["0", "1"])
def test_errors_are_told_with_what_they_belong_to_and_compared_beyond_chance(seed, samples, capsys):
    how = ["--runs", "3,6", "--label-sd", "1", "--method", "means", "--trials", "6"]
    assert run([*PLAN, *FEATURES, *how, "--seed", seed, "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    for has_offsets, start in ((False, "Expected error"), (True, "With offsets")):
        cells = {
            (str(each["runs"]), each["bags"]): (each["error"], each["error_mc"])
            for each in found["expectations"]
            if each["offsets"] is has_offsets
        }
        place = [line.startswith(start) for line in found["verdict"]].index(True)
        errors, comparison = found["verdict"][place : place + 2]
        told = re.findall(r"(\d+) (designed|random) (\S+) ± ([\d.e+-]*\d)", errors)
        assert {(n, kind) for n, kind, _, _ in told} == set(cells)
        for n, kind, error, doubt in told:
            assert (error, doubt) == tuple(
                f"{value:.{digits}g}" for value, digits in zip(cells[n, kind], (2, 1), strict=True)
            )
        compared = re.findall(r"(\d+) designed are (better|worse) than (\d+) random", comparison)
        assert bool(compared) is ("No difference" not in comparison)
        for n, relation, other in compared:
            (one, doubt), (two, chance) = cells[n, "designed"], cells[other, "random"]
            assert abs(one - two) > 2 * np.hypot(doubt, chance)
            assert (one < two) is (relation == "better")


def test_bags_that_exist_are_assessed(samples, capsys):
    assert run([*PLAN, *FEATURES, "--bag", "pool", "--label-sd", "1"]) == 0
    out = capsys.readouterr().out
    assert "design will work" in out or "work" in out.splitlines()[0]
    assert "given" in out and "designed" in out


def test_signs_are_shown_for_each_weight(samples, capsys):
    how = ["--method", "means", "--runs", "6", "--label-sd", "1", "--offset", "0"]
    assert run([*PLAN[:-2], *FEATURES, *how]) == 0
    out = capsys.readouterr().out
    assert "Chance that the sign" in out and "6 designed" in out
    assert "offsets between runs" not in out


def test_what_fits_know_of_offsets_is_noted(samples, capsys):
    how = [*PLAN, *FEATURES, "--runs", "2", "--label-sd", "1"]
    assert run([*how, "--method", "likelihood"]) == 0
    assert "knew that there are none" in capsys.readouterr().out
    # Least squares knows of no offsets.
    for more in ([], ["--method", "likelihood", "--bag-offsets", "auto"]):
        assert run([*how, *more]) == 0
        assert "knew that there are none" not in capsys.readouterr().out


def test_without_a_signal_the_prior_is_said(samples, capsys):
    assert run([*PLAN, *FEATURES, "--runs", "2"]) == 0
    assert "drawn from the prior" in capsys.readouterr().out


def test_weights_may_come_from_a_kept_model(folder, capsys):
    assert run([*FIT, "--method", "ls", "--save", "m.json", "-q"]) == 0
    capsys.readouterr()
    how = ["--features", "x1,x2", "--weights", "m.json", "--runs", "2", "--trials", "2"]
    assert run(["plan", "data.csv", "--noise", "0.1", "--method", "ls", *how]) == 0
    assert "and the weights given" in capsys.readouterr().out


def test_the_report_of_a_plan_holds_what_is_printed(samples, capsys):
    pytest.importorskip("jinja2")
    how = [*FEATURES, "--runs", "4,8", "--label-sd", "1", "--method", "means", "--json"]
    assert run([*PLAN[:-2], *how, "--report", "plan.html", "--pictures", "drawn"]) == 0
    streams = capsys.readouterr()
    found = json.loads(streams.out)
    page = Page(Path("plan.html").read_text(encoding="utf-8"))
    assert page.open == [] and len(page.ids) == len(set(page.ids))
    for sentence in (*found["verdict"], *found["notes"], found["provenance"]["command"]):
        assert sentence in page.text
    for each in found["expectations"]:
        offsets = "yes" if each["offsets"] else "no"
        numbers = f"{each['error']:.4g} {each['error_mc']:.4g} {each['trials']}"
        assert f"{each['runs']} {each['bags']} {offsets} {numbers}" in page.text
    assert [path.name for path in Path("drawn").iterdir()] == ["expected-errors.svg"]
    assert "report written to plan.html" in streams.err


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_figure_is_drawn(ending, samples, capsys):
    pytest.importorskip("matplotlib")
    assert run([*PLAN, *FEATURES, "--runs", "2", "--figure", f"plan.{ending}"]) == 0
    content = Path(f"plan.{ending}").read_bytes()
    assert (b"<svg" in content) if ending == "svg" else content.startswith(b"\x89PNG")


BAD = {
    "no noise": (["plan", "samples.csv"], ["--noise"]),
    "noise of zero": (["plan", "samples.csv", *FEATURES, "--noise", "0"], ["positive sd", "got 0"]),
    "more runs than samples": ([*PLAN, *FEATURES, "--runs", "2,50"], ["50 runs", "24 samples"]),
    "no number": ([*PLAN, "--runs", "two"], ["'two'", "whole number"]),
    "run zero": ([*PLAN, "--runs", "0"], ["'0'", "whole number"]),
    "capacity": (
        [*PLAN, *FEATURES, "--runs", "2", "--capacity", "5"], ["add up to 10", "24 samples"]
    ),
    "group too large": (
        [*PLAN, *FEATURES, "--together", "pool", "--runs", "4", "--capacity", "7"],
        ["8 samples must stay together", "takes 7"],
    ),
    "sizes": ([*PLAN, *FEATURES, "--sizes", "5,5"], ["add up to 10", "24 samples"]),
    "both limits": ([*PLAN, "--sizes", "5,5", "--capacity", "5"], ["not both"]),
    "unknown feature": ([*PLAN, "--features", "doze"], ["'doze'", "did you mean 'dose'?"]),
    "unknown bag": ([*PLAN, *FEATURES, "--bag", "pols"], ["'pols'", "'pool'"]),
    "bags and runs": ([*PLAN, "--bag", "pool", "--runs", "2"], ["--bag", "--runs"]),
    "two signals": ([*PLAN, "--label-sd", "1", "--weights", "weights.csv"], ["give one of"]),
    "small label": ([*PLAN, *FEATURES, "--label-sd", "0.05"], ["0.05", "larger", "0.1"]),
    "no weight": ([*PLAN, "--features", "age,pool", "--weights", "weights.csv"], ["'pool'"]),
    "no weights": ([*PLAN, *FEATURES, "--weights", "none.csv"], ["none.csv", "no such file"]),
    "weights of what": (
        [*PLAN, *FEATURES, "--weights", "samples.csv"], ["feature names", "1 column of text"]
    ),
    "no file": (["plan", "none.csv", "--noise", "1"], ["none.csv", "no such file"]),
    "no place": ([*PLAN, "--out", "no/p.csv"], ["no/p.csv", "folder"]),
    "no picture": ([*PLAN, "--figure", "p.doc"], ["p.doc", ".svg"]),
    "trials": ([*PLAN[:-3], "1", *FEATURES], ["trials", "at least 2"]),
    "text": ([*PLAN, "--features", "dose,age,donor", "--bag", "donor"], ["'donor'", "bag column"]),
    "no threads": ([*PLAN, *FEATURES, "--runs", "2", "--jobs", "0"], ["--jobs must be"]),
    "offset": ([*PLAN, *FEATURES, "--offset", "-1"], ["-1", "give 0 to leave offsets out"]),
    "told offsets": ([*PLAN, "--bag-offsets", "some"], ["'some'", "auto, none nor estimate"]),
    "flat label": (
        [*PLAN, *FEATURES, "--label", "flat"], ["'flat' is constant", "--label-sd or --weights"]
    ),
    "method": ([*PLAN[:-1], "lz", *FEATURES, "--runs", "2"], ["unknown method 'lz'"]),
}  # fmt: skip


@pytest.mark.parametrize(("command", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(command, words, samples, capsys):
    code = run([*command, "-q"])
    assert_one_line(code, capsys.readouterr(), words)


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_same_plan_draws_the_same_file(ending, samples, capsys):
    pytest.importorskip("matplotlib")
    how = [*FEATURES, "--runs", "2", "--label-sd", "1", "--method", "ls", "-q"]
    for name in ("one", "two"):
        assert run([*PLAN, *how, "--figure", f"{name}.{ending}"]) == 0
    one, two = (Path(f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert b"<dc:date>" not in one and b"CreationDate" not in one
