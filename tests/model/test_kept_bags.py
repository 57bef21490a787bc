"""Properties of small bags in blocks: their rows are kept, with the values of rows in memory."""

from dataclasses import replace
from math import lgamma

import numpy as np
import pytest

from oracles import central_differences, log_permanent, place_in_distribution, score_in_distribution
from simulated_device import COMPILER, SimulatedDevice
from unshuffle import Likelihood, kernels, make_bags, make_shuffled, shuffle_labels
from unshuffle.data.blocks.first_pass import look_at
from unshuffle.data.blocks.sources import ArraySource, number_bags
from unshuffle.data.scaling import standardise, standardise_pass
from unshuffle.gpu.source import place_source
from unshuffle.io.paths import expand_paths
from unshuffle.io.sources.parquet_source import open_parquet
from unshuffle.kernels.transport.grid import CELLS_PER_SIGMA
from unshuffle.kernels.transport.lanes import LANES
from unshuffle.model import kept_bags
from unshuffle.model.block_building import pose_blocks
from unshuffle.model.building import pose
from unshuffle.model.goodness_of_fit import measure_misfit, measure_uneven
from unshuffle.model.kept_bags import LANE_ROWS, SMALL_ROWS, count_held, hold_bags

# Of one row, exact, side by side, on lattices of their own, placed by quantiles, and counted.
SIZES = [1, 1, 2, 5, 5, 9, 10, 11, 20, 20, LANE_ROWS, LANE_ROWS + 1, 100, SMALL_ROWS, 300, 3000]
DATA = make_shuffled(sum(SIZES), 3, bags=SIZES, snr_db=15, rng=1)


def as_source(data, **how):
    codes, n_bags = number_bags(data.groups, len(data.y))
    return ArraySource(data.X, data.y, codes, n_bags, **how)


def build_from_rows(data, n_jobs=None, **how):
    first = look_at(as_source(data, n_jobs=n_jobs, **how), 1)
    scaling = standardise_pass(first, True)
    return pose_blocks(first, scaling, None, Likelihood(), n_jobs)[0], scaling


def point_of(target, data, scaling, curve=0.03):
    w = data.weights * scaling.scale / scaling.label_scale
    theta = target.join(w, np.log(data.noise / scaling.label_scale) + 0.1)
    theta[target.curve_place] = curve
    return theta


TARGET, SCALING = build_from_rows(DATA)
POINT = point_of(TARGET, DATA, SCALING)


# --- kernels ------------------------------------------------------------


def match_lanes(z, y, sigma=1.0, wants_slopes=True):
    """Return what bags of one column say, (m, LANES) both, each centred."""
    m = len(z)
    values, by_log_sigma = np.empty((1, LANES)), np.empty((1, LANES))
    gradients = np.empty((1, 3, LANES))
    kernels.match_small_bags(
        z[None, None], y[None], np.zeros((1, LANES)), np.ones(1), 0.0, sigma, wants_slopes, 1e-6,
        values, by_log_sigma, gradients,
    )  # fmt: skip
    assert values.shape[1] == z.shape[1] and m == z.shape[0]
    return values[0], by_log_sigma[0], gradients[0]


def draw_bags(m, seed, sigma=0.3):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((m, LANES))
    y = z + sigma * rng.standard_normal((m, LANES))
    return z - z.mean(axis=0), np.sort(y - y.mean(axis=0), axis=0)


@pytest.mark.parametrize("m", [2, 3, 6])
def test_permanents_of_tiny_bags_are_exact(m):
    z, y = draw_bags(m, m)
    found = match_lanes(z, y, 0.3)[0]
    for k in range(LANES):
        logs = -0.5 * ((z[:, k, None] - y[:, k]) / 0.3) ** 2
        # Eight terms of the exponential, squared ten times.
        assert found[k] == pytest.approx(log_permanent(logs) - lgamma(m + 1.0), abs=1e-10)


@pytest.mark.parametrize("m", [2, 10, 11, 20])
@pytest.mark.parametrize("sigma", [0.02, 0.3, 3.0])
def test_bags_side_by_side_say_what_they_say_in_memory(m, sigma):
    z, y = draw_bags(m, 0)
    found, by_log_sigma, gradients = match_lanes(z, y, sigma)
    # Where noise is large rows in memory lie on a grid.
    is_on_grid = (np.ptp(y, axis=0) * CELLS_PER_SIGMA < m * sigma) & (m > 10)
    assert is_on_grid.all() == (sigma == 3.0 and m > 10)
    for k in np.flatnonzero(~is_on_grid):
        value, gradient, slope = kernels.log_likelihood(
            np.ascontiguousarray(z[None, :, k]), np.ascontiguousarray(y[:, k]), np.array([0, m]),
            np.ones(1), np.log(sigma), True,
        )  # fmt: skip
        inner = m - 1
        # Both end where a step gains a millionth of a nat, and corrections are not stationary.
        assert found[k] - inner * np.log(sigma) == pytest.approx(value, abs=1e-3)
        assert gradients[1, k] / sigma == pytest.approx(gradient[0], abs=2e-3 / sigma)
        whole = by_log_sigma[k] - gradients[1, k] / sigma
        assert whole - inner == pytest.approx(slope, abs=5e-3)


def test_no_bag_hangs_on_those_beside_it():
    z, y = draw_bags(20, 1)
    one = match_lanes(z, y, 0.3)
    # The same bag among bags that take far longer, and in another lane.
    other_z, other_y = draw_bags(20, 2)
    other_z, other_y = other_z * 5.0, other_y.copy()
    other_z[:, 3], other_y[:, 3] = z[:, 9], y[:, 9]
    other = match_lanes(other_z, other_y, 0.3)
    for left, right in zip(one, other, strict=True):
        assert np.array_equal(left[..., 9], right[..., 3])


def test_larger_bags_have_the_value_of_the_grid_in_memory():
    rng = np.random.default_rng(3)
    z = rng.standard_normal(200)
    y = np.sort(z + 0.3 * rng.standard_normal(200))
    z, y = z - z.mean(), y - y.mean()
    values, by_log_sigma, gradients = np.zeros(1), np.zeros(1), np.zeros((1, 3))
    kernels.match_held_bags(
        z[None], np.array([0, 200]), y, np.zeros(1), np.ones(1), 0.0, 0.3, 2.25, True, values,
        by_log_sigma, gradients,
    )  # fmt: skip
    value, gradient, slope = kernels.log_likelihood(
        z[None], y, np.array([0, 200]), np.ones(1), np.log(0.3), True
    )
    assert values[0] - 199 * np.log(0.3) == pytest.approx(value, abs=1e-4)
    assert gradients[0, 1] / 0.3 == pytest.approx(gradient[0], abs=5e-3)
    assert by_log_sigma[0] - gradients[0, 1] / 0.3 - 199 == pytest.approx(slope, abs=5e-3)


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
    plain = pose(standard, True, None, Likelihood())[0]
    block, scaling = build_from_rows(data)
    assert block.n_held == len(sizes)
    theta = point_of(block, data, scaling)
    (value, gradient), (expected, slopes) = block(theta), plain(theta)
    # Those of 30 rows lie half on a grid in memory; each of the others is right to 1e-3.
    assert value == pytest.approx(expected, abs=0.2)
    np.testing.assert_allclose(gradient, slopes, atol=2e-3 * np.abs(slopes).max())


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
    sizes = np.array([3, 40, 900, 900, 2000])
    assert count_held(sizes, 3) == 5
    monkeypatch.setattr(kept_bags, "HELD_BYTES", 8.0 * 4.0 * 500)
    assert count_held(sizes, 3) == 2
    less = build_from_rows(DATA)[0]
    assert 0 < less.n_held < TARGET.n_held
    # Two grids of one distribution.
    assert less(POINT)[0] == pytest.approx(TARGET(POINT)[0], abs=0.3)


def test_bags_are_kept_in_groups_of_one_size():
    sizes = np.array([1, 2, 2, 2, *[3] * (LANES + 1), 50])
    rng = np.random.default_rng(6)
    rows, labels = rng.standard_normal((sizes.sum(), 2)), rng.standard_normal(sizes.sum())
    kept = hold_bags(rows, labels, sizes)
    assert [len(each.bags) for each in kept.lanes] == [3, LANES + 1]
    for lanes in kept.lanes:
        for k, bag in enumerate(lanes.bags):
            own = slice(kept.offsets[bag], kept.offsets[bag + 1])
            group, lane = divmod(k, LANES)
            assert np.array_equal(lanes.rows[group, :, :, lane].T, rows[own])
            assert np.array_equal(lanes.labels[group, :, lane], labels[own])


def test_labels_of_small_bags_lie_in_their_distribution_as_in_memory():
    data = make_shuffled(3560, 3, bags=[*[20] * 50, *[128] * 20], snr_db=12, rng=7)
    standard, _ = standardise(make_bags(data.X, data.y, data.groups), True, True)
    plain = pose(standard, True, None, Likelihood())[0]
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
    monkeypatch.setattr(kept_bags, "HELD_ROWS", 0)
    counted = build_from_rows(data)[0]
    assert (kept.n_held, counted.n_held) == (3, 0)
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
    assert target._mean_totals is not None
    predictions = target.read_points(np.random.default_rng(0).normal(0.0, 0.4, (30, target.dim)))
    found = target._weigh_many_means(predictions)
    for k in range(30):
        gaps = target.bag_labels - target._bag_predictions(
            predictions.w[k], float(predictions.curves[k])
        )
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
    first = look_at(read(tmp_path), 1)
    there = pose_blocks(first, standardise_pass(first, True), None, Likelihood())[0]
    assert there.n_held == TARGET.n_held
    (value, gradient), (same, again) = TARGET(POINT), there(POINT)
    assert value == same and np.array_equal(gradient, again)
    assert np.array_equal(TARGET.parts(POINT[None]), there.parts(POINT[None]))
