"""LS and EMD of data in blocks: each pass counts predictions in cells, for a batch of points.

Sums are whole numbers: any blocks in any order give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, log2
from operator import iadd

import numpy as np

from unshuffle import kernels
from unshuffle.data.bags import Bags
from unshuffle.data.blocks.first_pass import FirstPass
from unshuffle.data.blocks.sources import Block, Source, collect_rows
from unshuffle.data.labels import Labels, unit_masses
from unshuffle.data.rows import Rows
from unshuffle.data.scaling import Scaling
from unshuffle.objectives.block_moments import (
    BlockProblem,
    MomentBags,
    MomentObjective,
    find_unit_factors,
)
from unshuffle.objectives.losses import Loss, Squared
from unshuffle.objectives.penalties import no_penalty
from unshuffle.objectives.problem import Curve, Evaluate, Problem

# Bytes of the cells of one pass, which many points share. No answer depends on it.
TOTAL_BYTES = 48 * 2**20


@dataclass(frozen=True)
class CellSettings:
    """How finely predictions are counted in cells, and which rows are kept in memory instead.

    A cell knows how far its rows and labels are spread. LS errs by 1e-7 of the labels' variance
    with one bag of 200 000 rows and by 2e-6 with twenty, the same at every point. EMD errs by 1e-6
    and 5e-5, since its labels are averaged in cells.

    Attributes
    ----------
    all_cells : int
        Cells of all bags together.
    max_cells : int
        Most cells of a bag; the least are a quarter. Bags of fewer than two rows for each cell are
        kept in memory and sorted.
    max_kept : int
        Most rows kept in memory: 200 MB of five columns.
    degree : int
        Degree of the polynomials in the rank that curvatures are computed from. What changes faster
        with the rank is left out.
    max_uncounted : float
        Curvatures leave out the variation within bags kept in memory. They are used while such
        bags have at most this share of the rows.
    """

    all_cells: int = 1 << 14
    max_cells: int = 1 << 10
    max_kept: int = 5_000_000
    degree: int = 7
    max_uncounted: float = 0.1


CELLS = CellSettings()


@dataclass(frozen=True, eq=False)
class StandardRows:
    """The scaling of rows that a pass applies, labels in cells, and bags kept in memory."""

    source: Source
    centre: np.ndarray
    # A column is (x − centre) factor, from −1 to 1, times its largest value in standard units.
    factor: np.ndarray
    largest: np.ndarray
    # Shares of columns are counted in 1/unit, and places inside a cell in 1/depth.
    unit: float
    depth: float
    labels: np.ndarray
    label_masses: np.ndarray
    label_offsets: np.ndarray
    # Bags whose rows are counted in cells, and all rows of the others, in standard units.
    counted: np.ndarray
    kept: Bags | None

    @property
    def slots(self) -> np.ndarray:
        """Index of each bag among the counted ones; −1 where its rows are kept in memory."""
        slots = np.full(len(self.label_offsets) - 1, -1)
        slots[self.counted] = np.arange(len(self.counted))
        return slots


def make_standard_rows(first: FirstPass, scaling: Scaling) -> StandardRows:
    """Return the scaling of rows for passes; rows of small bags are read here."""
    factor, largest = find_unit_factors(first, scaling)
    cells = first.cells
    bits = 62 - ceil(log2(first.n + 1))
    is_small = first.sizes < 2 * CELLS.max_cells
    if first.sizes[is_small].sum() > CELLS.max_kept:
        is_small[:] = False
    labels = cells.moved(scaling.label_centre, scaling.label_scale)
    return StandardRows(
        first.source, scaling.centre, factor, largest, float(2**bits), float(2 ** (bits // 2)),
        labels, cells.counts.astype(float), cells.offsets, np.flatnonzero(~is_small),
        _keep_bags(first, scaling, labels, is_small) if is_small.any() else None,
    )  # fmt: skip


def _keep_bags(first: FirstPass, scaling: Scaling, labels: np.ndarray, is_kept: np.ndarray) -> Bags:
    """Return some bags in memory, their rows in an order that does not depend on the blocks."""

    def find_kept(block: Block) -> np.ndarray:
        return np.flatnonzero(is_kept[block.codes])

    _, rows, _ = collect_rows(first.source, find_kept, needs_labels=False)
    kept = np.flatnonzero(is_kept)
    places = np.concatenate(
        [np.arange(first.cells.offsets[r], first.cells.offsets[r + 1]) for r in kept]
    )
    y = np.repeat(labels[places], first.cells.counts[places])
    return _as_plain(to_standard_rows(rows, scaling), y, first.sizes[kept])


def to_standard_rows(rows: np.ndarray, scaling: Scaling) -> np.ndarray:
    """Return rows in standard units, with a column of ones where there is an intercept."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (rows - scaling.centre) / scaling.scale
    found = np.where(scaling.scale > 0, found, 0.0)
    return np.column_stack([found, np.ones(len(found))]) if scaling.has_intercept else found


def _as_plain(X: np.ndarray, y: np.ndarray, sizes: np.ndarray | list[int]) -> Bags:
    """Return bags of such sizes, one after another, whose labels ascend."""
    ends, order = np.concatenate([[0], np.cumsum(sizes)]), np.arange(len(y))
    ones = unit_masses(len(y))
    return Bags(Rows(np.asfortranarray(X), ones, ends, order), Labels(y, y, ones, ends, order))


@dataclass(frozen=True, eq=False)
class SortedObjective(MomentObjective):
    """LS or EMD of data in blocks, or the moment loss of the same data."""

    standard: StandardRows = field(kw_only=True)

    @cached_property
    def _evaluate(self) -> Evaluate:
        return self._pass_over if self.loss.is_sorted else super()._evaluate

    @property
    def is_in_memory(self) -> bool:
        """Whether all rows are kept in memory, so that no pass is needed."""
        return not len(self.standard.counted)

    @property
    def curve(self) -> Curve | None:
        """Curvatures of LS without kinks, where most rows are counted."""
        if not isinstance(self.loss, Squared) or self.penalty.l1.any():
            return None
        n_kept = 0 if self.standard.kept is None else self.standard.kept.n
        return self._curve_points if n_kept <= CELLS.max_uncounted * self.bags.n else None

    def _curve_points(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values, gradients, and Gauss-Newton curvatures (S, d, d).

        The prediction of rank u has the mean row m(u) as its derivative, so that squared gaps of
        quantiles have the curvature 2 Σ m(u) m(u)ᵀ.
        """
        curves = np.zeros((*weights.shape, weights.shape[1]))
        values, gradients = self._pass_over(weights, curves)
        if self._kept is not None:
            stats, share = self._kept.bags.statistics, self._kept.bags.n / self.bags.n
            rows = stats.row_means
            curves += 2.0 * share * np.einsum("r,rj,rk->jk", stats.shares, rows, rows)
        extra, slope = self.penalty.smooth(weights)
        return values + extra, gradients + slope, curves + 2.0 * np.diag(self.penalty.l2)

    def _pass_over(
        self, weights: np.ndarray, curves: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate points in batches, a pass for each, and the bags kept in memory beside them.

        Fills the counted bags' part of the curvatures, where they are asked for.
        """
        values, gradients = np.zeros(len(weights)), np.zeros(weights.shape)
        n_bags = len(self.standard.counted)
        if n_bags:
            n_cells = count_cells(n_bags)
            lanes = count_lanes(len(self.standard.centre))
            size = max(1, TOTAL_BYTES // (8 * n_bags * n_cells * lanes))
            for at in range(0, len(weights), size):
                part = slice(at, at + size)
                values[part], gradients[part] = self._evaluate_batch(
                    weights[part], n_cells, None if curves is None else curves[part]
                )
        if self._kept is not None:
            share = self._kept.bags.n / self.bags.n
            kept_values, kept_gradients = self._kept.smooth(weights)
            values += share * kept_values
            gradients += share * kept_gradients
        return np.maximum(values, 0.0), gradients

    @cached_property
    def _kept(self) -> Problem | None:
        """The same loss of the bags kept in memory, without penalty."""
        kept, free = self.standard.kept, no_penalty(len(self.penalty.l1))
        return None if kept is None else Problem(kept, self.loss, None, free, self.has_intercept)

    @cached_property
    def _squares(self) -> np.ndarray:
        """The mean products (R, d, d) of the columns in each counted bag."""
        children = self.bags.monomials.children[1 : self.bags.d + 1]
        return np.asarray(self.bags.tensors[self.standard.counted][:, children])

    def _evaluate_batch(
        self, weights: np.ndarray, n_cells: int, curves: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the counted bags' part of values and gradients, in one pass."""
        standard, stats = self.standard, self.bags.statistics
        n_columns, shares = len(standard.centre), stats.shares[standard.counted]
        steps = weights[:, :n_columns] * standard.largest
        levels = weights[:, n_columns].copy() if self.has_intercept else np.zeros(len(weights))
        means, inverse = self._standardise_predictions(weights)
        totals = _count_predictions(standard, steps, levels, means, inverse, n_cells)
        values, gradients = np.empty(len(weights)), np.empty(weights.shape)
        n, is_squared = float(stats.n.sum()), isinstance(self.loss, Squared)
        square = float(shares @ self.bags.label_squares[standard.counted])
        gram = np.einsum("r,rjk->jk", shares, self._squares)
        for s, w in enumerate(weights):
            slopes = np.empty(n_columns + 1)
            value = kernels.match_sorted_cells(
                totals[s], steps[s], float(levels[s]), means[s], inverse[s], standard.labels,
                standard.label_masses, standard.label_offsets[standard.counted], standard.unit,
                standard.depth, self.loss.code, slopes,
            )  # fmt: skip
            slope = self._to_weights(slopes)
            if is_squared:
                ahead = np.einsum("jk,k->j", gram, w)
                values[s] = float(np.einsum("j,j->", ahead, w)) - 2.0 * value / n + square
                gradients[s] = 2.0 * ahead - 2.0 * slope / n
            else:
                values[s], gradients[s] = value / n, slope / n
            if curves is not None:
                curve = np.empty((n_columns + 1, n_columns + 1))
                kernels.curve_sorted_cells(totals[s], standard.unit, CELLS.degree, curve)
                curves[s] = 2.0 / n * self._to_weights(self._to_weights(curve).T)
        return values, gradients

    def _standardise_predictions(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and inverse sds (S, R) of predictions in the counted bags."""
        row_means = self.bags.statistics.row_means[self.standard.counted]
        means = np.einsum("sd,rd->sr", weights, row_means)
        variances = np.einsum("sj,rjk,sk->sr", weights, self._squares, weights) - means**2
        inverse = np.zeros_like(variances)
        is_spread = variances > 1e-14 * (means**2 + 1e-14)
        np.divide(1.0, np.sqrt(np.maximum(variances, 0.0)), out=inverse, where=is_spread)
        return means, inverse

    def _to_weights(self, slopes: np.ndarray) -> np.ndarray:
        """Return gradients in the weights from those in level and scaled columns (…, 1 + d)."""
        columns = slopes[..., 1:] * self.standard.largest
        if not self.has_intercept:
            return columns
        return np.concatenate([columns, slopes[..., :1]], axis=-1)


def count_cells(n_bags: int) -> int:
    """Return the number of cells of a bag's predictions, a power of two."""
    wanted = min(max(CELLS.all_cells // n_bags, CELLS.max_cells // 4), CELLS.max_cells)
    return 1 << (wanted.bit_length() - 1)


def count_lanes(d: int) -> int:
    """Return how many numbers a cell has: 3 + d, or as many as are added at once."""
    return next((lanes for lanes in (4, 8) if 3 + d <= lanes), 3 + d)


def _count_predictions(
    standard: StandardRows,
    steps: np.ndarray,
    levels: np.ndarray,
    means: np.ndarray,
    inverse: np.ndarray,
    n_cells: int,
) -> np.ndarray:
    """Return the cells (S, R, cells, lanes) of predictions at some points."""
    centre, factor, unit, depth = standard.centre, standard.factor, standard.unit, standard.depth
    n_bags, width = means.shape[1], count_lanes(len(centre))
    shape = (len(steps), n_bags, n_cells, width)
    slots, has_others = standard.slots, standard.kept is not None

    # Two dimensions: sources that send totals can leave out empty cells.
    def start() -> np.ndarray:
        return np.zeros((shape[0] * n_bags * n_cells, width), np.int64)

    def add(total: np.ndarray, block: Block) -> None:
        X, own = block.X, block.codes
        if has_others:
            own = slots[own]
            X, own = X[own >= 0], own[own >= 0]
        kernels.fill_sorted_cells(
            X, own, centre, factor, steps, levels, means, inverse, unit, depth,
            total.reshape(shape),
        )  # fmt: skip

    found = standard.source.map_reduce(start, add, iadd, needs_labels=False)
    return np.asarray(found.reshape(shape))


def draw_subsample(first: FirstPass, scaling: Scaling, n_rows: int) -> Bags:
    """Return about so many sampled rows in standard units, with as many labels of even ranks."""
    sample, sizes = first.sample, first.sizes
    rows = to_standard_rows(sample.rows, scaling)
    values = first.cells.moved(scaling.label_centre, scaling.label_scale)
    offsets, chosen, labels, lengths = first.cells.offsets, [], [], []
    for r in range(len(sizes)):
        own = np.flatnonzero(sample.codes == r)
        if not len(own):
            continue
        m = int(min(sizes[r], max(2, round(n_rows * sizes[r] / first.n))))
        share = (np.arange(m) + 0.5) / m
        # Rows are drawn in proportion to how often they occur.
        ends = np.cumsum(sample.counts[own])
        chosen.append(own[np.searchsorted(ends, share * ends[-1], side="right")])
        ranks = np.cumsum(first.cells.counts[offsets[r] : offsets[r + 1]])
        places = np.searchsorted(ranks, np.floor(share * sizes[r]), side="right")
        labels.append(values[offsets[r] + places])
        lengths.append(m)
    return _as_plain(rows[np.concatenate(chosen)], np.concatenate(labels), lengths)


def make_sorted_objective(problem: BlockProblem, bags: MomentBags, loss: Loss) -> SortedObjective:
    """Return LS or EMD of data in blocks, given the moments of the bags."""
    scaling, standard = problem.scaling, make_standard_rows(problem.first, problem.scaling)
    penalty, has_intercept = problem.penalty, scaling.has_intercept
    return SortedObjective(bags, loss, None, penalty, has_intercept, standard=standard)
