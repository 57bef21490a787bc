"""Broken input is one line that names the place and the way out."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tables import fcs_bytes, table_of
from unshuffle.errors import InputError
from unshuffle.io import make_design, make_design_from_two, read_table, read_tables

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
    "too many labels": (
        {"x": [1, 2], "g": [1, 1]},
        {"y": [1, 2, 3], "g": [1, 1, 1]},
        ["'1'", "2 rows", "3 labels", "--separate"],
    ),
    "bag without labels": (
        {"x": [1, 2], "g": ["p", "q"]},
        {"y": [1], "g": ["q"]},
        ["'p'", "1 rows", "0 labels"],
    ),
    "bag without rows": (
        {"x": [1], "g": ["p 1"]},
        {"y": [1, 2], "g": ["p 1", "p1"]},
        ["'p1'", "0 rows", "1 labels", "did you mean 'p 1'"],
    ),
    "other bags": ({"x": [1], "g": ["p"]}, {"y": [1], "g": ["q"]}, ["'p'", "'q'", "alike"]),
    "no bags": ({"x": [1, 2]}, {"y": [1, 2, 3]}, ["2 rows", "3 labels", "--separate"]),
}


@pytest.mark.parametrize(("rows", "labels", "parts"), UNEQUAL.values(), ids=UNEQUAL)
def test_numbers_that_cannot_be_name_the_bag_and_both_sides(rows, labels, parts):
    bag = "g" if "g" in rows else None
    with pytest.raises(InputError) as error:
        make_design_from_two(table_of(**rows), table_of(**labels), bag=bag, same_individuals=True)
    assert all(part in str(error.value) for part in parts), error.value


def test_a_label_file_of_several_columns_asks_which():
    labels = table_of(low=[0, 1], mid=[1, 2], top=[3, 4])
    with pytest.raises(InputError, match=r"which column is the label.*'low', 'mid', 'top'"):
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
