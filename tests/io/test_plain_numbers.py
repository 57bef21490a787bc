"""Plain tables of numbers are read in pieces to the bits, words and hash of the whole file."""

import hashlib

import numpy as np
import pytest

from unshuffle.errors import InputError
from unshuffle.io import make_design, read_table, reading
from unshuffle.io.reading import read_file
from unshuffle.io.text import plain_numbers

pytest.importorskip("pyarrow")

HEAD = "a,b,c\n" + "".join(f"{k},{k}.5,-{k}e-3\n" for k in range(100))
# What comes after a hundred plain rows, in a later piece.
LATER = {
    "plain": "1,2,3\n",
    "no last end": "1,2,3\n4,5,6",
    "missing cells": "NA,1,nan\n,,\n1,NULL,2\n",
    "infinities": "inf,-inf,1e999\n",
    "blanks around": " 1 , 2,3 \n",
    "text": "1,x,3\n",
    "a blank line": "1,2,3\n\n4,5,6\n",
    "blank lines at the end": "1,2,3\n\n\n",
    "a line of blanks": "1,2,3\n  \n4,5,6\n",
    "quotation marks": '"1",2,3\n',
    "a mark left open": '1,2,"3\n',
    "windows ends": "1,2,3\r\n4,5,6\r\n",
    "old ends": "1,2,3\r4,5,6\r",
    "other letters": "1,2,\u00e9\n",
    "a zero byte": "1,2,\0\n",
    "ragged": "1,2\n3,4,5\n",
    "too many": "1,2,3,4\n",
    "a long line": "1,2," + "0" * 700 + "3\n",
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(plain_numbers, "_LEAST", 1)
    monkeypatch.setattr(plain_numbers, "_PIECE", 1024)
    monkeypatch.setattr(plain_numbers, "_LONGEST", 512)


def read_both(path, monkeypatch, **how):
    """Return what is read in pieces and as a whole: tables, or the words of a refusal."""
    found = []
    for reader in (plain_numbers.read_numbers, lambda *args, **given: None):
        monkeypatch.setattr(reading, "read_numbers", reader)
        try:
            found.append(read_table(path, **how))
        except InputError as exc:
            found.append(str(exc))
    return found


def assert_same(one, other):
    if isinstance(other, str):
        assert one == other
        return
    assert (one.names, one.notes, one.n_rows) == (other.names, other.notes, other.n_rows)
    assert one.sha256 == other.sha256
    for name in other.names:
        assert one.columns[name].dtype == other.columns[name].dtype
        if one.columns[name].dtype == object:
            assert one.columns[name].tolist() == other.columns[name].tolist()
        else:
            assert one.columns[name].tobytes() == other.columns[name].tobytes()


@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
def test_files_read_in_pieces_to_the_same_bits_or_the_same_words(later, write, monkeypatch):
    path = write(HEAD + later + "7,8,9\n" * 300)
    assert_same(*read_both(path, monkeypatch))


@pytest.mark.parametrize(
    "head",
    ["a,b,a\n", "a,,c\n", "\n\na,b,c\n", "1,2,3\n", "x\n", "{}\n", "FCS3.1,b,c\n", "\ufeffa,b,c\n"],
)
def test_odd_beginnings_are_left_to_the_reader_of_whole_files(head, write, monkeypatch):
    assert_same(*read_both(write(head + "7,8,9\n" * 400), monkeypatch))


@pytest.mark.parametrize(
    "how",
    [
        {"delimiter": ";"},
        {"decimal": "."},
        {"decimal": ","},
        {"header": False},
        {"encoding": "utf-8"},
    ],
)
def test_a_given_dialect_is_taken(how, write, monkeypatch):
    path = write((HEAD + "7,8,9\n" * 300).replace(",", how.get("delimiter", ",")))
    assert_same(*read_both(path, monkeypatch, **how))


def test_plain_files_are_not_held_as_a_whole(write, monkeypatch):
    path = write(HEAD + "7,8,9\n" * 300)
    monkeypatch.setattr(reading, "_read_bytes", None)  # would be called otherwise
    assert read_table(path).n_rows == 400
    assert read_table(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read_file(path, is_hashed=False).sha256 == ""


def test_columns_grow_where_later_lines_are_shorter(write, monkeypatch):
    rows = [f"{k}.000000000000,1,2\n" for k in range(100)] + ["1,2,3\n"] * 3000
    path = write("a,b,c\n" + "".join(rows))
    one, other = read_both(path, monkeypatch)
    assert one.n_rows == 3100
    assert_same(one, other)


def test_features_that_lie_row_by_row_are_not_copied(write):
    path = write(HEAD + "7,8,9\n" * 300)
    table = read_file(path, apart=("b",))
    design = make_design(table, label="b")
    assert np.shares_memory(design.X, table.columns["a"])
    usual = make_design(read_file(path), label="b")
    assert not np.shares_memory(usual.X, usual.y)
    assert design.X.flags.c_contiguous and np.array_equal(design.X, usual.X)
    assert np.array_equal(design.y, usual.y)
    # In another order, or fewer, they are put together anew.
    turned = make_design(table, label="b", features=("c", "a"))
    assert np.array_equal(turned.X, usual.X[:, ::-1])
    assert np.array_equal(make_design(table, label="b", features=("c",)).X, usual.X[:, 1:])
