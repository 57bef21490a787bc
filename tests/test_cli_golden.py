"""The command line's output is stable: golden files."""

import json
import os
from pathlib import Path

import pytest

from command_line import FIT, write_linked
from unshuffle.cli.app import run

GOLDEN = Path(__file__).parent / "golden"

# UNSHUFFLE_GOLDEN=write writes them anew; look at the difference before you commit it.
GOLDEN_FITS = {
    "ls": [*FIT, "--method", "ls"],
    "means": [*FIT, "--method", "means", "--level", "0.9"],
    "likelihood": [*FIT, "--method", "likelihood", "--noise", "0.05"],
    "certified": [*FIT, "--method", "certified"],
    "sampler": [*FIT, "--method", "sampler", "--noise", "0.05"],
}


@pytest.mark.parametrize("name", GOLDEN_FITS)
def test_output_is_stable(name, folder, capsys):
    for ending, more in (("txt", []), ("json", ["--json"])):
        assert run([*GOLDEN_FITS[name], *more]) == 0
        streams = capsys.readouterr()
        path = GOLDEN / f"{name}.{ending}"
        if os.environ.get("UNSHUFFLE_GOLDEN") == "write":
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(streams.out, encoding="utf-8")
        assert_alike(streams.out, path.read_text(encoding="utf-8"), ending)


def test_predictions_are_stable(folder, capsys):
    assert run([*FIT, "--method", "means", "--no-intercept", "--save", "model.json", "-q"]) == 0
    capsys.readouterr()
    assert run(["predict", "model.json", "data.csv", "--level", "0.9", "--new-label"]) == 0
    printed = capsys.readouterr().out
    path = GOLDEN / "predict.csv"
    if os.environ.get("UNSHUFFLE_GOLDEN") == "write":
        path.write_text(printed, encoding="utf-8")
    # The same rule as for tables, where blanks part the cells.
    found, expected = (
        text.replace(",", " ") for text in (printed, path.read_text(encoding="utf-8"))
    )
    assert_alike(found, expected, "txt")


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
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UNSHUFFLE_GOLDEN") == "write":
        path.write_text(printed, encoding="utf-8")
    assert_alike(printed, path.read_text(encoding="utf-8"), "txt")


def assert_alike(found, expected, ending):
    """Compare words exactly and numbers to two digits: the last may differ between processors."""
    if ending == "json":
        found, expected = json.loads(found), json.loads(expected)
        # The worst candidates are kept or dropped by their last digits.
        for content in (found, expected):
            del content["provenance"]["version"], content["candidates"][1:]
        assert_same_content(found, expected)
    else:
        # Widths of columns and their lines follow the digits.
        words, known = ([w for w in text.split() if set(w) != {"─"}] for text in (found, expected))
        for word, other in zip(words, known, strict=True):
            assert_same_content(as_number(word), as_number(other))


def assert_same_content(found, expected):
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_same_content(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same_content(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=0.02, abs=1e-3)
    else:
        assert found == expected


def as_number(word):
    try:
        return float(word.strip("()").rstrip("%,;"))
    except ValueError:
        return word
