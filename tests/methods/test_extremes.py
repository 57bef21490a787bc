"""Numbers of any size give a finite answer or a refusal that says what to do, never a warning."""

import warnings

import numpy as np
import pytest

from registry_examples import CHOOSERS, fit_quietly, make_method_data
from unshuffle import (
    Bag,
    GridNoise,
    Histogram,
    InputError,
    ShuffledLinearRegression,
    fit,
    make_shuffled,
    methods,
    noise_from_calibration,
)
from unshuffle.inference.block_modes import factor_covariance
from unshuffle.inference.importance import find_centre
from unshuffle.methods import METHODS
from unshuffle.objectives.losses import Moments, OrderInvariant
from unshuffle.solvers.projection import Projection

# Those that sample take seconds a fit.
QUICK = [name for name in METHODS if name not in (*CHOOSERS, "likelihood", "sampler")]
SIZES = (1e-305, 1e-150, 1e-100, 1e-5, 1.0, 1.0, 1.0, 1e5, 1e100, 1e150, 1e300, 1e305)


def name(method):
    """Return a method's name for its tests: that of a function would hold its address."""
    return method if isinstance(method, str) else type(method).__name__


def fit_strictly(method, X, y, groups=None, anchors=None, **options):
    """Fit, summarise and match with every doubt of NumPy an error."""
    options = {"random_state": 0, "n_starts": 2, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)  # what the fit itself has to say
        with np.errstate(all="raise", under="ignore"):
            model = ShuffledLinearRegression(method, **options).fit(X, y, groups, anchors=anchors)
            str(model.summary())
            model.match(X, y, groups)
    return model


def make_case(seed, method):
    """Return small data of many kinds and sizes, and options."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8 if method == "exact" else 41))
    d = int(rng.integers(1, 5))
    X = rng.standard_normal((n, d))
    kind = rng.integers(5)
    if kind == 0:
        X = X.round()
    elif kind == 1:
        X[:, 0] = 3.7
    elif kind == 2:
        X[:, -1] = 2 * X[:, 0]
    elif kind == 3:
        X = X + 10.0 ** rng.integers(0, 17)
    size = rng.choice(SIZES)
    y = size * (X @ rng.standard_normal(d) + rng.choice([0.0, 0.1, 1.0]) * rng.standard_normal(n))
    options = {"fit_intercept": bool(rng.integers(2))}
    if rng.random() < 0.4:
        options["noise"] = float(rng.choice([0.0, 0.1 * size, size, 1.0, 1e-150, 1e150]))
    for name in () if method in ("means", "exact", "certified") else ("l1", "l2"):
        if rng.random() < 0.4:
            options[name] = float(rng.choice([1e-100, 1e-3, 10.0, 1e100]))
    # One bag for each of the weights at least, where their means are what is fitted.
    n_bags = n if method == "means" else int(rng.integers(1, 4))
    return X * rng.choice(SIZES, d), y, np.arange(n) % n_bags, options


@pytest.mark.parametrize("method", [*QUICK, Projection(3), Moments(4)], ids=name)
def test_every_fit_is_finite_or_refused(method):
    n_fitted = 0
    for seed in range(60):
        with np.errstate(over="ignore"):
            X, y, groups, options = make_case(seed, method)
        if not (np.isfinite(X).all() and np.isfinite(y).all()):
            continue
        try:
            model = fit_strictly(method, X, y, groups, **options)
        except InputError:
            continue
        n_fitted += 1
        assert np.isfinite([*model.coef_, model.intercept_]).all()
        for candidate in model.solution_.candidates:
            assert np.isfinite([*candidate.weights, candidate.value]).all()
    assert n_fitted >= 10


@pytest.mark.parametrize(
    "method", ["sm", "ls", "p2", Moments(4), "likelihood", "sampler"], ids=name
)
@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_noise_of_the_size_of_the_labels_is_taken_and_any_beyond_is_refused(method, scale):
    data = make_shuffled(30, 2, noise=0.1, bags=3, rng=0)
    model = fit_strictly(method, data.X, scale * data.y, data.groups, noise=0.1 * scale)
    assert np.isfinite(model.coef_).all()
    with pytest.raises(InputError, match=r"noise .* units of y"):
        fit_strictly(method, data.X, scale * data.y, data.groups, noise=1e80 * scale)


@pytest.mark.parametrize("method", ["ls", "emd", "sm", "p1", "p2", Projection(3)], ids=name)
@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_a_penalty_beyond_the_loss_is_refused_and_one_far_above_it_taken(method, penalty):
    data = make_method_data("ls")
    model = fit_strictly(method, data.X, data.y, data.groups, **{penalty: 1e30})
    assert np.isfinite(model.coef_).all()
    with pytest.raises(InputError, match=f"{penalty} = 1e\\+80 is .* lower it, or rescale y"):
        fit_strictly(method, data.X, data.y, data.groups, **{penalty: 1e80})


def test_values_beyond_the_range_are_refused():
    # The only weight that meets the mean is a thousand times too large, and its misfit squares.
    X = np.linspace(-1.0, 1.002, 12)[:, None]
    y = 1e153 * np.linspace(0.5, 1.5, 12)
    assert fit_strictly("p1", X, 1e-3 * y, fit_intercept=False).solution_.value < np.inf
    with pytest.raises(InputError, match=r"an answer has a value of .* rescale y"):
        fit_strictly("p1", X, y, fit_intercept=False)


def test_means_of_huge_and_tiny_columns_have_finite_intervals():
    data = make_shuffled(80, 2, noise=0.1, bags=8, rng=0)
    plain = fit_strictly("means", data.X, data.y, data.groups).conf_int()
    factors = np.array([1e-200, 1e200])
    moved = fit_strictly("means", factors * data.X, data.y, data.groups).conf_int()
    np.testing.assert_allclose(moved * factors[:, None], plain, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_matches_do_not_depend_on_the_size_of_labels(scale):
    data = make_shuffled(30, 1, noise=0.3, bags=2, rng=0)
    plain = fit_quietly("likelihood", data.X, data.y, data.groups, n_starts=5)
    moved = fit_strictly("likelihood", data.X, scale * data.y, data.groups, n_starts=5)
    expected = plain.match(data.X, data.y, data.groups)
    found = moved.match(data.X, scale * data.y, data.groups)
    np.testing.assert_array_equal(found.order, expected.order)
    # Both sample the same posterior; their draws differ in the last digits, their swaps in chance.
    np.testing.assert_allclose(found.probability, expected.probability, atol=0.05)


@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_ks_without_a_column_that_varies_gives_zeros(l1):
    y = np.arange(1.0, 6.0)
    model = fit_strictly("ks", np.zeros((5, 1)), y, fit_intercept=False, l1=l1)
    assert model.coef_.tolist() == [0.0]


# What the fuzzer found, each as it was: overflows, and an index beyond the rows.


@pytest.mark.parametrize("method", ["sm", "ls", "likelihood"])
@pytest.mark.parametrize(
    "noise",
    [
        0.1,
        (0.0, 0.01, 0.0, 3e-4),
        GridNoise([-0.5, 0.0, 1.5], [0.0, 1.0, 0.0]),
        noise_from_calibration([0.0, 0.1, 0.3, 1.0]),
    ],
    ids=["sd", "moments", "grid", "sample"],
)
def test_noise_beside_labels_next_to_nothing_is_refused(method, noise):
    data = make_shuffled(20, 1, noise=0.1, bags=2, rng=0)
    with pytest.raises(InputError, match=r"noise .* units of y"):
        fit_strictly(method, data.X, 1e-310 * data.y, data.groups, noise=noise)


@pytest.mark.parametrize("rows_above", [10, 20_000], ids=["blocks", "memory"])
def test_offsets_beyond_all_labels_are_refused(rows_above, monkeypatch):
    monkeypatch.setattr(methods, "BLOCKS_ABOVE", rows_above)
    data = make_shuffled(20, 1, noise=0.1, bags=4, rng=0)
    with pytest.raises(InputError, match=r"bag_offsets has an sd of 1\.0e\+200.* units of y"):
        fit_strictly("likelihood", data.X, data.y, data.groups, bag_offsets=1e200)


@pytest.mark.parametrize("size", [1e-310, 1e145])
def test_a_g_of_the_user_has_labels_that_can_be_squared(size):
    data = make_shuffled(20, 1, noise=0.1, bags=2, rng=0)
    method = OrderInvariant(np.arcsinh, 2.0, lambda z, s: s / np.hypot(1.0, z))
    if size < 1:
        model = fit_strictly(method, data.X, size * data.y, data.groups)
        assert np.isfinite(model.coef_).all()
    else:
        with pytest.raises(InputError, match=r"whose squares overflow.* rescale y"):
            fit_strictly(method, data.X, size * data.y, data.groups)


@pytest.mark.parametrize("method", ["likelihood", "sm", "ls"])
@pytest.mark.parametrize("what", ["column 0", "y"])
def test_blocks_refuse_what_varies_by_next_to_nothing(method, what, monkeypatch):
    monkeypatch.setattr(methods, "BLOCKS_ABOVE", 10)
    monkeypatch.setattr(methods, "KEPT_UP_TO", 10)
    data = make_shuffled(30, 1, noise=0.1, bags=2, rng=0)
    X, y = (1e-310 * data.X, data.y) if what != "y" else (data.X, 1e-310 * data.y)
    with pytest.raises(InputError, match=f"{what} varies by only .* rescale it"):
        fit_strictly(method, X, y, data.groups)


@pytest.mark.parametrize("scale", [1e-305, 1e305])
def test_matches_of_wrong_links_do_not_depend_on_the_size_of_labels(scale):
    data = make_shuffled(30, 1, noise=0.1, bags=2, rng=0)
    options = {"mislinked": 0.2, "n_starts": None}
    plain = fit_strictly("auto", data.X, data.linked_y / 10, data.groups, **options)
    moved = fit_strictly("auto", data.X, scale * (data.linked_y / 10), data.groups, **options)
    expected = plain.match(data.X, data.linked_y / 10, data.groups)
    found = moved.match(data.X, scale * (data.linked_y / 10), data.groups)
    np.testing.assert_array_equal(found.order, expected.order)


def test_draws_that_overflow_in_the_units_of_the_labels_are_refused():
    # Two columns are one but for their small rows, so that weights of 1e6 explain the labels too.
    X = np.array([[1e12, 1e12], [0.3, -0.4], [-0.2, 0.8], [0.7, 0.1], [1.1, -1.3], [-0.9, 0.5]])
    y = 1e305 * np.array([0.3, -0.5, -0.9, -1.0, 0.6, 0.8])
    bags = [
        Bag(rows, Histogram([-np.inf, np.median(labels), np.inf], [1, 2]))
        for rows, labels in ((X[:3], y[:3]), (X[3:], y[3:]))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=r"overflow in those of the data: rescale y"):
            fit(bags, method="likelihood", fit_intercept=False, rng=0)


def test_intervals_of_labels_below_the_range_are_finite():
    data = make_shuffled(6, 1, noise=0.1, rng=0)
    model = fit_strictly("likelihood", data.X, 1e-310 * data.y, anchors=[0, 3])
    with np.errstate(all="raise", under="ignore"):
        ends = model.predict_interval(data.X, new_label=True)
    assert np.isfinite(ends).all() and (ends[:, 0] <= ends[:, 1]).all()


def test_a_covariance_spoilt_by_rounding_has_a_root():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    spoilt = turn @ np.diag([1.0, 1e-3, -1e-9]) @ turn.T
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(spoilt)
    root = factor_covariance(spoilt)
    assert (np.diagonal(root) > 0).all() and np.array_equal(root, np.tril(root))
    # It differs by what was spoilt.
    np.testing.assert_allclose(root @ root.T, spoilt, atol=2e-9)
    whole = turn @ np.diag([1.0, 1e-3, 1e-5]) @ turn.T
    np.testing.assert_array_equal(factor_covariance(whole), np.linalg.cholesky(whole))


def test_the_centre_of_one_draw_is_that_draw():
    draws = np.array([[1.0, -2.0], [3.0, 4.0]])
    with np.errstate(all="raise"):
        assert find_centre(draws, np.array([0.0, 1.0])).tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    "noise",
    [GridNoise([-0.5, 0.0, 1.5], [0.0, 1.0, 0.0]), noise_from_calibration([0.0, 0.1, 0.3])],
    ids=["grid", "sample"],
)
def test_noise_that_vanishes_beside_the_labels_is_none(noise):
    data = make_shuffled(12, 1, noise=0.1, bags=2, rng=0)
    model = fit_strictly("likelihood", data.X, 1e300 * data.y, data.groups, noise=noise)
    assert np.isfinite(model.coef_).all()


def test_wrong_links_between_unequal_numbers_are_refused():
    with pytest.raises(InputError, match="mislinked"):
        fit([Bag([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0, 4.0])], method="ls", mislinked=0.0)
