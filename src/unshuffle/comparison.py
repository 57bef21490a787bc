"""Comparison of all methods on the same data."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unshuffle.data.bags import Bags
from unshuffle.errors import InputError
from unshuffle.estimator import ShuffledLinearRegression
from unshuffle.methods import METHODS, as_strategy
from unshuffle.options import LINK_METHODS, FitOptions, check_mislinked, make_rng
from unshuffle.progress import Report, say_nothing
from unshuffle.results.fit import Fit, fit_bags
from unshuffle.scoring import measure_gap, sorted_error

if TYPE_CHECKING:
    from unshuffle.data.links import Links

# The default method, the methods that use links, and regressions that take all links as right.
_DEFAULT = "auto"
_LINKED = (_DEFAULT, *LINK_METHODS, "sampler")
_NAIVE = ("ols", "huber")


@dataclass(frozen=True, eq=False)
class Comparison:
    """The fit of one method.

    Attributes
    ----------
    method : str
        Name of the method.
    seconds : float
        Time of the fit.
    weights, intercept : ndarray, float or None
        Estimated coefficients; None if the method has no answer.
    intervals : ndarray or None
        A row (low, high) for each coefficient, the intercept last; None for methods without
        intervals. NaN stands for an end that does not exist.
    gap : float or None
        Root mean square gap of sorted labels and sorted predictions. Least squares minimises it,
        so it does not measure the error of the coefficients.
    error : float or None
        |w - w₀| / |w₀| in standard units w_j sd(x_j), where w₀ is least squares on the linked
        labels. It needs these.
    r2 : float or None
        Share of the variance of the linked labels that is explained.
    note : str
        Why the method has no answer.

    Examples
    --------
    >>> from unshuffle import make_shuffled
    >>> data = make_shuffled(60, 1, noise=0.1, bags=6, rng=0)
    >>> [found] = compare_methods(data.X, data.y, data.groups, methods=["ls"])
    >>> found.method, found.weights.shape, found.error is None
    ('ls', (1,), True)
    """

    method: str
    seconds: float
    weights: np.ndarray | None = None
    intercept: float | None = None
    intervals: np.ndarray | None = None
    gap: float | None = None
    error: float | None = None
    r2: float | None = None
    note: str = ""


def compare_methods(
    X: np.ndarray,
    y: np.ndarray,
    groups: Any = None,
    *,
    linked_y: np.ndarray | None = None,
    methods: Sequence[str] | None = None,
    anchors: Any = None,
    links: Links | None = None,
    level: float = 0.95,
    report: Report = say_nothing,
    **options: Any,
) -> Iterator[Comparison]:
    """Fit every method, or those named, one after the other.

    With `mislinked` or `links` the default comes first, then the adjusted equations where the rate
    is known, least squares ("ols") and Huber's regression ("huber") of the labels as they stand,
    and the methods that ignore links.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        The labels, in any order inside a bag.
    groups : sequence of n hashable labels, optional
        The bag of each row.
    linked_y : array-like of shape (n,), optional
        The label of each row, to measure the error.
    methods : sequence of str, optional
        Names of methods. Without them all are fitted but "exact", "sampler" and "certified" where
        there are too many rows for them.
    anchors : sequence, optional
        Pairs that are known, as in `ShuffledLinearRegression.fit`.
    links : Links, optional
        What is known of links, as in `ShuffledLinearRegression.fit`.
    level : float, default=0.95
        Probability of the intervals.
    report : callable, optional
        Called with the method that is fitted, and the share of methods done.
    **options
        The other options of `ShuffledLinearRegression`.

    Yields
    ------
    Comparison
        The fit of one method: coefficients, intervals, seconds, and error where it is known.

    Examples
    --------
    >>> from unshuffle import make_shuffled
    >>> data = make_shuffled(200, 2, noise=0.0, bags=4, rng=0)
    >>> rows = compare_methods(data.X, data.y, data.groups, linked_y=data.linked_y,
    ...                        methods=["ls", "means"], random_state=0)
    >>> [(row.method, round(row.error, 3)) for row in rows]
    [('ls', 0.0), ('means', 0.0)]
    """
    check_mislinked(options.get("mislinked"))
    mislinked = options.pop("mislinked", None)
    has_links = mislinked is not None or links is not None
    first = [_DEFAULT, *LINK_METHODS, *_NAIVE] if has_links else []
    if _is_open(mislinked, links):
        first = [name for name in first if name not in LINK_METHODS]
    for name in _report_each(methods or [*first, *_suitable(len(y))], report):
        if has_links and name == "huber":
            yield _compare_huber(X, y, groups, linked_y, bool(options.get("fit_intercept", True)))
            continue
        known = {**options, "mislinked": mislinked if name in _LINKED else None}
        used = links if name in _LINKED else None
        if has_links and name == "ols":
            known = {**options, "mislinked": 0.0}
        found = compare_one(name, X, y, groups, linked_y, anchors, used, level, known)
        yield replace(found, method=name) if name == "ols" else found


def _is_open(mislinked: Any, links: Links | None) -> bool:
    """Return whether the mismatch rate is to be estimated."""
    known = () if links is None else (links.rate, links.audit, links.probability)
    if any(each is not None for each in known):
        return False
    return mislinked is None or isinstance(mislinked, str)


def compare_bags(
    bags: Bags,
    *,
    methods: Sequence[str] | None = None,
    random_state: Any = None,
    level: float = 0.95,
    report: Report = say_nothing,
    **options: Any,
) -> Iterator[Comparison]:
    """Fit every method to bags whose rows and labels may differ in number.

    A method that needs one label for each row has a note instead. The other options are those of
    `FitOptions`.
    """
    for name in _report_each(methods or _suitable(bags.n), report):
        begin = time.perf_counter()
        try:
            found = fit_bags(bags, FitOptions(method=name, **options), make_rng(random_state))
        except InputError as exc:
            if name not in METHODS:
                raise
            yield Comparison(name, time.perf_counter() - begin, note=str(exc))
            continue
        seconds, ends = time.perf_counter() - begin, _find_intervals(found, level)
        gap = float(np.sqrt(measure_gap(bags, found.coef, found.intercept)))
        yield Comparison(name, seconds, found.coef, found.intercept, ends, gap)


def _report_each(names: Sequence[str], report: Report) -> Iterator[str]:
    """Yield the methods, and report each before it is fitted."""
    for place, name in enumerate(names):
        report(f"fitting by {name}, {place + 1} of {len(names)}", place / len(names))
        yield name


def _suitable(n: int) -> list[str]:
    """Return the methods that are fast enough for n rows, without choosers of other methods."""
    strategies = {name: as_strategy(method.strategy) for name, method in METHODS.items()}
    return [
        name
        for name, strategy in strategies.items()
        if strategy is not None and n <= (strategy.compared_rows or n)
    ]


def compare_one(
    name: str,
    X: np.ndarray,
    y: Any,
    groups: Any,
    linked_y: Any,
    anchors: Any,
    links: Links | None,
    level: float,
    options: dict[str, Any],
) -> Comparison:
    """Fit one method to linked or shuffled labels; errors of the method become its note."""
    is_naive = name == "ols" and options.get("mislinked") == 0.0
    model = ShuffledLinearRegression(method="auto" if is_naive else name, **options)
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y, groups=groups, anchors=anchors, links=links)
    except InputError as exc:
        if name not in METHODS:
            raise
        return Comparison(name, time.perf_counter() - begin, note=str(exc))
    seconds = time.perf_counter() - begin
    if model.mislinked is not None or links is not None:
        name = model.method_
    found = Comparison(name, seconds, intervals=_find_intervals(model.result_, level))
    return _measure(found, model, X, y, model.predict(X), groups, linked_y)


def _find_intervals(found: Fit, level: float) -> np.ndarray | None:
    """Return (low, high) of each coefficient, NaN for missing ends; None without intervals."""
    summary = found.summary(level)
    if not summary.has_intervals:
        return None
    return np.array([[row.low, row.high] for row in summary.rows], dtype=float)


def _compare_huber(
    X: np.ndarray, y: Any, groups: Any, linked_y: Any, fit_intercept: bool
) -> Comparison:
    """Fit Huber's regression (1964) to the linked labels, with columns and labels standardised."""
    from sklearn.linear_model import HuberRegressor

    begin = time.perf_counter()
    rows, labels = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    scale, size = np.maximum(rows.std(axis=0), 1e-300), max(float(labels.std()), 1e-300)
    centre = rows.mean(axis=0) if fit_intercept else np.zeros(rows.shape[1])
    model = HuberRegressor(alpha=0.0, max_iter=1000, fit_intercept=fit_intercept)
    try:
        model.fit((rows - centre) / scale, labels / size)
    except ValueError as exc:
        return Comparison("huber", time.perf_counter() - begin, note=str(exc))
    model.coef_ = model.coef_ * size / scale
    model.intercept_ = float(model.intercept_ * size - model.coef_ @ centre)
    found = Comparison("huber", time.perf_counter() - begin)
    z = rows @ model.coef_ + model.intercept_
    return _measure(found, model, rows, labels, z, groups, linked_y)


def _measure(
    found: Comparison, model: Any, X: np.ndarray, y: Any, z: Any, groups: Any, linked_y: Any
) -> Comparison:
    """Return the comparison with the coefficients of a model, its gap, and its error if known."""
    gap = float(np.sqrt(sorted_error(y, z, groups)))
    error, r2 = (None, None) if linked_y is None else _measure_error(model, X, z, linked_y)
    return replace(
        found, weights=model.coef_, intercept=model.intercept_, gap=gap, error=error, r2=r2
    )


def _measure_error(
    model: Any, X: np.ndarray, z: np.ndarray, linked_y: np.ndarray
) -> tuple[float | None, float | None]:
    """Return the error of the coefficients and the share of variance explained."""
    centred = X - X.mean(0) if model.fit_intercept else X
    reference = np.linalg.lstsq(centred, linked_y, rcond=None)[0]
    scale = X.std(0)
    size = np.linalg.norm(scale * reference)
    error = float(np.linalg.norm(scale * (model.coef_ - reference)) / size) if size > 0 else None
    spread = float(np.var(linked_y))
    return error, 1 - float(np.mean((linked_y - z) ** 2)) / spread if spread > 0 else None
