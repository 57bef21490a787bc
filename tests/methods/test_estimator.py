"""Properties of the scikit-learn estimator: a good citizen in every tool around it."""

import pickle
import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from registry_examples import (
    CHEAP,
    SOLVERS,
    all_weights,
    fit_quietly,
    fit_shared,
    make_method_data,
    make_property_data,
)
from unshuffle import (
    ShuffledLinearRegression,
    make_shuffled,
    make_shuffled_scorer,
    sorted_error,
)
from unshuffle.objectives.losses import Moments, OrderInvariant, SmallD
from unshuffle.objectives.noise import noise_from_calibration
from unshuffle.solvers.projection import Projection


@pytest.fixture
def routing():
    """Switch metadata routing on for one test."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# The checks call fit hundreds of times on data that identify nothing: a likelihood with little
# effort takes the same way in a fraction of the time. The default itself is checked in `make slow`.
CHECKED = [
    ShuffledLinearRegression(CHEAP),
    # Few starts, and every other option.
    ShuffledLinearRegression("ls", n_starts=8, noise=0.1, l2=0.1, fit_intercept=False),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([ShuffledLinearRegression()])
def test_scikit_learn_finds_nothing_to_complain_of_by_default(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(CHECKED)
def test_scikit_learn_finds_nothing_to_complain_of(estimator, check):
    check(estimator)


def test_poor_score_is_the_only_special_tag():
    ours = ShuffledLinearRegression().__sklearn_tags__()
    plain = LinearRegression().__sklearn_tags__()
    assert ours.regressor_tags.poor_score and not plain.regressor_tags.poor_score
    assert not ours.no_validation and not ours.non_deterministic
    assert ours.estimator_type == plain.estimator_type == "regressor"
    assert ours.target_tags.required


def shuffled_twins(**options):
    return ShuffledLinearRegression(random_state=3, **options)


OPTIONS = [
    {"method": "ls", "n_starts": 5, "tol": 1e-4, "n_jobs": 2},
    {"method": Moments(3), "noise": [0.0, 0.1, 0.0]},
    {"method": SmallD(4), "l1": 0.1, "l2": 0.2},
    {"method": Projection(2), "noise": 0.1, "fit_intercept": False},
    {"method": OrderInvariant(np.cbrt, 1.5)},
    {"noise": noise_from_calibration([1.0, 2.0, 4.0])},
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_clones_and_pickles_fit_and_predict_the_same(options):
    data = make_method_data("ls")
    model = shuffled_twins(**options)
    copy = clone(model)
    assert copy.get_params().keys() == model.get_params().keys()
    for name, value in copy.get_params().items():
        assert value is getattr(model, name) or type(value) is type(getattr(model, name))
    model.fit(data.X, data.y, data.groups)
    assert not hasattr(copy, "coef_")
    copy.fit(data.X, data.y, data.groups)
    again = pickle.loads(pickle.dumps(model))
    for other in (copy, again):
        assert all_weights(other).tobytes() == all_weights(model).tobytes()
        np.testing.assert_array_equal(other.predict(data.X), model.predict(data.X))
    assert again.solution_.status is model.solution_.status


@pytest.mark.parametrize("method", SOLVERS)
def test_prediction_is_the_linear_form(method):
    data = make_property_data(method)
    model = fit_shared(method, data.X, data.y, data.groups)
    expected = [sum(row * model.coef_) + model.intercept_ for row in data.X]
    # Two products and two sums.
    np.testing.assert_allclose(model.predict(data.X), expected, rtol=1e-12)
    bare = fit_shared(method, data.X, data.y, data.groups, fit_intercept=False)
    assert bare.intercept_ == 0.0
    np.testing.assert_allclose(bare.predict(np.zeros((1, 2))), 0.0)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_give_the_same_fit_and_keep_their_names(library):
    data = make_method_data("ls")
    frame = library.DataFrame({"age": data.X[:, 0], "dose": data.X[:, 1]})
    labels, groups = library.Series(data.y), library.Series([f"bag {r}" for r in data.groups])
    model = fit_quietly("ls", frame, labels, groups)
    plain = fit_quietly("ls", data.X, data.y, data.groups)
    assert model.feature_names_in_.tolist() == ["age", "dose"]
    assert all_weights(model).tobytes() == all_weights(plain).tobytes()
    np.testing.assert_array_equal(model.predict(frame), plain.predict(data.X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["dose", "age"]])


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_remarks_call_constant_columns_by_name(library):
    data = make_method_data("ls")
    columns = {"age": data.X[:, 0], "batch": np.ones(60), "site": np.ones(60)}
    with pytest.warns(UserWarning, match="column 'batch' is constant"):
        frame = library.DataFrame({k: columns[k] for k in ("age", "batch")})
        ShuffledLinearRegression("ls", random_state=0).fit(frame, data.y, data.groups)
    with pytest.warns(UserWarning, match="columns 'batch', 'site' are constant"):
        model = ShuffledLinearRegression("ls", random_state=0)
        model.fit(library.DataFrame(columns), data.y, data.groups)
    assert "'batch'" in str(model.summary())
    # A second fit, on an array, knows no names.
    with pytest.warns(UserWarning, match="column 1 is constant"):
        model.fit(np.column_stack([data.X[:, 0], np.ones(60)]), data.y, data.groups)


def test_pandas_labels_are_taken_by_place_not_by_index():
    data = make_method_data("ls")
    order = np.random.default_rng(0).permutation(60)
    labels = pd.Series(data.y, index=order)
    groups = pd.Series(data.groups, index=order[::-1])
    model = fit_quietly("ls", pd.DataFrame(data.X, columns=["a", "b"]), labels, groups)
    plain = fit_quietly("ls", data.X, data.y, data.groups)
    assert all_weights(model).tobytes() == all_weights(plain).tobytes()


@pytest.mark.parametrize(
    "name",
    [
        lambda r: f"bag {r}",
        lambda r: r if r % 2 else f"{r}",
        lambda r: (r, "run"),
        lambda r: r - 2.5,
        lambda r: pd.Timestamp(2024, 1, r + 1),
        lambda r: 1 if r == 0 else ("1" if r == 1 else r),
    ],
    ids=["texts", "mixed", "tuples", "fractions", "dates", "1 and '1'"],
)
def test_groups_of_any_names_give_the_same_fit(name):
    data = make_method_data("ls")
    plain = fit_quietly("ls", data.X, data.y, data.groups)
    named = fit_quietly("ls", data.X, data.y, [name(int(r)) for r in data.groups])
    assert all_weights(named).tobytes() == all_weights(plain).tobytes()


def test_categories_serve_as_groups():
    data = make_method_data("ls")
    plain = fit_quietly("ls", data.X, data.y, data.groups)
    groups = pd.Series(data.groups).map(str).astype("category")
    named = fit_quietly("ls", data.X, data.y, groups)
    assert all_weights(named).tobytes() == all_weights(plain).tobytes()


def make_split_data(noise=0.3):
    """Simulate twelve bags, enough for whole groups on both sides of a split."""
    return make_shuffled(240, 3, noise=noise, bags=12, weights=[1.0, -1.0, 0.5], rng=0)


def test_grid_search_over_whole_groups_routes_groups_everywhere(routing):
    data = make_split_data()
    search = GridSearchCV(
        ShuffledLinearRegression("ls", random_state=0),
        {"l2": [0.0, 10.0]},
        scoring=make_shuffled_scorer(),
        cv=GroupKFold(3),
    )
    search.fit(data.X, data.y, groups=data.groups)
    assert search.best_params_ == {"l2": 0.0}  # λ = 10 shrinks weights of one to nothing
    # The same by hand: fit on whole groups, score group by group.
    splits = list(GroupKFold(3).split(data.X, data.y, data.groups))
    for l2, found in zip((0.0, 10.0), search.cv_results_["mean_test_score"], strict=True):
        scores = []
        for train, test in splits:
            model = fit_quietly(
                "ls", data.X[train], data.y[train], data.groups[train], l2=l2, random_state=0
            )
            scores.append(
                -sorted_error(data.y[test], model.predict(data.X[test]), data.groups[test])
            )
        assert found == pytest.approx(np.mean(scores), rel=1e-12)
    again = fit_quietly("ls", data.X, data.y, data.groups, random_state=0)
    assert all_weights(search.best_estimator_).tobytes() == all_weights(again).tobytes()


@pytest.mark.parametrize("is_made_first", [True, False], ids=["made first", "routing first"])
def test_scorer_asks_for_groups_whenever_it_was_made(is_made_first):
    data = make_split_data()
    model = ShuffledLinearRegression("ls", random_state=0)
    scorer = make_shuffled_scorer() if is_made_first else None
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_validate(
            model,
            data.X,
            data.y,
            params={"groups": data.groups},
            cv=GroupKFold(3),
            scoring=scorer or make_shuffled_scorer(),
        )["test_score"]
    for score, (train, test) in zip(
        scores, GroupKFold(3).split(data.X, data.y, data.groups), strict=True
    ):
        part = fit_quietly(
            "ls", data.X[train], data.y[train], data.groups[train], random_state=0
        ).predict(data.X[test])
        assert score == pytest.approx(-sorted_error(data.y[test], part, data.groups[test]))
        # Group by group is another number than all at once.
        assert score != pytest.approx(-sorted_error(data.y[test], part), rel=1e-3)


def test_pipeline_routes_groups_to_the_estimator(routing):
    data = make_split_data()
    pipe = make_pipeline(StandardScaler(), ShuffledLinearRegression("ls", random_state=0))
    pipe.fit(data.X, data.y, groups=data.groups)
    plain = fit_quietly("ls", data.X, data.y, data.groups, random_state=0)
    # Scaling is undone by the weights: the same minimum, to the root of rounding.
    np.testing.assert_allclose(pipe.predict(data.X), plain.predict(data.X), rtol=1e-6, atol=1e-6)
    scores = cross_validate(
        pipe,
        data.X,
        data.y,
        params={"groups": data.groups},
        cv=GroupKFold(3),
        scoring=make_shuffled_scorer(),
    )["test_score"]
    assert scores.shape == (3,) and np.all(scores < 0) and np.all(scores > -1)


def test_pipeline_without_routing_takes_groups_by_step_name():
    data = make_split_data()
    pipe = make_pipeline(StandardScaler(), ShuffledLinearRegression("ls", random_state=0))
    pipe.fit(data.X, data.y, shuffledlinearregression__groups=data.groups)
    plain = fit_quietly("ls", data.X, data.y, data.groups, random_state=0)
    np.testing.assert_allclose(pipe.predict(data.X), plain.predict(data.X), rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_without_routing_groups_never_reach_the_estimator():
    data = make_split_data()
    search = GridSearchCV(
        ShuffledLinearRegression("ls", random_state=0),
        {"l2": [0.0]},
        scoring=make_shuffled_scorer(),
        cv=GroupKFold(3),
    )
    search.fit(data.X, data.y, groups=data.groups)
    one_bag = fit_quietly("ls", data.X, data.y, random_state=0)
    assert all_weights(search.best_estimator_).tobytes() == all_weights(one_bag).tobytes()


@pytest.mark.parametrize("seed", [0, 7])
def test_seed_may_be_a_number_or_a_generator(seed):
    data = make_split_data()
    by_number = fit_quietly("ls", data.X, data.y, random_state=seed)
    by_generator = fit_quietly("ls", data.X, data.y, random_state=np.random.default_rng(seed))
    assert all_weights(by_number).tobytes() == all_weights(by_generator).tobytes()
    by_state = [
        fit_quietly("ls", data.X, data.y, random_state=np.random.RandomState(seed))
        for _ in range(2)
    ]
    assert all_weights(by_state[0]).tobytes() == all_weights(by_state[1]).tobytes()


def test_fitting_twice_forgets_the_first_fit():
    one, two = make_method_data("ls", rng=0), make_split_data()
    model = fit_quietly("ls", one.X, one.y, one.groups)
    model.fit(two.X, two.y, two.groups)
    fresh = fit_quietly("ls", two.X, two.y, two.groups)
    assert all_weights(model).tobytes() == all_weights(fresh).tobytes()
    assert model.n_features_in_ == 3


def test_fit_changes_neither_data_nor_options():
    data = make_method_data("ls")
    X, y, groups = data.X.copy(), data.y.copy(), data.groups.copy()
    model = ShuffledLinearRegression("ls", random_state=0, n_starts=4)
    before = model.get_params()
    X.setflags(write=False)
    y.setflags(write=False)
    assert model.fit(X, y, groups) is model
    assert model.get_params() == before
    np.testing.assert_array_equal(X, data.X)
    np.testing.assert_array_equal(y, data.y)


def test_one_model_class_serves_two_threads_at_once():
    data = [make_method_data("ls", rng=seed) for seed in (0, 1)]
    expected = [all_weights(fit_quietly("ls", d.X, d.y, d.groups)).tobytes() for d in data]
    found = [[], []]

    def work(i):
        for _ in range(20):
            model = ShuffledLinearRegression("ls", random_state=3, n_jobs=2)
            model.fit(data[i].X, data[i].y, data[i].groups)
            found[i].append(all_weights(model).tobytes())

    threads = [threading.Thread(target=work, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(each) for each in found] == [{expected[0]}, {expected[1]}]
    assert [len(each) for each in found] == [20, 20]
