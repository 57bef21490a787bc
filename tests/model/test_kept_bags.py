"""Properties of small bags in blocks: rows are kept, with the values of rows in memory."""

from dataclasses import replace

import numpy as np
import pytest

from oracles import central_differences, place_in_distribution, score_in_distribution
from simulated_device import COMPILER, SimulatedDevice
from unshuffle import Likelihood, kernels, make_bags, make_shuffled, shuffle_labels
from unshuffle.data.blocks.first_pass import make_first_pass
from unshuffle.data.blocks.sources import ArraySource, number_bags
from unshuffle.data.scaling import standardise, standardise_pass
from unshuffle.gpu.source import place_source
from unshuffle.io.paths import expand_paths
from unshuffle.io.sources.parquet_source import open_parquet
from unshuffle.kernels.transport.bags import MOST_ATOMS
from unshuffle.model import block_building
from unshuffle.model.block_building import build_blocks
from unshuffle.model.building import build_target
from unshuffle.model.goodness_of_fit import measure_misfit, measure_uneven
from unshuffle.model.nodes import SMALL_ROWS

# Of one row, exact, side by side, alone, placed by quantiles, and with nodes of predictions.
SIZES = [1, 1, 2, 5, 5, 9, 10, 11, 20, 20, 40, MOST_ATOMS + 20, SMALL_ROWS, 300, 3000]
DATA = make_shuffled(sum(SIZES), 3, bags=SIZES, snr_db=15, rng=1)


def as_source(data, **how):
    codes, n_bags = number_bags(data.groups, len(data.y))
    return ArraySource(data.X, data.y, codes, n_bags, **how)


def build_from_rows(data, n_jobs=None, **how):
    first = make_first_pass(as_source(data, n_jobs=n_jobs, **how), 1)
    scaling = standardise_pass(first, True)
    return build_blocks(first, scaling, None, Likelihood(), n_jobs)[0], scaling


def point_of(target, data, scaling, curve=0.03):
    w = data.weights * scaling.scale / scaling.label_scale
    theta = target.join(w, np.log(data.noise / scaling.label_scale) + 0.1)
    theta[target.term_places] = curve
    return theta


TARGET, SCALING = build_from_rows(DATA)
POINT = point_of(TARGET, DATA, SCALING)


# --- kernels ------------------------------------------------------------


def test_labels_are_placed_and_scored_as_by_their_plain_twins():
    rng = np.random.default_rng(4)
    offsets, label_offsets = np.array([0, 3, 8]), np.array([0, 4, 6])
    z, y = rng.standard_normal(8), np.array([-9.0, 0.1, 0.1, 7.0, -0.5, 0.6])
    places, scores = np.empty(6), np.empty((6, 4))
    kernels.place_labels(z, offsets, y, label_offsets, 0.4, places)
    kernels.score_labels(z, offsets, y, label_offsets, 0.4, 1.3, scores)
    for r in range(2):
        own, part = z[offsets[r] : offsets[r + 1]], slice(label_offsets[r], label_offsets[r + 1])
        # Predictions beyond 8 · √2 sds are wholly on one side.
        np.testing.assert_allclose(
            places[part], place_in_distribution(y[part], own, 0.4), atol=1e-14
        )
        np.testing.assert_allclose(
            scores[part], score_in_distribution(y[part], own, 0.4, 1.3), rtol=1e-12
        )


# --- targets ------------------------------------------------------------


def test_small_bags_say_what_they_say_in_memory():
    sizes = [1, 5, 10, 20, 200, 30, 700] + 20 * [20]
    data = make_shuffled(sum(sizes), 3, bags=sizes, snr_db=15, rng=2)
    standard, _ = standardise(make_bags(data.X, data.y, data.groups), True, True)
    plain = build_target(standard, True, None, Likelihood())[0]
    block, scaling = build_from_rows(data)
    assert block.within_bag.n_kept == len(sizes)
    theta = point_of(block, data, scaling)
    (value, gradient), (expected, slopes) = block(theta), plain(theta)
    # The same rows in the same units, but for the rounding of their moments.
    assert value == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(gradient, slopes, atol=1e-6 * np.abs(slopes).max())


def test_slopes_of_kept_bags_are_differences_of_their_values():
    gradient = TARGET(POINT)[1]
    found = central_differences(lambda at: TARGET(at)[0], POINT, 1e-5)
    # Scaling leaves margins unmet by 1e-6 nats a step.
    np.testing.assert_allclose(found, gradient, atol=3e-4 * np.abs(gradient).max())


@pytest.mark.parametrize(("rows", "n_jobs"), [(97, 1), (100_000, 3), (500, 2)])
def test_values_are_the_same_for_any_blocks_threads_and_orders(rows, n_jobs):
    rng = np.random.default_rng(5)
    order = rng.permutation(len(DATA.y))
    names = rng.permutation(len(SIZES))[DATA.groups]
    moved = replace(
        DATA, X=DATA.X[order], groups=names[order],
        y=shuffle_labels(DATA.y, DATA.groups, rng)[order],
    )  # fmt: skip
    other = build_from_rows(moved, n_jobs, block_rows=rows)[0]
    thetas = POINT + rng.normal(0.0, 0.05, (4, len(POINT)))
    assert np.array_equal(TARGET.parts(thetas), other.parts(thetas))
    assert np.array_equal(TARGET.parts(thetas)[2:], TARGET.parts(thetas[2:]))
    (value, gradient), (same, again) = TARGET(POINT), other(POINT)
    assert value == same and np.array_equal(gradient, again)


def test_what_has_no_room_is_counted_in_cells_and_says_the_same(monkeypatch):
    assert TARGET.within_bag.n_kept == len(SIZES)
    # Rows of three columns and labels: eight bytes each.
    monkeypatch.setattr(block_building, "KEPT_BYTES", 8.0 * 4.0 * 500)
    less = build_from_rows(DATA)[0]
    assert less.within_bag.n_kept == (np.cumsum(SIZES) <= 500).sum()
    # Two grids of one distribution.
    assert less(POINT)[0] == pytest.approx(TARGET(POINT)[0], abs=0.3)
    monkeypatch.setattr(block_building, "KEPT_BYTES", 1e9)
    monkeypatch.setattr(block_building, "KEPT_ROWS", 20)
    assert build_from_rows(DATA)[0].within_bag.n_kept == (np.array(SIZES) <= 20).sum()


def test_bags_are_kept_with_their_own_rows_and_labels_in_ascending_order():
    kept = TARGET.within_bag.kept
    units = (DATA.X - SCALING.centre) / SCALING.scale
    y = (DATA.y - SCALING.label_centre) / SCALING.label_scale
    sizes = np.bincount(DATA.groups)
    assert np.array_equal(np.diff(kept.offsets), np.sort(sizes))
    for r, (start, stop) in enumerate(zip(kept.offsets[:-1], kept.offsets[1:], strict=True)):
        labels, rows = kept.labels[start:stop], kept.rows[:, start:stop].T
        assert (np.diff(labels) >= 0.0).all()
        # Bags of one size come in an order of their own: one of them has these labels and rows.
        found = []
        for group in np.flatnonzero(sizes == stop - start):
            own = np.sort(y[DATA.groups == group])
            mine = units[DATA.groups == group]
            order, other = np.lexsort(mine.T), np.lexsort(rows.T)
            found.append(
                np.allclose(labels, own - own.mean(), atol=1e-12)
                and np.allclose(mine[order], rows[other], atol=1e-12)
                and np.allclose(TARGET.bag_labels[r], own.mean(), atol=1e-12)
            )
        assert sum(found) == 1


def test_labels_of_small_bags_lie_in_their_distribution_as_in_memory():
    data = make_shuffled(3560, 3, bags=[*[20] * 50, *[128] * 20], snr_db=12, rng=7)
    standard, _ = standardise(make_bags(data.X, data.y, data.groups), True, True)
    plain = build_target(standard, True, None, Likelihood())[0]
    block, scaling = build_from_rows(data)
    for shift in (0.0, 0.5):
        theta = point_of(block, data, scaling)
        theta[block.p] += shift  # noise that is too large is a misfit
        misfits = [measure_misfit(each, theta) for each in (block, plain)]
        # Labels within a 128th of a spread are one bin here.
        assert misfits[0] == pytest.approx(misfits[1], abs=0.5 + 0.02 * misfits[1])
        uneven = [measure_uneven(each, theta) for each in (block, plain)]
        assert uneven[0] == pytest.approx(uneven[1], abs=0.1)


def test_labels_of_larger_bags_lie_in_their_distribution_as_where_rows_are_counted(monkeypatch):
    data = make_shuffled(6000, 3, bags=[1000, 2000, 3000], snr_db=12, rng=7)
    kept, scaling = build_from_rows(data)
    monkeypatch.setattr(block_building, "KEPT_ROWS", 0)
    counted = build_from_rows(data)[0]
    assert (kept.within_bag.n_kept, counted.within_bag.n_kept) == (3, 0)
    theta = point_of(kept, data, scaling)
    theta[kept.p] += 0.5
    # Nodes of a sixth of sigma, which begin elsewhere.
    one, other = (measure_misfit(each, theta) for each in (kept, counted))
    assert one == pytest.approx(other, abs=0.05, rel=0.01)
    one, other = (measure_uneven(each, theta) for each in (kept, counted))
    assert one == pytest.approx(other, abs=0.05)


def test_means_of_very_many_bags_are_added_up_once():
    sizes = [2] * 300 + [3] * 300
    data = make_shuffled(sum(sizes), 3, bags=sizes, snr_db=10, rng=8)
    target = build_from_rows(data)[0].with_effects(0.3, None, 0.3)
    assert target._mean_statistics is not None
    predictions = target.read_points(np.random.default_rng(0).normal(0.0, 0.4, (30, target.dim)))
    found = target._evaluate_means(predictions)
    for k in range(30):
        gaps = target.bag_labels - target.bag_rows @ predictions.w[k]
        for each, coef in zip(target.terms, predictions.coefs[k], strict=True):
            w = predictions.w[k : k + 1]
            gaps -= coef * (each.bag_means(w)[0] - each.means(w))
        expected = target.means.evaluate(gaps, np.zeros(600), float(predictions.log_sigmas[k]))[0]
        # Of squares of labels what is left is their noise.
        assert found[k] == pytest.approx(expected, rel=1e-10)


# --- sources ------------------------------------------------------------


def read_parquet(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {f"x{j}": column for j, column in enumerate(DATA.X.T)}
    table = pa.table({**columns, "score": DATA.y, "run": [f"run {g}" for g in DATA.groups]})
    for k, start in enumerate(range(0, len(DATA.y), 1500)):
        piece = table.slice(start, 1500)
        parquet.write_table(piece, tmp_path / f"part{k}.parquet", row_group_size=400)
    table = open_parquet(expand_paths([str(tmp_path / "*.parquet")]))
    return table.as_source("score", list(columns), "run", n_jobs=2)


def read_dask(_):
    da = pytest.importorskip("dask.array")
    dask_source = pytest.importorskip("unshuffle.io.dask.source")
    dask_pieces = pytest.importorskip("unshuffle.io.dask.pieces")
    parts = [da.from_array(each, chunks=(900, 2)[: each.ndim]) for each in (DATA.X, DATA.y)]
    pieces = dask_pieces.cut_into_pieces(*parts, da.from_array(DATA.groups, chunks=900))
    return dask_source.as_dask_source(pieces[0])


def send_to_card(_):
    if COMPILER is None:
        pytest.skip("there is no C++ compiler")
    return place_source(as_source(DATA), SimulatedDevice())


@pytest.mark.parametrize("read", [read_parquet, read_dask, send_to_card])
def test_small_bags_have_the_same_bits_from_every_source(read, tmp_path):
    first = make_first_pass(read(tmp_path), 1)
    there = build_blocks(first, standardise_pass(first, True), None, Likelihood())[0]
    assert there.within_bag.n_kept == TARGET.within_bag.n_kept
    (value, gradient), (same, again) = TARGET(POINT), there(POINT)
    assert value == same and np.array_equal(gradient, again)
    assert np.array_equal(TARGET.parts(POINT[None]), there.parts(POINT[None]))
