"""The within-bag likelihood of bags whose rows were counted in cells: transport of histograms."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp
from typing import Protocol

import numpy as np

from unshuffle import kernels
from unshuffle.kernels.filling import PLACES, tail_node
from unshuffle.kernels.transport.bags import MOST_ATOMS
from unshuffle.kernels.transport.lanes import make_problems
from unshuffle.kernels.transport.vectors import LANES
from unshuffle.model.nodes import FINE_PER_SIGMA
from unshuffle.model.point_grid import PointGrid
from unshuffle.model.transport import log_permanents, spread_variances
from unshuffle.threads import map_all

# Nats that the last step of a scaling may gain where no slopes are wanted.
_ROUGH = 1e-4


class LabelCells(Protocol):
    """The labels of bags as cells, and how often a row of each bag counts."""

    @property
    def values(self) -> np.ndarray: ...
    @property
    def masses(self) -> np.ndarray: ...
    @property
    def cell_offsets(self) -> np.ndarray: ...
    @property
    def counts(self) -> np.ndarray: ...


def place_nodes(start: float, size: int, n_tail: int, fine: float) -> np.ndarray:
    """Return the places of a histogram's nodes, one more than its cells, `fine` for a unit."""
    tail = np.array([tail_node.py_func(k + 1) for k in range(n_tail)])
    inner = start + np.arange(size + 1)
    return np.asarray(np.concatenate([start - tail[::-1], inner, start + size + tail]) / fine)


def share_cells(cells: np.ndarray) -> np.ndarray:
    """Return the masses of nodes: each row counts at both ends of its cell, by its place in it."""
    right, masses = cells[:, 1] / PLACES, np.zeros(len(cells) + 1)
    masses[1:] = right
    masses[:-1] += cells[:, 0] - right
    return masses


@dataclass(frozen=True, eq=False)
class HistogramProblems:
    """The transport problems of bags at points whose histograms were filled.

    `cells` are those of `kernels.fill_cells`; bags and points are those of the grid, and bags
    without cells have no problem.
    """

    within_bag: LabelCells
    grid: PointGrid
    cells: np.ndarray
    per_sigma: float

    def evaluate(
        self, wants_slopes: bool, n_jobs: int | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values and slopes in log sigma due to labels, (points, bags), and gradients.

        Gradients (points, bags, d + 2): see `kernels.add_histograms`. Problems of about as many
        atoms stand side by side; the bits depend neither on these nor on threads.
        """
        problems = np.zeros((np.count_nonzero(self.grid.sizes), 5), np.int64)
        problems[:, :2] = np.argwhere(self.grid.sizes)
        given = self._arrays()
        kernels.list_histograms(problems, *given[:6], *given[7:8], *given[9:])
        atoms = problems[:, 4]
        order = np.argsort(atoms, kind="stable")
        n_small = int(np.searchsorted(atoms[order], MOST_ATOMS, "right"))
        bounds = [*range(0, n_small, LANES), *range(n_small, len(order) + 1)]
        shape = self.grid.sizes.shape
        values, by_sigmas = np.zeros(shape), np.zeros(shape)
        gradients = np.zeros((*shape, self.cells.shape[1] - 1))

        def solve(bound: tuple[int, int]) -> None:
            group = order[slice(*bound)]
            self._solve(group, problems, given, wants_slopes, values, by_sigmas, gradients)

        map_all(solve, list(pairwise(bounds)), n_jobs)
        return values, by_sigmas, gradients

    def _arrays(self) -> tuple[np.ndarray, ...]:
        """Return what kernels need: histograms of predictions, then those of labels."""
        grid, labels = self.grid, self.within_bag
        sigmas = np.array([exp(float(level)) for level in grid.log_sigmas])
        fines = grid.per_cell * sigmas
        return (
            self.cells, grid.bases, grid.lows, grid.sizes, grid.tails, fines, labels.counts,
            labels.values, labels.masses, labels.cell_offsets, sigmas,
            self.per_sigma * fines / FINE_PER_SIGMA,
        )  # fmt: skip

    def _solve(
        self,
        group: np.ndarray,
        problems: np.ndarray,
        given: tuple[np.ndarray, ...],
        wants_slopes: bool,
        values: np.ndarray,
        by_sigmas: np.ndarray,
        gradients: np.ndarray,
    ) -> None:
        """Solve problems side by side, or one that is large."""
        m = int(problems[group[-1], 4])
        lanes = LANES if m <= MOST_ATOMS else 1
        sides, sizes = make_problems(m, lanes)
        places, origins, room = np.empty((2, lanes, m), int), np.empty((2, lanes)), np.empty(m + 3)
        bags = problems[group, 1]
        longest = int((problems[group, 3] - problems[group, 2]).max()) + 1
        offsets = self.within_bag.cell_offsets
        longest = max(longest, int((offsets[bags + 1] - offsets[bags]).max()))
        nodes, masses = np.empty(longest), np.empty(longest)
        kernels.place_histograms(
            group, problems, *given, sides, sizes, places, origins, nodes, masses, room
        )
        points = np.resize(problems[group, 0], lanes)
        points[len(group) :] = problems[group[-1], 0]
        spreads = spread_variances(given[-1][points], lanes, given[5][points])
        found = log_permanents(sides, sizes, spreads, _ROUGH, wants_slopes)[0]
        kernels.add_histograms(
            group, problems, *given, self.grid.units, wants_slopes, sides, sizes, places, origins,
            room, found, values, by_sigmas, gradients,
        )  # fmt: skip
