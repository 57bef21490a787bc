"""Laws of reading files: what is read is what was written, and broken input is one clear line."""

import gzip
import hashlib
import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unshuffle import errors
from unshuffle.errors import InputError
from unshuffle.files import (
    Table,
    delimited,
    make_design,
    make_design_from_two,
    read_table,
    read_tables,
    table_from_frame,
)
from unshuffle.files.dialect import sniff_dialect

needs_files = pytest.mark.skipif(
    not os.environ.get("UNSHUFFLE_DATA"), reason="UNSHUFFLE_DATA names no folder of data files"
)

READERS = ("fast", "plain")


@pytest.fixture(params=READERS)
def reader(request, monkeypatch):
    """Each text reader in turn: with pyarrow and without it."""
    if request.param == "plain":
        monkeypatch.setattr(delimited, "read_fast", lambda *args: None)
    else:
        pytest.importorskip("pyarrow")
    return request.param


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def table_of(**columns):
    arrays = {name: np.array(values) for name, values in columns.items()}
    arrays = {k: v.astype(float if v.dtype.kind in "if" else object) for k, v in arrays.items()}
    n_rows = len(next(iter(arrays.values())))
    return Table(tuple(arrays), arrays, n_rows, "table")


def fcs_bytes(events, names, long_names=None):
    flowio = pytest.importorskip("flowio")
    buffer = io.BytesIO()
    flat = np.asarray(events, dtype=float).ravel().tolist()
    flowio.create_fcs(buffer, flat, channel_names=names, opt_channel_names=long_names)
    return buffer.getvalue()


def parquet_bytes(**columns):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


# ---- text -------------------------------------------------------------------------------------

WRITTEN = {
    "comma": "a,b,name\n1,2.5,u\n-3,4e2,v\n",
    "semicolon": "a;b;name\n1;2.5;u\n-3;4e2;v\n",
    "tab": "a\tb\tname\n1\t2.5\tu\n-3\t4e2\tv\n",
    "bar": "a|b|name\n1|2.5|u\n-3|4e2|v\n",
    "blanks": " a   b name\n1  2.5\tu \n-3 4e2   v\n",
    "quoted blanks": '"a" "b" "name"\n1 2.5 "u"\n-3 4e2 "v"\n',
    "decimal comma": "a;b;name\n1;2,5;u\n-3;400,0;v\n",
    "quotes": '"a","b","name"\n"1","2.5","u"\n"-3","4e2","v"\n',
    "windows ends": "a,b,name\r\n1,2.5,u\r\n-3,4e2,v\r\n",
    "old ends": "a,b,name\r1,2.5,u\r-3,4e2,v",
    "no last end": "a,b,name\n1,2.5,u\n-3,4e2,v",
    "blank lines": "\n\na,b,name\n\n1,2.5,u\n  \n-3,4e2,v\n\n\n",
    "padded": "a , b, name\n 1 , 2.5, u\n -3, 4e2, v \n",
    "plus sign": "a,b,name\n+1,+2.5,u\n-3,4e2,v\n",
    "row numbers": ",a,b,name\n0,1,2.5,u\n1,-3,4e2,v\n",
    "trailing mark": "a,b,name,\n1,2.5,u,\n-3,4e2,v,\n",
}


@pytest.mark.parametrize("content", WRITTEN.values(), ids=WRITTEN)
def test_one_table_reads_the_same_however_it_is_written(content, write, reader):
    table = read_table(write(content))
    assert table.names == ("a", "b", "name") and table.n_rows == 2
    assert table.columns["a"].tolist() == [1, -3]
    assert table.columns["b"].tolist() == [2.5, 400]
    assert table.columns["name"].tolist() == ["u", "v"]
    assert table.sha256 == hashlib.sha256(content.encode()).hexdigest()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_one_table_reads_the_same_in_every_encoding(encoding, write, reader):
    table = read_table(write("größe,y\n1,2\n3,4\n".encode(encoding)))
    assert table.names == ("größe", "y")
    assert ("encoding" in " ".join(table.notes)) == (encoding != "utf-8")


def test_a_given_encoding_is_taken(write):
    content = "größe,y\n1,2\n".encode("latin-1")
    assert read_table(write(content), encoding="latin-1").names == ("größe", "y")


cells = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.integers().map(str),
    st.sampled_from(["", "NA", "x", " y ", "1_0", "0x1", "nan", "-", "1,5", 'q"q', "a\nb", "ü"]),
)


@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=8), st.sampled_from(".,"))
def test_both_text_readers_agree(rows, decimal):
    pytest.importorskip("pyarrow")
    quoted = [[f'"{cell.replace(chr(34), 2 * chr(34))}"' for cell in row] for row in rows]
    body = "".join(";".join(row) + "\n" for row in quoted).encode()
    dialect = sniff_dialect(b"a;b;c\n" + body, ";", decimal, True, "data")
    fast, plain = delimited.read_fast(body, dialect), delimited.read_plain(body, dialect, "data")
    assert fast is not None
    for one, other in zip(fast, plain, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_text_after_many_numbers_makes_a_text_column(write, reader, monkeypatch):
    monkeypatch.setattr(delimited, "_CHUNK", 3)
    table = read_table(write("a,b\n" + "1,2\n" * 7 + "x,3\n"))
    assert table.columns["a"].tolist() == ["1"] * 7 + ["x"]
    assert table.columns["b"].tolist() == [2] * 7 + [3]


HEADERS = {
    "numbers only": ("1,2\n3,4\n", False),
    "names over numbers": ("a,b\n3,4\n", True),
    "category without header": ("u,1\nv,2\n", False),
    "category with header": ("kind,y\nu,1\nv,2\n", True),
    "years as names": ("id,2019\n1,5\n2,6\n", True),
    "text throughout": ("name,kind\nu,v\nw,x\n", True),
    "first cell missing": (",1\n2,3\n", False),
}


@pytest.mark.parametrize(("content", "header"), HEADERS.values(), ids=HEADERS)
def test_a_header_is_text_above_numbers(content, header, write):
    table = read_table(write(content))
    assert table.n_rows == content.count("\n") - header
    assert ("no header line" in table.notes) == (not header)


def test_a_given_header_is_taken(write):
    assert read_table(write("1,2\n3,4\n"), header=True).names == ("1", "2")
    assert read_table(write("a,b\n3,4\n"), header=False).names == ("column1", "column2")


def test_one_column_needs_no_delimiter(write, reader):
    table = read_table(write("y\n1.5\n2.5\n"))
    assert table.names == ("y",) and table.columns["y"].tolist() == [1.5, 2.5]
    commas = read_table(write("y\n1,5\n2,5\n"))
    assert commas.columns["y"].tolist() == [1.5, 2.5] and "decimal comma (guessed)" in commas.notes


def test_guesses_are_noted_and_given_options_are_not(write):
    path = write("a;b\n1,5;2\n")
    assert read_table(path).notes == ("delimiter semicolon (guessed)", "decimal comma (guessed)")
    assert read_table(path, delimiter=";", decimal=",").notes == ()


def test_missing_cells_are_nan_in_numbers_and_none_in_text(write, reader):
    table = read_table(write("a,b\n1,u\nNA,\n,v\n3,N/A\n"))
    np.testing.assert_array_equal(table.columns["a"], [1, np.nan, np.nan, 3])
    assert table.columns["b"].tolist() == ["u", None, "v", None]


def test_nameless_columns_that_only_count_are_left_out_and_noted(write):
    table = read_table(write(WRITTEN["row numbers"]))
    assert "column 1 has no name and only counts rows: left out" in table.notes
    assert read_table(write(",y\n5,1\n3,2\n")).names == ("column 1", "y")


def test_ten_thousand_columns_are_read(write, reader):
    names = [f"x{j}" for j in range(10_000)]
    rows = [",".join(str(i + j) for j in range(10_000)) for i in range(3)]
    table = read_table(write("\n".join([",".join(names), *rows])))
    assert len(table.names) == 10_000 and table.columns["x9999"].tolist() == [9999, 10000, 10001]
    assert make_design(table, label="x0").X.shape == (3, 9999)


def test_standard_input_and_gzip_are_read_alike(write, monkeypatch):
    content = WRITTEN["comma"].encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    piped, packed = read_table("-"), read_table(write(gzip.compress(content), "data.csv.gz"))
    assert piped.source == "standard input" and piped.names == packed.names
    assert piped.columns["a"].tolist() == packed.columns["a"].tolist()


# ---- Parquet, FCS, frames ---------------------------------------------------------------------


def test_parquet_columns_keep_numbers_text_and_missing_cells(write):
    content = parquet_bytes(i=[1, None], f=[0.5, 1.5], t=["u", None], b=[True, False])
    table = read_table(write(content, "data.parquet"))
    np.testing.assert_array_equal(table.columns["i"], [1, np.nan])
    assert table.columns["f"].dtype == np.float64
    assert table.columns["t"].tolist() == ["u", None]
    assert table.columns["b"].tolist() == ["True", "False"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_both_libraries_give_the_same_table(library):
    module = pytest.importorskip(library)
    frame = module.DataFrame({"x": [1, 2], "y": [0.5, float("nan")], "t": ["u", None]})
    table = table_from_frame(frame)
    assert table.names == ("x", "y", "t") and table.columns["x"].dtype == np.float64
    np.testing.assert_array_equal(table.columns["y"], [0.5, np.nan])
    assert table.columns["t"].tolist() == ["u", None] and len(table.sha256) == 64


def test_a_frame_with_duplicate_names_is_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r"data frame"):
        table_from_frame(pd.DataFrame([[1, 2]], columns=["x", "x"]))
    with pytest.raises(InputError, match=r"data frame"):
        table_from_frame([[1, 2]])


def test_channels_go_by_short_and_long_name(write):
    content = fcs_bytes([[1, 2], [3, 4], [5, 6]], ["FL1-H", "FL2-H"], ["CD4", "CD8"])
    table = read_table(write(content, "run.fcs"))
    assert table.names == ("FL1-H", "FL2-H")
    assert table.find("CD8") == "FL2-H"
    assert make_design(table, label="CD4", features=["CD8"]).y.tolist() == [1, 3, 5]


def test_a_long_name_of_two_channels_is_no_alias(write):
    content = fcs_bytes([[1, 2]], ["FL1-H", "FL2-H"], ["CD4", "CD4"])
    table = read_table(write(content, "run.fcs"))
    assert table.aliases == {} and any("several channels" in note for note in table.notes)


def test_each_of_several_files_is_a_bag(write):
    paths = [write(fcs_bytes([[1, 2], [3, k]], ["x", "y"]), f"run{k}.fcs") for k in (1, 2)]
    table = read_tables(paths)
    assert table.columns["file"].tolist() == ["run1", "run1", "run2", "run2"]
    assert make_design(table, label="y", bag="file").X.shape == (4, 1)


def test_values_that_are_no_numbers_are_counted_per_channel(write):
    table = read_table(write(fcs_bytes([[1, np.nan], [3, 4]], ["x", "y"]), "run.fcs"))
    assert "channel 'y' holds 1 values that are no numbers" in table.notes


def shift_data_end(content, shift):
    """Let header and text segment of a made FCS file say that its data end elsewhere."""
    end = int(content[34:42])
    old, new = str(end).encode(), str(end + shift).encode()
    header = content[:34] + new.rjust(8) + content[42:58]
    return header + content[58:].replace(b"$ENDDATA/" + old, b"$ENDDATA/" + new, 1) + b" "


def test_an_offset_one_byte_too_far_is_tolerated_only_when_asked(write):
    content = fcs_bytes([[1, 2], [3, 4]], ["x", "y"])
    path = write(shift_data_end(content, 1), "run.fcs")
    with pytest.raises(InputError, match=r"one byte too far.*allow the offset error"):
        read_table(path)
    table = read_table(path, allow_offset_error=True)
    assert table.columns["y"].tolist() == [2, 4] and table.notes


@needs_files
@pytest.mark.parametrize(
    ("stem", "n_events", "channel", "alias"),
    [
        ("J23101_J23101", 101_017, "FITC-A", None),
        ("J23103_J23109", 101_296, "PE-Texas Red-A", None),
        ("3FITC_4PE_004", 94_569, "FL1-H", None),
        ("data1", 13_367, "FL1-H", "CD4 FITC"),
    ],
)
def test_real_cytometry_files_are_read_whole(stem, n_events, channel, alias):
    table = read_table(Path(os.environ["UNSHUFFLE_DATA"]) / "fcs" / f"{stem}.fcs")
    assert table.n_rows == n_events and channel in table.names
    assert alias is None or table.find(alias) == channel
    assert all(np.isfinite(column).all() for column in table.columns.values())


@needs_files
def test_logarithmic_channels_are_turned_linear_and_noted():
    table = read_table(Path(os.environ["UNSHUFFLE_DATA"]) / "fcs" / "3FITC_4PE_004.fcs")
    assert any("logarithmic" in note and "FL1-H" in note for note in table.notes)
    # Ten bits over four decades: linear values run from 1 to just under 10 000.
    linear = table.columns["FL1-H"]
    assert linear.min() >= 1 and 1023 < linear.max() < 10_000


@pytest.mark.parametrize(
    ("library", "name", "content", "extra"),
    [("pyarrow", "d.parquet", b"PAR1....", "parquet"), ("flowio", "d.fcs", b"FCS3.0  ", "fcs")],
)
def test_a_missing_library_names_its_extra(library, name, content, extra, write, monkeypatch):
    def refuse(module):
        raise ImportError(module)

    monkeypatch.setattr(errors.importlib, "import_module", refuse)
    with pytest.raises(InputError, match=rf"{library}: pip install 'unshuffle\[{extra}\]'"):
        read_table(write(content, name))


# ---- designs ----------------------------------------------------------------------------------


def test_all_columns_but_label_and_bag_are_features():
    design = make_design(table_of(a=[1, 2], y=[3, 4], g=[5, 5], b=[6, 7]), label="y", bag="g")
    assert design.feature_names == ("a", "b")
    assert design.X.tolist() == [[1, 6], [2, 7]] and design.y.tolist() == [3, 4]
    assert design.groups.tolist() == [5, 5] and design.groups.dtype == np.int64
    assert design.rows.tolist() == [0, 1] and design.notes == ()


def test_categories_become_zeros_and_ones_against_the_first_level():
    design = make_design(table_of(t=["v", "u", "w"], y=[1, 2, 3]), label="y")
    assert design.feature_names == ("t=v", "t=w") and design.base_levels == {"t": "u"}
    assert design.X.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert design.notes == ("column 't': base level 'u'",)


def test_numbers_declared_categorical_are_coded_in_order_of_size():
    table = table_of(k=[10, 2, 1.5], y=[1, 2, 3])
    design = make_design(table, label="y", categorical=["k"])
    assert design.feature_names == ("k=2", "k=10") and design.base_levels == {"k": "1.5"}


def test_dropped_rows_are_counted_and_never_silent():
    table = table_of(a=[1, np.nan, 3, 4], t=["u", "v", None, "v"], y=[1, 2, 3, 4])
    design = make_design(table, label="y", missing="drop")
    assert design.rows.tolist() == [0, 3] and design.y.tolist() == [1, 4]
    assert any("dropped 2 of 4 rows" in note and "1 in 'a'" in note for note in design.notes)
    assert any("may belong to another row" in note for note in design.notes)


def test_unused_columns_may_be_broken():
    table = table_of(a=[1, 2], junk=[np.nan, np.inf], y=[3, 4])
    assert make_design(table, label="y", features=["a"]).X.tolist() == [[1], [2]]


def test_order_across_two_files_carries_no_meaning():
    rng = np.random.default_rng(0)
    bags = np.array(["p", "q", "q", "p", "r"], dtype=object)
    rows = table_of(x=[1, 2, 3, 4, 5], g=bags)
    for _ in range(5):
        order = rng.permutation(5)
        y = np.array([10, 20, 21, 11, 30])
        design = make_design_from_two(rows, table_of(g=bags[order], y=y[order]), bag="g")
        assert design.X.ravel().tolist() == [1, 2, 3, 4, 5]
        assert (design.groups == bags).all()
        for bag, labels in {"p": {10, 11}, "q": {20, 21}, "r": {30}}.items():
            assert set(design.y[bags == bag]) == labels


def test_bags_match_across_files_whether_written_as_text_or_numbers():
    rows, labels = table_of(x=[1, 2], g=[1, 2]), table_of(y=[3, 4], g=["2", "1"])
    assert make_design_from_two(rows, labels, bag="g").y.tolist() == [4, 3]


def test_two_files_without_bags_are_one_bag():
    design = make_design_from_two(table_of(x=[1, 2]), table_of(y=[3, 4]))
    assert design.groups is None and design.y.tolist() == [3, 4]


# ---- broken input: each is one line that names the place and the way out ----------------------

LONG = "n" * 10_000
ESCAPES = '[red]"<b>\\n\x1b[31m'

# name: (file name, content, options of make_design, parts of the message)
BROKEN = {
    "empty": ("d.csv", "", {}, ["empty", "needs"]),
    "blank": ("d.csv", "\n  \n", {}, ["empty"]),
    "header only": ("d.csv", "a,y\n", {}, ["no rows"]),
    "no such label": ("d.csv", "a,Label\n1,2\n", {"label": "labl"}, ["labl", "mean 'Label'"]),
    "no such feature": ("d.csv", "a,y\n1,2\n", {"features": ["b"]}, ["feature", "'b'", "known"]),
    "no such bag": ("d.csv", "a,y\n1,2\n", {"bag": "b"}, ["bag column", "'b'"]),
    "label as feature": ("d.csv", "a,y\n1,2\n", {"features": ["y"]}, ["label", "leave it out"]),
    "label as bag": ("d.csv", "a,y\n1,2\n", {"bag": "y"}, ["both label and bag"]),
    "feature twice": ("d.csv", "a,y\n1,2\n", {"features": ["a", "a"]}, ["twice"]),
    "no features": ("d.csv", "y\n1\n2\n", {}, ["no feature columns"]),
    "duplicate names": ("d.csv", "a,y,a\n1,2,3\n", {}, ["columns 1 and 3", "'a'", "rename"]),
    "ragged, long": ("d.csv", "a,y\n1,2\n3,4,5\n", {}, ["line 3", "3 fields", "has 2"]),
    "ragged, short": ("d.csv", "a,b,y\n1,2,3\n\n4,5\n", {}, ["line 4", "2 fields", "has 3"]),
    "ragged, far": ("d.csv", "a,y\n" + "1,2\n" * 99 + "3\n", {}, ["line 101", "1 fields"]),
    "open quote": ("d.csv", 'a,y\n1,"2\n' + "1,2\n" * 50_000, {}, ["line 2", "quot"]),
    "short open quote": ("d.csv", 'a,y\n1,2\n3,"4\n5,6\n', {}, ["line 3", "quot"]),
    "text label": ("d.csv", "a,y\n1,2\n3,abc\n", {}, ["row 2", "'y'", "'abc'"]),
    "mixed types": ("d.csv", "a,y\n1,2\nabc,3\n", {}, ["row 2", "'a'", "'abc'", "categorical"]),
    "stray comma": ("d.csv", 'a,y\n1.5,2\n"1,5",3\n', {}, ["row 2", "'1,5'"]),
    "thousands": ("d.csv", "a;y\n1,234;2\n5,678;3\n", {}, ["'1,234'", "decimal"]),
    "missing value": ("d.csv", "a,y\n1,2\n,3\n", {}, ["row 2", "'a'", "missing", "drop"]),
    "missing label": ("d.csv", "a,y\n1,2\n2,NA\n", {}, ["row 2", "'y'", "missing"]),
    "infinite value": ("d.csv", "a,y\n1,2\n-inf,3\n", {}, ["row 2", "'a'", "-inf"]),
    "missing text": ("d.csv", "t,y\nu,2\n,3\n", {}, ["row 2", "'t'", "missing"]),
    "nothing left": ("d.csv", "a,y\n,2\n,3\n", {"missing": "drop"}, ["every row", "'a'"]),
    "bad choice": ("d.csv", "a,y\n1,2\n", {"missing": "ignore"}, ["'ignore'", "'drop'"]),
    "fractional bag": ("d.csv", "a,y,g\n1,2,1\n1,3,1.5\n", {"bag": "g"}, ["row 2", "1.5", "text"]),
    "missing bag": ("d.csv", "a,y,g\n1,2,1\n1,3,\n", {"bag": "g"}, ["row 2", "'g'", "missing"]),
    "huge bag": ("d.csv", "a,y,g\n1,2,9007199254740993\n", {"bag": "g"}, ["row 1", "2^53"]),
    "identifier": (
        "d.csv", "t,y\n" + "".join(f"id{i},1\n" for i in range(101)), {}, ["101", "leave it out"],
    ),
    "one level": ("d.csv", "t,y\nu,1\nu,2\n", {}, ["one level"]),
    "clash of names": ("d.csv", "t,t=v,y\nu,1,1\nv,2,2\n", {}, ["'t=v'", "rename"]),
    "not decodable": ("d.csv", b"a,y\n1,2\n\x81\x8d,3\n", {}, ["line 3", "0x81", "encoding"]),
    "zero bytes": ("d.csv", b"a,y\n1,2\n3,\x00\n", {}, ["line 3", "zero byte"]),
    "excel": ("d.csv", b"PK\x03\x04....", {}, ["Excel", "save", "CSV"]),
    "broken gzip": ("d.csv.gz", b"\x1f\x8b\x08junk", {}, ["gzip"]),
    "parquet is text": ("d.parquet", "a,y\n1,2\n", {}, ["not a Parquet file", "rename"]),
    "parquet cut off": ("d.parquet", b"PAR1" + b"\0" * 40, {}, ["Parquet", "cut off"]),
    "fcs is text": ("d.fcs", "a,y\n1,2\n", {}, ["not an FCS file", "rename"]),
    "fcs header only": ("d.fcs", b"FCS3.0", {}, ["FCS", "export it again"]),
    "fcs junk": ("d.fcs", b"FCS3.1" + b"\xff" * 500, {}, ["FCS", "export it again"]),
    "long name": ("d.csv", f"{LONG},y\n1,2\n", {"label": LONG + "x"}, ["nnn…"]),
    "long duplicate": ("d.csv", f"{LONG},{LONG}\n1,2\n", {}, ["nnn…", "rename"]),
    "long value": ("d.csv", f"a,y\n1,2\n3,{LONG}\n", {}, ["row 2", "nnn…"]),
    "markup": ("d.csv", "a,y\n1,2\n", {"label": ESCAPES + "\n"}, ["[red]", "\\x1b"]),
    "markup name": ("d.csv", '"[red]<b>\nx","[red]<b>\nx",y\n1,2,3\n', {}, ["<b>\\nx", "rename"]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "options", "parts"), BROKEN.values(), ids=BROKEN)
def test_broken_input_is_one_line_with_a_way_out(name, content, options, parts, write, reader):
    path = write(content, name)
    with pytest.raises(InputError) as error:
        make_design(read_table(path), **{"label": "y", **options})
    message = str(error.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message and message.isprintable() and len(message) < 500
    assert options.get("missing") == "ignore" or str(path) in message


BAD_OPTIONS = {
    "long delimiter": ({"delimiter": "::"}, ["delimiter", "'::'"]),
    "bad decimal": ({"decimal": "'"}, ["decimal"]),
    "same marks": ({"delimiter": ",", "decimal": ","}, ["both delimiter and decimal"]),
    "no such encoding": ({"encoding": "klingon"}, ["'klingon'", "utf-8"]),
    "no text encoding": ({"encoding": "base64"}, ["'base64'"]),
    "wrong encoding": ({"encoding": "ascii"}, ["ascii", "byte 1"]),
}


@pytest.mark.parametrize(("options", "parts"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_options_are_one_line_with_a_way_out(options, parts, write):
    with pytest.raises(InputError) as error:
        read_table(write("ä,y\n1,2\n"), **options)
    message = str(error.value)
    assert all(part in message for part in parts) and "\n" not in message, message


PLACES = {
    "not there": ("nowhere.csv", "no such file"),
    "folder": ("", "is a folder"),
    "zero byte": ("a\0b.csv", "cannot be read"),
    "long path": ("p" * 10_000, "cannot be read"),
}


@pytest.mark.parametrize(("name", "part"), PLACES.values(), ids=PLACES)
def test_a_place_that_is_no_file_is_named(name, part, tmp_path):
    with pytest.raises(InputError, match=part) as error:
        read_table(f"{tmp_path}/{name}")
    assert len(str(error.value)) < 400 and str(error.value).isprintable()


def test_a_file_without_permission_is_named(write, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    path = write("a,y\n1,2\n")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match=r"data.csv: may not be read"):
        read_table(path)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.999])
def test_a_cut_off_cytometry_file_is_refused(share, write):
    content = fcs_bytes(np.arange(600).reshape(300, 2), ["x", "y"])
    with pytest.raises(InputError, match=r"run.fcs: the FCS file is .*export it again"):
        read_table(write(content[: int(share * len(content))], "run.fcs"))


def test_a_wrong_event_count_is_refused(write):
    content = fcs_bytes([[1, 2], [3, 4]], ["x", "y"])
    assert b"$TOT/2/" in content
    with pytest.raises(InputError, match=r"promises 3 events of 2 channels.*4 numbers"):
        read_table(write(content.replace(b"$TOT/2/", b"$TOT/3/"), "run.fcs"))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.bin"
    for start in (b"", b"PAR1", b"FCS3.0", b"a,b\n", b"\x1f\x8b"):
        path.write_bytes(start + content)
        try:
            assert read_table(path).n_rows > 0
        except InputError as error:
            assert "\n" not in str(error)


UNEQUAL = {
    "too few labels": (
        {"x": [1, 2], "g": [1, 1]},
        {"y": [1], "g": [1]},
        ["'1'", "2 rows", "1 lab"],
    ),
    "bag without labels": ({"x": [1], "g": ["p"]}, {"y": [1], "g": ["q"]}, ["'p'", "1 r", "0 lab"]),
    "no bags": ({"x": [1, 2]}, {"y": [1, 2, 3]}, ["2 rows", "3 labels", "check"]),
}


@pytest.mark.parametrize(("rows", "labels", "parts"), UNEQUAL.values(), ids=UNEQUAL)
def test_unequal_counts_name_the_bag_and_both_numbers(rows, labels, parts):
    bag = "g" if "g" in rows else None
    with pytest.raises(InputError) as error:
        make_design_from_two(table_of(**rows), table_of(**labels), bag=bag)
    assert all(part in str(error.value) for part in parts), error.value


def test_a_label_file_of_several_columns_asks_which():
    labels = table_of(low=[0, 1], high=[1, 2], count=[3, 4])
    with pytest.raises(InputError, match=r"which column is the label.*'low', 'high', 'count'"):
        make_design_from_two(table_of(x=[1, 2]), labels)


def test_files_read_together_need_the_same_columns_and_different_names(write):
    one, two = write("a,y\n1,2\n", "one.csv"), write("b,y\n1,2\n", "two.csv")
    with pytest.raises(InputError, match=r"differ in the column 'a'"):
        read_tables([one, two])
    with pytest.raises(InputError, match=r"two files are called 'one'"):
        read_tables([one, one])
    with pytest.raises(InputError, match=r"already called 'y'"):
        read_tables([one], bag="y")
    with pytest.raises(InputError, match=r"name at least one"):
        read_tables([])
