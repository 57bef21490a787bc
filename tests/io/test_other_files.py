"""Reading Parquet and FCS: what is read is what was written."""

import os
from pathlib import Path

import numpy as np
import pytest

from tables import fcs_bytes, needs_files, parquet_bytes
from unshuffle import errors
from unshuffle.errors import InputError
from unshuffle.io import make_design, read_table, read_tables


def test_parquet_columns_keep_numbers_text_and_missing_cells(write):
    content = parquet_bytes(i=[1, None], f=[0.5, 1.5], t=["u", None], b=[True, False])
    table = read_table(write(content, "data.parquet"))
    np.testing.assert_array_equal(table.columns["i"], [1, np.nan])
    assert table.columns["f"].dtype == np.float64
    assert table.columns["t"].tolist() == ["u", None]
    assert table.columns["b"].tolist() == ["True", "False"]


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
