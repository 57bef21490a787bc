"""Properties of noiseless data: what meets the labels to rounding is found and no chance."""

from itertools import permutations

import numpy as np
import pytest

from registry_examples import all_weights, fit_quietly
from unshuffle import Bag, fit, make_shuffled
from unshuffle.core.solution import Status
from unshuffle.data.bags import make_bags
from unshuffle.data.scaling import standardise
from unshuffle.inference import likelihood
from unshuffle.inference.noiseless import expect_by_chance
from unshuffle.results.report import write_report


def make_noiseless(kind, n, d, n_bags=1, seed=0):
    """Return rows, shuffled labels without noise, groups, and the weights (the intercept is 3)."""
    rng = np.random.default_rng([seed, n, d])
    X = {
        "gamma": lambda: rng.gamma(2.0, size=(n, d)),
        "normal": lambda: rng.standard_normal((n, d)),
        "integer": lambda: rng.integers(0, 10, (n, d)).astype(float),
        "binary": lambda: np.column_stack([rng.integers(0, 2, n), rng.random((n, d - 1))]),
    }[kind]()
    w = rng.choice([-3.0, -2.0, -1.0, 1.0, 2.0, 4.0], d)
    groups = np.arange(n) % n_bags
    y = X @ w + 3.0
    for r in range(n_bags):
        y[groups == r] = rng.permutation(y[groups == r])
    return X, y, groups, w


@pytest.mark.parametrize("n_bags", [1, 3])
@pytest.mark.parametrize(
    ("kind", "n", "d"),
    [
        ("gamma", 200, 2),
        ("gamma", 200, 4),
        ("normal", 6, 2),
        ("normal", 40, 6),
        ("integer", 30, 1),
        ("integer", 60, 3),
        ("binary", 50, 3),
        ("normal", 1000, 5),
    ],
)
def test_noiseless_data_are_recognised(kind, n, d, n_bags):
    X, y, groups, w = make_noiseless(kind, n, d, n_bags)
    model = fit_quietly("auto", X, y, groups)
    assert model.solution_.status is Status.NOISELESS
    assert model.identified_ and model.model_fits_ and len(model.solution_.candidates) == 1
    # What is promised; rounding leaves a millionth of it.
    np.testing.assert_allclose(model.coef_, w, rtol=0, atol=1e-8)
    assert model.intercept_ == pytest.approx(3.0, abs=1e-8)
    assert model.noise_ < 1e-9 * np.std(y)


def test_repeated_rows_and_labels_do_not_hide_the_answer():
    X, _, _, w = make_noiseless("integer", 40, 2)
    X = np.repeat(X, 3, axis=0)
    y = np.random.default_rng(0).permutation(X @ w + 3.0)
    model = fit_quietly("auto", X, y)
    assert model.identified_
    np.testing.assert_allclose(model.coef_, w, rtol=0, atol=1e-8)


def test_a_symmetric_column_has_two_answers_and_both_are_listed():
    x = np.array([1.0, 2.0, 4.5, 7.0, 11.0, 11.5, 20.0])
    x = np.concatenate([x, -x])[:, None]
    model = fit_quietly("auto", x, 2.0 * x[:, 0] + 1.0)
    found = sorted(c.weights.round(8).tolist() for c in model.solution_.candidates)
    assert found == [[-2.0, 1.0], [2.0, 1.0]]
    assert [c.share for c in model.solution_.candidates] == [0.5, 0.5]
    assert model.identified_ is False and model.solution_.status is Status.NOISELESS
    # Between an answer and its opposite there is no choice.
    assert model.coef_.tolist() == [0.0]
    low, high = model.conf_int()[0]
    assert low == pytest.approx(-2.0, abs=1e-6) and high == pytest.approx(2.0, abs=1e-6)
    assert "2 different answers compete. Posterior shares: answer 1 50%; answer 2 50%. " in str(
        model.summary()
    )


def test_columns_that_are_symmetric_and_alike_have_all_their_images_listed():
    grid = np.array([(i, j) for i in range(-2, 3) for j in range(-2, 3)], dtype=float)
    model = fit_quietly("auto", grid, grid @ [1.0, np.sqrt(7.0)])
    found = {tuple(c.weights[:2].round(6)) for c in model.solution_.candidates}
    a, b = 1.0, round(float(np.sqrt(7.0)), 6)
    assert found == {(s * v, t * u) for s in (1, -1) for t in (1, -1) for v, u in [(a, b), (b, a)]}
    assert model.identified_ is False


@pytest.mark.parametrize("seed", range(6))
def test_the_answers_listed_are_those_of_every_matching(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, 2))
    # On no lattice: few rows and values that repeat would prove nothing.
    X[:3, 0], X[3:, 0] = [-np.e, -np.sqrt(2.0), -1.0], [1.0, np.sqrt(2.0), np.e]
    y = X @ [1.5, 0.0 if seed % 2 else 0.7]
    rows = np.column_stack([X, np.ones(6)])
    expected = set()
    for order in permutations(range(6)):
        w, rest, _, _ = np.linalg.lstsq(rows, y[list(order)], rcond=None)
        if rest.sum() < 1e-18 * len(y):
            expected.add(tuple(w.round(6) + 0.0))
    model = fit_quietly("auto", X, y)
    found = {tuple(c.weights.round(6) + 0.0) for c in model.solution_.candidates}
    assert model.solution_.status is Status.NOISELESS
    assert found == expected
    assert len(expected) == (2 if seed % 2 else 1)


@pytest.mark.parametrize(
    ("n", "d", "noise"), [(4, 3, 0.0), (40, 2, 1e-3), (30, 5, 0.3)], ids=["few", "little", "much"]
)
def test_looking_for_exact_answers_changes_no_bit_of_other_fits(n, d, noise, monkeypatch):
    data = make_shuffled(n, d, noise=noise, rng=1)
    model = fit_quietly("likelihood", data.X, data.y)
    assert model.solution_.status is not Status.NOISELESS
    monkeypatch.setattr(likelihood, "solve_exactly", lambda *args: None)
    plain = fit_quietly("likelihood", data.X, data.y)
    assert all_weights(model).tobytes() == all_weights(plain).tobytes()
    assert model.posterior_.draws.tobytes() == plain.posterior_.draws.tobytes()


def test_binary_labels_that_equal_a_column_by_chance_are_no_exact_answer():
    X = np.array([[0, 0, 1, 1, 1, 0, 1, 0, 1, 1], [0, 1, 0, 1, 1, 1, 0, 0, 0, 1]], dtype=float).T
    y = np.array([1.0] * 6 + [0.0] * 4)
    assert np.sum(y) == np.sum(X[:, 0])
    assert fit_quietly("likelihood", X, y).solution_.status is not Status.NOISELESS


def test_unrelated_whole_numbers_are_solved_exactly_no_more_often_than_stated():
    # The bound is an expected number: with at most 5 % each, 8 of 60 has a chance below 1 in 500.
    n_met = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 77])
        X, y = rng.integers(0, 4, (9, 1)).astype(float), rng.integers(0, 4, 9).astype(float)
        bags = standardise(make_bags(X, y), True, True)[0]
        if np.ptp(X) == 0 or np.ptp(y) == 0 or expect_by_chance(bags) > 0.05:
            continue
        n_met += fit_quietly("likelihood", X, y, n_starts=4).solution_.status is Status.NOISELESS
    assert n_met < 8


def test_exact_answers_by_chance_are_rarer_with_rows_and_likelier_with_columns():
    def expect(n, d, groups=None):
        X = np.random.default_rng(0).integers(0, 10, (n, d)).astype(float)
        y = X @ np.arange(1.0, d + 1.0)
        return expect_by_chance(standardise(make_bags(X, y, groups), True, True)[0])

    assert expect(200, 2) < expect(50, 2) < expect(12, 2)
    assert expect(12, 2) < expect(12, 6)
    # Links leave no labels to deal.
    assert expect(12, 6, groups=range(12)) < expect(12, 6)


def test_given_noise_leaves_nothing_exact():
    X, y, groups, w = make_noiseless("gamma", 60, 2)
    noisy = fit_quietly("likelihood", X, y, groups, noise=0.1)
    assert noisy.solution_.status is not Status.NOISELESS
    none = fit_quietly("likelihood", X, y, groups, noise=0.0)
    assert none.solution_.status is Status.NOISELESS and none.noise_ == 0.0
    np.testing.assert_allclose(none.coef_, w, rtol=0, atol=1e-8)


def test_separate_samples_are_never_exact():
    X, y, _, _ = make_noiseless("gamma", 40, 2)
    found = fit([Bag(X, y)], same_individuals=False, rng=0)
    assert found.status is not Status.NOISELESS


def test_exact_answers_do_not_depend_on_order_or_seed_and_follow_units():
    X, y, groups, _ = make_noiseless("gamma", 50, 3, n_bags=2)
    model = fit_quietly("auto", X, y, groups)
    rng = np.random.default_rng(0)
    order = rng.permutation(50)
    other = fit_quietly("auto", X[order], y[order], groups[order], n_jobs=2)
    assert all_weights(model).tobytes() == all_weights(other).tobytes()
    assert model.posterior_.draws.tobytes() == other.posterior_.draws.tobytes()
    scaled = fit_quietly("auto", X, 8.0 * y, groups)
    np.testing.assert_array_equal(scaled.coef_, 8.0 * model.coef_)
    assert scaled.noise_ == 8.0 * model.noise_


def test_everything_that_speaks_of_a_fit_speaks_of_an_exact_one(tmp_path):
    X, y, groups, w = make_noiseless("normal", 60, 2, n_bags=2)
    model = fit_quietly("auto", X, y, groups)
    ends = model.conf_int(intercept=True)
    truth = np.append(w, 3.0)
    assert ((ends[:, 0] < truth) & (truth < ends[:, 1])).all()
    # A hundredth of what is promised, times the spread of the labels.
    assert np.ptp(ends, axis=1).max() < 1e-8
    matched = model.match(X, y, groups)
    np.testing.assert_allclose(y[matched.order], X @ w + 3.0, rtol=1e-9)
    assert matched.probability.min() == 1.0
    text = str(model.summary())
    assert text.startswith("Identified: ") and "met to rounding" in text
    assert model.summary().to_dict()["candidates"][0]["share"] == 1.0
    path = write_report(model.result_, str(tmp_path / "fit.html"), X, y, groups)
    assert "met to rounding" in (tmp_path / "fit.html").read_text(encoding="utf-8"), path


def test_a_constant_column_stays_unknown_beside_exact_weights():
    X, y, _, w = make_noiseless("gamma", 40, 2)
    model = fit_quietly("auto", np.column_stack([X, np.full(40, 5.0)]), y)
    assert model.identified_
    np.testing.assert_allclose(model.coef_, [*w, 0.0], rtol=0, atol=1e-8)
    assert model.conf_int()[2].tolist() == [-np.inf, np.inf]


def test_collinear_columns_leave_freedom_and_are_not_exact():
    X, y, _, _ = make_noiseless("gamma", 40, 2)
    model = fit_quietly("likelihood", np.column_stack([X, X[:, 0]]), y)
    assert model.solution_.status is not Status.NOISELESS


def test_without_an_intercept_the_answer_is_exact_too():
    X, _, _, w = make_noiseless("gamma", 40, 3)
    y = np.random.default_rng(0).permutation(X @ w)
    model = fit_quietly("auto", X, y, fit_intercept=False)
    assert model.solution_.status is Status.NOISELESS
    np.testing.assert_allclose(model.coef_, w, rtol=0, atol=1e-8)
