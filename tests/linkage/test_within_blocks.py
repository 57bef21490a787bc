"""Block means of labels are known: only slopes within blocks are estimated."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from linked_data import fit
from unshuffle import Links
from unshuffle.data.bags import make_bags
from unshuffle.linkage.adjusted_equations import solve_lahiri_larsen
from unshuffle.linkage.given_pairs import read_pairs
from unshuffle.linkage.within_blocks import split_blocks


def make_uneven_blocks(n=400, n_blocks=5, share=0.5, seed=0):
    """Return rows, labels, groups and true labels; block means fall where slopes rise (Simpson)."""
    rng = np.random.default_rng(seed)
    groups = np.sort(np.arange(n) % n_blocks)
    X = rng.normal(size=(n, 2)) + 2.0 * groups[:, None]
    linked = X @ [1.0, 0.5] - 5.0 * groups + 0.3 * rng.normal(size=n)
    y = linked.copy()
    for block in range(n_blocks):
        own = np.flatnonzero(groups == block)
        some = rng.permutation(own)[: round(share * len(own))]
        y[some] = linked[rng.permutation(some)]
    return X, y, groups, linked


def read(X, y, groups):
    """Return pairs with an intercept."""
    return read_pairs(make_bags(np.column_stack([X, np.ones(len(y))]), y, groups), True)


def solve_ols(X, y):
    """Return least squares, intercept last."""
    return np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), y, rcond=None)[0]


def test_the_true_slopes_within_blocks_give_least_squares_on_the_true_links():
    """Whatever links are wrong inside the blocks, and with pairs that are alone."""
    X, y, groups, linked = make_uneven_blocks(30)
    groups = np.append(groups[:-2], [90, 91])
    y[-2:] = linked[-2:]
    centred = [v - [v[groups == g].mean(axis=0) for g in groups] for v in (X, linked)]
    slopes = np.linalg.lstsq(*centred, rcond=None)[0]
    for labels in (linked, np.concatenate([linked[:6][::-1], linked[6:]])):
        parts = split_blocks(read(X, labels, groups))
        assert_allclose(parts.complete(slopes), solve_ols(X, linked), atol=1e-10)


def test_no_wrong_link_is_least_squares_with_the_influences_of_all_rows():
    """Influences on slopes and means add up to those of the rows."""
    X, _, groups, linked = make_uneven_blocks(60, 1)
    pairs = read(X, linked, groups)
    parts = split_blocks(pairs)
    within = solve_lahiri_larsen(parts.inner, np.zeros(60))
    w = parts.complete(within.w)
    assert_allclose(w, solve_ols(X, linked), atol=1e-10)
    rest = pairs.y - pairs.X @ w
    inner = parts.inner.X * rest[:, None] @ np.linalg.inv(parts.inner.X.T @ parts.inner.X)
    ols = (pairs.X * rest[:, None]) @ np.linalg.inv(pairs.X.T @ pairs.X)
    assert_allclose(parts.lift_influence(inner, w), ols, atol=1e-10)


def test_block_means_of_another_slope_are_not_taken_for_wrong_links():
    """The equations of Lahiri and Larsen take all blocks for one line, and are far off here."""
    covered, errors, other = [], [], []
    for seed in range(8):
        X, y, groups, linked = make_uneven_blocks(seed=seed)
        truth = solve_ols(X, linked)[:2]
        for how in (0.5, "estimate"):
            model = fit(X, y, groups, mislinked=how, random_state=0)
            low, high = model.conf_int().T
            covered.append((low <= truth) & (truth <= high))
            errors.append(np.abs(model.coef_ - truth).max())
        other.append(np.abs(fit(X, y, groups, method="ll", mislinked=0.5).coef_ - truth).max())
    assert np.mean(covered) > 0.9
    assert np.mean(errors) < 0.3 * np.mean(other)


def test_pairs_that_are_alone_in_their_block_keep_their_label():
    X, y, groups, _ = make_uneven_blocks(60, 3)
    groups = np.append(groups[:-5], 90 + np.arange(5))
    model = fit(X, y, groups, links=Links(rate=0.4), random_state=0)
    assert_array_equal(model.link_probability_[-5:], 1.0)
    assert_array_equal(model.sample_pairings(20, 0)[:, -5:], np.arange(55, 60)[None].repeat(20, 0))
