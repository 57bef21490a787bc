"""LS and EMD of data in blocks: a pass fills cells of predictions for a batch of points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2
from typing import Any

import numpy as np

from unshuffle import kernels
from unshuffle.core.bags import Bags
from unshuffle.core.block_moments import MomentBags, MomentProblem, as_bags, find_shares
from unshuffle.core.first_pass import FirstPass
from unshuffle.core.labels import Labels, unit_masses
from unshuffle.core.losses import Loss, Moments, Squared
from unshuffle.core.penalties import Penalty
from unshuffle.core.problem import Evaluate, Problem
from unshuffle.core.rows import Rows
from unshuffle.core.scaling import Scaling
from unshuffle.core.sources import Block, Source

# Cells of all bags together, and of one. Averaging labels inside cells of h sds raises LS by h²/6
# of the labels' variance: 2e-7 for one bag, 6e-7 for twenty, 7e-4 for two thousand.
_ALL_CELLS, _MOST_CELLS, _LEAST_CELLS = 1 << 18, 1 << 14, 1 << 7
# Bytes of a thread's cells: as many points as fit share a pass.
_TOTAL_BYTES = 48 * 2**20


@dataclass(frozen=True, eq=False)
class Standard:
    """How rows of a source become shares of standard units, and labels as cells in these units."""

    source: Source
    centre: np.ndarray
    # A column is (x − centre) factor, from −1 to 1, times its largest value in standard units.
    factor: np.ndarray
    largest: np.ndarray
    unit: float
    labels: np.ndarray
    label_masses: np.ndarray
    label_offsets: np.ndarray


def make_standard(first: FirstPass, scaling: Scaling) -> Standard:
    """Return what a pass needs to know of the units."""
    factor, largest = find_shares(first, scaling)
    cells = first.cells
    return Standard(
        first.source, scaling.centre, factor, largest,
        float(2 ** (62 - ceil(log2(first.n + 1)))),
        cells.moved(scaling.label_centre, scaling.label_scale),
        cells.counts.astype(float), cells.offsets,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SortedProblem(MomentProblem):
    """LS or EMD of data in blocks; other losses of moments alone."""

    standard: Standard | None = None

    @cached_property
    def _evaluate(self) -> Evaluate:
        if isinstance(self.loss, Moments):
            return super()._evaluate
        return self._pass_over

    def _pass_over(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate points in batches, a pass for each."""
        n_bags, d = self.bags.n_bags, weights.shape[1]
        n_cells = count_cells(n_bags, self.bags.n)
        size = max(1, _TOTAL_BYTES // (8 * n_bags * n_cells * (d + 1)))
        values, gradients = np.empty(len(weights)), np.empty(weights.shape)
        for at in range(0, len(weights), size):
            part = slice(at, at + size)
            values[part], gradients[part] = self._evaluate_batch(weights[part], n_cells)
        return values, gradients

    @cached_property
    def _covariances(self) -> np.ndarray:
        """The covariances (R, d, d) of the columns in each bag."""
        bags = self._moments
        means, d = bags.statistics.row_means, bags.d
        seconds = bags.tensors[:, bags.monomials.children[1 : d + 1]]
        return np.asarray(seconds - means[:, :, None] * means[:, None, :])

    def _evaluate_batch(self, weights: np.ndarray, n_cells: int) -> tuple[np.ndarray, np.ndarray]:
        standard, stats = self.standard, self.bags.statistics
        assert standard is not None
        n_columns = len(standard.centre)
        steps = weights[:, :n_columns] * standard.largest
        levels = weights[:, n_columns].copy() if self.has_intercept else np.zeros(len(weights))
        means = np.einsum("sd,rd->sr", weights, stats.row_means)
        variances = np.einsum("sj,rjk,sk->sr", weights, self._covariances, weights)
        inverse = np.zeros_like(variances)
        np.divide(1.0, np.sqrt(np.maximum(variances, 0.0)), out=inverse, where=variances > 1e-28)
        totals = _fill(standard, steps, levels, means, inverse, n_cells)
        values, gradients = np.empty(len(weights)), np.empty(weights.shape)
        n, is_squared = float(stats.n.sum()), isinstance(self.loss, Squared)
        square = float(stats.shares @ self._moments.label_squares)
        for s, w in enumerate(weights):
            slopes = np.empty(n_columns + 1)
            value = kernels.match_sorted_cells(
                totals[s], steps[s], float(levels[s]), standard.labels, standard.label_masses,
                standard.label_offsets, standard.unit, self.loss.code, slopes,
            )  # fmt: skip
            slope = slopes[1:] * standard.largest
            if self.has_intercept:
                slope = np.append(slope, slopes[0])
            if is_squared:
                ahead = np.einsum("jk,k->j", stats.gram, w)
                values[s] = float(np.einsum("j,j->", ahead, w)) - 2.0 * value / n + square
                gradients[s] = 2.0 * ahead - 2.0 * slope / n
            else:
                values[s], gradients[s] = value / n, slope / n
        return np.maximum(values, 0.0), gradients


def count_cells(n_bags: int, n: int) -> int:
    """Return the cells of a bag's predictions: a power of two, no more than a bag has rows."""
    wanted = min(max(min(_ALL_CELLS, n) // n_bags, _LEAST_CELLS), _MOST_CELLS)
    return 1 << (wanted.bit_length() - 1)


def _fill(
    standard: Standard,
    steps: np.ndarray,
    levels: np.ndarray,
    means: np.ndarray,
    inverse: np.ndarray,
    n_cells: int,
) -> np.ndarray:
    """Return the cells (S, R, cells, 1 + d) of predictions at some points."""
    centre, factor, unit = standard.centre, standard.factor, standard.unit
    n_bags, width = means.shape[1], len(centre) + 1
    shape = (len(steps), n_bags, n_cells, width)

    # Of two dimensions while it travels, so that empty cells can be left out.
    def start() -> np.ndarray:
        return np.zeros((shape[0] * n_bags * n_cells, width), np.int64)

    def add(total: np.ndarray, block: Block) -> None:
        kernels.fill_sorted_cells(
            block.X, block.codes, centre, factor, steps, levels, means, inverse, unit,
            total.reshape(shape),
        )  # fmt: skip

    def merge(total: np.ndarray, other: np.ndarray) -> np.ndarray:
        total += other
        return total

    found = standard.source.map_reduce(start, add, merge)
    return np.asarray(found.reshape(shape))


def thin_sample(first: FirstPass, scaling: Scaling, n_rows: int) -> Bags:
    """Return about so many sampled rows in standard units, with as many labels of even ranks."""
    sample, sizes = first.sample, first.sizes
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = (sample.rows - scaling.centre) / scaling.scale
    rows = np.where(scaling.scale > 0, rows, 0.0)
    if scaling.has_intercept:
        rows = np.column_stack([rows, np.ones(len(rows))])
    values = first.cells.moved(scaling.label_centre, scaling.label_scale)
    offsets, chosen, labels, lengths = first.cells.offsets, [], [], []
    for r in range(len(sizes)):
        own = np.flatnonzero(sample.codes == r)
        if not len(own):
            continue
        m = int(min(sizes[r], max(2, round(n_rows * sizes[r] / first.n))))
        share = (np.arange(m) + 0.5) / m
        # Rows that stand there more often are taken more often.
        ends = np.cumsum(sample.counts[own])
        chosen.append(own[np.searchsorted(ends, share * ends[-1], side="right")])
        ranks = np.cumsum(first.cells.counts[offsets[r] : offsets[r + 1]])
        places = np.searchsorted(ranks, np.floor(share * sizes[r]), side="right")
        labels.append(values[offsets[r] + places])
        lengths.append(m)
    X = np.asfortranarray(rows[np.concatenate(chosen)])
    y, ends = np.concatenate(labels), np.concatenate([[0], np.cumsum(lengths)])
    order = np.arange(len(y))
    ones = unit_masses(len(y))
    return Bags(Rows(X, ones, ends, order), Labels(y, y, ones, ends, order))


def pose_sorted(
    found: MomentBags, standard: Standard, loss: Loss, penalty: Penalty, has_intercept: bool
) -> SortedProblem:
    """Return LS or EMD of data in blocks."""
    bags: Any = as_bags(found)
    return SortedProblem(bags, loss, None, penalty, has_intercept, standard=standard)


def pose_sample(problem: Problem, bags: Bags) -> Problem:
    """Return the same problem on sampled rows that are held in memory."""
    return Problem(bags, problem.loss, None, problem.penalty, problem.has_intercept)
