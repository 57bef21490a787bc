"""Text and cytometry files in pieces: what the whole files give, or their very words."""

import json

import numpy as np
import pytest

from command_line import assert_one_line
from tables import fcs_bytes
from unshuffle import make_shuffled
from unshuffle.cli import load_blocks
from unshuffle.cli.app import run
from unshuffle.errors import InputError
from unshuffle.io import make_design, read_table, read_tables
from unshuffle.io.sources import scratch_source
from unshuffle.io.sources.scratch_source import Scratch, ScratchWriter
from unshuffle.io.sources.table_source import ColumnChoice, read_to_scratch
from unshuffle.io.text import pieces as text_pieces
from unshuffle.io.text.pieces import WholeFileError, open_text, read_pieces

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Files of a few lines in pieces and blocks of fewer."""
    monkeypatch.setattr(text_pieces, "PIECE_BYTES", 64)
    monkeypatch.setattr(scratch_source, "BLOCK_ROWS", 7)


def gather(source):
    """Return all rows of a source, in their order."""
    blocks = [block for place in source.places for block in source.read(place)]
    return [
        np.concatenate([getattr(block, name) for block in blocks]) for name in ("X", "y", "codes")
    ]


def assert_same(laid, table, asked, bag):
    """The rows laid down are those of the design, to the bit, and so is their division."""
    design = make_design(
        table, label=asked.label, features=asked.features, bag=bag,
        missing="drop" if asked.drop_missing else "error",
    )  # fmt: skip
    X, y, codes = gather(laid.source)
    assert np.ascontiguousarray(X).tobytes() == np.ascontiguousarray(design.X + 0.0).tobytes()
    assert y.tobytes() == (design.y + 0.0).tobytes()
    assert laid.features == design.feature_names
    groups = np.zeros(len(y)) if design.groups is None else design.groups
    assert len(set(zip(codes.tolist(), groups.tolist(), strict=True))) == len(set(codes.tolist()))
    assert laid.source.n_bags == len(set(codes.tolist())) == len(set(groups.tolist()))
    assert laid.sha256 == table.sha256


def make_lines(n, mark=",", decimal=".", quoted=False):
    rng = np.random.default_rng(0)
    lines = []
    for k in range(n):
        cells = [repr(v).replace(".", decimal) for v in rng.normal(size=3).tolist()]
        name = f"run {k % 3}"
        lines.append(
            mark.join([*cells, f'"{name}{chr(10) if k == 5 else ""}"' if quoted else name])
        )
    return lines


HEAD = "a,b,score,run"
WRITTEN = {
    "plain": "\n".join([HEAD, *make_lines(40)]) + "\n",
    "no last end": "\n".join([HEAD, *make_lines(40)]),
    "windows ends and a mark": "\ufeff" + "\r\n".join([HEAD, *make_lines(40)]) + "\r\n",
    "quotes around line ends": "\n".join([HEAD, *make_lines(40, quoted=True)]) + "\n",
    "decimal comma": "\n".join([HEAD.replace(",", ";"), *make_lines(40, ";", ",")]) + "\n",
    "padded": "\n".join([HEAD, *(line.replace(",", " , ") for line in make_lines(40))]) + "\n",
    "missing cells elsewhere": "\n".join(
        [
            f"{HEAD},rest",
            *(f"{line},{'NA' if k % 2 else 'x'}" for k, line in enumerate(make_lines(40))),
        ]
    ),
}


@pytest.mark.parametrize("content", WRITTEN.values(), ids=WRITTEN)
def test_pieces_give_the_bits_of_the_whole_file(content, write):
    path = write(content)
    asked = ColumnChoice("score", ("b", "a"), "run")
    laid = read_to_scratch([str(path)], asked)
    table = read_table(path)
    assert_same(laid, table, asked, "run")
    assert laid.notes == table.notes


def test_without_a_bag_all_rows_are_one_and_a_column_is_pointed_out(write, monkeypatch):
    monkeypatch.setattr(text_pieces, "PIECE_BYTES", 1000)
    lines = [f"{k},{k * k},{k % 4},{k + 0.5}" for k in range(40)]
    path = write("\n".join(["a,b,plate,score", *lines]) + "\n")
    laid = read_to_scratch([str(path)], ColumnChoice("score"))
    assert laid.source.n_bags == 1 and laid.forgotten is not None
    assert laid.forgotten[0] == "plate"
    assert_same(laid, read_table(path), ColumnChoice("score"), None)


def test_several_files_are_one_table_with_a_bag_column_and_a_bag_each_without(write):
    lines = make_lines(30)
    paths = [
        write("\n".join([HEAD, *part]) + "\n", f"part{k}.csv")
        for k, part in enumerate((lines[:4], lines[4:25], lines[25:]))
    ]
    names = [str(path) for path in paths]
    asked = ColumnChoice("score", ("a", "b"), "run")
    assert_same(
        read_to_scratch(names, asked), read_tables(paths, bag="run", shares_bags=True), asked, "run"
    )
    asked = ColumnChoice("score", ("a", "b"))
    laid = read_to_scratch(names, asked)
    assert laid.source.n_bags == 3
    assert_same(laid, read_tables(paths), asked, "file")


BAGS = {
    "numbers written otherwise": (["1", "1.0", "01", "2"], ["2", "2.0"]),
    "numbers here and text there": (["1", "1.0", "2"], ["1", "x", "2.0"]),
    "text throughout": (["u", " u", "v"], ["v", "w"]),
}


@pytest.mark.parametrize("name", BAGS)
def test_names_of_bags_mean_what_they_mean_in_whole_files(name, write):
    paths = [
        write(
            "a,run,score\n" + "".join(f"{k},{bag},{2 * k}\n" for k, bag in enumerate(own)),
            f"{i}.csv",
        )
        for i, own in enumerate(BAGS[name])
    ]
    asked = ColumnChoice("score", ("a",), "run")
    laid = read_to_scratch([str(path) for path in paths], asked)
    assert_same(laid, read_tables(paths, bag="run", shares_bags=True), asked, "run")


def test_missing_values_are_dropped_and_counted_as_in_whole_files(write):
    lines = make_lines(40)
    lines[9] = lines[9].replace(lines[9].split(",")[0], "NA")
    lines[30] = lines[30].replace(lines[30].split(",")[2], "inf")
    path = write("\n".join([HEAD, *lines]) + "\n")
    asked = ColumnChoice("score", ("a", "b"), "run", drop_missing=True)
    laid = read_to_scratch([str(path)], asked)
    assert_same(laid, read_table(path), asked, "run")
    design = make_design(
        read_table(path), label="score", features=["a", "b"], bag="run", missing="drop"
    )
    assert laid.notes == design.notes and laid.n_read == 40


def test_logarithms_count_what_has_none_as_missing(write):
    path = write("a,score\n" + "".join(f"{k},{10.0**k if k else 0}\n" for k in range(20)))
    with pytest.raises(InputError, match=r"1 of 20 labels .*row 1, column 'score', value 0"):
        read_to_scratch([str(path)], ColumnChoice("score", log10=True))
    laid = read_to_scratch([str(path)], ColumnChoice("score", log10=True, drop_missing=True))
    assert gather(laid.source)[1].tolist() == [float(k) for k in range(1, 20)]


def poke(at, line):
    lines = make_lines(40)
    lines[at] = line
    return "\n".join([HEAD, *lines]) + "\n"


BROKEN = {
    "a ragged line": poke(30, "1,2,3"),
    "a text among numbers": poke(31, "1,oops,3,run 1"),
    "a text among labels": poke(32, "1,2,oops,run 1"),
    "a missing feature": poke(33, ",2,3,run 1"),
    "a missing label": poke(34, "1,2,NA,run 1"),
    "a missing bag": poke(35, "1,2,3,"),
    "an infinite feature": poke(36, "1,-inf,3,run 1"),
    "a mark left open": poke(37, '1,"2,3,run 1'),
    "names alone": HEAD + "\n",
    "nothing": "",
    "a bag of a fraction": "a,b,score,run\n" + "1,2,3,1\n" * 20 + "1,2,3,1.5\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_said_in_the_words_of_whole_files(name, write):
    path = write(BROKEN[name])
    with pytest.raises(InputError) as whole:
        make_design(read_table(path), label="score", features=["a", "b"], bag="run")
    with pytest.raises((InputError, WholeFileError)) as pieces:
        read_to_scratch([str(path)], ColumnChoice("score", ("a", "b"), "run"))
    # What is better read as a whole gets these words by being read so.
    if not isinstance(pieces.value, WholeFileError):
        assert str(pieces.value) == str(whole.value)
    else:
        assert name in ("a mark left open", "names alone")


def test_files_that_differ_in_columns_and_empty_ones_are_named(write):
    good = write("\n".join([HEAD, *make_lines(20)]), "good.csv")
    asked = ColumnChoice("score", None, "run")
    for content, words in (
        ("a,b,run\n1,2,3\n", r"late.csv and .*good.csv differ in the column 'score'"),
        ("", r"late.csv: the file is empty"),
        (HEAD + "\n\n", r"late.csv: (the file is empty|no rows of data)"),
    ):
        late = write(content, "late.csv")
        with pytest.raises(InputError, match=words):
            read_to_scratch([str(good), str(late)], asked)


def test_cytometry_files_are_a_bag_each_and_go_by_long_names(write):
    rng = np.random.default_rng(0)
    paths = [
        write(
            fcs_bytes(rng.uniform(1, 9, size=(20, 3)), ["A", "B", "C"], ["x", "y", "z"]), f"{k}.fcs"
        )
        for k in range(2)
    ]
    asked = ColumnChoice("y", ("x", "C"))
    laid = read_to_scratch([str(path) for path in paths], asked)
    assert (laid.label, laid.features, laid.source.n_bags) == ("B", ("A", "C"), 2)
    assert_same(laid, read_tables(paths), asked, "file")


def test_no_piece_holds_more_lines_than_it_may(write, monkeypatch):
    monkeypatch.setattr(text_pieces, "PIECE_BYTES", 1000)
    path = write("\n".join([HEAD, *make_lines(400)]) + "\n")
    pieces = list(read_pieces(open_text(str(path)), ["score", "a"], "run"))
    rows = [len(piece.numbers["a"]) for piece in pieces]
    assert sum(rows) == 400 and max(rows) <= 2000 // 50
    assert [piece.first_row for piece in pieces] == [0, *np.cumsum(rows)[:-1].tolist()]


def test_a_scratch_file_gives_back_what_it_was_given_in_blocks_of_any_cut():
    rng = np.random.default_rng(1)
    X, y, codes = rng.normal(size=(50, 3)), rng.normal(size=50), rng.integers(0, 4, 50)
    writer = ScratchWriter(3)
    for part in np.split(np.arange(50), [1, 2, 20, 20, 49]):
        writer.add(X[part], y[part], codes[part])
    source = writer.finish(2, [0, 1, 0, 1], None)
    found = gather(source)
    assert np.array_equal(found[0], X) and np.array_equal(found[1], y)
    assert np.array_equal(found[2], codes % 2)
    assert np.array_equal(gather(source.renumbered(np.array([1, 0])))[2], 1 - codes % 2)


def test_a_full_disk_is_named_with_a_way_out(monkeypatch):
    scratch = Scratch()

    class Full:
        def write(self, _):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(scratch, "file", Full())
    with pytest.raises(InputError, match=r"no room for a scratch copy .*TMPDIR"):
        scratch.append(np.zeros(3))


def test_the_command_gives_the_same_digits_from_pieces_and_keeps_the_model(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.undo()
    data = make_shuffled(20_400, 2, bags=3, snr_db=15, rng=0)
    rows = zip(data.X.tolist(), data.y.tolist(), data.groups, strict=True)
    lines = [f"{x[0]!r},{x[1]!r},{y!r},run {g}" for x, y, g in rows]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["a,b,score,run", *lines]) + "\n")
    asked = ["fit", str(path), "--label", "score", "--bag", "run", "--json"]
    assert run([*asked, "--save", str(tmp_path / "one.json")]) == 0
    whole = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(load_blocks, "MEMORY_BYTES", 0)
    assert run([*asked, "--save", str(tmp_path / "other.json")]) == 0
    pieces = json.loads(capsys.readouterr().out)
    # Offsets of single bags need the rows.
    whole["bag_offsets"] = (whole["bag_offsets"] or {}) | {"bags": None}
    pieces["bag_offsets"] = (pieces["bag_offsets"] or {}) | {"bags": None}
    assert {name for name in whole if whole[name] != pieces[name]} == {"data", "provenance"}
    assert "scratch file" in pieces["data"]["notes"][-1]
    assert whole["provenance"]["data_sha256"] == pieces["provenance"]["data_sha256"]
    one, other = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "other"))
    assert one["columns"] == other["columns"]
    lines[20_000] = lines[20_000].replace("run", "") + ","
    path.write_text("\n".join(["a,b,score,run", *lines]) + "\n")
    assert_one_line(run(asked), capsys.readouterr(), ["data.csv, line 20002", "5 fields", "mend"])


@pytest.mark.parametrize("method", ["ls", "sm", "auto"])
def test_few_rows_of_large_files_are_gathered_and_give_the_digits_of_memory(
    method, folder, capsys, monkeypatch
):
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    asked = ["fit", "data.csv", "--label", "y", "--bag", "bag", "--method", method, "--json"]
    assert run(asked) == 0
    whole = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(load_blocks, "MEMORY_BYTES", 0)
    assert run([*asked, "--verbose"]) == 0
    out, err = capsys.readouterr()
    pieces = json.loads(out)
    # Offsets of single bags need the rows.
    whole["bag_offsets"] = (whole["bag_offsets"] or {}) | {"bags": None}
    pieces["bag_offsets"] = (pieces["bag_offsets"] or {}) | {"bags": None}
    assert {name for name in whole if whole[name] != pieces[name]} == {"data", "provenance"}
    assert "read in pieces into a scratch file" in err and "MB of memory" in err


def test_what_fits_neither_pieces_nor_memory_is_refused_with_a_way_out(write, capsys, monkeypatch):
    path = write("a,kind,y\n" + "".join(f"{k},{'uv'[k % 2]},{2 * k}\n" for k in range(30)))
    monkeypatch.setattr(load_blocks, "MEMORY_BYTES", 0)
    asked = ["fit", str(path), "--label", "y", "--method", "ls", "--quiet"]
    assert run(asked) == 0  # as one table, with a category
    capsys.readouterr()
    monkeypatch.setattr("unshuffle.io.sources.room.find_room", lambda: 100)
    words = ["data.csv", "a column of categories", "--features", "Parquet"]
    assert_one_line(run(asked), capsys.readouterr(), words)


def test_a_file_that_may_not_be_opened_is_named_as_ever(write, capsys, monkeypatch):
    path = write("a,y\n1,2\n")
    monkeypatch.setattr(load_blocks, "MEMORY_BYTES", 0)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("unshuffle.io.sources.table_source.open", refuse, raising=False)
    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    asked = ["fit", str(path), "--label", "y", "--quiet"]
    assert_one_line(run(asked), capsys.readouterr(), ["data.csv", "may not be read"])


def test_a_bag_column_that_no_file_has_is_said_and_folders_are_read_as_a_whole(tmp_path):
    paths = []
    for name in ("run=1", "run=2"):
        (tmp_path / name).mkdir()
        paths.append(str(tmp_path / name / "part.csv"))
        (tmp_path / name / "part.csv").write_text("a,score\n1,2\n3,4\n5,6\n")
    laid = read_to_scratch(paths, ColumnChoice("score", bag="rum"))
    assert laid.source.n_bags == 2 and "no file has a column 'rum'" in laid.notes[0]
    with pytest.raises(WholeFileError, match="folders name"):
        read_to_scratch(paths, ColumnChoice("score", bag="run"))
    table = read_tables(paths, bag="run", shares_bags=True)
    assert table.columns["run"].tolist() == ["1", "1", "1", "2", "2", "2"]
