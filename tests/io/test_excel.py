"""Excel workbooks: the first sheet is the table that its CSV would be."""

import datetime
import io
import zipfile

import numpy as np
import pytest

from unshuffle.errors import InputError
from unshuffle.io import read_table

openpyxl = pytest.importorskip("openpyxl")


def write_book(path, *sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"sheet {number}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


ROWS = [["x", "kind", "y"], [1, "u", 2.5], [None, "v", -1e-9], [3.25, None, 4]]


def test_a_workbook_reads_as_its_csv_does(tmp_path):
    book = read_table(write_book(tmp_path / "a.xlsx", ROWS))
    text = "\n".join(",".join("" if c is None else str(c) for c in row) for row in ROWS)
    (tmp_path / "a.csv").write_text(text)
    table = read_table(tmp_path / "a.csv")
    assert book.names == table.names == ("x", "kind", "y")
    for name in book.names:
        assert book.columns[name].dtype == table.columns[name].dtype
        same = [
            a == b or (a != a and b != b)
            for a, b in zip(book.columns[name], table.columns[name], strict=True)
        ]
        assert all(same)


def test_empty_rows_and_columns_are_no_data(tmp_path):
    rows = [[None, None], ["x", None, "y"], [1, None, 2], [None, None, None], [3, None, 4]]
    table = read_table(write_book(tmp_path / "a.xlsx", rows))
    assert table.names == ("x", "y") and table.columns["x"].tolist() == [1.0, 3.0]


def test_cells_that_are_no_numbers_are_text(tmp_path):
    day = datetime.datetime(2020, 1, 2)
    table = read_table(write_book(tmp_path / "a.xlsx", [["a", "b"], [True, day], [2, "z"]]))
    assert table.columns["a"].tolist() == ["true", "2"]
    assert table.columns["b"].tolist()[0].startswith("2020-01-02")


def test_of_several_sheets_the_first_is_read_and_that_is_said(tmp_path):
    table = read_table(write_book(tmp_path / "a.xlsx", ROWS, [["other"], [1]]))
    assert table.names == ("x", "kind", "y")
    assert "sheet 'sheet 0' of 2 is read" in table.notes


def make_zip():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("data.csv", "x,y\n1,2\n")
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100, ["old format", "CSV"]),
        (b"PK\x03\x04rest", ["Excel", "CSV"]),
        (make_zip(), ["zip", "unpack"]),
    ],
    ids=["xls", "cut off", "zip"],
)
def test_what_is_no_workbook_is_refused_with_the_way_out(content, words, tmp_path):
    (tmp_path / "a.xlsx").write_bytes(content)
    with pytest.raises(InputError) as error:
        read_table(tmp_path / "a.xlsx")
    assert all(word in str(error.value) for word in [*words, "a.xlsx"])


def test_broken_parts_and_empty_sheets_are_refused(tmp_path):
    with pytest.raises(InputError, match="empty"):
        read_table(write_book(tmp_path / "a.xlsx", []))
    whole = write_book(tmp_path / "b.xlsx", ROWS).read_bytes()
    with (
        zipfile.ZipFile(io.BytesIO(whole)) as source,
        zipfile.ZipFile(tmp_path / "c.xlsx", "w") as out,
    ):
        for name in source.namelist():
            out.writestr(
                name, b"<broken" if name.startswith("xl/worksheets") else source.read(name)
            )
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "c.xlsx")


def test_without_the_library_the_way_out_is_said(tmp_path, monkeypatch):
    path = write_book(tmp_path / "a.xlsx", ROWS)
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(InputError, match=r"unshuffle\[excel\]"):
        read_table(path)


def test_numbers_keep_their_bits(tmp_path):
    values = np.random.default_rng(0).normal(size=50) * 10.0 ** np.arange(-25, 25)
    table = read_table(write_book(tmp_path / "a.xlsx", [["x"], *[[float(v)] for v in values]]))
    np.testing.assert_allclose(table.columns["x"], values, rtol=1e-15)
