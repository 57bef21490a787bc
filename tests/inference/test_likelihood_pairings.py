"""The likelihood of rows and labels apart: order, repetition, bins, masses, and whom to match."""

import pickle

import numpy as np
import pytest

from unshuffle import Bag, Histogram, InputError, Likelihood, StudentNoise, fit

# Little effort: these properties are about bits and meaning, not about accuracy.
QUICK = Likelihood(
    n_starts=9, n_refined=2, n_components=2, n_draws=60, max_rounds=1, least_draws=5.0
)
WEIGHTS = np.array([1.0, -0.5])


def draw_parts(n, m, seed=0, n_bags=3):
    """Return rows and labels of bags: the labels of the first m rows, or of as many others."""
    rng = np.random.default_rng(seed)
    parts = []
    for r in range(n_bags):
        X = rng.exponential(size=(n, 2)) + r
        rows = X[:m] if m <= n else rng.exponential(size=(m, 2)) + r
        parts.append((X, rows @ WEIGHTS + 0.2 * rng.normal(size=m)))
    return parts


def make_bags_of(kind, parts):
    if kind == "histogram":
        edges = np.linspace(-3.0, 9.0, 13)
        edges[0], edges[-1] = -np.inf, np.inf
        return [Bag(X, Histogram(edges, np.histogram(y, edges)[0])) for X, y in parts]
    return [Bag(X, y) for X, y in parts]


CASES = {
    "subset": (12, 7, True, {}),
    "separate": (12, 9, False, {}),
    "histogram": (12, 12, None, {}),
    "shaped noise": (12, 12, None, {"noise": StudentNoise(0.2, 5.0)}),
}


def fit_case(case, parts, **more):
    _, _, same, options = CASES[case]
    bags = make_bags_of(case, parts)
    return fit(bags, method=QUICK, rng=0, same_individuals=same, **options, **more)


def bits(found):
    posterior = found.posterior
    return found.weights.tobytes() + posterior.draws.tobytes() + posterior.draw_weights.tobytes()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_order_threads_and_copies_change_no_bit(case):
    n, m, _, _ = CASES[case]
    parts = draw_parts(n, m)
    expected = fit_case(case, parts)
    rng = np.random.default_rng(1)
    moved = [(rng.permutation(X), rng.permutation(y)) for X, y in parts[::-1]]
    assert bits(fit_case(case, moved)) == bits(expected)
    assert bits(fit_case(case, parts, n_jobs=2)) == bits(expected)
    copied = pickle.loads(pickle.dumps(expected))
    assert bits(copied) == bits(expected)
    np.testing.assert_array_equal(copied.conf_int(), expected.conf_int())


@pytest.mark.filterwarnings("ignore")
def test_bins_of_width_zero_are_labels():
    parts = draw_parts(12, 12)
    raw = fit(make_bags_of("raw", parts), method=QUICK, rng=0)
    points = [
        Bag(X, Histogram(np.repeat(np.sort(y), 2), np.r_[np.tile([1, 0], len(y) - 1), 1]))
        for X, y in parts
    ]
    assert bits(fit(points, method=QUICK, rng=0)) == bits(raw)


@pytest.mark.filterwarnings("ignore")
def test_an_item_of_mass_two_is_the_item_twice():
    parts = draw_parts(8, 8)
    twice = [Bag(np.repeat(X, 2, axis=0), np.repeat(y, 2)) for X, y in parts]
    counted = [Bag(X, y, row_counts=np.full(8, 2), label_counts=np.full(8, 2)) for X, y in parts]
    expected, found = (fit(bags, method=QUICK, rng=0) for bags in (twice, counted))
    assert bits(found) == bits(expected)


@pytest.mark.filterwarnings("ignore")
def test_finer_bins_come_closer_to_labels():
    parts = draw_parts(40, 40)
    raw = fit(make_bags_of("raw", parts), rng=0)
    gaps = []
    for n_bins in (6, 48):
        edges = np.linspace(-4.0, 10.0, n_bins + 1)
        bags = [Bag(X, Histogram(edges, np.histogram(y, edges)[0])) for X, y in parts]
        found = fit(bags, rng=0)
        gaps.append(np.abs(found.coef - raw.coef).max())
    # Bins of 0.3 beside noise of 0.2 tell nearly all; both estimates are means of some hundred
    # draws, a tenth of a posterior sd.
    sd = np.diff(raw.conf_int(), axis=1).max() / 4
    assert gaps[1] < max(0.5 * gaps[0], 0.5 * sd)


@pytest.mark.filterwarnings("ignore")
def test_separate_samples_cannot_be_matched_and_know_less():
    parts = draw_parts(30, 30)
    bags = make_bags_of("raw", parts)
    same, apart = (fit(bags, rng=0, same_individuals=flag) for flag in (True, False))
    width = [np.diff(found.conf_int(), axis=1).mean() for found in (same, apart)]
    assert width[1] > width[0]
    assert (same.pairing.name, apart.pairing.name) == ("permutation", "draws")


def test_more_labels_than_individuals_are_refused():
    with pytest.raises(InputError, match="more labels than individuals"):
        fit(make_bags_of("raw", draw_parts(5, 9)), same_individuals=True)
