"""Log densities: of labels, of bins of any width, and far into the tails."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

import oracles
from unshuffle.kernels.transport import densities
from unshuffle.objectives.noise import StudentNoise

INF = np.inf
# Ends in sds: middle, sides, tails on either side of where the expansion takes over, open bins.
BINS = {
    "about the middle": (-0.7, 1.3),
    "wide": (-9.0, 11.0),
    "wider than all digits": (-60.0, 60.0),
    "one side": (2.0, 2.5),
    "far": (9.0, 9.2),
    "far below": (-9.2, -9.0),
    "before the tail": (24.0, 24.9),
    "across the tail": (24.9, 25.3),
    "in the tail": (26.0, 26.01),
    "in the tail below": (-31.0, -30.0),
    "very far": (300.0, 301.0),
    "beyond squares that underflow": (-2e4, -1.9e4),
    "narrow": (0.4, 0.4 + 1e-4),
    "narrow and far": (20.0, 20.0 + 3e-5),
    "very narrow": (1.5, 1.5 + 1e-6),
    "very narrow in the tail": (40.0, 40.0 + 1e-7),
    "open above": (0.3, INF),
    "open above and far": (12.0, INF),
    "open in the tail": (28.0, INF),
    "open below": (-INF, -0.4),
    "open below in the tail": (-INF, -45.0),
    "open with all mass": (-8.0, INF),
}
SIGMAS = (1.0, 0.02, 50.0)
all_bins = pytest.mark.parametrize(("low", "high"), BINS.values(), ids=BINS)


@all_bins
def test_log_density_of_a_bin_is_its_probability_over_its_width(low, high):
    width = high - low
    for sigma in SIGMAS:
        found = densities.gaussian_bin(low * sigma, high * sigma, sigma)[0]
        if width < 1e-3:
            # Differences of probabilities have no digits left; a parabola of the log density has.
            middle = 0.5 * (low + high)
            expected = norm.logpdf(middle) + np.log1p((middle**2 - 1) * width**2 / 24)
            expected -= np.log(sigma)
        else:
            expected = oracles.log_gaussian_bin(low * sigma, high * sigma, sigma)
        # Mills' expansion errs by 1e-8; differences of erfc of a bin of 3e-5 sds at 20 sds by
        # 1e-11.
        assert_allclose(found, expected, rtol=1e-9, atol=2e-8)


@all_bins
def test_slopes_of_a_bin_are_those_of_its_log_density(low, high):
    """In the prediction (which moves both ends down) and in log sigma, from the hazards."""
    width = high - low
    if width < 1e-3:
        middle = 0.5 * (low + high)
        at_low, at_high = None, None
        expected_z, expected_sigma = middle, middle**2 - 1
    else:
        mass = oracles.log_gaussian_bin(low, high, 1.0) + (np.log(width) if width < INF else 0.0)
        at_low, at_high = (np.exp(norm.logpdf(end) - mass) for end in (low, high))
        expected_z = at_low - at_high
        expected_sigma = sum(
            sign * end * rate
            for sign, end, rate in ((1, low, at_low), (-1, high, at_high))
            if np.isfinite(end)
        )
        # The width is in the user's units, so that it does not move with sigma.
    scale = max(1.0, abs(low) if np.isfinite(low) else 1.0, abs(high) if np.isfinite(high) else 1.0)
    for sigma in SIGMAS:
        _, in_z, in_sigma = densities.gaussian_bin(low * sigma, high * sigma, sigma)
        assert_allclose(in_z * sigma, expected_z, rtol=3e-7, atol=1e-8 * scale)
        assert_allclose(in_sigma, expected_sigma, rtol=3e-7, atol=1e-7 * scale)


@pytest.mark.parametrize("sigma", [0.3, 2.0])
@pytest.mark.parametrize("name", ["about the middle", "one side", "far below", "open above"])
def test_slopes_of_a_bin_equal_differences(name, sigma):
    low, high = BINS[name]

    def value(at):
        return densities.gaussian_bin(low - at[0], high - at[0], sigma * np.exp(at[1]))[0]

    found = oracles.central_differences(value, np.array([0.1, 0.0]), 1e-5)
    slopes = densities.gaussian_bin(low - 0.1, high - 0.1, sigma)[1:]
    # Truncation 1e-10 times third derivatives of up to (30 sds)³; rounding 1e-11 of the value.
    assert_allclose(slopes, found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_a_bin_without_width_is_a_label(sigma):
    for error in (-3.0, 0.0, 40.0):
        value, in_z, in_sigma = densities.gaussian_bin(error * sigma, error * sigma, sigma)
        assert_allclose(value, norm.logpdf(error * sigma, scale=sigma), rtol=1e-12)
        assert_allclose([in_z, in_sigma], [error / sigma, error**2 - 1], rtol=1e-12)


def test_bins_that_cover_the_line_have_all_probability():
    edges = np.concatenate([[-INF], np.linspace(-33.0, 33.0, 200), [INF]])
    values = [densities.gaussian_bin(a, b, 1.3)[0] for a, b in pairwise(edges)]
    widths = np.diff(edges)
    total = np.exp(values) * np.where(np.isfinite(widths), widths, 1.0)
    assert_allclose(total.sum(), 1.0, rtol=1e-12)


TABLE_STEP, TABLE_START = 0.01, -6.0
PLACES = TABLE_START + TABLE_STEP * np.arange(1201)


def make_tables():
    """Return tables of t noise at even places (log density, probabilities), and what they hold."""
    log_density = StudentNoise(0.7, 5.0).log_density(PLACES)
    heights = np.exp(log_density)
    parts = 0.5 * (heights[1:] + heights[:-1]) * TABLE_STEP
    cumulated = np.concatenate([[0.0], np.cumsum(parts)])
    above = np.concatenate([np.cumsum(parts[::-1])[::-1], [0.0]])
    return np.stack([log_density, cumulated / cumulated[-1], above / above[0]]), cumulated[-1]


def integrate_table(low, high, log_density):
    """Integrate the density whose log is a line between places."""
    inside = PLACES[(low < PLACES) & (high > PLACES)]
    ends = np.concatenate([[low], inside, [high]])
    return sum(
        quad(lambda x: np.exp(np.interp(x, PLACES, log_density)), a, b)[0]
        for a, b in pairwise(ends)
    )


SHAPED = [(-0.3, 0.5), (1.0, 1.013), (-5.5, -4.0), (2.0, 5.9), (0.2, 0.203)]


@pytest.mark.parametrize(("low", "high"), SHAPED)
def test_a_bin_of_shaped_noise_is_the_integral_of_its_table(low, high):
    tables, total = make_tables()
    found = densities.shaped_bin(low, high, TABLE_START, TABLE_STEP, *tables)[0]
    expected = np.log(integrate_table(low, high, tables[0]) / (high - low))
    if high - low >= TABLE_STEP:
        expected -= np.log(total)
    # Lines between the places of the cumulated table: a share h²f″/f ≈ 1e-4 of the density, and at
    # most a cell's change of density where an end lies inside a cell.
    assert_allclose(found, expected, atol=3e-3)


@pytest.mark.parametrize(("low", "high"), [*SHAPED, (3.0, INF), (-INF, 1.0), (7.0, 8.0)])
def test_slopes_of_shaped_noise_equal_differences(low, high):
    tables, _ = make_tables()

    def value(at):
        place = TABLE_START, TABLE_STEP, *tables
        return densities.shaped_bin(low - at[0], high - at[0], *place)[0]

    at = np.array([0.0023])
    place = TABLE_START, TABLE_STEP, *tables
    slope = densities.shaped_bin(low - at[0], high - at[0], *place)[1]
    # Both are lines inside a cell, and the step stays inside.
    assert_allclose(slope, oracles.central_differences(value, at, 1e-5)[0], rtol=1e-6, atol=1e-9)


def test_filled_kernels_hold_the_density_of_every_pair():
    z, low = np.array([0.0, 1.0]), np.array([-INF, 0.5, 2.0])
    high = np.array([0.4, 0.5, 3.0])
    for tables in (np.empty((3, 0)), make_tables()[0]):
        out, in_z, in_sigma = (np.empty((2, 3)) for _ in range(3))
        noise = 0.6, TABLE_START, TABLE_STEP
        densities.fill_log_kernel(z, low, high, *noise, tables, out, in_z, in_sigma)
        for i, j in np.ndindex(2, 3):
            ends = low[j] - z[i], high[j] - z[i]
            expected = (
                densities.shaped_bin(*ends, *noise[1:], *tables)
                if tables.size
                else densities.gaussian_bin(*ends, 0.6)
            )
            assert (out[i, j], in_z[i, j], in_sigma[i, j]) == expected
