"""Every term of the mean function: its moments, its derivative, its coordinate of the posterior."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import bend, central_differences
from targets import build_from_bags, build_from_data
from unshuffle import Bag, Likelihood, kernels, make_bags, make_shuffled
from unshuffle.core.mean_function import TERMS, Term, take_power
from unshuffle.data.bags import join_bags
from unshuffle.model import mean_function
from unshuffle.model.mean_function import open_terms
from unshuffle.model.points import predict

# The terms that there are, and more of them, which nothing else knows.
KNOWN = [each.degree for each in TERMS]
MORE = (*TERMS, *(Term(f"power {k}", k, 0.3) for k in (2, 3, 4) if k not in KNOWN))


@pytest.fixture
def more_terms(monkeypatch):
    monkeypatch.setattr(mean_function, "TERMS", MORE)


def make_rows(has_intercept=True):
    """Return skewed rows in bags of several sizes."""
    rng = np.random.default_rng(0)
    X, sizes = rng.exponential(size=(60, 3)), [5, 15, 40]
    X = X - X.mean(axis=0) * has_intercept
    return make_bags(X, rng.normal(size=60), np.repeat([0, 1, 2], sizes))


def test_degrees_and_names_are_each_once():
    assert len({each.degree for each in TERMS}) == len({each.name for each in TERMS}) == len(TERMS)
    assert all(each.degree >= 2 and each.scale > 0 for each in TERMS)


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_the_variance_of_a_power_is_that_of_gaussian_predictions(degree):
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    powers, weights = take_power(nodes, degree), weights / weights.sum()
    expected = weights @ powers**2 - (weights @ powers) ** 2
    assert Term("", degree).variance == pytest.approx(expected)


@pytest.mark.parametrize("has_intercept", [True, False])
def test_moments_of_terms_are_those_of_predictions(has_intercept, more_terms):
    bags = make_rows(has_intercept)
    X, w = bags.X, np.random.default_rng(1).normal(size=(4, 3))
    z = w @ X.T
    for term in open_terms(np.ascontiguousarray(X.T), bags, X.T @ X / len(X)):
        powers = z**term.degree
        by_bag = np.stack([part.mean(axis=1) for part in np.split(powers, [5, 20], axis=1)], axis=1)
        assert_allclose(term.means(w), powers.mean(axis=1))
        assert_allclose(term.bag_means(w), by_bag)
        assert_allclose(term.monomials(w) @ term.flat_moments().T, by_bag)
        covariances = powers @ (X - X.mean(axis=0)) / len(X)
        assert_allclose(term.pooled(w), covariances, atol=1e-12)


def test_derivatives_of_terms_agree_with_differences(more_terms):
    bags = make_rows()
    terms = open_terms(np.ascontiguousarray(bags.X.T), bags, bags.X.T @ bags.X / 60)
    w = np.array([0.4, -0.7, 0.2])
    for each in terms:
        by_bag, whole = each.turn(w)
        seen = central_differences(lambda at, each=each: each.means(at[None])[0], w, 1e-5)
        assert_allclose(each.degree * whole, seen, rtol=1e-8, atol=1e-8)
        for r in range(3):
            seen = central_differences(
                lambda at, each=each, r=r: each.bag_means(at[None])[0, r], w, 1e-5
            )
            assert_allclose(each.degree * by_bag[r], seen, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("degrees", [(), (2,), (3,), (2, 3, 4)])
def test_predictions_and_the_chain_rule_equal_their_plain_twins(degrees):
    rng = np.random.default_rng(2)
    columns, offsets = rng.normal(size=(3, 23)), np.array([0, 7, 8, 23])
    w, coefs = rng.normal(size=(2, 3)), 0.3 * rng.normal(size=(2, len(degrees)))
    (z, bent), powers = np.empty((2, 2, 23)), np.array(degrees, dtype=np.int64)
    kernels.predict_points(columns, w, powers, coefs, z, bent)
    slopes, found = rng.normal(size=(2, 23)), np.zeros((2, 3 + len(degrees)))
    given = slopes.copy()
    kernels.chain_points(columns, offsets, z, powers, coefs, slopes, found)
    for k in range(2):
        assert_allclose(z[k], w[k] @ columns)
        assert_allclose(bent[k], bend(columns, w[k], degrees, coefs[k]))
        at = np.append(w[k], coefs[k])
        seen = central_differences(
            lambda at, k=k: float(given[k] @ bend(columns, at[:3], degrees, at[3:])), at, 1e-5
        )
        assert_allclose(found[k], seen, rtol=1e-8, atol=1e-7)


@pytest.mark.parametrize("pairing", ["plain", "subset"])
def test_the_gradient_of_further_terms_is_that_of_the_value(pairing, more_terms):
    data = make_shuffled(36, 2, bags=4, snr_db=8, rng=3)
    target = build_from_data(data, Likelihood())[0]
    if pairing == "subset":
        parts = [data.groups == r for r in range(4)]
        bags = join_bags([Bag(data.X[part], data.y[part][:-3]) for part in parts], True)
        target = build_from_bags(bags, Likelihood())[0]
    target = replace(target.with_effects(0.3, None, 0.4), power=0.6)
    assert [each.term for each in target.terms] == list(MORE)
    theta = target.join(np.array([0.5, -0.4]), -0.9)
    theta[target.term_places] = 0.1 * (-0.3) ** np.arange(len(MORE))
    value, gradient = target(theta)
    seen = central_differences(lambda at: target(at)[0], theta, 1e-5)
    # Values to 1e-9 nats over the step.
    assert_allclose(gradient, seen, atol=1e-4 * np.linalg.norm(gradient))
    parts = target.parts(theta[None])[0]
    assert target.mix(parts[0], parts[1]) + parts[2] == pytest.approx(value, abs=1e-8)


def test_slopes_of_further_terms_are_those_of_ordinary_regression(more_terms):
    rng = np.random.default_rng(4)
    bags = make_bags(rng.exponential(size=(500, 2)), rng.normal(size=500), np.arange(500) % 5)
    target = build_from_bags(bags, Likelihood())[0]
    theta = target.join(np.array([0.5, -0.3]), -1.0)
    theta[target.term_places] = 0.2 * 0.5 ** np.arange(len(MORE))
    rows = target.within_bag.rows
    design = np.column_stack([rows.T, np.ones(500)])
    means = predict(rows, target.read_points(theta[None]), 0)
    expected = np.linalg.lstsq(design, means, rcond=None)[0][:2]
    found = target.slopes(theta[None])[0]
    assert_allclose(found, expected, atol=1e-9)
    assert np.abs(found - theta[:2]).max() > 0.05  # the terms matter
