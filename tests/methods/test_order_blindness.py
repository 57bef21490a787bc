"""Order blindness, bit for bit: what carries no information changes nothing, for every method."""

import numpy as np
import pytest

from outcomes import outcome
from registry_examples import LENGTHY, SOLVERS, cube_root, fit_quietly, make_property_data
from unshuffle import Bag, fit
from unshuffle.objectives.losses import Moments, OrderInvariant, SmallD
from unshuffle.simulate import shuffle_labels
from unshuffle.solvers.projection import Projection

CASES = {name: (name, {}) for name in SOLVERS} | {
    "moments with K": (Moments(3), {}),
    "small-d with D": (SmallD(5), {}),
    "order-invariant": (OrderInvariant(cube_root, 1.5), {"n_starts": 1}),
    "projection on three moments": (Projection(3), {}),
    "ls with noise": ("ls", {"noise": 0.1}),
    "sm with noise": ("sm", {"noise": 0.1}),
    "ls with penalties": ("ls", {"l1": 0.01, "l2": 0.01}),
    "p2 with penalties": ("p2", {"l1": 0.01, "l2": 0.01}),
    "ks without intercept": ("ks", {"fit_intercept": False}),
    "ls with few starts": ("ls", {"n_starts": 3}),
}


def shuffle_everything(data, rng):
    """Shuffle labels inside groups, rows inside groups, all rows together, and rename groups."""
    X, y = data.X.copy(), shuffle_labels(data.y, data.groups, rng)
    for name in np.unique(data.groups):
        rows = np.flatnonzero(data.groups == name)
        X[rows] = X[rng.permutation(rows)]
    names = rng.permutation([f"bag {letter}" for letter in "zyxwvuts"])[data.groups]
    order = rng.permutation(len(y))
    return X[order], y[order], names[order]


@pytest.mark.parametrize("case", CASES)
def test_fit_ignores_order_of_labels_rows_and_groups(case):
    method, options = CASES[case]
    for seed in range(2):
        data = make_property_data(method, rng=seed)
        expected = outcome(fit_quietly(method, data.X, data.y, data.groups, **options))
        for trial in range(1 if method in LENGTHY else 2):
            moved = shuffle_everything(data, np.random.default_rng([seed, trial]))
            assert outcome(fit_quietly(method, *moved, **options)) == expected


@pytest.mark.parametrize("method", ["ls", "sm", "p1", "emd", "ks"])
def test_fit_ignores_order_among_tied_rows_and_labels(method):
    data = make_property_data(method)
    X, y = data.X.round(), data.y.round()
    expected = outcome(fit_quietly(method, X, y, data.groups))
    order = np.random.default_rng(0).permutation(len(y))
    assert outcome(fit_quietly(method, X[order], y[order], data.groups[order])) == expected


def test_fit_of_bags_ignores_their_order():
    data = make_property_data("ls")
    bags = [Bag(data.X[data.groups == r], data.y[data.groups == r]) for r in range(6)]
    forth, back = fit(bags, method="ls", rng=1), fit(bags[::-1], method="ls", rng=1)
    assert forth.weights.tobytes() == back.weights.tobytes()


def test_thinned_fit_ignores_order():
    # Above 20 000 rows the starts compete on a sample: its choice must not see the order either.
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(40_001, 1))
    y = 2 * X[:, 0] + rng.standard_normal(40_001)
    order = rng.permutation(len(y))
    expected = outcome(fit_quietly("ls", X, y, n_starts=4))
    assert outcome(fit_quietly("ls", X[order], rng.permutation(y), n_starts=4)) == expected
