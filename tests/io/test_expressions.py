"""Expressions of columns agree with NumPy, and what is no expression is refused in one line."""

import re

import numpy as np
import pytest

from unshuffle.errors import InputError
from unshuffle.io.columns.expressions import FUNCTIONS, is_expression, parse_expression

NAMES = ("x", "FITC-A", "FITC", "A", "PE-Texas Red-A", "Größe", "2nd", "log10", "a/b (c)")
ROWS = 40
# How signs and powers are written, and the same in Python.
SIGNS = [("+", "+"), ("-", "-"), ("−", "-"), ("*", "*"), ("×", "*"), ("/", "/"), ("÷", "/")]
POWERS = [
    ("^2", "**2.0"),
    ("**3", "**3.0"),
    (" ^ -1", "**-1.0"),
    ("^(0.5)", "**0.5"),
    ("^2^-1", "**2.0**-1"),
]


def make_columns(rng):
    return {name: rng.normal(size=ROWS) * 10 ** rng.uniform(-2, 2) for name in NAMES}


def write_name(rng, name):
    """Write a column's name as it stands or quoted, and as Python code."""
    needs_quotes = name in FUNCTIONS
    if needs_quotes or rng.random() < 0.4:
        mark = rng.choice(["`", '"'])
        return f"{mark}{name}{mark}", f"c[{name!r}]"
    return name, f"c[{name!r}]"


def write_expression(rng, depth):
    """Return a random expression, and the same in the words of Python and NumPy."""
    kind = rng.integers(0, 7) if depth else rng.integers(0, 2)
    blank = " " * int(rng.integers(0, 3))
    if kind == 0:
        return write_name(rng, str(rng.choice(NAMES)))
    if kind == 1:
        number = str(rng.choice(["2", "0.5", ".25", "1e-3", "3.", "10E2"]))
        return number, f"np.float64({number})"
    text, code = write_expression(rng, depth - 1)
    if kind == 2:
        return f"({blank}{text}{blank})", f"({code})"
    if kind == 3:
        name = str(rng.choice(list(FUNCTIONS)))
        return f"{name}{blank}({text})", f"np.{name}({code})"
    if kind == 4:
        return f"{rng.choice(['-', '−'])}{blank}({text})", f"-({code})"
    if kind == 5:
        power, twin = POWERS[rng.integers(len(POWERS))]
        return f"({text}){power}", f"({code}){twin}"
    other, other_code = write_expression(rng, depth - 1)
    mark, twin = SIGNS[rng.integers(len(SIGNS))]
    return f"{text} {mark} {other}", f"{code} {twin} {other_code}"


def test_a_thousand_random_expressions_agree_with_numpy():
    rng = np.random.default_rng(0)
    n_gaps = 0
    for _ in range(1000):
        columns = make_columns(rng)
        text, code = write_expression(rng, int(rng.integers(1, 6)))
        text, code = f"x - x + ({text})", f"c['x'] - c['x'] + ({code})"
        found, gap = parse_expression(text, NAMES).evaluate(columns)
        with np.errstate(all="ignore"):
            known = np.broadcast_to(eval(code, {"np": np, "c": columns}), found.shape)  # noqa: S307
        is_finite = np.isfinite(known)
        np.testing.assert_array_equal(found[is_finite], known[is_finite], err_msg=text)
        assert np.isnan(found[~is_finite]).all()
        assert (gap is None) == is_finite.all()
        if gap is not None:
            n_gaps += 1
            assert (gap.n_rows, gap.row) == ((~is_finite).sum(), np.argmin(is_finite))
    assert 100 < n_gaps < 900


ROW = {"x": np.array([-4.0, 0.0, 2.0]), "y": np.array([1.0, 2.0, 4.0])}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("-x^2", "-x**2"),
        ("2^-y", "2**-y"),
        ("2^3^y", "2**3**y"),
        ("x-y-1", "x-y-1"),
        ("y/2/2", "y/2/2"),
        ("x - -y", "x - -y"),
        ("+x*-y", "+x*-y"),
        ("arcsinh(x)*(y+1)", "np.arcsinh(x)*(y+1)"),
        ("exp ( log( y ) )", "np.exp(np.log(y))"),
    ],
)  # fmt: skip
def test_operators_bind_as_in_python(text, code):
    found, gap = parse_expression(text, ROW).evaluate(ROW)
    np.testing.assert_array_equal(found, eval(code, {"np": np}, ROW))  # noqa: S307
    assert gap is None


def test_the_longest_name_of_a_column_is_meant():
    columns = {name: np.array([float(k)]) for k, name in enumerate(NAMES, start=1)}
    for text, known in {
        "FITC-A": 2.0,
        "FITC - A": -1.0,
        "`FITC`-A": -1.0,
        '"FITC-A"-A': -2.0,
        "log10(FITC-A / PE-Texas Red-A)": np.log10(2 / 5),
        "Größe*2nd": 42.0,
        "`log10` + log10(`log10`)": 8 + np.log10(8),
        "a/b (c) / x": 9.0,
    }.items():
        assert parse_expression(text, NAMES).evaluate(columns)[0] == known, text


# Each with what its one line says.
HOSTILE = {
    "x.__class__": "an operator is expected",
    "__import__('os').system('true')": "no function is called '__import__'",
    "eval(x)": "no function is called 'eval'",
    "x[0]": "an operator is expected",
    "lambda: x": "no column is called 'lambda: x'",
    "x if x else y": "an operator is expected",
    "x; y": "an operator is expected",
    "x @ y": "an operator is expected",
    "x == y": "an operator is expected",
    "x // y": "a column, a number or '(' is expected here",
    "(" * 5000 + "x" + ")" * 5000: "has 10001 characters",
    "(" * 400 + "x" + ")" * 400: "nested more than 50 deep",
    "-" * 400 + "x": "nested more than 50 deep",
    "x" + "^2" * 400: "nested more than 50 deep",
    "log10(" * 90 + "x" + ")" * 90: "nested more than 50 deep",
    "1 + 2": "names no column",
    "(x": "'(' is never closed",
    "x)": "an operator is expected",
    "(x y)": "an operator or ')' is expected",
    "log10": "no column is called 'log10'",
    "log10 x": "no column is called 'log10 x'",
    "log10()": "a column, a number or '(' is expected here",
    "x +": "its end: a column, a number or '(' is expected here",
    "x * * y": "a column, a number or '(' is expected here",
    "`x": "quotation mark is never closed",
    '"z" / x': "no column is called 'z'",
    "2x": "no column is called '2x'",
    "xy / x": "no column is called 'xy'",
    "x / 1e5e": "no column is called '1e5e'",
    "x\n/\0y": "no column is called",
    "": "a column, a number",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_expression_is_refused_in_one_line_with_its_place(text):
    with pytest.raises(InputError) as caught:
        parse_expression(text, ["x", "y"])
    line = str(caught.value)
    assert HOSTILE[text] in line and "\n" not in line and len(line) < 300
    assert re.search(r"character|its end|names no column", line)


def test_rows_without_a_value_are_counted_with_the_first_and_the_reason():
    columns = {"x": np.array([1.0, 0.0, -1.0, np.nan, 0.0]), "y": np.full(5, 2.0)}
    for text, known in {
        "y / x": (2, 1, "division by 0"),
        "log10(x)": (3, 1, "logarithm of 0 or a negative number"),
        "sqrt(x - y + 1)": (3, 1, "root of a negative number"),
        "x ^ 0.5": (1, 2, "power that is no real number"),
        "x ^ -1": (2, 1, "power that is no real number"),
        "exp(1000 * x)": (1, 0, "number too large"),
        "log(y / x - y)": (2, 0, "logarithm of 0 or a negative number"),
    }.items():
        values, gap = parse_expression(text, columns).evaluate(columns)
        assert np.isnan(values[gap.row]) and np.isnan(values[3])
        if text.startswith("log(y"):  # row 0: log 0; rows 1 and 4: division; row 2: log of -4
            assert (gap.row, gap.why) == (0, known[2])
            continue
        assert (gap.n_rows, gap.row, gap.why) == known, text
    # A missing value is no gap; and what is finite in the end has a value.
    assert parse_expression("x + y", columns).evaluate(columns)[1] is None
    assert parse_expression("1 / exp(1000 * y)", columns).evaluate(columns)[1] is None


def test_a_name_of_a_column_is_no_expression():
    assert not is_expression("a/b (c)", NAMES) and not is_expression("unknown", NAMES)
    assert is_expression("x/2", NAMES) and is_expression("`x`", NAMES)
