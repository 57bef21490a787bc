"""Matching: equal labels are one label, tables are used where they hold, words are true."""

import warnings
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unshuffle import Bag, InputError, ShuffledLinearRegression, fit, make_bags, make_shuffled
from unshuffle.core.uncertainty import Posterior
from unshuffle.data.bags import join_bags
from unshuffle.results.matching import (
    add_equal,
    fingerprint,
    match_bag,
    match_labels,
    number_values,
)


def make_posterior(weights, sigma, n_draws=50, **options):
    """Return a posterior that is sure of weights and noise."""
    draws = np.repeat(np.asarray(weights, dtype=float)[None], n_draws, axis=0)
    return Posterior(draws, np.ones(n_draws), np.full(n_draws, sigma), **options)


def enumerate_values(z, y, sigma):
    """Return P(row i has a label of value v) by every permutation; one column for each value."""
    values = np.unique(y)
    table, total = np.zeros((len(z), len(values))), 0.0
    for order in permutations(range(len(y))):
        mass = np.exp(-((y[list(order)] - z) ** 2).sum() / (2 * sigma**2))
        total += mass
        for row, label in enumerate(order):
            table[row, np.searchsorted(values, y[label])] += mass
    return table / total


LABELS = {
    "pairs": [0.0, 0.0, 1.0, 1.0, 2.0, 2.0],
    "one value three times": [0.0, 1.0, 1.0, 1.0, 2.0, 3.0],
    "two values": [0.0, 0.0, 0.0, 0.0, 1.0, 1.0],
    "all different": [0.0, 0.4, 0.9, 1.5, 2.2, 3.0],
    "all equal": [1.0] * 6,
}


@pytest.mark.parametrize("case", LABELS)
def test_equal_labels_are_one_label(case):
    """Against every permutation of six rows, the probabilities of equal labels added."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(1.0, 1.0, size=(6, 1)), np.array(LABELS[case])
    posterior = make_posterior([1.0, 0.2], 0.5)
    exact = enumerate_values(X[:, 0] + 0.2, y, 0.5)
    match = match_labels(make_bags(X, y), np.array([1.0]), 0.2, posterior)
    assert_array_equal(match.labels, y[match.order])
    expected = exact[np.arange(6), np.searchsorted(np.unique(y), match.labels)]
    # 600 draws of 40 sweeps each that forget in a few: a standard error of about 0.005.
    assert_allclose(match.probability, expected, atol=0.03)
    assert_array_equal(match.n_equal, [np.sum(y == label) for label in match.labels])
    if case == "all equal":
        assert_array_equal(match.probability, 1.0)
    bags = make_bags(X, y)
    kind, _ = number_values(bags.y)
    how = (posterior.draws, posterior.sigma, np.random.default_rng(0))
    table, _ = match_bag(bags.X, bags.y, kind, np.argsort(bags.X[:, 0]), *how)
    assert table.shape == (6, len(set(LABELS[case])))
    assert_allclose(table.sum(axis=1), 1.0, rtol=1e-12)


def test_splitting_equal_labels_by_a_hair_splits_their_probability():
    """Labels that differ by 1e-9 are two labels, and what they have adds up to the one's."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(8, 1)), np.repeat([0.0, 0.5, 1.0, 1.5], 2)
    posterior = make_posterior([1.0, 0.5], 0.4)
    tied = match_labels(make_bags(X, y), np.array([1.0]), 0.5, posterior)
    split = match_labels(
        make_bags(X, y + 1e-9 * (np.arange(8) % 2)), np.array([1.0]), 0.5, posterior
    )
    assert (split.probability < tied.probability).all()
    bags = make_bags(X, y)
    tables = []
    for labels in (bags.y, bags.y + 1e-9 * (np.arange(8) % 2)):
        kind, _ = number_values(labels)
        how = (posterior.draws, posterior.sigma, np.random.default_rng(0))
        tables.append(match_bag(bags.X, labels, kind, np.argsort(bags.X[:, 0]), *how)[0])
    # The same swaps, counted in other columns.
    assert_allclose(add_equal(tables[1], np.repeat(np.arange(4), 2)), tables[0], atol=1e-6)


def test_ties_wider_than_the_window_are_counted_whole():
    """A thousand rows and three values: each row's probabilities add up to one."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1200, 1)), np.repeat([-1.0, 0.0, 1.0], 400)
    match = match_labels(make_bags(X, y), np.array([1.0]), 0.0, make_posterior([1.0, 0.0], 0.05))
    # Predictions at the ends cannot have another value; by the window of labels they had none.
    assert match.probability[np.abs(X[:, 0]) > 1.5].min() > 0.99
    assert (match.n_equal == 400).all()


@pytest.mark.parametrize("seed", range(3))
def test_matches_do_not_depend_on_the_order_of_rows_labels_or_bags(seed):
    rng = np.random.default_rng(seed)
    data = make_shuffled(60, 2, noise=0.3, bags=4, rng=seed)
    y = data.y.round(1)
    posterior = make_posterior([*data.weights, 0.0], 0.3)
    first = match_labels(make_bags(data.X, y, data.groups), data.weights, 0.0, posterior)
    rows = rng.permutation(60)
    names = np.array(["w", "z", "a", "k"])[data.groups]
    labels = y.copy()
    for name in set(names):
        labels[names == name] = rng.permutation(labels[names == name])
    again = match_labels(
        make_bags(data.X[rows], labels[rows], names[rows]), data.weights, 0.0, posterior
    )
    assert_array_equal(again.probability, first.probability[rows])
    assert_array_equal(again.labels, first.labels[rows])
    assert again.verdict == first.verdict


# ---- the sampler's own tables --------------------------------------------------------------------


@pytest.fixture(scope="module")
def sampled():
    data = make_shuffled(24, 1, noise=0.3, bags=4, rng=0)
    y = data.y.round(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ShuffledLinearRegression("sampler", random_state=0).fit(data.X, y, data.groups)
    return model, data.X, y, data.groups


def test_the_samplers_tables_are_used_for_the_data_of_the_fit(sampled):
    model, X, y, groups = sampled
    bags, tables = make_bags(X, y, groups), model.solution_.stats["match_probabilities"]
    match = model.match(X, y, groups)
    places = np.argsort(bags.rows.order)
    for row in range(len(y)):
        r = int(np.searchsorted(bags.offsets, places[row], side="right")) - 1
        start, stop = bags.offsets[r], bags.offsets[r + 1]
        is_same = bags.y[start:stop] == match.labels[row]
        assert match.probability[row] == pytest.approx(
            tables[r][places[row] - start, is_same].sum(), rel=1e-12
        )
    assert "the sampler walked over" in " ".join(match.verdict)


def test_the_samplers_tables_are_not_used_for_other_data_nor_where_it_did_not_mix(sampled):
    model, X, y, groups = sampled
    other = y.copy()
    other[0] += 0.1
    assert "walked over" not in " ".join(model.match(X, other, groups).verdict)
    assert "walked over" not in " ".join(model.match(X[:6], y[:6]).verdict)
    from dataclasses import replace

    rough = replace(model.posterior_, is_thin=True)
    found = replace(model.result_, solution=replace(model.solution_, uncertainty=rough))
    match = found.match(make_bags(X, y, groups))
    assert "walked over" not in " ".join(match.verdict) and "rough" in " ".join(match.verdict)


def test_a_fingerprint_depends_on_the_data_but_not_on_their_order():
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(12, 2)), rng.normal(size=12), np.arange(12) % 3
    mark = fingerprint(make_bags(X, y, groups))
    rows = rng.permutation(12)
    assert fingerprint(make_bags(X[rows], y[rows], groups[rows] + 7)) == mark
    assert fingerprint(make_bags(X, y)) != mark
    assert fingerprint(make_bags(X + 1e-9, y, groups)) != mark
    assert fingerprint(make_bags(X, -y, groups)) != mark


# ---- what is reported ----------------------------------------------------------------------------


def test_the_share_of_right_matches_is_what_is_said():
    """On simulated data the words agree with the truth, and guessing with counting."""
    data = make_shuffled(400, 1, noise=0.02, weights=[1.0], bags=40, rng=0)
    posterior = make_posterior([1.0, data.intercept], 0.02)
    match = match_labels(
        make_bags(data.X, data.y, data.groups), np.array([1.0]), data.intercept, posterior
    )
    right = np.mean(data.y[match.order] == data.linked_y)
    # 400 rows: a standard error of at most 0.025 (swaps make pairs wrong).
    assert match.probability.mean() == pytest.approx(right, abs=0.1)
    assert f"About {100 * match.probability.mean():.0f} % of these matches" in match.verdict[0]
    assert "guessing inside bags gives 10 %" in match.verdict[0]
    assert "more than once" not in " ".join(match.verdict)


def test_the_printed_match_says_tiny_and_missing_probabilities_in_words():
    X, y = np.arange(30.0)[:, None], np.arange(30.0)
    bags = make_bags(X, y)
    # Weights of the other sign: the match by rank of the estimate is as good as impossible.
    match = match_labels(bags, np.array([1.0]), 0.0, make_posterior([-1.0, 29.0], 0.01))
    assert "< 0.001" in str(match) and "0.0 " not in str(match)
    assert "… and 10 more rows" in str(match)
    ranked = match_labels(bags, np.array([1.0]), 0.0, None, method="ls")
    assert ranked.probability is None and "–" in str(ranked)
    assert "method 'ls' has no posterior" in str(ranked)


def test_bags_without_a_label_for_each_row_are_refused():
    bag = Bag([[0.0], [1.0], [2.0]], [1.0, 2.0])
    found = fit([bag], method="ls", same_individuals=True, rng=0)
    with pytest.raises(InputError, match="one label for each row"):
        found.match(join_bags([bag], True))


def test_a_match_that_the_draws_doubt_has_its_probability():
    """Draws that order 1500 rows the other way round: the match is unlikely, but not impossible.

    With noise above the signal every label is about as likely as any other.
    """
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(1500, 1)), 4.0 * rng.normal(size=1500)
    match = match_labels(make_bags(X, y), np.array([1.0]), 0.0, make_posterior([-0.1, 0.0], 4.0))
    assert 0.5 / 1500 < match.probability.mean() < 1.5 / 1500
