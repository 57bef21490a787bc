"""Properties of data in blocks: bits that do not depend on the cuts, and the plain likelihood."""

from dataclasses import replace

import numpy as np
import pytest

from oracles import central_differences, fill_histogram, histogram_nodes
from registry_examples import CHEAP
from targets import read_parameters
from unshuffle import (
    Bag,
    Likelihood,
    ShuffledLinearRegression,
    fit,
    kernels,
    make_shuffled,
    methods,
    shuffle_labels,
)
from unshuffle.data.bags import make_bags
from unshuffle.data.blocks import label_cells
from unshuffle.data.blocks.first_pass import make_first_pass
from unshuffle.data.blocks.label_cells import RANK, find_cells, join_cells
from unshuffle.data.blocks.row_sample import SAMPLE_ROWS
from unshuffle.data.blocks.sources import ArraySource, number_bags
from unshuffle.data.scaling import standardise, standardise_pass
from unshuffle.inference.modes import first_metric
from unshuffle.kernels.filling import PLACES, TAIL
from unshuffle.model import block_building, block_likelihood
from unshuffle.model.block_building import build_blocks, build_sample
from unshuffle.model.block_likelihood import BlockWithinBag
from unshuffle.model.building import build_target

RNG = np.random.default_rng(0)


def as_source(data, **how):
    codes, n_bags = number_bags(data.groups, len(data.y))
    return ArraySource(data.X, data.y, codes, n_bags, **how)


def build_both(data, has_intercept=True):
    """Return the block target and the plain one of the same data."""
    standard, _ = standardise(make_bags(data.X, data.y, data.groups), has_intercept, has_intercept)
    plain = build_target(standard, has_intercept, None, Likelihood())[0]
    first = make_first_pass(as_source(data), 1)
    scaling = standardise_pass(first, has_intercept)
    return build_blocks(first, scaling, None, Likelihood())[0], plain, scaling


def point_near(data, scaling, rng, step=0.05):
    w = data.weights * scaling.scale / scaling.label_scale
    return w + step * rng.standard_normal(len(w)), np.log(data.noise / scaling.label_scale) + 0.1


@pytest.fixture
def counts_all(monkeypatch):
    """Small bags are counted in cells too."""
    monkeypatch.setattr(block_building, "KEPT_ROWS", 0)


# --- kernels ------------------------------------------------------------


@pytest.mark.parametrize("masses", [np.empty(0, np.int64), np.array([1, 2, 5] * 40)])
@pytest.mark.parametrize("curve", [0.0, 0.2])
def test_filling_equals_its_plain_twin(curve, masses):
    X, codes = RNG.standard_normal((120, 3)), RNG.integers(0, 2, 120)
    X[7] *= 30.0  # one row far beyond the window
    centre, factor = np.array([0.1, 0.0, -0.3]), np.array([1.0, 0.5, 2.0])
    weights = np.array([[1.0, -0.4, 0.2], [0.3, 0.3, 0.9]])
    curves, per_cell = np.array([curve, -curve]), np.array([9.0, 4.0])
    starts = np.array([[-20.0, -30.0], [-11.0, -12.5]])
    sizes, tails = np.array([[40, 50], [25, 25]]), np.full((2, 2), 400)
    lengths = sizes + 2 * tails
    bases = (np.cumsum(lengths.ravel()) - lengths.ravel()).reshape(2, 2)
    units = np.array([2.0**40, 2.0**38])
    order, ends = kernels.order_by_bag(codes, 2)
    shared = (X, order, ends, masses, centre, factor, weights, curves, per_cell, starts, sizes)
    cells = np.zeros((lengths.sum(), 6), np.int64)
    kernels.fill_cells(*shared, tails, bases, units, cells)
    counts = np.zeros((lengths.sum(), 2), np.int64)
    kernels.fill_cells(*shared, tails, bases, units, counts)
    assert np.array_equal(counts, cells[:, :2])
    often = np.ones(120, int) if not masses.size else masses
    for p in range(2):
        for r in range(2):
            chosen = np.repeat(np.flatnonzero(codes == r), often[codes == r])
            x = ((X - centre) * factor)[chosen]
            nodes = histogram_nodes(starts[p, r], sizes[p, r], 400, TAIL) / per_cell[p]
            expected = fill_histogram(x @ weights[p], x, curves[p], nodes)
            found = cells[bases[p, r] :][: lengths[p, r]] / [1, PLACES, *[units[p]] * 4]
            # A place is rounded to a millionth of a cell, a sum to 2^-38 of its terms.
            assert np.array_equal(found[:, 0], expected[:, 0])
            np.testing.assert_allclose(found[:, 1], expected[:, 1], atol=3e-6 * often.max() * 9)
            np.testing.assert_allclose(found[:, 2:], expected[:, 2:], atol=1e-7)


def test_few_points_are_divided_into_bags_with_the_same_bits(counts_all):
    data = make_shuffled(4000, 2, bags=[1, 2, 997, 3000], snr_db=15, rng=3)
    first = make_first_pass(as_source(data), 1)
    scaling = standardise_pass(first, True)
    target = build_blocks(first, scaling, None, Likelihood())[0]
    points = [(RNG.standard_normal(2), -1.0 + 0.1 * k, 0.05 * k) for k in range(3)]
    params = read_parameters(target, points)
    for wants_slopes in (True, False):
        one, other = (
            target.within_bag.evaluate(params, 1.0, wants_slopes, n_jobs) for n_jobs in (1, 3)
        )
        for left, right in zip(one, other, strict=True):
            assert np.array_equal(left, right)


def test_many_bags_are_filled_some_at_a_time_with_the_same_bits(monkeypatch, counts_all):
    data = make_shuffled(3000, 2, bags=[1, 2, 397, 600, 1000, 1000], snr_db=15, rng=3)
    first = make_first_pass(as_source(data), 1)
    target = build_blocks(first, standardise_pass(first, True), None, Likelihood())[0]
    points = [(RNG.standard_normal(2), -1.0, 0.05), (RNG.standard_normal(2), -2.0, 0.0)]
    params, passes = read_parameters(target, points), []
    plan = BlockWithinBag.plan
    monkeypatch.setattr(BlockWithinBag, "plan", lambda *args: passes.append(1) or plan(*args))
    for wants_slopes in (True, False):
        one = target.within_bag.evaluate(params, 1.0, wants_slopes, 1)
        with monkeypatch.context() as patch:
            patch.setattr(block_likelihood, "MEMORY", 1e3)
            other = target.within_bag.evaluate(params, 1.0, wants_slopes, 1)
        for left, right in zip(one, other, strict=True):
            assert np.array_equal(left, right)
    assert len(passes) > 2 * (1 + 2 * 3)


@pytest.mark.parametrize("room", [1.0, 700.0, 3000.0, 1e9])
def test_every_bag_of_every_point_is_filled_once(room):
    points = [(RNG.standard_normal(3), -1.0 - 0.3 * k, 0.0) for k in range(7)]
    grid = TARGET.within_bag._lay_out(read_parameters(TARGET, points)).only(
        np.array([False, True, True, True])
    )
    times = np.zeros(grid.sizes.shape, int)
    for places, bags in grid.divide(room, 3.0 * room):
        times[places, bags] += 1
        part = grid.part(places, bags)
        assert part.lengths.sum() <= max(room, 3.0 * room * (len(part) == 1)) or (
            len(part) == 1 and np.count_nonzero(part.sizes) == 1
        )
        assert np.array_equal(part.sizes[:, bags], grid.sizes[places, bags])
    assert (times == 1).all()


def test_bags_without_cells_are_left_out():
    params = read_parameters(TARGET, [(np.array([0.3, 0.5, -0.4]), -1.0, 0.02)])
    grid = TARGET.within_bag._lay_out(params)
    is_chosen = np.array([False, True, False, True])
    for wants_slopes in (True, False):
        whole, some = TARGET.within_bag._fill(iter([grid, grid.only(is_chosen)]), wants_slopes)
        lengths = (grid.sizes + 2 * grid.tails)[0]
        assert np.array_equal(some, whole[np.repeat(is_chosen, lengths)])


def test_rows_are_ordered_by_bag_as_they_stand():
    codes = RNG.integers(0, 5, 300)
    order, ends = kernels.order_by_bag(codes, 5)
    assert np.array_equal(order, np.argsort(codes, kind="stable"))
    assert np.array_equal(np.diff(ends), np.bincount(codes, minlength=5))


# --- the first pass ------------------------------------------------------------


def same_pass(left, right):
    """Whether two first passes have the same bits in all that a fit reads."""
    names = ("sizes", "base", "reach", "first", "second", "third", "label_ends", "label_square")
    pairs = [(getattr(left, name), getattr(right, name)) for name in names]
    pairs += [(getattr(left.cells, n), getattr(right.cells, n)) for n in ("values", "counts")]
    pairs += [(getattr(left.sample, n), getattr(right.sample, n)) for n in ("rows", "counts")]
    return all(np.array_equal(a, b) for a, b in pairs)


DATA = make_shuffled(60_000, 3, bags=[1, 2, 9_997, 50_000], snr_db=12, rng=4)
PASS = make_first_pass(as_source(DATA), 1)
TARGET = build_blocks(PASS, standardise_pass(PASS, True), None, Likelihood())[0]


@pytest.mark.parametrize(("rows", "n_jobs"), [(997, 1), (60_000, 1), (4096, 3)])
def test_the_first_pass_is_the_same_for_any_blocks_and_threads(rows, n_jobs):
    assert same_pass(PASS, make_first_pass(as_source(DATA, block_rows=rows, n_jobs=n_jobs), 1))


def test_labels_of_some_bags_at_a_time_have_the_same_cells(monkeypatch):
    monkeypatch.setattr(label_cells, "ROOM", 10)
    assert same_pass(PASS, make_first_pass(as_source(DATA), 1))


def test_the_first_pass_is_the_same_for_any_order_of_rows_labels_and_bags():
    rng = np.random.default_rng(1)
    order = rng.permutation(len(DATA.y))
    y = shuffle_labels(DATA.y, DATA.groups, rng)
    names = np.array([7, 3, 11, 5])[DATA.groups]
    moved = replace(DATA, X=DATA.X[order], y=y[order], groups=names[order])
    assert same_pass(PASS, make_first_pass(as_source(moved), 1))


@pytest.mark.parametrize("kind", ["plain", "zeros", "read only", "every second", "single"])
def test_blocks_of_arrays_are_theirs_whatever_these_are_like(kind):
    y = RNG.standard_normal(50)
    if kind == "zeros":
        y[[3, 20, 49]] = -0.0, 0.0, -0.0
    elif kind == "read only":
        y.flags.writeable = False
    elif kind == "every second":
        y = y[::2]
    elif kind == "single":
        y = y.astype(np.float32)
    X, codes = RNG.standard_normal((len(y), 2)), np.zeros(len(y), np.int8)
    for n_bags in (1, 2):
        source = ArraySource(X, y, codes, n_bags, block_rows=16)
        blocks = [block for place in source.places for block in source.read(place)]
        found = np.concatenate([block.y for block in blocks])
        assert found.tobytes() == (y.astype(float) + 0.0).tobytes()
        for block in blocks:
            # Kernels are compiled for arrays of one kind.
            assert block.y.dtype == np.float64 and block.codes.dtype == np.int64
            assert block.y.flags.c_contiguous and block.y.flags.writeable
            assert len(block.codes) == len(block.y) and not block.codes.any()


def test_statistics_are_those_of_the_rows():
    mean, square, cube = PASS.moments(DATA.X.mean(axis=0), DATA.X.std(axis=0))
    rows = (DATA.X - DATA.X.mean(axis=0)) / DATA.X.std(axis=0)
    for r, size in enumerate(PASS.sizes):
        bag = rows[np.bincount(DATA.groups)[DATA.groups] == size]
        # Shares of a column's reach are kept to 2^-46, and the sums of NumPy round too.
        np.testing.assert_allclose(mean[r], bag.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(square[r], bag.T @ bag / size, atol=1e-11)
    expected = np.einsum("ij,ik,il->jkl", rows, rows, rows) / len(rows)
    np.testing.assert_allclose(cube, expected, atol=1e-11)
    np.testing.assert_allclose(PASS.spreads(PASS.mean), DATA.X.std(axis=0), rtol=1e-13)
    np.testing.assert_allclose(PASS.label_spread(PASS.label_mean), DATA.y.std(), rtol=1e-13)


def test_the_sample_holds_distinct_rows_with_their_multiplicity():
    X = RNG.integers(0, 40, (50_000, 2)).astype(float)
    codes = RNG.integers(0, 3, 50_000)
    sample = make_first_pass(ArraySource(X, X[:, 0], codes, 3, block_rows=7000), 5).sample
    found, counts = np.unique(np.column_stack([codes, X]), axis=0, return_counts=True)
    # Fewer distinct rows than a sample holds: all are there.
    assert len(found) == len(sample.counts) < SAMPLE_ROWS
    assert sorted(counts) == sorted(sample.counts)


@pytest.mark.parametrize("n_levels", [10, 65, 170, 10**9])
@pytest.mark.parametrize(("rows", "n_jobs"), [(7000, 1), (4096, 3)])
def test_the_sample_is_of_the_lowest_hashes_however_often_rows_repeat(n_levels, rows, n_jobs):
    """Of all rows, of those that are tried first, and where these turn out to be too few."""
    rng = np.random.default_rng(n_levels)
    X = rng.integers(0, n_levels, (60_000, 2)).astype(float)
    codes = rng.integers(0, 10, 60_000)
    first = make_first_pass(ArraySource(X, X[:, 0], codes, 10, n_jobs, block_rows=rows), 5)
    hashes = np.empty(len(X), np.uint64)
    kernels.hash_rows(X.view(np.uint64), np.uint64(5), hashes)
    keys = np.column_stack([hashes, codes.astype(np.uint64)])
    distinct, counts = np.unique(keys, axis=0, return_counts=True)
    limit = np.sort(distinct[:, 0])[min(SAMPLE_ROWS, len(distinct)) - 1]
    kept = distinct[:, 0] <= limit
    order = np.argsort(first.sample.hashes, kind="stable")
    assert np.array_equal(first.sample.hashes[order], distinct[kept, 0])
    assert first.sample.counts.sum() == counts[kept].sum()
    assert sorted(first.sample.counts) == sorted(counts[kept])


N_LABELS = 30_000
LABELS = {
    "normal": RNG.standard_normal(N_LABELS),
    "a million + normal": 1e6 + RNG.standard_normal(N_LABELS),
    "lognormal": np.exp(3.0 * RNG.standard_normal(N_LABELS)),
    "negative lognormal": -np.exp(3.0 * RNG.standard_normal(N_LABELS)),
    "constant": np.full(N_LABELS, 3.7),
    "integers": RNG.integers(-5, 6, N_LABELS).astype(float),
    "large": 1e150 * RNG.standard_normal(N_LABELS),
    "small": 1e-150 * RNG.standard_normal(N_LABELS),
    "zeros of both signs": np.where(RNG.random(N_LABELS) < 0.5, -0.0, RNG.integers(0, 2, N_LABELS)),
    "one outlier": np.append(RNG.standard_normal(N_LABELS - 1), 1e9),
}


@pytest.mark.parametrize("name", LABELS)
def test_label_cells_lose_no_rank_and_no_mean(name):
    y = LABELS[name]
    source = ArraySource(np.zeros((N_LABELS, 1)), y, np.zeros(N_LABELS, np.int8), 1)
    ends = np.array([[y.min(), y.max()]]) + 0.0
    unit = max(np.abs(y).max(), 1e-300)
    spread = unit * float(np.sqrt(np.mean((y / unit - y.mean() / unit) ** 2))) or 1.0
    pieces = find_cells(source, ends, np.array([N_LABELS]), spread)
    cells = join_cells(pieces, np.arange(1))
    assert cells.counts.sum() == N_LABELS
    assert (np.diff(cells.values) > 0).all()
    # A cell with different labels holds at most a ten-thousandth of them, and one more.
    several = cells.highs > cells.lows
    assert (cells.counts[several] <= RANK * N_LABELS + 1).all()
    size = max(abs(y.mean()), spread)
    assert abs((cells.values * (cells.counts / N_LABELS)).sum() - y.mean()) < 1e-12 * size
    places = np.searchsorted(cells.lows, np.sort(y) + 0.0, side="right") - 1
    means = np.bincount(places, np.sort(y) / unit) / np.bincount(places)
    np.testing.assert_allclose(cells.values / unit, means, rtol=1e-12, atol=1e-15)


# --- the target ------------------------------------------------------------


@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize(
    ("n", "bags", "features"), [(5000, 4, "normal"), (20_000, 20, "lognormal")]
)
def test_histograms_give_the_plain_likelihood(n, bags, features, has_intercept, counts_all):
    data = make_shuffled(n, 3, bags=bags, snr_db=15, features=features, rng=2)
    block, plain, scaling = build_both(data, has_intercept)
    rng = np.random.default_rng(0)
    gaps = []
    for curve in (0.0, 0.02, -0.02):
        w, log_sigma = point_near(data, scaling, rng, 0.02)
        theta = np.append(w, [log_sigma, curve])
        one, other = block(theta), plain(theta)
        gaps.append(one[0] - other[0])
        # In nats for a step of one posterior sd, if half of the information survives shuffling:
        # the value is linear inside a cell, so that slopes waver with the rows' places in cells.
        sds = np.sqrt(np.diag(first_metric(plain, theta)))
        assert np.abs((one[1] - other[1]) * sds).max() < 0.2
    # Two grids of one distribution: what is left is a few tenths of a nat of tens of thousands.
    assert np.ptp(gaps) < 0.3


def test_the_gradient_is_that_of_the_value(counts_all):
    data = make_shuffled(5000, 3, bags=4, snr_db=15, features="normal", rng=2)
    block, _, scaling = build_both(data)
    w, log_sigma = point_near(data, scaling, np.random.default_rng(3))
    theta = np.append(w, [log_sigma, 0.05])
    gradient = block(theta)[1]
    found = central_differences(lambda at: block(at)[0], theta, 1e-5)
    # Scaling leaves margins unmet by 1e-6 nats a step.
    np.testing.assert_allclose(found, gradient, atol=3e-4 * np.abs(gradient).max())


def test_values_are_the_same_for_any_blocks_threads_and_batches(counts_all):
    data = make_shuffled(6000, 3, bags=3, snr_db=15, rng=5)
    rng = np.random.default_rng(0)
    order = rng.permutation(6000)
    moved = replace(
        data, X=data.X[order], groups=data.groups[order],
        y=shuffle_labels(data.y, data.groups, rng)[order],
    )  # fmt: skip
    one, other = (
        build_blocks(first, standardise_pass(first, True), None, Likelihood(), n_jobs)[0]
        for first, n_jobs in (
            (make_first_pass(as_source(data, block_rows=501), 1), 2),
            (make_first_pass(as_source(moved), 1), None),
        )
    )
    thetas = rng.normal(0.0, 0.3, (5, one.dim))
    np.testing.assert_array_equal(
        one.parts(thetas), [other.parts(theta[None])[0] for theta in thetas]
    )
    (value, gradient), (same, again) = one(thetas[0]), other(thetas[0])
    assert value == same and np.array_equal(gradient, again)


def test_a_sample_of_all_rows_is_all_rows(counts_all):
    data = make_shuffled(6000, 2, bags=2, snr_db=15, rng=6)
    first = make_first_pass(as_source(data), 1)
    target, within_bag, _ = build_blocks(first, standardise_pass(first, True), None, Likelihood())
    sample = replace(build_sample(target, within_bag, first.sample), power=1.0)
    theta = target.join(np.array([0.5, -0.4]), -1.5)
    assert sample(theta)[0] == pytest.approx(target(theta)[0], abs=1e-5)


# --- fits ------------------------------------------------------------


def test_a_fit_in_blocks_sees_no_order_and_no_threads():
    data = make_shuffled(20_001, 2, bags=4, snr_db=12, rng=7)
    rng = np.random.default_rng(0)
    order = rng.permutation(20_001)
    y = shuffle_labels(data.y, data.groups, rng)
    method = replace(CHEAP, n_draws=100, max_rounds=5, target_draws=100.0)
    one = ShuffledLinearRegression(method, random_state=0, n_jobs=2)
    one.fit(data.X, data.y, data.groups)
    other = ShuffledLinearRegression(method, random_state=0).fit(
        np.asfortranarray(data.X[order]), y[order], [f"bag {g}" for g in 5 - data.groups[order]]
    )
    assert np.array_equal(one.coef_, other.coef_) and one.intercept_ == other.intercept_
    assert np.array_equal(one.conf_int(), other.conf_int())
    assert one.method_ == "likelihood"
    assert "20001 rows" in str(one.summary())
    error = np.linalg.norm(one.coef_ - data.weights) / np.linalg.norm(data.weights)
    # Two answers compete, so that the estimate is only better than no effect.
    assert error < 0.5


def test_labels_that_do_not_vary_are_said_to_say_nothing():
    X = RNG.standard_normal((20_001, 2))
    with pytest.warns(UserWarning, match="every label is the same"):
        model = ShuffledLinearRegression(random_state=0).fit(X, np.full(20_001, 2.0))
    assert np.array_equal(model.coef_, [0.0, 0.0]) and model.intercept_ == 2.0
    assert np.isinf(model.conf_int()).all()


def test_bags_and_a_table_give_the_same_bits_also_in_blocks(monkeypatch):
    data = make_shuffled(1500, 2, bags=5, noise=0.3, rng=0)
    bags = [Bag(data.X[data.groups == g], data.y[data.groups == g]) for g in range(5)]
    for limit in (10**6, 1000):
        monkeypatch.setattr(methods, "BLOCKS_ABOVE", limit)
        model = ShuffledLinearRegression(CHEAP, random_state=0)
        model.fit(data.X, data.y, data.groups)
        for given in (bags, bags[::-1]):
            found = fit(given, method=CHEAP, rng=0)
            assert found.weights.tobytes() == model.result_.weights.tobytes()
            assert found.conf_int().tobytes() == np.asarray(model.conf_int()).tobytes()
