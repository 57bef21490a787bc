"""Words: the command line names its options, and prints whole what it prints."""

import re
from pathlib import Path

import pytest

from command_line import FIT, assert_one_line, write_data
from unshuffle.cli.app import run
from unshuffle.cli.wording import rephrase

# What is wrong, and the option that its message must name.
WRONG = {
    "missing": (["gap.csv"], "--missing drop"),
    "categories": (["mixed.csv"], "--categorical"),
    "noise": (["data.csv", "--noise", "-1"], "--noise"),
    "l1": (["data.csv", "--l1", "-1"], "--l1"),
    "starts": (["data.csv", "--starts", "0"], "--starts"),
    "jobs": (["data.csv", "--jobs", "0"], "--jobs"),
    "share": (["data.csv", "--mislinked", "2"], "--mislinked"),
    "links": (["data.csv", "--mislinked", "0.1", "--method", "ls"], "--method"),
    "one bag": (["data.csv", "--bag-offsets", "estimate"], "--bag-offsets"),
    "offsets": (["data.csv", "--bag-offsets", "estimate", "--method", "ls"], "--bag-offsets"),
    "penalty": (["data.csv", "--l2", "1", "--method", "likelihood"], "--l1 and --l2"),
    "device": (["data.csv", "--device", "abacus"], "--device abacus"),
    "time": (["data.csv", "--time-limit", "-1", "--method", "certified"], "--time-limit"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_options_and_no_parameters(name, folder, capsys):
    Path("gap.csv").write_text("x,y\n1,2\n,3\n4,5\n")
    Path("mixed.csv").write_text("x,y\n1,2\nq,3\n4,5\n")
    args, option = WRONG[name]
    code = run(["fit", *args, "--label", "y", "-q"])
    streams = capsys.readouterr()
    assert_one_line(code, streams, [option])
    parameters = (
        r"\b(\w+_\w+|missing|method|l1|l2|mislinked|device)='|n_starts|n_jobs|bag_offsets|None"
    )
    assert not re.search(parameters, streams.err)


def test_columns_that_are_called_like_parameters_keep_their_names():
    for text in (
        "column 'n_starts' is missing",
        "label 'method', bag 'noise'",
        "l1, l2, mislinked",
    ):
        assert rephrase(text) == text


def test_other_methods_are_named_as_options():
    said = "use bags that differ, fewer features, or method 'ls'"
    assert rephrase(said) == "use bags that differ, fewer features, or --method ls"


def test_excluded_columns_are_no_features(folder, capsys):
    write_data(d=3)
    assert run([*FIT, "--exclude", "x2", "--method", "means"]) == 0
    streams = capsys.readouterr()
    assert "x2" not in streams.out and "x1" in streams.out and "x3" in streams.out
    assert "2 features: x1, x3" in streams.err
    code = run([*FIT, "--exclude", "x9", "-q"])
    assert_one_line(code, capsys.readouterr(), ["data.csv", "exclude", "'x9'", "known"])
    code = run([*FIT, "--exclude", "x1", "--features", "x2", "-q"])
    assert_one_line(code, capsys.readouterr(), ["--features or --exclude"])


def test_excluding_from_two_files_leaves_bags_and_labels_alone(folder, capsys):
    write_data()
    lines = [line.split(",") for line in Path("data.csv").read_text().splitlines()]
    Path("rows.csv").write_text("\n".join(",".join(line[:3]) for line in lines))
    Path("labels.csv").write_text("\n".join(",".join(line[2:]) for line in lines))
    two = ["fit", "--rows", "rows.csv", "--labels", "labels.csv", "--bag", "bag"]
    assert run([*two, "--exclude", "x1", "--method", "means"]) == 0
    assert "1 feature: x2" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["audit", "plan"])
def test_columns_are_excluded_before_an_experiment_and_a_release_too(name, folder, capsys):
    write_data(d=3)
    call = [name, "data.csv", "--label", "y", "--method", "ls", *["--noise=0.1"] * (name == "plan")]
    # The label is shuffled already, at which the audit stops once it has said what it read.
    assert run([*call, "--bag", "bag", "--exclude", "x2"]) == (2 if name == "audit" else 0)
    assert "2 features: x1, x3" in capsys.readouterr().err
    code = run([*call, "--exclude", "x9", "-q"])
    assert_one_line(code, capsys.readouterr(), ["data.csv", "exclude", "'x9'", "known"])


def test_a_name_with_a_comma_stands_in_quotation_marks(folder, capsys):
    write_data(names=["a,b", "c"])
    for option in ("--features", "--exclude"):
        code = run([*FIT, option, "a,b", "--method", "means", "-q"])
        assert_one_line(code, capsys.readouterr(), ["'a'", "'a,b'", "comma", "'\"a,b\"'"])
    assert run([*FIT, "--features", '"a,b",c', "--method", "means", "-q"]) == 0
    assert "a,b" in capsys.readouterr().out
    assert run([*FIT, "--exclude", '"a,b"', "--method", "means", "-q"]) == 0
    assert "a,b" not in capsys.readouterr().out


@pytest.mark.parametrize("content", ['[{"x": 1, "y": 2}]', '{"x": 1}\n{"x": 2}\n', ' {"a": [1]}'])
def test_json_is_said_not_to_be_read(content, folder, capsys):
    Path("data.csv").write_text(content)
    assert_one_line(run([*FIT, "-q"]), capsys.readouterr(), ["data.csv", "JSON", "CSV"])


def test_names_that_begin_like_json_are_names(folder, capsys):
    write_data(names=["[a]", "{b"])
    assert run([*FIT, "--method", "means", "-q"]) == 0
    assert "{b" in capsys.readouterr().out


@pytest.mark.parametrize("width", [30, 60, 200])
def test_tables_in_a_pipe_are_as_wide_as_columns_says(width, folder, capsys, monkeypatch):
    names = [f"a column with a long name, number {j}" for j in range(8)]
    write_data(d=8, n=400, bags=20, names=names)
    monkeypatch.setenv("COLUMNS", str(width))
    assert run([*FIT, "--method", "means", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("coefficient"))
    table = lines[start : lines.index("", start)]
    assert max(map(len, table)) <= max(width, 80)  # what numbers and folded names need
    assert "…" not in "".join(table)  # names are folded and numbers whole
    assert (len(table) > 2 + 9) is (width < 90)
    assert max(map(len, lines[: start - 1])) <= width  # sentences are wrapped as well
    monkeypatch.setenv("COLUMNS", "no number")
    assert run([*FIT, "--method", "means", "-q"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.endswith(".") and len(first) > 100  # one line, where nobody says how wide


@pytest.mark.parametrize("width", [30, 72, 200])
def test_competing_answers_are_whole_at_any_width(width, folder, capsys, monkeypatch):
    write_data(d=9, n=200, bags=2)
    monkeypatch.setenv("COLUMNS", str(width))
    assert run([*FIT, "--method", "ls", "-q", "--json"]) == 0
    import json

    told = json.loads(capsys.readouterr().out)["candidates"]
    assert len(told) > 1
    assert run([*FIT, "--method", "ls", "-q"]) == 0
    assert "Competing answers" not in capsys.readouterr().out
    assert run([*FIT, "--method", "ls", "--verbose"]) == 0
    block = capsys.readouterr().out.split("Competing answers, best first:")[1].splitlines()
    assert max(map(len, block)) <= width
    rows: dict[str, list[str]] = {}
    for line in block:  # answers that do not fit beside each other stand below each other
        if line.strip() and "─" not in line and not line.startswith(" "):
            name, *cells = line.split()
            rows.setdefault(name, []).extend(cells)
    assert [name for name in rows if name.startswith("x")] == [f"x{j}" for j in range(1, 10)]
    for j in range(9):
        assert rows[f"x{j + 1}"] == [f"{c['weights'][j]:.4g}" for c in told[: len(rows["value"])]]


def test_verbose_tells_stages_also_without_a_terminal(folder, capsys):
    write_data()
    assert run([*FIT, "--method", "ls", "--verbose"]) == 0
    assert "descending from many starts" in capsys.readouterr().err
    assert_one_line(run([*FIT, "--verbose", "-q"]), capsys.readouterr(), ["--verbose or --quiet"])


def test_features_of_files_in_blocks_follow_from_names_alone():
    from unshuffle.cli.load_tables import choose_features
    from unshuffle.errors import InputError

    names, asked = ["a", "b", "g", "y"], {"features": [], "exclude": ["b"], "label": "y"}
    assert choose_features(asked, names, "d.parquet", "g") == ["a"]
    assert choose_features({**asked, "exclude": []}, names, "d.parquet", "g") is None
    with pytest.raises(InputError, match=r"d\.parquet: no column to exclude"):
        choose_features({**asked, "exclude": ["c"]}, names, "d.parquet", "g")
