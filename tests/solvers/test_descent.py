"""BFGS ends where there is no minimum to reach."""

import numpy as np

from unshuffle.solvers.descent import MAX_ITERATIONS, descend

START = np.array([[0.5, -0.5]])


def descend_from(evaluate):
    return descend(evaluate, START, np.eye(2), np.zeros(2), 1e-12)


def test_a_value_without_a_minimum_ends_and_is_not_converged():
    found = descend_from(lambda w: (-w.sum(axis=1), -np.ones_like(w)))
    assert not found.is_converged.any()
    assert MAX_ITERATIONS < found.n_evaluations < 40 * MAX_ITERATIONS


def test_a_gradient_that_points_uphill_ends_where_it_began():
    found = descend_from(lambda w: ((w**2).sum(axis=1), -2.0 * w))
    assert np.array_equal(found.weights, START)
    assert found.n_evaluations < 100
