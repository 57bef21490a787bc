"""Properties of Parquet in blocks: the bits of the same rows in memory, and errors of one line."""

import json
from dataclasses import replace

import numpy as np
import pytest

from command_line import assert_one_line
from unshuffle import make_shuffled, shuffle_labels
from unshuffle.cli.app import run
from unshuffle.data.blocks.first_pass import make_first_pass
from unshuffle.data.blocks.sources import ArraySource, number_bags
from unshuffle.errors import InputError
from unshuffle.io.paths import expand_paths
from unshuffle.io.sources.parquet_source import open_parquet

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

DATA = make_shuffled(50_400, 2, bags=3, snr_db=15, rng=0)


def write(folder, data, sizes, row_groups=4000, **changes):
    """Write rows to files of so many rows each."""
    columns = {
        "a": data.X[:, 0], "b": data.X[:, 1], "score": data.y,
        "run": [f"run {g}" for g in data.groups],
    }  # fmt: skip
    columns.update(changes)
    table = pa.table(columns)
    start = 0
    for k, size in enumerate(sizes):
        piece = table.slice(start, size)
        parquet.write_table(piece, folder / f"part{k}.parquet", row_group_size=row_groups)
        start += size
    return folder


def source_of(folder, **how):
    table = open_parquet(expand_paths([str(folder / "*.parquet")]))
    return table.as_source("score", ["a", "b"], "run", **how)


def test_files_give_the_bits_of_arrays_in_any_order_and_cut(tmp_path):
    rng = np.random.default_rng(1)
    order = rng.permutation(len(DATA.y))
    y = shuffle_labels(DATA.y, DATA.groups, rng)
    moved = replace(DATA, X=DATA.X[order], y=y[order], groups=DATA.groups[order])
    write(tmp_path, moved, [20_000, 30_399, 1])
    codes, n_bags = number_bags(DATA.groups, len(DATA.y))
    one = make_first_pass(ArraySource(DATA.X, DATA.y, codes, n_bags), 3)
    other = make_first_pass(source_of(tmp_path, n_jobs=2), 3)
    for name in ("sizes", "first", "second", "third"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(one.cells.values, other.cells.values)
    assert np.array_equal(one.sample.rows, other.sample.rows)


@pytest.mark.parametrize("share", [0.0, 0.4, 2.0])
def test_blocks_that_are_kept_are_those_that_are_read(tmp_path, monkeypatch, share):
    n_bytes = int(share * 50_400 * 32)
    monkeypatch.setattr("unshuffle.io.sources.parquet_source.CACHE_BYTES", n_bytes)
    source = source_of(write(tmp_path, DATA, [20_000, 30_400]), n_jobs=2)
    one = make_first_pass(source, 3)
    kept = [source.cache.find(group) is not None for group in source.places]
    assert sum(kept) == pytest.approx(min(share, 1.0) * len(kept), abs=1)
    assert sum(
        32 * g.n_rows for g, is_kept in zip(source.places, kept, strict=True) if is_kept
    ) <= (n_bytes)
    other = make_first_pass(source, 3)
    for name in ("sizes", "first", "second", "third"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(one.cells.values, other.cells.values)


def test_without_a_bag_column_every_file_is_a_bag(tmp_path):
    write(tmp_path, DATA, [400, 50_000])
    table = open_parquet(expand_paths([str(tmp_path)]))
    source = table.as_source("score", ["a", "b"], None)
    assert sorted(make_first_pass(source, 0).sizes) == [400, 50_000]


def write_folders(folder, sizes):
    """Write rows to folders named after their bags, the first bag to two files of one folder."""
    table = pa.table({"a": DATA.X[:, 0], "b": DATA.X[:, 1], "score": DATA.y})
    for run_name in range(3):
        own = table.filter(pa.array(DATA.groups == run_name)).slice(0, sizes[run_name])
        where = folder / f"run={run_name}"
        where.mkdir()
        cut = sizes[run_name] // 2 if run_name == 0 else sizes[run_name]
        for part, piece in enumerate((own.slice(0, cut), own.slice(cut))):
            if piece.num_rows:
                parquet.write_table(piece, where / f"part{part}.parquet")
    return folder


@pytest.mark.parametrize("sizes", [(900, 700, 500), (16_800, 16_800, 16_800)])
def test_folders_that_name_bags_are_a_column_of_bags(tmp_path, capsys, sizes):
    """Their files are not bags: labels of a bag may lie in another file than their rows."""
    write_folders(tmp_path, sizes)
    for data in (str(tmp_path), str(tmp_path / "*"), str(tmp_path / "*" / "*.parquet")):
        assert run(["fit", data, "--label", "score", "--bag", "run", "--method", "means"]) == 0
        assert "bag 'run' (3 bags), 2 features: a, b" in capsys.readouterr().err


def test_folders_that_name_no_bag_are_refused(tmp_path, capsys):
    for name in ("3", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"run={name}").mkdir()
        parquet.write_table(pa.table({"a": [1.0], "score": [1.0]}), tmp_path / f"run={name}/p.pq")
    asked = ["fit", str(tmp_path), "--label", "score", "--bag", "run"]
    assert_one_line(run(asked), capsys.readouterr(), ["DEFAULT", "names no bag", "leave the file"])


def test_files_in_folders_called_like_files_are_found_and_named_once(tmp_path):
    inner = tmp_path / "table.parquet"
    inner.mkdir()
    write(inner, DATA, [200, 100])
    files = [str(inner / f"part{k}.parquet") for k in range(2)]
    assert expand_paths([str(tmp_path)]) == expand_paths([str(tmp_path / "*")]) == files
    for again in (files[1], str(inner), str(inner / "*"), str(inner / "." / "part1.parquet")):
        with pytest.raises(InputError, match=r"part[01]\.parquet: named twice"):
            expand_paths([str(tmp_path), again])


@pytest.mark.parametrize("sizes", [(300, 200), (20_000, 30_400)])
def test_a_bag_column_that_no_file_has_is_said(tmp_path, capsys, sizes):
    write(tmp_path, DATA, sizes, run=DATA.groups)
    asked = ["fit", str(tmp_path), "--label", "score", "--bag", "rum", "--method", "means"]
    run(asked)
    said = capsys.readouterr().err
    assert "no file has a column 'rum', so that every file is a bag; did you mean 'run'?" in said


def test_a_label_of_text_is_told_from_features_of_text(tmp_path, capsys):
    write(tmp_path, DATA, [50_400])
    asked = ["fit", str(tmp_path), "--label", "run", "--features", "a,b"]
    words = ["part0.parquet: the label column 'run' holds no numbers", "name another"]
    assert_one_line(run(asked), capsys.readouterr(), words)


def test_features_stand_in_the_order_of_the_first_file(tmp_path):
    write(tmp_path, DATA, [20_000, 30_400])
    last = tmp_path / "part1.parquet"
    parquet.write_table(parquet.read_table(last).select(["b", "run", "score", "a"]), last)
    source = open_parquet(expand_paths([str(tmp_path)])).as_source("score", None, "run")
    assert source.features == ("a", "b")
    block = next(iter(source.read(source.places[-1])))
    assert np.array_equal(block.X[-1], DATA.X[-1])


def poke(values, at, value):
    values = values.copy()
    values[at] = value
    return values


BROKEN = {
    "a missing value": (
        {"a": poke(DATA.X[:, 0], 30_001, np.nan)},
        "row 10002: column 'a' is missing.*drop",
    ),
    "an infinity": ({"score": poke(DATA.y, 20_005, np.inf)}, "row 6: column 'score' is inf"),
    "no bag": (
        {"run": [None if i == 7 else "x" for i in range(50_400)]},
        "row 8: the bag column 'run' is missing",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_named_with_file_and_row(tmp_path, name):
    changes, words = BROKEN[name]
    write(tmp_path, DATA, [20_000, 30_400], **changes)
    with pytest.raises(InputError, match=f"part[01].parquet, {words}"):
        make_first_pass(source_of(tmp_path), 0)


def test_files_of_other_columns_types_or_no_rows_are_refused(tmp_path):
    write(tmp_path, DATA, [50_400])
    late = tmp_path / "part9.parquet"
    paths = [str(tmp_path / "part0.parquet"), str(late)]
    for table, words in (
        (pa.table({"a": [1.0]}), "part9.parquet: has no column 'b'"),
        (
            pa.table({"a": ["x"], "b": [1.0], "score": [1.0], "run": ["r"]}),
            "part9.parquet: column 'a' holds no numbers",
        ),
        (
            pa.table({"a": [0.0], "b": [1.0], "score": [1.0], "run": ["r"]}).slice(0, 0),
            "part9.parquet: the file holds no rows",
        ),
    ):
        parquet.write_table(table, late)
        with pytest.raises(InputError, match=words):
            open_parquet(paths)
    late.write_bytes(b"")
    with pytest.raises(InputError, match=r"part9\.parquet: the Parquet file is empty"):
        open_parquet(paths)


def test_a_row_group_that_cannot_be_read_is_named(tmp_path):
    path = write(tmp_path, DATA, [50_400], row_groups=50_400) / "part0.parquet"
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56  # the header of the first page
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"part0\.parquet: row group 0 .* cannot be read"):
        make_first_pass(source_of(tmp_path), 0)


def test_what_has_no_room_in_memory_is_refused_with_a_way_out(tmp_path, capsys, monkeypatch):
    write(tmp_path, DATA, [50_400])
    asked = ["fit", str(tmp_path / "part0.parquet"), "--label", "score", "--bag", "run"]
    monkeypatch.setattr("unshuffle.io.sources.room.find_room", lambda: 8 * 4 * 4 * 50_400 - 1)
    words = ["part0.parquet", "'p1'", "50400 rows of 4 columns", "--method auto"]
    assert_one_line(run([*asked, "--method", "p1"]), capsys.readouterr(), words)
    for more, way_out in ((["--missing", "drop"], "drop rows before"), (["--log10"], "logarithms")):
        words = ["part0.parquet", " ".join(more), "50400 rows of 4 columns", way_out]
        assert_one_line(run([*asked, *more]), capsys.readouterr(), words)
    words = ["part0.parquet: column 'run' holds text, which holds all 50400", "--features"]
    assert_one_line(run(asked[:-2]), capsys.readouterr(), words)


def test_the_command_streams_patterns_and_exits_2_on_a_missing_value(tmp_path, capsys):
    write(tmp_path, DATA, [20_000, 30_400], a=poke(DATA.X[:, 0], 25_000, np.nan))
    pattern = str(tmp_path / "*.parquet")
    asked = ["fit", pattern, "--label", "score", "--bag", "run", "--features", "a,b", "--quiet"]
    assert_one_line(
        run(asked), capsys.readouterr(), ["part1.parquet", "row 5001:", "'a'", "--missing drop"]
    )


@pytest.mark.parametrize("n", [300, 50_400])
def test_numbers_of_rows_that_pandas_writes_are_no_feature(tmp_path, capsys, n):
    pd = pytest.importorskip("pandas")
    data = {"a": DATA.X[:n, 0], "b": DATA.X[:n, 1], "score": DATA.y[:n], "run": DATA.groups[:n]}
    frame = pd.DataFrame(data).iloc[np.random.default_rng(2).permutation(n)]
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    assert "__index_level_0__" in parquet.ParquetFile(path).schema_arrow.names
    asked = ["fit", str(path), "--label", "score", "--bag", "run", "--method", "sm", "--json"]
    assert run(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["coefficients"]) == ["a", "b"]
    assert any("__index_level_0__" in note for note in found["data"]["notes"])
