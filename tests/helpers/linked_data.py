"""Linked data of which a share of the links is wrong, and their fits."""

import numpy as np

from unshuffle import ShuffledLinearRegression

SLOPES = np.array([1.0, -2.0])


def make_links(n=200, share=0.3, seed=0, draw=None, blocks=1):
    """Return rows, labels of which a share was permuted inside blocks, groups, and true labels."""
    rng = np.random.default_rng(seed)
    X, groups = rng.exponential(size=(n, 2)), np.arange(n) % blocks
    noise = 0.5 * (rng.normal(size=n) if draw is None else draw(rng, n))
    linked = X @ SLOPES + 1.0 + noise
    y, some = linked.copy(), rng.permutation(n)[: round(share * n)]
    for block in range(blocks):
        own = some[groups[some] == block]
        y[own] = linked[rng.permutation(own)]
    return X, y, groups, linked


def fit(X, y, groups=None, links=None, **options):
    return ShuffledLinearRegression(**options).fit(X, y, groups, links=links)
