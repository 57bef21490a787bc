"""The sampler where labels stand beside their rows, but for a share of them."""

import warnings
from functools import cache
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import enumerate_model, swap_pass
from targets import build_from_data
from unshuffle import Sampler, ShuffledLinearRegression, Status, make_shuffled
from unshuffle.data.anchors import find_beside
from unshuffle.errors import InputError
from unshuffle.inference import replica_exchange
from unshuffle.kernels import tempering as kernels
from unshuffle.linkage.sampler import expected_share, find_cost
from unshuffle.objectives.noise import GaussianNoise


def fit(data, y, share, **options):
    options = {"random_state": 0, "method": "sampler", **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return ShuffledLinearRegression(mislinked=share, **options).fit(data.X, y, data.groups)


def mix_up(data, share, seed):
    """Return linked labels of which a share was mixed up, whatever the bags."""
    rng = np.random.default_rng(seed)
    y = data.linked_y.copy()
    for bag in np.unique(data.groups):
        rows = np.flatnonzero(data.groups == bag)
        some = rng.permutation(rows)[: round(share * len(rows))]
        y[some] = y[rng.permutation(some)]
    return y


# Bags, columns, noise given, share of wrong links.
TINY = {
    "one bag": ([6], 1, None, 0.3),
    "one bag of seven": ([7], 1, None, 0.5),
    "eight, noise given": ([8], 1, 0.4, 0.25),
    "two bags, two columns": ([4, 3], 2, None, 0.4),
    "noise given": ([6], 1, 0.4, 0.2),
}


@cache
def enumerate_case(case, seed):
    sizes, p, noise, share = TINY[case]
    data = make_shuffled(sum(sizes), p, noise=0.4, bags=sizes, rng=seed)
    y = mix_up(data, 0.5, seed)
    known = None if noise is None else GaussianNoise(noise)
    shown = type(data)(**{**vars(data), "y": y})
    target, _, bags, scaling = build_from_data(shown, noise=known)
    levels = np.arange(-7.0, 1.51, 0.2) if noise is None else np.array([target.log_sigma])
    beside = find_beside(bags.rows.order, bags.labels.order)
    exact = enumerate_model(
        bags.X[:, :p], bags.y, bags.offsets, bags.n - 1.0, levels,
        n_nodes={1: 40, 2: 12}[p], beside=beside, cost=find_cost(share, bags.sizes),
    )  # fmt: skip
    return data, y, bags, scaling, exact


# 5040 matchings say no more than 720, and take seven times as long to enumerate.
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.slow] if "seven" in c else []) for c in TINY]
)
def test_the_sampler_with_links_agrees_with_every_matching(case, seed):
    data, y, bags, scaling, (mean, sd, evidence, table) = enumerate_case(case, seed)
    _, p, noise, share = TINY[case]
    model = fit(data, y, share, noise=noise)
    stats = model.solution_.stats
    assert model.solution_.status is Status.POSTERIOR
    # The tolerances of the sampler without links, whose errors these have too.
    estimate = model.coef_ * scaling.scale / scaling.label_scale
    assert_allclose(estimate, mean, atol=0.2 * sd.min())
    draws = model.posterior_.draws[:, :p] * scaling.scale / scaling.label_scale
    assert_allclose(draws.std(axis=0) / sd, 1.0, atol=0.2)
    assert stats["log_evidence"] == pytest.approx(evidence, abs=0.3)
    for start, stop, found in zip(
        bags.offsets[:-1], bags.offsets[1:], stats["match_probabilities"], strict=True
    ):
        assert_allclose(found, table[start:stop, start:stop], atol=0.08)


@pytest.mark.parametrize("is_forward", [True, False])
def test_swaps_count_the_labels_that_move(is_forward):
    sizes, rng = [1, 4, 6], np.random.default_rng(5)
    data = make_shuffled(sum(sizes), 2, noise=0.4, bags=sizes, rng=5)
    target, _, bags, _ = build_from_data(data)
    beside = find_beside(bags.rows.order, bags.labels.order)
    model, _ = replica_exchange.make_model(target, replica_exchange.Beside(beside, 0.7))
    holder, gains, noise = beside.copy(), rng.random(2), 0.3
    spans = [
        max(1.0, min(2 * noise * r, s - 1)) for r, s in zip(model.reach, bags.sizes, strict=True)
    ]
    for _ in range(20):
        uniforms = rng.random((bags.n, 2))

        def steps(start, stop):
            steps = range(start, stop - 1)
            return steps if is_forward else reversed(steps)

        expected = swap_pass(
            model.rows, model.labels, model.offsets, holder, gains, spans, steps, uniforms,
            beside, 0.7,
        )  # fmt: skip
        field = model.labels @ model.rows[holder]
        kernels.swap_labels(model, holder, field, gains, noise, is_forward, uniforms)
        assert holder.tolist() == expected


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("cost", [0.0, 0.4, 2.0])
def test_the_expected_share_is_that_of_every_matching(size, cost):
    moved = np.array(
        [sum(a != i for i, a in enumerate(order)) for order in permutations(range(size))]
    )
    mass = np.exp(-cost * moved)
    expected = (mass * moved).sum() / mass.sum() / size
    assert expected_share(cost, np.array([size, size])) == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_the_cost_is_that_of_the_share(share):
    sizes = np.array([40, 1, 200, 7])
    assert expected_share(find_cost(share, sizes), sizes) == pytest.approx(share, rel=1e-9)


def test_a_share_beyond_chance_costs_nothing():
    assert find_cost(0.95, np.array([2, 2])) == 0.0


def test_all_links_right_is_ordinary_regression():
    data = make_shuffled(60, 2, noise=0.2, rng=3)
    model = fit(data, data.linked_y, 0.0)
    design = np.column_stack([data.X, np.ones(60)])
    truth, rss = np.linalg.lstsq(design, data.linked_y, rcond=None)[:2]
    error = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * rss / 57)[:2]
    # The prior bounds weights, which moves them by a tenth of an error at this noise; draws of 100
    # effective ones and more by another tenth.
    assert_allclose(model.coef_, truth[:2], atol=0.3 * error.min())


def test_the_sampler_agrees_with_the_mixture():
    """Two models of the same links: a density of wrong labels, and every matching of them."""
    data = make_shuffled(80, 2, noise=0.3, rng=4)
    y = mix_up(data, 0.25, 4)
    exact, mixture = fit(data, y, 0.25), fit(data, y, 0.25, method="auto")
    low, high = mixture.conf_int().T
    assert exact.solution_.status is Status.POSTERIOR and exact.method_ == "sampler"
    # Half an interval is two errors: the two differ by what matching the wrong labels tells.
    assert_allclose(exact.coef_, mixture.coef_, atol=0.5 * (high - low).min())


def test_the_share_is_estimated_by_the_mixture_where_none_is_given():
    data = make_shuffled(100, 2, noise=0.1, rng=6)
    model = fit(data, mix_up(data, 0.3, 6), "estimate", method=Sampler(n_sweeps=100))
    assert 0.1 < model.solution_.stats["mislinked"] < 0.5
    assert "share is the posterior mean" in " ".join(model.solution_.stats["priors"])


def test_the_order_of_pairs_moves_no_bit():
    data = make_shuffled(30, 2, noise=0.3, rng=7)
    y = np.round(mix_up(data, 0.3, 7), 1)  # with ties
    some = Sampler(n_sweeps=60, n_runs=2)
    order = np.random.default_rng(0).permutation(30)
    first = fit(data, y, 0.3, method=some)
    other = ShuffledLinearRegression(some, mislinked=0.3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        other.fit(data.X[order], y[order])
    assert other.coef_.tolist() == first.coef_.tolist()


def test_other_methods_point_to_the_two_that_know_of_links():
    data = make_shuffled(30, 1, noise=0.3, rng=7)
    with pytest.raises(InputError, match="'sampler' for few rows"):
        fit(data, data.y, 0.3, method="ls")
