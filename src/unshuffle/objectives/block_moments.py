"""Self-moments and bag means of data in blocks, in standard units, from one pass over the rows.

Sums are of whole numbers, as in `first_pass`: multiples of a fraction of the largest monomial that
the columns' extremes allow. Any blocks in any order therefore give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2
from typing import Any

import numpy as np

from unshuffle import kernels
from unshuffle.data.blocks.first_pass import FirstPass
from unshuffle.data.blocks.sources import Block
from unshuffle.data.scaling import Scaling
from unshuffle.data.statistics import Statistics
from unshuffle.objectives import moments
from unshuffle.objectives.losses import Moments
from unshuffle.objectives.noise import Noise
from unshuffle.objectives.penalties import Penalty
from unshuffle.objectives.problem import Evaluate, Objective, evaluate_tensors
from unshuffle.options import BagOffsets
from unshuffle.progress import Report, say_nothing


@dataclass(frozen=True, eq=False)
class MomentBags:
    """Moments of bags, for solvers that need no rows; the last weight is the intercept.

    `tensors` (R, monomials) are the means of every monomial of the columns, `label_moments` (R, K)
    those of the powers of the labels.
    """

    statistics: Statistics
    monomials: moments.Monomials
    tensors: np.ndarray
    label_moments: np.ndarray
    # The mean square of the labels of each bag.
    label_squares: np.ndarray
    # Values of label cells, whose weights the statistics know.
    y: np.ndarray

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.statistics.n.sum())

    @property
    def d(self) -> int:
        """Number of weights."""
        return len(self.statistics.mean)

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.statistics.n)

    def bag_means(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean row (R, d) and the mean label (R,) of every bag."""
        return self.statistics.row_means, self.statistics.label_means


@dataclass(frozen=True, eq=False)
class MomentObjective(Objective):
    """The moment loss of data in blocks, from moments alone."""

    bags: MomentBags

    @cached_property
    def _evaluate(self) -> Evaluate:
        bags, loss = self.bags, self.loss
        assert isinstance(loss, Moments)  # other losses look at rows
        n_moments = loss.n_moments(bags.d, bags.n_bags)
        return evaluate_tensors(
            bags.tensors, bags.monomials, loss.factors(n_moments),
            moments.mix_noise(n_moments, self.noise), bags.label_moments,
        )  # fmt: skip

    @cached_property
    def sphere(self) -> moments.MomentSphere:
        """The weights that meet the first two pooled moments."""
        stats, label_squares = self.bags.statistics, self.bags.label_squares

        def square_rows(centre: np.ndarray, target: float) -> float:
            across = float(centre @ stats.gram @ centre)
            return across - 2.0 * target * float(stats.mean @ centre) + target**2

        def square_labels(target: float) -> float:
            square = float(stats.shares @ label_squares)
            return square - 2.0 * target * stats.label_mean + target**2

        return moments.find_sphere(stats, self.noise, square_rows, square_labels)


@dataclass(frozen=True, eq=False)
class BlockProblem:
    """A problem whose data are read in blocks: sums of the first pass, and the scaling of columns.

    Noise, offsets and penalty are in standard units.
    """

    first: FirstPass
    scaling: Scaling
    noise: Noise | None
    offsets: BagOffsets
    penalty: Penalty

    @property
    def d(self) -> int:
        """Number of weights."""
        return len(self.scaling.scale) + self.scaling.has_intercept

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.first.sizes)


def measure_moments(
    first: FirstPass, scaling: Scaling, degree: int, report: Report = say_nothing
) -> MomentBags:
    """Return moments of bags up to a degree in standard units, from one pass over the rows."""
    d = len(scaling.scale) + scaling.has_intercept
    monomials = moments.make_monomials(d, max(degree, 2))
    tensors, powers = _add_up(first, scaling, monomials, max(degree, 2), report)
    shares = first.sizes / first.n
    row_means = tensors[:, 1 : d + 1]
    gram = np.empty((d, d))
    pooled = np.einsum("r,rb->b", shares, tensors)
    for j in range(d):
        gram[j] = pooled[monomials.children[1 + j]]
    cells = first.cells.moved(scaling.label_centre, scaling.label_scale)
    statistics = Statistics(
        n=first.sizes,
        m=first.sizes,
        weights=first.sizes,
        row_means=row_means,
        label_means=powers[:, 0],
        mean=pooled[1 : d + 1],
        label_mean=float(np.einsum("r,r->", shares, powers[:, 0])),
        gram=gram,
        label_weights=first.cells.counts / first.n,
    )
    return MomentBags(statistics, monomials, tensors, powers[:, :degree], powers[:, 1], cells)


def _add_up(
    first: FirstPass,
    scaling: Scaling,
    monomials: moments.Monomials,
    degree: int,
    report: Report,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of monomials and of powers of labels, bag by bag."""
    n_bags = len(first.sizes)
    factor, largest = find_unit_factors(first, scaling)
    label_reach = float(np.abs(first.label_ends - scaling.label_centre).max())
    label_factor = (1.0 - 1e-15) / label_reach if label_reach > 0 else 0.0
    label_largest = 1.0 / (label_factor * scaling.label_scale) if label_factor else 0.0
    unit = float(2 ** (62 - ceil(log2(first.n + 1))))
    centre, label_centre, parents = scaling.centre, scaling.label_centre, monomials.parents
    n_varying = len(factor)

    def start() -> tuple[np.ndarray, np.ndarray]:
        n_monomials = len(parents)
        return np.zeros((n_bags, n_monomials), np.int64), np.zeros((n_bags, degree), np.int64)

    def add(total: tuple[np.ndarray, np.ndarray], block: Block) -> None:
        kernels.add_monomials(
            block.X, block.codes, centre, factor, parents, n_varying, unit, total[0]
        )
        kernels.add_label_powers(block.y, block.codes, label_centre, label_factor, unit, total[1])

    def merge(total: Any, other: Any) -> Any:
        total[0][:] += other[0]
        total[1][:] += other[1]
        return total

    sums, label_sums = first.source.map_reduce(
        start, add, merge, report=report, stage="taking moments"
    )
    per = first.sizes[:, None] * unit
    powers = label_sums / per * label_largest ** np.arange(1, degree + 1)
    return _unscale(sums / per, parents, largest), powers


def _unscale(tensors: np.ndarray, parents: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return means of monomials in standard units from those of scaled columns."""
    tensors[:, 0] = 1.0
    sizes = np.ones(len(parents))
    for b in range(1, len(parents)):
        parent, j = parents[b]
        if j >= len(largest):
            tensors[:, b] = tensors[:, parent]
        else:
            sizes[b] = sizes[parent] * largest[j]
            tensors[:, b] *= sizes[b]
    return tensors


def find_unit_factors(first: FirstPass, scaling: Scaling) -> tuple[np.ndarray, np.ndarray]:
    """Return factors that bring x − centre into [−1, 1], and the size of 1 in standard units.

    Columns without spread have factor zero.
    """
    reach = np.abs(first.column_ends - scaling.centre[:, None]).max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Slightly less than 1 / reach: rounding must not exceed one.
        factor = np.where((scaling.scale > 0) & (reach > 0), (1.0 - 1e-15) / reach, 0.0)
        return factor, np.where(factor > 0, 1.0 / (factor * scaling.scale), 0.0)
