"""Draws of whole pairings: Gibbs sampling against enumeration, and what a fit returns."""

import pickle
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from unshuffle import Bag, InputError, Links, ShuffledLinearRegression, fit, make_shuffled
from unshuffle.inference.pairing_draws import Noise, exchange_labels, match_ranks

NOISES = {
    "normal": Noise(np.array([0.7]), np.ones(1)),
    "scale mixture": Noise(np.array([0.2, 1.5]), np.array([0.6, 0.4])),
}


def enumerate_labels(z, y, noise):
    """Return (n, n + 1) the probability of each label at each row, the last of having none."""
    n, density = len(z), norm.pdf((y[None] - z[:, None])[..., None], scale=noise.scales)
    density = np.append((density * noise.shares).sum(axis=-1), np.ones((n, n - len(y))), axis=1)
    found, total = np.zeros((n, len(y) + 1)), 0.0
    for order in permutations(range(n)):
        weight = density[np.arange(n), order].prod()
        found[np.arange(n), np.minimum(order, len(y))] += weight
        total += weight
    return found / total


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("n", "m"), [(3, 3), (5, 5), (6, 4), (7, 7)])
@pytest.mark.parametrize("start", ["by rank", "at random"])
def test_gibbs_sampling_agrees_with_enumeration(noise, n, m, start):
    rng = np.random.default_rng(n)
    z, y = rng.normal(size=n), np.sort(rng.normal(size=m))
    exact = enumerate_labels(z, y, NOISES[noise])
    counts, n_chains = np.zeros((n, m + 1)), 3000
    first = match_ranks(z, np.array([0, n]), np.array([0, m]))
    for _ in range(n_chains):
        label = first if start == "by rank" else rng.permutation(first)
        label = exchange_labels(z, y, label, np.zeros(n, int), NOISES[noise], rng)
        assert sorted(label.tolist()) == sorted(first.tolist())
        counts[np.arange(n), np.where(label < 0, m, label)] += 1.0
    # Five standard errors of a share.
    assert_allclose(counts / n_chains, exact, atol=5 * 0.5 / np.sqrt(n_chains))


def test_gibbs_sampling_forgets_its_start_in_a_large_bag():
    """The energy after a random start is that after the rank matching."""
    rng = np.random.default_rng(0)
    n, noise = 500, Noise(np.array([0.3]), np.ones(1))
    z = rng.normal(size=n)
    y = np.sort(z + 0.3 * rng.normal(size=n))
    first, sums = match_ranks(z, np.array([0, n]), np.array([0, n])), {}
    for name in ("rank", "random"):
        labels = [first if name == "rank" else rng.permutation(first) for _ in range(20)]
        ends = [exchange_labels(z, y, label, np.zeros(n, int), noise, rng) for label in labels]
        sums[name] = np.array([z @ y[label] for label in ends])
    spread = np.hypot(*(each.std() / np.sqrt(20) for each in sums.values()))
    assert abs(sums["rank"].mean() - sums["random"].mean()) < 4 * spread


def test_pairings_stay_inside_bags_and_keep_known_pairs():
    data = make_shuffled(120, 2, noise=0.3, bags=4, rng=0)
    is_known = np.arange(120) % 5 == 0
    y = data.linked_y.copy()
    for bag in range(4):
        own = np.flatnonzero((data.groups == bag) & ~is_known)
        y[own] = np.random.default_rng(bag).permutation(y[own])
    model = ShuffledLinearRegression(random_state=0)
    model.fit(data.X, y, data.groups, anchors=is_known)
    found = model.sample_pairings(6, rng=1)
    assert_array_equal(np.sort(found, axis=1), np.repeat(np.arange(120)[None], 6, axis=0))
    assert (data.groups[found] == data.groups).all()
    assert (found[:, is_known] == np.flatnonzero(is_known)).all()
    assert_array_equal(found, model.sample_pairings(6, rng=1))
    given = model.sample_pairings(6, 1, X=data.X, y=y, groups=data.groups, anchors=is_known)
    assert_array_equal(found, given)


def test_rows_without_a_label_get_none():
    data = make_shuffled(60, 1, noise=0.2, rng=0)
    found = fit([Bag(data.X, data.y[:50])], same_individuals=True, rng=0).sample_pairings(4, 0)
    assert found.shape == (4, 60) and ((found < 0).sum(axis=1) == 10).all()
    assert_array_equal(np.sort(found, axis=1)[:, 10:], np.repeat(np.arange(50)[None], 4, axis=0))


def test_least_squares_on_completed_tables_is_like_the_fit():
    data = make_shuffled(400, 2, noise=0.5, bags=10, rng=3)
    model = ShuffledLinearRegression(random_state=0, model_holds=True)
    model.fit(data.X, data.y, data.groups)
    design = np.column_stack([data.X, np.ones(400)])
    slopes = [
        np.linalg.lstsq(design, data.y[each], rcond=None)[0][:2]
        for each in model.sample_pairings(40, rng=0)
    ]
    assert (np.abs(np.mean(slopes, axis=0) - model.coef_) < model.posterior_.sd[:2]).all()


def make_links(share, draw=np.random.Generator.standard_normal, n=400):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 2))
    linked = X @ [1.0, -2.0] + 0.5 * draw(rng, size=n)
    y, some = linked.copy(), rng.permutation(n)[: round(share * n)]
    y[some] = linked[rng.permutation(some)]
    return X, y, linked


@pytest.mark.parametrize("how", ["estimate", 0.3, "audit"])
def test_a_link_is_kept_as_often_as_it_is_probably_right(how):
    X, y, _ = make_links(0.3)
    links = Links(audit=(100, 30)) if how == "audit" else None
    model = ShuffledLinearRegression(mislinked=None if links else how).fit(X, y, links=links)
    kept = (model.sample_pairings(200, rng=0) == np.arange(400)).mean(axis=0)
    said = model.link_probability_
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
        own = (said >= low) & (said <= high)
        assert kept[own].mean() == pytest.approx(said[own].mean(), abs=0.06)


def test_safe_links_stay_and_blocks_are_kept():
    X, y, linked = make_links(0.3)
    safe, blocks = (y == linked) & (np.arange(400) < 200), np.arange(400) % 4
    model = ShuffledLinearRegression().fit(X, y, blocks, links=Links(rate=0.4, safe=safe))
    found = model.sample_pairings(10, rng=0)
    assert (found[:, safe] == np.flatnonzero(safe)).all()
    assert (blocks[found] == blocks).all()


def test_no_wrong_link_gives_the_pairs_as_they_stand():
    X, y, _ = make_links(0.0)
    found = ShuffledLinearRegression(mislinked=0.0).fit(X, y).sample_pairings(3)
    assert_array_equal(found, np.repeat(np.arange(400)[None], 3, axis=0))
    one_each = ShuffledLinearRegression().fit(X, y, np.arange(400))
    assert_array_equal(one_each.sample_pairings(3), found)


def test_pairings_drawn_match_the_labels_of_wrong_links():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 1))
    linked = 2.0 * X[:, 0] + 0.02 * rng.standard_normal(400)
    y = linked.copy()
    y[:60] = linked[rng.permutation(60)]
    model = ShuffledLinearRegression(mislinked=0.15).fit(X, y)
    assert model.posterior_ is not None
    found = model.sample_pairings(10, rng=0)
    assert (found[:, 60:] == np.arange(60, 400)).mean() > 0.99
    assert_allclose(y[found[:, :60]], np.repeat(linked[None, :60], 10, axis=0), atol=0.25)


def test_what_cannot_be_drawn_is_refused_in_one_line(tmp_path):
    data = make_shuffled(60, 1, noise=0.3, bags=4, rng=0)
    plain = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    linked = ShuffledLinearRegression(mislinked=0.2).fit(data.X, data.linked_y)
    again = pickle.loads(pickle.dumps(plain))
    cases = [
        (lambda: plain.sample_pairings(0), "no number of pairings"),
        (lambda: again.sample_pairings(2), "keeps no data"),
        (lambda: pickle.loads(pickle.dumps(linked)).sample_pairings(2), "fit again"),
        (lambda: ShuffledLinearRegression("ls").fit(data.X, data.y).sample_pairings(2), "'ls'"),
        (lambda: fit([Bag(data.X, data.y[:50])], rng=0).sample_pairings(2), "separate samples"),
    ]
    for act, words in cases:
        with pytest.raises(InputError, match=words) as told:
            act()
        assert "\n" not in str(told.value)
    drawn = again.sample_pairings(2, 0, X=data.X, y=data.y, groups=data.groups)
    assert_array_equal(drawn, plain.sample_pairings(2, 0))
