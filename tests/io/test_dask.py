"""Properties of data of Dask: the bits of the same rows in memory, and errors of one line."""

import json
import os
import pickle
import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from command_line import assert_one_line, start
from oracles import filled_cells
from registry_examples import CHEAP
from targets import read_parameters
from unshuffle import Likelihood, ShuffledLinearRegression, kernels, make_shuffled, shuffle_labels
from unshuffle.cli.app import run
from unshuffle.data.blocks.first_pass import make_first_pass
from unshuffle.data.blocks.row_sample import RowSample, add_far
from unshuffle.data.blocks.sources import ArraySource, Pass, number_bags
from unshuffle.data.scaling import standardise_pass
from unshuffle.errors import InputError
from unshuffle.io.dask import passes
from unshuffle.io.dask.passes import Parcel, pack, unpack
from unshuffle.io.dask.pieces import Piece, cut_into_pieces, sort_piece
from unshuffle.io.dask.source import as_dask_source, plan_moves
from unshuffle.model import block_likelihood
from unshuffle.model.block_building import build_blocks

dask = pytest.importorskip("dask", reason="Dask is not installed")
distributed = pytest.importorskip("distributed", reason="Dask's clusters are not installed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

DATA = make_shuffled(50_400, 2, bags=3, snr_db=15, rng=0)


def as_frame(data):
    return pd.DataFrame(
        {"a": data.X[:, 0], "b": data.X[:, 1], "score": data.y}
        | {"run": [f"run {g}" for g in data.groups]}
    )


def cut(frame, sizes):
    """Return a table of Dask of unknown divisions, in partitions of so many rows."""
    ends = np.cumsum([0, *sizes])
    parts = [frame.iloc[i:j] for i, j in pairwise(ends)]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=frame.iloc[:0])


def columns_of(ddf):
    return ddf[["a", "b"]], ddf["score"], ddf["run"]


def fit(X, y, groups, method=CHEAP, **how):
    return ShuffledLinearRegression(method, random_state=0, **how).fit(X, y, groups)


def same_fit(one, other):
    same = np.array_equal(one.coef_, other.coef_) and one.intercept_ == other.intercept_
    return same and np.array_equal(one.conf_int(), other.conf_int())


def same_pass(one, other):
    names = ("sizes", "base", "reach", "first", "second", "third", "label_ends", "label_square")
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    pairs += [(getattr(one.cells, n), getattr(other.cells, n)) for n in ("values", "counts")]
    pairs += [(getattr(one.sample, n), getattr(other.sample, n)) for n in ("rows", "counts")]
    return all(np.array_equal(a, b) for a, b in pairs)


def source_of(X, y, groups=None):
    return as_dask_source(cut_into_pieces(X, y, groups)[0])


@pytest.fixture(scope="module")
def first():
    codes, n_bags = number_bags(DATA.groups, len(DATA.y))
    return make_first_pass(ArraySource(DATA.X, DATA.y, codes, n_bags), 3)


@pytest.fixture(scope="module")
def in_memory():
    return fit(*columns_of(as_frame(DATA)))


@pytest.fixture(scope="module")
def cluster():
    """Two processes of one thread, forked from one that has imported what they need."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        context = distributed.utils.get_mp_context()
        needed = ["distributed", "dask.dataframe", "unshuffle.inference.blocks"]
        context.set_forkserver_preload(needed)
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as started:
            yield started


@pytest.mark.parametrize("method", ["sm", "means"])
def test_moments_of_many_rows_give_the_fit_of_memory(method):
    frame = as_frame(DATA)
    one = fit(*columns_of(frame), method=method)
    other = fit(*columns_of(cut(frame, [20_000, 400, 30_000])), method=method)
    assert np.array_equal(one.coef_, other.coef_) and one.intercept_ == other.intercept_


# --- predictions --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_predictions_of_dask_are_those_of_memory(in_memory, kind):
    frame = as_frame(DATA).iloc[:2000]
    rows = frame[["a", "b"]]
    model, lazy = in_memory, cut(frame, [700, 0, 1300])[["a", "b"]]
    if kind == "array":
        model = fit(DATA.X[:300], DATA.y[:300], None, method="ls")
        rows, lazy = rows.to_numpy(), da.from_array(rows.to_numpy(), chunks=(600, 1))
    found = model.predict(lazy)
    assert not isinstance(found, np.ndarray)
    assert np.array_equal(np.asarray(found), model.predict(rows))
    if kind == "frame":
        assert np.array_equal(found.compute().index, rows.index)
        sds = model.predict(lazy, return_std=True)[1]
        assert np.array_equal(np.asarray(sds), model.predict(rows, return_std=True)[1])
        ends = model.predict_interval(lazy, 0.8, new_label=True).compute()
        assert list(ends.columns) == ["low", "high"]
        assert np.array_equal(ends.to_numpy(), model.predict_interval(rows, 0.8, new_label=True))


def test_predictions_of_dask_refuse_at_once_what_cannot_be(in_memory):
    frame = cut(as_frame(DATA).iloc[:100], [100])
    with pytest.raises(InputError, match=r"X must be a table, as ddf"):
        in_memory.predict(frame["a"])
    plain = fit(DATA.X[:300], DATA.y[:300], None, method="ls")
    with pytest.raises(InputError, match=r"ls"):
        plain.predict_interval(da.from_array(DATA.X[:10]))


# --- the same bits ------------------------------------------------------------

CUTS = {
    "one partition": [50_400],
    "many": [5_040] * 10,
    "uneven, some empty": [0, 1, 30_000, 0, 20_399, 0],
}


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
@pytest.mark.parametrize("name", CUTS)
def test_partitions_of_a_frame_give_the_first_pass_of_arrays(first, name, scheduler):
    with dask.config.set(scheduler=scheduler):
        assert same_pass(
            first, make_first_pass(source_of(*columns_of(cut(as_frame(DATA), CUTS[name]))), 3)
        )


@pytest.mark.parametrize("name", CUTS)
def test_far_rows_of_dask_are_those_of_arrays(first, name):
    other = make_first_pass(source_of(*columns_of(cut(as_frame(DATA), CUTS[name]))), 3)
    units = first.mean, 1.0 / first.spreads(first.mean)
    few = RowSample(*(each[:5000] for each in vars(first.sample).values()))
    mine, theirs = (add_far(few, each.source, *units) for each in (first, other))
    assert len(mine.rows) > 30_000
    for one, two in zip(vars(mine).values(), vars(theirs).values(), strict=True):
        assert np.array_equal(one, two)


def test_the_order_of_rows_and_labels_in_dask_changes_nothing(first):
    rng = np.random.default_rng(1)
    order = rng.permutation(len(DATA.y))
    y = shuffle_labels(DATA.y, DATA.groups, rng)
    moved = replace(DATA, X=DATA.X[order], y=y[order], groups=DATA.groups[order])
    assert same_pass(
        first, make_first_pass(source_of(*columns_of(cut(as_frame(moved), CUTS["many"]))), 3)
    )


def test_pieces_are_kept_with_the_rows_of_every_bag_together():
    rng = np.random.default_rng(2)
    for n in (0, 1, 400):
        codes = rng.integers(0, 3, n).astype(np.int32)
        piece = Piece(rng.random((n, 2)), rng.random(n), codes, ("a", "b", "c"))
        found = sort_piece(piece)
        order = np.argsort(codes, kind="stable")
        for name in ("X", "y", "codes"):
            assert np.array_equal(getattr(found, name), getattr(piece, name)[order])
        assert found.keys == piece.keys and found.codes.dtype == np.int32
        assert np.array_equal(piece.codes, codes)
        assert sort_piece(found) is found
    assert sort_piece("what is wrong") == "what is wrong"
    kept = source_of(*columns_of(cut(as_frame(DATA), CUTS["many"]))).pieces
    assert all(np.count_nonzero(np.diff(piece.compute().codes)) <= 2 for piece in kept)


@pytest.mark.parametrize("chunks", [(50_400, 2), (7_000, 1)])
def test_arrays_of_dask_give_the_first_pass_of_arrays(first, chunks):
    X, y, groups = (
        da.from_array(each, chunks=chunks[: each.ndim]) for each in (DATA.X, DATA.y, DATA.groups)
    )
    assert same_pass(first, make_first_pass(source_of(X, y, groups), 3))
    names = da.from_array(np.array(as_frame(DATA)["run"], dtype=object), chunks=chunks[0])
    assert same_pass(first, make_first_pass(source_of(X, y, names), 3))


def test_arrays_of_unknown_lengths_and_mixed_kinds_are_welcome(first):
    X, y, groups = columns_of(cut(as_frame(DATA), CUTS["many"]))
    assert np.isnan(X.values.shape[0])
    assert same_pass(first, make_first_pass(source_of(X.values, y.values, groups), 3))


def test_short_floats_stay_short_and_give_the_bits_of_long_ones():
    X = DATA.X.astype(np.float32)
    source = source_of(da.from_array(X, chunks=(9_000, 2)), da.from_array(DATA.y, chunks=9_000))
    assert source.pieces[0].compute().X.dtype == np.float32
    codes, n_bags = number_bags(None, len(X))
    assert same_pass(
        make_first_pass(ArraySource(X, DATA.y, codes, n_bags), 3), make_first_pass(source, 3)
    )


def test_many_rows_in_threads_give_the_fit_of_memory(in_memory):
    found = fit(*columns_of(cut(as_frame(DATA), CUTS["uneven, some empty"])))
    assert same_fit(in_memory, found)
    assert list(found.feature_names_in_) == ["a", "b"] and found.n_features_in_ == 2
    assert str(found.summary()) == str(in_memory.summary())


@pytest.mark.parametrize("method", ["auto", "ls"])
def test_few_rows_are_gathered_and_give_the_fit_of_memory(method):
    data = make_shuffled(400, 2, bags=4, snr_db=15, rng=1)
    one = fit(*columns_of(as_frame(data)), method=method)
    other = fit(*columns_of(cut(as_frame(data), [0, 100, 300])), method=method)
    assert np.array_equal(one.coef_, other.coef_) and one.intercept_ == other.intercept_
    assert list(other.feature_names_in_) == ["a", "b"]
    assert str(one.summary()) == str(other.summary())


def test_a_worker_killed_in_the_middle_changes_nothing(cluster, in_memory, monkeypatch):
    plain, fetch, submitted, fetched, killed = passes.submit, passes.finish, [], [], []

    def kill_once(client, work, groups):
        submitted.append(groups)
        # One pass is under way, and the next is submitted.
        if len(submitted) > 20 and len(submitted) - len(fetched) > 1 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)
        return plain(client, work, groups)

    monkeypatch.setattr(passes, "submit", kill_once)
    monkeypatch.setattr(passes, "finish", lambda *args: fetched.append(1) or fetch(*args))
    # Few points at a time, so that there are next passes.
    monkeypatch.setattr(block_likelihood, "MEMORY", 1e6)
    with distributed.Client(cluster) as client:
        found = fit(*columns_of(cut(as_frame(DATA), CUTS["many"])))
        # Both workers had their share of the partitions.
        assert len(submitted[0]) == 2
        assert len(killed) == 1 and killed[0] not in client.run(os.getpid).values()
    assert same_fit(in_memory, found)


def list_counts(n):
    """Return passes that count the rows of every bag: once, twice, …, n times."""
    return [
        Pass(partial(np.zeros, (3, 2), np.int64), partial(count, k + 1), add_to) for k in range(n)
    ]


def count(times, total, block):
    np.add.at(total[:, 0], block.codes, times)


def add_to(total, other):
    total += other
    return total


@pytest.mark.parametrize("where", ["cluster", "threads"])
def test_totals_of_many_passes_come_in_order_and_only_workers_are_ahead(where, request):
    names = columns_of(cut(as_frame(DATA), CUTS["many"]))
    sizes = np.unique(DATA.groups, return_counts=True)[1]
    with ExitStack() as stack:
        if where == "cluster":
            stack.enter_context(distributed.Client(request.getfixturevalue("cluster")))
        source = source_of(*names)
        for n in (0, 1, 2, 7):
            asked = []
            totals = source.add_up_all(
                asked.append(k) or each for k, each in enumerate(list_counts(n))
            )
            ahead = passes.AHEAD if where == "cluster" else 0
            for k, total in enumerate(totals):
                assert sorted(total[:, 0]) == sorted((k + 1) * sizes)
                assert len(asked) == min(n, k + 1 + ahead)
            assert len(asked) == n


BAGS = {
    "one": 1,
    "fewer than workers": [50_000, 400],
    "many": 40,
    "small ones beside large": [1, 2, 7, 300, 20_090, 30_000],
}


@pytest.mark.parametrize("name", BAGS)
def test_bags_are_matched_with_the_bits_of_memory(name, cluster, monkeypatch):
    """Wherever their rows lie: three groups of pieces on two workers, few points a pass."""
    monkeypatch.setattr(block_likelihood, "MEMORY", 1e6)
    data = make_shuffled(50_400, 2, bags=BAGS[name], snr_db=15, rng=4)
    codes, n_bags = number_bags(data.groups, len(data.y))
    rng = np.random.default_rng(3)
    points = [(rng.normal(0.0, 0.5, 2), rng.uniform(-2.0, -1.0), 0.02) for _ in range(9)]
    found = []
    with distributed.Client(cluster):
        source = source_of(*columns_of(cut(as_frame(data), CUTS["many"])))
        source = replace(source, groups=((0, 3, 6, 9), (1, 4, 7), (2, 5, 8)))
        for each in (ArraySource(data.X, data.y, codes, n_bags), source):
            first = make_first_pass(each, 3)
            target = build_blocks(first, standardise_pass(first, True), None, Likelihood())[0]
            params = read_parameters(target, points)
            with_slopes = target.within_bag.evaluate(params, target.power, True, None)
            found.append(
                [*with_slopes, target.within_bag.evaluate(params, target.power, False, None)[0]]
            )
    for here, there in zip(*found, strict=True):
        assert np.array_equal(here, there)


def test_pieces_are_shared_out_among_workers_by_their_rows(cluster, first, monkeypatch):
    cut_in_six = columns_of(cut(as_frame(DATA), [8400] * 6))
    with distributed.Client(cluster) as client:
        addresses = sorted(client.nthreads())

        def pile_up(places, sizes, n_threads):
            assert sorted(n_threads) == addresses
            return {k: addresses[0] for k in range(6)}

        with monkeypatch.context() as patch:
            patch.setattr("unshuffle.io.dask.source.plan_moves", pile_up)
            piled = source_of(*cut_in_six)
        shared = source_of(*cut_in_six)
        assert [len(group) for group in piled.groups] == [6]
        assert sorted(len(group) for group in shared.groups) == [3, 3]
        assert same_pass(first, make_first_pass(shared, 3))
        # A piece that was moved is made again where its worker is lost.
        os.kill(client.run(os.getpid)[addresses[0]], signal.SIGKILL)
        assert same_pass(first, make_first_pass(piled, 3))


def test_moves_share_rows_out_by_threads_and_leave_what_is_even():
    rng = np.random.default_rng(5)
    n_threads = {"a": 1, "b": 2, "c": 4}
    for _ in range(50):
        sizes = rng.integers(1, 100, 30).tolist()
        places = rng.choice(list(n_threads), 30).tolist()
        moves = plan_moves(places, sizes, n_threads)
        after = [moves.get(k, place) for k, place in enumerate(places)]

        def fullest(where, sizes=sizes):
            kept = dict.fromkeys(n_threads, 0)
            for place, size in zip(where, sizes, strict=True):
                kept[place] += size
            return max(kept[place] / n_threads[place] for place in kept)

        assert fullest(after) <= fullest(places)
        # A worker is no fuller than even by more than a piece for its thread.
        assert fullest(after) <= sum(sizes) / 7 + max(sizes)
        assert all(places[k] != place for k, place in moves.items())


def test_totals_are_packed_on_their_way_and_come_out_as_they_went_in():
    rng = np.random.default_rng(0)
    for share in (0.0, 0.1, 0.9):
        total = rng.integers(-9, 9, (300, 3)) * (rng.random((300, 1)) < share)
        parcel = pack(total)
        assert unpack(parcel) is total
        moved = pickle.loads(pickle.dumps(parcel))
        assert isinstance(moved, Parcel) == (share > 0.5)
        assert np.array_equal(unpack(moved), total) and unpack(moved).dtype == total.dtype
        assert np.array_equal(kernels.find_filled(total), filled_cells(total))
    for other in (np.ones(3), [1, 2], 5):
        assert pack(other) is other and unpack(other) is other


def test_many_groups_are_merged_in_a_tree(first):
    source = source_of(*columns_of(cut(as_frame(DATA), [504] * 100)))
    one_each = replace(source, groups=tuple((k,) for k in range(100)))
    assert same_pass(first, make_first_pass(one_each, 3))


# --- what is wrong ------------------------------------------------------------


def poke(name, at, value):
    frame = as_frame(DATA)
    if isinstance(value, str):
        frame[name] = frame[name].astype(object)
    frame.loc[at, name] = value
    return frame


BROKEN = {
    "a missing value": (poke("a", 5_050, np.nan), "^partition 1: row 10 .*'a' of X.*drop the row"),
    "an infinity": (poke("score", 50_399, np.inf), "^partition 9: row 5039 .*infinity in y"),
    "a text": (poke("b", 7, "tall"), "^partition 0: row 7 .*'tall' .*'b' of X.*no number"),
    "no bag": (poke("run", 5_040, None), "^partition 1: row 0 .*no bag in groups.*drop"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_named_with_partition_and_row(name):
    frame, words = BROKEN[name]
    with (
        dask.config.set({"dataframe.convert-string": False}),
        pytest.raises(InputError, match=words),
    ):
        fit(*columns_of(cut(frame, CUTS["many"])))


def test_columns_of_text_and_dates_are_refused_by_name():
    frame = as_frame(DATA).iloc[:20]
    with pytest.raises(InputError, match=r"column 'run' of X holds text .*get_dummies"):
        fit(
            cut(frame, [20])[["a", "run"]].astype({"run": "string"}),
            cut(frame, [20])["score"],
            None,
        )
    dated = cut(frame.assign(a=pd.Timestamp("2020-01-01")), [20])
    with pytest.raises(InputError, match="column 'a' of X holds dates"):
        fit(*columns_of(dated))


def test_partitions_that_do_not_fit_together_are_named():
    frame = as_frame(DATA)
    one, other = cut(frame, [50_000, 400]), cut(frame, [50_001, 399])
    with pytest.raises(InputError, match=r"^partition 0: X has 50000 rows but y has 50001.*alike"):
        fit(one[["a", "b"]], other["score"], one["run"])
    with pytest.raises(InputError, match=r"X has 2 partitions but groups has 10.*partition 2"):
        fit(one[["a", "b"]], one["score"], cut(frame, CUTS["many"])["run"])
    with pytest.raises(InputError, match="y is Series where X is of Dask: take all from one"):
        fit(one[["a", "b"]], frame["score"], one["run"])
    with pytest.raises(InputError, match="X must be a table"):
        fit(one["a"], one["score"], one["run"])
    with pytest.raises(InputError, match="2 partitions hold no rows"):
        fit(*columns_of(cut(frame.iloc[:0], [0, 0])))


# --- the command ------------------------------------------------------------


def write(folder, frame):
    for k, part in enumerate((frame.iloc[:30_000], frame.iloc[30_000:])):
        part.to_parquet(folder / f"part{k}.parquet", index=False, row_group_size=9_000)
    return ["fit", str(folder / "*.parquet"), "--label", "score", "--bag", "run", "--quiet"]


def test_the_command_gives_the_same_digits_on_a_cluster(cluster, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    asked = [*write(tmp_path, as_frame(DATA)), "--method", "ls"]
    objects = []
    for more in ([], ["--dask", cluster.scheduler_address]):
        assert run([*asked, "--json", *more]) == 0
        objects.append(json.loads(capsys.readouterr().out))
    one, other = objects
    assert {name for name in one if one[name] != other[name]} == {"data", "provenance"}
    assert "by Dask" in other["data"]["notes"][0]


def test_the_command_names_file_and_row_of_a_missing_value(cluster, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    asked = write(tmp_path, poke("a", 30_005, np.nan))
    code = run([*asked, "--dask", cluster.scheduler_address])
    assert_one_line(code, capsys.readouterr(), ["part1.parquet", "row 6:", "'a'", "drop"])


WRONG = {
    "a method in memory": (["--method", "p1"], ["--dask", "--method auto"]),
    "logarithms": (["--log10"], ["--dask", "--log10", "leave out"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_no_cluster_can_do_is_refused(tmp_path, capsys, name):
    pytest.importorskip("pyarrow")
    more, words = WRONG[name]
    asked = write(tmp_path, as_frame(DATA))
    assert_one_line(run([*asked, "--dask", "local", *more]), capsys.readouterr(), words)


def test_few_rows_are_read_here_and_it_is_said(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    as_frame(DATA).iloc[:300].to_parquet(tmp_path / "few.parquet")
    asked = ["fit", str(tmp_path / "few.parquet"), "--label", "score", "--bag", "run"]
    assert run([*asked, "--dask", "local"]) == 0
    assert "300 rows are few: fitted here, without Dask" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("moment", ["starting Dask", "looking for modes"])
def test_an_interrupt_of_all_processes_is_one_line(tmp_path, moment):
    """As a terminal does it: workers hear of it too, and would each print where they were."""
    pytest.importorskip("pyarrow")
    *asked, _ = write(tmp_path, as_frame(DATA))
    process = start([*asked, "--dask", "local", "--jobs", "2", "--verbose"], start_new_session=True)
    said = ""
    while moment not in said:
        said = process.stderr.readline().decode()
        assert said, "ended before it could be interrupted"
    os.killpg(process.pid, signal.SIGINT)
    _, rest = process.communicate(timeout=100)
    # By the signal itself where it came while `exec` ran a string: see test_cli_streams.py.
    assert process.returncode in (130, -signal.SIGINT)
    assert rest.decode().splitlines().count("unshuffle: interrupted") == 1
    for words in ("Traceback", "KeyboardInterrupt", "never retrieved"):
        assert words not in rest.decode()


def test_without_dask_the_command_says_what_to_install(tmp_path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    asked = [*write(tmp_path, as_frame(DATA)), "--dask", "local"]
    monkeypatch.setitem(sys.modules, "distributed", None)
    words = ["pip install 'unshuffle[dask]'"]
    assert_one_line(run(asked), capsys.readouterr(), words)
    # Before files are read, which may take long.
    Path(tmp_path / "part1.parquet").write_bytes(b"")
    assert_one_line(run(asked), capsys.readouterr(), words)
