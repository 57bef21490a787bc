"""Bags for pictures: predictions and labels as two weighted samples, and offsets of bags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from unshuffle.data.bags import Bags
from unshuffle.data.products import multiply, predict_rows
from unshuffle.errors import shorten
from unshuffle.results.pictures.drawing import take_quantiles
from unshuffle.results.result import Fit

# Quantiles in place of the predictions of a bag, far closer to each other than the noise; and most
# labels, of which more are replaced by as many quantiles.
N_ATOMS, _MOST_LABELS = 256, 4000


@dataclass(frozen=True, eq=False)
class BagView:
    """One bag: its name, predictions z and labels y with their masses, and its mean row.

    Where only the mean label is known it stands for itself, and z for the mean prediction;
    `n_behind` is the number of labels behind it.
    """

    name: str
    z: np.ndarray
    z_masses: np.ndarray
    y: np.ndarray
    y_masses: np.ndarray
    row: np.ndarray
    n_behind: float | None = None

    @property
    def is_mean(self) -> bool:
        """Whether only the mean of the labels is known."""
        return self.n_behind is not None

    @property
    def n_rows(self) -> float:
        """Number of rows."""
        return float(self.z_masses.sum())

    @property
    def n_labels(self) -> float:
        """Number of labels, those behind a known mean counted."""
        return float(self.y_masses.sum()) if self.n_behind is None else self.n_behind

    @property
    def mean_z(self) -> float:
        """Mean of the predictions."""
        return float(np.average(self.z, weights=self.z_masses))

    @property
    def mean_y(self) -> float:
        """Mean of the labels."""
        return float(np.average(self.y, weights=self.y_masses))

    @property
    def atoms(self) -> np.ndarray:
        """Some hundred predictions of equal mass that stand for all."""
        return self.z if len(self.z) <= N_ATOMS and _is_even(self.z_masses) else self.quantiles

    @property
    def quantiles(self) -> np.ndarray:
        """Predictions at even shares of their mass."""
        return take_quantiles(self.z, self.z_masses, N_ATOMS)


def view_table(found: Fit, X: Any, y: Any, groups: Any = None) -> list[BagView]:
    """Return the bags of a table, in the order of their first rows."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    z = predict_rows(X, found.coef) + found.intercept
    if groups is None:
        members = {"all rows": np.arange(len(y))}
    else:
        rows: dict[Any, list[int]] = {}
        for place, name in enumerate(list(groups)):
            rows.setdefault(name, []).append(place)
        members = {name: np.array(places) for name, places in rows.items()}
    ones = np.ones(len(y))
    return [
        BagView(shorten(name, 40), z[at], ones[at], y[at], ones[at], X[at].mean(axis=0))
        for name, at in members.items()
    ]


def find_label_name(y: Any) -> str | None:
    """Return the name that a column of labels brings along, if it has one."""
    name = getattr(y, "name", None)
    return None if name is None else str(name)


def view_bags(found: Fit, bags: Bags, names: Sequence[object] | None = None) -> list[BagView]:
    """Return bags in the order in which they were given, and bins as points.

    `names` are in that order too; without them bags are numbered from 1.
    """
    z = predict_rows(bags.X, found.coef) + found.intercept
    labels, masses, known = bags.labels.points, bags.rows.masses, bags.known_means
    # Bags are in canonical order; the places of their rows give the order of the data.
    firsts = np.minimum.reduceat(bags.rows.order, bags.rows.offsets[:-1])
    views = []
    for place, r in enumerate(np.argsort(firsts)):
        rows = slice(bags.rows.offsets[r], bags.rows.offsets[r + 1])
        items = slice(labels.offsets[r], labels.offsets[r + 1])
        mean = np.average(bags.X[rows], axis=0, weights=masses[rows])
        name = shorten(place + 1 if names is None else names[place], 40)
        y, y_masses = labels.values[items], labels.masses[items]
        n_behind = float(known.counts[r]) if known is not None and known.is_mean[r] else None
        views.append(BagView(name, z[rows], masses[rows], y, y_masses, mean, n_behind))
    return views


@dataclass(frozen=True)
class BagOffset:
    """What the labels of a bag share beyond their rows, with a 95 % interval."""

    name: str
    estimate: float
    low: float
    high: float


def estimate_offsets(found: Fit, views: list[BagView]) -> list[BagOffset]:
    """Return the posterior of each bag's offset, if bags are offset at all; none without offsets.

    It is normal given the spread of offsets, the noise and the error of the mean prediction.
    """
    effects = found.effects
    if effects is None or effects.offset_sd == 0.0 or effects.offset_probability == 0.0:
        return []
    # `offset_sd` is a mean that includes "no offsets" as 0; tau is the sd where there are some.
    tau = effects.offset_sd / effects.offset_probability
    ends = mean_ends(found, views)
    error = np.zeros(len(views)) if ends is None else (ends[:, 1] - ends[:, 0]) / 3.92
    noise = (found.noise or 0.0) ** 2 / np.array([view.n_labels for view in views])
    variance = noise + error**2
    shrinkage = tau**2 / (tau**2 + variance)
    estimates = shrinkage * np.array([view.mean_y - view.mean_z for view in views])
    bars = 1.96 * np.sqrt(shrinkage * variance)
    return [
        BagOffset(view.name, float(estimate), float(estimate - bar), float(estimate + bar))
        for view, estimate, bar in zip(views, estimates, bars, strict=True)
    ]


def mean_ends(found: Fit, views: list[BagView]) -> np.ndarray | None:
    """Return 95 % intervals of the mean predictions; None where the method has none."""
    unsure = found.solution.uncertainty
    if unsure is None or not unsure.has_interval:
        return None
    ends = found.predict_interval(np.array([view.row for view in views]))
    return ends if np.isfinite(ends).all() else None


def largest(views: list[BagView], n_shown: int) -> list[BagView]:
    """Return the largest bags, in the order given."""
    ranked = sorted(range(len(views)), key=lambda r: -views[r].n_labels)[:n_shown]
    return [views[r] for r in sorted(ranked)]


def find_offset(found: Fit, view: BagView) -> float:
    """Return the mean label less the mean prediction where bags are offset, else 0."""
    effects = found.effects
    return view.mean_y - view.mean_z if effects is not None and effects.has_offsets else 0.0


def transform_labels(found: Fit, view: BagView) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability integral transform of labels (Rosenblatt 1952), and their masses.

    Each label goes to the value of its bag's predictive distribution function there: uniform if
    the model is right.
    """
    y, masses = view.y, view.y_masses
    if len(y) > _MOST_LABELS:
        y = take_quantiles(y, masses, _MOST_LABELS)
        masses = np.full(len(y), view.n_labels / len(y))
    atoms = view.atoms + find_offset(found, view)
    sigma = max(found.noise or 0.0, 1e-12 * max(float(np.ptp(view.y)), 1e-300))
    shares = np.full(len(atoms), 1 / len(atoms))
    return multiply(ndtr((y[:, None] - atoms) / sigma), shares), masses


def _is_even(masses: np.ndarray) -> bool:
    return bool((masses == masses[0]).all())
