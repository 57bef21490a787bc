"""The command line's output is stable: golden files."""

import json
import os
from pathlib import Path

import pytest

from command_line import FIT, write_linked
from printed import find_difference, find_json_difference
from unshuffle.cli.app import run
from unshuffle.cli.fitting import fit_data

GOLDEN = Path(__file__).parent / "golden"

# `make expected` writes them anew; look at the difference before you commit it.
IS_WRITING = os.environ.get("UNSHUFFLE_GOLDEN") == "write"
GOLDEN_FITS = {
    "ls": [*FIT, "--method", "ls"],
    "means": [*FIT, "--method", "means", "--level", "0.9"],
    "likelihood": [*FIT, "--method", "likelihood", "--noise", "0.05"],
    "certified": [*FIT, "--method", "certified"],
    "sampler": [*FIT, "--method", "sampler", "--noise", "0.05"],
}


@pytest.mark.parametrize("name", GOLDEN_FITS)
def test_output_is_stable(name, folder, capsys, monkeypatch):
    made = []

    def fit_once(*args):
        made[:] = made or [fit_data(*args)]
        return made[0]

    monkeypatch.setattr("unshuffle.cli.commands.fit.fit_data", fit_once)
    for ending, more in (("txt", []), ("json", ["--json"])):
        assert run([*GOLDEN_FITS[name], *more]) == 0
        streams = capsys.readouterr()
        compare(streams.out, GOLDEN / f"{name}.{ending}")


def test_predictions_are_stable(folder, capsys):
    assert run([*FIT, "--method", "means", "--no-intercept", "--save", "model.json", "-q"]) == 0
    capsys.readouterr()
    assert run(["predict", "model.json", "data.csv", "--level", "0.9", "--new-label"]) == 0
    printed = capsys.readouterr().out
    compare(printed, GOLDEN / "predict.csv")


BEFORE = {
    "plan": ["plan", "data.csv", "--features", "x1,x2", "--noise", "0.05", "--label-sd", "1",
             "--runs", "4,6", "--trials", "3", "--method", "means"],
    "audit": ["audit", "linked.csv", "--label", "y", "--bag", "bag", "--method", "ls"],
}  # fmt: skip


@pytest.mark.parametrize("name", BEFORE)
def test_what_is_said_before_data_or_release_is_stable(name, folder, capsys):
    write_linked()
    assert run([*BEFORE[name], "-q"]) == 0
    printed = capsys.readouterr().out
    compare(printed, GOLDEN / f"{name}.txt")


def compare(found, path):
    """Compare an output with its golden file, or write that anew where it differs."""
    is_json = path.suffix == ".json"
    expected = path.read_text(encoding="utf-8") if path.exists() else "{}"
    difference = _compare_objects(found, expected) if is_json else find_difference(found, expected)
    if difference and IS_WRITING:
        path.write_text(found, encoding="utf-8")
    else:
        assert not difference, f"{path.name}: {difference} (run: make expected)"


def _compare_objects(found, expected):
    objects = [json.loads(text) for text in (found, expected)]
    for content in objects:
        content.get("provenance", {}).pop("version", None)
        # The worst candidates are kept or dropped by their last digits.
        del content.get("candidates", [])[1:]
    return find_json_difference(*objects)
