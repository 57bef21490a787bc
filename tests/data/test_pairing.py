"""Properties of pairings: statistics under them, what a mean counts for, which is meant."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unshuffle.data import bags as bags_module
from unshuffle.data.bags import Bag, join_bags, make_bags
from unshuffle.data.labels import Histogram
from unshuffle.data.pairing import Draws, Permutation, Subset, choose_pairing
from unshuffle.errors import InputError
from unshuffle.simulate import make_shuffled

ONE = np.array([1.0])


def choose(n, m, same=None):
    return choose_pairing(np.array(n, dtype=float), np.array(m, dtype=float), same)


@pytest.mark.parametrize(
    ("n", "m", "same", "expected"),
    [
        ([3, 5], [3, 5], None, Permutation()),
        ([3, 5], [3, 5], True, Permutation()),
        ([3, 5], [3, 5], False, Draws()),
        ([3, 5], [3, 4], None, Draws()),
        ([3, 5], [3, 4], True, Subset()),
        ([3, 5], [3, 4], False, Draws()),
        ([3, 5], [5, 3], None, Draws()),
        ([3, 5], [4, 5], None, Draws()),
        ([3, 5], [4, 5], False, Draws()),
    ],
)
def test_numbers_and_what_is_said_choose_the_pairing(n, m, same, expected):
    assert choose(n, m, same) == expected


def test_bags_know_their_pairing_by_numbers_of_items_and_not_of_lines():
    counted = Bag([[1.0], [2.0]], [1.0, 2.0, 3.0], [1, 2])
    assert join_bags([counted]).pairing == Permutation()
    assert join_bags([counted], same_individuals=False).pairing == Draws()
    binned = Bag([[1.0], [2.0]], Histogram([0.0, 1.0, 2.0, 3.0], [0, 1, 0]))
    assert join_bags([binned]).pairing == Draws()
    assert join_bags([binned], same_individuals=True).pairing == Subset()


def test_more_labels_than_individuals_are_refused_with_a_way_out():
    with pytest.raises(InputError, match=r"bag 1 has 5 rows but 6 labels.*same_individuals=False"):
        choose([3, 5], [3, 6], same=True)


@pytest.mark.parametrize("same", ["no", 0.5, []], ids=str)
def test_an_answer_that_is_neither_yes_nor_no_is_refused(same):
    with pytest.raises(InputError, match=r"same_individuals=.* is not understood: give True"):
        choose([3], [3], same)


@pytest.mark.parametrize("pairing", [Permutation(), Subset(), Draws()], ids=lambda each: each.name)
def test_every_pairing_says_in_a_sentence_what_it_means(pairing):
    assert pairing.sentence.startswith("Rows and labels are")
    assert pairing.sentence.endswith(".")
    assert pairing.has_individuals == (pairing.name != "draws")


def simulate_gaps(pairing, n, m, sigma, n_trials, rng):
    """Return ȳ − z̄ over many bags, and the mean variance of their predictions."""
    z = rng.exponential(size=(n_trials, n))
    # Rows are in random order, so that the first are some at random.
    labels = rng.exponential(size=(n_trials, m)) if pairing == Draws() else z[:, :m]
    y = labels + sigma * rng.normal(size=(n_trials, m))
    return y.mean(axis=1) - z.mean(axis=1), z.var(axis=1, ddof=1).mean()


@pytest.mark.parametrize(
    ("pairing", "n", "m"),
    [(Permutation(), 8, 8), (Subset(), 12, 5), (Subset(), 6, 6), (Draws(), 7, 7), (Draws(), 5, 30)],
)
def test_row_factors_give_the_variance_of_the_gap_of_means(pairing, n, m):
    sigma, n_trials = 0.5, 4000
    gaps, variance = simulate_gaps(pairing, n, m, sigma, n_trials, np.random.default_rng(n))
    factor = pairing.row_factors(n * ONE, m * ONE)[0]
    expected = sigma**2 / m + factor * variance
    # Five standard errors, from the spread of the squares themselves.
    assert abs((gaps**2).mean() - expected) < 5 * np.std(gaps**2) / np.sqrt(n_trials)


@pytest.mark.parametrize(("n", "m"), [(4, 4), (9, 3), (2, 10)])
def test_weights_are_what_a_mean_label_counts_for(n, m):
    # One over the variance, in labels: σ² and var(z) being one for separate samples, it is half
    # that; labels that are missing count for nothing.
    assert Draws().weights(n * ONE, m * ONE)[0] == pytest.approx(1 / (1 / n + 1 / m), rel=1e-15)
    assert Subset().weights(n * ONE, m * ONE)[0] == m
    assert Permutation().weights(n * ONE, n * ONE)[0] == n


def test_statistics_of_plain_bags_are_those_of_the_raw_data():
    data = make_shuffled(60, 3, bags=[10, 20, 30], rng=0)
    stats = make_bags(data.X, data.y, data.groups).statistics
    groups = [data.groups == r for r in range(3)]
    assert_array_equal(stats.n, [10, 20, 30])
    assert_array_equal(stats.m, [10, 20, 30])
    # Sums of 60 numbers of order one in another order.
    assert_allclose(stats.shares, [1 / 6, 1 / 3, 1 / 2], rtol=1e-15)
    assert_allclose(stats.row_means, [data.X[g].mean(axis=0) for g in groups], rtol=1e-13)
    assert_allclose(stats.label_means, [data.y[g].mean() for g in groups], rtol=1e-13)
    assert_allclose(stats.mean, data.X.mean(axis=0), rtol=1e-13)
    assert_allclose(stats.label_mean, data.y.mean(), rtol=1e-13)
    assert_allclose(stats.gram, data.X.T @ data.X / 60, rtol=1e-13)
    assert stats.average_rows(np.arange(60.0)) == 29.5
    assert stats.average_labels(np.arange(60.0)) == 29.5


def draw_bags(same, rng):
    """Return bags with counts, and the rows and labels of each written out."""
    bags, parts = [], []
    for n in (8, 12, 15):
        X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
        rows = rng.integers(1, 5, n)
        # As many labels as rows, or fewer.
        labels = rng.permutation(rows) if same is None else rng.integers(1, 3, n) * (rows > 2)
        bags.append(Bag(X, y, rows, labels))
        parts.append((np.repeat(X, rows, axis=0), np.repeat(y, labels)))
    return bags, parts


@pytest.mark.parametrize("same", [None, True, False], ids=["permutation", "subset", "draws"])
def test_statistics_with_masses_are_those_of_the_items_written_out(same, monkeypatch):
    bags, parts = draw_bags(same, np.random.default_rng(7))
    long = join_bags(bags, same)
    monkeypatch.setattr(bags_module, "EXPANDED_ITEMS", 0)
    short = join_bags(bags, same)
    assert (
        short.pairing
        == long.pairing
        == choose([len(X) for X, _ in parts], [len(y) for _, y in parts], same)
    )
    # Bags are ordered by content, which is not the same with masses and without.
    places = np.argsort(long.statistics.n, kind="stable"), np.argsort(short.statistics.n)
    for name in ("n", "m", "weights", "shares", "row_means", "label_means"):
        each = (
            getattr(every.statistics, name)[at]
            for every, at in zip((long, short), places, strict=True)
        )
        assert_allclose(*each, rtol=1e-13, atol=1e-15, err_msg=name)
    for name in ("mean", "label_mean", "gram"):
        pair = getattr(long.statistics, name), getattr(short.statistics, name)
        assert_allclose(*pair, rtol=1e-12, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("same", [True, False], ids=["subset", "draws"])
def test_pooled_means_give_each_bag_its_share(same):
    bags, parts = draw_bags(same, np.random.default_rng(8))
    stats = join_bags(bags, same).statistics
    pairs = [(len(X), len(y)) for X, y in parts]
    weights = np.array([m if same else n * m / (n + m) for n, m in pairs])
    shares = weights / weights.sum()
    rows = [share * X.mean(axis=0) for share, (X, _) in zip(shares, parts, strict=True)]
    labels = [share * y.mean() for share, (_, y) in zip(shares, parts, strict=True)]
    grams = [share * X.T @ X / len(X) for share, (X, _) in zip(shares, parts, strict=True)]
    assert_allclose(stats.mean, np.sum(rows, axis=0), rtol=1e-12)
    assert_allclose(stats.label_mean, np.sum(labels), rtol=1e-12)
    assert_allclose(stats.gram, np.sum(grams, axis=0), rtol=1e-12)
    assert_allclose([stats.row_weights.sum(), stats.label_weights.sum()], 1.0, rtol=1e-13)
