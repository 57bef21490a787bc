"""Properties of importance sampling: densities of proposals, batches of draws, reused rounds."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from targets import PLAIN, build_from_data
from unshuffle import Likelihood, ShuffledLinearRegression, kernels, make_shuffled
from unshuffle.inference.importance import reweigh, sample_posterior
from unshuffle.inference.modes import draw_starts, maximise_all
from unshuffle.inference.proposals import (
    Mixture,
    PlainCoordinates,
    PriorShell,
    Shell,
    StandardisedCoordinates,
    adapt,
    make_mixture,
    normalise,
)

OPEN = Likelihood()


def make_target(n=60, d=3, bags=3, options=OPEN):
    return build_from_data(make_shuffled(n, d, noise=0.4, bags=bags, rng=1), options)[0]


def make_small_mixture(target, rng, coordinates=PlainCoordinates):
    """Return two components and a shell."""
    d = target.dim
    means = 0.3 * rng.standard_normal((2, d))
    factors = np.array([np.linalg.cholesky(np.cov(rng.standard_normal((d, 3 * d))))] * 2)
    shares = np.array([0.5, 0.3, 0.2])
    return Mixture(shares, means, factors, 5.0, Shell(target), 2, coordinates(target))


@pytest.mark.parametrize("d", [1, 2, 6])
def test_student_densities_are_scipys(d):
    rng = np.random.default_rng(d)
    x, means = rng.standard_normal((7, d)), rng.standard_normal((3, d))
    factors = np.array(
        [np.linalg.cholesky(np.cov(rng.standard_normal((d, 4 * d))).reshape(d, d))] * 3
    )
    logs = np.empty((3, 7))
    kernels.student_logs(x, means, factors, 5.0, logs)
    for k in range(3):
        reference = stats.multivariate_t(means[k], factors[k] @ factors[k].T, df=5.0)
        assert_allclose(logs[k], reference.logpdf(x), rtol=1e-10)


@pytest.mark.parametrize("log_sigma", [None, -1.0])
@pytest.mark.parametrize("has_curve", [True, False])
@pytest.mark.parametrize("is_prior", [False, True])
def test_the_density_of_the_shell_is_that_of_its_draws(log_sigma, has_curve, is_prior):
    """The mean of q/shell over draws of the shell is one for every density q inside of it."""
    target = make_target(options=OPEN if has_curve else PLAIN)
    target = replace(target, log_sigma=log_sigma)
    shell = PriorShell(target, log_sigma or -0.5) if is_prior else Shell(target)
    x = shell.draw(200_000, np.random.default_rng(0))
    assert x.shape == (200_000, target.dim)
    centre = np.zeros(target.dim)
    centre[: target.p] = 0.5, 0.2, -0.1
    if log_sigma is None:
        centre[target.p] = -0.5
    reference = stats.multivariate_normal(centre, 0.15**2 * np.eye(target.dim))
    ratio = np.exp(reference.logpdf(x) - shell.log_density(x))
    error = ratio.std() / np.sqrt(len(ratio))
    # Four standard errors: by chance once in 16 000; the errors are below a fifth.
    assert error < 0.2
    assert abs(ratio.mean() - 1.0) < 4.0 * error


@pytest.mark.parametrize("level", [-500.0, 900.0])
def test_the_shell_has_a_density_where_noise_is_beyond_all_numbers(level):
    shell = Shell(make_target())
    x = shell.draw(5, np.random.default_rng(0))
    x[:, shell.target.p] = level
    logs = shell.log_density(x)
    # The share is Beta(1/2, 1): its log density falls by half of what its log does, plus that of
    # the change of variables; much more than the level where the total runs away.
    assert np.isfinite(logs).all() and (logs < -abs(level) + 20.0).all()


def test_a_mixture_sums_the_densities_of_its_parts():
    target, rng = make_target(), np.random.default_rng(3)
    mixture = make_small_mixture(target, rng)
    x = mixture.draw(50, rng)
    expected = mixture.shares[-1] * np.exp(mixture.shell.log_density(x))
    for k in range(2):
        scale = mixture.factors[k] @ mixture.factors[k].T
        reference = stats.multivariate_t(mixture.means[k], scale, df=5.0)
        expected += mixture.shares[k] * np.exp(reference.logpdf(x))
    assert_allclose(mixture.log_density(x), np.log(expected), rtol=1e-9)


def test_coordinates_are_restored_and_their_jacobian_is_that_of_differences():
    target, rng = make_target(), np.random.default_rng(5)
    x = make_small_mixture(target, rng).draw(20, rng)
    place = StandardisedCoordinates(target)
    u, log_volumes = place.transform(x)
    assert_allclose(place.restore(u), x, atol=1e-12)
    for point, log_volume in zip(x, log_volumes, strict=True):
        moved = np.concatenate(
            [point + 1e-6 * np.eye(len(point)), point - 1e-6 * np.eye(len(point))]
        )
        ends = place.transform(moved)[0]
        expected = (ends[: len(point)] - ends[len(point) :]).T / 2e-6
        found = place.jacobian(point)
        assert_allclose(found, expected, atol=1e-6)
        assert np.log(abs(np.linalg.det(found))) == pytest.approx(log_volume)


def test_the_density_of_a_mixture_in_other_coordinates_is_that_of_its_draws():
    """The mean of q/mixture over draws of the mixture is one for every density q inside of it."""
    target, rng = make_target(options=PLAIN), np.random.default_rng(6)
    mixture = make_small_mixture(target, rng, StandardisedCoordinates)
    x = mixture.draw(200_000, rng)
    theta = mixture.coordinates.restore(mixture.means[:1])[0]
    reference = stats.multivariate_normal(theta, 0.1**2 * np.eye(target.dim))
    ratio = np.exp(reference.logpdf(x) - mixture.log_density(x))
    error = ratio.std() / np.sqrt(len(ratio))
    # Four standard errors: by chance once in 16 000; the error is below a tenth.
    assert error < 0.1
    assert abs(ratio.mean() - 1.0) < 4.0 * error


def test_adapting_keeps_the_modes_and_adds_a_component_of_all_draws():
    target, rng = make_target(), np.random.default_rng(4)
    mixture = make_small_mixture(target, rng, StandardisedCoordinates)
    x, shares = mixture.draw(300, rng), rng.dirichlet(np.ones(300))
    adapted = adapt(mixture, x, shares)
    assert adapted.n_modes == 2
    assert adapted.shares.sum() == pytest.approx(1.0)
    assert len(adapted.shares) == len(adapted.means) + 1 == 4
    u = mixture.coordinates.transform(x)[0]
    assert_allclose(adapted.means[2], np.average(u, axis=0, weights=shares))
    covariance = np.cov(u.T, aweights=shares, ddof=0)
    assert_allclose(adapted.factors[2] @ adapted.factors[2].T, 1.1 * covariance, atol=1e-9)


@pytest.mark.parametrize(("n", "bags"), [(30, 10), (60, 3), (300, 1), (2000, 4)])
def test_a_batch_has_the_values_of_its_points(n, bags):
    target = make_target(n, 2, bags)
    starts = draw_starts(target, 12, np.random.default_rng(0))
    x = np.array([target.join(w, -0.9) for w in starts])
    parts = target.parts(x)
    for row, theta in zip(parts, x, strict=True):
        total = target.mix(row[0], row[1]) + row[2]
        # Draws may stop their scaling at 1e-4 nats, which leaves a few thousandths.
        assert total == pytest.approx(target(theta)[0], abs=0.02)
    for n_jobs in (1, 2):
        assert_array_equal(replace(target, n_jobs=n_jobs).parts(x), parts)


def test_draws_at_a_low_power_do_not_win_at_a_high_one():
    """One bag of alike columns, off-centre and without intercept: no answer beyond the labels.

    Three columns N(1, 1), 3000 rows: predictions of the estimate spread no more than the labels. A
    bound that passed for a value gave weights of ten times their size here.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(1.0, 1.0, (3000, 3))
    y = rng.permutation(X @ [1.0, 1.0, 1.0] + 0.5 * rng.normal(size=3000))
    model = ShuffledLinearRegression("likelihood", fit_intercept=False, random_state=0).fit(X, y)
    assert np.std(X @ model.coef_) < 1.05 * np.std(y)


def test_rounds_at_another_power_count_again():
    """Draws weighed anew at a power are those of a sample made at it, up to chance."""
    target = make_target(120, 2, 4, PLAIN)
    weak = replace(target, power=0.4)
    start = [target.join(np.array([0.7, 0.5]), -0.9)]
    mode = maximise_all(weak, start)[0]
    rng = np.random.default_rng(0)
    sample = sample_posterior(weak, make_mixture(weak, [mode]), 2000.0, rng)
    again = reweigh(target, sample)
    mode = maximise_all(target, start)[0]
    fresh = sample_posterior(target, make_mixture(target, [mode]), 2000.0, rng)
    means = []
    for each in (again, fresh):
        shares, n_effective = normalise(each.log_weights)
        mean = shares @ each.slopes
        spread = np.sqrt(shares @ (each.slopes - mean) ** 2)
        means.append((mean, spread, n_effective))
    assert means[0][2] > 100
    # Five standard errors of either: by chance less than once in a million.
    error = 5.0 * means[1][1] * np.sqrt(1 / means[0][2] + 1 / means[1][2])
    assert (np.abs(means[0][0] - means[1][0]) < error).all()
