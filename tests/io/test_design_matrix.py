"""Designs: from a table to features, labels and bags."""

import numpy as np

from tables import table_of
from unshuffle.data.bags import make_bags
from unshuffle.io import expand_design, join_design, make_design, make_design_from_two


def test_all_columns_but_label_and_bag_are_features():
    design = make_design(table_of(a=[1, 2], y=[3, 4], g=[5, 5], b=[6, 7]), label="y", bag="g")
    assert design.feature_names == ("a", "b")
    assert design.X.tolist() == [[1, 6], [2, 7]] and design.y.tolist() == [3, 4]
    assert design.groups.tolist() == [5, 5] and design.groups.dtype == np.int64
    assert design.rows.tolist() == [0, 1] and design.notes == ()


def test_categories_become_zeros_and_ones_against_the_first_level():
    design = make_design(table_of(t=["v", "u", "w"], y=[1, 2, 3]), label="y")
    assert design.feature_names == ("t=v", "t=w") and design.base_levels == {"t": "u"}
    assert design.X.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert design.notes == ("column 't': base level 'u'",)


def test_numbers_declared_categorical_are_coded_in_order_of_size():
    table = table_of(k=[10, 2, 1.5], y=[1, 2, 3])
    design = make_design(table, label="y", categorical=["k"])
    assert design.feature_names == ("k=2", "k=10") and design.base_levels == {"k": "1.5"}


def test_dropped_rows_are_counted_and_never_silent():
    table = table_of(a=[1, np.nan, 3, 4], t=["u", "v", None, "v"], y=[1, 2, 3, 4])
    design = make_design(table, label="y", missing="drop")
    assert design.rows.tolist() == [0, 3] and design.y.tolist() == [1, 4]
    assert any("dropped 2 of 4 rows" in note and "1 in 'a'" in note for note in design.notes)
    assert any("may belong to another row" in note for note in design.notes)


def test_unused_columns_may_be_broken():
    table = table_of(a=[1, 2], junk=[np.nan, np.inf], y=[3, 4])
    assert make_design(table, label="y", features=["a"]).X.tolist() == [[1], [2]]


def test_order_across_two_files_carries_no_meaning():
    rng = np.random.default_rng(0)
    bags = np.array(["p", "q", "q", "p", "r"], dtype=object)
    rows = table_of(x=[1, 2, 3, 4, 5], g=bags)
    for _ in range(5):
        order = rng.permutation(5)
        y = np.array([10, 20, 21, 11, 30])
        design = make_design_from_two(rows, table_of(g=bags[order], y=y[order]), bag="g")
        assert design.X.ravel().tolist() == [1, 2, 3, 4, 5]
        assert (design.groups == bags).all()
        for bag, labels in {"p": {10, 11}, "q": {20, 21}, "r": {30}}.items():
            assert set(design.y[bags == bag]) == labels


def test_bags_match_across_files_whether_written_as_text_or_numbers():
    rows, labels = table_of(x=[1, 2], g=[1, 2]), table_of(y=[3, 4], g=["2", "1"])
    assert make_design_from_two(rows, labels, bag="g").y.tolist() == [4, 3]


def test_two_files_without_bags_are_one_bag():
    design = make_design_from_two(table_of(x=[1, 2]), table_of(y=[3, 4]))
    assert design.groups is None and design.y.tolist() == [3, 4]


def same_bits(one, other):
    """Return whether two sets of bags hold the same rows and labels, to the last bit."""
    pairs = [
        (one.X, other.X),
        (one.rows.masses, other.rows.masses),
        (one.rows.offsets, other.rows.offsets),
        (one.labels.low, other.labels.low),
        (one.labels.high, other.labels.high),
        (one.labels.masses, other.labels.masses),
        (one.labels.offsets, other.labels.offsets),
    ]
    return one.pairing == other.pairing and all(np.array_equal(a, b) for a, b in pairs)


def test_a_weight_of_two_is_the_line_written_twice_and_of_zero_not_at_all():
    table = table_of(x=[1, 2, 3, 4], y=[9, 7, 8, 0], g=[1, 1, 2, 2], k=[2, 1, 3, 0])
    design = make_design(table, label="y", bag="g", weight="k")
    assert design.feature_names == ("x",) and design.rows.tolist() == [0, 1, 2]
    assert any("left out 1 of 4 rows of weight 0" in note for note in design.notes)
    X, y = np.array([1.0, 1, 2, 3, 3, 3])[:, None], np.array([9.0, 9, 7, 8, 8, 8])
    written = make_bags(X, y, [1, 1, 1, 2, 2, 2])
    assert same_bits(join_design(design), written)
    again = expand_design(design, "this")
    assert same_bits(make_bags(again.X, again.y, again.groups), written)
    assert again.rows.tolist() == [0, 0, 1, 2, 2, 2]


def test_weights_of_rows_and_labels_in_two_files_are_each_their_own():
    rows = table_of(x=[1, 2], g=["a", "a"], k=[2, 1])
    labels = table_of(y=[5, 4], g=["a", "a"], k=[1, 2])
    design = make_design_from_two(rows, labels, bag="g", weight="k")
    written = make_bags(np.array([[1.0], [1.0], [2.0]]), np.array([5.0, 4.0, 4.0]))
    assert same_bits(join_design(design), written)
    again = expand_design(design, "this")
    assert same_bits(make_bags(again.X, again.y, again.groups), written)


def test_numbers_that_differ_are_separate_samples_unless_it_is_said():
    rows, labels = table_of(x=[1, 2, 3]), table_of(y=[5, 6])
    names = {}
    for same_individuals in (None, True, False):
        design = make_design_from_two(rows, labels, same_individuals=same_individuals)
        names[same_individuals] = join_design(design).pairing.name
        assert join_design(design).pairing.sentence.removesuffix(".") in design.notes[-1]
    assert names == {None: "draws", True: "subset", False: "draws"}


def test_bins_come_in_any_order_with_gaps_and_open_ends():
    rows = table_of(x=[1, 2], g=["a", "b"])
    low = [5, np.nan, 2, 0, -np.inf]
    high = [np.nan, 1, 3, 4, 0]
    labels = table_of(g=["a", "a", "a", "b", "b"], low=low, high=high, count=[1, 2, 3, 0, 4])
    bags = join_design(make_design_from_two(rows, labels, bag="g"))
    found = [
        list(zip(*(side[a:b].tolist() for side in sides), strict=True))
        for sides in [(bags.labels.low, bags.labels.high, bags.labels.masses)]
        for a, b in zip(bags.labels.offsets[:-1], bags.labels.offsets[1:], strict=True)
    ]
    assert sorted(found, key=len) == [
        [(-np.inf, 0, 4)],
        [(-np.inf, 1, 2), (2, 3, 3), (5, np.inf, 1)],
    ]


def test_the_order_of_bins_and_rows_changes_no_bit():
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=30), np.repeat(["a", "b", "c"], 10)
    ends = np.arange(5.0)
    low, high = np.tile(ends, 3), np.tile(ends + 1, 3)
    bins, count = np.repeat(["a", "b", "c"], 5), rng.integers(0, 6, 15)
    fits = []
    for _ in range(3):
        i, j = rng.permutation(30), rng.permutation(15)
        labels = table_of(g=bins[j].tolist(), low=low[j], high=high[j], count=count[j])
        rows = table_of(x=x[i], g=g[i].tolist())
        fits.append(join_design(make_design_from_two(rows, labels, bag="g")))
    assert same_bits(fits[0], fits[1]) and same_bits(fits[0], fits[2])


def test_logarithms_of_bins_are_open_where_they_begin_at_zero():
    rows, labels = table_of(x=[1]), table_of(low=[0, 10, -5], high=[10, 100, 0], count=[1, 2, 0])
    design = make_design_from_two(rows, labels, log10=True)
    assert design.y.tolist() == [-np.inf, 1] and design.apart.high.tolist() == [1, 2]
