"""Forgotten bags are pointed out: on stderr, in one line, where a column looks like bags."""

import json

import numpy as np
import pytest

from command_line import write_data
from registry_examples import fit_quietly
from unshuffle import make_shuffled
from unshuffle.cli.app import run
from unshuffle.io.columns.forgotten_bags import find_forgotten_bag
from unshuffle.io.table import make_table


def find(columns, taken=()):
    """Look for bags in a table of columns."""
    arrays = [
        np.array(values, dtype=object if isinstance(values[0], str) else float)
        for values in columns.values()
    ]
    return find_forgotten_bag(make_table(list(columns), arrays, "data.csv", [], ""), taken)


TWELVE = [1.5, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]


@pytest.mark.parametrize(
    ("name", "values", "n_levels"),
    [
        ("plate", ["A", "B", "C"] * 4, 3),
        ("Batch", [1, 2] * 6, 2),
        ("runID", [1, 1, 2, 2, 3, 3, 4, 4, 4, 3, 2, 1], 4),
        ("donor.no", ["x", "y"] * 6, 2),
        ("plate", TWELVE, None),  # no whole numbers
        ("sample", range(12), None),  # a number of each row
        ("day", [1, 2] * 5 + [3, 4], None),  # levels of one row
        ("batch", ["A"] * 12, None),  # one level
        ("colour", ["red", "blue"] * 6, None),
        ("template", [1, 2] * 6, None),
    ],
)
def test_a_column_is_bags_where_its_name_says_so_and_its_values_repeat(name, values, n_levels):
    expected = None if n_levels is None else (name, n_levels)
    assert find({"x": TWELVE, name: list(values)}) == expected
    assert find({"x": TWELVE, name: list(values)}, taken=[name]) is None


def test_the_likeliest_of_several_columns_is_named():
    columns = {"day": [1, 2] * 6, "plate_no": [1, 2, 3] * 4, "plate": [1, 2] * 6}
    assert find(columns) == ("plate", 2)
    assert find({"file": ["a", "b"] * 6, "lane": [1, 2, 3] * 4}) == ("lane", 3)


@pytest.mark.parametrize("command", ["fit", "compare", "match"])
def test_the_note_is_one_line_on_stderr(command, folder, capsys):
    write_data("plates.csv")
    text = (folder / "plates.csv").read_text().replace("bag", "my plate", 1)
    (folder / "plates.csv").write_text(text)
    how = ["--methods", "ls"] if command == "compare" else ["--method", "ls"]
    args = [command, "plates.csv", "--label", "y", *how]
    assert run(args) == 0
    streams = capsys.readouterr()
    notes = [line for line in streams.err.splitlines() if "--bag" in line]
    assert notes == [
        "note: no bag was named, so that all rows are one bag; column 'my plate' looks like one "
        "(4 values): did you mean --bag 'my plate'?"
    ]
    assert "--bag" not in streams.out
    assert run([*args, "--json"]) == 0
    assert "did you mean" not in json.dumps(json.loads(capsys.readouterr().out))
    for silenced in (["--quiet"], ["--bag", "my plate"], ["--features", "x1,my plate"]):
        assert run([*args, *silenced]) == 0
        assert "did you mean" not in capsys.readouterr().err


def test_bags_that_stand_in_both_files_are_pointed_out(folder, capsys):
    write_data("both.csv")
    lines = [line.split(",") for line in (folder / "both.csv").read_text().splitlines()]
    (folder / "rows.csv").write_text("\n".join(",".join(line[:3]) for line in lines))
    (folder / "labels.csv").write_text("\n".join(",".join(line[2:]) for line in lines))
    (folder / "bare.csv").write_text("\n".join(line[3] for line in lines))
    args = ["fit", "--rows", "rows.csv", "--method", "ls", "--label", "y"]
    assert run([*args, "--labels", "labels.csv"]) == 0
    assert "did you mean --bag bag?" in capsys.readouterr().err
    assert run([*args, "--labels", "bare.csv"]) == 0
    assert "did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize(("n_bags", "words"), [(1, "one bag"), (4, "4 bags")])
def test_the_number_of_bags_stands_in_the_first_lines_of_the_summary(n_bags, words):
    data = make_shuffled(40, 2, bags=n_bags, rng=0)
    summary = fit_quietly("ls", data.X, data.y, data.groups).summary()
    assert any(f"· {words} ·" in line for line in str(summary).splitlines()[:8])
    assert f"· {words} ·" in summary._repr_html_()
