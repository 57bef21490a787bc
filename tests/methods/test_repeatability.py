"""Equal numbers give equal bits, wherever they lie in memory and in whatever layout."""

from itertools import islice

import numpy as np
import pandas as pd
import polars as pl
import pytest

from outcomes import outcome
from registry_examples import CHOOSERS, cube_root, fit_quietly, make_method_data
from unshuffle import make_shuffled
from unshuffle.data.products import multiply, predict_rows, solve_rows
from unshuffle.methods import METHODS
from unshuffle.objectives.losses import Moments, OrderInvariant
from unshuffle.solvers.projection import Projection

CASES = (
    {name: (name, {}) for name in METHODS if name not in CHOOSERS}
    | {
        # Fewer starts go the same way in less time.
        "likelihood": ("likelihood", {"n_starts": 12}),
        "projection on three moments": (Projection(3), {}),
        "four moments": (Moments(4), {}),
        "order-invariant": (OrderInvariant(cube_root, 1.5), {"n_starts": 1}),
        "sm with noise": ("sm", {"noise": 0.1}),
        "ls with noise": ("ls", {"noise": 0.1}),
    }
    | {
        f"{name} with {penalty}": (name, {penalty: 0.01})
        for name in ("ls", "sm", "emd", "ks", "small-d", "p1", "p2")
        for penalty in ("l1", "l2")
    }
)
LONG = ("likelihood", "sampler", "order-invariant")
# Every distance from a multiple of 64 bytes that a row of numbers can have.
SHIFTS = (0, 8, 16, 24, 32, 40, 48, 56)


def place(array, shift, order):
    """Copy an array to an address `shift` bytes past a multiple of 64."""
    buffer = np.empty(array.nbytes + 128, dtype=np.uint8)
    first = -buffer.ctypes.data % 64 + shift
    copy = buffer[first : first + array.nbytes].view(array.dtype).reshape(array.shape, order=order)
    copy[...] = array
    return copy


def places(*arrays):
    """Yield copies at every shift and in both layouts, and litter memory on the way.

    What a fit allocates for itself then lies elsewhere too, at other distances from each other.
    """
    rng = np.random.default_rng(0)
    litter = []
    for shift in SHIFTS:
        for order in "CF":
            litter += [np.empty(size, np.uint8) for size in rng.integers(1, 1500, 300)]
            litter = [piece for piece in litter if rng.random() < 0.5]
            yield [place(array, shift, order) for array in arrays]


def everything(model, data):
    """Return every number that a fit gives, as bytes."""
    numbers, *words = outcome(model)
    unsure = model.posterior_
    draws = b"" if unsure is None else unsure.draws.tobytes() + unsure.sigma.tobytes()
    matched = model.match(data.X, data.y, data.groups)
    chance = b"" if matched.probability is None else matched.probability.tobytes()
    return numbers, draws, matched.order.tobytes(), chance, model.predict(data.X).tobytes(), words


@pytest.mark.parametrize("case", CASES)
def test_fit_is_the_same_wherever_its_data_lie(case):
    method, options = CASES[case]
    data = make_method_data(method, rng=1)
    # Six of the sixteen places, in both layouts, where a fit takes long.
    some = islice(places(data.X, data.y), 0, None, 3 if case in LONG else 1)
    outcomes = {
        repr(everything(fit_quietly(method, X, y, data.groups, **options), data)) for X, y in some
    }
    assert len(outcomes) == 1


@pytest.mark.parametrize("method", ["p1", Projection(3)], ids=str)
def test_projection_of_several_columns_is_the_same_wherever_its_data_lie(method):
    for seed in range(2):
        data = make_shuffled(60, 4, noise=0.1, bags=4, rng=seed)
        outcomes = {
            fit_quietly(method, X, y, data.groups).coef_.tobytes()
            for X, y in places(data.X, data.y)
        }
        assert len(outcomes) == 1


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
def test_predictions_and_matches_are_the_same_in_every_layout(d):
    data = make_shuffled(61, d, noise=0.1, bags=3, rng=d)
    model = fit_quietly("ls", data.X, data.y, data.groups, n_starts=2)
    names = [f"x{j}" for j in range(d)]
    expected = model.predict(data.X).tobytes()
    order = model.match(data.X, data.y, data.groups).order
    for (X,) in places(data.X):
        assert model.predict(X).tobytes() == expected
        np.testing.assert_array_equal(model.match(X, data.y, data.groups).order, order)
    one_by_one = np.concatenate([model.predict(row[None]) for row in data.X])
    assert one_by_one.tobytes() == expected
    for frame in (pd.DataFrame(data.X, columns=names), pl.DataFrame(data.X, schema=names)):
        framed = fit_quietly("ls", frame, data.y, data.groups, n_starts=2)
        assert framed.predict(frame).tobytes() == expected


@pytest.mark.parametrize(("n", "d"), [(5, 2), (60, 3), (61, 5), (1000, 8)])
def test_products_are_the_same_wherever_their_factors_lie(n, d):
    rng = np.random.default_rng(n)
    X, w, y, turn = (rng.standard_normal(shape) for shape in ((n, d), d, n, (d, d)))
    outcomes = {
        (
            predict_rows(X, w).tobytes(),
            multiply(X, turn).tobytes(),
            solve_rows(X, y, 1e-10)[0].tobytes(),
        )
        for X, w, y, turn in places(X, w, y, turn)
    }
    assert len(outcomes) == 1


@pytest.mark.parametrize(("n", "d"), [(2, 3), (3, 3), (5, 2), (1000, 8)])
def test_products_equal_those_of_numpy(n, d):
    rng = np.random.default_rng(n)
    X, w, y, turn = (rng.standard_normal(shape) for shape in ((n, d), d, n, (d, d)))
    np.testing.assert_allclose(predict_rows(X, w), X @ w, atol=1e-13)
    np.testing.assert_allclose(multiply(X, turn), X @ turn, atol=1e-13)
    expected, _, rank, _ = np.linalg.lstsq(X, y, rcond=1e-10)
    weights, found = solve_rows(X, y, 1e-10)
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    assert found == rank


def test_least_squares_of_collinear_rows_is_that_of_least_norm():
    column = np.arange(1.0, 9.0)
    weights, rank = solve_rows(np.column_stack([column, 2 * column]), 5 * column, 1e-10)
    np.testing.assert_allclose(weights, [1.0, 2.0], atol=1e-14)
    assert rank == 1


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 16])
def test_small_decompositions_are_the_same_wherever_their_matrices_lie(d):
    # Why these may be left to LAPACK: where this fails, results are not repeatable either.
    root = np.random.default_rng(d).standard_normal((d + 2, d))
    outcomes = set()
    for (gram,) in places(root.T @ root):
        parts = [*np.linalg.eigh(gram), np.linalg.inv(gram), np.linalg.cholesky(gram)]
        parts += [np.linalg.pinv(gram, hermitian=True), *np.linalg.qr(gram)]
        outcomes.add(b"".join(part.tobytes() for part in parts))
    assert len(outcomes) == 1
