"""Bags of unequal numbers, bins or shaped noise, matched side by side at many points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import NamedTuple

import numpy as np

from unshuffle import kernels
from unshuffle.data.labels import Labels
from unshuffle.kernels.transport.coupling import PRECISE
from unshuffle.kernels.transport.joint_dual import LANES
from unshuffle.kernels.transport.pairings import CELLS_PER_SIGMA, LEAST_GRIDDED
from unshuffle.threads import map_all

# Labels known to their last digit go on a grid of their own once its nodes are fewer than they, or
# than this number. In between, both values are mixed: see `kernels.transport.bags`.
_MOST_NODES = 400
_ALL_ITEMS, _ALL_GRID = 1.0, 0.8
# Bags of few labels, where a grid saves little, and predictions so far out that their nodes would
# fill the memory, have none.
_FEW_LABELS, _WIDEST = 20, 10.0
# Predictions in memory at a time.
_PREDICTIONS = 4_000_000
# Atoms of rows stand in groups of four.
_TOGETHER = 4


class Scores(NamedTuple):
    """Log likelihoods of bags at points, (m, R), slopes in log sigma, and in predictions (m, n)."""

    values: np.ndarray
    by_sigmas: np.ndarray
    slopes: np.ndarray


@dataclass(frozen=True, eq=False)
class _Problems:
    """What is to be coupled: points, bags, shares and their slopes in log sigma, atoms."""

    points: np.ndarray
    bags: np.ndarray
    shares: np.ndarray
    sizes: np.ndarray

    def groups(self) -> Iterator[_Problems]:
        """Yield problems of about the same size, as many as stand side by side."""
        order = np.lexsort((self.bags, self.points, self.sizes[:, 0], self.sizes[:, 1]))
        for start in range(0, len(order), LANES):
            some = order[start : start + LANES]
            yield _Problems(self.points[some], self.bags[some], self.shares[some], self.sizes[some])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, in whole groups, and labels of the largest."""
        n_rows, n_labels = self.sizes.max(axis=0).tolist()
        return -(-n_rows // _TOGETHER) * _TOGETHER, n_labels


@dataclass(frozen=True, eq=False)
class PairedBags:
    """Rows' masses and labels of bags under a pairing; `points` are plain labels, if they are."""

    masses: np.ndarray
    offsets: np.ndarray
    labels: Labels
    points: Labels | None
    pairing: int
    tables: np.ndarray

    def score(
        self, z: np.ndarray, noises: np.ndarray, per_sigma: float, wants_slopes: bool,
        tolerance: float, n_jobs: int | None,
    ) -> Scores:  # fmt: skip
        """Return what bags say at points that predict z (m, n), with noise (m, 3) as in tables."""
        m, n = z.shape
        step = max(1, _PREDICTIONS // max(n, 1))
        parts = [
            self._score_some(
                z[k : k + step], noises[k : k + step], per_sigma, wants_slopes, tolerance, n_jobs
            )
            for k in range(0, max(m, 1), step)
        ]
        return Scores(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _score_some(
        self, z: np.ndarray, noises: np.ndarray, per_sigma: float, wants_slopes: bool,
        tolerance: float, n_jobs: int | None,
    ) -> Scores:  # fmt: skip
        m, n = z.shape
        shape = (m, len(self.offsets) - 1)
        labels = self.labels
        items = (labels.low, labels.high, labels.masses, labels.offsets)
        alone, whole, nodes = (
            Scores(np.zeros(shape), np.zeros(shape), np.zeros((m, n * wants_slopes)))
            for _ in range(3)
        )

        def score_alone(k: int) -> None:
            kernels.score_alone(
                z[k], self.masses, self.offsets, *items, self.pairing, noises[k], self.tables,
                wants_slopes, alone.values[k], alone.by_sigmas[k], alone.slopes[k],
            )  # fmt: skip

        map_all(score_alone, range(m), n_jobs)
        is_left = alone.values == -np.inf
        if not is_left.any():
            return alone
        alone.values[is_left] = 0.0
        tolerance = PRECISE if wants_slopes else tolerance
        shares, sizes, node_sizes = self._share_grids(z, noises[:, 0], per_sigma)

        def couple_items(group: _Problems) -> None:
            given = (z, self.masses, self.offsets)
            laid = kernels.lay_items(
                group.points, group.bags, group.shape, *given, *items, noises, self.tables
            )
            logs, in_z, in_sigma, mz, my, jokers, y, *places = laid
            found, plan, by_row, _ = _couple(
                (logs, mz, my, jokers), y, y[:0], 0.0, tolerance, wants_slopes
            )
            kernels.take_items(
                group.points, group.bags, group.shares, *given, noises, self.tables.shape[1] == 0,
                wants_slopes, plan, in_z, in_sigma, by_row, *places, found, *whole,
            )  # fmt: skip

        def couple_nodes(group: _Problems) -> None:
            assert self.points is not None
            sigmas = np.ascontiguousarray(noises[:, 0])
            given = (z, self.offsets, self.points.low, self.points.offsets, sigmas, per_sigma)
            laid = kernels.lay_nodes(group.points, group.bags, group.shape, *given)
            logs, mz, my, jokers, x, y, *places = laid
            spread = 1.0 / (3.0 * per_sigma**2)
            found, _, by_row, by_column = _couple(
                (logs, mz, my, jokers), y, x, spread, tolerance, wants_slopes
            )
            kernels.take_nodes(
                group.points, group.bags, group.shares, *given, wants_slopes, by_row, by_column,
                *places, found, *nodes,
            )  # fmt: skip

        for work, is_own, own_shares, own_sizes in (
            (
                couple_items,
                is_left & (shares[..., 0] < 1.0),
                [1.0, 0.0] - shares * [1.0, 1.0],
                sizes,
            ),
            (couple_nodes, is_left & (shares[..., 0] > 0.0), shares, node_sizes),
        ):
            points, bags = np.nonzero(is_own)
            listed = _Problems(points, bags, own_shares[points, bags], own_sizes[points, bags])
            map_all(work, list(listed.groups()), n_jobs)
        return Scores(*(a + b + c for a, b, c in zip(alone, whole, nodes, strict=True)))

    @cached_property
    def _spans(self) -> np.ndarray:
        """The range of the plain labels of every bag."""
        assert self.points is not None
        starts, y = self.points.offsets[:-1], self.points.low
        return np.asarray(np.maximum.reduceat(y, starts) - np.minimum.reduceat(y, starts))

    def _share_grids(
        self, z: np.ndarray, sigmas: np.ndarray, per_sigma: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return shares of the grid in values, with slopes in log sigma, (m, R, 2), and atoms.

        Those of rows and items, and those of nodes, at most.
        """
        starts, sigma = self.offsets[:-1], sigmas[:, None]
        low, high = (each.reduceat(z, starts, axis=1) for each in (np.minimum, np.maximum))
        n_rows = np.diff(self.offsets)
        sizes = np.empty((*low.shape, 2), dtype=np.int64)
        per_cell = CELLS_PER_SIGMA if self.tables.shape[1] == 0 else 4.0 * CELLS_PER_SIGMA
        width = 2.0 ** np.floor(np.log2(sigma / per_cell))
        cells = np.floor(high / width) - np.floor(low / width) + 2.0
        # As many as `kernels.lay_items` fills, or more: every row where a grid pays not.
        is_gridded = (cells <= 0.7 * n_rows) & (n_rows > LEAST_GRIDDED)
        sizes[..., 0] = np.where(is_gridded, cells, n_rows)
        sizes[..., 1] = np.diff(self.labels.offsets)
        shares, node_sizes = np.zeros((*low.shape, 2)), np.ones_like(sizes)
        if self.points is None:
            return shares, sizes, node_sizes
        m = np.diff(self.points.offsets)
        most = np.minimum(m, _MOST_NODES)
        ratio = np.maximum(self._spans / sigma * per_sigma / most, 1e-300)
        way = np.clip(np.log(_ALL_ITEMS / ratio) / log(_ALL_ITEMS / _ALL_GRID), 0.0, 1.0)
        shares[..., 0] = way * way * (3.0 - 2.0 * way)
        shares[..., 1] = 6.0 * way * (1.0 - way) / log(_ALL_ITEMS / _ALL_GRID)
        shares[(m <= _FEW_LABELS) | ((high - low) / sigma * per_sigma > _WIDEST * most)] = 0.0
        is_grid = shares[..., 0] > 0.0
        for side, span in enumerate((high - low, np.broadcast_to(self._spans, low.shape))):
            cells = np.where(is_grid, span / sigma * per_sigma, 0.0)
            node_sizes[..., side] = cells.astype(np.int64) + 5
        return shares, sizes, node_sizes


def _couple(
    laid: tuple[np.ndarray, ...], y: np.ndarray, x: np.ndarray, spread: float, tolerance: float,
    wants_slopes: bool,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Return values of problems side by side, slopes in their log densities, and in masses."""
    logs, mz, my, jokers = laid
    x = x if spread > 0.0 else np.zeros(mz.shape)
    g, values = np.zeros(my.shape), np.empty(LANES)
    by_row, by_column = np.empty(mz.shape), np.empty(my.shape)
    kernels.begin_lanes(logs, mz, my, jokers, g)
    found = kernels.couple_lanes(logs, mz, my, jokers, y, g, tolerance)
    beside = kernels.value_lanes(logs, found, mz, my, jokers, g, x, y, spread, values)
    if wants_slopes:
        kernels.slope_lanes(found, beside, mz, my, jokers, g, x, y, spread, by_row, by_column)
    return values, found[0], by_row, by_column
