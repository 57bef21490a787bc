"""The slopes of the likelihood are the slopes of its value, and no bit of either is an accident."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pairs import cover_pairs
from targets import build_from_data
from unshuffle import kernels, make_shuffled
from unshuffle.kernels.transport.grid import CELLS_PER_SIGMA

WEIGHTS = {
    "near": np.array([0.6, 0.5, -0.3]),
    "far": np.array([-0.8, 0.9, 0.4]),
    "small": np.array([0.05, -0.02, 0.01]),
}


def make_case(n, n_bags, noise=0.3):
    """Return the standardised target of simulated data at a power other than one."""
    data = make_shuffled(n, 3, noise=noise, bags=n_bags, rng=5)
    return replace(build_from_data(data)[0], power=0.7)


def measure_slopes(target, w, log_sigma, share):
    """Return slopes and central differences, both in nats per posterior sd.

    Were the labels not shuffled, the sd of a weight would be sigma/√n and that of log sigma 1/√n;
    the steps are a share of these.
    """
    theta = np.append(w, log_sigma)
    unit = np.append(np.full(len(w), np.exp(log_sigma)), 1.0) / np.sqrt(target.n)
    value, gradient, slope = target.likelihood(w, log_sigma)
    assert target.value(w, log_sigma) == value
    seen = np.empty(len(theta))
    for k, step in enumerate(share * unit):
        move = step * np.eye(len(theta))[k]
        up, down = (target.value((theta + s * move)[:-1], (theta + s * move)[-1]) for s in (1, -1))
        seen[k] = (up - down) / (2.0 * share)
    return np.append(gradient, slope) * unit, seen


SIZES = [(30, 1), (30, 2), (300, 1), (300, 6), (3000, 1), (3000, 20)]


@pytest.mark.parametrize(
    ("sizes", "log_sigma", "weights"),
    cover_pairs(SIZES, [-4.0, -2.5, -1.7, -0.5, 0.4], list(WEIGHTS)),
)
def test_slopes_are_those_of_the_value(sizes, log_sigma, weights):
    """Points and grid, one bag and several, low and high noise.

    A thousandth of the gradient, or a hundredth of a nat per posterior sd: less changes neither a
    climb (which stops at a hundredth) nor a draw's weight. The better of two steps counts: the
    narrow one may see the scaling's stop (up to 1e-4 nats), the wide one the grid's waves where
    noise is far below the gaps of the labels.
    """
    errors = []
    for share in (0.02, 0.004):
        slopes, seen = measure_slopes(make_case(*sizes), WEIGHTS[weights], log_sigma, share)
        errors.append(np.abs(slopes - seen))
    assert np.min(errors, axis=0).max() < max(1e-3 * np.linalg.norm(slopes), 0.01)


@pytest.mark.parametrize(
    ("sizes", "log_sigma", "weights"),
    cover_pairs([(8, 1), (30, 6), (7, 7), (20, 2)], [-3.0, -1.0, 0.3], list(WEIGHTS)),
)
def test_slopes_of_tiny_bags_are_exact(sizes, log_sigma, weights):
    slopes, seen = measure_slopes(make_case(*sizes), WEIGHTS[weights], log_sigma, 1e-4)
    # Rounding of the values over the step.
    scale = np.linalg.norm(slopes)
    assert_allclose(slopes, seen, atol=1e-5 * scale + 1e-7)


def test_slopes_hold_where_grid_and_points_are_mixed():
    """The only place in log sigma where the likelihood changes from one to the other."""
    target = make_case(300, 1)
    reach = np.ptp(target.shapes.labels)
    for nodes_per_row in (0.82, 0.9, 0.98):
        log_sigma = np.log(CELLS_PER_SIGMA * reach / (300 * nodes_per_row))
        slopes, seen = measure_slopes(target, WEIGHTS["near"], log_sigma, 0.02)
        assert np.abs(slopes - seen).max() < max(1e-3 * np.linalg.norm(slopes), 0.01)


@pytest.mark.parametrize(("n", "n_bags"), [(300, 1), (200, 4), (60, 10)])
def test_no_bit_depends_on_where_the_data_lie_in_memory(n, n_bags):
    target = make_case(n, n_bags)
    w = WEIGHTS["near"]
    labels, offsets = target.shapes.labels, target.offsets
    expected = target.shapes.evaluate(target.within, w, -1.2, True)
    for shift in range(1, 8):
        arrays = []
        for array in (target.within, labels, w):
            room = np.empty(array.size + shift)
            moved = room[shift:].reshape(array.shape)
            moved[...] = array
            arrays.append(moved)
        columns, moved_labels, weights = arrays
        found = kernels.log_likelihood(columns, moved_labels, offsets, weights, -1.2, True)
        assert found[0] == expected[0] and found[2] == expected[2]
        assert_array_equal(found[1], expected[1])
