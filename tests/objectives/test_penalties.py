"""The penalties: exact zeros, stated optimality, units, and a free intercept."""

import numpy as np
import pytest

from registry_examples import all_weights, fit_quietly
from unshuffle.data.bags import make_bags
from unshuffle.data.scaling import standardise
from unshuffle.objectives import losses
from unshuffle.objectives.penalties import Penalty
from unshuffle.objectives.problem import Problem
from unshuffle.simulate import make_shuffled

TRUTH = np.array([2.0, -1.5, 0.0, 0.0])
# λ is in the units of each loss: squares for LS and the hybrids, none for SM and KS.
L1 = {"ls": 0.05, "sm": 0.02, "emd": 0.2, "ks": 0.01, "p1": 0.05, "p2": 0.05}


def make_sparse(noise=0.05, rng=0):
    return make_shuffled(200, 4, noise=noise, bags=8, weights=TRUTH, intercept=1.0, rng=rng)


@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("method", L1)
def test_l1_gives_exact_zeros(method, fit_intercept):
    data = make_sparse()
    y = data.y if fit_intercept else data.y - 1.0
    options = {"fit_intercept": fit_intercept, "l1": L1[method]}
    model = fit_quietly(method, data.X, y, data.groups, **options)
    np.testing.assert_array_equal(model.coef_ == 0, TRUTH == 0)
    # The two others are shrunk, not lost: λ moves them by less than a fifth.
    np.testing.assert_allclose(model.coef_[:2], TRUTH[:2], rtol=0.2)


@pytest.mark.parametrize("method", ["ls", "emd", "sm"])
def test_a_large_l1_leaves_the_intercept_alone(method):
    data = make_sparse()
    model = fit_quietly(method, data.X, data.y, data.groups, l1=1e6)
    np.testing.assert_array_equal(model.coef_, 0)
    assert abs(model.intercept_) > 1  # the labels' middle, which is near 1.5


def test_a_large_l1_leaves_least_squares_with_the_mean():
    data = make_sparse()
    model = fit_quietly("ls", data.X, data.y, data.groups, l1=1e6)
    # The minimum of a parabola, found to the root of rounding.
    assert model.intercept_ == pytest.approx(data.y.mean(), rel=1e-6)


@pytest.mark.parametrize("method", ["ls", "emd", "p1"])
def test_weights_shrink_as_l2_grows(method):
    data = make_sparse()
    sizes = [
        np.linalg.norm(fit_quietly(method, data.X, data.y, data.groups, l2=l2).coef_)
        for l2 in (0.0, 0.1, 1.0, 10.0)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.5 * sizes[0]


@pytest.mark.parametrize("method", ["ls", "emd", "p1", "p2", "ks"])
def test_weights_shrink_as_l1_grows(method):
    data = make_sparse()
    sizes = [
        np.abs(fit_quietly(method, data.X, data.y, data.groups, l1=l1).coef_).sum()
        for l1 in (0.0, 0.01, 0.1)
    ]
    # P2 fixes the size of the weights in the metric of X, so that zeros are all that shrinks.
    assert sizes[0] > sizes[1] >= sizes[2] * (1 - 1e-9)


def linked_and_standard(rng):
    """Return bags of one row: for these LS is ordinary regression, with known penalised answers."""
    X = rng.standard_normal((60, 3))
    y = X @ [1.0, 0.4, 0.0] + 0.1 * rng.standard_normal(60)
    return X, y, np.arange(60)


def test_l2_on_linked_data_is_ridge_regression():
    X, y, groups = linked_and_standard(np.random.default_rng(0))
    l2 = 0.3
    model = fit_quietly("ls", X, y, groups, l2=l2, fit_intercept=False)
    expected = np.linalg.solve(X.T @ X / 60 + l2 * np.eye(3), X.T @ y / 60)
    # A parabola: BFGS ends within the root of rounding.
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-6)


@pytest.mark.parametrize("l1", [0.1, 0.5])
def test_l1_on_linked_data_meets_the_lasso_conditions(l1):
    X, y, groups = linked_and_standard(np.random.default_rng(0))
    model = fit_quietly("ls", X, y, groups, l1=l1)
    residual = y - X @ model.coef_ - model.intercept_
    slope = 2 * X.T @ residual / 60
    zero = model.coef_ == 0
    assert zero.any()
    # Karush-Kuhn-Tucker: slope = λ sign(w) off zero, |slope| ≤ λ at zero, no slope on the
    # intercept; the gradient at the end of a descent is the root of its tolerance.
    np.testing.assert_allclose(slope[~zero], l1 * np.sign(model.coef_[~zero]), atol=1e-6)
    assert np.all(np.abs(slope[zero]) <= l1)
    assert residual.mean() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("method", ["ls", "emd", "ks", "sm"])
def test_penalty_keeps_its_meaning_when_the_labels_unit_changes(method):
    data = make_sparse()
    # LS is in squared units, EMD in plain ones, KS and SM in none.
    degree = {"ls": 2, "emd": 1, "ks": 0, "sm": 0}[method]
    c = 4.0
    plain = fit_quietly(method, data.X, data.y, data.groups, l1=0.02, l2=0.01)
    options = {"l1": 0.02 * c ** (degree - 1), "l2": 0.01 * c ** (degree - 2)}
    scaled = fit_quietly(method, data.X, c * data.y, data.groups, **options)
    np.testing.assert_allclose(all_weights(scaled) / c, all_weights(plain), rtol=1e-6, atol=1e-7)


def test_columns_far_more_than_rows_are_fitted_with_a_ridge():
    data = make_shuffled(10, 15, noise=0.1, rng=0)
    model = fit_quietly("ls", data.X, data.y, l2=0.1)
    gap = np.mean((np.sort(model.predict(data.X)) - np.sort(data.y)) ** 2)
    # Predicting the mean is open to it, so it cannot do worse.
    assert gap + 0.1 * np.sum(model.coef_**2) <= np.var(data.y)


def test_no_candidate_is_better_than_the_penalised_one_reported():
    data = make_sparse()
    l1, l2 = 0.05, 0.02
    model = fit_quietly("ls", data.X, data.y, data.groups, l1=l1, l2=l2)

    def value(coef, intercept):
        gaps = [
            np.sort(data.X[data.groups == r] @ coef + intercept) - np.sort(data.y[data.groups == r])
            for r in range(8)
        ]
        return np.mean(np.concatenate(gaps) ** 2) + l1 * np.abs(coef).sum() + l2 * (coef**2).sum()

    best = value(model.coef_, model.intercept_)
    assert model.solution_.value == pytest.approx(best, rel=1e-10)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(20):
            move = size * rng.standard_normal(5)
            # Rounding of the value at the minimum itself.
            assert value(model.coef_ + move[:4], model.intercept_ + move[4]) > best - 1e-12


@pytest.mark.parametrize("l1", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_sparse_p1_is_the_lowest_point_of_its_plane(seed, l1):
    # One column and an intercept: the plane of P1 is a line, and the least of it is to be read off.
    data = make_shuffled(40, 1, noise=0.3, features="normal", rng=seed)
    model = fit_quietly("p1", data.X, data.y, l1=l1, n_starts=8)
    standard, scaling = standardise(make_bags(data.X, data.y), True, True)
    penalty = Penalty(l1 * scaling.penalty_factors(1, 2), np.zeros(2))
    problem = Problem(standard, losses.Squared(), None, penalty)
    line = np.stack([np.linspace(-3, 3, 20_001), np.zeros(20_001)])
    least = problem(line)[0].min() * scaling.label_scale**2
    # The line is read in steps of 3e-4, whose squares are the error; a zero counts up to 1e-3.
    assert model.solution_.value == pytest.approx(least, rel=1e-5, abs=2e-3 * l1)


@pytest.mark.parametrize("method", ["p1", "p2"])
def test_no_answer_of_a_sparse_search_has_a_value_below_zero(method):
    # Both the loss and its penalty are sums of what is never negative, in every start too.
    for seed in range(5):
        data = make_shuffled(40, 3, noise=0.5, features="normal", bags=2, rng=seed)
        with np.errstate(all="raise", under="ignore"):
            model = fit_quietly(method, data.X, data.y, data.groups, l1=5.0, n_starts=6)
        assert model.solution_.start_values.min() >= 0.0
        assert min(c.value for c in model.solution_.candidates) >= 0.0
