"""Checks of data, noise, offsets and penalties before a fit, and remarks on what was handled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unshuffle.data.bags import Bags
from unshuffle.data.pairing import Permutation
from unshuffle.data.scaling import Scaling
from unshuffle.errors import InputError, quote
from unshuffle.objectives.noise import Noise
from unshuffle.options import BagOffsets

# Largest moment of the noise in standard units: its square, and the squared slopes of a descent,
# stay far from overflow.
MOST_NOISE = 1e70
# Largest penalty factor in standard units, far from overflow at weights many orders too large.
MOST_PENALTY = 1e50
# Largest label of a loss in the user's units: sums of squares stay far from overflow.
MOST_LABEL = 1e140


def check_values(
    X: np.ndarray, y: np.ndarray, names: Sequence[str] | None = None, place: str = ""
) -> None:
    """Refuse anything that is not a finite number, and say in which row and column it is.

    `names` are those of the columns, `place` goes before the row ("bag 3, ").
    """
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise InputError(
            f"X holds {_name_value(X[row, column])} in column {_name_column(column, names)}, "
            f"{place}row {row}: drop the row or fill it in"
        )
    if not np.isfinite(y).all():
        row = np.flatnonzero(~np.isfinite(y))[0]
        raise InputError(
            f"y holds {_name_value(y[row])} in {place}row {row}: drop the label together with one "
            "row of its bag, or fill it in"
        )


def _name_column(column: int, names: Sequence[str] | None) -> str:
    """Return the name of a column, or its number where it has none."""
    return str(column) if names is None else quote(names[column])


def _name_value(value: float) -> str:
    """Return "NaN" or "infinity (inf)", the words that scikit-learn's checks look for."""
    return "NaN" if np.isnan(value) else "infinity (inf)"


def check_range(bags: Bags, names: Sequence[str] | None) -> None:
    """Refuse numbers whose sums would overflow."""
    check_sizes(np.abs(bags.X).max(axis=0), np.abs(bags.y).max(), bags.n, names)


def check_sizes(
    columns: np.ndarray, labels: float, n: int, names: Sequence[str] | None = None
) -> None:
    """Refuse columns and labels of these largest sizes if sums of n of them would overflow."""
    limit = np.finfo(float).max / (2 * n)
    for j, size in enumerate(columns):
        if size > limit:
            raise InputError(
                f"column {_name_column(j, names)} reaches {size:.1e}, whose sums overflow: rescale "
                f"it, for instance divide it by {size:.0e}"
            )
    if labels > limit:
        raise InputError(
            f"the labels reach {labels:.1e}, whose sums overflow: rescale y, for instance divide "
            f"it by {labels:.0e}"
        )


def check_scaling(scaling: Scaling, degree: int) -> None:
    """Refuse units in which the value or the weights overflow, before any work."""
    size = scaling.label_scale
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.float64(size) ** degree
        weights = scaling.to_user(np.ones(len(scaling.scale) + scaling.has_intercept))
    if not np.isfinite(value):
        raise InputError(
            f"the labels have a spread of {size:.1e}, whose power {degree} overflows: rescale y, "
            f"for instance divide it by {size:.0e}"
        )
    if not np.isfinite(weights).all():
        raise InputError(
            "the weights of these data overflow: rescale y and the columns of X to ordinary sizes"
        )


def check_labels_of_user(bags: Bags) -> None:
    """Refuse labels whose squares overflow where the loss keeps the user's units."""
    largest = float(np.abs(bags.y).max())
    if not largest <= MOST_LABEL:
        raise InputError(
            f"the labels reach {largest:.1e}, whose squares overflow, and a loss of a g of your "
            f"own keeps your units: rescale y, for instance divide it by {largest:.0e}"
        )


def scale_noise(noise: Noise, size: float) -> Noise:
    """Return noise in units of the labels' spread; refuse noise without a finite sd in them."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        try:
            found = noise.divided_by(size)
            is_finite = bool(np.isfinite(found.sd))
        except InputError:
            is_finite = False
        if not is_finite:
            raise InputError(
                f"noise with an sd of {noise.sd:.1e} has no finite size in units of the labels, "
                f"which are {size:.1e}: give the noise in the units of y, or rescale y"
            )
    return found


def scale_offsets(offsets: BagOffsets, size: float) -> BagOffsets:
    """Return bag offsets in units of the labels' spread; refuse an sd far beyond all labels."""
    with np.errstate(over="ignore"):
        largest = 0.0 if offsets.sd is None else float(np.float64(offsets.sd) / size)
    if not largest <= MOST_NOISE:
        raise InputError(
            f"bag_offsets has an sd of {offsets.sd:.1e}, which is {largest:.0e} times the size of "
            "the labels: give it in the units of y"
        )
    return offsets.divided_by(size)


def check_noise(noise: Noise, n_moments: int) -> None:
    """Refuse noise so much larger than the labels that the loss overflows, before any work."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.abs(noise.moments(n_moments)).max()
    if not largest <= MOST_NOISE:
        # A sum that overflows in both directions is NaN.
        size = f"{largest:.1e}" if largest < np.inf else "more than any number"
        raise InputError(
            f"noise has a moment of {size} in units of the labels' size, where a loss would "
            "overflow: give the noise in the units of y"
        )


def check_penalty(name: str, amount: float, factors: np.ndarray) -> None:
    """Refuse a penalty so large beside the loss that their sum overflows, before any work."""
    largest = factors.max(initial=0.0)
    if not largest <= MOST_PENALTY:
        raise InputError(
            f"{name} = {amount:g} is {largest:.0e} times the loss in the units of these data, and "
            "overflows: lower it, or rescale y and the columns of X to ordinary sizes"
        )


def make_remarks(
    bags: Bags,
    standard: Bags,
    scaling: Scaling,
    names: Sequence[str] | None = None,
    *,
    has_prior: bool = False,
) -> tuple[str, ...]:
    """Return remarks on data in memory: what was handled but should be known, in sentences.

    `has_prior` says that the method averages over a posterior, instead of one best answer.
    """
    useful = np.append(~scaling.is_constant, True)[: standard.d]
    return describe_data(
        scaling,
        standard.statistics.gram[np.ix_(useful, useful)],
        names,
        has_prior=has_prior,
        is_flat=np.ptp(bags.y) == 0,
        # Anchors were given and need no remark.
        n_single=_count_single(bags) - bags.n_anchors if bags.pairing == Permutation() else 0,
        n_bags=bags.n_bags,
    )


def _count_single(bags: Bags) -> int:
    """Return the number of bags of one row, known by its label."""
    if bags.known_means is None:
        return int((bags.sizes == 1).sum())
    return int((bags.known_means.counts == 1.0).sum())


def describe_data(
    scaling: Scaling,
    gram: np.ndarray,
    names: Sequence[str] | None,
    *,
    has_prior: bool,
    is_flat: bool,
    n_single: int,
    n_bags: int,
) -> tuple[str, ...]:
    """Return remarks on data, given the second moment of the columns that vary.

    `is_flat` says that every label is the same, `n_single` how many bags hold one row.
    """
    remarks = _describe_constant(np.flatnonzero(scaling.is_constant), names)
    rank = np.linalg.matrix_rank(gram, tol=1e-10, hermitian=True)
    if rank < len(gram):
        shown = (
            "among weights that predict the same the data cannot choose, only the prior does."
            if has_prior
            else "the weights shown are the smallest among all that predict the same."
        )
        remarks.append(f"the columns are collinear (rank {rank} of {len(gram)}): {shown}")
    if is_flat:
        # Without an intercept the level of the labels informs the weights.
        rest = ", so that the data say nothing about the weights" if scaling.has_intercept else ""
        remarks.append(f"every label is the same{rest}.")
    if n_single and n_bags > 1:
        remarks.append(
            "1 bag holds one row: it is used as a linked pair."
            if n_single == 1
            else f"{n_single} bags hold one row: they are used as linked pairs."
        )
    return tuple(remarks)


def _describe_constant(columns: np.ndarray, names: Sequence[str] | None) -> list[str]:
    """Return a sentence on the columns that do not vary, if there are any."""
    if not len(columns):
        return []
    which = ", ".join(_name_column(j, names) for j in columns[:5]) + (
        "…" if len(columns) > 5 else ""
    )
    if len(columns) == 1:
        return [
            f"column {which} is constant and gets weight 0: the data say nothing about it, so that "
            "it has no interval."
        ]
    return [
        f"columns {which} are constant and get weight 0: the data say nothing about them, so that "
        "they have no intervals."
    ]
