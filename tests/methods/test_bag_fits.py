"""`fit` on bags with counts, histograms and unequal numbers: order, threads, refusals."""

import pickle
import warnings

import numpy as np
import pytest

from registry_examples import cube_root
from unshuffle import Bag, Histogram, OrderInvariant, SmallD, fit
from unshuffle.data import bags as bags_module
from unshuffle.errors import InputError
from unshuffle.registry import METHODS

TAKING = ("ls", "emd", "sm", "p1", "p2", "means")
all_methods = pytest.mark.parametrize("method", TAKING)


def draw_bags(seed=0):
    """Return bags of every kind: plain, with counts, fewer labels, bins with and without width."""
    rng = np.random.default_rng(seed)

    def draw(n, m):
        X = (rng.exponential(size=(max(n, m), 2)) + rng.normal(size=2)).round(1)
        y = (X @ [1.0, -2.0] + 0.5 + 0.1 * rng.normal(size=len(X))).round(1)
        return X[:n], y[:m]

    bags = [Bag(*draw(20, 20)), Bag(*draw(25, 18)), Bag(*draw(15, 30))]
    X, y = draw(30, 25)
    bags.append(Bag(X, y, rng.integers(0, 4, 30), rng.integers(0, 3, 25)))
    X, y = draw(40, 60)
    counts, edges = np.histogram(y, 12)
    bags.append(Bag(X, Histogram(np.concatenate([[-np.inf], edges[1:-1], [np.inf]]), counts)))
    X, y = draw(30, 40)
    # Several bins without width at each value, some of them empty.
    values = np.repeat(np.unique(y), 3)
    bags.append(Bag(X, Histogram(np.append(values, values[-1]), rng.integers(0, 5, len(values)))))
    return bags


def shuffle_histogram(histogram, rng):
    """Return the histogram with the counts of bins of the same ends in another order."""
    counts = histogram.counts.copy()
    ends = list(zip(histogram.edges[:-1], histogram.edges[1:], strict=True))
    for end in set(ends):
        places = np.array([k for k, other in enumerate(ends) if other == end])
        counts[places] = counts[rng.permutation(places)]
    return Histogram(histogram.edges, counts)


def shuffle_bags(bags, rng):
    """Return the same bags with rows, labels, bins of the same ends and bags in another order."""
    moved = []
    for bag in bags:
        rows = rng.permutation(len(bag.X))
        row_counts = None if bag.row_counts is None else bag.row_counts[rows]
        if isinstance(bag.y, Histogram):
            moved.append(Bag(bag.X[rows], shuffle_histogram(bag.y, rng), row_counts))
            continue
        labels = rng.permutation(len(bag.y))
        label_counts = None if bag.label_counts is None else bag.label_counts[labels]
        moved.append(Bag(bag.X[rows], bag.y[labels], row_counts, label_counts))
    return [moved[r] for r in rng.permutation(len(moved))]


def fit_quietly(bags, method, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fit(bags, method=method, rng=2, **options)


def outcome(found):
    """Return every number and word of a fit."""
    numbers = [found.weights, found.start_values, found.facts.scales]
    numbers += [part for c in found.candidates for part in (c.weights, [c.value, c.n_starts])]
    if found.solution.uncertainty is not None and found.solution.uncertainty.has_interval:
        numbers.append(found.conf_int(intercept=True).ravel())
    return np.concatenate(numbers).tobytes(), found.method, found.status, str(found.summary())


@pytest.mark.parametrize("limit", [0, 20_000], ids=["with masses", "written out"])
@all_methods
def test_order_of_rows_labels_bins_and_bags_changes_no_bit(method, limit, monkeypatch):
    monkeypatch.setattr(bags_module, "_WRITTEN_OUT", limit)
    bags = draw_bags()
    expected = outcome(fit_quietly(bags, method))
    for seed in range(3):
        moved = shuffle_bags(bags, np.random.default_rng(seed))
        assert outcome(fit_quietly(moved, method)) == expected


@all_methods
def test_missing_labels_change_no_bit_with_the_order(method):
    bags = [bag for bag in draw_bags() if bag.n_labels <= bag.n]
    assert len(bags) >= 3
    expected = outcome(fit_quietly(bags, method, same_individuals=True))
    for seed in range(2):
        moved = shuffle_bags(bags, np.random.default_rng(seed))
        assert outcome(fit_quietly(moved, method, same_individuals=True)) == expected


@all_methods
def test_the_number_of_threads_changes_no_bit(method):
    bags = draw_bags(1)
    one, two = (fit_quietly(bags, method, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert outcome(one) == outcome(two)


@all_methods
def test_a_fit_comes_back_from_a_pickle_as_it_was(method):
    found = fit_quietly(draw_bags(2), method)
    assert outcome(pickle.loads(pickle.dumps(found))) == outcome(found)


# The means are unbiased whatever the noise.
@pytest.mark.parametrize("method", [name for name in TAKING if name != "means"])
def test_noise_is_taken_with_masses_bins_and_unequal_numbers(method):
    bags = draw_bags(3)
    free, noisy = fit_quietly(bags, method), fit_quietly(bags, method, noise=0.6)
    assert np.isfinite(noisy.weights).all()
    assert noisy.weights.tobytes() != free.weights.tobytes()


REFUSING = {
    "ks": "ks",
    "small-d": "small-d",
    "exact": "exact",
    "certified": "certified",
    "sampler": "sampler",
    "small-d with D": SmallD(3),
    "order-invariant": OrderInvariant(cube_root, 2.0),
}


@pytest.mark.parametrize("kind", range(6))
@pytest.mark.parametrize("method", REFUSING.values(), ids=REFUSING)
def test_methods_that_need_a_label_for_each_row_say_why_and_name_another(method, kind):
    bag = draw_bags()[kind]
    # Separate samples are no pairs, even in equal numbers.
    same = False if bag.is_plain else None
    with pytest.raises(InputError) as caught:
        fit([bag], method=method, same_individuals=same)
    message = str(caught.value)
    assert "needs one label for each row, since " in message
    assert message.endswith("use method 'likelihood' or 'ls'")
    assert "\n" not in message


def test_every_method_takes_masses_or_refuses_them_by_name():
    named = {*TAKING, *REFUSING, "likelihood", "auto", "paper"}
    assert set(METHODS) <= named
