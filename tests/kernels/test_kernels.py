"""The kernels: each equals its plain twin."""

from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from numba import njit

import oracles
from pairs import cover_pairs
from unshuffle import kernels
from unshuffle.data.bags import make_bags
from unshuffle.kernels import sorting
from unshuffle.objectives import moments
from unshuffle.objectives.noise import GaussianNoise, SampleNoise, noise_from_calibration
from unshuffle.solvers.descent import descend

CODES = {
    "squared": kernels.SQUARED,
    "absolute": kernels.ABSOLUTE,
    "small-d": kernels.SMALL_D,
    "kolmogorov-smirnov": kernels.KOLMOGOROV_SMIRNOV,
}
# Around every switch of the sorts: insertion up to 24 and in runs of 16, short keys up to 16384.
LENGTHS = (0, 1, 2, 16, 17, 24, 25, 2048, 16384, 16385)


def sort_with_kernel(z):
    """Return the sorted values and the rows, as the kernel gives them."""
    n = len(z)
    ordered = np.empty(n)
    buffers = np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty((3, 2048), np.uint32)
    pairs = kernels.sort_rows(z, ordered, *buffers)
    return ordered, (pairs[:n] & np.uint64(0xFFFFFFFF)).astype(int)


@njit(cache=True)
def find_order(z, order):
    # Python cannot call a function that only kernels call.
    sorting.find_order(z, order)


def assert_sorts_like_numpy(z):
    ordered, rows = sort_with_kernel(z)
    expected, order = np.argsort(z, kind="stable"), np.full(len(z), -1)
    find_order(z, order)
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(ordered, z[expected])


def clustered(rng, n, outlier):
    """Values so close that one outlier swallows the resolution of a short key."""
    z = 1.0 + rng.uniform(0, 1e-3, n)
    z[: n // 100 + 1] = outlier
    return rng.permutation(z)


ARRAYS = {
    "spread evenly": lambda rng, n: rng.uniform(-1, 1, n),
    "normal": lambda rng, n: rng.standard_normal(n),
    "many ties": lambda rng, n: rng.integers(0, 5, n).astype(float),
    "all equal": lambda rng, n: np.full(n, 3.5),
    "already sorted": lambda rng, n: np.sort(rng.standard_normal(n)),
    "reversed": lambda rng, n: np.sort(rng.standard_normal(n))[::-1].copy(),
    "cluster, outlier 1e3 away": lambda rng, n: clustered(rng, n, 1e3),
    "cluster, outlier 1e12 away": lambda rng, n: clustered(rng, n, 1e12),
    "cluster, outlier -1e12 away": lambda rng, n: clustered(rng, n, -1e12),
    "cluster, infinities": lambda rng, n: np.where(
        rng.random(n) < 0.1, rng.choice([np.inf, -np.inf], n), clustered(rng, n, 1.0)
    ),
    "range that overflows": lambda rng, n: rng.choice([-1.7e308, 1.0, 1.7e308], n),
    "smallest numbers": lambda rng, n: rng.integers(0, 50, n) * 5e-324,
    "both zeros": lambda rng, n: rng.choice([0.0, -0.0, 1.0], n),
    "log scale": lambda rng, n: 10.0 ** rng.uniform(-300, 300, n),
}


@pytest.mark.parametrize("shape", ARRAYS)
def test_sort_equals_numpy_stable_argsort(shape):
    for n in LENGTHS:
        assert_sorts_like_numpy(ARRAYS[shape](np.random.default_rng(n), n) if n else np.empty(0))


@settings(max_examples=300, deadline=None)
@given(
    hnp.arrays(
        float,
        st.integers(0, 120),
        elements=st.one_of(
            st.floats(allow_nan=False, width=64),
            st.sampled_from([0.0, -0.0, 1.0, 1e12, -1e12, np.inf, -np.inf]),
            st.floats(1.0, 1.001),
        ),
    )
)
def test_sort_equals_numpy_on_any_array(z):
    assert_sorts_like_numpy(z)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(LENGTHS[3:]), st.integers(0, 2**32 - 1), st.data())
def test_sort_equals_numpy_on_mixtures_of_kinds(n, seed, data):
    rng = np.random.default_rng(seed)
    one, two = (ARRAYS[data.draw(st.sampled_from(sorted(ARRAYS)))](rng, n) for _ in range(2))
    assert_sorts_like_numpy(np.where(rng.random(n) < data.draw(st.floats(0, 1)), one, two))


@pytest.mark.parametrize("n", [3, 24, 25, 2048, 16385])
def test_nan_gives_some_order_and_loses_no_row(n):
    rng = np.random.default_rng(n)
    z = np.where(rng.random(n) < 0.3, np.nan, rng.standard_normal(n))
    assert sorted(sort_with_kernel(z)[1].tolist()) == list(range(n))


def test_numpy_stable_argsort_is_what_python_does():
    z = np.random.default_rng(0).integers(0, 9, 500).astype(float)
    np.testing.assert_array_equal(np.argsort(z, kind="stable"), oracles.argsort_stable(z))


samples = hnp.arrays(float, st.integers(1, 30), elements=st.integers(-4, 4).map(float))


@settings(max_examples=200, deadline=None)
@given(samples, samples)
def test_step_gap_equals_its_definition(z, y):
    # Counts over counts: the only rounding is that of two divisions.
    fast = kernels.largest_step_gap(np.sort(z), np.sort(y))
    assert fast == pytest.approx(oracles.step_gap(z, y), abs=1e-15)


@pytest.mark.parametrize("n_atoms", [1, 5])
@pytest.mark.parametrize("kind", CODES)
def test_sorted_loss_over_bags_equals_its_definition(kind, n_atoms):
    rng = np.random.default_rng(4)
    n, d, extent = 90, 3, 4
    groups = rng.integers(0, 4, n)
    bags = make_bags(rng.exponential(size=(n, d)).round(1), rng.standard_normal(n), groups)
    atoms = np.linspace(-0.4, 0.5, n_atoms)
    weights = rng.standard_normal((6, d))
    values, gradients = np.empty(6), np.empty((6, d))
    labels = np.repeat(bags.y, n_atoms)
    args = weights, bags.columns, labels, bags.offsets, atoms, CODES[kind], extent
    kernels.evaluate_sorted(*args, values, gradients)
    expected = [oracles.sorted_problem_value(kind, bags, w, atoms, extent) for w in weights]
    # Sums of a few hundred numbers of order one, added in another order.
    np.testing.assert_allclose(values, expected, rtol=1e-12)


NOISES_WITH_ATOMS = [None, SampleNoise(np.array([-0.5, 0.0, 0.1, 0.9]))]


@pytest.mark.parametrize(
    ("d", "n_moments", "noise"), cover_pairs([1, 2, 4], [1, 2, 3, 5], NOISES_WITH_ATOMS)
)
def test_tensors_and_rows_and_definition_give_the_same_moments(d, n_moments, noise):
    rng = np.random.default_rng(10 * d + n_moments)
    n = 600  # over two blocks of the tensor kernel
    bags = make_bags(rng.exponential(size=(n, d)), rng.standard_normal(n), rng.integers(0, 2, n))
    weights = rng.standard_normal((4, d))
    factors = rng.uniform(0.1, 1, n_moments)
    mixing = moments.mix_noise(n_moments, noise)
    targets = moments.label_moments(bags, n_moments)
    monomials = moments.make_monomials(d, n_moments)
    tensors = moments.make_tensors(bags, monomials)
    parts = monomials.children, monomials.parents, monomials.degrees, monomials.coefficients
    values, gradients = np.empty((2, 4)), np.empty((2, 4, d))
    weighing = mixing, factors, targets
    kernels.evaluate_moments(
        weights, bags.columns, bags.offsets, *weighing, values[0], gradients[0]
    )
    kernels.evaluate_tensors(weights, tensors, *parts, *weighing, values[1], gradients[1])
    atoms = (0.0,) if noise is None else noise.errors
    expected = [oracles.moment_problem_value(bags, w, factors, atoms) for w in weights]
    # Fifth powers cancel to about 1e-3 of their size, which costs three of the sixteen digits.
    np.testing.assert_allclose(values[0], expected, rtol=1e-11)
    np.testing.assert_allclose(values[1], expected, rtol=1e-11)
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("d", "degree"), [(1, 4), (2, 3), (3, 3), (4, 2)])
def test_tensors_are_the_means_of_all_monomials(d, degree):
    rng = np.random.default_rng(d)
    bags = make_bags(rng.standard_normal((300, d)), rng.standard_normal(300))
    monomials = moments.make_monomials(d, degree)
    tensors = moments.make_tensors(bags, monomials)[0]
    keys = [()]
    for parent, column in monomials.parents[1:]:
        keys.append((*keys[parent], int(column)))
    expected = oracles.monomial_means(bags.X, degree)
    assert len(keys) == moments.count_monomials(d, degree) == len(expected)
    # Means of 300 products of order one, with signs: absolute error in units of rounding.
    np.testing.assert_allclose(tensors, [expected[key] for key in keys], rtol=1e-12, atol=1e-14)


def test_a_column_of_ones_leaves_the_bits_of_tensors_alone():
    rng = np.random.default_rng(0)
    columns = np.ascontiguousarray(np.column_stack([rng.normal(size=(700, 2)), np.ones(700)]).T)
    parents = moments.make_monomials(3, 4).parents
    known, unknown = np.empty((2, len(parents)))
    kernels.accumulate_tensors(columns, 0, 700, parents, 2, known)
    kernels.accumulate_tensors(columns, 0, 700, parents, 3, unknown)
    assert np.array_equal(known, unknown)


@pytest.mark.parametrize("k", range(1, 9))
def test_gaussian_moments_equal_the_integral_of_the_density(k):
    # The Riemann sum of a smooth, vanishing function is exact to rounding.
    assert GaussianNoise(0.7).moments(8)[k - 1] == pytest.approx(
        oracles.gaussian_moment(k, 0.7), rel=1e-9, abs=1e-9
    )


def test_noise_moments_come_from_the_calibration_sample():
    labels = np.array([4.0, 5.0, 9.0])
    errors = (labels - 6.0) * np.sqrt(1.5)  # unbiased: n / (n - 1)
    expected = [np.mean(errors**k) for k in (1, 2, 3)]
    np.testing.assert_allclose(noise_from_calibration(labels).moments(3), expected, atol=1e-14)


@pytest.mark.parametrize("l1", [0.0, 0.3, 1.5])
def test_descent_reaches_the_minimum_of_a_quadratic_with_kinks(l1):
    rng = np.random.default_rng(7)
    root = rng.standard_normal((6, 5))
    gram, target = root.T @ root, rng.standard_normal(5)
    factors = l1 * np.array([1.0, 1.0, 0.0, 1.0, 2.0])

    def evaluate(w):
        image = w @ gram
        return (w * image).sum(1) - 2 * w @ target, 2 * (image - target)

    ends = descend(evaluate, rng.standard_normal((7, 5)), np.eye(5), factors, 1e-16)
    expected = oracles.minimise_lasso(gram, target, factors)
    # Values are flat at the minimum: weights are good to the root of the tolerance on values.
    np.testing.assert_allclose(ends.weights, np.tile(expected, (7, 1)), atol=1e-6)
    np.testing.assert_array_equal(ends.weights == 0, np.tile(expected == 0, (7, 1)))
    assert ends.is_converged.all()
    assert (expected == 0).any() == (l1 == 1.5)  # the case with kinks does rest on one


@pytest.mark.parametrize("sizes", [[1], [300], [2, 1, 500, 40]])
def test_screening_counts_ranks_in_cells_and_is_hardly_above_the_value(sizes):
    rng, ends = np.random.default_rng(sum(sizes)), np.cumsum([0, *sizes])
    columns, weights = rng.exponential(size=(3, ends[-1])), rng.normal(size=(4, 3))
    weights[3] = 0.0  # all predictions are one
    y = np.concatenate([np.sort(rng.normal(size=m)) for m in sizes])
    rough, values = np.empty(4), np.empty(4)
    kernels.screen_squares(weights, columns, y, ends, rough)
    exact = (np.zeros(1), kernels.SQUARED, 1, values, np.empty((4, 3)))
    kernels.evaluate_sorted(weights, columns, y, ends, *exact)
    for s in range(4):
        total, limit = 0.0, 1e-12
        for start, stop in pairwise(ends):
            z, part = weights[s] @ columns[:, start:stop], y[start:stop]
            total += (stop - start) * oracles.screened_squares(z, part) / ends[-1]
            # Inside a cell predictions and labels may go together: their covariance is missing.
            limit = max(limit, np.ptp(z) / 256 * np.ptp(part) / 2)
        assert rough[s] == pytest.approx(total, rel=1e-12, abs=1e-12)
        assert values[s] - 1e-12 <= rough[s] <= values[s] + limit


# Around the blocks of 512 rows, and fewer rows than one vector holds.
@pytest.mark.parametrize(("n", "d"), [(3, 2), (7, 1), (511, 3), (512, 4), (1300, 5)])
def test_gram_is_the_product_of_the_columns(n, d):
    columns = np.random.default_rng(n).standard_normal((d, n))
    expected = oracles.multiply_plainly(columns, columns.T)
    # n additions of numbers of order one.
    np.testing.assert_allclose(kernels.gram(columns), expected, atol=n * 1e-15)


@pytest.mark.parametrize(("n", "d"), [(3, 2), (7, 1), (60, 3), (1300, 5)])
def test_triangle_keeps_every_product_of_columns(n, d):
    # Reflections keep lengths and angles: the triangle has the products that the columns had.
    columns = np.random.default_rng(n).standard_normal((d + 1, n))
    columns[d // 2] = 0.0
    turned = columns.copy()
    kernels.triangulate(turned)
    triangle = np.tril(turned[:, :d])
    expected = oracles.multiply_plainly(columns[:d], columns.T)
    np.testing.assert_allclose(triangle[:d] @ triangle.T, expected, atol=n * 1e-14)
    if d > 1:
        assert abs(np.linalg.det(triangle[:d, :d])) < 1e-12  # the column of zeros stays one


def lay_out(arrays, order, gap):
    """Copy arrays of one length into one buffer in some order, with gaps between them."""
    n = len(arrays[0])
    buffer = np.zeros(len(arrays) * (n + gap))
    copies = [buffer[place * (n + gap) :][:n] for place in order]
    for copy, array in zip(copies, arrays, strict=True):
        copy[:] = array
    return copies


@pytest.mark.parametrize("kind", CODES)
def test_sums_are_the_same_wherever_the_arrays_lie(kind):
    # Compiled loops ask whether the arrays they write and read are near each other. One sample in
    # five rounds differently by the other loop, so that ten samples of a length show it.
    for n, seed in product([7, 8, 9, 14, 30, 60], range(10)):
        rng = np.random.default_rng([n, seed])
        samples = [np.sort(rng.standard_normal(n)), np.sort(rng.standard_normal(n)), np.zeros(n)]
        outcomes = set()
        for order in permutations(range(3)):
            for gap in range(40):
                z, y, slope = lay_out(samples, order, gap)
                value = kernels.compare_sorted(CODES[kind], n - 1, z, y, slope)
                outcomes.add((value, slope.tobytes()))
        assert len(outcomes) == 1
