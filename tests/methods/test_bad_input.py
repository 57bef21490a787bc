"""Bad input: one clear line that names what is wrong, where, and the way out."""

import re
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unshuffle import (
    Bag,
    ShuffledLinearRegression,
    fit,
    make_bags,
    noise_from_calibration,
    sorted_error,
)
from unshuffle.errors import InputError
from unshuffle.methods import choose_method
from unshuffle.objectives.losses import Moments, OrderInvariant, SmallD
from unshuffle.objectives.noise import GaussianNoise, MomentNoise
from unshuffle.objectives.penalties import Penalty
from unshuffle.simulate import make_shuffled, shuffle_labels
from unshuffle.solvers.projection import Projection

DATA = make_shuffled(20, 2, noise=0.1, bags=4, rng=0)
X, Y, GROUPS = DATA.X, DATA.y, DATA.groups


def with_value(array, place, value):
    """Return a copy with one entry replaced."""
    array = np.array(array, dtype=object if isinstance(value, str) else float)
    array[place] = value
    return array


def centred(array):
    """Return columns whose mean is zero to the last bit, as pairs of x and −x."""
    half = array[:10]
    return np.concatenate([half, -half])


FRAME = pd.DataFrame({"age": X[:, 0], "weight": X[:, 1]})

# what is wrong → options, (X, y, groups), words that the message must hold
CASES = {
    "NaN in X": ({}, (with_value(X, (3, 1), np.nan), Y, None), ["NaN", "column 1", "row 3"]),
    "infinity in X": ({}, (with_value(X, (4, 0), np.inf), Y, None), ["inf", "column 0", "row 4"]),
    "minus infinity": ({}, (with_value(X, (4, 0), -np.inf), Y, None), ["inf", "column 0"]),
    "NaN in a named column": (
        {},
        (FRAME.mask(FRAME.index.to_series().eq(2)), Y, None),
        ["NaN", "'age'", "row 2"],
    ),
    "NaN in y": ({}, (X, with_value(Y, 5, np.nan), None), ["y", "NaN", "row 5"]),
    "infinity in y": ({}, (X, with_value(Y, 6, np.inf), None), ["y", "inf", "row 6"]),
    "text in X": ({}, (with_value(X, (7, 1), "tall"), Y, None), ["'tall'", "column 1", "row 7"]),
    "text in a frame": (
        {},
        (FRAME.assign(sex="f"), Y, None),
        ["'f'", "column 'sex'", "row 0", "OneHotEncoder"],
    ),
    "no rows": ({}, (np.empty((0, 2)), np.empty(0), None), ["0 sample"]),
    "no features": ({}, (np.empty((20, 0)), Y, None), ["0 feature"]),
    "one-dimensional X": ({}, (X[:, 0], Y, None), ["2D", "reshape"]),
    "two label columns": ({}, (X, np.column_stack([Y, Y]), None), ["1d", "(20, 2)", "one label"]),
    "y too short": ({}, (X, Y[:-1], None), ["20 rows", "19 labels"]),
    "groups too short": ({}, (X, Y, GROUPS[:-1]), ["groups", "19", "20 rows"]),
    "groups with a gap": ({}, (X, Y, ["a"] * 19 + [None]), ["groups", "None", "row 19"]),
    "groups with NaN": ({}, (X, Y, with_value(GROUPS, 2, np.nan)), ["groups", "nan", "row 2"]),
    "groups with pandas' NA": (
        {},
        (X, Y, pd.Series([*"ab" * 9, "a", pd.NA], dtype="string")),
        ["groups", "row 19"],
    ),
    "NA among objects": ({}, (X, Y, [pd.NA] * 20), ["groups", "<NA>", "row 0"]),
    "groups with NaT": ({}, (X, Y, [pd.NaT] * 20), ["groups", "NaT", "row 0"]),
    "groups that are a number": ({}, (X, Y, 3), ["groups", "'3'", "every row"]),
    "groups that are tuples of lists": ({}, (X, Y, [([1],)] * 20), ["row 0", "no name"]),
    "text in y": ({}, (X, with_value(Y, 5, "high"), None), ["y", "'high'", "row 5", "no number"]),
    "nothing in y": ({}, (X, [None, *Y[1:]], None), ["y", "row 0"]),
    "dates in a frame": (
        {},
        (FRAME.assign(day=pd.Timestamp("2024-01-01")), Y, None),
        ["'day'", "dates", "numbers"],
    ),
    "only dates in a frame": (
        {},
        (pd.DataFrame({"day": pd.date_range("2024", periods=20)}), Y, None),
        ["'day'", "dates"],
    ),
    "dates in a polars frame": (
        {},
        (pl.DataFrame({"a": X[:, 0], "day": [date(2024, 1, 1)] * 20}), Y, None),
        ["'day'", "dates"],
    ),
    "dates among objects": (
        {},
        (FRAME.assign(day=pd.Series([date(2024, 1, 1)] * 20, dtype=object)), Y, None),
        ["'day'", "dates"],
    ),
    "dates in an array": ({}, (np.full((20, 1), "2024", "M8[D]"), Y, None), ["X", "dates"]),
    "dates as labels": (
        {},
        (X, pd.Series(pd.date_range("2024", periods=20)), None),
        ["y", "dates"],
    ),
    "groups of two columns": ({}, (X, Y, np.zeros((20, 2))), ["groups", "(20, 2)"]),
    "groups that are lists": ({}, (X, Y, [[1]] * 20), ["groups", "row 0", "no name"]),
    "n < d": ({"method": "ls"}, (X[:2], Y[:2], None), ["n_samples = 2", "3 weights", "l2"]),
    "n < d for p1": ({"method": "p1"}, (X[:2], Y[:2], None), ["n_samples = 2", "3 weights"]),
    "n < d for emd": ({"method": "emd"}, (X[:2], Y[:2], None), ["n_samples = 2", "3 weights"]),
    "x̄ = 0 for sm, d = 1": (
        {"method": "sm", "fit_intercept": False},
        (centred(X[:, :1]), Y, None),
        ["mean", "zero", "K=2"],
    ),
    "x̄ = 0 for sm, d = 2": (
        {"method": "sm", "fit_intercept": False},
        (centred(X), Y, None),
        ["mean", "both columns", "K=3"],
    ),
    "x̄ = 0 for p1": (
        {"method": "p1", "fit_intercept": False},
        (centred(X), Y, None),
        ["mean of every column is zero", "P1", "intercept"],
    ),
    "x̄ = 0 for p2": (
        {"method": "p2", "fit_intercept": False},
        (centred(X), Y, None),
        ["mean of every column is zero", "P2"],
    ),
    "too few bags for means": ({"method": "means"}, (X, Y, GROUPS // 2), ["2 bags", "3 weights"]),
    "bags alike for means": (
        {"method": "means"},
        (np.tile(X[:5], (4, 1)), Y, GROUPS),
        ["means of the bags", "span only 1 of 3"],
    ),
    "too many rows for exact": ({"method": "exact"}, (X, Y, None), ["at most 8", "'ls'"]),
    "one moment for too many weights": (
        {"method": Moments(1)},
        (X, Y, None),
        ["one moment", "3 weights", "K=3"],
    ),
    "penalty on means": ({"method": "means", "l2": 1.0}, (X, Y, GROUPS), ["no penalties", "'ls'"]),
    "penalty on exact": ({"method": "exact", "l1": 1.0}, (X, Y, None), ["no penalties"]),
    "negative l1": ({"l1": -1.0}, (X, Y, None), ["l1", "at least 0", "-1.0"]),
    "negative l2": ({"l2": -0.5}, (X, Y, None), ["l2", "at least 0", "-0.5"]),
    "l1 that is text": ({"l1": "much"}, (X, Y, None), ["l1", "'much'"]),
    "l2 that is NaN": ({"l2": np.nan}, (X, Y, None), ["l2", "nan"]),
    "infinite l2": ({"l2": np.inf}, (X, Y, None), ["l2", "inf"]),
    "negative noise": ({"noise": -0.1}, (X, Y, None), ["noise", "at least 0", "-0.1"]),
    "noise that is NaN": ({"noise": np.nan}, (X, Y, None), ["noise", "nan"]),
    "noise that is text": ({"noise": "loud"}, (X, Y, None), ["noise", "'loud'"]),
    "noise that is True": ({"noise": True}, (X, Y, None), ["noise", "True"]),
    "negative variance": ({"noise": [0.0, -1.0]}, (X, Y, None), ["no noise has the moments"]),
    "one noise moment": ({"noise": [0.0]}, (X, Y, None), ["at least E[e] and E[e²]"]),
    "impossible noise moments": ({"noise": [2.0, 1.0]}, (X, Y, None), ["at least E[e]²"]),
    "fewer noise moments than the loss needs": (
        {"method": Moments(4), "noise": [0.0, 1.0]},
        (X, Y, None),
        ["needs 4 noise moments", "2 are given", "smaller K"],
    ),
    "noise moments for a sorted loss": (
        {"method": "ls", "noise": [0.0, 1.0]},
        (X, Y, None),
        ["cannot be spread", "standard deviation", "'sm'"],
    ),
    "noise moments for emd": (
        {"method": "emd", "noise": [0.0, 1.0]},
        (X, Y, None),
        ["cannot be spread"],
    ),
    "noise moments for ks": ({"method": "ks", "noise": [0, 1]}, (X, Y, None), ["cannot be spread"]),
    "misspelt method": ({"method": "emdd"}, (X, Y, None), ["'emdd'", "did you mean 'emd'"]),
    "unknown method": ({"method": "xyzzy"}, (X, Y, None), ["'xyzzy'", "known", "'ls'"]),
    "method that is a number": ({"method": 3}, (X, Y, None), ["method=3", "ls", "Moments"]),
    "method that is a class": ({"method": Moments}, (X, Y, None), ["Moments", "give a name"]),
    "no starts": ({"method": "ls", "n_starts": 0}, (X, Y, None), ["n_starts", "0"]),
    "half a start": ({"method": "ls", "n_starts": 2.5}, (X, Y, None), ["n_starts", "2.5"]),
    "starts that are text": ({"method": "ls", "n_starts": "9"}, (X, Y, None), ["n_starts", "'9'"]),
    "starts that are a word": (
        {"method": "ls", "n_starts": "a"},
        (X, Y, None),
        ["n_starts", "'a'"],
    ),
    "endless starts": ({"method": "ls", "n_starts": np.inf}, (X, Y, None), ["n_starts", "inf"]),
    "starts that are NaN": (
        {"method": "ls", "n_starts": np.nan},
        (X, Y, None),
        ["n_starts", "nan"],
    ),
    "jobs that are text": ({"method": "ls", "n_jobs": "a"}, (X, Y, None), ["n_jobs", "'a'", "-1"]),
    "no jobs": ({"method": "ls", "n_jobs": 0}, (X, Y, None), ["n_jobs", "other than 0"]),
    "half a job": ({"method": "ls", "n_jobs": 1.5}, (X, Y, None), ["n_jobs", "1.5"]),
    "noise moments that are text": ({"noise": ["a"]}, (X, Y, None), ["noise", "'a'", "moments"]),
    "noise beyond all labels": (
        {"method": "sm", "noise": 1e200},
        (X, Y, None),
        ["noise", "units of y"],
    ),
    "labels whose squares overflow": ({"method": "ls"}, (X, 1e160 * Y, None), ["rescale y"]),
    "labels whose squares overflow for means": (
        {"method": "means"},
        (X, 1e160 * Y, GROUPS),
        ["rescale y"],
    ),
    "labels whose sums overflow": ({}, (X, np.full(20, 1.7e308), None), ["1.7e+308", "rescale y"]),
    "a column whose sums overflow": (
        {},
        (FRAME.assign(age=1.7e308), Y, None),
        ["'age'", "1.7e+308", "rescale"],
    ),
    "weights that overflow": ({}, (1e-200 * X, 1e200 * Y, None), ["weights", "rescale"]),
    "a penalty that overflows": (
        {"method": "sm", "l2": 1.0},
        (X, 1e160 * Y, None),
        ["l2", "rescale y"],
    ),
    "negative tol": ({"method": "ls", "tol": -1e-3}, (X, Y, None), ["tol", "-0.001"]),
    "tol that is NaN": ({"method": "ls", "tol": np.nan}, (X, Y, None), ["tol", "nan"]),
    "tol that is text": ({"method": "ls", "tol": "small"}, (X, Y, None), ["tol", "'small'"]),
    "tol that is None": ({"method": "ls", "tol": None}, (X, Y, None), ["tol", "None"]),
    "f(k) that is negative": (
        {"method": Moments(2, f=lambda k: -1.0)},
        (X, Y, None),
        ["f(k)", "at least 0"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_with_one_clear_line(case):
    options, (rows, labels, groups), words = CASES[case]
    with pytest.raises(ValueError) as caught:
        ShuffledLinearRegression(random_state=0, **options).fit(rows, labels, groups)
    message = str(caught.value)
    for word in words:
        assert word in message
    # Errors of our own are one line; scikit-learn's own may take more.
    if isinstance(caught.value, InputError):
        assert "\n" not in message


# what is wrong → a call, words that the message must hold
CALLS = {
    "K = 0": (lambda: Moments(0), "K of at least 1, got 0"),
    "K = 1.5": (lambda: Moments(1.5), "K of at least 1, got 1.5"),
    "D = 0": (lambda: SmallD(0), "D of at least 1, got 0"),
    "dp = 0": (lambda: Projection(0), "dp of at least 1, got 0"),
    "p below one": (lambda: OrderInvariant(np.sqrt, 0.5), "p of at least 1"),
    "p that is NaN": (lambda: OrderInvariant(np.sqrt, np.nan), "p of at least 1"),
    "g that is no function": (lambda: OrderInvariant(3), "function g, got 3"),
    "negative sd": (lambda: GaussianNoise(-1.0), "at least 0, got -1.0"),
    "no moments": (lambda: MomentNoise(()), "at least E[e] and E[e²]"),
    "one calibration label": (lambda: noise_from_calibration([1.0]), "at least two finite labels"),
    "NaN in calibration": (lambda: noise_from_calibration([1.0, np.nan]), "finite labels"),
    "negative penalty": (lambda: Penalty(np.array([-1.0]), np.zeros(1)), "l1 must be finite"),
    "NaN in a bag": (
        lambda: fit([Bag(X, Y), Bag([[0.0, 0.0], [1.0, np.nan]], [1.0, 2.0])]),
        "X holds NaN in column 1, bag 1, row 1",
    ),
    "infinite label in a bag": (
        lambda: fit([Bag([[0.0], [1.0]], [1.0, np.inf])]),
        "y holds infinity (inf) in bag 0, row 1",
    ),
    "a seed that is text": (lambda: fit([Bag(X, Y)], rng="a"), "whole number from 0"),
    "a negative seed": (lambda: fit([Bag(X, Y)], rng=-1), "got -1"),
    "a random state that is text": (
        lambda: ShuffledLinearRegression(random_state="a").fit(X, Y),
        "random_state",
    ),
    "text in calibration": (lambda: noise_from_calibration(["a", "b"]), "needs numbers"),
    "fewer labels than rows in make_bags": (lambda: make_bags(X, Y[:-1]), "20 rows but 19 labels"),
    "fewer groups than rows in make_bags": (
        lambda: make_bags(X, Y, GROUPS[:-1]),
        "19 entries but there are 20 rows",
    ),
    "fewer predictions than labels": (
        lambda: sorted_error(Y, Y[:-1]),
        "19 rows but 20 labels",
    ),
    "empty bag": (lambda: fit([Bag(np.empty((0, 2)), [])]), "empty"),
    "bag without features": (lambda: fit([Bag(np.empty((2, 0)), [1.0, 2.0])]), "empty"),
    "one empty bag among others": (
        lambda: fit([Bag(np.empty((0, 2)), []), Bag(X, Y)]),
        "bag",
    ),
    "an unknown option": (lambda: fit([Bag(X, Y)], methd="ls"), "methd"),
    "bag sizes that do not add up": (lambda: choose_method(10, 2, [3, 4]), "add up to 7"),
    "no rows to simulate": (lambda: make_shuffled(0, 2), "n and d must be at least 1"),
    "more bags than rows": (lambda: make_shuffled(5, 2, bags=6), "between 1 and n = 5"),
    "sizes of bags": (lambda: make_shuffled(5, 2, bags=[2, 2]), "add up to n = 5"),
    "unknown features": (lambda: make_shuffled(5, 2, features="norml"), "did you mean 'normal'"),
    "noise and snr": (lambda: make_shuffled(5, 2, noise=1, snr_db=3), "not both"),
    "negative simulated noise": (lambda: make_shuffled(5, 2, noise=-1), "at least 0, got -1"),
    "weights of the wrong length": (lambda: make_shuffled(5, 2, weights=[1]), "d = 2 entries"),
    "groups to shuffle": (lambda: shuffle_labels([1.0, 2.0], ["a"]), "1 entries but y has 2"),
}


@pytest.mark.parametrize("case", CALLS)
def test_bad_call_is_refused_with_one_clear_line(case):
    call, words = CALLS[case]
    with pytest.raises((InputError, TypeError), match=re.escape(words)) as caught:
        call()
    assert "\n" not in str(caught.value)


# what is wrong → (X, y, groups) given to match, words that the message must hold
MATCHES = {
    "y too short": ((X, Y[:-1], None), ["20 rows", "19 labels"]),
    "NaN in y": ((X, with_value(Y, 5, np.nan), None), ["y", "NaN", "row 5"]),
    "infinity in y": ((X, with_value(Y, 6, np.inf), None), ["y", "inf", "row 6"]),
    "text in y": ((X, with_value(Y, 5, "high"), None), ["y", "'high'", "row 5"]),
    "two label columns": ((X, np.column_stack([Y, Y]), None), ["1d", "(20, 2)"]),
    "NaN in X": ((with_value(X, (3, 1), np.nan), Y, None), ["NaN", "column 1", "row 3"]),
    "another number of columns": ((X[:, :1], Y, None), ["1 features", "expecting 2"]),
    "groups too short": ((X, Y, GROUPS[:-1]), ["groups", "19", "20 rows"]),
}


@pytest.mark.parametrize("case", MATCHES)
def test_bad_input_to_match_is_refused_as_in_fit(case):
    data, words = MATCHES[case]
    model = ShuffledLinearRegression("ls", random_state=0).fit(X, Y, GROUPS)
    with pytest.raises(ValueError) as caught:
        model.match(*data)
    for word in words:
        assert word in str(caught.value)
    assert model.n_features_in_ == 2  # match learns nothing


def test_prediction_before_fitting_is_refused():
    with pytest.raises(ValueError, match="not fitted"):
        ShuffledLinearRegression().predict(X)


def test_a_failed_fit_leaves_the_data_as_they_were():
    rows, labels = X.copy(), Y.copy()
    ShuffledLinearRegression("ls", random_state=0).fit(rows, labels, GROUPS)
    with pytest.raises(InputError):
        ShuffledLinearRegression("ls", l1=-1.0).fit(rows, labels, GROUPS)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, Y)
