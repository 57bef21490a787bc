"""Properties of the order-blind score: no pairing is used, and whole groups reach it."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings, strategies as st
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from registry_examples import fit_quietly, make_method_data
from unshuffle import ShuffledLinearRegression, make_shuffled, shuffle_labels
from unshuffle.scoring import sorted_r2


def make_model():
    """Fit a cheap method to a few bags."""
    data = make_method_data("ls")
    return data, fit_quietly("ls", data.X, data.y, data.groups)


@pytest.mark.parametrize("seed", range(3))
def test_shuffling_labels_inside_groups_changes_no_bit_of_the_score(seed):
    data, model = make_model()
    rng = np.random.default_rng(seed)
    expected = model.score(data.X, data.y, data.groups)
    assert model.score(data.X, shuffle_labels(data.y, data.groups, rng), data.groups) == expected
    assert model.score(data.X, data.linked_y, data.groups) == expected
    order = rng.permutation(len(data.y))
    assert model.score(data.X[order], data.y[order], data.groups[order]) == expected
    assert model.score(data.X, data.y) == model.score(data.X, rng.permutation(data.y))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(-5, 5), st.integers(-5, 5)),
        min_size=2,
        max_size=6,
    )
)
def test_sorting_is_the_best_of_all_pairings_inside_groups(rows):
    groups, y, z = (np.array(part) for part in zip(*rows, strict=True))
    if np.ptp(y) == 0:
        return
    places = np.arange(len(y))
    best = max(
        r2_score(y[list(order)], z)
        for order in permutations(places)
        if (groups[list(order)] == groups).all()
    )
    # Sums of at most six small integers, divided once.
    assert sorted_r2(y, z, groups) == pytest.approx(best, rel=1e-12, abs=1e-12)


def test_the_score_of_groups_of_one_row_is_the_linked_r_squared():
    data, model = make_model()
    y = data.linked_y
    expected = r2_score(y, model.predict(data.X))
    assert model.score(data.X, y, groups=range(len(y))) == pytest.approx(expected, rel=1e-12)
    assert model.score(data.X, y, groups=data.groups) >= expected
    assert model.score(data.X, y) >= model.score(data.X, y, groups=data.groups)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_score_does_not_depend_on_the_unit_of_the_labels(scale):
    y, z = np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 3.0])
    # Two roundings of the unit against a ratio of sums.
    assert sorted_r2(scale * y, scale * z) == pytest.approx(r2_score(y, z), rel=1e-12)


def test_constant_labels_and_a_single_one_are_answered_as_by_r2_score():
    assert sorted_r2([2.0, 2.0], [2.0, 2.0]) == r2_score([2.0, 2.0], [2.0, 2.0]) == 1.0
    assert sorted_r2([2.0, 2.0], [1.0, 3.0]) == r2_score([2.0, 2.0], [1.0, 3.0]) == 0.0
    assert sorted_r2([0.0, 0.0], [0.0, 0.0]) == 1.0
    with pytest.warns(UndefinedMetricWarning, match="less than two samples"):
        assert np.isnan(sorted_r2([1.0], [2.0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y, groups: (X, y[:-1], groups), "60 rows but y has 59 labels"),
        (lambda X, y, groups: (X[:-1], y, groups), "59 rows but y has 60 labels"),
        (lambda X, y, groups: (X, y, groups[:-1]), "groups has 59 entries"),
        (lambda X, y, groups: (X, np.append(y[:-1], np.nan), groups), "y .* NaN"),
        (lambda X, y, groups: (np.where(X > 1, np.nan, X), y, groups), "NaN"),
        (lambda X, y, groups: (X[:, :1], y, groups), "1 features"),
    ],
    ids=["fewer labels", "more labels", "fewer groups", "NaN in y", "NaN in X", "columns"],
)
def test_what_cannot_be_scored_is_refused_in_words(change, message):
    data, model = make_model()
    with pytest.raises(ValueError, match=message):
        model.score(*change(data.X, data.y, data.groups))


def test_weights_of_rows_are_refused():
    data, model = make_model()
    with pytest.raises(ValueError, match="no sample_weight"):
        model.score(data.X, data.y, data.groups, sample_weight=np.ones(60))


def test_cross_validation_over_whole_groups_scores_group_by_group():
    data = make_shuffled(240, 3, noise=0.3, bags=12, weights=[1.0, -1.0, 0.5], rng=0)
    model = ShuffledLinearRegression("ls", random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = ShuffledLinearRegression("ls", random_state=0).set_score_request(groups=True)
        found = [
            cross_val_score(each, data.X, data.y, params={"groups": data.groups}, cv=GroupKFold(3))
            for each in (model, asked, make_pipeline(StandardScaler(), model))
        ]
    expected = []
    for train, test in GroupKFold(3).split(data.X, data.y, data.groups):
        part = fit_quietly("ls", data.X[train], data.y[train], data.groups[train], random_state=0)
        expected.append(sorted_r2(data.y[test], part.predict(data.X[test]), data.groups[test]))
        # Group by group is another number than all at once.
        assert sorted_r2(data.y[test], part.predict(data.X[test])) > expected[-1]
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], expected)
    # Scaling is undone by the weights: the same minimum, to the root of rounding.
    np.testing.assert_allclose(found[2], expected, rtol=1e-6)


def test_plain_folds_that_cut_groups_apart_score_worse_than_the_truth():
    # Half of each group's labels belongs to rows of the other half.
    data = make_shuffled(400, 1, noise=0.1, bags=40, weights=[1.0], rng=1)
    truth = LinearRegression().fit(data.X, data.linked_y)
    cut, whole = [], []
    for cv, scores in ((KFold(2, shuffle=True, random_state=0), cut), (GroupKFold(2), whole)):
        groups = data.groups if scores is whole else None
        for _, test in cv.split(data.X, data.y, groups):
            z = truth.predict(data.X[test])
            scores.append(sorted_r2(data.y[test], z, data.groups[test]))
    assert min(whole) > 0.98 and max(cut) < 0.9


def test_frames_are_scored_as_arrays_are():
    data, model = make_model()
    frame = pd.DataFrame(data.X, columns=["a", "b"])
    named = fit_quietly("ls", frame, data.y, data.groups)
    groups = pd.Series([f"bag {r}" for r in data.groups], index=frame.index[::-1])
    expected = model.score(data.X, data.y, data.groups)
    assert named.score(frame, pd.Series(data.y), groups) == expected
