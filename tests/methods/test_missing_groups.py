"""A model fitted with groups warns where they are missing: scored, cloned, fitted again."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unshuffle import MissingGroupsWarning, ShuffledLinearRegression, make_shuffled

DATA = make_shuffled(n=60, d=1, noise=0.1, bags=12, rng=0)
X, Y, GROUPS = DATA.X, DATA.y, DATA.groups
TOLD = pytest.warns(MissingGroupsWarning, match="without groups")


def make_model(**options):
    return ShuffledLinearRegression("ls", n_starts=2, random_state=0, **options)


@pytest.fixture
def fitted():
    return make_model().fit(X, Y, GROUPS)


USES = {
    "score": lambda model: model.score(X, Y),
    "fit": lambda model: model.fit(X, Y),
    "clone": lambda model: clone(model).fit(X, Y),
    "clone of a clone": lambda model: clone(clone(model)).fit(X, Y),
    "cross_val_score": lambda model: cross_val_score(
        model, X, Y, groups=GROUPS, cv=GroupKFold(3), error_score="raise"
    ),
    "permutation_importance": lambda model: permutation_importance(model, X, Y, n_repeats=1),
    "search": lambda model: GridSearchCV(model, {"l2": [0.0]}, cv=GroupKFold(3)).fit(
        X, Y, groups=GROUPS
    ),
    "pickle": lambda model: pickle.loads(pickle.dumps(model)).score(X, Y),
}


@pytest.mark.parametrize("use", USES)
def test_a_model_fitted_with_groups_warns_where_they_are_left_out(fitted, use):
    with TOLD:
        USES[use](fitted)


def test_the_score_of_a_pipeline_warns_where_groups_are_left_out():
    pipeline = make_pipeline(StandardScaler(), make_model())
    pipeline.fit(X, Y, shuffledlinearregression__groups=GROUPS)
    with TOLD:
        pipeline.score(X, Y)


RIGHT = {
    "score": lambda model: model.score(X, Y, GROUPS),
    "fit": lambda model: model.fit(X, Y, GROUPS),
    "predict": lambda model: model.predict(X),
    "clone": lambda model: clone(model).fit(X, Y, GROUPS),
    "cross_val_score": lambda model: cross_val_score(
        model, X, Y, params={"groups": GROUPS}, cv=GroupKFold(3), error_score="raise"
    ),
    "pipeline": lambda model: (
        make_pipeline(StandardScaler(), model).fit(X, Y, groups=GROUPS).score(X, Y, groups=GROUPS)
    ),
    "one bag": lambda model: make_model().fit(X, Y).score(X, Y),
    "importance": lambda model: permutation_importance(
        model, X, Y, scoring=lambda m, rows, y: m.score(rows, y, groups=GROUPS), n_repeats=1
    ),
}


@pytest.mark.parametrize("use", RIGHT)
def test_nothing_warns_where_groups_are_given_or_there_were_none(fitted, use):
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("error", MissingGroupsWarning)
        RIGHT[use](fitted)


def test_a_clone_keeps_requests_of_metadata_and_no_fit(fitted):
    with sklearn.config_context(enable_metadata_routing=True):
        copy = clone(fitted.set_fit_request(anchors=False))
        request = copy.get_metadata_routing().fit.requests
        assert request["anchors"] is False and request["groups"] is True
    assert not hasattr(copy, "coef_") and not hasattr(copy, "result_")
    assert copy.get_params() == fitted.get_params()


def test_each_warning_can_be_silenced_by_its_class(fitted):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("ignore", MissingGroupsWarning)
        fitted.score(X, Y)
        make_model().fit(np.column_stack([X, np.ones(len(X))]), Y, GROUPS)
    assert [each.category.__name__ for each in told] == ["DataWarning"]
