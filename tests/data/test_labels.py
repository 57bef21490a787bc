"""Labels with masses and bins: a mass is the item written so often, a bin a few points."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import oracles
from unshuffle import Bag, Histogram, fit
from unshuffle.data import bags as bags_module
from unshuffle.data.bags import join_bags, make_bags
from unshuffle.data.labels import Labels
from unshuffle.errors import InputError
from unshuffle.objectives.losses import Absolute, Moments, Squared
from unshuffle.objectives.penalties import no_penalty
from unshuffle.objectives.problem import Problem

METHODS = ("ls", "emd", "sm", "p1", "p2", "means")
all_methods = pytest.mark.parametrize("method", METHODS)
SIZES = (30, 40, 50, 60)


def draw_parts(seed=0, sizes=SIZES, noise=0.1):
    """Return the rows and labels of bags whose means differ."""
    rng = np.random.default_rng(seed)
    X = [rng.exponential(size=(n, 2)) + rng.normal(size=2) for n in sizes]
    return [(x, x @ [1.0, -2.0] + 0.5 + noise * rng.normal(size=len(x))) for x in X]


def as_points(y, counts=None):
    """Return labels as a histogram of bins of width zero, with empty bins between them."""
    values, found = np.unique(y, return_counts=True) if counts is None else (y, counts)
    filled = np.zeros(2 * len(values) - 1)
    filled[::2] = found
    return Histogram(np.repeat(values, 2), filled)


def as_histogram(y, n_bins):
    """Return labels as a histogram of even bins."""
    counts, edges = np.histogram(y, n_bins)
    return Histogram(edges, counts)


def outcome(found):
    """Return every number of a fit as bytes."""
    numbers = [found.weights, found.start_values, found.facts.scales]
    numbers += [part for c in found.candidates for part in (c.weights, [c.value, c.n_starts])]
    return np.concatenate(numbers).tobytes(), found.method, str(found.summary())


@all_methods
def test_bins_without_width_are_raw_labels_bit_for_bit(method):
    parts = [(X, y.round(1)) for X, y in draw_parts()]
    raw = fit([Bag(X, y) for X, y in parts], method=method, rng=1)
    binned = fit([Bag(X, as_points(y)) for X, y in parts], method=method, rng=1)
    assert outcome(binned) == outcome(raw)


@all_methods
def test_estimates_from_ever_finer_bins_come_to_those_from_raw_labels(method):
    parts = draw_parts()
    raw = fit([Bag(X, y) for X, y in parts], method=method, rng=1).weights
    errors = []
    for n_bins in (20, 80, 320, 1280):
        bags = [Bag(X, as_histogram(y, n_bins)) for X, y in parts]
        errors.append(np.linalg.norm(fit(bags, method=method, rng=1).weights - raw))
    # Means move by width/√n, sorted labels by half a width at most. The bins are 64 times finer at
    # the end, and the error falls by less only by luck of where labels lie: at least by 8, for the
    # absolute gaps, whose minimum jumps from corner to corner.
    assert errors[3] < 0.2 * errors[0]
    assert errors[3] < 0.002 * np.linalg.norm(raw)
    assert errors[2] < errors[0]


def with_counts(seed=3):
    """Return bags with counts, some of them 0, and the same written out."""
    rng = np.random.default_rng(seed)
    short, long = [], []
    for X, y in draw_parts(seed):
        rows, labels = rng.integers(0, 4, len(y)), rng.integers(0, 4, len(y))
        short.append(Bag(X, y, rows, labels))
        long.append(Bag(np.repeat(X, rows, axis=0), np.repeat(y, labels)))
    return short, long


@all_methods
def test_an_item_of_mass_two_is_the_item_twice_bit_for_bit(method):
    short, long = with_counts()
    assert outcome(fit(short, method=method, rng=1)) == outcome(fit(long, method=method, rng=1))


@all_methods
def test_masses_that_are_kept_give_the_fit_of_the_items_written_out(method, monkeypatch):
    short, long = with_counts()
    expected = fit(long, method=method, rng=1)
    monkeypatch.setattr(bags_module, "_WRITTEN_OUT", 0)
    joined = join_bags(short)
    assert joined.rows.has_masses
    assert joined.labels.has_masses
    # The sums of the same numbers in another order, through a descent to the last digit. (Only the
    # best answer: starts that stop in dents of the way may stop in others.) Where the value is
    # smooth about its minimum, its last digit is 1e-8 of the weights.
    found = fit(short, method=method, rng=1)
    assert_allclose(found.weights, expected.weights, atol=1e-8 if method == "sm" else 1e-9)
    assert_allclose(found.value, expected.value, rtol=1e-8, atol=1e-20)


LOSSES = {"ls": Squared(), "emd": Absolute(), "sm": Moments(4)}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("same", [None, False], ids=["unequal", "separate"])
def test_a_split_mass_leaves_value_and_slope_as_they_are(name, same, monkeypatch):
    monkeypatch.setattr(bags_module, "_WRITTEN_OUT", 0)
    rng = np.random.default_rng(4)
    whole, split = [], []
    for X, y in draw_parts(4, (9, 14, 20)):
        y = y[: len(y) - 2]
        rows, labels = (2.0 * rng.integers(1, 4, n) for n in (len(X), len(y)))
        whole.append(Bag(X, y, rows, labels))
        halves = np.repeat(rows / 2, 2), np.repeat(labels / 2, 2)
        split.append(Bag(np.repeat(X, 2, axis=0), np.repeat(y, 2), *halves))
    problems = [
        Problem(join_bags(bags, same), LOSSES[name], None, no_penalty(2)) for bags in (whole, split)
    ]
    weights = rng.normal(size=(2, 5))
    (value, slope), (other_value, other_slope) = (problem(weights) for problem in problems)
    assert_allclose(other_value, value, rtol=1e-12)
    assert_allclose(other_slope, slope, rtol=1e-12, atol=1e-12 * np.abs(slope).max())


def test_values_with_masses_are_those_of_quantile_functions(monkeypatch):
    short, long = with_counts(5)
    shares = np.array([len(bag.X) * len(bag.y) / (len(bag.X) + len(bag.y)) for bag in long])
    shares /= shares.sum()
    w = np.array([0.7, 0.4])
    monkeypatch.setattr(bags_module, "_WRITTEN_OUT", 0)
    for kind, loss in (("squared", Squared()), ("absolute", Absolute())):
        expected = sum(
            share
            * oracles.quantile_loss(
                kind, bag.X @ w, np.ones(len(bag.X)), bag.y, np.ones(len(bag.y))
            )
            for share, bag in zip(shares, long, strict=True)
        )
        value = Problem(join_bags(short), loss, None, no_penalty(2))(w)[0]
        # Near ties are sorted by keys of 42 bits.
        assert_allclose(value, expected, rtol=1e-9)


def test_points_of_bins_have_the_mean_and_variance_of_the_bins():
    edges = np.array([0.0, 1.0, 1.0, 1.5, 4.0])
    counts = np.array([3.0, 2.0, 0.0, 5.0])
    labels = join_bags([Bag(np.ones((4, 1)), Histogram(edges, counts))]).labels
    points = labels.points
    middles, widths = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    shares = counts / counts.sum()
    mean = shares @ middles
    variance = shares @ ((middles - mean) ** 2 + widths**2 / 12)
    found = points.masses / points.masses.sum()
    assert_allclose(found @ points.values, mean, rtol=1e-14)
    assert_allclose(found @ (points.values - mean) ** 2, variance, rtol=1e-13)
    assert (np.diff(points.values) >= 0).all()
    # Where every point stood: labels 0, 1 and 3 of the histogram as given.
    assert_allclose([points.masses[points.order == k].sum() for k in range(4)], counts, rtol=1e-14)


def test_an_open_bin_is_as_wide_as_its_neighbour():
    histogram = Histogram([-np.inf, 0.0, 2.0, 5.0, np.inf], [1, 1, 1, 1])
    labels = join_bags([Bag(np.ones((4, 1)), histogram)]).labels
    assert labels.values.tolist() == [-1.0, 1.0, 3.5, 6.5]
    alone = join_bags([Bag(np.ones((4, 1)), Histogram([2.0, np.inf], [4]))]).labels
    assert alone.values.tolist() == [2.0]


def test_units_of_labels_move_both_ends_of_bins():
    histogram = Histogram([-np.inf, 0.0, 2.0], [1, 3])
    labels = join_bags([Bag(np.ones((4, 1)), histogram)]).labels.mapped(1.0, 0.5)
    assert labels.low.tolist() == [-np.inf, -2.0]
    assert labels.high.tolist() == [-2.0, 2.0]
    raw = join_bags([Bag(np.ones((2, 1)), [3.0, 5.0])]).labels.mapped(1.0, 2.0)
    assert raw.is_raw
    assert raw.values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("way", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_plain_bags_are_plain(way):
    X, y = draw_parts()[0]
    bags = way(make_bags(X, y))
    assert bags.is_plain
    labels = bags.labels
    assert not labels.has_masses
    assert isinstance(labels, Labels)


def test_subsampled_rows_with_masses_keep_all_labels_and_are_not_plain(monkeypatch):
    monkeypatch.setattr(bags_module, "_WRITTEN_OUT", 0)
    counts = np.ones(50)
    counts[7] = 2
    X = np.arange(50.0)[:, None]
    bags = join_bags([Bag(X, np.arange(51.0), counts)])
    sample = bags.subsample(5, np.random.default_rng(0))
    assert len(sample.X) == 5
    assert not sample.rows.has_masses
    assert len(sample.y) == 51
    assert not sample.is_plain


def test_order_leads_back_to_the_items_as_given():
    short, _ = with_counts(6)
    joined = join_bags(short)
    assert_array_equal(np.concatenate([bag.X for bag in short])[joined.rows.order], joined.X)
    assert_array_equal(np.concatenate([bag.y for bag in short])[joined.labels.order], joined.y)
    counts = np.concatenate([bag.label_counts for bag in short])
    assert_array_equal(np.bincount(joined.labels.order, minlength=len(counts)), counts)


X2, Y3 = [[1.0], [2.0]], [1.0, 2.0, 3.0]
REFUSED = {
    "negative counts": (lambda: Bag(X2, Y3, [1, -1]), "row 1 has the weight -1: .*whole numbers"),
    "NaN counts": (lambda: Bag(X2, Y3, None, [1, np.nan, 1]), "label 1 has the weight nan"),
    "infinite counts": (lambda: Bag(X2, Y3, [np.inf, 1]), "row 0 has the weight inf"),
    "fractional counts": (lambda: Bag(X2, Y3, [1.5, 1]), "row 0 has the weight 1.5"),
    "counts of no rows": (lambda: Bag(X2, Y3, [0, 0]), "every weight is 0.*at least one"),
    "too few counts": (
        lambda: Bag(X2, Y3, [1]),
        r"row_counts has shape \(1,\) .* 2 rows: give one",
    ),
    "too many counts": (lambda: Bag(X2, Y3, None, [1] * 4), r"label_counts .*\(4,\) .* 3 labels"),
    "a table of counts": (lambda: Bag(X2, Y3, [[1, 1]]), r"row_counts has shape \(1, 2\)"),
    "counts that are text": (lambda: Bag(X2, Y3, ["a", "b"]), "row_counts must be numbers"),
    "rows that are text": (lambda: Bag([["a"]], [1.0]), "X of a bag must be numbers"),
    "labels that are text": (lambda: Bag([[1.0]], ["a"]), "y of a bag must be numbers"),
    "counts beside a histogram": (
        lambda: Bag(X2, Histogram([0, 1], [2]), None, [1]),
        "counts of its own: leave label_counts out",
    ),
    "edges that fall": (lambda: Histogram([0, 2, 1], [1, 1]), "bin 1 goes from 2 to 1"),
    "edges of NaN": (lambda: Histogram([0, np.nan, 1], [1, 1]), "bin 0 goes from 0 to nan"),
    "a bin without ends": (
        lambda: Histogram([-np.inf, np.inf], [1]),
        "bin 0 goes from -inf to inf and says nothing: give it at least one end",
    ),
    "a bin at infinity": (lambda: Histogram([0, np.inf, np.inf], [1, 1]), "bin 1 .*says nothing"),
    "an empty bin at infinity": (lambda: Histogram([-np.inf, -np.inf, 1], [0, 1]), "bin 0"),
    "too few edges": (lambda: Histogram([0, 1], [1, 1]), "2 counts needs 3 edges, got 2"),
    "no bins": (lambda: Histogram([0.0], []), "0 counts needs 1 edges"),
    "a table of edges": (lambda: Histogram([[0, 1]], [1]), "one row of numbers"),
    "edges that are text": (lambda: Histogram(["a", "b"], [1]), "edges .* must be numbers"),
    "negative bins": (lambda: Histogram([0, 1, 2], [1, -2]), "bin 1 has the count -2"),
    "fractions in bins": (lambda: Histogram([0, 1, 2], [0.5, 1]), "bin 0 has the count 0.5"),
    "empty bins": (lambda: Histogram([0, 1, 2], [0, 0]), "every count is 0"),
    "more labels than individuals": (
        lambda: fit([Bag([[1.0]], [1.0]), Bag(X2, Y3)], same_individuals=True),
        r"bag 1 has 2 rows but 3 labels.*same_individuals=False",
    ),
    "a histogram with more labels than individuals": (
        lambda: fit([Bag(X2, Histogram([0, 1], [3]))], same_individuals=True),
        "2 rows but 3 labels",
    ),
}


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED)
def test_labels_and_counts_that_cannot_be_are_refused(make, words):
    with pytest.raises(InputError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
