"""Remedies of a misfit that apply to the data: transformations and new columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unshuffle.core.solution import CURVED, HETEROSCEDASTIC, OFFSETS, OTHER_DISTRIBUTION
from unshuffle.data.products import FLAT
from unshuffle.errors import shorten
from unshuffle.formatting import list_names

if TYPE_CHECKING:
    from unshuffle.results.verdict import Facts


def find_collinear(gram: np.ndarray) -> tuple[int, ...]:
    """Return the columns that depend linearly on others, given their correlation matrix.

    >>> find_collinear(np.array([[1.0, 0.0, 0.6], [0.0, 1.0, 0.8], [0.6, 0.8, 1.0]]))
    (0, 1, 2)
    >>> find_collinear(np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    ()
    """
    varied = np.flatnonzero(np.diag(gram) > 0)
    values, axes = np.linalg.eigh(gram[np.ix_(varied, varied)])
    parts = np.sqrt((axes[:, values < FLAT] ** 2).sum(axis=1))
    # A column takes part in a linear dependence from this coefficient on, in a unit null vector.
    return tuple(varied[parts > 1e-4].tolist())


def find_two_valued(
    means: np.ndarray, sds: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[int, ...]:
    """Return the columns of two values, for which var(x) = (mean − min)(max − mean).

    For all others the variance is smaller (Bhatia and Davis 2000).

    >>> zero, one = np.zeros(2), np.ones(2)
    >>> find_two_valued(np.array([0.2, 0.2]), np.array([0.4, 0.3]), zero, one)
    (0,)
    """
    # Divided by the range, whose square could overflow.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        share = (means - low) / (high - low)
        gap = share * (1.0 - share) - (sds / (high - low)) ** 2
    return tuple(np.flatnonzero(np.abs(gap) < FLAT).tolist())


def find_remedy(misfits: Sequence[str], facts: Facts) -> str | None:
    """Return one remedy of a misfit that applies to these data; None where there is none."""
    ways = (way for kind in misfits for way in _list_remedies(kind, facts))
    return next(ways, None)


def _list_remedies(kind: str, facts: Facts) -> Iterator[str]:
    """Yield remedies of one kind of misfit, the most general last."""
    if kind == OFFSETS:
        yield "a column that says what the bags differ in"
    if kind in (CURVED, HETEROSCEDASTIC):
        if facts.has_positive_labels and not facts.has_logs:
            yield "the logarithm of the label"
        if kind == CURVED:
            yield from _name_columns(facts)
        yield "another transformation of the label"
    if kind == OTHER_DISTRIBUTION:
        yield "a look at the residuals of a few linked pairs"


def _name_columns(facts: Facts) -> Iterator[str]:
    """Yield new columns that make the mean nonlinear; a column of two values has no new square."""
    flat = {*facts.two_valued, *(j for j, _ in facts.constants)}
    curved = [j for j in range(len(facts.scales)) if j not in flat]
    if len(curved) == len(facts.scales):
        yield "squares of the columns"
    elif curved:
        names = [shorten(facts.names[j]) for j in curved]
        yield f"squares of {list_names(names)}"
    elif len(facts.two_valued) > 1:
        yield "products of the columns"


def advise_on_collinear(facts: Facts) -> str:
    """Say which columns depend on each other; empty where none do."""
    if not facts.collinear:
        return ""
    names = [shorten(facts.names[j]) for j in facts.collinear]
    return f"leaving out one of {list_names(names)}, which are collinear"
