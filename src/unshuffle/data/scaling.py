"""Standardisation: the units of the solvers, and the way back to the user's units.

Every column is divided by its spread, and centred when there is an intercept. The labels are
divided by theirs, and centred where the loss allows. A fit is then the same in any units, also at
1e±150.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unshuffle.data.bags import Bags
from unshuffle.data.blocks.first_pass import FirstPass
from unshuffle.data.products import multiply


@dataclass(frozen=True, eq=False)
class Scaling:
    """Standard units: columns (x − centre)/scale, labels (y − label_centre)/label_scale.

    A column without spread has weight 0 (`is_constant`); with an intercept the standardised
    problem carries a column of ones at the end.
    """

    centre: np.ndarray
    scale: np.ndarray
    label_centre: float
    label_scale: float
    has_intercept: bool

    @property
    def is_constant(self) -> np.ndarray:
        """Which columns have no spread."""
        return self.scale == 0

    @property
    def _factors(self) -> np.ndarray:
        """Weight in user's units per standard unit, feature by feature."""
        with np.errstate(divide="ignore"):
            return np.where(self.is_constant, 0.0, self.label_scale / self.scale)

    def to_user(self, w: np.ndarray) -> np.ndarray:
        """Turn standard weights (…, d) into the user's [features …, intercept]."""
        if not self.has_intercept:
            return w * self._factors
        features = w[..., :-1] * self._factors
        intercept = w[..., -1:] * self.label_scale + self.label_centre
        return np.concatenate(
            [features, intercept - multiply(features, self.centre)[..., None]], axis=-1
        )

    def to_standard(self, w: np.ndarray) -> np.ndarray:
        """Turn the user's [features …, intercept] into standard weights."""
        features = w[..., : len(self.scale)] * np.where(
            self.is_constant, 0.0, self.scale / self.label_scale
        )
        if not self.has_intercept:
            return features
        intercept = w[..., -1:] + multiply(w[..., :-1], self.centre)[..., None] - self.label_centre
        return np.concatenate([features, intercept / self.label_scale], axis=-1)

    def penalty_factors(self, power: int, degree: int) -> np.ndarray:
        """Turn a penalty on |user's weights|**power into one on standard weights.

        A loss of homogeneity `degree` shrinks by label_scale**degree in standard units, and the
        penalty must shrink with it: λ then keeps its meaning in the user's units.
        The intercept is never penalised.
        """
        # Units of the labels that cancel are never raised to a power, which could overflow.
        shared = min(power, degree)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            factors = np.where(
                self.is_constant,
                0.0,
                self.scale**-shared
                * self._factors ** (power - shared)
                / np.float64(self.label_scale) ** (degree - shared),
            )
        return np.append(factors, 0.0) if self.has_intercept else factors


def standardise(bags: Bags, has_intercept: bool, centre_labels: bool) -> tuple[Bags, Scaling]:
    """Return bags in standard units, with a last column of ones for an intercept."""
    X, stats = bags.X, bags.statistics
    # The points of bins have the variance inside bins.
    points = replace(bags, labels=bags.labels.points)
    y, point_stats = points.y, points.statistics if points.labels is not bags.labels else stats
    centre = stats.mean if has_intercept else np.zeros(bags.d)
    known = bags.known_means
    scale = np.array([_spread(X[:, j] - centre[j], stats.row_weights) for j in range(bags.d)])
    if known is not None:
        scale = np.hypot(scale, np.sqrt(known.column_variances()))
    # A spread of rounding errors around a large constant counts as zero.
    scale[scale <= 1e-14 * np.abs(centre)] = 0.0
    label_centre = stats.label_mean if centre_labels else 0.0
    if known is None:
        label_scale = _spread(y - label_centre, point_stats.label_weights)
    else:
        label_scale = known.label_spread(X - centre, y - label_centre, bags.sizes)
    if label_scale <= 1e-14 * abs(label_centre) or label_scale == 0.0:
        label_scale = abs(label_centre) or 1.0
    columns = np.empty((bags.n, bags.d + has_intercept), order="F")
    for j in range(bags.d):
        columns[:, j] = 0.0 if scale[j] == 0 else (X[:, j] - centre[j]) / scale[j]
    if has_intercept:
        columns[:, -1] = 1.0
    scaling = Scaling(centre, scale, label_centre, label_scale, has_intercept)
    standard = bags.mapped(columns, label_centre, label_scale)
    if known is not None:
        factors = np.divide(1.0, scale, out=np.zeros(bags.d), where=scale > 0)
        standard = replace(standard, known_means=known.scaled(factors, int(has_intercept)))
    return standard, scaling


def column_spreads(bags: Bags) -> np.ndarray:
    """Return the sd of every column, also where its square would overflow or underflow."""
    if bags.known_means is not None:
        weights, inside = bags.statistics.row_weights, bags.known_means.column_variances()
        spreads = [_spread(column - _mean(column, weights), weights) for column in bags.X.T]
        return np.asarray(np.hypot(spreads, np.sqrt(inside)))
    weights = bags.rows.masses / bags.rows.masses.sum() if bags.rows.has_masses else None
    return np.array([_spread(column - _mean(column, weights), weights) for column in bags.X.T])


def _mean(values: np.ndarray, weights: np.ndarray | None) -> float:
    return float(values.mean() if weights is None else (weights * values).sum())


def _spread(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the root mean square without overflow or underflow of the squares."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    squares = (values / largest) ** 2
    mean = np.mean(squares) if weights is None else (weights * squares).sum()
    return largest * float(np.sqrt(mean))


def standardise_pass(
    first: FirstPass, has_intercept: bool, centre_labels: bool | None = None
) -> Scaling:
    """Return the standard units of data in blocks."""
    centre = first.mean if has_intercept else np.zeros(len(first.base))
    scale = first.spreads(centre)
    scale[(scale <= 1e-14 * np.abs(centre)) | (first.reach == 0.0) & has_intercept] = 0.0
    is_centred = has_intercept if centre_labels is None else centre_labels
    label_centre = first.label_mean if is_centred else 0.0
    label_scale = first.label_spread(label_centre)
    if label_scale <= 1e-14 * abs(label_centre) or label_scale == 0.0:
        label_scale = abs(label_centre) or 1.0
    return Scaling(centre, scale, label_centre, label_scale, has_intercept)
