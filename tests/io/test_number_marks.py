"""Decimal and thousands marks: numbers are read as they are meant, or both readings are named."""

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import assert_one_line
from unshuffle.cli import load_blocks
from unshuffle.cli.app import run
from unshuffle.errors import InputError
from unshuffle.io import read_table
from unshuffle.io.sources.table_source import ColumnChoice, read_to_scratch
from unshuffle.io.text import pieces

NBSP, NARROW = "\u00a0", "\u202f"

# Cells of the first column, delimiter, cells of the second → the first as numbers.
READ = {
    "German, decimals beside": (["1.665", "822"], ";", ["0,5", "1,25"], [1665, 822]),
    "German, in the cell itself": (["1.234,56", "822"], ";", ["1", "2"], [1234.56, 822]),
    "German, in the column": (["1.665", "0,5"], ";", ["1", "2"], [1665, 0.5]),
    "millions": (["1.665.000", "822"], ",", ["1", "2"], [1665000, 822]),
    "negative": (["-1.665", "-822"], ";", ["0,5", "1,25"], [-1665, -822]),
    "English, quoted": (['"1,665"', "822"], ",", ["1", "2"], [1665, 822]),
    "English, every one": (['"1,665"', '"2,300"'], ",", ["1", "2"], [1665, 2300]),
    "English, semicolons": (["1,665", "822"], ";", ["0.5", "1.25"], [1665, 822]),
    "blank": (["1 665", "822"], ";", ["1", "2"], [1665, 822]),
    "no-break blanks": (
        [f"1{NBSP}665", f"1{NARROW}234{NARROW}567"], ";", ["1", "2"], [1665, 1234567],
    ),
    "Swiss": (["1'665.30", "822"], ",", ["1", "2"], [1665.3, 822]),
    "Swiss, typographic": (["1\u2019665", "822"], "\t", ["1", "2"], [1665, 822]),
    "decimals of three digits": (["0.125", "1.250"], ",", ["1", "2"], [0.125, 1.25]),
    "every one a decimal": (["3.125", "1.250"], ",", ["0.5", "2"], [3.125, 1.25]),
    "decimal commas of three digits": (["0,125", "1,250"], ";", ["1", "2"], [0.125, 1.25]),
    "decimals beside small numbers": (["3", "1.125"], ",", ["0.5", "1"], [3, 1.125]),
    "points in one column, commas in another": (["2.5", "1.25"], ";", ["1,5", "0,1"], [2.5, 1.25]),
}  # fmt: skip

# The same; what is refused names both readings.
DOUBTFUL = {
    "beside hundreds": (["1.665", "822"], ";", ["1", "2"], ["'1.665' beside '822'", "1665"]),
    "beside hundreds, commas": (["1.665", "822"], ",", ["0.5", "2"], ["'1.665' beside '822'"]),
    "every one": (["1.665", "2.300"], ";", ["1", "2"], ["'1.665'", "1665 or a decimal 1.665"]),
    "rounded": (["1.000", "500"], ",", ["1", "2"], ["'1.000' beside '500'", "1000"]),
    "zeros at the end": (["0", "1.250"], ",", ["1", "2"], ["'1.250' beside '0'"]),
    "a comma": (["1,665", "822"], ";", ["1", "2"], ["'1,665' beside '822'", "1665"]),
    "decimal commas elsewhere": (["1,665", "822"], ";", ["0,5", "2"], ["'1,665' beside '822'"]),
    "negative": (["-1.665", "-822"], "|", ["1", "2"], ["'-1.665' beside '-822'", "-1665"]),
}  # fmt: skip


def write_cells(first, delimiter, second):
    lines = [delimiter.join(pair) for pair in zip(first, second, strict=True)]
    return f"a{delimiter}b\n" + "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(("first", "delimiter", "second", "meant"), READ.values(), ids=READ)
def test_marks_with_one_reading_are_read(first, delimiter, second, meant, write, reader):
    table = read_table(write(write_cells(first, delimiter, second)))
    assert table.columns["a"].tolist() == meant


@pytest.mark.parametrize(("first", "delimiter", "second", "words"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_mark_with_two_readings_is_refused_with_both(
    first, delimiter, second, words, write, reader
):
    path = write(write_cells(first, delimiter, second))
    with pytest.raises(InputError) as refusal:
        read_table(path)
    message = str(refusal.value)
    assert str(path) in message and "column 'a'" in message and "\n" not in message
    assert all(word in message for word in [*words, "thousands='", "row "])
    mark = "," if "," in first[0] else "."
    joined = [float(cell.replace(mark, "")) for cell in first]
    assert read_table(path, thousands=mark).columns["a"].tolist() == joined
    decimal = [float(cell.replace(mark, ".")) for cell in first]
    assert read_table(path, decimal=mark).columns["a"].tolist() == decimal


def test_a_guess_is_noted_with_what_it_means(write):
    notes = read_table(write("a;b\n1.665;0,5\n822;1\n")).notes
    assert "thousands mark '.' (guessed): '1.665' in column 'a' is 1665" in notes
    (note,) = [n for n in read_table(write("a,b\n3.125,1\n1.250,2\n")).notes if "mark" in n]
    assert "'3.125' in column 'a' is 3.125; for 3125 give thousands='.'" in note
    assert read_table(write("a,b\n3.125,1\n1.250,2\n"), decimal=".").notes == ()


OPTIONS = {
    "no mark": ({"thousands": "x"}, "thousands mark is one of"),
    "the decimal mark": ({"thousands": ".", "decimal": "."}, "both decimal and thousands"),
    "used otherwise": ({"thousands": "."}, "but also '2.5'"),
}


@pytest.mark.parametrize(("options", "words"), OPTIONS.values(), ids=OPTIONS)
def test_a_thousands_mark_that_cannot_be_is_refused(options, words, write):
    with pytest.raises(InputError, match=words):
        read_table(write("a,b\n1.665,1\n2.5,2\n"), **options)


@pytest.mark.parametrize("name", ["space", "apostrophe", "comma", "point"])
def test_a_thousands_mark_goes_by_its_name(name, write):
    mark = {"space": NARROW, "apostrophe": "'", "comma": ",", "point": "."}[name]
    path = write(f"a\tb\n1{mark}665\t5\n2{mark}300\t6\n")
    assert read_table(path, thousands=name).columns["a"].tolist() == [1665, 2300]


# What comes after hundreds of plain rows: whether it may be read, and as what.
LATE = {
    "decimals that show it": ("0.5,1\n1.665,2\n", [0.5, 1.665]),
    "thousands": ("1.665,1\n", None),
    "rounded thousands": ("1.000,1\n", None),
    "a hexadecimal": ("0x1F,1\n", None),
}


@pytest.mark.parametrize("name", LATE)
def test_a_mark_far_down_a_large_file_is_seen(name, write, monkeypatch):
    pytest.importorskip("pyarrow")
    later, meant = LATE[name]
    monkeypatch.setattr(pieces, "PIECE_BYTES", 256)
    path = write("a,b\n" + "822,3\n" * 600 + later + "17,4\n" * 600)
    asked = ColumnChoice("b", ("a",))
    if meant is None and "x" not in later:
        with pytest.raises(InputError, match="row 601: column 'a' holds"):
            read_table(path)
        with pytest.raises(Exception, match="may separate thousands"):
            read_to_scratch([str(path)], asked)
    elif meant is None:
        assert read_table(path).columns["a"].tolist()[600] == "0x1F"
        with pytest.raises(InputError, match="row 601"):
            read_to_scratch([str(path)], asked)
    else:
        whole = [822.0] * 600 + meant + [17.0] * 600
        assert read_table(path).columns["a"].tolist() == whole
        assert read_to_scratch([str(path)], asked).source.gather()[0].ravel().tolist() == whole


@pytest.fixture
def wages(tmp_path, monkeypatch):
    """The same table with plain numbers, and with thousands marks of several kinds."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    wage, age = rng.integers(300, 4000, 60), rng.integers(20, 60, 60)
    numbers = np.column_stack([wage, age, 2 * wage + 10 * age]).tolist()
    rows = [(*row, f"g{k % 4}") for k, row in enumerate(numbers)]

    def write_table(name, mark, delimiter, columns=(0, 1, 2, 3)):
        names = ["wage", "age", "y", "bag"]
        lines = [[names[j] for j in columns]]
        for row in rows:
            cells = [f"{v:,}".replace(",", mark) if isinstance(v, int) else v for v in row]
            lines.append([cells[j] for j in columns])
        Path(name).write_text("".join(delimiter.join(line) + "\n" for line in lines))

    write_table("plain.csv", "", ",")
    write_table("points.csv", ".", ";")
    write_table("narrow.csv", NARROW, ",")
    write_table("rows.csv", ".", ";", (0, 1, 3))
    write_table("labels.csv", ".", ";", (2, 3))
    return rows


FIT = ["--label", "y", "--bag", "bag", "--method", "means", "--no-intercept"]


def estimates(args, capsys):
    assert run(["fit", *args, *FIT, "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)["coefficients"]
    return {name: each["estimate"] for name, each in found.items()}


def test_blanks_between_thousands_change_no_digit_of_a_fit(wages, capsys):
    assert estimates(["narrow.csv"], capsys) == estimates(["plain.csv"], capsys)


def test_points_between_thousands_are_never_taken_for_decimals_in_silence(wages, capsys):
    code = run(["fit", "points.csv", *FIT])
    words = ["points.csv", "row ", "column 'wage'", "--thousands .", "--decimal .", "beside"]
    assert_one_line(code, capsys.readouterr(), words)


COMMANDS = {
    "fit": ["fit", "points.csv", *FIT],
    "two files": ["fit", "--rows", "rows.csv", "--labels", "labels.csv", *FIT],
    "match": ["match", "points.csv", *FIT],
    "compare": ["compare", "points.csv", *FIT[:4], "--methods", "means"],
    "audit": ["audit", "points.csv", *FIT[:4], "--method", "ls"],
    "predict": ["predict", "model.json", "points.csv"],
    "plan": ["plan", "rows.csv", "--bag", "bag", "--noise", "1", *FIT[4:6], "--trials", "2"],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_reads_thousands_marks(name, wages, capsys):
    if name == "predict":
        assert run(["fit", "plain.csv", *FIT, "--save", "model.json", "-q"]) == 0
    capsys.readouterr()
    args = [*COMMANDS[name], "-q"]
    assert run(args) == 2
    assert "--thousands ." in capsys.readouterr().err
    assert run([*args, "--thousands", "."]) == 0
    told = capsys.readouterr().out
    if name in ("fit", "match", "predict"):
        assert run([arg.replace("points", "plain") for arg in args]) == 0
        assert capsys.readouterr().out == told


def test_a_calibration_file_reads_thousands_marks(wages, capsys):
    Path("noise.csv").write_text("y\n1.665\n822\n1.200\n")
    args = ["fit", "plain.csv", *FIT, "--calibration", "noise.csv", "-q"]
    assert run(args) == 2
    assert "noise.csv, row 1" in capsys.readouterr().err
    assert run([*args, "--thousands", "."]) == 0


def test_streamed_files_are_refused_or_read_alike(wages, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(load_blocks, "MEMORY_BYTES", 0)
    ls = ["--label", "y", "--bag", "bag", "--json", "-q", "--method", "ls"]
    assert run(["fit", "points.csv", *ls]) == 2
    assert "column 'wage' holds" in capsys.readouterr().err
    found = []
    for args in (["points.csv", "--thousands", "."], ["narrow.csv"], ["plain.csv"]):
        assert run(["fit", *args, *ls]) == 0
        found.append(json.loads(capsys.readouterr().out)["coefficients"])
    assert found[0] == found[1] == found[2]
