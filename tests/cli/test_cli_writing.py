"""Every command that writes files keeps the old one when it fails, and says why in one line."""

import csv
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import FIT, assert_one_line, start, write_linked
from unshuffle.cli.app import run

FAST = [*FIT, "--method", "means"]
PLAN = ["plan", "data.csv", "--features", "x1,x2", "--noise", "0.05", "--label-sd", "1", "--runs",
        "4", "--trials", "2", "--method", "ls"]  # fmt: skip
AUDIT = ["audit", "linked.csv", "--label", "y", "--bag", "bag", "--method", "ls"]
MATCH = ["match", *FIT[1:], "--method", "means"]

# Command → the file that it writes.
WRITERS = {
    "fit --out": ([*FAST, "--out"], "c.csv"),
    "fit --draws": ([*FIT, "--draws"], "draws.csv"),
    "fit --figure svg": ([*FAST, "--figure"], "f.svg"),
    "fit --figure png": ([*FAST, "--figure"], "f.png"),
    "fit --figure pdf": ([*FAST, "--figure"], "f.pdf"),
    "fit --report": ([*FAST, "--report"], "r.html"),
    "fit --save": ([*FAST, "--save"], "m.json"),
    "match --out": ([*MATCH, "--out"], "m.csv"),
    "predict --out": (["predict", "model.json", "data.csv", "--out"], "p.csv"),
    "plan --out": ([*PLAN, "--out"], "plan.csv"),
    "plan --figure": ([*PLAN, "--figure"], "plan.svg"),
    "audit --report": ([*AUDIT, "--report"], "audit.html"),
    "simulate --out": (["simulate", "-n", "9", "--out"], "s.csv"),
}
all_writers = pytest.mark.parametrize(("args", "name"), WRITERS.values(), ids=WRITERS)


@pytest.fixture
def model(folder, capsys):
    write_linked()
    assert run([*FAST, "--save", "model.json", "-q"]) == 0
    capsys.readouterr()


@all_writers
def test_a_full_disk_keeps_the_old_file(args, name, model, capsys, monkeypatch):
    Path(name).write_text("old")
    before = sorted(os.listdir())

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert run([*args, name]) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("unshuffle: ") and f"{name}: cannot be written (No space left" in last
    assert sorted(os.listdir()) == before and Path(name).read_text() == "old"


@all_writers
def test_a_folder_without_permission_is_refused_before_anything_is_read(
    args, name, model, capsys, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert_one_line(run([*args, name]), capsys.readouterr(), [name, "may not be written"])


PRINTERS = {
    "describe": ["describe", "data.csv"],
    "fit": FAST,
    "fit --json": [*FAST, "--json"],
    "compare": ["compare", *FIT[1:], "--methods", "ls,means"],
    "match": MATCH,
    "audit": AUDIT,
}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("args", PRINTERS.values(), ids=PRINTERS)
def test_results_that_cannot_be_printed_are_one_line(args, folder, capsys, monkeypatch):
    """A process that does the same ends without a word more: see test_cli_streams.py."""
    write_linked()
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert run([*args, "-q"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "no space is left" in err


@pytest.mark.parametrize("args", [PRINTERS["describe"], PRINTERS["match"]], ids=["text", "csv"])
def test_a_closed_pipe_is_quiet(args, folder):
    process = start([*args, "-q"])
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=100) == 0


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_coefficients_and_draws_are_those_of_the_table(folder, capsys):
    files = ["--out", "c.csv", "--draws", "d.csv"]
    assert run([*FIT, *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row.pop("coefficient"): row for row in read_rows("c.csv")}
    known = {**found["coefficients"], "intercept": found["intercept"]}
    assert list(rows) == list(known)
    for name, row in rows.items():
        assert row.pop("determined") == known[name]["determined"]
        assert {key: float(value) for key, value in row.items()} == {
            key: known[name][key] for key in ("estimate", "sd", "low", "high")
        }
    draws = read_rows("d.csv")
    assert len(draws) == 4000 and "noise" in draws[0]
    for name, each in known.items():
        values = np.array([float(row[name]) for row in draws])
        # Within five standard errors of 4000 draws, resampled from a few hundred at least.
        assert abs(values.mean() - each["estimate"]) < 0.3 * each["sd"]
        assert 0.8 < values.std() / each["sd"] < 1.2


def test_a_method_without_a_posterior_has_no_draws(folder, capsys):
    assert run([*FIT, "--method", "ls", "--draws", "d.csv", "-q"]) == 2
    err = capsys.readouterr().err
    assert "no posterior" in err and "--method likelihood" in err and not Path("d.csv").exists()


def test_figures_have_the_format_of_their_name_and_factors_of_logarithms(folder, capsys):
    starts = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    for ending, start_ in starts.items():
        assert run([*FAST, "--figure", f"f.{ending}", "-q"]) == 0
        assert Path(f"f.{ending}").read_bytes().startswith(start_)
    text = Path("f.svg").read_text()
    assert "change of y per unit" in text and "factor per unit" not in text
    label = ["fit", "data.csv", "--label", "log10(exp(y))", "--bag", "bag", "--method", "means"]
    assert run([*label, "--figure", "g.svg", "-q"]) == 0
    assert "factor per unit" in Path("g.svg").read_text()
    capsys.readouterr()
    code = run([*FAST, "--figure", "f.gif"])
    assert_one_line(code, capsys.readouterr(), ["--figure", "'f.gif'", ".svg, .png or .pdf"])


def test_a_report_lists_the_columns_as_describe_does(folder, capsys):
    assert run(["describe", "data.csv"]) == 0
    described = capsys.readouterr().out
    assert run([*FAST, "--report", "r.html", "-q"]) == 0
    page = Path("r.html").read_text()
    for name in ("x1", "x2", "bag", "y"):
        line = next(each for each in described.splitlines() if each.startswith(f"{name} "))
        cells = [cell for cell in line.split("  ") if cell.strip()]
        assert all(f"<td>{cell.strip()}</td>" in page for cell in cells), line
