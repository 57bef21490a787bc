"""Likelihood kernels at their limits: narrow bins, rare events, low noise, tails."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from couplings import couple, draw_bag, draw_kernel, score_bag, score_without_grid
from unshuffle.kernels.transport import densities, pairings
from unshuffle.objectives.noise import StudentNoise


def test_ever_narrower_bins_have_the_slopes_of_a_label():
    expected = densities.gaussian_bin(1.5, 1.5, 1.0)
    for width in (1e-7, 1e-9, 1e-11, 1e-13, 1e-15):
        # Its middle is known to half its width and to rounding.
        found = densities.gaussian_bin(1.5, 1.5 + width, 1.0)
        assert_allclose(found, expected, rtol=2 * width + 1e-12)


def test_enumeration_of_sums_near_underflow_is_exact_or_left_to_the_coupling():
    for low in (-690.0, -705.0, -715.0, -735.0):
        log_kernel = np.array([[0.0, 0.0], [low, low - 1.0]])
        slopes = np.empty((2, 2))
        value = pairings.enumerate_terms(log_kernel, 2.0, slopes)
        if value > -np.inf:
            assert_allclose(value, np.logaddexp(low, low - 1.0) - np.log(2.0), rtol=1e-12)
            assert_allclose(slopes.sum(axis=0), 1.0, rtol=1e-9)


@pytest.mark.parametrize("sigma", [0.005, 0.002])
def test_a_partial_coupling_at_low_noise_stays_below_its_bound(sigma):
    for seed in range(10):
        log_kernel = draw_kernel(50, 25, sigma, seed)
        value, slopes, _ = couple(log_kernel)
        # A mean over injections is below the product of every label's best density.
        assert value < log_kernel.max(axis=0).sum() + 0.1 * 50
        assert_allclose(slopes.sum(axis=0), 1.0, rtol=1e-4)


def test_noise_of_even_shape_has_even_bins():
    places = np.linspace(-12.0, 12.0, 4801)
    tables = norm.logpdf(places), norm.cdf(places), norm.sf(places)
    place = places[0], places[1] - places[0]
    for end in (5.0, 7.0, 8.0, 9.0):
        above = densities.shaped_bin(end, end + 0.3, *place, *tables)
        below = densities.shaped_bin(-end - 0.3, -end, *place, *tables)
        # Ends at places of the tables, where the slope jumps by the share 0.005 x of a cell.
        assert_allclose(above[0], below[0], atol=1e-6)
        assert_allclose(above[1], -below[1], rtol=0.1)


@pytest.mark.parametrize("pairing", [pairings.PERMUTATION, pairings.DRAWS])
def test_a_grid_changes_the_likelihood_of_shaped_noise_as_little_as_that_of_gaussian(pairing):
    n, sigma = 1000, 0.26
    z, masses, low, high, label_masses = draw_bag(n, 40, sigma)
    places = np.linspace(-40 * sigma, 40 * sigma, 8001)
    step = places[1] - places[0]
    log_density = StudentNoise(sigma, 4.0).log_density(places)
    heights = np.exp(log_density)
    cumulated = np.concatenate([[0.0], np.cumsum(0.5 * (heights[1:] + heights[:-1]) * step)])
    cumulated /= cumulated[-1]
    tables = np.array([log_density, cumulated, 1.0 - cumulated])
    rest = masses, low, high, label_masses, pairing, sigma, tables, (places[0], step)
    for factor in (1.0, 0.7):
        found, expected = score_bag(factor * z, *rest), score_without_grid(factor * z, *rest)
        # The limit of Gaussian noise in test_pairing_kernels: 1e-4 nats a row.
        assert abs(found[0] - expected[0]) < 1e-4 * n
