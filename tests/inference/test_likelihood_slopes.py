"""The slopes of the likelihood are the slopes of its value, and no bit of either is an accident."""

from dataclasses import replace
from math import lgamma

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pairs import cover_pairs
from targets import build_from_data, evaluate_bags, keep_rows, make_parameters
from unshuffle import Likelihood, make_shuffled
from unshuffle.kernels.transport.coupling import PRECISE
from unshuffle.model import kept_bags
from unshuffle.model.kept_bags import KeptBags, KeptWithinBag
from unshuffle.model.nodes import NODES_PER_SIGMA

WEIGHTS = {
    "near": np.array([0.6, 0.5, -0.3]),
    "far": np.array([-0.8, 0.9, 0.4]),
    "small": np.array([0.05, -0.02, 0.01]),
}


def make_case(n, n_bags, noise=0.3):
    """Return the standardised target of simulated data at a power other than one."""
    data = make_shuffled(n, 3, noise=noise, bags=n_bags, rng=5)
    return replace(build_from_data(data, Likelihood())[0], power=0.7)


def measure_slopes(target, w, log_sigma, share):
    """Return slopes and central differences, both in nats per posterior sd.

    Were the labels not shuffled, the sd of a weight and of the curve would be sigma/√n and that of
    log sigma 1/√n; the steps are a share of these. One bag has no curve.
    """
    p, sigma = len(w), np.exp(log_sigma)
    at = np.concatenate([w, [0.1] * len(target.terms), [log_sigma]])
    unit = np.append(np.full(len(at) - 1, sigma), 1.0) / np.sqrt(target.n)

    def evaluate(at):
        return target.likelihood(at[:p], at[-1], at[p:-1])

    _, gradient, slope = evaluate(at)
    seen = np.empty(len(at))
    for k, step in enumerate(share * unit):
        move = step * np.eye(len(at))[k]
        seen[k] = (evaluate(at + move)[0] - evaluate(at - move)[0]) / (2.0 * share)
    return np.append(gradient[: len(at) - 1], slope) * unit, seen


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


# --- where grid and points are mixed ------------------------------------------------------------


def find_mixed(target, nodes_per_row):
    """Return the log sigma at which a bag has so many nodes per row."""
    reach = np.ptp(target.within_bag.bags.labels)
    return np.log(NODES_PER_SIGMA * reach / (target.n * nodes_per_row))


def test_slopes_hold_where_grid_and_points_are_mixed():
    """The only place in log sigma where the likelihood changes from one to the other."""
    target = make_case(300, 1)
    for nodes_per_row in (0.82, 0.9, 0.98):
        log_sigma = find_mixed(target, nodes_per_row)
        slopes, seen = measure_slopes(target, WEIGHTS["near"], log_sigma, 0.02)
        assert np.abs(slopes - seen).max() < max(1e-3 * np.linalg.norm(slopes), 0.01)


@pytest.mark.parametrize("n", [40, 300])
def test_no_jump_in_log_sigma_where_grid_and_points_are_mixed(n):
    target = make_case(n, 1)
    ends = [find_mixed(target, nodes_per_row) for nodes_per_row in (1.1, 0.7)]
    steps = np.linspace(*ends, 400)
    found = [target.likelihood(WEIGHTS["near"], log_sigma) for log_sigma in steps]
    values, slopes = np.array([each[0] for each in found]), np.array([each[2] for each in found])
    gaps = np.diff(values) - 0.5 * (slopes[1:] + slopes[:-1]) * np.diff(steps)
    # The grid's waves; the two differ by .14 nats (n = 40) and .8, which a jump would be.
    assert np.abs(gaps).max() < 0.03
    # Both ends of either kind lie as close together as their slopes say.
    for nodes_per_row in (1.0, 0.8):
        at = find_mixed(target, nodes_per_row)
        low, high = (target.likelihood(WEIGHTS["near"], at + side) for side in (-1e-9, 1e-9))
        assert_allclose(low[0], high[0], atol=1e-4)
        assert_allclose(low[2], high[2], rtol=1e-3, atol=0.05)


# --- values without slopes ------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(30, 6), (300, 1), (3000, 20)])
def test_values_without_slopes_are_the_same_to_the_digits_that_matter(sizes):
    target = make_case(*sizes)
    w = np.array(list(WEIGHTS.values()))
    exact, gradients = target.likelihoods(w, -1.0, True)
    rough, nothing = target.likelihoods(w, -1.0, False)
    assert_allclose(rough, exact, atol=0.02)
    assert not nothing.any()
    for k in range(len(w)):
        value, gradient, _ = target.likelihood(w[k], -1.0)
        assert value == exact[k] and np.array_equal(gradient[:3], gradients[k])


# --- extremes ------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 10, 11, 40, 200])
@pytest.mark.parametrize("factor", [1e3, 1e9, 1e15])
def test_predictions_a_billion_sigmas_off_have_a_value_or_none(m, factor):
    """The monotone matching's, within all that the others can add; or the bag is impossible."""
    rng = np.random.default_rng(m)
    z, y = rng.normal(size=m), rng.normal(size=m)
    found = evaluate_bags(z, y, np.array([0, m]), 1.0 / factor)
    value, slope = found.values[0], found.by_sigmas[0]
    z, y = (np.sort(each - each.mean()) for each in (z, y))
    monotone = -0.5 * factor**2 * ((z - y) ** 2).sum() + (m - 1) * np.log(factor)
    if value == -np.inf:
        assert factor > 1e6
        return
    # Between one matching of m! and as many as good, up to rounding and the correction's error.
    slack = 0.1 * m + 1e-9 * abs(monotone)
    assert monotone - lgamma(m + 1.0) - slack < value < monotone + slack
    assert np.isfinite(found.gradients).all()
    assert_allclose(slope, factor**2 * ((z - y) ** 2).sum(), rtol=1e-2)


# --- bits ------------------------------------------------------------

BAGS = [1, 2, 7, 7, 7, 10, 11, 14, 30, 30, 90, 130, 250]


def make_bags(sizes=BAGS, p=2):
    """Return bags of rows for every way of matching, and points: many, and of all kinds."""
    rng = np.random.default_rng(8)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = rng.exponential(size=(p, offsets[-1]))
    y = np.array([1.0, -0.6])[:p] @ rows + 0.3 * rng.normal(size=offsets[-1])
    params = make_parameters(
        rng.normal(size=(45, p)), rng.uniform(-3.0, 0.5, 45), 0.1 * rng.normal(size=45)
    )
    return keep_rows(rows, y, offsets), params


def evaluate(bags, params, n_jobs=1, wants_slopes=True):
    return bags.evaluate(params, NODES_PER_SIGMA, wants_slopes, PRECISE, n_jobs)


def assert_same_bits(one, other):
    for left, right in zip(one, other, strict=True):
        assert_array_equal(left, right)


@pytest.mark.parametrize("wants_slopes", [True, False])
def test_no_bit_depends_on_the_number_of_points_or_on_threads(wants_slopes, monkeypatch):
    bags, params = make_bags()
    expected = evaluate(bags, params, 1, wants_slopes)
    assert np.isfinite(expected.values).all()
    assert_same_bits(evaluate(bags, params, 3, wants_slopes), expected)
    for part in (slice(3, 4), slice(11, 44), np.array([40, 2, 2, 17])):
        found = evaluate(bags, params.part(part), 2, wants_slopes)
        assert_same_bits(found, [each[part] for each in expected])
    # As few predictions at a time as there may be.
    monkeypatch.setattr(kept_bags, "PIECE_PREDICTIONS", 1)
    assert_same_bits(evaluate(bags, params, 2, wants_slopes), expected)


def test_no_bit_of_a_bag_depends_on_the_bags_beside_it():
    sizes = [2, 7, 7, 11, 30, 250]
    bags, params = make_bags(sizes)
    alone = []
    for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        rows = np.ascontiguousarray(bags.rows[:, start:stop])
        own = KeptBags(rows, bags.labels[start:stop], np.array([0, stop - start]))
        alone.append(evaluate(own, params))
    # One piece each: sums over pieces go from the first to the last, as here.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_bags, "PIECE_ROWS", 0)
        found = evaluate(bags, params)
    inner = (np.array(sizes) - 1.0)[:, None]
    for k, name in enumerate(found._fields):
        parts = np.array([each[k] for each in alone])
        if name == "gradients":
            assert_array_equal(found[k], np.cumsum(parts, axis=0)[-1])
            continue
        # All but the labels' number, which is added at once.
        shift = inner * params.log_sigmas if name == "values" else inner
        assert_allclose(found[k], (parts + shift).sum(axis=0) - shift.sum(axis=0), rtol=1e-12)


def test_bags_in_another_order_say_the_same():
    bags, params = make_bags()
    parts = [slice(*ends) for ends in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)]
    parts = [parts[k] for k in np.random.default_rng(1).permutation(len(parts))]
    other = KeptBags(
        np.hstack([bags.rows[:, part] for part in parts]),
        np.concatenate([bags.labels[part] for part in parts]),
        np.cumsum([0] + [part.stop - part.start for part in parts]),
    )
    # Sums of the same numbers in another order.
    for left, right in zip(evaluate(other, params), evaluate(bags, params), strict=True):
        assert_allclose(left, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("n", "n_bags"), [(300, 1), (200, 4), (60, 10)])
def test_no_bit_depends_on_where_the_data_lie_in_memory(n, n_bags):
    target = make_case(n, n_bags)
    w, bags = WEIGHTS["near"], target.within_bag.bags
    expected = target.within_bag.evaluate(make_parameters(w, -1.2), 0.7, True, 1)
    for shift in range(1, 8):
        arrays = []
        for array in (bags.rows, bags.labels, w[None]):
            room = np.empty(array.size + shift)
            moved = room[shift:].reshape(array.shape)
            moved[...] = array
            arrays.append(moved)
        rows, labels, weights = arrays
        within_bag = KeptWithinBag(KeptBags(rows, labels, bags.offsets))
        assert_same_bits(
            within_bag.evaluate(make_parameters(weights, -1.2), 0.7, True, 1), expected
        )
