"""The within-bag likelihood of bags whose rows were counted in cells."""

from __future__ import annotations

from functools import partial
from math import exp
from typing import Protocol

import numpy as np

from unshuffle import kernels
from unshuffle.model.nodes import FINE_PER_SIGMA
from unshuffle.model.point_grid import PointGrid
from unshuffle.threads import count_threads, map_all

# Points for each thread below which the bags of a point are matched apart: a task takes 20 μs to
# hand out, a bag at least 100 to match.
_PIECES = 2

# Values, slopes in log sigma due to labels, and gradients of all bags: see
# `kernels.match_histograms`.
Matched = tuple[np.ndarray, np.ndarray, np.ndarray]


class LabelCells(Protocol):
    """The labels of bags as cells, how often a row of each bag counts, and how many are kept."""

    @property
    def values(self) -> np.ndarray: ...
    @property
    def masses(self) -> np.ndarray: ...
    @property
    def cell_offsets(self) -> np.ndarray: ...
    @property
    def counts(self) -> np.ndarray: ...
    @property
    def n_kept(self) -> int: ...


def match_all(
    within_bag: LabelCells,
    grid: PointGrid,
    cells: np.ndarray,
    bags: slice,
    per_sigma: float,
    wants_slopes: bool,
    n_jobs: int | None,
) -> list[list[Matched]]:
    """Return values, slopes in log sigma and gradients of bags at every point, in parts.

    Few points are divided into their bags: one of 10⁸ labels takes tens of milliseconds.
    """
    n_threads = count_threads(n_jobs)
    parts = [bags]
    if n_threads > 1 and len(grid) < _PIECES * n_threads:
        # Bags at the beginning that are kept have no cells: they are one piece of nothing.
        start = max(bags.start, min(within_bag.n_kept, bags.stop))
        parts = [slice(bags.start, start)] if start > bags.start else []
        parts += [slice(r, r + 1) for r in range(start, bags.stop)]
    match = partial(_match, within_bag, grid, cells, grid.bases, per_sigma, wants_slopes)
    tasks = [(p, part) for p in range(len(grid)) for part in parts]
    found = map_all(match, tasks, n_jobs)
    return [found[p * len(parts) : (p + 1) * len(parts)] for p in range(len(grid))]


def _match(
    within_bag: LabelCells,
    grid: PointGrid,
    cells: np.ndarray,
    bases: np.ndarray,
    per_sigma: float,
    wants_slopes: bool,
    task: tuple[int, slice],
) -> Matched:
    """Return values, slopes in log sigma and gradients of bags at one point: see the kernel."""
    p, bags = task
    sigma = exp(float(grid.log_sigmas[p]))
    fine = float(grid.per_cell[p]) * sigma
    offsets = within_bag.cell_offsets[bags.start : bags.stop + 1]
    labels = slice(offsets[0], offsets[-1])
    found: Matched = kernels.match_histograms(
        cells, bases[p, bags], grid.lows[p, bags], grid.sizes[p, bags], grid.tails[p, bags],
        within_bag.counts[bags] * (grid.sizes[p, bags] > 0), within_bag.values[labels] / sigma,
        within_bag.masses[labels], offsets - offsets[0], grid.units[p],
        per_sigma * fine / FINE_PER_SIGMA, fine, wants_slopes,
    )  # fmt: skip
    return found
