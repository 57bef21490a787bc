"""Linear combinations of coefficients: nothing runs when they are read; intervals as in the fit."""

import numpy as np
import pytest

from registry_examples import fit_quietly, make_method_data
from unshuffle import InputError, fit, make_shuffled
from unshuffle.formulas.contrasts import read_contrast

NAMES = ("x1", "x10", "C(k)[T.a]", "petal length (cm)", "2nd", "a-b", "intercept")


def test_random_combinations_are_read_as_python_computes_them():
    rng = np.random.default_rng(0)
    values = rng.normal(size=len(NAMES))
    known = {f"v{j}": value for j, value in enumerate(values)}

    def draw(depth):
        """Return a combination in our words, and the same for Python."""
        kind = rng.integers(6) if depth else 0
        if kind == 0:
            j = int(rng.integers(len(NAMES)))
            bare = NAMES[j] if rng.random() < 0.5 else f"`{NAMES[j]}`"
            return bare, f"v{j}"
        ours, theirs = draw(depth - 1)
        if kind in (1, 2):
            other = draw(depth - 1)
            sign = "+-"[kind - 1]
            return f"{ours} {sign} ({other[0]})", f"({theirs}) {sign} ({other[1]})"
        number = f"{rng.uniform(0.1, 3.0):.3g}"
        return {
            3: (f"{number}*({ours})", f"{number} * ({theirs})"),
            4: (f"({ours}) / {number}", f"({theirs}) / {number}"),
            5: (f"-({ours})+{number}", f"-({theirs}) + {number}"),
        }[int(kind)]

    for _ in range(200):
        ours, theirs = draw(3)
        try:
            found = read_contrast(ours, NAMES)
        except InputError as refused:
            assert "cancel" in str(refused)
            continue
        expected = eval(theirs, {}, known)  # noqa: S307
        np.testing.assert_allclose(found[:-1] @ values + found[-1], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x1 * x10", "is no sum"),
        ("x1 / x10", "is no sum"),
        ("x1 / 0", "is no sum"),
        ("x1 -", "is no sum"),
        ("(x1", "is no sum"),
        ("x1 x10", "is no sum"),
        ("x1 ** 2", "is no sum"),
        ("", "is no sum"),
        ("3", "names no coefficient"),
        ("x1 - x1", "cancel"),
        ("x2", "no coefficient is called 'x2'; known: 'x1'"),
        ("`x1", None),
        ("x1.__class__", "no coefficient is called"),
        ("__import__('os')", "no coefficient is called '__import__'"),
    ],
)
def test_text_that_is_no_combination_is_refused_in_one_line(text, message):
    if message is None:
        assert read_contrast(text, NAMES)[0] == 1.0
        return
    with pytest.raises(InputError, match=message) as refused:
        read_contrast(text, NAMES)
    assert "\n" not in str(refused.value)


def test_a_difference_is_the_coefficient_of_other_columns():
    # y = a x0 + b x1 = (a - b) x0 + b (x0 + x1), exactly so for t intervals.
    data = make_shuffled(n=300, d=2, noise=0.3, bags=20, rng=0)
    model = fit_quietly("means", data.X, data.y, data.groups)
    turned = np.column_stack([data.X[:, 0], data.X.sum(axis=1)])
    other = fit_quietly("means", turned, data.y, data.groups)
    found = model.contrast("x0 - x1", alpha=0.1)
    low, high = other.conf_int(0.9)[0]
    expected = (other.coef_[0], other.summary().rows[0].sd, low, high)
    np.testing.assert_allclose(
        (found.estimate, found.sd, found.low, found.high), expected, rtol=1e-6
    )
    assert found.level == 0.9 and "x0 - x1" in repr(str(found))


def test_contrasts_come_from_the_posterior_draws():
    data = make_method_data("likelihood")
    model = fit_quietly("likelihood", data.X, data.y, data.groups)
    alone = model.contrast("x1")
    np.testing.assert_allclose((alone.low, alone.high), model.conf_int()[1], rtol=1e-9)
    assert alone.estimate == model.coef_[1]
    np.testing.assert_allclose(alone.sd, model.posterior_.sd[1], rtol=1e-9)
    found = model.contrast("2 * x0 - x1 + 1")
    drawn = model.posterior_.sample(20_000, rng=0)
    values = 2 * drawn["x0"] - drawn["x1"] + 1
    np.testing.assert_allclose(found.sd, values.std(), rtol=0.05)
    # Quantiles of draws of equal weight; their own error is far below a tenth of the sd.
    np.testing.assert_allclose(
        (found.low, found.high), np.quantile(values, (0.025, 0.975)), atol=0.1 * found.sd
    )


def test_methods_without_intervals_refuse_in_one_line():
    data = make_method_data("ls")
    model = fit_quietly("ls", data.X, data.y, data.groups)
    with pytest.raises(InputError, match="use method='likelihood'") as refused:
        model.contrast("x0 - x1")
    assert "\n" not in str(refused.value)


def test_a_coefficient_of_which_the_data_say_nothing_has_no_ends():
    data = make_method_data("likelihood")
    frame = {"a": data.X[:, 0], "c": np.ones(len(data.y)), "y": data.y, "bag": data.groups}
    with pytest.warns(UserWarning, match="'c'"):
        found = fit("y ~ a + c", frame, bags="bag", rng=0)
    mixed = found.contrast("a - c")
    assert (mixed.low, mixed.high, mixed.sd) == (-np.inf, np.inf, np.inf)
    assert np.isfinite(found.contrast("a").sd)
