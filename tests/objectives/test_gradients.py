"""The problem: values equal their definitions, gradients equal finite differences.

Everything runs over the registries: a new loss or noise inherits the whole table.
"""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import oracles
from pairs import cover_pairs
from registry_examples import (
    LOSS_EXAMPLES,
    NOISE_EXAMPLES,
    cube_root,
    make_method_data,
    multiply_by_slope,
)
from unshuffle.data.bags import make_bags
from unshuffle.errors import InputError
from unshuffle.methods import METHODS
from unshuffle.objectives.losses import LOSSES, Moments, OrderInvariant, Squared
from unshuffle.objectives.noise import NOISES
from unshuffle.objectives.penalties import Penalty, no_penalty
from unshuffle.objectives.problem import Problem, _plain_evaluator

LOSS_CASES = [
    pytest.param(loss, id=f"{name}-{i}")
    for name, examples in LOSS_EXAMPLES.items()
    for i, loss in enumerate(examples)
]
D = 3
PENALTIES = {
    "free": no_penalty(D),
    "l1": Penalty(np.array([0.3, 0.0, 0.2]), np.zeros(D)),
    "l2": Penalty(np.zeros(D), np.array([0.0, 0.4, 0.1])),
    "both": Penalty(np.full(D, 0.2), np.full(D, 0.3)),
}
BAGS = {"one bag": [24], "equal bags": [12, 12], "unequal bags, one of one row": [1, 5, 18]}


def make_problem(loss, noise=None, penalty=None, sizes=(24,), seed=0):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X = rng.exponential(size=(n, D))
    y = X @ np.array([1.0, -0.5, 0.3]) + 0.5 * rng.standard_normal(n)
    bags = make_bags(X, y, np.repeat(np.arange(len(sizes)), sizes))
    return Problem(bags, loss, noise, penalty or no_penalty(D))


def has_value(loss, noise):
    """Whether the mathematics allows the pair: sorted losses need atoms, not moments alone."""
    return noise is None or isinstance(loss, Moments) or noise.has_atoms


def test_every_entry_has_an_example():
    assert LOSS_EXAMPLES.keys() == LOSSES.keys()
    assert NOISE_EXAMPLES.keys() == NOISES.keys()
    for name, examples in LOSS_EXAMPLES.items():
        assert all(isinstance(loss, LOSSES[name]) for loss in examples)
    assert all(isinstance(NOISE_EXAMPLES[name], NOISES[name]) for name in NOISES)
    assert all(make_method_data(name).X.shape[1] == 2 for name in METHODS)


all_bags = pytest.mark.parametrize("sizes", BAGS.values(), ids=BAGS)


def has_slope(loss):
    """Whether a loss states a slope; one of zero, or by differences, has tests of its own below."""
    return not loss.is_flat and getattr(loss, "pull", True) is not None


SLOPES = cover_pairs(
    [case.values[0] for case in LOSS_CASES if has_slope(case.values[0])],
    ["none", *NOISE_EXAMPLES],
    list(PENALTIES),
    list(BAGS),
    where=lambda loss, noise, *_: has_value(loss, NOISE_EXAMPLES.get(noise)),
)


@pytest.mark.parametrize(("loss", "noise", "penalty", "bags"), SLOPES)
def test_gradient_equals_finite_differences(loss, noise, penalty, bags):
    problem = make_problem(loss, NOISE_EXAMPLES.get(noise), PENALTIES[penalty], BAGS[bags])
    rng = np.random.default_rng(5)
    for w in rng.standard_normal((3, D)):
        _, gradient = problem(w)
        # A step of 1e-6 leaves a truncation of 1e-12 and a rounding of 1e-10 in values of order
        # one; no order statistic changes hands within the step at these points, or the gap would
        # be of order 1/n.
        expected = oracles.central_differences(lambda v: problem(v)[0], w, 1e-6)
        size = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(gradient / size, expected / size, atol=2e-8)


@pytest.mark.parametrize("name", [name for name in NOISES if not NOISES[name].has_atoms])
@pytest.mark.parametrize("loss", [c for c in LOSS_CASES if not isinstance(c.values[0], Moments)])
def test_a_sorted_loss_refuses_noise_without_atoms(loss, name):
    with pytest.raises(InputError, match="cannot be spread"):
        make_problem(loss, NOISE_EXAMPLES[name])(np.ones(D))


@all_bags
@pytest.mark.parametrize("name", [None, *(name for name in NOISES if NOISES[name].has_atoms)])
def test_differences_replace_a_gradient_that_a_loss_does_not_state(name, sizes):
    noise = NOISE_EXAMPLES.get(name)
    differenced, stated = (
        make_problem(OrderInvariant(cube_root, 3.0, pull), noise, PENALTIES["both"], sizes)
        for pull in (None, multiply_by_slope)
    )
    for w in np.random.default_rng(5).standard_normal((3, D)):
        # Central differences at a step h of 6e-6: 1e-10 of rounding, and a truncation of
        # h² z^(-8/3) that reaches 4e-6 where a prediction with its atom is as near zero as 0.007.
        np.testing.assert_allclose(differenced(w)[1], stated(w)[1], rtol=2e-6, atol=2e-8)


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
@pytest.mark.parametrize("name", [name for name in LOSSES if LOSSES[name].is_flat])
def test_the_gradient_of_a_flat_loss_is_that_of_the_penalty(name, penalty):
    problem = make_problem(LOSS_EXAMPLES[name][0], NOISE_EXAMPLES["sample"], penalty, [1, 5, 18])
    for w in np.random.default_rng(5).standard_normal((3, D)):
        expected = penalty.l1 * np.sign(w) + 2 * penalty.l2 * w
        # One product and one sum; the differences as above.
        np.testing.assert_allclose(problem(w)[1], expected, rtol=1e-14)
        found = oracles.central_differences(lambda v: problem(v)[0], w, 1e-6)
        np.testing.assert_allclose(found, expected, atol=2e-8)


@pytest.mark.parametrize("loss", LOSS_CASES)
def test_loss_alone_has_the_slope_of_its_value(loss):
    rng = np.random.default_rng(6)
    z, y = np.sort(rng.exponential(size=(3, 12))), np.sort(rng.standard_normal(12))
    if getattr(loss, "K", 1) is None or getattr(loss, "D", 1) is None:
        with pytest.raises(InputError, match="outside a problem"):
            loss(z, y)
        return
    values, slopes = loss(z, y)
    assert values.shape == (3,)
    if slopes is None:  # asks the problem for differences
        return
    for row, value, slope in zip(z, values, slopes, strict=True):
        assert loss(row, y)[0] == pytest.approx(value, rel=1e-14)
        # Neighbours lie further apart than the step, so that the sample stays sorted.
        expected = oracles.central_differences(lambda v: loss(v, y)[0], row, 1e-6)
        size = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(slope / size, expected / size, atol=2e-8)


@pytest.mark.parametrize("noise", [None, NOISE_EXAMPLES["sample"]], ids=["none", "sample"])
@pytest.mark.parametrize("sizes", BAGS.values(), ids=BAGS)
@pytest.mark.parametrize("name", [name for name in LOSSES if LOSSES[name].code is not None])
def test_compiled_form_equals_the_plain_one(name, sizes, noise):
    problem = make_problem(LOSS_EXAMPLES[name][0], noise, sizes=sizes)
    atoms = np.zeros(1) if noise is None else noise.atoms()
    # Small-D counts order statistics, of which the spread sample has more.
    loss = LOSSES[name](4 * len(atoms)) if name == "small-d" else problem.loss
    plain = _plain_evaluator(problem.bags, loss, atoms)
    weights = np.random.default_rng(8).standard_normal((5, D))
    for one, two in zip(plain(weights), problem.smooth(weights), strict=True):
        # The same sums in another order.
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("noise", [None, NOISE_EXAMPLES["gaussian"]], ids=["none", "gaussian"])
@pytest.mark.parametrize("loss", LOSS_CASES)
def test_batch_equals_one_by_one(loss, noise):
    problem = make_problem(loss, noise, PENALTIES["both"], [4, 20])
    weights = np.random.default_rng(1).standard_normal((5, D))
    values, gradients = problem(weights.T)
    assert gradients.shape == (D, 5)
    for s, w in enumerate(weights):
        value, gradient = problem(w)
        # The plain path multiplies matrices of another shape, which may round otherwise.
        np.testing.assert_allclose(values[s], value, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(gradients[:, s], gradient, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("noise", [None, NOISE_EXAMPLES["sample"]], ids=["none", "sample"])
@pytest.mark.parametrize("sizes", BAGS.values(), ids=BAGS)
@pytest.mark.parametrize("kind", ["squared", "absolute", "small-d", "kolmogorov-smirnov"])
def test_value_equals_its_definition(kind, sizes, noise):
    loss = LOSS_EXAMPLES[kind][0]
    problem = make_problem(loss, noise, PENALTIES["both"], sizes)
    atoms = np.zeros(1) if noise is None else noise.atoms()
    for w in np.random.default_rng(2).standard_normal((3, D)):
        expected = oracles.sorted_problem_value(kind, problem.bags, w, atoms, extent=4)
        expected += 0.2 * np.abs(w).sum() + 0.3 * (w**2).sum()
        # Sums of a few hundred numbers in another order.
        assert problem(w)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sizes", BAGS.values(), ids=BAGS)
@pytest.mark.parametrize("noise", [None, NOISE_EXAMPLES["sample"]], ids=["none", "sample"])
@pytest.mark.parametrize("K", [1, 2, 4])
def test_moment_value_equals_its_definition(K, noise, sizes):
    problem = make_problem(Moments(K), noise, None, sizes)
    factors = [1.0, 1 / 2, 1 / 6, 1 / 24][:K]
    atoms = (0.0,) if noise is None else noise.errors
    for w in np.random.default_rng(2).standard_normal((3, D)):
        expected = oracles.moment_problem_value(problem.bags, w, factors, atoms)
        # Differences of fourth moments lose up to four of sixteen digits.
        assert problem(w)[0] == pytest.approx(expected, rel=1e-11)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 2**32 - 1), st.booleans())
def test_squared_value_is_the_least_over_all_permutations(n, d, seed, has_ties):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    if has_ties:
        X, y = X.round(), y.round()
    w = rng.standard_normal(d)
    value, _ = Problem(make_bags(X, y), Squared(), None, no_penalty(d))(w)
    # Six squares of order one.
    assert value == pytest.approx(oracles.least_over_permutations(X @ w, y), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(
    ("p", "kind"), [(2.0, "squared"), (1.0, "absolute")], ids=["p=2 is LS", "p=1 is EMD"]
)
def test_general_loss_with_identity_is_the_named_one(p, kind):
    general = make_problem(OrderInvariant(lambda z: z, p, lambda z, s: s), sizes=[10, 14])
    named = make_problem(LOSS_EXAMPLES[kind][0], sizes=[10, 14])
    for w in np.random.default_rng(3).standard_normal((4, D)):
        np.testing.assert_allclose(general(w)[0], named(w)[0], rtol=1e-13)
        np.testing.assert_allclose(general(w)[1], named(w)[1], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("loss", LOSS_CASES)
def test_every_bag_of_one_row_compares_that_row_with_its_label(loss):
    rng = np.random.default_rng(0)
    X, y = rng.exponential(size=(5, D)), rng.standard_normal(5)
    bags = make_bags(X, y, np.arange(5))
    w = rng.standard_normal(D)
    alone = [Problem(make_bags(X[[i]], y[[i]]), loss, None, no_penalty(D))(w)[0] for i in range(5)]
    if isinstance(loss, Moments):
        loss_of_all = Problem(bags, Moments(loss.n_moments(D, 1), loss.f), None, no_penalty(D))
        expected = np.sum(alone)  # SM sums over bags
    else:
        loss_of_all, expected = Problem(bags, loss, None, no_penalty(D)), np.mean(alone)
    # Five numbers added in two ways.
    assert loss_of_all(w)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", [name for name in NOISES if NOISES[name].has_atoms])
def test_atoms_have_the_mean_and_spread_of_the_noise(name):
    noise = NOISE_EXAMPLES[name]
    atoms = noise.atoms()
    np.testing.assert_allclose(atoms.mean(), noise.moments(1)[0], atol=1e-15)
    # One rounding of a mean of squares.
    assert atoms.std() == pytest.approx(noise.sd, rel=1e-14)


@pytest.mark.parametrize("name", NOISES)
def test_noise_in_other_units_has_moments_in_those_units(name):
    noise = NOISE_EXAMPLES[name]
    expected = noise.moments(4) / 2.5 ** np.arange(1, 5)
    np.testing.assert_allclose(noise.divided_by(2.5).moments(4), expected, rtol=1e-13, atol=1e-16)
