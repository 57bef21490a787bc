"""Small bags of data in blocks: their rows are held, and matched as they are.

A histogram of hundreds of cells for each of thousands of bags would cost more than their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from unshuffle import kernels
from unshuffle.kernels.transport.coupling import PRECISE
from unshuffle.kernels.transport.lanes import LANES
from unshuffle.model.nodes import SMALL_ROWS
from unshuffle.threads import count_threads, map_all

# Bags of up to so many rows are held: 5000 rows take 130 μs a point, as their cells do, and their
# values are smooth. (In cells all steps of a climb were taken at 50 000 rows: at full power a
# top's last steps gain less than values waver.)
HELD_ROWS = 8192
# Bytes of all rows and labels that are held: bags beyond, the largest, are counted in cells.
HELD_BYTES = 240e6
# Bags of up to so many rows are matched row by row, side by side; larger ones on lattices, which
# take 25 μs for 40 rows as 64 do, where rows take 20 and 41.
LANE_ROWS = 40
# Nats that the last step of a scaling may gain where no slopes are wanted, in all bags together.
_ROUGH = 0.05
# Groups of bags in a piece of work, and rows of larger bags: about a millisecond.
_PIECE_GROUPS, _PIECE_ROWS = 32, 4000
# Points for each thread above which a point is one piece of work.
_PIECES = 2

# Weights, log sigma and curve.
Point = tuple[np.ndarray, float, float]
# Values, slopes in log sigma due to labels, and pulls of all bags: see the kernels.
Matched = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class _Lanes:
    """Bags of one size, side by side: numbers (b,), rows (g, p, m, LANES), labels (g, m, LANES).

    The last group is filled up with its last bag.
    """

    bags: np.ndarray
    rows: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class HeldBags:
    """The rows (p, m) and labels of the first bags, centred in each, in standard units.

    `rows` are not centred. Bags of one row have no shape and are left out of `lanes`.
    """

    rows: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    lanes: tuple[_Lanes, ...]
    n_lanes: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_small(self) -> int:
        """How many bags have few enough rows that all labels are placed among all of them."""
        return int(np.searchsorted(np.diff(self.offsets), SMALL_ROWS, "right"))

    def match(
        self,
        points: Sequence[Point],
        means: Sequence[np.ndarray],
        per_sigma: float,
        wants_slopes: bool,
        n_jobs: int | None,
    ) -> list[Matched]:
        """Return what the bags say at every point, where they have these mean predictions."""
        n_threads, p, n = count_threads(n_jobs), len(self.rows), len(self)
        found = [(np.zeros(n), np.zeros(n), np.zeros((n, p + 2))) for _ in points]
        is_many = len(points) >= _PIECES * n_threads or n_threads == 1
        pieces = self._divide(None if is_many else 1)

        def work(task: tuple[int, tuple[int, slice]]) -> None:
            at, (which, part) = task
            self._match_piece(
                which, part, points[at], means[at], per_sigma, wants_slopes, found[at]
            )

        map_all(work, [(at, piece) for at in range(len(points)) for piece in pieces], n_jobs)
        return found

    def _divide(self, size: int | None) -> list[tuple[int, slice]]:
        """Return pieces of work: some groups of a size, or (-1) some of the larger bags."""
        pieces = []
        for which, lanes in enumerate(self.lanes):
            n, step = len(lanes.rows), len(lanes.rows) if size is None else _PIECE_GROUPS
            pieces += [(which, slice(k, min(k + step, n))) for k in range(0, n, step)]
        start = self.n_lanes
        while start < len(self):
            stop = len(self)
            if size is not None:
                most = self.offsets[start] + _PIECE_ROWS
                stop = max(start + 1, int(np.searchsorted(self.offsets, most, "right")) - 1)
            pieces.append((-1, slice(start, stop)))
            start = stop
        return pieces

    def _match_piece(
        self,
        which: int,
        part: slice,
        point: Point,
        means: np.ndarray,
        per_sigma: float,
        wants_slopes: bool,
        found: Matched,
    ) -> None:
        """Write what some bags say at a point."""
        w, sigma, curve = point[0], exp(point[1]), point[2]
        values, stretches, pulls = found
        if which < 0:
            offsets = self.offsets[part.start : part.stop + 1]
            kernels.match_held_bags(
                self.rows, offsets, self.labels, means[part], w, curve, sigma, per_sigma,
                wants_slopes, values[part], stretches[part], pulls[part],
            )  # fmt: skip
            return
        lanes = self.lanes[which]
        rows, n = lanes.rows[part], part.stop - part.start
        bags = lanes.bags[part.start * LANES : part.stop * LANES]
        own = np.full(n * LANES, means[bags[-1]])
        own[: len(bags)] = means[bags]
        shape = (n, LANES)
        value, stretch, pull = np.zeros(shape), np.zeros(shape), np.zeros((n, len(w) + 2, LANES))
        tolerance = PRECISE if wants_slopes else max(PRECISE, min(1e-4, _ROUGH / len(self)))
        kernels.match_small_bags(
            rows, lanes.labels[part], own.reshape(shape), w, curve, sigma, wants_slopes, tolerance,
            value, stretch, pull,
        )  # fmt: skip
        values[bags] = value.ravel()[: len(bags)]
        stretches[bags] = stretch.ravel()[: len(bags)]
        pulls[bags] = pull.transpose(0, 2, 1).reshape(n * LANES, -1)[: len(bags)]


def count_held(sizes: np.ndarray, d: int) -> int:
    """Return how many of the first bags, which are the smallest, are held."""
    is_held = (sizes <= HELD_ROWS) & (8.0 * (d + 1) * np.cumsum(sizes) <= HELD_BYTES)
    return int(is_held.sum())


def hold_bags(rows: np.ndarray, labels: np.ndarray, sizes: np.ndarray) -> HeldBags:
    """Return bags of such sizes, which ascend, from their rows (m, p) and centred labels."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    columns = np.ascontiguousarray(rows.T)
    n_lanes = int(np.searchsorted(sizes, LANE_ROWS, "right"))
    lanes = []
    for m in np.unique(sizes[:n_lanes]):
        if m == 1:
            continue
        bags = np.flatnonzero(sizes[:n_lanes] == m)
        filled = np.full(-(-len(bags) // LANES) * LANES, bags[-1])
        filled[: len(bags)] = bags
        # Rows of a bag stand together: (groups, lanes, rows).
        at = (offsets[filled][:, None] + np.arange(m)).reshape(-1, LANES, m).transpose(0, 2, 1)
        own = np.ascontiguousarray(columns[:, at].transpose(1, 0, 2, 3))
        lanes.append(_Lanes(bags, own, np.ascontiguousarray(labels[at])))
    return HeldBags(columns, labels, offsets, tuple(lanes), n_lanes)
