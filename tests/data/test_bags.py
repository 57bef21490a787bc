"""The canonical order: the same sets give the same bytes, and nothing is lost."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from unshuffle.data.bag import number_names
from unshuffle.data.bags import Bag, join_bags, make_bags
from unshuffle.errors import InputError
from unshuffle.scoring import measure_gap, sorted_error
from unshuffle.simulate import make_shuffled, shuffle_labels


@st.composite
def shuffled_tables(draw):
    """Draw rows, labels and bag names, with many ties in all three, and both zeros."""
    n, d = draw(st.integers(1, 25)), draw(st.integers(1, 3))
    values = st.sampled_from([-2.0, -0.0, 0.0, 1.0, 1.5])
    X = draw(st.lists(values, min_size=n * d, max_size=n * d))
    y = draw(st.lists(values, min_size=n, max_size=n))
    groups = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    return np.array(X).reshape(n, d), np.array(y), np.array(groups)


def content(bags):
    """Return everything of the bags that a computation can see, as bytes."""
    return bags.X.tobytes(order="F"), bags.y.tobytes(), bags.offsets.tolist()


@settings(max_examples=150, deadline=None)
@given(shuffled_tables(), st.integers(0, 2**32 - 1))
def test_canonical_order_ignores_order_of_labels_rows_and_bags(table, seed):
    X, y, groups = table
    rng = np.random.default_rng(seed)
    names = rng.permutation(["a", "b", "c", "d", "e"])[groups]
    order = rng.permutation(len(y))
    moved_X = X.copy()
    for name in np.unique(groups):
        rows = np.flatnonzero(groups == name)
        moved_X[rows] = X[rng.permutation(rows)]
    other = make_bags(moved_X[order], shuffle_labels(y, groups, rng)[order], names[order])
    assert content(other) == content(make_bags(X, y, groups))


@settings(max_examples=100, deadline=None)
@given(shuffled_tables())
def test_orders_lead_back_to_the_data_as_given(table):
    X, y, groups = table
    bags = make_bags(X, y, groups)
    np.testing.assert_array_equal(X[bags.rows.order], bags.X)
    np.testing.assert_array_equal(y[bags.labels.order], bags.y)
    assert sorted(bags.rows.order) == sorted(bags.labels.order) == list(range(len(y)))
    for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        inside = groups[bags.rows.order[start:stop]], groups[bags.labels.order[start:stop]]
        assert len(np.unique(inside)) == 1
        assert np.all(np.diff(bags.y[start:stop]) >= 0)
        assert np.all(np.diff(bags.X[start:stop, 0]) >= 0)


def test_one_group_is_the_same_as_no_groups():
    data = make_shuffled(30, 2, rng=0)
    assert content(make_bags(data.X, data.y)) == content(make_bags(data.X, data.y, ["all"] * 30))


@pytest.mark.parametrize(
    "names",
    [
        ["x", "y", "z"],
        [b"x", b"y", b"z"],
        [1, "one", None],
        [(1, 2), (1, 3), "1"],
        [1.5, 2.5, -0.5],
        [True, False, "True"],
        [10**30, 2, 3],
        [frozenset({1}), frozenset({2}), frozenset()],
    ],
    ids=str,
)
def test_any_hashable_names_make_the_same_bags(names):
    data = make_shuffled(12, 2, bags=3, rng=0)
    named = np.empty(12, dtype=object)
    named[:] = [names[code] for code in data.groups]
    for groups in (named, named.tolist()):
        bags = make_bags(data.X, data.y, groups)
        assert content(bags) == content(make_bags(data.X, data.y, data.groups))


def test_joined_bags_are_the_bags_of_one_table():
    data = make_shuffled(12, 2, bags=[3, 4, 5], rng=0)
    parts = [Bag(data.X[data.groups == r], data.y[data.groups == r]) for r in (2, 0, 1)]
    assert content(join_bags(parts)) == content(make_bags(data.X, data.y, data.groups))


def test_bag_means_are_the_means_of_each_bag():
    data = make_shuffled(12, 2, bags=[3, 4, 5], rng=0)
    bags = make_bags(data.X, data.y, data.groups)
    rows, labels = bags.bag_means()
    ends = list(zip(bags.offsets[:-1], bags.offsets[1:], strict=True))
    # Two orders of the same short sums.
    np.testing.assert_allclose(rows, [bags.X[a:b].mean(axis=0) for a, b in ends], rtol=1e-14)
    np.testing.assert_allclose(labels, [bags.y[a:b].mean() for a, b in ends], rtol=1e-14)


def test_subsamples_keep_shares_pairing_and_the_distribution_of_the_labels():
    data = make_shuffled(60_000, 2, bags=[20_000, 40_000], rng=0)
    bags = make_bags(data.X, data.y, data.groups)
    sample = bags.subsample(3_000, np.random.default_rng(1))
    assert sample.sizes.tolist() == [1_000, 2_000]
    np.testing.assert_array_equal(data.X[sample.rows.order], sample.X)
    np.testing.assert_array_equal(data.y[sample.labels.order], sample.y)
    assert len(set(sample.rows.order.tolist())) == 3_000
    # Middles of equal slices: a quantile moves by at most one slice of 1/1000.
    for r in range(2):
        full = bags.y[bags.offsets[r] : bags.offsets[r + 1]]
        part = sample.y[sample.offsets[r] : sample.offsets[r + 1]]
        for level in (0.1, 0.5, 0.9):
            low, high = np.quantile(full, [level - 0.001, level + 0.001])
            assert low <= np.quantile(part, level) <= high


@pytest.mark.parametrize(
    ("bags", "words"),
    [
        ([], "no bags"),
        ([Bag([[1.0]], [1.0]), Bag([[1.0, 2.0]], [1.0])], "different numbers of columns"),
    ],
)
def test_bags_that_do_not_fit_together_are_refused(bags, words):
    with pytest.raises(InputError, match=words):
        join_bags(bags)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([1.0, 2.0], [1.0, 2.0], "two-dimensional X"),
        ([[1.0], [2.0]], [[1.0], [2.0]], "one-dimensional y"),
        ([[1.0], [2.0]], [], "2 rows, 1 features and 0 labels"),
    ],
)
def test_a_bag_of_the_wrong_shape_is_refused(X, y, words):
    with pytest.raises(InputError, match=words):
        Bag(X, y)


def test_shuffling_keeps_the_labels_of_every_group_and_moves_them():
    data = make_shuffled(300, 1, bags=3, rng=0)
    shuffled = shuffle_labels(data.linked_y, data.groups, rng=1)
    for r in range(3):
        mask = data.groups == r
        np.testing.assert_array_equal(np.sort(shuffled[mask]), np.sort(data.linked_y[mask]))
    # 300 labels in bags of 100 keep about one place each: over 30 has probability below 1e-19.
    assert np.sum(shuffled == data.linked_y) < 30


def test_simulated_data_obey_the_model_they_state():
    data = make_shuffled(500, 3, noise=0.0, bags=[100, 400], intercept=2.0, rng=5)
    # One rounding of a sum of four products.
    np.testing.assert_allclose(data.linked_y, data.X @ data.weights + 2.0, rtol=1e-12)
    assert np.bincount(data.groups).tolist() == [100, 400]
    again = make_shuffled(500, 3, noise=0.0, bags=[100, 400], intercept=2.0, rng=5)
    assert again.y.tobytes() == data.y.tobytes()


def test_simulated_noise_has_the_power_asked_for():
    data = make_shuffled(200_000, 2, snr_db=10, rng=0)
    signal = data.X @ data.weights
    # The sample variance of 200 000 Gaussians has a relative sd of 0.3 %: 2 % is over six of
    # them, a false-alarm rate below 1e-9.
    ratio = np.mean(signal**2) / np.mean((data.linked_y - signal) ** 2)
    assert 10 * np.log10(ratio) == pytest.approx(10, abs=10 * np.log10(1.02))


@settings(max_examples=60, deadline=None)
@given(shuffled_tables(), st.integers(0, 2**32 - 1))
def test_sorted_error_ignores_the_order_inside_groups(table, seed):
    X, y, groups = table
    rng = np.random.default_rng(seed)
    moved = shuffle_labels(y, groups, rng), shuffle_labels(X[:, 0], groups, rng)
    assert sorted_error(*moved, groups) == sorted_error(y, X[:, 0], groups)


def test_sorted_error_of_groups_of_one_is_the_mean_squared_error():
    y, z = np.array([1.0, 5.0, 2.0]), np.array([2.0, 2.0, 2.0])
    assert sorted_error(y, z, ["a", "b", "c"]) == pytest.approx((1 + 9 + 0) / 3, rel=1e-15)


def test_the_gap_of_bags_is_the_sorted_error_where_each_row_has_its_label():
    data = make_shuffled(200, 2, bags=[50, 150], rng=3)
    bags = make_bags(data.X, data.y, data.groups)
    found = measure_gap(bags, data.weights, 0.5)
    expected = sorted_error(data.y, data.X @ data.weights + 0.5, data.groups)
    # Shares of a bag are sums of 1/n, each rounded.
    assert found == pytest.approx(expected, rel=1e-10)


def test_the_gap_counts_a_mass_as_so_many_items():
    # Quantiles of 0, 0, 3 against those of 1, 2: 0-1 up to 1/2, 0-2 up to 2/3, then 3-2.
    bags = join_bags([Bag([[0.0], [3.0]], [1.0, 2.0], row_counts=[2, 1])])
    assert measure_gap(bags, np.array([1.0]), 0.0) == pytest.approx(1 / 2 + 4 / 6 + 1 / 3)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8, np.uint64])
def test_whole_numbers_of_any_kind_and_reach_are_numbered_in_their_order(kind):
    rng = np.random.default_rng(0)
    ends = np.iinfo(kind)
    for low, high in ((ends.min, ends.max), (3, 40), (ends.max - 5, ends.max)):
        groups = rng.integers(low, high, 300, dtype=kind, endpoint=True)
        expected = np.unique(groups, return_inverse=True)[1]
        assert np.array_equal(number_names(groups), expected)
