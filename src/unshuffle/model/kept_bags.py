"""The within-bag likelihood of rows that are kept: Gaussian noise, one label for each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import exp

import numpy as np

from unshuffle import kernels
from unshuffle.kernels.transport.bags import GRIDS, LARGE
from unshuffle.kernels.transport.coupling import PRECISE
from unshuffle.kernels.transport.lanes import (
    make_band,
    make_problems,
    make_room,
    make_rows,
)
from unshuffle.kernels.transport.permanent import EXACT_ROWS, make_tables
from unshuffle.kernels.transport.vectors import LANES
from unshuffle.model.nodes import FINE_PER_SIGMA, SMALL_ROWS, nodes_per_sigma, share_nodes
from unshuffle.model.points import Evaluated, Parameters, predict
from unshuffle.model.within_bag import WithinBag
from unshuffle.threads import map_all

# Rows of a piece of work, and predictions at all of its points: about a millisecond, and points
# enough that bags of any number fill the lanes.
PIECE_ROWS, PIECE_PREDICTIONS = 8000, 60_000


@dataclass(frozen=True, eq=False)
class KeptBags:
    """The rows (p, n) and labels of bags; labels are centred in each, and ascend."""

    rows: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows of each bag."""
        return np.diff(self.offsets).astype(float)

    @property
    def n_small(self) -> int:
        """How many bags, where these ascend by size, have few enough rows to look at one by one."""
        return int(np.searchsorted(self.sizes, SMALL_ROWS, "right"))

    @cached_property
    def _pieces(self) -> list[slice]:
        """Bags that are matched at a time: the same for any number of points and threads."""
        pieces, start = [], 0
        while start < len(self):
            most = self.offsets[start] + PIECE_ROWS
            stop = max(start + 1, int(np.searchsorted(self.offsets, most, "right")) - 1)
            pieces.append(slice(start, stop))
            start = stop
        return pieces

    def evaluate(
        self,
        params: Parameters,
        per_sigma: float,
        wants_slopes: bool,
        tolerance: float,
        n_jobs: int | None,
    ) -> Evaluated:
        """Return the log likelihoods of deviations from bag means at points, and their slopes.

        Iterations may end at steps that gain less than the tolerance, in nats.
        """
        m, size = len(params), params.w.shape[1] + len(params.degrees)
        totals = np.zeros((len(self._pieces), m, 2 + size))
        tasks = []
        for i, bags in enumerate(self._pieces):
            n_rows = self.offsets[bags.stop] - self.offsets[bags.start]
            step = max(LANES, PIECE_PREDICTIONS // max(int(n_rows), 1))
            tasks += [(i, slice(k, min(k + step, m))) for k in range(0, m, step)]

        def work(task: tuple[int, slice]) -> None:
            i, some = task
            totals[i, some] = self._match(
                self._pieces[i], params.part(some), per_sigma, wants_slopes, tolerance
            )

        map_all(work, tasks, n_jobs)
        # One piece after the other, whatever thread matched it.
        total = np.cumsum(totals, axis=0)[-1] if len(totals) else np.zeros((m, 2 + size))
        inner = float((self.sizes - 1.0).sum())
        gradients = np.column_stack([total[:, 2:], np.zeros(m)])
        return Evaluated(total[:, 0] - inner * params.log_sigmas, gradients, total[:, 1] - inner)

    def _match(
        self,
        bags: slice,
        params: Parameters,
        per_sigma: float,
        wants_slopes: bool,
        tolerance: float,
    ) -> np.ndarray:
        """Return values, slopes in log sigma, in weights and terms, (m, 2 + p + T), of bags."""
        start, stop = self.offsets[bags.start], self.offsets[bags.stop]
        offsets = self.offsets[bags.start : bags.stop + 1] - start
        rows, labels = self.rows[:, start:stop], self.labels[start:stop]
        m, n = len(params), len(labels)
        w, coefs = np.ascontiguousarray(params.w), np.ascontiguousarray(params.coefs)
        sigmas, degrees = np.exp(params.log_sigmas), params.degrees
        z, bent = np.empty((m, n)), np.empty((m, n))
        kernels.predict_points(rows, w, degrees, coefs, z, bent)
        problems, shares, order, starts = kernels.lay_out(bent, labels, offsets, sigmas, per_sigma)
        values, slopes = np.zeros((m, len(offsets) - 1, 2)), np.zeros((m, n * wants_slopes))
        given = (problems, shares, bent, labels, offsets, sigmas, per_sigma, wants_slopes)
        for group in _divide(order, starts):
            match_group(group, given, tolerance, values, slopes)
        large = order[starts[LARGE] :]
        if len(large):
            kernels.match_large(large, *given, tolerance, values, slopes)
        found, gradients = np.zeros((m, 2)), np.zeros((m, w.shape[1] + len(degrees)))
        kernels.add_up(offsets, sigmas, values, slopes, found)
        if wants_slopes:
            kernels.chain_points(rows, offsets, z, degrees, coefs, slopes, gradients)
        return np.column_stack([found, gradients])

    def predict(self, params: Parameters, bags: slice) -> np.ndarray:
        """Return what a point predicts of the rows of some bags."""
        start, stop = self.offsets[bags.start], self.offsets[bags.stop]
        return predict(self.rows[:, start:stop], params, 0)


def _divide(order: np.ndarray, starts: np.ndarray) -> Iterator[np.ndarray]:
    """Yield problems that stand side by side: tiny bags of one size, points, or grids."""
    ends = [*(starts[k] for k in range(1, EXACT_ROWS + 2)), starts[GRIDS], starts[LARGE]]
    for first, last in pairwise(ends):
        for at in range(first, last, LANES):
            yield order[at : min(at + LANES, last)]


def match_group(
    group: np.ndarray,
    given: tuple[object, ...],
    tolerance: float,
    values: np.ndarray,
    slopes: np.ndarray,
) -> None:
    """Match problems side by side, and add what they say to values and slopes of their bags."""
    problems, _, bent, labels, offsets, sigmas, per_sigma, wants_slopes = given
    key = int(problems[group[-1], 2])  # type: ignore[index]
    m = key - GRIDS if key > GRIDS else key
    sides, ends = make_problems(m)
    places, lows, sizes = (
        np.empty((2, LANES, m), int),
        np.empty((2, LANES)),
        np.empty((2, LANES), int),
    )
    kernels.lay_group(
        group, problems, bent, labels, offsets, sigmas, per_sigma, sides, ends, places, lows, sizes
    )
    if key <= EXACT_ROWS:
        found = np.empty(LANES), np.zeros(LANES), make_rows(m)
        kernels.match_exactly(sides, wants_slopes, *found, *make_tables(m))
    else:
        spread = 1.0 / (3.0 * per_sigma**2) if key > GRIDS else 0.0  # type: ignore[operator]
        found = match_side_by_side(sides, ends, spread, tolerance, bool(wants_slopes))
    kernels.take_group(group, *given, sides, places, lows, sizes, *found, values, slopes)


def match_side_by_side(
    sides: np.ndarray, ends: np.ndarray, spread: float, tolerance: float, wants_slopes: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log perm of problems side by side, and slopes in log sigma and in their points.

    On grids, which add a variance `spread`, potentials become the slopes in the masses of nodes.
    Python calls the steps one by one: a kernel with all of them would compile each once more.
    """
    m, band = sides.shape[1], make_band(ends)
    (room, few), (values, by_sigmas) = make_room(m), make_rows(2, 1)
    slopes, tolerance = make_rows(m), PRECISE if wants_slopes else tolerance
    by_sigmas[:] = 0.0
    kernels.lay_band(sides, *band)
    u, v = kernels.match_margins(*band, sides, tolerance, room, few)
    kernels.take_coupling(*band, u, v, sides, values[0])
    found = make_rows(7, m)
    kernels.correct_group(sides, *band, spread, values, found)
    if wants_slopes:
        out = make_rows(4, m)
        kernels.slope_group(sides, *band, found, spread, out)
        kept_z, kept_y = kernels.solve_adjoint(*band, sides, found[0], *out[:2], room, few)
        if spread > 0.0:
            sides[4] += out[2] + kept_z
            sides[5] += out[3] + kept_y
        else:
            kernels.point_gradients(
                *band, sides, found[2], found[3], kept_z, kept_y, slopes, by_sigmas
            )
    return values[0], by_sigmas[0], slopes


@dataclass(frozen=True, eq=False)
class KeptWithinBag(WithinBag):
    """All bags are kept."""

    bags: KeptBags
    is_centred = True

    @property
    def rows(self) -> np.ndarray:  # type: ignore[override]
        """The columns, (p, n)."""
        return self.bags.rows

    @property
    def offsets(self) -> np.ndarray:  # type: ignore[override]
        """Where bags begin and end."""
        return self.bags.offsets

    @cached_property
    def bag_of_row(self) -> np.ndarray:
        """The bag of every row."""
        return np.repeat(np.arange(len(self.bags)), np.diff(self.offsets))

    @property
    def label_counts(self) -> np.ndarray:  # type: ignore[override]
        """Number of rows of each bag."""
        return self.bags.sizes

    @property
    def approximate(self) -> float:  # type: ignore[override]
        """Share of the rows in bags too large for exact permanents."""
        sizes = self.bags.sizes
        return float(sizes[sizes > EXACT_ROWS].sum()) / float(sizes.sum())

    def evaluate(
        self,
        params: Parameters,
        power: float,
        wants_slopes: bool,
        n_jobs: int | None,
    ) -> Evaluated:
        per_sigma = nodes_per_sigma(power * float(self.bags.sizes.sum()))
        tolerance = self.tolerance(power)
        return self.bags.evaluate(params, per_sigma, wants_slopes, tolerance, n_jobs)

    def bag_distributions(
        self, params: Parameters
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        width = exp(params.log_sigmas[0]) / FINE_PER_SIGMA
        for r, (start, stop) in enumerate(zip(self.offsets[:-1], self.offsets[1:], strict=True)):
            z = self.bags.predict(params, slice(r, r + 1))
            if len(z) > SMALL_ROWS:
                yield slice(start, stop), *share_nodes(z, width)
            else:
                yield slice(start, stop), z, np.full(len(z), 1.0 / len(z))

    def label_items(
        self, label_means: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        y = self.bags.labels + label_means[self.bag_of_row]
        return y, y, np.ones(len(y)), self.offsets
