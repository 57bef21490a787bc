"""The posterior of data in blocks: many points a pass, from histograms of their predictions.

Value and gradient of a bag's shape follow from the histogram of its predictions, on cells of a
fraction of σ, with the sums of slopes in each cell; the labels enter as cells once for all. A row
in cell k counts at its two nodes, so that its slope is the difference of the nodes' potentials:
the gradient is that of the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp
from typing import Any

import numpy as np

from unshuffle import kernels
from unshuffle.data.blocks.histogram_source import HistogramSource
from unshuffle.data.blocks.sources import Block, Pass, Source
from unshuffle.data.products import multiply, predict_rows
from unshuffle.kernels.transport.grid import CELLS_PER_SIGMA
from unshuffle.model.bag_mean_totals import MeanTotals, add_up
from unshuffle.model.bag_means import Effects
from unshuffle.model.cell_matching import match_all
from unshuffle.model.histogram_labels import BagMoments, HistogramShapes
from unshuffle.model.kept_bags import HeldBags, Matched, Point
from unshuffle.model.nodes import share_nodes
from unshuffle.model.point_grid import PointGrid, lay_out
from unshuffle.model.posterior import Laws, Result, Steps, Target
from unshuffle.threads import count_threads

# All histograms of a pass, of one thread or of two together: points beyond wait for the next pass.
# More threads have as much each as two have: passes of few points take twice as long a point.
_MEMORY = 12e6
# A point with so many times that is filled some bags at a time: 500 bags took 170 MB.
_MOST_ROOM = 3.0
# Places of bags at points that are looked at together.
_MOST_PLACES = 200_000
# Nodes per sigma are those of the plain likelihood up to so many labels, as they count. What is
# left of the error of binning is of fourth order in a node's width and grows with the labels, while
# what the shapes of random bags say does not: at a million labels in full 2.25 nodes move the best
# of exponential columns by 3 nats, 4 nodes by a tenth of it.
_FEW_LABELS = 1e5


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockTarget(Target):
    """The posterior of rows in blocks; `rows` of the plain target is empty.

    `kept` are the columns of the source that vary, standardised by `centre` and `factor` (which is
    zero elsewhere). Bags have second moments `bag_squares` in standard units, and their labels are
    `label_bins` where they are judged.
    """

    source: Source
    kept: np.ndarray
    centre: np.ndarray
    factor: np.ndarray
    bag_squares: np.ndarray
    shapes: HistogramShapes
    label_bins: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    # The first bags, whose rows are held; the others' are counted in cells.
    held: HeldBags | None = None

    @property
    def is_in_blocks(self) -> bool:
        return True

    @property
    def nodes_per_sigma(self) -> float:
        """Nodes of the transport: the more, the more labels count."""
        return float(CELLS_PER_SIGMA * max(1.0, self.power * self.n / _FEW_LABELS) ** 0.25)

    def likelihood(
        self, w: np.ndarray, log_sigma: float, curve: float = 0.0, level: float = 0.0
    ) -> tuple[float, np.ndarray, float]:
        return self._combine(w, log_sigma, curve, *self._shape([(w, log_sigma, curve)], True)[0])

    def likelihoods(
        self, weights: np.ndarray, log_sigma: float, wants_slopes: bool
    ) -> list[tuple[float, np.ndarray, float]]:
        """Return the likelihood of straight laws at many weights: one pass."""
        points = [(w, log_sigma, 0.0) for w in weights]
        found = self._shape(points, wants_slopes)
        return [self._combine(*each, *shape) for each, shape in zip(points, found, strict=True)]

    def weigh_shapes(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what the shapes say in full at some points, and its gradients: one pass."""
        found = self._shape([self._point(theta) for theta in thetas], True)
        gradients = [self._order(gradient, slope) for _, gradient, slope in found]
        return np.array([value for value, _, _ in found]), np.array(gradients)

    def weigh_values(self, thetas: list[np.ndarray]) -> list[float]:
        """Return what the shapes say at some points, as they count: one pass, no gradients."""
        found = self._shape([self._point(theta) for theta in thetas], False)
        return [self.power * value for value, _, _ in found]

    def weigh_rest(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return what means of bags and prior say at a point, and its gradient: no pass."""
        nothing = np.zeros(self.p + self.has_curve)
        found = self._combine(*self._point(theta), 0.0, nothing, 0.0)
        return self.add_prior(theta, found)

    def _point(self, theta: np.ndarray) -> Point:
        """Return weights, log sigma and curve of coordinates."""
        return *self.split(theta), self.curve(theta)

    def _order(self, gradient: np.ndarray, slope: float) -> np.ndarray:
        """Return slopes in (w, c) and in log sigma in the order of the coordinates."""
        level = [slope] if self.log_sigma is None else []
        return np.concatenate([gradient[: self.p], level, gradient[self.p :]])

    def drive(self, steps: list[Steps[Result]]) -> list[Result]:
        """Run searches side by side: what they ask for at a time is one pass."""
        results: dict[int, Any] = {}
        asked = {i: next(step) for i, step in enumerate(steps)}
        while asked:
            places = list(asked)
            points = [self._point(asked[i]) for i in places]
            found = self._shape(points, True)
            for i, point, shape in zip(places, points, found, strict=True):
                answer = self.add_prior(asked.pop(i), self._combine(*point, *shape))
                try:
                    asked[i] = steps[i].send(answer)
                except StopIteration as end:
                    results[i] = end.value
        return [results[i] for i in range(len(steps))]

    def parts(self, x: np.ndarray, floor: float = -np.inf) -> np.ndarray:
        """Return the parts of many points; filling is cheap far from any fit, and has no floor."""
        law = self.read_points(x)
        inside = np.flatnonzero(law.is_inside)
        points = [(law.w[k], float(law.log_sigmas[k]), float(law.curves[k])) for k in inside]
        shapes = np.full(len(x), -np.inf)
        shapes[inside] = [found[0] for found in self._shape(points, False)]
        return law.join(shapes, self._weigh_many_means(law))

    def parts_of_means(self, law: Laws) -> np.ndarray:
        """Return the parts of many points without their shapes, which are zero: no pass."""
        return law.join(np.zeros(len(law.w)), self._weigh_many_means(law))

    def _weigh_many_means(self, law: Laws) -> np.ndarray:
        """Return what the means of bags say at many points, some at a time."""
        totals = self._mean_totals
        if totals is not None:
            return totals.weigh(self.means, law)
        size = max(1, int(_MEMORY / (64.0 * self.n_bags * self.means.n_sizes)))
        found = []
        for start in range(0, len(law.w), size):
            some = law.part(slice(start, start + size))
            gaps = self._gaps_of_many(some)
            found.append(self.means.evaluate_many(gaps, np.zeros(gaps.shape), some.log_sigmas))
        return np.concatenate(found) if found else np.empty(0)

    def _gaps_of_many(self, law: Laws) -> np.ndarray:
        """Return the residuals of the bag means at many points, (m, R)."""
        gaps = self.bag_labels - multiply(law.w, self.bag_rows.T)
        if self.has_curve:
            squares = np.einsum("rjk,mj,mk->mr", self.bag_squares, law.w, law.w)
            gaps -= law.curves[:, None] * (squares - law.signals[:, None])
        return gaps

    @cached_property
    def _mean_totals(self) -> MeanTotals | None:
        squares = self.bag_squares if self.has_curve else None
        return add_up(self.sizes, self.bag_labels, self.bag_rows, squares)

    def gaps(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means = self._bag_predictions(theta[: self.p], self.curve(theta))
        return self.bag_labels - means, np.zeros(self.n_bags)

    def draw_effects(self, x: np.ndarray, rng: np.random.Generator) -> Effects:
        law, totals = self.read_points(x), self._mean_totals
        if totals is not None:
            return totals.draw_effects(self.means, law, rng)
        gaps = self._gaps_of_many(law)
        return self.means.draw_effects(gaps, np.zeros(gaps.shape), law.log_sigmas, rng)

    def bag_laws(self, theta: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield the labels of each bag, and the nodes of its predictions with their shares.

        But for small bags that are held.
        """
        w, _, curve = point = self._point(theta)
        grid = self._lay_out([point]).only(np.arange(self.n_bags) >= self.n_held)
        cells, bases, offsets = self._fill(grid, False), grid.bases[0], self.label_bins[3]
        fine, means = float(grid.per_cell[0]), self._bag_predictions(w, curve)
        for r in range(0 if self.held is None else self.held.n_small, self.n_bags):
            labels = slice(offsets[r], offsets[r + 1])
            if r < self.n_held:
                yield labels, *share_nodes(self.predict_held(theta, slice(r, r + 1)), 1.0 / fine)
                continue
            size, n_tail = grid.sizes[0, r], grid.tails[0, r]
            own = cells[bases[r] : bases[r] + size + 2 * n_tail]
            nodes = kernels.place_nodes(grid.lows[0, r], size, n_tail, fine)
            masses = np.empty(len(nodes))
            kernels.share_out(own, masses)
            keep = masses > 0
            yield labels, means[r] + nodes[keep], masses[keep] / masses.sum()

    @property
    def n_held(self) -> int:
        """How many bags, the first ones, have their rows held."""
        return 0 if self.held is None else len(self.held)

    def predict_held(self, theta: np.ndarray, bags: slice) -> np.ndarray:
        """Return the law's mean of every row of some held bags."""
        assert self.held is not None
        w, curve, ends = (
            theta[: self.p],
            self.curve(theta),
            self.held.offsets[[bags.start, bags.stop]],
        )
        z = predict_rows(self.held.rows[:, ends[0] : ends[1]].T, w)
        return z + curve * (z * z - float(w @ self.covariance @ w))

    def prediction_spread(self, theta: np.ndarray) -> float:
        w = theta[: self.p]
        return float(np.sqrt(w @ self.covariance @ w))

    def label_items(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.label_bins

    def _bag_predictions(self, w: np.ndarray, curve: float) -> np.ndarray:
        """Return the mean prediction of every bag."""
        total = float(w @ self.covariance @ w)
        squares = np.einsum("rjk,j,k->r", self.bag_squares, w, w)
        return multiply(self.bag_rows, w) + curve * (squares - total)

    def _weigh_means(
        self, w: np.ndarray, log_sigma: float, curve: float
    ) -> tuple[float, np.ndarray, np.ndarray, float]:
        gaps = self.bag_labels - self._bag_predictions(w, curve)
        return self.means.evaluate(gaps, np.zeros(self.n_bags), log_sigma)

    def _combine(
        self,
        w: np.ndarray,
        log_sigma: float,
        curve: float,
        value: float,
        gradient: np.ndarray,
        slope: float,
    ) -> tuple[float, np.ndarray, float]:
        """Return the log likelihood of shapes and means, and its slopes in (w, c) and log sigma."""
        other, by_gap, _, other_slope = self._weigh_means(w, log_sigma, curve)
        others = -(self.mean_slopes(w, curve) * by_gap[:, None]).sum(axis=0)
        return (
            self.power * value + other,
            self.power * gradient + others,
            self.power * slope + other_slope,
        )

    def mean_slopes(self, w: np.ndarray, curve: float) -> np.ndarray:
        """Return the slopes of every bag's mean prediction in (w, c)."""
        pull = self.covariance @ w
        turned = np.einsum("rjk,k->rj", self.bag_squares, w)
        slopes = self.bag_rows + 2.0 * curve * (turned - pull)
        if not self.has_curve:
            return slopes
        return np.column_stack([slopes, (turned * w).sum(axis=1) - float(w @ pull)])

    def _shape(
        self, points: list[Point], wants_slopes: bool
    ) -> list[tuple[float, np.ndarray, float]]:
        """Return value, slopes in (w, c) and in log sigma of the shapes at every point."""
        self.evaluations.add(len(points))
        # As many points at a time as places of bags have room.
        size, found = max(1, _MOST_PLACES // self.n_bags), list[tuple[float, np.ndarray, float]]()
        for start in range(0, len(points), size):
            found += self._shape_some(points[start : start + size], wants_slopes)
        return found

    def _shape_some(
        self, points: list[Point], wants_slopes: bool
    ) -> list[tuple[float, np.ndarray, float]]:
        """Return value and slopes of the shapes at points: of bags in cells, and of held ones."""
        laws = [self._find_moments(w, curve) for w, _, curve in points]
        matched = [self._nothing() for _ in points]
        n_held = self.n_held
        # A bag without a shape, as of few rows in a sample, takes no cells.
        is_counted = (self.shapes.factors > 0.0) & (np.arange(self.n_bags) >= n_held)
        if is_counted.any():
            matched = self._count(points, is_counted, wants_slopes)
        if self.held is not None:
            means = [law.means for law in laws]
            small = self.held.match(points, means, self.nodes_per_sigma, wants_slopes, self.n_jobs)
            for own, (values, stretches, pulls) in zip(matched, small, strict=True):
                own[0][:n_held], own[1][:n_held] = values, stretches
                if wants_slopes:
                    own[2][:n_held, [0, *(1 + self.kept), -1]] = pulls
        return [
            self._unite(point, law, own, wants_slopes)
            for point, law, own in zip(points, laws, matched, strict=True)
        ]

    def _nothing(self) -> Matched:
        """Return what bags without a shape say."""
        n = self.n_bags
        return np.zeros(n), np.zeros(n), np.zeros((n, self.source.d + 2))

    def _count(
        self, points: list[Point], is_counted: np.ndarray, wants_slopes: bool
    ) -> list[Matched]:
        """Return what bags say whose rows are counted in cells, some points at a time."""
        grid = self._lay_out(points).only(is_counted)
        width = self.source.d + 3 if wants_slopes else 2
        room = _MEMORY / (8.0 * width * min(count_threads(self.n_jobs), 2))
        if isinstance(self.source, HistogramSource):
            room = self.source.room / width
        fillings = grid.divide(room, _MOST_ROOM * room)
        # Made when they are asked for: of very many bags each is large.
        filled = self._fill_all((grid.part(*each) for each in fillings), wants_slopes)
        found: list[list[Matched]] = [[] for _ in points]
        for places, bags in fillings:
            # Cells are let go before the next ones are filled.
            matched = match_all(
                self.shapes, grid.part(places, bags), next(filled), bags, self.nodes_per_sigma,
                wants_slopes, self.n_jobs,
            )  # fmt: skip
            for p, new in zip(range(places.start, places.stop), matched, strict=True):
                found[p] += new
        return [tuple(np.concatenate(each) for each in zip(*own, strict=True)) for own in found]  # type: ignore[misc]

    def _find_moments(self, w: np.ndarray, curve: float) -> BagMoments:
        """Return what the bags' moments say of predictions, as rows count here."""
        shapes = self.shapes
        turned = np.einsum("rjk,k->rj", shapes.row_squares, w)
        squares = multiply(turned, w)
        means = multiply(shapes.row_means, w) + curve * squares
        return BagMoments(means, squares, shapes.row_means + 2.0 * curve * turned)

    def _unite(
        self, point: Point, law: BagMoments, matched: Matched, wants_slopes: bool
    ) -> tuple[float, np.ndarray, float]:
        """Return value and slopes of the shapes at one point from those of its bags."""
        (values, stretches, pulls), (w, log_sigma, curve) = matched, point
        value, stretch = float(np.cumsum(values)[-1]), float(np.cumsum(stretches)[-1])
        shapes, sigma = self.shapes, exp(log_sigma)
        inner = float((shapes.sizes - 1.0)[shapes.factors > 0].sum())
        value -= inner * log_sigma
        gradient = np.zeros(self.p + self.has_curve)
        if not wants_slopes:
            return value, gradient, 0.0
        ones, by_x, by_square = pulls[:, 0], pulls[:, 1:-1][:, self.kept], pulls[:, -1]
        gradient[: self.p] = (by_x - ones[:, None] * law.slopes).sum(axis=0) / sigma
        if self.has_curve:
            gradient[-1] = float((by_square - ones * law.squares).sum()) / sigma
        moves = multiply(by_x, w) - curve * by_square - ones * law.means
        return value, gradient, stretch - float(moves.sum()) / sigma - inner

    def _lay_out(self, points: list[Point]) -> PointGrid:
        """Choose the cells of every bag's predictions at every point."""
        grid = lay_out(points, self.shapes, self.covariance)
        full = np.zeros((len(points), self.source.d))
        full[:, self.kept] = grid.weights
        return replace(grid, weights=full)

    def _fill(self, grid: PointGrid, wants_slopes: bool) -> np.ndarray:
        """Take one pass over the rows; return the cells of all histograms."""
        return next(self._fill_all([grid], wants_slopes))

    def _fill_all(self, grids: Iterable[PointGrid], wants_slopes: bool) -> Iterator[np.ndarray]:
        """Take a pass for each of some grids; yield the cells of all its histograms."""
        if not isinstance(self.source, HistogramSource):
            return self.source.add_up_all(self._plan(grid, wants_slopes) for grid in grids)
        units, fill = (self.centre, self.factor), self.source.fill
        return (fill(grid, *units, wants_slopes) for grid in grids)

    def _plan(self, grid: PointGrid, wants_slopes: bool) -> Pass[np.ndarray]:
        """Return the pass that fills the cells of all histograms."""
        bases, n_bags = grid.bases, self.n_bags
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
