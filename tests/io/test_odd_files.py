"""Some of the odd files of `fuzz_files.py`, and those in which it found something."""

from collections import Counter

import pytest

from odd_files import make_file
from odd_readings import check_file
from unshuffle.errors import InputError
from unshuffle.io import make_design, read_table


def test_odd_files_are_read_as_they_are_meant_or_refused_in_one_line(tmp_path):
    pytest.importorskip("pyarrow")
    tally: Counter[str] = Counter()
    for k in range(150):
        tally.update(check_file(make_file(("quick", k)), tmp_path))
    assert tally["read"] > tally["refused"]


# Content → names and first row; what was once split by a mark inside of cells.
FOUND = {
    "a currency beside commas": ("a,b\n2020-01-25,CHF 7\n2020-01-15,CHF 73\n", "a", "2020-01-25"),
    "a share beside tabs": ("a\tb\n46\t-28 %\n52\t37 %\n", "a", 46.0),
    "no-break blanks beside tabs": ("a\tb\n5\t1\u00a0200\n6\t800\n7\t5\n", "b", 1200.0),
    "decimal commas beside words": ("a 0;b;c\n8,1e-03;x;u v\n4,8e+05;y;w v\n", "a 0", 8.1e-3),
    "decimal commas beside tabs": ("x\t15\t2,8\nx\tn.a.\t9,2\ny\t4\t3,5\n", "column3", 2.8),
    "one column with gaps": ('a\n"1.5"\n""\n"2.5"\n', "a", 1.5),
}  # fmt: skip


@pytest.mark.parametrize(("content", "name", "first"), FOUND.values(), ids=FOUND)
def test_marks_inside_of_cells_split_no_lines(content, name, first, write, reader):
    table = read_table(write(content))
    assert table.columns[name][0] == first
    assert table.n_rows == content.count("\n") - (not name.startswith("column"))


def test_lines_that_two_marks_split_equally_well_are_refused(write):
    with pytest.raises(InputError, match="comma and space split its lines equally well"):
        read_table(write("2020-01-12 36,137\n2020-01-07 53,930\n"))


def test_a_share_among_words_is_no_category(write):
    table = read_table(write("a,y\n10%,1\nnone,2\nother,3\n"))
    with pytest.raises(InputError, match="row 1: column 'a' holds '10%', a number with a unit"):
        make_design(table, label="y")
