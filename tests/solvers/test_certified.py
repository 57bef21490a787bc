"""The certified least squares: the least there is, and honest about what is proven."""

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import oracles
from command_line import FIT, assert_one_line
from registry_examples import fit_quietly, make_method_data
from unshuffle import Bag, Certified, ShuffledLinearRegression, Status, fit, kernels, make_shuffled
from unshuffle.cli.app import run
from unshuffle.data.bags import make_bags
from unshuffle.errors import InputError
from unshuffle.objectives.losses import Squared
from unshuffle.objectives.penalties import no_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.solvers import certified
from unshuffle.solvers.certified import COMPLETE_GAP, make_axes
from unshuffle.solvers.descent import descend


def draw_axes(rng, sizes, k):
    """Return orthonormal columns and sorted labels of bags of these sizes."""
    U = np.linalg.qr(rng.standard_normal((sum(sizes), k)))[0]
    labels = [np.sort(rng.standard_normal(size)) for size in sizes]
    return U, labels, np.concatenate([[0], np.cumsum(sizes)])


def climb(U, labels, offsets, directions, n_steps=1):
    points, values = np.empty(directions.shape), np.empty(len(directions))
    columns = np.ascontiguousarray(U.T)
    kernels.climb_matchings(
        directions, columns, np.concatenate(labels), offsets, n_steps, points, values
    )
    return points, values


@pytest.mark.parametrize("n_steps", [1, 3, 50])
def test_local_search_alternates_sorting_and_least_squares(n_steps):
    rng = np.random.default_rng(0)
    for k in (1, 2, 4):
        U, labels, offsets = draw_axes(rng, (3, 12, 30), k)
        directions = rng.standard_normal((5, k))
        points, values = climb(U, labels, offsets, directions, n_steps)
        for direction, point, value in zip(directions, points, values, strict=True):
            expected = oracles.climb_by_sorting(direction, U, labels, n_steps)
            assert_allclose(point, expected[0], rtol=1e-12, atol=1e-13)
            assert_allclose(value, expected[1], rtol=1e-11)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [1.0, 0.1, 1e-3])
def test_bounds_of_cones_equal_non_negative_least_squares(k, width):
    rng = np.random.default_rng(k)
    U, labels, offsets = draw_axes(rng, (8, 20), k)
    total = sum(np.sum(part**2) for part in labels)
    for _ in range(20):
        corners = rng.standard_normal(k) + width * rng.standard_normal((k, k))
        corners /= np.linalg.norm(corners, axis=1)[:, None]
        points, values = climb(U, labels, offsets, corners)
        bounds = np.empty(1)
        kernels.bound_cones(corners[None], points[None], values[None], np.inf, bounds)
        heights = np.sum(points * corners, axis=1)
        # A cone of width 1e-3 loses 6 of the 16 digits in the plain system of the oracle.
        assert_allclose(
            bounds[0], oracles.bound_over_cone(corners, heights, total), atol=1e-9 * total
        )
        # Sound: no matching that sorts a direction of the cone has less than the bound.
        inside = rng.exponential(size=(50, k)) @ corners
        heights = np.sum(climb(U, labels, offsets, inside)[0] * inside, axis=1)
        reached = total - np.maximum(heights / np.linalg.norm(inside, axis=1), 0.0) ** 2
        assert reached.min() >= bounds[0] - 1e-12 * total


SMALL = {
    "one bag": ((7,), 2, None),
    "one bag of eight": ((8,), 2, None),
    "three features": ((7,), 3, None),
    "bags": ((3, 4), 2, None),
    "bags and a linked pair": ((4, 2, 1), 2, None),
    "ties among labels": ((7,), 2, 0),
    "ties everywhere": ((3, 4), 2, 1),
}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("case", SMALL)
@pytest.mark.parametrize("seed", range(3))
def test_the_value_is_that_of_every_matching_tried(case, fit_intercept, seed):
    sizes, d, ties = SMALL[case]
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((sum(sizes), d)), rng.standard_normal(sum(sizes))
    if ties is not None:
        y = y.round()
    if ties == 1:
        X = X.round()
    groups = np.repeat(np.arange(len(sizes)), sizes)
    options = {"fit_intercept": fit_intercept}
    exact = fit_quietly("exact", X, y, groups, **options).solution_
    found = fit_quietly("certified", X, y, groups, **options).solution_
    # Values are sums of squares of numbers near one: both sides round at 1e-16.
    assert found.value == pytest.approx(exact.value, rel=1e-9, abs=1e-15)
    assert found.status is Status.CERTIFIED
    assert found.certificate.is_complete and found.certificate.gap <= COMPLETE_GAP


def climb_from(truth, X, y):
    """Return the weights and the value of LS climbed from given weights, without an intercept."""
    problem = Problem(make_bags(X, y), Squared(), None, no_penalty(len(truth)))
    inverse = 0.5 * np.linalg.inv(problem.curvature)
    ends = descend(problem.smooth, truth[None], inverse, np.zeros(len(truth)), 1e-18, None)
    return ends.weights[0], float(ends.values[0])


def compare_with_truth(n_trials):
    """Return mean errors of certified and of LS climbed from the truth, checking every value."""
    errors = []
    for seed in range(n_trials):
        rng = np.random.default_rng(seed)
        X, w = rng.standard_normal((100, 3)), rng.standard_normal(3)
        y = rng.permutation(X @ w + 0.01 * rng.standard_normal(100))
        model = fit_quietly("certified", X, y, fit_intercept=False)
        weights, value = climb_from(w, X, y)
        assert model.solution_.certificate.is_complete
        assert model.solution_.value <= value * (1 + 1e-9)
        errors.append([np.linalg.norm(b - w) / np.linalg.norm(w) for b in (model.coef_, weights)])
    return np.mean(errors, axis=0)


def test_certified_is_as_near_the_truth_as_ls_started_there():
    proven, climbed = compare_with_truth(20)
    assert proven <= 1.2 * climbed < 0.01


@pytest.mark.slow
def test_certified_is_as_near_the_truth_as_ls_started_there_in_many_trials():
    # Fixed seeds; the two are the same answer in nearly every trial, so that no false alarm is due
    # to chance.
    proven, climbed = compare_with_truth(200)
    assert proven <= 1.2 * climbed < 0.005


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_no_multistart_is_lower(fit_intercept):
    for seed in range(5):
        d = 3 if fit_intercept else 4
        data = make_shuffled(60, d, noise=0.5, bags=1 + seed % 3, features="normal", rng=seed)
        options = {"fit_intercept": fit_intercept}
        found = fit_quietly("certified", data.X, data.y, data.groups, **options).solution_
        ls = fit_quietly("ls", data.X, data.y, data.groups, **options).solution_
        assert found.certificate.is_complete
        assert found.value <= ls.value * (1 + 1e-9)
        # The value shown is that of the weights shown.
        assert found.certificate.lower_bound <= found.value


def test_a_search_that_is_stopped_says_so_and_its_bound_holds():
    data = make_shuffled(200, 4, noise=1.0, features="normal", rng=0)
    whole = fit_quietly("certified", data.X, data.y, fit_intercept=False).solution_
    assert whole.certificate.is_complete
    model = ShuffledLinearRegression(Certified(time_limit=1e-9), fit_intercept=False)
    with pytest.warns(ConvergenceWarning, match="raise time_limit"):
        model.fit(data.X, data.y)
    found = model.solution_
    assert found.status is Status.UNPROVEN and not found.certificate.is_complete
    assert found.certificate.lower_bound <= whole.value <= found.value
    assert found.certificate.gap == pytest.approx(1 - found.certificate.lower_bound / found.value)
    assert "Not certified: " in str(model.summary())


def test_labels_without_noise_leave_no_gap():
    X = np.random.default_rng(0).standard_normal((50, 3))
    found = fit_quietly("certified", X, X @ [1.0, 2.0, 3.0] + 1.0)
    assert_allclose(found.coef_, [1.0, 2.0, 3.0], rtol=1e-12)
    assert found.solution_.certificate.gap <= COMPLETE_GAP


def test_nearly_collinear_columns_keep_their_proof():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 3))
    X[:, 2] = X[:, 0] + 1e-7 * X[:, 2]
    axes = make_axes(make_bags(X, np.arange(40.0)))
    products = axes.columns @ axes.columns.T
    assert_allclose(products, np.eye(3), atol=1e-14)
    y = rng.permutation(X @ [1.0, 1.0, 1.0] + 0.1 * rng.standard_normal(40))
    found = fit_quietly("certified", X, y, fit_intercept=False).solution_
    assert found.certificate.is_complete
    assert found.value <= fit_quietly("ls", X, y, fit_intercept=False).solution_.value * (1 + 1e-9)


def test_what_is_constant_in_every_bag_needs_no_search():
    # Bag means alone: each bag has one kind of row, so that no matching changes anything.
    X = np.repeat(np.array([[1.0, 2.0], [2.0, 1.0], [4.0, 5.0]]), 4, axis=0)
    y = np.arange(12.0)
    found = fit_quietly("certified", X, y, np.repeat([0, 1, 2], 4), fit_intercept=False)
    assert found.solution_.stats["n_sorted"] == 0
    assert_allclose(found.coef_, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-12)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_change_no_bit(n_jobs):
    data = make_shuffled(150, 4, noise=0.3, features="normal", rng=2)
    alone = fit_quietly("certified", data.X, data.y, fit_intercept=False)
    many = fit_quietly("certified", data.X, data.y, fit_intercept=False, n_jobs=n_jobs)
    assert alone.coef_.tobytes() == many.coef_.tobytes()
    assert alone.solution_.certificate == many.solution_.certificate


def test_the_proof_does_not_depend_on_how_often_it_looks_at_the_clock(monkeypatch):
    data = make_shuffled(80, 3, noise=0.3, bags=2, features="normal", rng=2)
    seldom = fit_quietly("certified", data.X, data.y, data.groups).solution_
    monkeypatch.setattr(certified, "CLOCK_ROWS", 1000)
    often = fit_quietly("certified", data.X, data.y, data.groups).solution_
    assert often.certificate.is_complete and seldom.certificate.is_complete
    assert often.value == pytest.approx(seldom.value, rel=1e-12)


def test_more_than_four_weights_are_refused_with_what_to_use_instead():
    data = make_shuffled(30, 4, rng=0)
    with pytest.raises(InputError, match=r"at most 4 weights, and here are 5.*method 'ls'"):
        fit([Bag(data.X, data.y)], method="certified")
    fit([Bag(data.X, data.y)], method="certified", fit_intercept=False)


@pytest.mark.parametrize("limit", [0, -1.0, "soon", np.nan, True])
def test_a_limit_that_is_no_time_is_refused(limit):
    with pytest.raises(InputError, match="time_limit must be"):
        Certified(limit)


def test_a_limit_of_none_is_none():
    data = make_method_data("certified")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ShuffledLinearRegression(Certified(None)).fit(data.X, data.y, data.groups)
    assert model.method_ == "certified"
    assert model.solution_.certificate.is_complete


def test_the_command_line_says_what_is_proven(folder, capsys):
    assert run([*FIT, "--method", "certified", "--json"]) == 0
    proof = json.loads(capsys.readouterr().out)["certificate"]
    assert proof["certified"] is True and 0 <= proof["gap"] <= COMPLETE_GAP
    assert run([*FIT, "--method", "certified"]) == 0
    assert "Certified: the value" in capsys.readouterr().out


def test_a_time_limit_on_the_command_line_is_kept_and_strict_ends_with_three(folder, capsys):
    command = [*FIT, "--method", "certified", "--time-limit", "1e-9", "--strict", "--json"]
    assert run(command) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["certificate"]["certified"] is False and found["converged"] is False
    assert found["certificate"]["lower_bound"] <= found["candidates"][0]["value"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--method", "ls", "--time-limit", "5"], ["--time-limit", "certified"]),
        (["--method", "certified", "--time-limit", "0"], ["--time-limit", "above 0"]),
        (["--method", "certified", "--l2", "1"], ["no penalties"]),
    ],
)
def test_wrong_options_are_one_line(more, words, folder, capsys):
    code = run([*FIT, "-q", *more])
    assert_one_line(code, capsys.readouterr(), words)
