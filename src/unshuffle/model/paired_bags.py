"""Bags of unequal numbers, bins or shaped noise, matched side by side at many points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np

from unshuffle import kernels
from unshuffle.data.labels import Labels
from unshuffle.kernels.transport.coupling import PRECISE
from unshuffle.kernels.transport.lanes import make_band, make_rows
from unshuffle.kernels.transport.partial_transport import (
    MAX_PASSES,
    Duals,
    Problems,
    make_corrections,
    make_duals,
    make_problems,
)
from unshuffle.kernels.transport.vectors import LANES
from unshuffle.threads import map_all

# Labels known to their last digit go on a grid once its nodes are fewer than they. In between, both
# values are mixed: see `kernels.transport.bags`.
_ALL_POINTS, _ALL_GRID = 1.0, 0.8
# Bags of few rows or labels, where a grid saves little, and predictions so far out that their nodes
# would fill the memory, have none.
_FEW, _WIDEST = 20, 10.0
# Nodes per sigma of rows beside bins: they leave less than 0.05 nats. More under noise of a shape,
# which cannot be narrowed by what B-splines add.
_BINNED_PER_SIGMA, _SHAPED_PER_SIGMA = 4.0, 32.0
# Predictions in memory at a time.
_PREDICTIONS = 4_000_000


class Scores(NamedTuple):
    """Log likelihoods of bags at points, (m, R), slopes in log sigma, and in predictions (m, n)."""

    values: np.ndarray
    by_sigmas: np.ndarray
    slopes: np.ndarray


class Coupled(NamedTuple):
    """Values of problems side by side, and their slopes.

    ``band`` has the slopes in log densities, rows of it begin at ``ptr`` with the label ``first``.
    ``along`` has the slopes in places, as `kernels.slope_coupling` fills it.
    """

    values: np.ndarray
    duals: Duals
    along: np.ndarray
    band: np.ndarray
    first: np.ndarray
    ptr: np.ndarray


@dataclass(frozen=True, eq=False)
class _Listed:
    """What is to be coupled: points, bags, shares and their slopes in log sigma, atoms."""

    points: np.ndarray
    bags: np.ndarray
    shares: np.ndarray
    is_grid: np.ndarray
    sizes: np.ndarray

    def groups(self) -> Iterator[_Listed]:
        """Yield problems of about the same size, as many as stand side by side."""
        order = np.lexsort((self.bags, self.points, self.sizes[:, 0], self.sizes[:, 1]))
        for start in range(0, len(order), LANES):
            some = order[start : start + LANES]
            parts = (self.points, self.bags, self.shares, self.is_grid, self.sizes)
            yield _Listed(*(part[some] for part in parts))

    def make_room(self, has_logs: bool) -> tuple[Problems, tuple[np.ndarray, ...]]:
        """Return room for problems, and for which atoms they have."""
        n, m = self.sizes.max(axis=0).tolist()
        keeps = np.zeros((2, LANES, max(n, m)), dtype=np.int64)
        lows, counts = np.zeros((2, LANES)), np.zeros((2, LANES), dtype=np.int64)
        return make_problems(n, m, has_logs), (keeps, lows, counts)


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
        labels, sigmas = self.labels, np.ascontiguousarray(noises[:, 0])
        bins = (labels.low, labels.high, labels.masses, labels.offsets)
        per_row = per_sigma
        if self.points is None:
            has_shape = self.tables.shape[1] > 0
            per_row = max(per_sigma, _SHAPED_PER_SIGMA if has_shape else _BINNED_PER_SIGMA)
        cells, is_grid = self._count_cells(z, sigmas, per_row)
        alone, whole, nodes = (
            Scores(np.zeros(shape), np.zeros(shape), np.zeros((m, n * wants_slopes)))
            for _ in range(3)
        )

        def score_alone(k: int) -> None:
            kernels.score_alone(
                z[k], self.masses, self.offsets, *bins, self.pairing, noises[k], self.tables,
                is_grid[k], per_row, wants_slopes, alone.values[k], alone.by_sigmas[k],
                alone.slopes[k],
            )  # fmt: skip

        map_all(score_alone, range(m), n_jobs)
        is_left = alone.values == -np.inf
        if not is_left.any():
            return alone
        alone.values[is_left] = 0.0
        tolerance = PRECISE if wants_slopes else tolerance

        def couple_bins(group: _Listed) -> None:
            given, places = group.make_room(has_logs=True)
            shared = (group.points, group.bags, group.is_grid, z, self.masses, self.offsets)
            kernels.lay_bins(*shared, *bins, noises, self.tables, per_row, given, *places)
            found = couple(given, 0.0, tolerance, wants_slopes)
            kernels.take_bins(
                *shared, labels.low, labels.high, labels.offsets, noises, self.tables, per_row,
                wants_slopes, found.band, found.first, found.ptr, given.x,
                found.duals.potential_z, *places, found.values, *whole,
            )  # fmt: skip

        def couple_points(group: _Listed) -> None:
            assert self.points is not None
            given, places = group.make_room(has_logs=False)
            on_grid = bool(group.is_grid[0])
            shared = (z, self.offsets, self.points.low, self.points.offsets, sigmas, per_sigma)
            kernels.lay_points(group.points, group.bags, on_grid, *shared, given, *places)
            spread = 1.0 / (3.0 * per_sigma**2) if on_grid else 0.0
            found = couple(given, spread, tolerance, wants_slopes)
            duals = found.duals
            kernels.take_points(
                group.points, group.bags, group.shares, on_grid, *shared, wants_slopes,
                duals.potential_z, duals.potential_y, found.along, *places, found.values,
                *(nodes if on_grid else whole),
            )  # fmt: skip

        if self.points is None:
            sizes = np.where(is_grid, cells, np.diff(self.offsets))
            couple_all, lists = couple_bins, [self._list_bins(is_left, is_grid, sizes)]
        else:
            couple_all, lists = couple_points, self._list_points(is_left, cells, sigmas, per_sigma)
        for listed in lists:
            map_all(couple_all, list(listed.groups()), n_jobs)
        return Scores(*(a + b + c for a, b, c in zip(alone, whole, nodes, strict=True)))

    def _count_cells(
        self, z: np.ndarray, sigmas: np.ndarray, per_sigma: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return how many nodes the rows of bags need at most, (m, R), and whether a grid pays."""
        starts, n_rows = self.offsets[:-1], np.diff(self.offsets)
        span = np.maximum.reduceat(z, starts, axis=1) - np.minimum.reduceat(z, starts, axis=1)
        cells = span / sigmas[:, None] * per_sigma + 5.0
        return cells, (cells <= _ALL_GRID * n_rows) & (n_rows > _FEW)

    def _list_bins(self, is_left: np.ndarray, is_grid: np.ndarray, n_rows: np.ndarray) -> _Listed:
        """Return problems of bins: all of the bags that are left."""
        sizes = np.stack([n_rows, np.broadcast_to(np.diff(self.labels.offsets), n_rows.shape)], -1)
        shares = np.broadcast_to([1.0, 0.0], sizes.shape)
        return _list(is_left, shares, is_grid, sizes)

    def _list_points(
        self, is_left: np.ndarray, cells: np.ndarray, sigmas: np.ndarray, per_sigma: float
    ) -> list[_Listed]:
        """Return problems of points, and problems of nodes.

        Labels and sigma alone decide on their shares, so that these are the same for all weights.
        """
        assert self.points is not None
        starts, y, m = self.points.offsets[:-1], self.points.low, np.diff(self.points.offsets)
        span = np.maximum.reduceat(y, starts) - np.minimum.reduceat(y, starts)
        ratio = np.maximum(span / sigmas[:, None] * per_sigma, 1e-300)
        width = log(_ALL_POINTS / _ALL_GRID)
        way = np.clip(np.log(_ALL_POINTS * m / ratio) / width, 0.0, 1.0)
        share, slope = way * way * (3.0 - 2.0 * way), 6.0 * way * (1.0 - way) / width
        shares = np.stack([share, slope], axis=-1)
        shares[(m <= _FEW) | (cells > _WIDEST * m + 5.0)] = 0.0
        has_grid, has_points = shares[..., 0] > 0.0, shares[..., 0] < 1.0
        n_points = np.broadcast_to(np.stack([np.diff(self.offsets), m], axis=-1), shares.shape)
        n_nodes = np.stack([cells, ratio + 5.0], axis=-1)
        rest = [1.0, 0.0] - shares
        return [
            _list(is_left & has_points, rest, np.zeros_like(is_left), n_points),
            _list(is_left & has_grid, shares, np.ones_like(is_left), n_nodes),
        ]


def _list(
    is_own: np.ndarray, shares: np.ndarray, is_grid: np.ndarray, sizes: np.ndarray
) -> _Listed:
    """Return the problems of some points and bags."""
    points, bags = np.nonzero(is_own)
    own = (points, bags)
    return _Listed(points, bags, shares[own], is_grid[own], sizes[own].astype(np.int64))


def couple(given: Problems, spread: float, tolerance: float, wants_slopes: bool) -> Coupled:
    """Return values of problems side by side, with slopes if wanted.

    Python calls the steps one by one: a kernel with all of them would compile each once more.
    """
    n, m = len(given.x), len(given.y)
    duals, found, values = make_duals(n, m), make_corrections(n, m), make_rows(1)
    room, few, slack, along = make_rows(9, m), make_rows(6), make_rows(n), make_rows(n + 1)
    line, rows, ends = make_rows(m + 2), make_rows(2, n), np.empty((2, n), dtype=np.int64)
    kernels.begin_scalings(given, duals.g)
    passes = 0
    while passes < MAX_PASSES:
        kernels.find_band(given, duals, line, ends)
        band, first, ptr = make_band(ends)
        kernels.fill_partial_kernel(given, duals, band, first, ptr, slack)
        passes = kernels.match_labels(
            given, duals, band, first, ptr, slack, tolerance, passes, room, few
        )
    kernels.value_coupling(given, duals, band, first, ptr, spread, few, found, values)
    if wants_slopes:
        kernels.slope_coupling(
            given, duals, found, band, first, ptr, spread, rows, room, few, along
        )
    return Coupled(values[0], duals, along, band, first, ptr)
