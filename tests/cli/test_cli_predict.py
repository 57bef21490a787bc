"""The command ``predict``, and ``fit --save`` before it."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from command_line import FIT, assert_one_line
from tables import parquet_bytes
from unshuffle import ShuffledLinearRegression, load, make_shuffled
from unshuffle.cli.app import run

LEVELS = ("blue", "green", "red")


def write_colours(n=90, rng=0):
    """Write a table with a text column, in bags of one level each, and labels without noise."""
    rng = np.random.default_rng(rng)
    x, code, year = rng.exponential(size=n), np.arange(n) % 3, 2000 + np.arange(n) // 3 % 2
    y = 2 * x + np.array([0.0, -0.5, 1.0])[code] + (year == 2001) + 1.0
    with open("colours.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "colour", "year", "bag", "y"])
        for row in zip(x, code, year, np.arange(n), y, strict=True):
            writer.writerow([row[0], LEVELS[row[1]], *row[2:]])


COLOURS = ["fit", "colours.csv", "--label", "y", "--bag", "bag", "--categorical", "year", "-q"]
NEW = "year,id,colour,x\n2001,a,red,1.0\n2000,b,blue,2.0\n2000,c,green,0.5\n"


@pytest.fixture
def colours(folder, capsys):
    write_colours()
    Path("new.csv").write_text(NEW)
    assert run([*COLOURS, "--method", "means", "--save", "model.json"]) == 0
    capsys.readouterr()
    return folder


def read_rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_predictions_are_a_csv_and_messages_go_elsewhere(colours, capsys):
    assert run(["predict", "model.json", "new.csv"]) == 0
    streams = capsys.readouterr()
    assert streams.out.splitlines()[0] == "row,prediction,low,high"
    rows = read_rows(streams.out)
    assert [row["row"] for row in rows] == ["1", "2", "3"]
    expected = [2.0 + 1.0 + 1.0 + 1.0, 4.0 + 1.0, 1.0 - 0.5 + 1.0]
    assert [float(row["prediction"]) for row in rows] == pytest.approx(expected, abs=1e-9)
    for row in rows:
        assert float(row["low"]) <= float(row["prediction"]) <= float(row["high"])
    assert "predictions of 'y' by method means" in streams.err


def test_levels_and_base_levels_are_those_of_the_fit(colours, capsys):
    # One level alone: its column would have been the base, had it been coded anew.
    Path("new.csv").write_text("colour,x,year\nred,0,2001\n")
    assert run(["predict", "model.json", "new.csv", "-q"]) == 0
    assert float(read_rows(capsys.readouterr().out)[0]["prediction"]) == pytest.approx(3.0)


def test_numbers_that_are_categories_are_known_from_any_format(colours, capsys):
    Path("new.parquet").write_bytes(parquet_bytes(year=[2001], colour=["red"], x=[0.0]))
    assert run(["predict", "model.json", "new.parquet", "-q"]) == 0
    assert float(read_rows(capsys.readouterr().out)[0]["prediction"]) == pytest.approx(3.0)


def test_a_saved_fit_is_loaded_by_the_library(folder, capsys):
    assert run([*FIT, "--method", "likelihood", "--save", "model.json", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    model = load("model.json")
    assert model.feature_names_in_.tolist() == ["x1", "x2"]
    found = model.summary().to_dict()
    del printed["bag_offsets"]["bags"]  # of the file
    assert json.loads(json.dumps(found)) == {key: printed[key] for key in found}
    assert model.get_params()["random_state"] == 0
    assert run(["predict", "model.json", "data.csv", "-q", "--level", "0.8"]) == 0
    rows = read_rows(capsys.readouterr().out)
    table = np.loadtxt("data.csv", delimiter=",", skiprows=1, usecols=(0, 1))
    expected = np.column_stack(
        [
            np.arange(1, 121),
            model.result_.predict(table),
            model.result_.predict_interval(table, 0.8),
        ]
    )
    found = np.array([[float(cell) for cell in row.values()] for row in rows])
    assert found.tobytes() == expected.tobytes()


def test_new_labels_have_wider_intervals(folder, capsys):
    assert run([*FIT, "--method", "means", "--no-intercept", "--save", "m.json", "-q"]) == 0
    widths = []
    for more in ([], ["--new-label"]):
        capsys.readouterr()
        assert run(["predict", "m.json", "data.csv", "-q", *more]) == 0
        rows = read_rows(capsys.readouterr().out)
        widths.append([float(row["high"]) - float(row["low"]) for row in rows])
    assert np.all(np.array(widths[0]) < widths[1])


def test_json_is_one_object_with_where_all_came_from(colours, capsys):
    assert run(["predict", "model.json", "new.csv", "--json", "--level", "0.5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["row"] for each in found["predictions"]] == [1, 2, 3]
    assert (found["level"], found["new_label"], found["label"]) == (0.5, False, "y")
    assert found["method"] == "means"
    assert "--save model.json" in found["model"]["command"]
    assert len(found["provenance"]["data_sha256"]) == 64


def test_out_writes_a_file_and_prints_nothing(colours, capsys):
    assert run(["predict", "model.json", "new.csv", "--out", "p.csv"]) == 0
    streams = capsys.readouterr()
    assert streams.out == "" and "p.csv" in streams.err
    assert len(read_rows(Path("p.csv").read_text())) == 3


def test_rows_with_gaps_are_dropped_where_asked_and_keep_their_numbers(colours, capsys):
    Path("new.csv").write_text("year,colour,x\n2000,red,\n2000,red,1\n")
    assert run(["predict", "model.json", "new.csv", "--missing", "drop"]) == 0
    streams = capsys.readouterr()
    assert [row["row"] for row in read_rows(streams.out)] == ["2"]
    assert "dropped 1 of 2 rows" in streams.err


def test_a_method_without_intervals_predicts_and_says_so(folder, capsys):
    assert run([*FIT, "--method", "ls", "--save", "m.json", "-q"]) == 0
    capsys.readouterr()
    assert run(["predict", "m.json", "data.csv"]) == 0
    streams = capsys.readouterr()
    rows = read_rows(streams.out)
    assert {row["low"] for row in rows} == {row["high"] for row in rows} == {""}
    assert "no intervals: method 'ls'" in streams.err and "likelihood" in streams.err


def test_logarithms_are_named(folder, capsys):
    content = Path("data.csv").read_text().splitlines()
    rows = [content[0], *(line.replace(",-", ",") for line in content[1:])]
    Path("data.csv").write_text("\n".join(rows))
    how = ["--method", "means", "--no-intercept", "--log10", "--missing", "drop"]
    assert run([*FIT, *how, "--save", "m.json"]) == 0
    capsys.readouterr()
    assert run(["predict", "m.json", "data.csv"]) == 0
    assert "predictions of log10 of 'y'" in capsys.readouterr().err


def test_a_model_of_the_library_is_used_by_name_or_by_place(folder, capsys):
    data = make_shuffled(40, 2, bags=8, rng=0)
    model = ShuffledLinearRegression("means").fit(data.X, data.y, data.groups)
    model.save("m.json")
    Path("two.csv").write_text("b,a\n1,0\n0,1\n")
    assert run(["predict", "m.json", "two.csv", "-q"]) == 0
    found = [float(row["prediction"]) for row in read_rows(capsys.readouterr().out)]
    assert found == model.predict([[1.0, 0.0], [0.0, 1.0]]).tolist()
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data.X, columns=["a", "b"])
    named = ShuffledLinearRegression("means").fit(frame, data.y, data.groups)
    named.save("m.json")
    assert run(["predict", "m.json", "two.csv", "-q"]) == 0
    found = [float(row["prediction"]) for row in read_rows(capsys.readouterr().out)]
    new = pandas.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]})
    assert found == named.predict(new).tolist()


BAD_ROWS = {
    "no column": ("year,color,x\n2000,red,1\n", ["new.csv", "'colour'", "did you mean 'color'?"]),
    "unknown level": (
        "year,colour,x\n2000,red,1\n2000,purple,2\n",
        ["row 2", "'colour'", "'purple'", "not seen", "'red'", "leave such rows out"],
    ),
    "unknown number": ("year,colour,x\n1999,red,1\n", ["row 1", "'year'", "'1999'", "'2000'"]),
    "gap": (
        "year,colour,x\n2000,red,\n",
        ["row 1", "missing value in column 'x'", "--missing drop"],
    ),
    "gap in a text": ("year,colour,x\n2000,,1\n", ["row 1", "missing value in column 'colour'"]),
    "infinite": ("year,colour,x\n2000,red,inf\n", ["row 1", "infinite value (inf) in column 'x'"]),
    "text": ("year,colour,x\n2000,red,abc\n2000,red,b\n", ["row 1", "'x'", "'abc'", "numbers"]),
    "empty": ("", ["new.csv", "empty"]),
    "names only": ("year,colour,x\n", ["no rows"]),
}


@pytest.mark.parametrize(("content", "words"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_wrong_rows_are_one_line(content, words, colours, capsys):
    Path("new.csv").write_text(content)
    code = run(["predict", "model.json", "new.csv", "-q"])
    assert_one_line(code, capsys.readouterr(), words)


BAD_MODELS = {
    "no JSON": (lambda text: "hello", ["model.json", "is no JSON", "fit --save"]),
    "cut off": (lambda text: text[:1000], ["model.json", "was cut off"]),
    "another version": (
        lambda text: text.replace('"format_version": 2', '"format_version": 3'),
        ["format 3", "reads formats 1 and 2", "save again"],
    ),
    "another file": (lambda text: '{"a": 1}', ["is no model"]),
    "damaged": (lambda text: text.replace('"Facts"', '"Fax"'), ["damaged", "'Fax'"]),
    "no coding": (lambda text: text.replace('"coding"', '"codes"'), ["damaged", "coded"]),
}


@pytest.mark.parametrize(("change", "words"), BAD_MODELS.values(), ids=BAD_MODELS)
def test_wrong_models_are_one_line(change, words, colours, capsys):
    Path("model.json").write_text(change(Path("model.json").read_text()))
    code = run(["predict", "model.json", "new.csv", "-q"])
    assert_one_line(code, capsys.readouterr(), words)


WRONG_CALLS = {
    "no file": (["predict", "none.json", "new.csv"], ["none.json", "no such file"]),
    "no rows": (["predict", "model.json", "none.csv"], ["none.csv", "no such file"]),
    "no argument": (["predict", "model.json"], ["DATA", "--help"]),
    "no level": (["predict", "model.json", "new.csv", "--level", "95"], ["0.95"]),
    "no place": (["predict", "model.json", "new.csv", "--out", "no/p.csv"], ["no/p.csv", "folder"]),
    "no place for a model": ([*COLOURS, "--save", "no/m.json"], ["no/m.json", "folder"]),
}


@pytest.mark.parametrize(("command", "words"), WRONG_CALLS.values(), ids=WRONG_CALLS)
def test_wrong_calls_are_one_line(command, words, colours, capsys):
    code = run(command)
    assert_one_line(code, capsys.readouterr(), words)


def test_a_model_that_knows_places_only_refuses_other_tables(colours, capsys):
    data = make_shuffled(40, 2, bags=8, rng=0)
    ShuffledLinearRegression("means").fit(data.X, data.y, data.groups).save("m.json")
    code = run(["predict", "m.json", "new.csv", "-q"])
    assert_one_line(code, capsys.readouterr(), ["4 columns", "2 features", "data frame"])
