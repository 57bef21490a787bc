"""What a solver returns: candidates best first, a status that is advice, and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np


class Status(Enum):
    """How a solver ended; the value is a sentence of advice."""

    EXACT = "The minimum is exact: a closed form or a search through every possibility."
    AGREED = "Several starts reached the best value: the minimum found is probably the lowest."
    LONELY = (
        "Only one start reached the best value, so a lower minimum may have been missed: "
        "raise n_starts and see whether the answer stays."
    )
    UNFINISHED = (
        "The best start was still improving when it stopped: raise tol, or scale the data "
        "so that no column dwarfs the others."
    )
    UNMET_MOMENTS = (
        "No real weights meet the moment conditions of these data; the nearest were taken: give "
        "the noise level if it is known, or use a method that does not need moments ('ls')."
    )


@dataclass(frozen=True, eq=False)
class Candidate:
    """One answer: its weights [features …, intercept], its value, and how many starts met there."""

    weights: np.ndarray
    value: float
    n_starts: int = 1
    evidence: float | None = None


@dataclass(frozen=True, eq=False)
class Solution:
    """Candidates best first, the status, and what the solver counted.

    `start_values` holds the final value of every start, best first, also of those that ended in
    a candidate not kept.
    """

    candidates: tuple[Candidate, ...]
    status: Status
    stats: Mapping[str, Any] = field(default_factory=dict)
    start_values: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def best(self) -> Candidate:
        """The candidate with the lowest value."""
        return self.candidates[0]

    @property
    def weights(self) -> np.ndarray:
        """The weights of the best candidate, the intercept last."""
        return self.best.weights

    @property
    def value(self) -> float:
        """The value of the best candidate."""
        return self.best.value

    def mapped(self, to_user: Any, value_scale: float) -> Solution:
        """Return the solution in other units."""
        candidates = tuple(
            replace(c, weights=to_user(c.weights), value=float(c.value * value_scale))
            for c in self.candidates
        )
        return replace(self, candidates=candidates, start_values=self.start_values * value_scale)


def merge_starts(
    weights: np.ndarray, values: np.ndarray, curvature: np.ndarray, distance: float
) -> tuple[Candidate, ...]:
    """Gather end points whose predictions agree into candidates, best first.

    Two end points are one answer when the root mean square difference of their predictions is
    below `distance` (in units of the labels' spread).
    """
    order = [s for s in np.argsort(values, kind="stable") if np.isfinite(values[s])]
    centres: list[int] = []
    counts: list[int] = []
    for s in order:
        if centres:
            gap = weights[centres] - weights[s]
            close = np.einsum("ij,jk,ik->i", gap, curvature, gap) < distance**2
            if close.any():
                counts[int(np.argmax(close))] += 1
                continue
        centres.append(s)
        counts.append(1)
    return tuple(
        Candidate(weights[s].copy(), float(values[s]), n)
        for s, n in zip(centres, counts, strict=True)
    )
