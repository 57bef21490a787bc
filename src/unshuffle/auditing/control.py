"""The attack on control rows (Giomi et al. 2023), which are left out of the release."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unshuffle.auditing.releases import Release
from unshuffle.auditing.scales import Scale
from unshuffle.data.bags import make_bags
from unshuffle.errors import InputError
from unshuffle.options import FitOptions
from unshuffle.results.fit import fit_bags
from unshuffle.results.matching import match_labels

# One row in so many is left out.
_EVERY = 4


@dataclass(frozen=True, eq=False)
class Control:
    """Matches of an outsider for rows that are not in the release.

    `is_right` says of each control row whether the label picked equals its own, `probability` how
    probable the outsider thinks that, and `gap` is the root mean square distance of the label
    picked from its own.
    """

    is_right: np.ndarray
    probability: np.ndarray | None
    gap: float

    @property
    def n(self) -> int:
        """Number of control rows."""
        return len(self.is_right)

    def count_right(self, at_least: float) -> int:
        """Return how many labels are right, with at least this probability if there are any."""
        if self.probability is None:
            return int(self.is_right.sum())
        return int((self.is_right & (self.probability >= at_least)).sum())


NO_CONTROL = Control(np.zeros(0, dtype=bool), None, float("nan"))


def choose_control(groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the control rows: every fourth by bag, in random order inside; no bag is emptied."""
    order = np.lexsort((rng.random(len(groups)), groups))
    chosen = order[int(rng.integers(_EVERY)) :: _EVERY]
    sizes = np.bincount(groups)
    left_out = np.bincount(groups[chosen], minlength=len(sizes))
    return np.sort(chosen[(left_out < sizes)[groups[chosen]]])


def attack_control(
    release: Release, scale: Scale, y: np.ndarray, options: FitOptions, seed: int
) -> Control:
    """Release all but the control rows, and attack these as if they were in it.

    An outsider who takes a person for one of a bag matches that person among its rows. So control
    rows take the place of as many released rows of their bag, which are drawn at random. `y` are
    the labels before any were changed. Too few rows for a fit leave no control.
    """
    rng = np.random.default_rng([seed, len(y)])
    control = choose_control(release.groups, rng)
    kept = np.setdiff1d(np.arange(len(y)), control)
    if not len(control) or len(kept) < release.X.shape[1] + 3:
        return NO_CONTROL
    labels = scale.transform(release.y)
    groups = np.unique(release.groups[kept], return_inverse=True)[1]
    try:
        bags = make_bags(release.X[kept], labels[kept], groups)
        found = fit_bags(bags, replace(options, n_jobs=1), rng)
    except InputError:  # what is left is constant, or has too few rows for its method
        return NO_CONTROL
    places = _replace_rows(release.groups, kept, control, rng)
    bags = make_bags(release.X[places], labels[kept], groups)
    match = match_labels(bags, found.coef, found.intercept, found.posterior)
    is_control = np.isin(places, control)
    people = places[is_control]
    picked = release.y[kept[match.order[is_control]]]
    given = match.probability
    return Control(
        is_right=picked == release.y[people],
        probability=None if given is None else given[is_control],
        gap=float(np.sqrt(np.mean((picked - y[people]) ** 2))),
    )


def _replace_rows(
    groups: np.ndarray, kept: np.ndarray, control: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the rows kept, some of which make room for the control rows of their bag."""
    places = kept.copy()
    for r in np.unique(groups[control]):
        own = control[groups[control] == r]
        room = np.flatnonzero(groups[kept] == r)
        drawn = rng.permutation(room)[: len(own)]
        places[drawn] = own[: len(drawn)]
    return places
