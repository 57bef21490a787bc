"""Formulas (Wilkinson and Rogers 1973): the columns of a model, from the data and from new data."""

from __future__ import annotations

import ast
import copy
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from unshuffle.errors import InputError, import_extra, quote, shorten
from unshuffle.formatting import SHOWN_NAMES
from unshuffle.formulas.expressions import ELEMENTWISE, calls_logarithm, check_expression
from unshuffle.formulas.frames import check_column, find_library, read_frame, take_columns

_INTERCEPT = "Intercept"
# A factor of one column, whatever its coding.
_FACTOR = re.compile(r"C\((`[^`]+`|\w+)\s*[,)]")


@dataclass(frozen=True, eq=False)
class FormulaColumns:
    """The columns of a formula, with the levels, knots, means and scales of the data fitted.

    Attributes
    ----------
    text : str
        The formula.
    label : str
        Its left side, such as "log(y)".
    names : tuple of str
        Names of the columns, without the intercept.
    sources : tuple of str
        The column of the frame that each was made from; several in one string for interactions.
    variables : tuple of str
        Columns of the frame that the right side uses.
    has_intercept : bool
        Whether the formula has an intercept.
    levels : mapping of str to list or None
        The levels of each factor; None for numbers.
    transforms : mapping of str to dict
        The state of each transformation that depends on the data fitted.
    label_variables : tuple of str
        Columns of the frame that the label uses.
    is_transformed, has_logs : bool
        Whether the label is more than a column, and whether it is a logarithm.
    library : str or None
        The library of the frame fitted, "pandas" or "polars".
    """

    text: str
    label: str
    names: tuple[str, ...]
    sources: tuple[str, ...]
    variables: tuple[str, ...]
    has_intercept: bool
    levels: Mapping[str, Any]
    transforms: Mapping[str, Any]
    label_variables: tuple[str, ...] = ()
    is_transformed: bool = False
    has_logs: bool = False
    library: str | None = None

    def build(self, data: Any) -> np.ndarray:
        """Return the columns of new rows, coded as in the fit.

        Parameters
        ----------
        data : frame or mapping of str to array-like
            Rows with the columns that the formula names; others are left alone.

        Returns
        -------
        ndarray of shape (n, d)
            The columns, without the intercept.

        Raises
        ------
        InputError
            For missing columns and values, and for levels that the fit has not seen.
        """
        frame = take_columns(read_frame(data), self.variables, self._what)
        side = self._read_side("rhs", self.variables)
        _check_kinds(frame, side, self.levels, self._what)
        found = _drop_intercept(self._evaluate(side, frame))
        if len(found.columns) != len(self.names):
            raise InputError(
                f"{self._what} gives {len(found.columns)} columns, and the fit has "
                f"{len(self.names)}: fit again"
            )
        return _as_numbers(found, self._what)

    def build_label(self, y: Any, data: Any) -> np.ndarray:
        """Return labels transformed as the formula says.

        Parameters
        ----------
        y : array-like of shape (n,)
            Labels in the units of the frame fitted.
        data : frame or mapping of str to array-like
            Other columns that the label uses.

        Returns
        -------
        ndarray of shape (n,)
            The labels that the model is about.

        Raises
        ------
        InputError
            For labels that the transformation has no value for.
        """
        frame = read_frame(data)
        values = np.asarray(y)
        if len(values) != len(frame):
            raise InputError(
                f"X has {len(frame)} rows but y has {len(values)} labels: give one for each row"
            )
        frame = frame.assign(**{self.label_variables[0]: values})
        side = self._read_side("lhs", (*self.label_variables, *self.variables))
        used = take_columns(frame, self.label_variables, self._what)
        return _as_numbers(self._evaluate(side, used), self._what)[:, 0]

    @property
    def _what(self) -> str:
        return f"formula {quote(self.text)}"

    def _read_side(self, name: str, columns: Collection[str]) -> Any:
        """Return one side of the formula, checked again: its text may come from a model file."""
        side = getattr(_parse(self.text, self.variables), name)
        _check_factors(side, columns, self._what)
        return side

    def _evaluate(self, side: Any, frame: Any) -> Any:
        """Return the columns of one side, with the levels and states of the fit."""
        formulaic = import_extra("formulaic", "formula", "a formula")
        kinds = import_extra("formulaic.parser.types", "formula", "a formula").Factor.Kind
        encoders = {
            expr: (
                kinds.NUMERICAL if levels is None else kinds.CATEGORICAL,
                {} if levels is None else {"categories": list(levels)},
            )
            for expr, levels in self.levels.items()
        }
        states = copy.deepcopy(dict(self.transforms))
        spec = formulaic.ModelSpec(side, transform_state=states, encoder_state=encoders)
        with _explaining(self._what):
            return _materialize(spec, frame)


def read_formula(
    text: str, data: Any, aside: Collection[str] = ()
) -> tuple[FormulaColumns, np.ndarray, np.ndarray]:
    """Return the columns that a formula makes of a frame, their values, and the labels.

    Parameters
    ----------
    text : str
        A formula such as ``"y ~ x1 * C(x2)"``. ``.`` is every column but the label and those
        `aside`.
    data : frame or mapping of str to array-like
        The rows and the labels.
    aside : collection of str
        Columns that ``.`` does not stand for, such as that of bags.

    Returns
    -------
    columns : FormulaColumns
        How the columns are made.
    X : ndarray of shape (n, d)
        Their values, without the intercept.
    y : ndarray of shape (n,)
        The labels, transformed as the formula says.

    Raises
    ------
    InputError
        For formulas that are none, unknown columns and functions, and missing values.
    """
    what, frame = f"formula {quote(text)}", read_frame(data)
    parsed = _parse(text, [name for name in frame.columns if name not in aside])
    for side in (parsed.lhs, parsed.rhs):
        _check_factors(side, list(frame.columns), what)
    factors = [factor for term in parsed.lhs for factor in term.factors]
    if len(factors) != 1:
        raise InputError(f"{what}: the left side must be one label, such as y or log(y)")
    of_label, of_rows = (_list_variables(side, frame.columns) for side in (parsed.lhs, parsed.rhs))
    formulaic = import_extra("formulaic", "formula", "a formula")
    with _explaining(what):
        labels = _materialize(formulaic.ModelSpec(parsed.lhs), take_columns(frame, of_label, what))
        matrix = _materialize(formulaic.ModelSpec(parsed.rhs), take_columns(frame, of_rows, what))
    if len(labels.columns) != 1 or not of_label:
        raise InputError(
            f"{what}: the label must be numbers, and {quote(factors[0].expr)} is a factor"
        )
    features = _drop_intercept(matrix)
    if not len(features.columns):
        raise InputError(f"{what}: the right side has no feature; name a column")
    spec, factor = matrix.model_spec, factors[0]
    is_transformed = factor.eval_method.value == "python"
    states = {**spec.transform_state, **labels.model_spec.transform_state}
    columns = FormulaColumns(
        text=text,
        label=str(factor.expr),
        names=tuple(_name_columns(spec)),
        sources=tuple(_list_sources(spec)),
        variables=tuple(of_rows),
        has_intercept=_INTERCEPT in matrix.columns,
        levels={expr: _find_levels(state) for expr, state in spec.encoder_state.items()},
        transforms=_plain(states),
        label_variables=tuple(of_label),
        is_transformed=is_transformed,
        has_logs=is_transformed and calls_logarithm(_clean(factor.expr)[0]),
        library=find_library(data),
    )
    return columns, _as_numbers(features, what), _as_numbers(labels, what)[:, 0]


def read_terms(text: str, data: Any) -> tuple[np.ndarray, list[str]]:
    """Return the values of a formula without a label, and the columns that it uses.

    Parameters
    ----------
    text : str
        A formula such as ``"log(x1) + C(x2)"``.
    data : frame or mapping of str to array-like
        Where its columns are.

    Returns
    -------
    values : ndarray of shape (n, k)
        The columns, without the intercept.
    variables : list of str
        The names of those of `data` that they are made of.

    Raises
    ------
    InputError
        For formulas that are none, unknown columns and functions, and missing values.
    """
    what, frame = f"formula {quote(text)}", read_frame(data)
    formulaic = import_extra("formulaic", "formula", "a formula")
    with _explaining(what):
        side = formulaic.Formula(text)
    if hasattr(side, "lhs") or not hasattr(side, "__iter__"):
        raise InputError(f"{what}: write columns without a label, such as 'x1 + C(x2)'")
    _check_factors(side, list(frame.columns), what)
    variables = _list_variables(side, frame.columns)
    with _explaining(what):
        matrix = _materialize(formulaic.ModelSpec(side), take_columns(frame, variables, what))
    features = _drop_intercept(matrix)
    if not len(features.columns):
        raise InputError(f"{what}: there is no column; name one")
    return _as_numbers(features, what), variables


def list_variables(text: str, names: Collection[str], aside: Collection[str] = ()) -> list[str]:
    """Return the columns that a formula uses, of those with these names.

    Parameters
    ----------
    text : str
        The formula.
    names : collection of str
        All columns.
    aside : collection of str
        Columns that ``.`` does not stand for.

    Returns
    -------
    list of str
        The columns of both sides, in the order of `names`.

    Raises
    ------
    InputError
        For formulas that are none, and unknown columns and functions.
    """
    parsed = _parse(text, [name for name in names if name not in aside])
    used: list[str] = []
    for side in (parsed.lhs, parsed.rhs):
        _check_factors(side, list(names), f"formula {quote(text)}")
        used += _list_variables(side, list(names))
    return [name for name in names if name in used]


def _parse(text: str, available: Collection[str]) -> Any:
    """Return the formula as formulaic parses it; refuse one without two sides."""
    formulaic = import_extra("formulaic", "formula", "a formula")
    what = f"formula {quote(text)}"
    with _explaining(what):
        parsed = formulaic.Formula(
            text, _context={"__formulaic_variables_available__": list(available)}
        )
    sides = getattr(parsed, "_structure", {})
    if set(sides) != {"lhs", "rhs"} or any(isinstance(side, tuple) for side in sides.values()):
        raise InputError(f"{what}: write a label and features, such as 'y ~ x1 + x2'")
    return parsed


def _check_factors(side: Any, columns: Collection[str], what: str) -> None:
    """Refuse factors that name anything but columns and known functions."""
    for term in side:
        for factor in term.factors:
            if factor.eval_method.value == "lookup":
                check_column(factor.expr, columns, what)
            elif factor.eval_method.value == "python":
                code, aliases = _clean(factor.expr)
                for name in aliases.values():
                    check_column(name, columns, what)
                check_expression(code, [*columns, *aliases], what)


def _clean(expr: str) -> tuple[str, dict[str, str]]:
    """Return an expression with identifiers for names in backticks, and the names by identifier."""
    code = import_extra("formulaic.utils.code", "formula", "a formula")
    aliases: dict[str, str] = {}
    return code.sanitize_variable_names(expr, {}, aliases), aliases


def _list_variables(side: Any, columns: Collection[str]) -> list[str]:
    """Return the columns that the terms use, in the order of the frame."""
    used = {name for term in side for factor in term.factors for name in _find_names(factor)}
    return [name for name in columns if name in used]


def _find_names(factor: Any) -> set[str]:
    """Return the names in a factor: columns, and perhaps functions."""
    if factor.eval_method.value == "lookup":
        return {factor.expr}
    if factor.eval_method.value != "python":
        return set()
    code, aliases = _clean(factor.expr)
    tree = ast.parse(code, mode="eval")
    return {aliases.get(node.id, node.id) for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _materialize(spec: Any, frame: Any) -> Any:
    """Evaluate a formula on a frame; it can call the listed functions only."""
    materializers = import_extra("formulaic.materializers", "formula", "a formula")
    functions = {name: getattr(np, name) for name in ELEMENTWISE}
    made = materializers.PandasMaterializer(frame, context=functions)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A logarithm of zero is refused later, with its row.
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        with np.errstate(all="ignore"):
            return made.get_model_matrix(spec, na_action="ignore", output="pandas")


def _drop_intercept(matrix: Any) -> Any:
    return matrix[[name for name in matrix.columns if name != _INTERCEPT]]


@contextmanager
def _explaining(what: str) -> Iterator[None]:
    """Raise errors of formulaic as an `InputError` of one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as exc:
        reason = str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
        if type(exc).__name__ == "DataMismatchWarning":
            reason = "a factor has values that are not among its levels: name all of them"
        if "beyond upper and/or lower bounds" in reason:
            reason = (
                "a spline ends where the data fitted end, and a value lies beyond: write "
                "extrapolation='clip' or 'extend' in its brackets, or leave such rows out"
            )
        raise InputError(f"{what}: {shorten(reason, 300)}") from exc


def _as_numbers(matrix: Any, what: str) -> np.ndarray:
    """Return a matrix of finite numbers; refuse others with their first row."""
    values = np.ascontiguousarray(matrix.to_numpy(dtype=float))
    wrong = ~np.isfinite(values)
    if wrong.any():
        j = int(np.argmax(wrong.any(axis=0)))
        row, n = int(np.argmax(wrong[:, j])), int(wrong[:, j].sum())
        rows = "1 row" if n == 1 else f"{n} rows"
        raise InputError(
            f"{what}: {shorten(matrix.columns[j])} has no finite value in {rows} (first: row "
            f"{row}): drop such rows with their labels, or use another transformation"
        )
    return values


def _check_kinds(frame: Any, side: Any, levels: Mapping[str, Any], what: str) -> None:
    """Refuse text where the fit has numbers, and levels that were not in the fit."""
    for factor in {factor for term in side for factor in term.factors}:
        names = [name for name in frame.columns if name in _find_names(factor)]
        is_plain = factor.eval_method.value == "lookup"
        if factor.expr not in levels or len(names) != 1:
            continue
        column, known = frame[names[0]], levels[factor.expr]
        if known is None:
            if is_plain and column.dtype.kind not in "biuf":
                raise InputError(
                    f"{what}: column {quote(names[0])} holds text, for instance "
                    f"{quote(column.iloc[0])}, where the fit has numbers: make it numbers"
                )
        elif is_plain or _FACTOR.match(factor.expr):
            _check_levels(column.tolist(), names[0], known, what)


def _check_levels(values: list[Any], name: str, known: list[Any], what: str) -> None:
    """Refuse a level that was not in the fit."""
    seen = set(known)
    for row, value in enumerate(values):
        if value not in seen:
            shown = ", ".join(quote(each, 30) for each in known[:SHOWN_NAMES])
            more = ", …" if len(known) > SHOWN_NAMES else ""
            raise InputError(
                f"{what}: column {quote(name)} holds {quote(value)} in row {row}, a level that "
                f"the fit has not seen (known: {shown}{more}): leave such rows out, or fit again "
                "with them"
            )


def _name_columns(spec: Any) -> Iterator[str]:
    """Yield the names of columns, without the coding of factors where they remain unique."""
    names = [name for name in spec.column_names if name != _INTERCEPT]
    short = names
    for expr in spec.encoder_state:
        found = _FACTOR.match(expr)
        if found:
            short = [name.replace(expr, f"C({found[1]})") for name in short]
    return iter(short if len(set(short)) == len(short) else names)


def _list_sources(spec: Any) -> Iterator[str]:
    """Yield for each column the columns of the frame that it is made of."""
    for row in spec.structure:
        names = sorted({str(each) for each in spec.term_variables[row.term] if _is_data(each)})
        for name in row.columns:
            if name != _INTERCEPT:
                yield ":".join(names) or name


def _is_data(variable: Any) -> bool:
    return "value" in {str(getattr(role, "value", role)) for role in variable.roles}


def _find_levels(state: tuple[Any, dict[str, Any]]) -> list[Any] | None:
    """Return the levels of a factor; None for numbers."""
    kind, coded = state
    if kind.value != "categorical":
        return None
    return [each.item() if isinstance(each, np.generic) else each for each in coded["categories"]]


def _plain(state: Any) -> Any:
    """Return the state of transformations as Python numbers, lists and dictionaries."""
    if isinstance(state, Mapping):
        return {key: _plain(each) for key, each in state.items()}
    if isinstance(state, np.generic):
        return state.item()
    if isinstance(state, list | tuple):
        return [_plain(each) for each in state]
    return state
