"""Noise: density, moments and atoms are those of one distribution, in any units."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from registry_examples import NOISE_EXAMPLES
from unshuffle.errors import InputError
from unshuffle.objectives.noise import (
    GaussianNoise,
    GridNoise,
    MomentNoise,
    SampleNoise,
    StudentNoise,
    noise_from_calibration,
)

GRIDS = {
    "triangle": GridNoise([-0.5, 0.0, 1.5], [0.0, 1.0, 0.0]),
    "even": GridNoise([0.0, 2.0], [3.0, 3.0]),
    "two humps": GridNoise([-2.0, -1.0, 0.0, 0.5, 1.5, 2.0], [0.0, 2.0, 0.0, 0.0, 1.0, 0.5]),
    "spike": GridNoise([-1.0, -1e-3, 0.0, 1e-3, 4.0], [0.01, 0.01, 9.0, 0.01, 0.01]),
}
# Noise of which two moments are known counts as Gaussian: its density has no others.
EXAMPLES = {name: (each, 2 if name == "moments" else 4) for name, each in NOISE_EXAMPLES.items()}
EXAMPLES |= {f"grid, {name}": (each, 5) for name, each in GRIDS.items()}
all_examples = pytest.mark.parametrize(("noise", "n_moments"), EXAMPLES.values(), ids=EXAMPLES)


def integrate(noise, power):
    """Integrate e to a power over the density, interval by interval."""
    if isinstance(noise, GridNoise):
        ends = noise.places
    else:
        # To 300 sds: beyond, t noise of 9 degrees of freedom has 1e-13 of its fourth moment.
        steps = np.concatenate([np.linspace(0, 8, 33), np.geomspace(9, 300, 25)])
        ends = noise.sd * np.concatenate([-steps[:0:-1], steps])
    parts = [
        quad(lambda e: e**power * np.exp(noise.log_density(np.array([e]))[0]), low, high)[0]
        for low, high in pairwise(ends)
    ]
    return sum(parts)


@all_examples
def test_a_density_integrates_to_one(noise, n_moments):
    assert_allclose(integrate(noise, 0), 1.0, rtol=1e-8)


@all_examples
def test_moments_are_those_of_the_density(noise, n_moments):
    if isinstance(noise, SampleNoise):
        # A kernel about every error keeps the first two, and no more.
        n_moments = 2
    for k, moment in enumerate(noise.moments(n_moments), start=1):
        assert_allclose(integrate(noise, k), moment, rtol=1e-7, atol=1e-9 * noise.sd**k)
    mean, square = noise.moments(2)
    assert_allclose(noise.sd, np.sqrt(square - mean**2), rtol=1e-12)


@all_examples
@pytest.mark.parametrize("scale", [0.25, 3.7])
def test_other_units_change_the_density_and_nothing_else(noise, n_moments, scale):
    mean, sd = noise.moments(1)[0], noise.sd
    errors = mean + sd * np.linspace(-1.0, 1.0, 9)
    moved = noise.divided_by(scale)
    expected = noise.log_density(errors) + np.log(scale)
    assert_allclose(moved.log_density(errors / scale), expected, rtol=1e-9, atol=1e-9)
    assert_allclose(moved.sd, sd / scale, rtol=1e-12)
    if noise.has_atoms:
        assert_allclose(moved.atoms(), noise.atoms() / scale, rtol=1e-9, atol=1e-12 * sd)


@pytest.mark.parametrize("noise", GRIDS.values(), ids=GRIDS)
def test_atoms_of_a_grid_are_its_quantiles_but_for_shift_and_scale(noise):
    fine = np.linspace(noise.places[0], noise.places[-1], 2_000_001)
    cumulated = np.cumsum(np.interp(fine, noise.places, noise.density)) * (fine[1] - fine[0])
    levels = (np.arange(16) + 0.5) / 16
    expected = np.interp(levels, cumulated / cumulated[-1], fine)
    atoms = noise.atoms()
    mean, sd = noise.moments(1)[0], noise.sd
    assert_allclose([atoms.mean(), np.std(atoms)], [mean, sd], rtol=1e-12, atol=1e-12)
    standard = (expected - expected.mean()) / np.std(expected)
    # The sum over the fine grid is off by one of its heights: 1e-6 of the probability, more where
    # the density is nearly zero.
    assert_allclose((atoms - mean) / sd, standard, atol=1e-4)


def test_t_noise_of_endless_degrees_of_freedom_is_gaussian():
    errors = np.linspace(-6.0, 6.0, 25)
    student, gaussian = StudentNoise(1.7, 1e7), GaussianNoise(1.7)
    # Everything differs by powers of the errors (in sds) over the degrees of freedom: 3e-5 at
    # most for the log density, at six sds.
    assert_allclose(student.moments(6), gaussian.moments(6), rtol=1e-5)
    assert_allclose(student.atoms(), gaussian.atoms(), rtol=1e-5)
    assert_allclose(
        student.log_density(1.7 * errors), gaussian.log_density(1.7 * errors), atol=1e-4
    )
    near = np.abs(errors) <= 3
    pair = (noise.log_density(1.7 * errors[near]) for noise in (student, gaussian))
    assert_allclose(*pair, atol=1e-5)


def test_t_noise_has_the_moments_that_exist_and_refuses_others():
    noise = StudentNoise(2.0, 4.5)
    assert_allclose(noise.moments(4), [0, 4.0, 0, 3 * 16.0 * (4.5 - 2) / (4.5 - 4)], rtol=1e-12)
    with pytest.raises(InputError, match=r"moment 5 .* infinite: give more degrees"):
        noise.moments(5)


def test_a_calibration_sample_keeps_its_order_for_itself():
    labels = np.random.default_rng(0).exponential(size=50)
    forth, back = noise_from_calibration(labels), noise_from_calibration(labels[::-1])
    places = np.linspace(-2, 2, 9)
    assert forth.log_density(places).tobytes() == back.log_density(places).tobytes()
    assert_allclose(forth.sd, np.std(labels, ddof=1), rtol=1e-12)


def test_density_of_many_errors_has_their_shape():
    errors = np.random.default_rng(0).normal(size=400)
    places = np.linspace(-1.5, 1.5, 7)
    assert noise_from_calibration(errors).log_density(places.reshape(1, 7)).shape == (1, 7)


def test_outside_a_grid_labels_are_unlikely_and_not_impossible():
    noise = GRIDS["triangle"]
    found = noise.log_density(np.array([-9.0, 9.0]))
    assert np.isfinite(found).all()
    assert (found < noise.log_density(np.array([0.0])) - 25).all()


REFUSED = {
    "t noise of no sd": (lambda: StudentNoise(0.0, 5.0), "sd above 0, got 0.0"),
    "t noise of infinite sd": (lambda: StudentNoise(np.inf, 5.0), "got inf"),
    "t noise of two degrees": (lambda: StudentNoise(1.0, 2.0), "more than 2 degrees.*got 2.0"),
    "t noise of NaN degrees": (lambda: StudentNoise(1.0, np.nan), "more than 2 .* got nan"),
    "a grid of text": (lambda: GridNoise(["a", "b"], [1, 1]), "GridNoise needs numbers"),
    "a grid of one place": (lambda: GridNoise([0.0], [1.0]), "at least two"),
    "a grid of unequal parts": (lambda: GridNoise([0, 1], [1, 1, 1]), r"\(2,\) and \(3,\)"),
    "places that fall": (lambda: GridNoise([0, 2, 1], [1, 1, 1]), "increase: sort"),
    "places that stay": (lambda: GridNoise([0, 1, 1], [1, 1, 1]), "increase: sort"),
    "infinite places": (lambda: GridNoise([0, np.inf], [1, 1]), "finite places"),
    "a negative density": (lambda: GridNoise([0, 1], [1, -1]), "at least 0"),
    "a density of NaN": (lambda: GridNoise([0, 1], [1, np.nan]), "finite densities"),
    "no density at all": (lambda: GridNoise([0, 1], [0, 0]), "not all 0"),
    "the density of no noise": (lambda: GaussianNoise(0.0).log_density(np.zeros(1)), "no density"),
    "the density of constant noise": (
        lambda: MomentNoise((2.0, 4.0)).log_density(np.zeros(1)),
        "no density",
    ),
    "the density of equal labels": (
        lambda: noise_from_calibration([3.0, 3.0]).log_density(np.zeros(1)),
        "no density",
    ),
}


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED)
def test_noise_that_cannot_be_is_refused(make, words):
    with pytest.raises(InputError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
