"""What the shapes of bags say whose rows were counted in cells."""

from __future__ import annotations

from functools import partial
from math import exp

import numpy as np

from unshuffle import kernels
from unshuffle.model.histogram_labels import HistogramShapes
from unshuffle.model.kept_bags import Matched
from unshuffle.model.nodes import FINE_PER_SIGMA
from unshuffle.model.point_grid import PointGrid
from unshuffle.threads import count_threads, map_all

# Points for each thread below which the bags of a point are matched apart: a task takes 20 μs to
# hand out, a bag at least 100 to match.
_PIECES = 2


def match_all(
    shapes: HistogramShapes,
    grid: PointGrid,
    cells: np.ndarray,
    bags: slice,
    per_sigma: float,
    wants_slopes: bool,
    n_jobs: int | None,
) -> list[list[Matched]]:
    """Return values, stretches and pulls of some bags at every point, one part or more each.

    Few points are divided into their bags: one of 10⁸ labels takes tens of milliseconds.
    """
    n_threads = count_threads(n_jobs)
    parts = [bags]
    if n_threads > 1 and len(grid) < _PIECES * n_threads:
        # Bags at the beginning that are held have no cells: they are one piece of nothing.
        start = max(bags.start, min(shapes.n_held, bags.stop))
        parts = [slice(bags.start, start)] if start > bags.start else []
        parts += [slice(r, r + 1) for r in range(start, bags.stop)]
    match = partial(_match, shapes, grid, cells, grid.bases, per_sigma, wants_slopes)
    tasks = [(p, part) for p in range(len(grid)) for part in parts]
    found = map_all(match, tasks, n_jobs)
    return [found[p * len(parts) : (p + 1) * len(parts)] for p in range(len(grid))]


def _match(
    shapes: HistogramShapes,
    grid: PointGrid,
    cells: np.ndarray,
    bases: np.ndarray,
    per_sigma: float,
    wants_slopes: bool,
    task: tuple[int, slice],
) -> Matched:
    """Return values, stretches and pulls of some bags at one point: see the kernel."""
    p, bags = task
    sigma = exp(float(grid.log_sigmas[p]))
    fine = float(grid.per_cell[p]) * sigma
    offsets = shapes.offsets[bags.start : bags.stop + 1]
    labels = slice(offsets[0], offsets[-1])
    found: Matched = kernels.match_histograms(
        cells, bases[p, bags], grid.lows[p, bags], grid.sizes[p, bags], grid.tails[p, bags],
        shapes.factors[bags] * (grid.sizes[p, bags] > 0), shapes.values[labels] / sigma,
        shapes.masses[labels], offsets - offsets[0], grid.units[p],
        per_sigma * fine / FINE_PER_SIGMA, fine, wants_slopes,
    )  # fmt: skip
    return found
