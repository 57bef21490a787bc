"""Where the histograms of some points lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import floor, log2
from typing import Protocol

import numpy as np

from unshuffle.data.products import multiply
from unshuffle.kernels.filling import TAIL
from unshuffle.model.nodes import FINE_PER_SIGMA
from unshuffle.model.points import Parameters

# The even cells of a bag's predictions reach so many of their sds to either side; further out they
# widen. At 10 no normal and no exponential column leaves them.
_WINDOW = 10.0
# Even cells of a point in all bags: noise below a part of all that (1 % of the labels' spread with
# 20 bags) gets coarser cells. Draws from the prior would otherwise take hundreds of megabytes.
_MOST_CELLS = 200_000


@dataclass(frozen=True, eq=False)
class PointGrid:
    """Where the histograms of some points lie: see `kernels.fill_cells`."""

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

    def part(self, points: slice, bags: slice | None = None) -> PointGrid:
        """Return some of the points, with cells for some of the bags."""
        part = PointGrid(*(getattr(self, name)[points] for name in self.__dataclass_fields__))
        n_bags = self.sizes.shape[1]
        if bags is None or (bags.start == 0 and bags.stop == n_bags):
            return part
        numbers = np.arange(n_bags)
        return part.only((numbers >= bags.start) & (numbers < bags.stop))

    def only(self, is_chosen: np.ndarray) -> PointGrid:
        """Return the points with cells for some of the bags: the others' rows are left out."""
        return replace(self, sizes=self.sizes * is_chosen, tails=self.tails * is_chosen)

    def divide(self, room: float, most: float) -> list[tuple[slice, slice]]:
        """Return which points are filled at once, and which of their bags.

        As many points as have room; one that has more than `most` is filled some bags at a time.
        """
        fillings, start, lengths = list[tuple[slice, slice]](), 0, self.lengths
        while start < len(self):
            fits = int(np.searchsorted(np.cumsum(lengths[start:]), room, side="right"))
            points = slice(start, min(start + max(fits, 1), len(self)))
            parts = [slice(0, self.sizes.shape[1])]
            if lengths[points].max() > most:
                parts = self.part(points)._divide_bags(most)
            fillings += [(points, bags) for bags in parts]
            start = points.stop
        return fillings

    def _divide_bags(self, room: float) -> list[slice]:
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


class Moments(Protocol):
    """Sizes and moments of bags, and the covariance of all columns."""

    @property
    def sizes(self) -> np.ndarray: ...
    @property
    def row_means(self) -> np.ndarray: ...
    @property
    def row_squares(self) -> np.ndarray: ...
    @property
    def covariance(self) -> np.ndarray: ...


def lay_out(params: Parameters, within_bag: Moments) -> PointGrid:
    """Choose the cells of every bag's predictions at every point."""
    sizes = np.maximum(within_bag.sizes, 1.0)
    w, log_sigmas, curves = params.w, params.log_sigmas, params.curves
    straight = multiply(w, within_bag.row_means.T)
    squares = np.einsum("rjk,pj,pk->pr", within_bag.row_squares, w, w)
    sds = np.sqrt(np.maximum(squares - straight**2, 0.0))
    means = straight + curves[:, None] * squares
    reach = np.minimum(_WINDOW, np.sqrt(sizes)) * sds
    low, high = bend_range(straight, reach, curves[:, None])
    most = max(_MOST_CELLS / len(sizes), 1000.0) / np.maximum((high - low).max(axis=1), 1e-9)
    per_cell = np.minimum(FINE_PER_SIGMA / np.exp(log_sigmas), most)
    lows = np.floor((low - means) * per_cell[:, None]) - 1.0
    counts = np.ceil((high - means) * per_cell[:, None]) + 1.0 - lows
    # No row lies further from the mean than √n sds, and its square no further than n.
    farthest = np.sqrt(sizes) * sds
    farthest = farthest + np.abs(curves[:, None]) * (farthest + np.abs(straight)) ** 2
    beyond = np.log1p(farthest * per_cell[:, None] / TAIL)
    total = params.signals
    largest = np.maximum(1.0 + 2.0 * np.abs(curves) * np.sqrt(total), total)
    n = float(sizes.sum()) * max(1.0, float(np.einsum("jj->j", within_bag.covariance).max()))
    units = np.array([2.0 ** floor(60.0 - log2(n * each)) for each in largest])
    return PointGrid(
        weights=w,
        curves=curves,
        log_sigmas=log_sigmas,
        per_cell=per_cell,
        means=means,
        squares=squares,
        lows=lows,
        starts=means * per_cell[:, None] + lows,
        sizes=counts.astype(np.int64),
        tails=(np.ceil(TAIL * beyond) + 1).astype(np.int64),
        units=units,
    )
