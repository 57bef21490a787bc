"""Equivariance without penalties: the weights follow the units of labels and columns."""

import numpy as np
import pytest

from registry_examples import SOLVERS, all_weights, fit_quietly, fit_shared, make_property_data
from unshuffle.objectives.losses import Moments, SmallD
from unshuffle.simulate import make_shuffled
from unshuffle.solvers.projection import Projection

CASES = {name: name for name in SOLVERS} | {
    "moments with K": Moments(3),
    "small-d with D": SmallD(5),
    "projection on three moments": Projection(3),
}
methods = pytest.mark.parametrize("case", CASES)

# Units that are no powers of two round every number anew: a minimum is found where the value
# changes by rounding only, so that weights move by its square root (1e-8) times a condition.
CLOSE = {"rtol": 1e-6, "atol": 1e-7}


def rescaled(weights, label_factor, column_factors):
    """Return the weights [features …, intercept] in other units."""
    return weights * label_factor / np.append(column_factors, 1.0)


@methods
def test_weights_follow_powers_of_two_bit_for_bit(case):
    data = make_property_data(case)
    factors = np.array([0.25, 1024.0])
    for c, fit_intercept in ((2.0, True), (2.0**-30, False)):
        options = {"fit_intercept": fit_intercept}
        moved = fit_quietly(CASES[case], data.X * factors, c * data.y, data.groups, **options)
        model = fit_shared(CASES[case], data.X, data.y, data.groups, **options)
        np.testing.assert_array_equal(all_weights(moved), rescaled(all_weights(model), c, factors))


@methods
def test_weights_follow_the_units_of_labels_and_columns(case):
    data = make_property_data(case)
    factors = np.array([3.7, 1e-5])
    for c, fit_intercept in ((3.7, True), (1e-4, False)):
        options = {"fit_intercept": fit_intercept}
        model = fit_shared(CASES[case], data.X, data.y, data.groups, **options)
        moved = fit_quietly(CASES[case], data.X * factors, c * data.y, data.groups, **options)
        found = rescaled(all_weights(moved), 1 / c, 1 / factors)
        np.testing.assert_allclose(found, all_weights(model), **CLOSE)


@methods
def test_intercept_follows_shifted_columns(case):
    data = make_property_data(case)
    shift = np.array([-3.0, 100.0])
    model = fit_shared(CASES[case], data.X, data.y, data.groups)
    moved = fit_quietly(CASES[case], data.X + shift, data.y, data.groups)
    np.testing.assert_allclose(moved.coef_, model.coef_, **CLOSE)
    # A shift of 100 multiplies the error of the weights.
    expected = model.intercept_ - shift @ model.coef_
    assert moved.intercept_ == pytest.approx(expected, rel=1e-5, abs=1e-5)


@methods
def test_labels_and_columns_of_any_size_are_fitted(case):
    data = make_property_data(case)
    expected = all_weights(fit_shared(CASES[case], data.X, data.y, data.groups))
    for scale in (1e150, 1e-150):
        moved = fit_quietly(CASES[case], data.X * [scale, 1.0], scale * data.y, data.groups)
        found = all_weights(moved) / [1.0, scale, scale]
        np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("kind", ["ls", "emd", "sm", "p2"])
def test_noise_follows_the_labels_unit(kind):
    data = make_property_data(kind)
    model = fit_shared(kind, data.X, data.y, data.groups, noise=0.05)
    moved = fit_quietly(kind, data.X, 3.7 * data.y, data.groups, noise=3.7 * 0.05)
    np.testing.assert_allclose(all_weights(moved) / 3.7, all_weights(model), **CLOSE)


def twice_as_bags(data):
    """Return every bag a second time, under a new name."""
    X, y = np.concatenate([data.X, data.X]), np.concatenate([data.y, data.y])
    return X, y, np.concatenate([data.groups, data.groups + 100])


def twice_inside(data):
    """Return every bag with each of its rows and labels twice."""
    X, y = np.concatenate([data.X, data.X]), np.concatenate([data.y, data.y])
    return X, y, np.concatenate([data.groups, data.groups])


@pytest.mark.parametrize("double", [twice_as_bags, twice_inside])
@pytest.mark.parametrize("method", ["ls", "emd"])
def test_every_bag_given_twice_changes_nothing(method, double):
    data = make_shuffled(80, 2, noise=0.05, bags=4, rng=1)
    model = fit_shared(method, data.X, data.y, data.groups)
    doubled = fit_quietly(method, *double(data))
    # EMD has a kink at its minimum and LS is flat there; both are found to rounding.
    np.testing.assert_allclose(all_weights(doubled), all_weights(model), **CLOSE)
    assert doubled.solution_.value == pytest.approx(model.solution_.value, rel=1e-9)


@pytest.mark.parametrize("method", ["ls", "p1", "p2", "emd"])
def test_a_column_turned_around_turns_its_weight(method):
    data = make_shuffled(150, 2, noise=0.01, bags=3, intercept=1.0, rng=2)
    model = fit_shared(method, data.X, data.y, data.groups)
    turned = fit_quietly(method, data.X * [-1.0, 1.0], data.y, data.groups)
    np.testing.assert_allclose(turned.coef_ * [-1.0, 1.0], model.coef_, **CLOSE)


@pytest.mark.parametrize("method", ["ls", "p1", "p2", "emd", "sm", "means"])
def test_exchanged_columns_exchange_their_weights(method):
    data = make_shuffled(150, 2, noise=0.01, bags=3, intercept=1.0, rng=2)
    model = fit_shared(method, data.X, data.y, data.groups)
    other = fit_quietly(method, data.X[:, ::-1], data.y, data.groups)
    np.testing.assert_allclose(other.coef_[::-1], model.coef_, **CLOSE)
