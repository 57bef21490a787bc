"""Properties of LS, EMD, P1 and P2 in blocks: what sorting all rows says, whatever the blocks."""

from dataclasses import replace

import numpy as np
import pytest

import oracles
from unshuffle import kernels, make_shuffled, shuffle_labels
from unshuffle.data.bags import make_bags
from unshuffle.data.blocks.first_pass import make_first_pass
from unshuffle.data.blocks.sources import ArraySource, number_bags
from unshuffle.data.scaling import standardise, standardise_pass
from unshuffle.methods import BLOCKS_ABOVE, KEPT_UP_TO, find_block_strategy
from unshuffle.objectives import block_sorted
from unshuffle.objectives.block_moments import measure_moments
from unshuffle.objectives.block_sorted import SortedObjective, draw_subsample, make_standard_rows
from unshuffle.objectives.losses import Absolute, Squared
from unshuffle.objectives.penalties import Penalty, no_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.options import FitOptions, make_rng
from unshuffle.results.fit import fit_bags, fit_source

N = 12_000


def make_data(d=2, bags=3, n=N, rng=0, **how):
    return make_shuffled(n, d, bags=bags, snr_db=15, intercept=1.0, rng=rng, **how)


def source_of(X, y, groups, **how):
    codes, n_bags = number_bags(groups, len(y))
    return ArraySource(X, y, codes, n_bags, **how)


def build(data, loss, **how):
    """Return the same problem in blocks and in memory."""
    standard, scaling = standardise(make_bags(data.X, data.y, data.groups), True, True)
    memory = Problem(standard, loss, None, no_penalty(data.X.shape[1] + 1), True)
    first = make_first_pass(source_of(data.X, data.y, data.groups, **how), 0)
    units = standardise_pass(first, True)
    np.testing.assert_allclose(units.scale, scaling.scale, rtol=1e-10)
    found = measure_moments(first, units, 2)
    standard = make_standard_rows(first, units)
    return SortedObjective(found, loss, None, memory.penalty, True, standard=standard), memory


@pytest.mark.parametrize("loss", [Squared(), Absolute()], ids=["LS", "EMD"])
@pytest.mark.parametrize("n_bags", [1, 5])
def test_values_and_slopes_are_those_of_sorted_rows(loss, n_bags):
    blocks, memory = build(make_data(bags=n_bags), loss)
    points = np.random.default_rng(1).normal(size=(12, 3))
    (ours, slopes), (exact, others) = blocks.smooth(points), memory.smooth(points)
    # Rows and labels inside a cell of h sds are not quite as much alike as both ascend: by one
    # in as many as it holds, of h²/12. EMD moves by less than h, its slopes by some cells.
    width = 16.0 / block_sorted.count_cells(n_bags)
    assert width < 0.02
    is_squared = isinstance(loss, Squared)
    np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=width**2 * (0.05 if is_squared else 3))
    np.testing.assert_allclose(slopes, others, rtol=2e-2, atol=width * (0.02 if is_squared else 2))


@pytest.mark.parametrize("loss", [Squared(), Absolute()], ids=["LS", "EMD"])
@pytest.mark.parametrize("n_bags", [1, 3])
def test_predictions_that_are_all_the_same_have_their_distances_from_the_labels(loss, n_bags):
    blocks, memory = build(make_data(bags=n_bags), loss)
    points = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.3]])
    values, slopes = blocks.smooth(points)
    expected, their_slopes = memory.smooth(points)
    assert values == pytest.approx(expected, rel=1e-9)
    # Where columns are flat in the prediction, EMD has a kink: the level's slope alone is one.
    assert slopes[:, -1] == pytest.approx(their_slopes[:, -1], abs=1e-9)


@pytest.mark.parametrize("loss", [Squared(), Absolute()], ids=["LS", "EMD"])
def test_small_bags_are_sorted_as_they_are_in_memory(loss):
    points = np.random.default_rng(1).normal(size=(6, 3))
    for sizes in ([40] * 100, [3000, 5000, *[40] * 50]):
        data = make_data(bags=sizes, n=sum(sizes))
        blocks, memory = build(data, loss)
        is_small = min(sizes) == max(sizes)
        assert blocks.is_in_memory == is_small
        (ours, slopes), (exact, others) = blocks.smooth(points), memory.smooth(points)
        np.testing.assert_allclose(ours, exact, rtol=1e-12 if is_small else 1e-3)
        np.testing.assert_allclose(slopes, others, rtol=1e-9 if is_small else 2e-2, atol=1e-2)


def test_small_and_large_bags_give_the_same_bits_in_any_blocks():
    sizes, rng = [3000, 5000, *[40] * 50], np.random.default_rng(1)
    data, points = make_data(bags=sizes, n=sum(sizes)), rng.normal(size=(4, 3))
    one = build(data, Squared())[0].smooth(points)
    order, y = rng.permutation(len(data.y)), shuffle_labels(data.y, data.groups, rng)
    moved = type(data)(
        **{**data.__dict__, "X": data.X[order], "y": y[order], "groups": 70 - data.groups[order]}
    )
    other = build(moved, Squared(), n_jobs=2, block_rows=77)[0].smooth(points)
    assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])


@pytest.mark.parametrize("loss", [Squared(), Absolute()], ids=["LS", "EMD"])
def test_slopes_are_differences_of_values(loss):
    blocks, _ = build(make_data(bags=2, n=40_000), loss)
    rng = np.random.default_rng(2)
    w, step = rng.normal(size=3), rng.normal(size=3)
    # Small, since EMD bends, but of some cells, inside which nobody knows where rows lie.
    (up, down), _ = blocks.smooth(np.stack([w + 1e-3 * step, w - 1e-3 * step]))
    slope = blocks.smooth(w[None])[1][0] @ step
    assert (up - down) / 2e-3 == pytest.approx(slope, rel=2e-2)


def test_curvatures_are_those_of_quantiles():
    data = make_data(d=3, bags=4, n=40_000)
    blocks, memory = build(data, Squared())
    points = np.random.default_rng(3).normal(size=(5, 4))
    values, gradients, curves = blocks.curve(points)
    others = blocks.smooth(points)
    assert np.array_equal(values, others[0]) and np.array_equal(gradients, others[1])
    for w, curve in zip(points, curves, strict=True):
        z = memory.bags.X @ w
        # Predictions grow with their own weights: so much is exact but for the ends of tails.
        assert w @ curve @ w == pytest.approx(2.0 * np.mean(z**2), rel=1e-3)
        # Across, rows of one rank vary, which bends nothing.
        assert np.linalg.eigvalsh(2.0 * memory.curvature - curve).min() > -1e-9
    # Where labels have no noise, the curvature at the truth is that of the value.
    rng = np.random.default_rng(4)
    clean = shuffle_labels(data.X @ data.weights, data.groups, rng)
    blocks, _ = build(type(data)(**{**data.__dict__, "y": clean}), Squared())
    scales = data.X.std(axis=0) * data.weights / clean.std()
    truth = np.append(scales, 0.0)[None]
    step = 0.02 * rng.normal(size=(1, 4))
    up, down = blocks.smooth(truth + step)[1], blocks.smooth(truth - step)[1]
    across = 0.5 * (up - down)[0] @ step[0]
    # Differences over 0.02 see the bend of the valley, and 10 000 rows a bag their own noise.
    assert step[0] @ blocks.curve(truth)[2][0] @ step[0] == pytest.approx(across, rel=0.1)


def test_curvatures_are_told_of_counted_rows_without_kinks_alone():
    data = make_data(bags=[3000, 5000, *[40] * 10], n=8400)
    blocks, _ = build(data, Squared())
    assert blocks.curve is not None
    assert blocks.with_loss(Absolute()).curve is None
    kinks = Penalty(np.array([1.0, 0.0, 0.0]), np.zeros(3))
    assert replace(blocks, penalty=kinks).curve is None
    assert build(make_data(bags=[3000, *[40] * 10], n=3400), Squared())[0].curve is None
    points = np.random.default_rng(1).normal(size=(3, 3))
    one = blocks.curve(points)
    other = build(data, Squared(), n_jobs=2, block_rows=77)[0].curve(points)
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))
    heavy = replace(blocks, penalty=Penalty(np.zeros(3), np.full(3, 2.0)))
    np.testing.assert_allclose(heavy.curve(points)[2] - one[2], 4.0 * np.eye(3)[None].repeat(3, 0))


def test_heavy_tails_and_constant_bags_find_their_cells():
    rng = np.random.default_rng(3)
    data = make_data(bags=3)
    X = np.exp(3.0 * rng.normal(size=(N, 2)))
    X[data.groups == 2] = 1.0
    y = shuffle_labels(X @ [1.0, 2.0] + rng.normal(size=N), data.groups, rng)
    blocks, memory = build(type(data)(**{**data.__dict__, "X": X, "y": y}), Squared())
    points = rng.normal(size=(5, 3))
    np.testing.assert_allclose(blocks.smooth(points)[0], memory.smooth(points)[0], rtol=1e-3)


def test_blocks_orders_and_batches_give_the_same_bits(monkeypatch):
    data, rng = make_data(bags=4), np.random.default_rng(1)
    points = rng.normal(size=(9, 3))
    one = build(data, Squared())[0].smooth(points)
    order, y = rng.permutation(N), shuffle_labels(data.y, data.groups, rng)
    moved = type(data)(
        **{**data.__dict__, "X": data.X[order], "y": y[order], "groups": data.groups[order]}
    )
    monkeypatch.setattr(block_sorted, "TOTAL_BYTES", 1)  # a point a pass
    other = build(moved, Squared(), n_jobs=2, block_rows=77)[0].smooth(points)
    assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])


@pytest.mark.parametrize("method", ["ls", "emd", "p1", "p2"])
def test_methods_end_where_they_end_in_memory(method):
    data = make_data(bags=4, n=20_000)
    options = FitOptions(method=method, n_starts=8)
    limit = KEPT_UP_TO if method in ("p1", "p2") else BLOCKS_ABOVE
    settings = find_block_strategy(options, limit + 1)
    assert settings is not None and find_block_strategy(options, limit) is None
    blocks = fit_source(source_of(data.X, data.y, data.groups), options, settings, make_rng(0))
    memory = fit_bags(make_bags(data.X, data.y, data.groups), options, make_rng(0))
    assert blocks.method == memory.method == method
    # Values near the lowest are flat: a hundredth of the weights moves them by 1e-4 of themselves.
    assert blocks.value == pytest.approx(memory.value, rel=1e-2)
    np.testing.assert_allclose(blocks.weights, memory.weights, rtol=0.03, atol=0.03)


def test_a_smaller_sample_has_the_distributions_of_rows_and_labels():
    data = make_data(bags=3, n=60_000)
    first = make_first_pass(source_of(data.X, data.y, data.groups), 0)
    units = standardise_pass(first, True)
    bags = draw_subsample(first, units, 5000)
    assert bags.n == pytest.approx(5000, abs=3) and bags.is_plain
    # Means of 5000 rows and of even ranks: four standard errors, and the width of a rank.
    assert np.abs(bags.X[:, :2].mean(axis=0)).max() < 4.0 / np.sqrt(5000)
    assert abs(bags.y.mean()) < 1e-3 and bags.y.std() == pytest.approx(1.0, abs=5e-3)
    for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        assert (np.diff(bags.y[start:stop]) >= 0).all()


def test_cells_ascend_and_hold_any_gap():
    gaps = np.concatenate(
        [[-np.inf], np.sort(np.random.default_rng(0).standard_t(1, 500)), [1e300]]
    )
    places = np.array([kernels.find_place(gap, 64) for gap in gaps])
    np.testing.assert_allclose(places, [oracles.sorted_place(gap, 64) for gap in gaps])
    assert (np.diff(places) >= 0).all() and places[0] == 0.0 and places[-1] == 64.0


@pytest.mark.parametrize("d", [1, 2, 5, 7])
@pytest.mark.parametrize("code", [kernels.SQUARED, kernels.ABSOLUTE])
def test_filling_and_matching_are_what_they_are_row_by_row(code, d):
    rng = np.random.default_rng(4)
    X, codes = rng.uniform(-1, 1, (200, d)), rng.integers(0, 2, 200)
    weights, levels = rng.normal(size=(3, d)), rng.normal(size=3)
    means, inverse = rng.normal(size=(3, 2)), rng.uniform(0.5, 2, (3, 2))
    centre, factor, unit, depth = np.full(d, 0.1), np.full(d, 0.9), 2.0**40, 2.0**24
    totals = np.zeros((3, 2, 32, block_sorted.count_lanes(d)), np.int64)
    kernels.fill_sorted_cells(
        X, codes, centre, factor, weights, levels, means, inverse, unit, depth, totals
    )
    plain = oracles.sorted_cells(X, codes, centre, factor, weights, levels, means, inverse, 32)
    labels, offsets = [], [0]
    for r in range(2):
        labels.append(np.sort(rng.normal(size=int((codes == r).sum()))))
        offsets.append(offsets[-1] + len(labels[-1]))
    y, slopes, curve = np.concatenate(labels), np.empty(1 + d), np.empty((1 + d, 1 + d))
    for s in range(3):
        for r, k in np.ndindex(2, 32):
            own, cell = totals[s, r, k], plain[s][r][k]
            assert own[0] == len(cell)
            sums = sum((np.append(x, [p, p * p]) for x, p in cell), np.zeros(d + 2))
            scales = np.array([*[unit] * d, depth, depth**2])
            np.testing.assert_allclose(own[1 : d + 3] / scales, sums, atol=1e-5)
        value = kernels.match_sorted_cells(
            totals[s], weights[s], levels[s], means[s], inverse[s], y, np.ones(200),
            np.array(offsets), unit, depth, code, slopes,
        )  # fmt: skip
        expected, others = oracles.match_sorted_cells(
            plain[s], weights[s], levels[s], means[s], inverse[s], labels, code == kernels.SQUARED
        )
        # Places inside cells are cut off at 2⁻²⁴.
        assert value == pytest.approx(expected, rel=1e-6)
        np.testing.assert_allclose(slopes, others, rtol=1e-5, atol=1e-5)
        # All cells, and three, which fewer polynomials than asked for tell apart.
        for part, degree in ((slice(None), 0), (slice(None), 7), (slice(15, 18), 7)):
            kernels.curve_sorted_cells(totals[s][:, part], unit, degree, curve)
            expected = oracles.curve_sorted_cells([own[part] for own in plain[s]], degree)
            np.testing.assert_allclose(curve, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("method", "n_small"), [("ls", 4), ("ls", 2), ("emd", 4)])
def test_a_fit_is_the_same_to_the_last_bit_for_any_order_blocks_and_threads(method, n_small):
    # With two small bags LS descends by its curvature, with four too many rows are kept for that.
    sizes, rng = [9_000, 7_000, *[500] * n_small], np.random.default_rng(5)
    data = make_data(bags=sizes, n=sum(sizes))
    options = FitOptions(method=method, n_starts=8)
    settings = find_block_strategy(options, BLOCKS_ABOVE + 1)
    one = fit_source(source_of(data.X, data.y, data.groups), options, settings, make_rng(0))
    order, y = rng.permutation(len(data.y)), shuffle_labels(data.y, data.groups, rng)
    moved = source_of(data.X[order], y[order], 9 - data.groups[order], n_jobs=2, block_rows=1 << 11)
    other = fit_source(
        moved, FitOptions(method=method, n_starts=8, n_jobs=2), settings, make_rng(0)
    )
    assert np.array_equal(one.weights, other.weights) and one.value == other.value
