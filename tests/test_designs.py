"""Laws of designs: from a table to features, labels and bags."""

import numpy as np

from tables import table_of
from unshuffle.files import (
    make_design,
    make_design_from_two,
)


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
