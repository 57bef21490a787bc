"""Graphics cards: the processor's bits, and one line where there is no card.

The kernels run here as plain C++ (`simulated_device`), block after block.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from oracles import fill_histogram, histogram_nodes
from registry_examples import CHEAP, fit_quietly
from simulated_device import COMPILER, SimulatedDevice
from targets import read_parameters
from unshuffle import Likelihood, ShuffledLinearRegression, kernels, make_shuffled
from unshuffle.data.blocks import label_cells
from unshuffle.data.blocks.first_pass import make_first_pass
from unshuffle.data.blocks.row_sample import SAMPLE_ROWS
from unshuffle.data.blocks.sources import ArraySource, number_bags
from unshuffle.data.scaling import standardise_pass
from unshuffle.errors import InputError
from unshuffle.gpu.rows import DeviceRows, cut_rows
from unshuffle.gpu.source import ResidentSource, StreamedSource, place_source
from unshuffle.io.sources.parquet_source import open_parquet
from unshuffle.kernels.filling import PLACES, TAIL
from unshuffle.model.block_building import build_blocks

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

# A bag of one row, one of two, and rows far beyond every window.
DATA = make_shuffled(60_000, 3, bags=[1, 2, 9_997, 50_000], snr_db=15, rng=4)
DATA = replace(DATA, X=np.exp(1.5 * DATA.X))
NO_MEMORY = 0


def as_source(data=DATA, **how):
    codes, n_bags = number_bags(data.groups, len(data.y))
    return ArraySource(data.X, data.y, codes, n_bags, **how)


def same_pass(left, right):
    names = ("sizes", "column_ends", "base", "reach", "first", "second", "third")
    pairs = [(getattr(left, name), getattr(right, name)) for name in names]
    pairs += [(left.label_ends, right.label_ends), (left.label_square, right.label_square)]
    for part in ("cells", "sample"):
        one, other = getattr(left, part), getattr(right, part)
        pairs += [(getattr(one, n), getattr(other, n)) for n in one.__dataclass_fields__]
    return all(np.array_equal(a, b) for a, b in pairs)


def build(first):
    return build_blocks(first, standardise_pass(first, True), None, Likelihood())[0]


@pytest.fixture(scope="module")
def here():
    return build(make_first_pass(as_source(), 1))


def draw_points(p, n=12, seed=0):
    """Return points of all sizes of cells, some of them bent."""
    rng = np.random.default_rng(seed)
    curves = np.where(rng.random(n) < 0.4, rng.normal(0.0, 0.1, n), 0.0)
    return [(rng.standard_normal(p), float(rng.uniform(-6.0, 0.5)), float(c)) for c in curves]


def fill(within_bag, grid, wants_slopes):
    """Return the cells of one pass."""
    (cells,) = within_bag._fill(iter([grid]), wants_slopes)
    return cells


@needs_compiler
def test_labels_of_some_bags_at_a_time_have_the_same_cells(monkeypatch):
    expected = make_first_pass(as_source(), 1)
    monkeypatch.setattr(label_cells, "ROOM", 10)
    assert same_pass(expected, make_first_pass(place_source(as_source(), SimulatedDevice()), 1))


# --- histograms ------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("shared_bytes", [1 << 12, 1 << 17])
@pytest.mark.parametrize("wants_slopes", [True, False])
def test_histograms_of_a_card_have_the_bits_of_the_processor(here, wants_slopes, shared_bytes):
    device = SimulatedDevice(shared_bytes=shared_bytes)
    there = build(make_first_pass(place_source(as_source(), device), 1))
    assert isinstance(there.within_bag.source, ResidentSource)
    grid = here.within_bag._lay_out(read_parameters(here, draw_points(here.p)))
    for each in (grid, grid.only(np.array([True, False, True, False]))):
        found = [fill(target.within_bag, each, wants_slopes) for target in (here, there)]
        assert np.array_equal(*found)
    assert device.log[-1][0] == ("fill_sums" if wants_slopes else "fill_counts")


@needs_compiler
@pytest.mark.parametrize("d", [1, 40])
def test_any_number_of_columns_gives_the_same_bits(d):
    # Beyond 32 columns rows are read again for every point.
    data = make_shuffled(3000, d, bags=2, rng=d)
    target = build(make_first_pass(as_source(data), 1))
    within_bag = target.within_bag
    on_card = replace(within_bag, source=place_source(within_bag.source, SimulatedDevice()))
    grid = within_bag._lay_out(read_parameters(target, draw_points(d, 5)))
    for wants_slopes in (True, False):
        assert np.array_equal(
            fill(within_bag, grid, wants_slopes), fill(on_card, grid, wants_slopes)
        )


@needs_compiler
def test_rows_that_do_not_fit_the_card_are_sent_in_every_pass_with_the_same_bits(here):
    device = SimulatedDevice(free=NO_MEMORY)
    there = build(make_first_pass(place_source(as_source(block_rows=7001, n_jobs=3), device), 1))
    source = there.within_bag.source
    assert isinstance(source, StreamedSource) and not isinstance(source, ResidentSource)
    grid = here.within_bag._lay_out(read_parameters(here, draw_points(here.p)))
    for wants_slopes in (True, False):
        found = [fill(target.within_bag, grid, wants_slopes) for target in (here, there)]
        assert np.array_equal(*found)
    sent = [name for name, *_ in device.log].count("place_rows")
    assert sent == 2 * 9  # nine blocks of 7001 rows, in two passes


@needs_compiler
def test_the_kernels_equal_their_plain_twin(here):
    # Not the processor's kernels, which may err in the same way: the histogram by its definition.
    within_bag, points = here.within_bag, draw_points(here.p, 3, seed=1)
    there = replace(within_bag, source=place_source(within_bag.source, SimulatedDevice()))
    grid = within_bag._lay_out(read_parameters(here, points))
    cells, lengths = fill(there, grid, True), grid.sizes + 2 * grid.tails
    codes = within_bag.source.numbers[within_bag.source.codes]
    x = ((DATA.X - within_bag.centre) * within_bag.factor)[codes == 2]
    for p, (w, _, curve) in enumerate(points):
        nodes = histogram_nodes(grid.starts[p, 2], grid.sizes[p, 2], grid.tails[p, 2], TAIL)
        expected = fill_histogram(x @ w, x, curve, nodes / grid.per_cell[p])
        found = cells[grid.bases[p, 2] :][: lengths[p, 2]]
        found = found / [1, PLACES, *[grid.units[p]] * (here.p + 1)]
        # The twin rounds z in another order: a row at a node may count in the cell before it.
        assert np.abs(found[:, 0] - expected[:, 0]).sum() <= 2
        # A place is rounded to a millionth of a cell, and a cell has at most all 9997 rows.
        np.testing.assert_allclose(found[:, 1].sum(), expected[:, 1].sum(), atol=0.02)
        scale = np.abs(expected[:, 2:]).sum(axis=0)
        np.testing.assert_allclose(
            found[:, 2:].sum(axis=0) / scale, expected[:, 2:].sum(axis=0) / scale, atol=1e-9
        )


@needs_compiler
def test_sums_carry_beyond_32_bits():
    # Ten thousand rows in one cell: places add up to 2^33, slopes to more.
    device, m = SimulatedDevice(), 10_000
    X = np.column_stack([np.full(m, 0.25), np.linspace(-1.0, 1.0, m)])
    order, ends = kernels.order_by_bag(np.zeros(m, np.int64), 1)
    grid = SimpleNamespace(
        weights=np.array([[1.0, 0.0]]), curves=np.zeros(1), per_cell=np.ones(1),
        lows=np.array([[-4.0]]), starts=np.array([[-4.0]]), sizes=np.array([[8]]),
        tails=np.array([[3]]), bases=np.array([[0]]), units=np.array([2.0**45]),
    )  # fmt: skip
    source = place_source(ArraySource(X, X[:, 0], np.zeros(m, int), 1), device)
    plain = np.zeros((14, 5), np.int64)
    kernels.fill_cells(
        X, order, ends, np.empty(0, np.int64), np.zeros(2), np.ones(2), grid.weights, grid.curves,
        grid.per_cell, grid.starts, grid.sizes, grid.tails, grid.bases, grid.units, plain,
    )  # fmt: skip
    found = source.fill(grid, np.zeros(2), np.ones(2), True)
    assert np.array_equal(found, plain)
    assert found[:, 1].max() > 2**31 and found[:, 2].max() > 2**55


def test_tiles_hold_every_row_once():
    ends, bags = np.array([0, 0, 7, 7, 10, 29]), np.array([4, 2, 0, 1, 3])
    tiles = cut_rows(ends, bags, 4)
    rows = np.concatenate([np.arange(first, last) for _, first, last in tiles])
    assert np.array_equal(rows, np.arange(29))
    assert (np.diff(tiles[:, 1:]) <= 4).all()
    owners = np.repeat(tiles[:, 0], np.diff(tiles[:, 1:])[:, 0])
    assert np.array_equal(owners, np.repeat(bags, np.diff(ends)))


# --- the first pass ------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("how", [{}, {"block_rows": 7001, "n_jobs": 3}])
def test_the_first_pass_of_a_card_is_that_of_the_processor(how):
    device = SimulatedDevice()
    there = make_first_pass(place_source(as_source(**how), device), 1)
    assert same_pass(make_first_pass(as_source(), 1), there)
    assert {"scan_ends", "scan_hashes", "scan_moments", "scan_labels"} <= {
        n for n, *_ in device.log
    }


@needs_compiler
@pytest.mark.parametrize(
    "kind",
    ["few distinct rows", "one row", "negative zeros", "huge", "tiny", "many columns"],
)
def test_odd_data_have_the_same_first_pass(kind):
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((30_000, 2)), rng.standard_normal(30_000)
    if kind == "few distinct rows":
        X = rng.integers(0, 3, X.shape).astype(float)
    elif kind == "one row":
        X, y = X[:1], y[:1]
    elif kind == "negative zeros":
        X[::2], y[::3] = -0.0, -0.0
    elif kind == "huge":
        X, y = 1e150 * X, 1e6 + y
    elif kind == "tiny":
        X, y = 1e-150 * X, np.exp(3.0 * y)
    elif kind == "many columns":  # no third moments
        X = rng.standard_normal((30_000, 13))
    source = ArraySource(X, y, np.arange(len(y)) % min(3, len(y)), min(3, len(y)))
    assert same_pass(
        make_first_pass(source, 2), make_first_pass(place_source(source, SimulatedDevice()), 2)
    )


@needs_compiler
def test_rows_equal_by_the_hundred_thousand_are_sampled_from_blocks(monkeypatch):
    monkeypatch.setattr("unshuffle.data.blocks.row_sample.MOST_LISTED", SAMPLE_ROWS)
    X = np.repeat([[0.5, 1.0], [2.0, -1.0]], 20_000, axis=0)
    source = ArraySource(X, np.arange(40_000.0), np.zeros(40_000, int), 1)
    assert same_pass(
        make_first_pass(source, 2), make_first_pass(place_source(source, SimulatedDevice()), 2)
    )


@needs_compiler
def test_files_go_to_the_card_with_the_bits_of_arrays(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = [f"x{j}" for j in range(DATA.X.shape[1])]
    columns = dict(zip(names, DATA.X.T, strict=True)) | {"y": DATA.y, "bag": DATA.groups}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=8000)
    files = open_parquet([str(tmp_path / "a.parquet")]).as_source("y", names, "bag", 2)
    told = []
    source = place_source(files, SimulatedDevice(), lambda stage, share: told.append(stage))
    assert same_pass(make_first_pass(as_source(), 1), make_first_pass(source, 1))
    assert "sending rows" in told


# --- fits ------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("free", [pytest.param(1 << 40, marks=pytest.mark.slow), NO_MEMORY])
def test_a_fit_on_a_card_has_the_digits_of_the_processor(monkeypatch, free):
    device = SimulatedDevice(free)
    for place in ("solving", "gpu.source"):
        monkeypatch.setattr(f"unshuffle.{place}.find_device", lambda name: name and device)
    data = make_shuffled(50_400, 2, bags=3, snr_db=15, rng=0)
    # Few starting points and draws: every kernel is used all the same.
    one, other = (
        fit_quietly(CHEAP, data.X, data.y, data.groups, device=name) for name in (None, "cuda")
    )
    assert np.array_equal(one.coef_, other.coef_) and one.intercept_ == other.intercept_
    assert np.array_equal(one.conf_int(), other.conf_int())
    assert {"fill_sums", "fill_counts"} <= {name for name, *_ in device.log}
    with pytest.warns(UserWarning, match="400 rows were fitted on the processor, as up to 20000"):
        ShuffledLinearRegression(CHEAP, random_state=0, device="cuda").fit(
            data.X[:400], data.y[:400]
        )


@pytest.mark.parametrize(
    ("what", "how", "match"),
    [
        ({"method": "ls"}, {}, "method 'ls' runs on the processor only"),
        ({"l2": 1.0}, {}, "runs on the processor only"),
        ({}, {"anchors": [0, 1]}, "no known pairs"),
    ],
)
def test_what_no_card_does_is_refused(monkeypatch, what, how, match):
    monkeypatch.setattr("unshuffle.solving.find_device", lambda name: name and SimulatedDevice())
    model = ShuffledLinearRegression(device="cuda", **what)
    with pytest.raises(InputError, match=match):
        model.fit(DATA.X, DATA.y, DATA.groups, **how)


def test_more_columns_than_a_card_has_room_for_are_refused():
    source = ArraySource(np.zeros((2, 300)), np.zeros(2), np.zeros(2, int), 1)
    with pytest.raises(InputError, match="300 columns are more than the card's shared memory"):
        place_source(source, SimulatedDevice(shared_bytes=1 << 12))


def test_renumbered_rows_stay_where_they_are():
    rows = DeviceRows(None, None, np.array([0, 2, 5]), np.array([0, 1]), {4: (None, 1)})
    moved = rows.renumbered(np.array([1, 0]))
    assert moved.bags.tolist() == [1, 0] and moved.columns is rows.columns
    assert moved.sent == {}  # tiles name their bag
