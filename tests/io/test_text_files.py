"""Reading text: one table reads the same however it is written."""

import gzip
import hashlib
import io
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st

from unshuffle.errors import InputError
from unshuffle.io import make_design, read_table
from unshuffle.io.text import parsing
from unshuffle.io.text.dialect import sniff_dialect
from unshuffle.io.text.notation import TextColumn

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


def as_arrays(column):
    """Numbers as they are; text as its different cells, and which each row has."""
    return [column.cells, column.codes] if isinstance(column, TextColumn) else [column]


@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=8), st.sampled_from(".,"))
def test_both_text_readers_agree(rows, decimal):
    pytest.importorskip("pyarrow")
    quoted = [[f'"{cell.replace(chr(34), 2 * chr(34))}"' for cell in row] for row in rows]
    body = "".join(";".join(row) + "\n" for row in quoted).encode()
    dialect = sniff_dialect(b"a;b;c\n" + body, ";", decimal, True, "data")
    fast = parsing.read_with_pyarrow(body, dialect, 0, range(3))
    plain = parsing.read_with_csv(body, dialect, "data", range(3))
    assert fast is not None
    for one, other in zip(fast, plain, strict=True):
        assert type(one) is type(other)
        for column, twin in zip(as_arrays(one), as_arrays(other), strict=True):
            assert column.dtype == twin.dtype
            np.testing.assert_array_equal(column, twin)


NASTY = {
    "quotes inside quotes": 'a;b;c\n"1";"x ""y"";z";3\n"-2";"";4\n',
    "decimal comma": "a;b;c\n1,5;2;-3,25e2\n0,1;NA;,5\n",
    "decimal comma and a point": "a;b;c\n1,5;2.5;3\n0,1;1.25;4\n",
    "thousands": "a;b;c\n1,234,567;2,5;3\n1,5;2,25;4\n",
    "missing tokens": "a,b,c\nNA,1,nan\nNULL,#N/A,2\nNone,N/A,3\n , 4 ,null\n",
    "huge and tiny": "a,b,c\n1e308,1e-320,1.797693134862315e308\n1e309,-1e400,5e-324\n2e-400,0,1\n",
    "hard to round": (
        "a,b,c\n0.1,2.2250738585072011e-308,9007199254740993\n"
        "8.5,123456789012345678901234567890,1.00000000000000011102230246251565404236316680908203125\n"
    ),
    "leading zeros": "a,b,c\n007,-000.5,+01e+02\n00,0000000000000000000000001,.5\n",
    "signs": "a,b,c\n+1,-0,+.5\n-.5,+0.0,1.\n",
    "infinities": "a,b,c\ninf,-inf,Infinity\n1,+inf,-INFINITY\n",
    "no numbers that look it": "a,b,c\n1_000,0x1F,1e\n2,3,4\n",
    "numbers of Fortran": "a,b,c\n1d5,1D-5,2\n1,2,3\n",
    "mixed types": "a,b,c\n1,x,2\ny,2,2\n3,3,z\n",
    "true and false": "a,b,c\ntrue,1,FALSE\nfalse,0,TRUE\n",
    "dates": "a,b,c\n2020-01-01,1,12:30\n2020-01-02,2,12:31\n",
    "odd digits": "a,b,c\n\u0661,1,2\n3,\uff14,5\n",
    "odd blanks": "a,b,c\n\u00a01,2\u2003,\t3\n4,5 ,6\n",
    "a mark and windows ends": "\ufeffa,b,c\r\n1,2,3\r\n4,5,6\r\n",
    "line ends inside quotes": 'a,b,c\n1,"u\nv",3\n4,"w\r\nx",6\n',
    "blank and empty lines": "a,b,c\n\n1,2,3\n   \n\n4,5,6\n,,\n",
    "quotes in the middle": 'a,b,c\n1,2"3,4\n5,6"7,8\n',
    "quotes after blanks": 'a,b,c\n1, "2",3\n4, "5",6\n',
    "ragged": "a,b,c\n1,2,3\n4,5\n6,7,8\n",
    "too many": "a,b,c\n1,2,3\n4,5,6,7\n",
    "a quotation mark left open": 'a,b,c\n1,2,3\n4,"5,6\n7,8,9\n',
    "text after a closing mark": 'a,b,c\n1,"2"x,3\n4,"5",6\n',
    "text after an empty cell": 'a,b,c\n1,""x,3\n4,"5",6\n',
    "text after a mark in the cell": 'a,b,c\n1,"2"""x,3\n4,"5",6\n',
}


@pytest.mark.parametrize("content", NASTY.values(), ids=NASTY)
def test_nasty_files_read_to_the_same_bits_or_the_same_words(content, write, monkeypatch):
    pytest.importorskip("pyarrow")

    def read():
        try:
            return read_table(path)
        except InputError as exc:
            return str(exc)

    path = write(content)
    fast = read()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    plain = read()
    if isinstance(plain, str):
        assert fast == plain
        return
    assert fast.names == plain.names and fast.notes == plain.notes
    for name in plain.names:
        one, other = fast.columns[name], plain.columns[name]
        assert one.dtype == other.dtype, name
        if one.dtype == object:
            assert one.tolist() == other.tolist()
        else:
            assert one.tobytes() == other.tobytes(), (one, other)


def test_numbers_of_any_digits_read_to_the_same_bits(write, monkeypatch):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**64, 20_000, dtype=np.uint64)
    values = bits.view(np.float64)
    values = values[np.isfinite(values)]
    texts = [f"{value:.{k % 25}e}" for k, value in enumerate(values.tolist())]
    path = write("a,b\n" + "".join(f"{text},{text}\n" for text in texts))
    fast = read_table(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert fast.columns["a"].tobytes() == read_table(path).columns["a"].tobytes()


def test_text_after_many_numbers_makes_a_text_column(write, reader, monkeypatch):
    monkeypatch.setattr(parsing, "CHUNK", 3)
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


def test_columns_of_pyarrow_become_arrays_with_missing_cells_as_nan():
    pa = pytest.importorskip("pyarrow")
    from unshuffle.io.text.arrow import as_floats

    cells = [1.0, None, 3.0, 4.0, None, 6.0, 7.0, 8.0, None, 10.0]
    pieces = [pa.array(cells, pa.float64()).slice(3, 6), pa.array([], pa.float64())]
    column = pa.chunked_array([*pieces, pa.array([0.5])])
    assert np.array_equal(as_floats(column), [4, np.nan, 6, 7, 8, np.nan, 0.5], equal_nan=True)
