"""Levenberg–Marquardt goes downhill, to the bottom of bent valleys, and nowhere else."""

import numpy as np

from unshuffle.solvers.levenberg_marquardt import Descents, descend_damped


def valley(weights):
    """Rosenbrock's valley as squares of (1 − a, 10 (b − a²)), with the curvature of these."""
    a, b = weights.T
    residuals = np.stack([1.0 - a, 10.0 * (b - a**2)], axis=1)
    jacobians = np.zeros((len(weights), 2, 2))
    jacobians[:, 0, 0] = -1.0
    jacobians[:, 1, 0], jacobians[:, 1, 1] = -20.0 * a, 10.0
    gradients = 2.0 * np.einsum("sk,skj->sj", residuals, jacobians)
    return (
        (residuals**2).sum(axis=1),
        gradients,
        2.0 * np.einsum("ski,skj->sij", jacobians, jacobians),
    )


def run(curve, starts, metric, n_passes, tol=1e-14, own=None):
    descents = Descents.begin(curve, starts)
    own = np.arange(len(starts)) if own is None else own
    return descend_damped(curve, descents, own, metric, tol, n_passes)


def test_starts_reach_the_bottom_of_a_bent_valley():
    starts = np.random.default_rng(0).normal(size=(20, 2))
    found = run(valley, starts, 1e3 * np.eye(2), 100)
    np.testing.assert_allclose(found.weights, 1.0, atol=1e-5)
    assert not found.is_running.any()


def test_values_never_rise_and_only_those_that_run_are_asked_for():
    starts, asked = np.random.default_rng(1).normal(size=(6, 2)), []

    def curve(weights):
        asked.append(len(weights))
        return valley(weights)

    before = valley(starts)[0]
    for n_passes in (1, 2, 5):
        found = run(curve, starts, 1e3 * np.eye(2), n_passes, own=np.array([1, 4]))
        assert (found.values <= before).all()
        assert np.array_equal(found.values, valley(found.weights)[0])
        others = [0, 2, 3, 5]
        assert np.array_equal(found.weights[others], starts[others])
        assert found.n_evaluations == 6 + 2 * n_passes
    assert sum(asked) == 3 * 6 + 2 * (1 + 2 + 5)


def test_a_start_takes_the_same_path_alone_and_beside_others():
    starts = np.random.default_rng(2).normal(size=(5, 2))
    together = run(valley, starts, 1e3 * np.eye(2), 7)
    for k in range(5):
        alone = run(valley, starts[k : k + 1], 1e3 * np.eye(2), 7)
        assert np.array_equal(alone.weights[0], together.weights[k])


def test_directions_outside_the_metric_are_never_taken():
    starts = np.array([[0.5, 0.5], [2.0, -1.0]])
    metric = 1e3 * np.outer([1.0, 1.0], [1.0, 1.0])
    found = run(valley, starts, metric, 20)
    moves = found.weights - starts
    assert np.abs(moves).max() > 0.01
    np.testing.assert_allclose(moves[:, 0], moves[:, 1], atol=1e-12)


def test_a_start_without_a_finite_value_stays_where_it_is():
    def curve(weights):
        values, gradients, curves = valley(weights)
        return np.where(weights[:, 0] > 5.0, np.inf, values), gradients, curves

    starts = np.array([[9.0, 0.0], [0.0, 0.0]])
    found = run(curve, starts, 1e3 * np.eye(2), 50)
    assert np.isinf(found.values[0]) and np.array_equal(found.weights[0], starts[0])
    np.testing.assert_allclose(found.weights[1], 1.0, atol=1e-5)


def test_descents_that_are_far_behind_are_dropped_and_the_lowest_go_on():
    starts = np.array([[1.0, 1.1], [-1.5, 2.0], [np.nan, 0.0], [0.9, 0.7]])
    free = descend_damped(valley, Descents.begin(valley, starts), np.arange(4), np.eye(2), 0.0, 1)
    far = free.values > 3.0 * np.nanmin(free.values)
    assert far.any() and not far.all()
    descents = Descents.begin(valley, starts)
    found = descend_damped(valley, descents, np.arange(4), np.eye(2), 0.0, 1, (3.0,))
    assert np.array_equal(found.values, free.values, equal_nan=True)
    assert np.array_equal(found.is_running, free.is_running & ~far)


def test_the_last_limit_holds_for_all_later_passes():
    starts = np.array([[1.0, 1.1], [-1.5, 2.0]])
    descents = Descents.begin(valley, starts)
    once = descend_damped(valley, descents, np.arange(2), np.eye(2), 0.0, 3, (np.inf, 2.0))
    # Asked for three times and twice: the second is dropped after the second pass.
    assert once.n_evaluations == 2 + 3 + 2


def test_values_too_low_to_be_told_apart_are_not_compared_by_their_ratio():
    def flat(weights):
        return 1e-9 * valley(weights)[0], *(1e-9 * part for part in valley(weights)[1:])

    starts = np.array([[1.0, 1.0 + 1e-3], [-1.5, 2.0]])
    descents = Descents.begin(flat, starts)
    assert descents.values[1] > 1e3 * descents.values[0]
    found = descend_damped(flat, descents, np.arange(2), 1e-9 * np.eye(2), 0.0, 1, (2.0,))
    assert found.is_running[1]
