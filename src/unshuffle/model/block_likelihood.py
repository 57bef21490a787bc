"""The within-bag likelihood of data in blocks: many points a pass, from histograms of predictions.

Value and slopes of a large bag follow from the histogram of its predictions, on cells of a fraction
of σ, with the sums of slopes in each cell; the labels enter as cells once for all. The only term
of the mean function that cells know is the square. A row in cell k
counts at its two nodes, so that its slope is the difference of the nodes' potentials: the gradient
is that of the value. Small bags are kept, and matched as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp

import numpy as np

from unshuffle import kernels
from unshuffle.data.blocks.sources import Block, Pass, Source
from unshuffle.data.products import multiply
from unshuffle.kernels.transport.permanent import EXACT_ROWS
from unshuffle.model.histogram_likelihood import HistogramProblems, place_nodes, share_cells
from unshuffle.model.kept_bags import KeptBags
from unshuffle.model.nodes import nodes_per_sigma, share_nodes
from unshuffle.model.point_grid import PointGrid, lay_out
from unshuffle.model.points import Evaluated, Parameters
from unshuffle.model.within_bag import WithinBag
from unshuffle.threads import count_threads

# All histograms of a pass, of one thread or of two together: points beyond wait for the next pass.
# More threads have as much each as two have: passes of few points take twice as long a point.
MEMORY = 12e6
# A point with so many times that is filled some bags at a time: 500 bags took 170 MB.
_MOST_ROOM = 3.0
# Places of bags at points that are looked at together.
_MOST_PLACES = 200_000


@dataclass(frozen=True, eq=False)
class BlockWithinBag(WithinBag):
    """Rows of a source, the labels of bags as cells, centred in each bag, and small bags kept.

    `columns` are those of the source that vary, standardised by `centre` and `factor` (which is
    zero elsewhere). `counts` say how often a row counts (more than once in a sample, never where a
    bag has no shape), `row_means` and `row_squares` are the bags' moments of the rows that are
    counted. `label_bins` are both ends of bins of labels, their counts, and where bags begin.
    `kept` are the first bags; none has cells.
    """

    source: Source
    columns: np.ndarray
    centre: np.ndarray
    factor: np.ndarray
    covariance: np.ndarray
    values: np.ndarray
    masses: np.ndarray
    cell_offsets: np.ndarray
    sizes: np.ndarray
    counts: np.ndarray
    row_means: np.ndarray
    row_squares: np.ndarray
    label_bins: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    kept: KeptBags
    is_centred = True
    has_passes = True

    @property
    def rows(self) -> np.ndarray:  # type: ignore[override]
        """The rows of bags that are kept, (p, n)."""
        return self.kept.rows

    @property
    def offsets(self) -> np.ndarray:  # type: ignore[override]
        """Where bags that are kept begin and end."""
        return self.kept.offsets

    @property
    def n_kept(self) -> int:
        """How many bags, the first ones, are kept."""
        return len(self.kept)

    @property
    def approximate(self) -> float:  # type: ignore[override]
        """Share of the labels in bags that no exact permanent is taken of."""
        kept = self.sizes[: self.n_kept]
        return 1.0 - float(kept[kept <= EXACT_ROWS].sum()) / float(self.sizes.sum())

    @property
    def label_counts(self) -> np.ndarray:  # type: ignore[override]
        """Number of labels of each bag."""
        return self.sizes

    def evaluate(
        self,
        params: Parameters,
        power: float,
        wants_slopes: bool,
        n_jobs: int | None,
    ) -> Evaluated:
        per_sigma = nodes_per_sigma(power * float(self.sizes.sum()))
        found = self.kept.evaluate(params, per_sigma, wants_slopes, self.tolerance(power), n_jobs)
        # A bag without a shape, as of few rows in a sample, takes no cells.
        is_counted = (self.counts > 0.0) & (np.arange(len(self.sizes)) >= self.n_kept)
        if not is_counted.any():
            return found
        # As many points at a time as places of bags have room.
        size = max(1, _MOST_PLACES // len(self.sizes))
        for start in range(0, len(params), size):
            some = params.part(slice(start, start + size))
            counted = self._count(some, is_counted, per_sigma, wants_slopes, n_jobs)
            inner = float((self.sizes - 1.0)[is_counted].sum())
            for k, own in enumerate(zip(*counted, strict=True), start):
                value, gradient, by_sigma = self._unite(
                    params.part(slice(k, k + 1)), *own, wants_slopes
                )
                found.values[k] += value - inner * params.log_sigmas[k]
                found.gradients[k] += gradient
                found.by_sigmas[k] += by_sigma - inner
        return found

    def _count(
        self,
        params: Parameters,
        is_counted: np.ndarray,
        per_sigma: float,
        wants_slopes: bool,
        n_jobs: int | None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the likelihoods of bags whose rows are counted in cells, some points at a time.

        See `HistogramProblems.evaluate`.
        """
        grid = self._lay_out(params).only(is_counted)
        width = self.source.d + 3 if wants_slopes else 2
        room = MEMORY / (8.0 * width * min(count_threads(n_jobs), 2))
        if self.source.room is not None:
            room = self.source.room / width
        fillings = grid.divide(room, _MOST_ROOM * room)
        # Made when they are asked for: of very many bags each is large.
        filled = self._fill((grid.part(*each) for each in fillings), wants_slopes)
        found = (*np.zeros((2, *grid.sizes.shape)), np.zeros((*grid.sizes.shape, width - 1)))
        for points, bags in fillings:
            # Cells are let go before the next ones are filled.
            problems = HistogramProblems(self, grid.part(points, bags), next(filled), per_sigma)
            for total, new in zip(found, problems.evaluate(wants_slopes, n_jobs), strict=True):
                total[points] += new
        return found

    def _unite(
        self,
        params: Parameters,
        values: np.ndarray,
        by_sigmas: np.ndarray,
        gradients: np.ndarray,
        wants_slopes: bool,
    ) -> tuple[float, np.ndarray, float]:
        """Return value and slopes of the likelihood at one point from those of its counted bags."""
        value, by_sigma = float(np.cumsum(values)[-1]), float(np.cumsum(by_sigmas)[-1])
        w, curve, sigma = params.w[0], float(params.curves[0]), exp(params.log_sigmas[0])
        gradient, p = np.zeros(len(w) + len(params.degrees) + 1), len(w)
        if not wants_slopes:
            return value, gradient, 0.0
        turned = np.einsum("rjk,k->rj", self.row_squares, w)
        squares = multiply(turned, w)
        means = multiply(self.row_means, w) + curve * squares
        ones, by_x, by_square = (
            gradients[:, 0],
            gradients[:, 1:-1][:, self.columns],
            gradients[:, -1],
        )
        along = self.row_means + 2.0 * curve * turned
        gradient[:p] = (by_x - ones[:, None] * along).sum(axis=0) / sigma
        gradient[p:-1] = float((by_square - ones * squares).sum()) / sigma
        moves = multiply(by_x, w) - curve * by_square - ones * means
        return value, gradient, by_sigma - float(moves.sum()) / sigma

    def _lay_out(self, params: Parameters) -> PointGrid:
        """Choose the cells of every bag's predictions at every point."""
        grid = lay_out(params, self)
        full = np.zeros((len(params), self.source.d))
        full[:, self.columns] = grid.weights
        return replace(grid, weights=full)

    def _fill(self, grids: Iterator[PointGrid], wants_slopes: bool) -> Iterator[np.ndarray]:
        """Take a pass over the rows for each of some grids; yield the cells of its histograms."""
        filled = self.source.fill_all(grids, self.centre, self.factor, wants_slopes)
        if filled is not None:
            return filled
        return self.source.add_up_all(self.plan(grid, wants_slopes) for grid in grids)

    def plan(self, grid: PointGrid, wants_slopes: bool) -> Pass[np.ndarray]:
        """Return the pass that fills the cells of all histograms."""
        bases, n_bags = grid.bases, len(self.sizes)
        width = self.source.d + 3 if wants_slopes else 2
        # What adds up may travel to other processes: it holds nothing but what it needs (not the
        # target, whose source stays here), and finds its kernel where it is.
        centre, factor = self.centre, self.factor

        def start() -> np.ndarray:
            return np.zeros((int(grid.lengths.sum()), width), np.int64)

        def add(total: np.ndarray, block: Block) -> None:
            order, ends = kernels.order_by_bag(block.codes, n_bags)
            kernels.fill_cells(
                block.X, order, ends, block.masses, centre, factor, grid.weights,
                grid.curves, grid.per_cell, grid.starts, grid.sizes, grid.tails, bases,
                grid.units, total,
            )  # fmt: skip

        def merge(total: np.ndarray, other: np.ndarray) -> np.ndarray:
            total += other
            return total

        return Pass(start, add, merge, needs_labels=False)

    def bag_distributions(
        self, params: Parameters
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        grid = self._lay_out(params).only(np.arange(len(self.sizes)) >= self.n_kept)
        cells, bases, offsets = (
            next(self._fill(iter([grid]), False)),
            grid.bases[0],
            self.label_bins[3],
        )
        fine, means = float(grid.per_cell[0]), grid.means[0] - params.curves[0] * params.signals[0]
        for r in range(self.kept.n_small, len(self.sizes)):
            labels = slice(offsets[r], offsets[r + 1])
            if r < self.n_kept:
                z = self.kept.predict(params, slice(r, r + 1))
                yield labels, *share_nodes(z, 1.0 / fine)
                continue
            size, n_tail = grid.sizes[0, r], grid.tails[0, r]
            own = cells[bases[r] : bases[r] + size + 2 * n_tail]
            nodes = place_nodes(grid.lows[0, r], size, n_tail, fine)
            masses = share_cells(own)
            keep = masses > 0
            yield labels, means[r] + nodes[keep], masses[keep] / masses.sum()

    def small_bags(self, params: Parameters) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        n = self.kept.n_small
        if n == 0:
            return None
        z = self.kept.predict(params, slice(0, n))
        return z, self.kept.offsets[: n + 1], self.label_bins[3][: n + 1]

    def label_items(
        self, label_means: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.label_bins
