"""Properties of moments in blocks: the answers of rows in memory, for any blocks in any order."""

from types import SimpleNamespace

import numpy as np
import pytest

from unshuffle import Moments, kernels, make_shuffled, shuffle_labels
from unshuffle.data.bags import make_bags
from unshuffle.data.blocks.first_pass import make_first_pass
from unshuffle.data.blocks.sources import ArraySource, number_bags
from unshuffle.data.scaling import standardise, standardise_pass
from unshuffle.methods import find_block_strategy
from unshuffle.objectives import moments
from unshuffle.objectives.block_moments import measure_moments
from unshuffle.options import FitOptions, make_rng
from unshuffle.results.fit import fit_bags, fit_source, fit_table

N = 50_400


def make_data(d, bags, rng=0):
    return make_shuffled(N, d, bags=bags, snr_db=15, intercept=1.0, rng=rng)


def source_of(X, y, groups, **how):
    codes, n_bags = number_bags(groups, len(y))
    return ArraySource(X, y, codes, n_bags, **how)


def solve_both(data, **asked):
    """Fit in blocks, and as all rows in memory are fitted."""
    options = FitOptions(**asked)
    settings = find_block_strategy(options, N)
    assert settings is not None
    source = source_of(data.X, data.y, data.groups)
    blocks = fit_source(source, options, settings, make_rng(0))
    return blocks, fit_bags(make_bags(data.X, data.y, data.groups), options, make_rng(0))


CASES = {
    "means of 12 bags": (2, 12, {"method": "means"}),
    "moments of 12 bags": (2, 12, {"method": "sm"}),
    "moments of one bag": (2, 1, {"method": Moments(K=3)}),
    "two moments of one weight": (1, 1, {"method": "sm"}),
    "one moment of 4 bags": (3, 4, {"method": Moments(K=1), "fit_intercept": False}),
    "known noise": (2, 5, {"method": "sm", "noise": 0.2}),
    "a penalty": (2, 5, {"method": "sm", "l2": 0.01}),
    "no intercept": (2, 5, {"method": "sm", "fit_intercept": False}),
}


@pytest.mark.parametrize("name", CASES)
def test_blocks_give_the_answers_of_memory(name):
    d, n_bags, asked = CASES[name]
    blocks, memory = solve_both(make_data(d, n_bags), **asked)
    assert blocks.method == memory.method
    # Searches end within 1e-6 of the value; near the lowest that is a thousandth of the weights.
    np.testing.assert_allclose(blocks.weights, memory.weights, rtol=2e-3, atol=2e-3)
    assert blocks.value == pytest.approx(memory.value, abs=2e-6)
    assert blocks.facts.n == N and blocks.facts.n_bags == n_bags


def test_means_keep_their_textbook_intervals():
    blocks, memory = solve_both(make_data(2, 12), method="means")
    np.testing.assert_allclose(blocks.weights, memory.weights, rtol=1e-9)
    np.testing.assert_allclose(blocks.conf_int(), memory.conf_int(), rtol=1e-7)


def test_tensors_in_blocks_are_those_of_rows():
    data = make_data(3, 4)
    bags = make_bags(data.X, data.y, data.groups)
    standard, _ = standardise(bags, True, False)
    first = make_first_pass(source_of(data.X, data.y, data.groups), 0)
    found = measure_moments(first, standardise_pass(first, True, False), 4)
    # Bags stand in other orders: by size here, by labels there.
    expected = moments.make_tensors(standard, moments.make_monomials(4, 4))
    order, other = (np.argsort(each[:, 1]) for each in (found.tensors, expected))
    np.testing.assert_allclose(found.tensors[order], expected[other], rtol=1e-9, atol=1e-10)
    powers = moments.label_moments(standard, 4)
    np.testing.assert_allclose(found.label_moments[order], powers[other], rtol=1e-9)
    np.testing.assert_allclose(found.statistics.gram, standard.statistics.gram, atol=1e-11)


@pytest.mark.parametrize("method", ["sm", "means"])
def test_blocks_orders_and_threads_give_the_same_bits(method):
    data, rng = make_data(2, 6), np.random.default_rng(1)
    options = FitOptions(method=method)
    one = fit_table(data.X, data.y, data.groups, options, make_rng(0))
    order = rng.permutation(N)
    y = shuffle_labels(data.y, data.groups, rng)
    source = source_of(data.X[order], y[order], data.groups[order], n_jobs=2, block_rows=777)
    other = fit_source(source, options, find_block_strategy(options, N), make_rng(0))
    assert np.array_equal(one.weights, other.weights)


@pytest.mark.parametrize("seed", range(6))
def test_rows_in_blocks_choose_the_root_that_rows_in_memory_choose(seed):
    """Two moments of two weights have two roots, and a search may find the wrong one alone."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.exponential(size=N), rng.gamma(4.0, size=N)])
    y = rng.permutation(X @ [1.0, -1.0] + rng.normal(size=N))
    data = SimpleNamespace(X=X, y=y, groups=None)
    blocks, memory = solve_both(data, method="sm", noise=1.0, fit_intercept=False)
    assert len(blocks.candidates) == len(memory.candidates) == 2
    for one, other in zip(blocks.candidates, memory.candidates, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-6)


def test_whole_numbers_of_monomials_and_powers_are_those_of_plain_sums():
    rng = np.random.default_rng(0)
    X, y, codes = rng.uniform(-1, 1, (40, 2)), rng.uniform(-1, 1, 40), rng.integers(0, 3, 40)
    monomials, unit = moments.make_monomials(3, 3), 2.0**50
    sums = np.zeros((3, len(monomials.parents)), np.int64)
    powers = np.zeros((3, 3), np.int64)
    half = np.full(2, 0.5)
    kernels.add_monomials(X, codes, half, half, monomials.parents, 2, unit, sums)
    kernels.add_label_powers(y, codes, 0.5, 0.5, unit, powers)
    rows = np.column_stack([(X - 0.5) * 0.5, np.ones(40)])
    keys = [()]
    for b, (parent, j) in enumerate(monomials.parents.tolist()):
        if b:
            keys.append((*keys[parent], j))
        for r in range(3):
            plain = sum(np.prod(rows[i, list(keys[b])]) for i in np.flatnonzero(codes == r))
            if b and 2 not in keys[b]:
                assert sums[r, b] / unit == pytest.approx(plain, abs=1e-13)
            else:
                assert sums[r, b] == 0
    for r in range(3):
        own = (y[codes == r] - 0.5) * 0.5
        expected = [(own**k).sum() for k in (1, 2, 3)]
        np.testing.assert_allclose(powers[r] / unit, expected, atol=1e-13)
