"""Where the histograms of some points lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np


@dataclass(frozen=True, eq=False)
class PointGrid:
    """Where the histograms of some points lie: see `kernels.fill_sums`."""

    weights: np.ndarray
    curves: np.ndarray
    log_sigmas: np.ndarray
    per_cell: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    lows: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    tails: np.ndarray
    units: np.ndarray

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def lengths(self) -> np.ndarray:
        """Cells of every point."""
        return np.asarray((self.sizes + 2 * self.tails).sum(axis=1))

    def part(self, points: slice) -> PointGrid:
        """Return some of the points."""
        return PointGrid(*(getattr(self, name)[points] for name in self.__dataclass_fields__))

    def only(self, is_chosen: np.ndarray) -> PointGrid:
        """Return the points with cells for some of the bags: the others' rows are left out."""
        return replace(self, sizes=self.sizes * is_chosen, tails=self.tails * is_chosen)

    def divide(self, room: float) -> list[slice]:
        """Return bags that are filled one after another where the first point has no room."""
        starts, total = [0], 0
        for r, length in enumerate((self.sizes + 2 * self.tails)[0]):
            if total > 0 and total + length > room:
                starts.append(r)
                total = 0
            total += int(length)
        return [slice(*ends) for ends in pairwise([*starts, self.sizes.shape[1]])]

    @property
    def bases(self) -> np.ndarray:
        """Where each bag of each point begins."""
        lengths = self.sizes + 2 * self.tails
        ends = np.cumsum(lengths.ravel())
        return (ends - lengths.ravel()).reshape(lengths.shape)


def bend_range(
    middle: np.ndarray, reach: np.ndarray, curve: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return least and largest z + c z² for z within reach of a middle."""
    ends = [middle - reach, middle + reach]
    with np.errstate(divide="ignore"):
        turn = np.where(curve != 0.0, -0.5 / np.where(curve != 0.0, curve, 1.0), np.inf)
    ends.append(np.clip(turn, ends[0], ends[1]))
    values = np.stack([z + curve * z * z for z in ends])
    return values.min(axis=0), values.max(axis=0)
