"""Properties of replica exchange: kernels, temperatures, effective sample sizes."""

from math import exp, log, pi

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import share_prior, swap_pass
from targets import build_from_data
from unshuffle import make_shuffled
from unshuffle.inference import replica_exchange
from unshuffle.inference.chains import bridge_levels, effective_draws, log_prior_mass, split_rhat
from unshuffle.kernels import tempering as kernels


def make_kernel_case(sizes, p, seed):
    """Return the target of simulated data, its model and axes, and a generator."""
    data = make_shuffled(sum(sizes), p, noise=0.4, bags=sizes, rng=seed)
    target = build_from_data(data)[0]
    return target, *replica_exchange.make_model(target), np.random.default_rng(seed)


@pytest.mark.parametrize("is_forward", [True, False])
@pytest.mark.parametrize("sizes", [[9], [1, 4, 6]])
def test_swaps_equal_those_computed_from_the_whole_density(sizes, is_forward):
    _, model, _, rng = make_kernel_case(sizes, 2, 5)
    n = sum(sizes)
    holder = np.concatenate(
        [
            a + rng.permutation(b - a)
            for a, b in zip(model.offsets[:-1], model.offsets[1:], strict=True)
        ]
    )
    gains, noise = rng.random(2) * 2, 0.3
    spans = [
        max(1.0, min(2 * noise * r, s - 1))
        for r, s in zip(model.reach, np.diff(model.offsets), strict=True)
    ]
    for _ in range(20):
        uniforms = rng.random((n, 2))

        def steps(start, stop):
            steps = range(start, stop - 1)
            return steps if is_forward else reversed(steps)

        expected = swap_pass(
            model.rows, model.labels, model.offsets, holder, gains, spans, steps, uniforms
        )
        field = model.labels @ model.rows[holder]
        kernels.swap_labels(model, holder, field, gains, noise, is_forward, uniforms)
        assert holder.tolist() == expected
        # Updated step by step, to rounding.
        assert_allclose(field, model.labels @ model.rows[holder], atol=1e-12)


@pytest.mark.parametrize("p", [1, 2, 4])
def test_level_densities_are_those_of_the_target(p):
    """Densities at two levels differ as likelihood and prior do, by their definitions."""
    target, model, axes, rng = make_kernel_case([5, 7], p, 3)
    X, y = target.within_bag.rows.T, target.label_items()[0]
    holder = np.concatenate([rng.permutation(5), 5 + rng.permutation(7)])
    w = rng.normal(size=p)
    sums = kernels.residual_and_signal(model, y @ model.rows[holder], w @ axes)
    residual = ((y - X[holder] @ w) ** 2).sum()
    assert_allclose(sums, [residual, w @ target.covariance @ w])
    values = []
    for log_sigma in (-1.5, 0.4):
        u = exp(-2 * log_sigma)
        found = kernels.level_density(model.prior, u, log_sigma, *sums)
        prior = share_prior(target.covariance, 1.0, 0.5, 1.0, w[None], log_sigma)[0]
        assert prior == pytest.approx(target.prior(w, log_sigma)[0])
        values.append(found - (-0.5 * u * residual + prior - log_sigma))
    # What is left out is the same at every level: the weights' Gaussian prior.
    assert values[0] == pytest.approx(values[1])
    assert values[0] == pytest.approx(0.5 * w @ w)


def test_exchanges_follow_the_ratio_of_densities():
    _, model, _, rng = make_kernel_case([6], 2, 1)
    levels = np.column_stack([[0.0, 1.0, 3.0, 9.0], -0.5 * np.log([1.0, 1.0, 3.0, 9.0])])
    for parity in (0, 1):
        level = np.array([2, 0, 3, 1])
        sums, uniforms = rng.random((4, 2)) * 3, rng.random(4)
        expected, refusals = level.copy(), np.zeros(3)
        for k in range(parity, 3, 2):
            r, s = (int(np.flatnonzero(level == at)[0]) for at in (k, k + 1))
            density = [
                [kernels.level_density(model.prior, *levels[k + m], *sums[t]) for t in (r, s)]
                for m in (0, 1)
            ]
            chance = min(1.0, exp(density[0][1] + density[1][0] - density[0][0] - density[1][1]))
            refusals[k] = 1 - chance
            if uniforms[k] < chance:
                expected[r], expected[s] = k + 1, k
        record = kernels.Record(
            np.zeros((1, 1, 2)), np.zeros((1, 1, 2)), np.zeros((1, 1, 6), np.int16),
            np.zeros(3), np.zeros(5), 1,
        )  # fmt: skip
        state = kernels.State(np.zeros((4, 6), np.int64), sums, sums, level)
        kernels.exchange_levels(model.prior, levels, state, sums, uniforms, parity, record)
        assert state.level.tolist() == expected.tolist()
        assert_allclose(record.refusals, refusals, atol=1e-12)


def test_trips_count_replicas_that_went_from_the_first_level_to_the_last():
    _, model, _, _ = make_kernel_case([6], 2, 1)
    levels = np.array([[0.0, 0.0], [1.0, 0.0]])
    state = kernels.State(
        np.zeros((2, 6), np.int64), np.zeros((2, 2)), np.zeros((2, 2)), np.arange(2)
    )
    record = kernels.Record(
        np.zeros((1, 1, 2)), np.zeros((1, 1, 2)), np.zeros((1, 1, 6), np.int16),
        np.zeros(1), np.zeros(3), 1,
    )  # fmt: skip
    for _ in range(4):  # equal replicas always exchange
        kernels.exchange_levels(model.prior, levels, state, np.ones((2, 2)), np.zeros(2), 0, record)
    assert record.trips[0] == 3  # the first exchange brought down a replica not seen at the mode


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("share_high", [1.0, 2.3])
@pytest.mark.parametrize("log_sigma", [-2.0, 1.5])
def test_prior_mass_equals_a_sum_over_a_grid(p, share_high, log_sigma):
    covariance, scale = np.diag([0.6, 1.4][:p]), 0.8
    axis = np.linspace(-6.0, 6.0, 1201)
    grid = np.stack(np.meshgrid(*[axis] * p), axis=-1).reshape(-1, p)
    values = share_prior(covariance, scale, 0.5, share_high, grid, log_sigma) - log_sigma
    expected = np.log(np.exp(values).sum() * (axis[1] - axis[0]) ** p)
    powers = (0.5 + share_high, share_high - p / 2, 1e-3)
    found = log_prior_mass(np.diag(covariance), scale, powers, log_sigma)
    # Trapezoids in the logs of the mixing numbers err by 1e-5, the grid at its kink by 1e-4.
    assert found == pytest.approx(expected, abs=3e-4)


def test_bridge_finds_the_ratio_of_two_gaussians():
    """exp(−x²/2) against exp(−x²/2a²): log Z differs by log a."""
    rng = np.random.default_rng(0)
    a = 2.0
    x = rng.normal(size=(20_000, 2)) * [1.0, a]
    gain = 0.5 * x**2 * (1 - 1 / a**2)
    found = bridge_levels(gain[:, :1], gain[:, 1:])
    # A standard error of 0.006: five of them.
    assert found[0] == pytest.approx(log(a), abs=0.03)


def test_effective_draws_of_a_known_autocorrelation():
    """An autoregression with coefficient c counts for (1 − c)/(1 + c) independent draws."""
    rng = np.random.default_rng(0)
    c, chains = 0.8, np.zeros((4, 5000))
    steps = rng.normal(size=chains.shape)
    for t in range(1, 5000):
        chains[:, t] = c * chains[:, t - 1] + np.sqrt(1 - c**2) * steps[:, t]
    # The estimate's own standard error is about 6 %.
    assert effective_draws(chains, 1.0) == pytest.approx(20_000 / 9, rel=0.3)
    assert split_rhat(chains, 1.0) < 1.01


def test_independent_draws_count_in_full():
    chains = np.random.default_rng(0).normal(size=(4, 5000))
    # Correlations summed to the first negative pair err by a few per cent.
    assert effective_draws(chains, 1.0) == pytest.approx(20_000, rel=0.1)


def test_chains_that_disagree_have_a_low_effective_sample_size():
    rng = np.random.default_rng(0)
    chains = rng.normal(size=(4, 500)) + 3 * np.arange(4)[:, None]
    assert split_rhat(chains, 1.0) > 3
    assert effective_draws(chains, 1.0) < 10
    assert split_rhat(np.ones((2, 10)), 0.0) == 1.0


def test_respacing_spreads_refusals_evenly():
    precisions = np.array([0.0, 1.0, 2.0, 4.0, 8.0])
    same = replica_exchange.respace(precisions, np.full(4, 0.5), 8.0)
    assert_allclose(same, precisions)
    denser = replica_exchange.respace(precisions, np.array([0.1, 0.1, 0.1, 0.9]), 8.0)
    assert denser[0] == 0.0 and denser[-1] == 8.0
    assert (denser[1:4] > precisions[1:4]).all() and (np.diff(denser) > 0).all()
    shorter, longer = (
        replica_exchange.respace(precisions, np.full(4, 0.5), c) for c in (3.0, 20.0)
    )
    assert shorter[-1] == 3.0 and longer[-1] == 20.0
    assert (np.diff(shorter) > 0).all() and (np.diff(longer) > 0).all()


def test_respacing_puts_levels_where_replicas_never_exchange():
    """A step that never exchanges counts as wide as it is, and the hottest level may come down."""
    precisions = np.array([0.0, 1.0, 2.0, 4.0, 8.0])
    found = replica_exchange.respace(precisions, np.array([1 - 1e-9, 0.3, 0.3, 0.3]), 8.0)
    assert found[1] < 0.4 and (found[1:-1] < 1.0).sum() >= 2
    found = replica_exchange.respace(precisions, np.array([0.3, 0.3, 1 - 1e-9, 0.3]), 8.0)
    assert ((found > 2.0) & (found < 4.0)).sum() >= 2


@pytest.mark.parametrize(("end", "expected"), [(-3.0, 0.0), (-1.2, 0.5), (-0.8, 1.0)])
def test_the_mass_below_the_lowest_noise_follows_from_the_density_there(end, expected):
    """A Gaussian density cut far out, at its middle and before it; the levels are far apart."""
    nodes = np.array([1.5, 1.5, 0.5, end])
    grid = np.linspace(end, 1.5, 2001)
    run = replica_exchange.Run(
        np.column_stack([np.exp(-2 * nodes), nodes]), np.zeros((1, 4, 1)),
        np.zeros((1, 4, 1)), np.ones(1), 0, grid, -0.5 * ((grid + 1.2) / 0.1) ** 2,
    )  # fmt: skip
    assert run.cut_share == pytest.approx(expected, abs=0.2)
    level, log_sigma = run.pick(1000, 1.0, 0.5)
    mass = np.exp(run.log_noise) / np.exp(run.log_noise).sum()
    assert log_sigma.mean() == pytest.approx(mass @ grid, abs=0.003)
    assert nodes[level].mean() == pytest.approx(mass @ grid, abs=0.01)


def test_shares_of_levels_follow_the_density_of_the_noise():
    """A Gaussian density between levels: the mean log sigma is that of the density."""
    nodes = np.concatenate([[1.5, 1.5], np.arange(1.0, -3.1, -0.5)])
    grid = np.linspace(-3.0, 1.5, 2001)
    run = replica_exchange.Run(
        np.column_stack([np.exp(-2 * nodes), nodes]), np.zeros((1, len(nodes), 1)),
        np.zeros((1, len(nodes), 1)), np.ones(1), 0, grid, -0.5 * ((grid + 1.2) / 0.2) ** 2,
    )  # fmt: skip
    shares = run.shares()
    assert shares.sum() == pytest.approx(1.0) and shares[0] == 0.0
    assert shares @ nodes == pytest.approx(-1.2, abs=1e-6)
    assert run.log_evidence == pytest.approx(log(0.2 * np.sqrt(2 * pi)), abs=1e-6)
