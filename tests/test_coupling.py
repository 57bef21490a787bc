"""Laws of the coupling kernels: Sinkhorn, permanents, binning, and the two parts' powers."""

from itertools import permutations
from math import lgamma

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import central_differences, couple_densely, log_permanent
from unshuffle import Likelihood, kernels, make_shuffled
from unshuffle.core.bags import make_bags
from unshuffle.core.scaling import standardise
from unshuffle.kernels import coupling
from unshuffle.posterior.model import make_target


def make_samples(n, noise, seed):
    """Return ascending predictions, ascending labels, and unit masses with no binning variance."""
    rng = np.random.default_rng(seed)
    z = np.sort(rng.exponential(size=n))
    return z, np.sort(z + noise * rng.normal(size=n)), np.ones(n), np.zeros(n)


def correct(q):
    """The correction of one row or column, from its collision probability."""
    return -1.0 + 1.306 * q - 0.112 * q**2 - 0.194 * q**3


@pytest.mark.parametrize("variance", [0.01, 0.1, 1.0])
def test_kernel_equals_dense_sinkhorn_plus_its_correction(variance):
    z, y, one, none = make_samples(25, 0.3, seed=1)
    coupled, dual = couple_densely(z, y, variance)
    rows, columns = (coupled**2).sum(axis=1), (coupled**2).sum(axis=0)
    expected = dual + 0.5 * (correct(rows).sum() + correct(columns).sum())
    value, centre, squares, _, _ = coupling._coupling_terms(z, one, none, y, one, none, variance)
    # The kernel stops at margins 0.03/√n off in the mean: 0.001 nats in the stationary dual. What
    # is not stationary moves by that share of the labels' range, most of it where few labels are.
    assert_allclose(value, expected, atol=0.05)
    assert_allclose(centre, coupled @ y, atol=0.03 / np.sqrt(25) * np.ptp(y) * 3)
    gaps = (y[None, :] - z[:, None]) ** 2
    assert_allclose(squares, (coupled * gaps).sum(), rtol=0.02, atol=1e-4)


@pytest.mark.parametrize("variance", [0.01, 0.1, 1.0])
def test_scaling_run_to_the_end_equals_dense_sinkhorn(variance):
    z, y, one, _ = make_samples(25, 0.3, seed=1)
    coupled, dual = couple_densely(z, y, variance)
    value, u, v, kernel, start, ptr = coupling._sinkhorn(z, one, y, one, variance, 1e-12, 5000)
    found = np.zeros((25, 25))
    for i in range(25):
        columns = np.arange(start[i], start[i] + ptr[i + 1] - ptr[i])
        found[i, columns] = u[i] * kernel[ptr[i] : ptr[i + 1]] * v[columns]
    # Entries cut off the band are below 1.5e-8 of the best path.
    assert_allclose(found, coupled, atol=1e-6)
    assert_allclose(value, dual, atol=1e-5)


@pytest.mark.parametrize("variance", [0.05, 0.5])
def test_slope_of_the_dual_is_the_pull_of_the_barycentres(variance):
    """The envelope theorem, which the analytic gradient rests on, on the dense twin."""
    z, y, one, none = make_samples(12, 0.3, seed=2)
    slopes = central_differences(lambda at: couple_densely(at, y, variance, 500)[1], z, 1e-4)
    centre = coupling._coupling_terms(z, one, none, y, one, none, variance)[1]
    # The margins of the kernel's coupling are off by a hundredth of a row at most.
    assert_allclose((centre - z) / variance, slopes, atol=0.02 / variance)


@pytest.mark.parametrize(
    ("n", "sigma", "law"),
    [(400, 0.3, "exponential"), (1500, 0.2, "exponential"), (1500, 0.4, "normal"),
     (4000, 0.4, "exponential"), (4000, 0.1, "uniform")],
)  # fmt: skip
def test_binned_likelihood_agrees_with_the_dense_one(n, sigma, law):
    rng = np.random.default_rng(11)
    z = getattr(rng, law)(size=n)
    y = np.sort(z + sigma * rng.normal(size=n))
    z, y = z - z.mean(), y - y.mean()
    variance, one, none = sigma**2, np.ones(n), np.zeros(n)
    grid = np.empty(n)
    value, squares, slope = coupling._bag_terms(z, y, variance, grid)
    order = np.argsort(z)
    dense_value, centre, dense_squares, dense_slope, radial = coupling._coupling_terms(
        z[order], one, none, y, one, none, variance
    )
    dense = np.empty(n)
    dense[order] = (centre - z[order]) / variance
    coupling._add_radial(z, radial, dense)
    # Measured: up to 0.8 nats at 2.5 cells a sigma (1.5 cells: over 2), slopes within 4 %.
    assert abs(value - (dense_value - lgamma(n + 1.0))) < 1.3
    assert_allclose(squares, dense_squares, rtol=0.01)
    assert_allclose(slope, dense_slope, atol=0.5)
    assert np.linalg.norm(grid - dense) < 0.05 * np.linalg.norm(dense)


@pytest.mark.parametrize("variance", [0.01, 0.1, 0.5, 2.0])
def test_approximate_permanent_is_close_to_the_exact_one(variance):
    """The correction is within 0.08 nats a row of exact permanents (Bethe's: up to 0.26)."""
    rng = np.random.default_rng(2)
    one, none = np.ones(8), np.zeros(8)
    z = np.sort(rng.normal(size=8))
    y = np.sort(z + np.sqrt(variance) * rng.normal(size=8))
    exact = log_permanent(-((y[None, :] - z[:, None]) ** 2) / (2 * variance))
    assert_allclose(coupling._exact_terms(z, y, variance)[0], exact, atol=1e-4)
    close = coupling._coupling_terms(z, one, none, y, one, none, variance)[0]
    assert abs(close - exact) < 0.08 * 8


def test_permanent_equals_the_sum_over_permutations():
    matrix = np.random.default_rng(0).random((5, 5))
    total = sum(np.prod([matrix[i, p[i]] for i in range(5)]) for p in permutations(range(5)))
    assert_allclose(coupling._permanent(matrix), total, rtol=1e-12)


def make_target_of(n, n_bags):
    """Return the standardised target of simulated data in small bags."""
    data = make_shuffled(n, 2, noise=0.3, bags=n_bags, rng=3)
    bags, _ = standardise(make_bags(data.X, data.y, data.groups), True, True)
    return make_target(np.ascontiguousarray(bags.X[:, :2]), bags, n - 1.0, None, Likelihood())


@pytest.mark.parametrize(("power", "means_power"), [(1.0, 1.0), (0.3, 1.0), (0.0, 1.0), (0.2, 0.7)])
def test_deviations_and_means_count_with_their_own_powers(power, means_power):
    target = make_target_of(12, 3)
    w, log_sigma = np.array([0.7, -0.4]), -0.8
    variance = np.exp(2 * log_sigma)
    within, between = -9 * log_sigma, -2 * log_sigma  # 12 - 3 and 3 - 1 factors of 1/sigma
    for r, (start, stop) in enumerate(zip(target.offsets[:-1], target.offsets[1:], strict=True)):
        z, y = target.within[start:stop] @ w, target.labels[start:stop]
        within += log_permanent(-((y[None, :] - z[:, None]) ** 2) / (2 * variance)) - lgamma(5.0)
        between -= 4 * (target.bag_labels[r] - target.bag_rows[r] @ w) ** 2 / (2 * variance)
    value = kernels.log_likelihood(
        target.within, target.labels, target.offsets, target.bag_rows, target.bag_labels, w,
        log_sigma, target.dof, power, means_power,
    )[0]  # fmt: skip
    assert_allclose(value, power * within + means_power * between, atol=1e-4)


def test_slopes_of_bag_means_are_exact():
    """With nothing inside bags counted, value and slopes are those of weighted least squares."""
    target = make_target_of(12, 3)
    args = (target.within, target.labels, target.offsets, target.bag_rows, target.bag_labels)

    def value(theta):
        return kernels.log_likelihood(*args, theta[:2], theta[2], target.dof, 0.0, 0.6)[0]

    theta = np.array([0.7, -0.4, -0.8])
    _, gradient, slope = kernels.log_likelihood(*args, theta[:2], theta[2], target.dof, 0.0, 0.6)
    expected = central_differences(value, theta, 1e-5)
    assert_allclose(np.append(gradient, slope), expected, rtol=1e-7, atol=1e-7)
