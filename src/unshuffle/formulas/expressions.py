"""Check of expressions in formulas: arithmetic, columns, and functions from a fixed list.

formulaic evaluates expressions as Python. A formula may come from a model file, so every expression
is checked before it is evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from unshuffle.errors import InputError, quote, suggest

# Elementwise functions of NumPy, plain or as `np.log`.
ELEMENTWISE = (
    "abs", "arcsinh", "cbrt", "ceil", "clip", "cos", "exp", "expm1", "floor", "log", "log10",
    "log1p", "log2", "maximum", "minimum", "sign", "sin", "sqrt", "square", "tanh",
)  # fmt: skip
LOGARITHMS = ("log", "log10", "log1p", "log2")
# Functions of formulaic: factors, splines, polynomials and standardised columns.
TRANSFORMS = (
    "C", "I", "bs", "cc", "center", "cr", "cs", "poly", "scale", "standardize",
    "Diff", "Helmert", "Poly", "Sum", "Treatment",
)  # fmt: skip
_CODINGS = ("SAS", "diff", "helmert", "poly", "sum", "treatment")
_MODULES = {"np": ELEMENTWISE, "contr": _CODINGS}
_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.List, ast.Tuple,
    ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip


def check_expression(code: str, columns: Collection[str], what: str) -> None:
    """Refuse an expression with names other than known functions and columns.

    >>> check_expression("log(x) + np.sqrt(z)", ["x", "z"], "formula")
    >>> check_expression("open('x')", ["x"], "formula")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    unshuffle.errors.InputError: formula: no function is called 'open'; known: ...
    """
    if len(code) > 10_000:
        raise InputError(f"{what}: an expression has {len(code)} characters; shorten it")
    try:
        tree = ast.parse(code, mode="eval")
    except (SyntaxError, ValueError, RecursionError) as exc:
        raise InputError(f"{what}: {quote(code)} is no expression: check its brackets") from exc
    _check(tree, columns, what)


def calls_logarithm(code: str) -> bool:
    """Return whether an expression is a logarithm of something."""
    tree = ast.parse(code, mode="eval").body
    return isinstance(tree, ast.Call) and _name_call(tree.func)[1] in LOGARITHMS


def _check(node: ast.AST, columns: Collection[str], what: str) -> None:
    if isinstance(node, ast.Name):
        if node.id not in columns:
            raise InputError(
                f"{what}: no column is called {quote(node.id)}; {suggest(node.id, list(columns))}"
            )
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        _check_text(node.value, what)
    if isinstance(node, ast.Call):
        _check_call(node, what)
        parts: list[ast.AST] = [*node.args, *node.keywords]
    elif isinstance(node, _ALLOWED):
        parts = list(ast.iter_child_nodes(node))
    else:
        raise InputError(
            f"{what}: {quote(ast.unparse(node))} is more than a formula may do: make such a column "
            "in the data first"
        )
    for part in parts:
        _check(part, columns, what)


def _check_text(text: str | bytes, what: str) -> None:
    """Refuse quotation marks in a text: formulaic inserts it into code."""
    if isinstance(text, bytes) or not text.isprintable() or set(text) & set("'\"\\"):
        raise InputError(
            f"{what}: the text {quote(text)} holds quotation marks, backslashes or unprintable "
            "signs: rename such a level in the data"
        )


def _check_call(node: ast.Call, what: str) -> None:
    module, name = _name_call(node.func)
    known = (*ELEMENTWISE, *TRANSFORMS) if module is None else _MODULES.get(module, ())
    if name is None or name not in known:
        called = ast.unparse(node.func)
        way_out = suggest(called, [*ELEMENTWISE, *TRANSFORMS])
        raise InputError(
            f"{what}: no function is called {quote(called)}; {way_out}; with functions of your own "
            "make a column in the data first"
        )


def _name_call(function: ast.expr) -> tuple[str | None, str | None]:
    """Return module and name of a function: (None, "log") or ("np", "log")."""
    if isinstance(function, ast.Name):
        return None, function.id
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.value.id, function.attr
    return None, None
