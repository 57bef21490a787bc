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
from unshuffle.kernels.transport.lanes import make_ends, make_problems, make_rows
from unshuffle.kernels.transport.permanent import EXACT_ROWS, make_tables
from unshuffle.kernels.transport.vectors import LANES
from unshuffle.model.nodes import FINE_PER_SIGMA, SMALL_ROWS, nodes_per_sigma, share_nodes
from unshuffle.model.points import Evaluated, Parameters, predict
from unshuffle.model.transport import log_permanents, spread_variances
from unshuffle.model.within_bag import WithinBag
from unshuffle.threads import map_all

# Rows of the bags that are evaluated at a time, and their predictions at all points (rows times
# points): about a millisecond, and points enough that any number of bags fills the lanes.
PIECE_ROWS, PIECE_PREDICTIONS = 8000, 60_000


@dataclass(frozen=True, eq=False)
class KeptBags:
    """The rows (p, n) and labels of bags. In each bag the labels are centred, and ascend."""

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
        """How many bags have up to `SMALL_ROWS` rows, where bags ascend by size."""
        return int(np.searchsorted(self.sizes, SMALL_ROWS, "right"))

    @cached_property
    def _pieces(self) -> list[slice]:
        """Bags that are evaluated at a time: the same for any number of points and threads."""
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

        Iterations end where a step gains less than the tolerance, in nats.
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
            totals[i, some] = self._evaluate(
                self._pieces[i], params.part(some), per_sigma, wants_slopes, tolerance
            )

        map_all(work, tasks, n_jobs)
        # Added up in the order of the pieces, whichever thread evaluated them.
        total = np.cumsum(totals, axis=0)[-1] if len(totals) else np.zeros((m, 2 + size))
        inner = float((self.sizes - 1.0).sum())
        gradients = np.column_stack([total[:, 2:], np.zeros(m)])
        return Evaluated(total[:, 0] - inner * params.log_sigmas, gradients, total[:, 1] - inner)

    def _evaluate(
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
        kernels.centre_bags(bent, offsets, sigmas)
        values, slopes = np.zeros((m, len(offsets) - 1, 2)), np.zeros((m, n * wants_slopes))
        problems = BagProblems.find(bent, labels, offsets, sigmas, per_sigma)
        for group in problems.groups():
            problems.solve(group, tolerance, values, slopes)
        gradients = np.zeros((m, w.shape[1] + len(degrees)))
        if wants_slopes:
            kernels.centre_bags(slopes, offsets, sigmas)
            kernels.chain_points(rows, offsets, z, degrees, coefs, slopes, gradients)
        # Added up in the order of the bags, whatever stood beside them.
        return np.column_stack([np.cumsum(values, axis=1)[:, -1], gradients])

    def predict(self, params: Parameters, bags: slice) -> np.ndarray:
        """Return what a point predicts of the rows of some bags."""
        start, stop = self.offsets[bags.start], self.offsets[bags.stop]
        return predict(self.rows[:, start:stop], params, 0)


@dataclass(frozen=True, eq=False)
class BagProblems:
    """The transport problems of bags at points: see `kernels.list_problems`.

    ``bent`` (points, rows) are values of the mean function, centred in each bag, in units of
    sigma. ``shares`` (problems, 2) are the share of each problem in the value of its bag, and the
    slope of that share in log sigma.
    """

    bent: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    sigmas: np.ndarray
    per_sigma: float
    problems: np.ndarray
    shares: np.ndarray

    @staticmethod
    def find(
        bent: np.ndarray,
        labels: np.ndarray,
        offsets: np.ndarray,
        sigmas: np.ndarray,
        per_sigma: float,
    ) -> BagProblems:
        """Return the problems of all bags: on their rows, on grids, or both."""
        most = 2 * len(sigmas) * (len(offsets) - 1)
        problems, shares = np.empty((most, 4), np.int64), np.empty((most, 2))
        n = kernels.list_problems(bent, labels, offsets, sigmas, per_sigma, problems, shares)
        return BagProblems(bent, labels, offsets, sigmas, per_sigma, problems[:n], shares[:n])

    @cached_property
    def _most_rows(self) -> int:
        return int(np.diff(self.offsets).max())

    @cached_property
    def _spreads(self) -> tuple[np.ndarray, np.ndarray]:
        """The variances that problems on rows (none) and on grids add."""
        return spread_variances(np.inf, LANES), spread_variances(self.per_sigma, LANES)

    def groups(self) -> Iterator[np.ndarray]:
        """Yield problems that stand side by side.

        They are exact permanents of one size, or small transport problems on rows, or on grids.
        Large problems come alone.
        """
        keys = self.problems[:, 2].astype(np.int16)
        order = np.argsort(keys, kind="stable")
        bounds = [*range(1, EXACT_ROWS + 2), GRIDS, LARGE]
        ends = np.searchsorted(keys[order], bounds).tolist()
        for first, last in pairwise(ends):
            for at in range(first, last, LANES):
                yield order[at : min(at + LANES, last)]
        for at in range(ends[-1], len(order)):
            yield order[at : at + 1]

    def solve(
        self, group: np.ndarray, tolerance: float, values: np.ndarray, slopes: np.ndarray
    ) -> None:
        """Solve problems side by side, and add their values and slopes to those of their bags."""
        key, m = (int(part) for part in self.problems[group[-1], 2:])
        is_large, is_exact, wants_slopes = key >= LARGE, key <= EXACT_ROWS, slopes.shape[1] > 0
        is_grid = key > GRIDS and key != LARGE
        lanes, most_rows = (1 if is_large else LANES), self._most_rows
        sides, sizes = make_problems(m, lanes)
        places, lows = np.empty((2, lanes, m), int), np.empty((2, lanes))
        order, room = np.empty(most_rows, np.uint64), np.empty(m + 3 + most_rows * is_grid)
        given = (self.bent, self.labels, self.offsets, self.sigmas, self.per_sigma)
        kernels.place_bags(
            group, self.problems, *given, is_grid, sides, sizes, places, lows, order, room
        )
        if is_exact:
            ends = make_ends(m)
            kernels.fill_gauge(sides, sizes, np.empty_like(ends), ends)
            found = np.empty(LANES), np.zeros(LANES), make_rows(m)
            kernels.exact_permanents(sides, wants_slopes, *found, *make_tables(m))
        else:
            spreads = self._spreads[int(is_grid)]
            found = log_permanents(sides, sizes, spreads[:, :lanes], tolerance, wants_slopes)
        kernels.add_bags(
            group, self.problems, self.shares, *given, wants_slopes, is_grid, sides, sizes, places,
            lows, room, *found, values, slopes,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class KeptWithinBag(WithinBag):
    """The within-bag likelihood where all bags are kept in memory."""

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
