"""The bags of a fit as pictures see them: predictions and labels as two weighted samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from unshuffle.answers.drawing import thin
from unshuffle.answers.result import Fit
from unshuffle.core.bags import Bags
from unshuffle.core.products import multiply, predict_rows
from unshuffle.errors import shorten

# Atoms that stand for the predictions of a bag, far closer than the noise; labels beyond the second
# number are told by as many of their quantiles.
N_ATOMS, _MOST_LABELS = 256, 4000


@dataclass(frozen=True, eq=False)
class BagView:
    """One bag: its name, predictions z and labels y with their masses, and its mean row."""

    name: str
    z: np.ndarray
    z_masses: np.ndarray
    y: np.ndarray
    y_masses: np.ndarray
    row: np.ndarray

    @property
    def n_rows(self) -> float:
        """Number of rows."""
        return float(self.z_masses.sum())

    @property
    def n_labels(self) -> float:
        """Number of labels."""
        return float(self.y_masses.sum())

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
        return self.z if len(self.z) <= N_ATOMS and _is_even(self.z_masses) else self.thinned

    @property
    def thinned(self) -> np.ndarray:
        """Predictions at even shares of their mass."""
        return thin(self.z, self.z_masses, N_ATOMS)


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
        BagView(shorten(name, 20), z[at], ones[at], y[at], ones[at], X[at].mean(axis=0))
        for name, at in members.items()
    ]


def view_bags(found: Fit, bags: Bags) -> list[BagView]:
    """Return bags that have no names, and bins as points."""
    z = predict_rows(bags.X, found.coef) + found.intercept
    labels, masses = bags.labels.points, bags.rows.masses
    views = []
    for r, n in enumerate(bags.rows.totals):
        rows = slice(bags.rows.offsets[r], bags.rows.offsets[r + 1])
        items = slice(labels.offsets[r], labels.offsets[r + 1])
        mean = np.average(bags.X[rows], axis=0, weights=masses[rows])
        name = f"{r + 1} ({n:g} rows)"
        views.append(
            BagView(name, z[rows], masses[rows], labels.values[items], labels.masses[items], mean)
        )
    return views


def largest(views: list[BagView], n_shown: int) -> list[BagView]:
    """Return the largest bags, in the order given."""
    ranked = sorted(range(len(views)), key=lambda r: -views[r].n_labels)[:n_shown]
    return [views[r] for r in sorted(ranked)]


def shift_of(found: Fit, view: BagView) -> float:
    """Return what a bag's labels lie above its predictions where bags are offset, else 0."""
    offsets = found.offsets
    has_offset = offsets is not None and offsets.probability >= 0.5
    return view.mean_y - view.mean_z if has_offset else 0.0


def place_labels(found: Fit, view: BagView) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of labels in their bag's predicted law, uniform if the model is right."""
    y, masses = view.y, view.y_masses
    if len(y) > _MOST_LABELS:
        y = thin(y, masses, _MOST_LABELS)
        masses = np.full(len(y), view.n_labels / len(y))
    atoms = view.atoms + shift_of(found, view)
    sigma = max(found.noise or 0.0, 1e-12 * max(float(np.ptp(view.y)), 1e-300))
    shares = np.full(len(atoms), 1 / len(atoms))
    return multiply(ndtr((y[:, None] - atoms) / sigma), shares), masses


def _is_even(masses: np.ndarray) -> bool:
    return bool((masses == masses[0]).all())
