"""The one way from data to a solution: standardise, solve, and return to the user's units.

Bags in memory and data in blocks (`solving_blocks`) differ in how they are standardised and handed
to a method, which `Data` and `Standard` say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.data.bags import Bags
from unshuffle.data.scaling import Scaling, standardise
from unshuffle.errors import InputError
from unshuffle.gpu.devices import find_device, read_number
from unshuffle.methods import BLOCKS_ABOVE, find_strategy
from unshuffle.objectives.checks import (
    check_labels_of_user,
    check_noise,
    check_range,
    check_scaling,
    make_remarks,
    scale_noise,
    scale_offsets,
)
from unshuffle.objectives.noise import Noise, as_noise
from unshuffle.objectives.penalties import scale_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.options import BagOffsets, FitOptions, as_bag_offsets, check_options
from unshuffle.progress import Report, say_nothing

if TYPE_CHECKING:
    from unshuffle.data.links import MismatchPrior

# Finds the solution of a problem in standard units.
Task = Callable[[np.random.Generator], Solution]


@dataclass(frozen=True, eq=False)
class Standard(ABC):
    """Data in standard units, the strategy that solves them, and what is to be said of them."""

    strategy: Strategy
    scaling: Scaling
    remarks: tuple[str, ...]

    @abstractmethod
    def build_task(
        self, noise: Noise | None, offsets: BagOffsets, options: FitOptions, effort: Effort
    ) -> Task:
        """Return the work that is left; noise and offsets are in standard units."""


class Data(ABC):
    """What is fitted, in the user's units; its numbers are checked."""

    @abstractmethod
    def standardise(self, options: FitOptions, names: Sequence[str] | None) -> Standard:
        """Return the data in standard units; remarks call columns by their names, or number."""


def solve(
    data: Data,
    options: FitOptions,
    rng: np.random.Generator,
    names: Sequence[str] | None = None,
    report: Report = say_nothing,
) -> tuple[Solution, str]:
    """Solve data in standard units; return the solution in the user's, and the method used.

    Remarks call the columns by their `names`, or by number; `report` receives the progress.
    """
    noise = as_noise(options.noise)
    standard = data.standardise(options, names)
    strategy, scaling, remarks = standard.strategy, standard.scaling, standard.remarks
    check_scaling(scaling, strategy.degree)
    if noise is not None:
        noise = scale_noise(noise, scaling.label_scale)
    offsets = scale_offsets(as_bag_offsets(options.bag_offsets), scaling.label_scale)
    task = standard.build_task(noise, offsets, options, make_effort(options, report))
    # The solver sees standard units only; letting go of the rest saves a copy of the data.
    del data, standard
    solution = task(rng)
    solution = solution.with_remarks(remarks, np.flatnonzero(scaling.is_constant).tolist())
    found = solution.mapped(scaling.to_user, scaling.label_scale, strategy.degree)
    return found, solution.stats.method or strategy.name


def take_bags(
    bags: Bags,
    options: FitOptions,
    names: Sequence[str] | None = None,
    links: MismatchPrior | None = None,
) -> BagsInMemory:
    """Return bags with the strategy that fits them."""
    check_options(options)
    as_noise(options.noise)
    strategy = find_strategy(bags, options, links)
    check_range(bags, names)
    return BagsInMemory(bags, strategy)


@dataclass(frozen=True, eq=False)
class BagsInMemory(Data):
    """Bags, and the strategy that fits them."""

    bags: Bags
    strategy: Strategy

    def standardise(self, options: FitOptions, names: Sequence[str] | None) -> Standard:
        bags, strategy = self.bags, self.strategy
        loss, has_intercept = strategy.loss, options.fit_intercept
        standard, scaling = standardise(
            bags, has_intercept, has_intercept and loss.is_shift_invariant
        )
        if loss.degree is None:  # the loss of a user's g keeps the user's units
            check_labels_of_user(bags)
            scaling = replace(scaling, label_scale=1.0, label_centre=0.0)
            standard = replace(standard, labels=bags.labels)
        strategy.check(bags, options)
        on_device = _check_device(bags, strategy, options)
        if not strategy.has_posterior:
            standard = replace(standard, labels=standard.labels.points)
        remarks = make_remarks(bags, standard, scaling, names, has_prior=strategy.has_posterior)
        return StandardBags(strategy, scaling, remarks + on_device, standard)


@dataclass(frozen=True, eq=False)
class StandardBags(Standard):
    """Bags in standard units."""

    bags: Bags

    def build_task(
        self, noise: Noise | None, offsets: BagOffsets, options: FitOptions, effort: Effort
    ) -> Task:
        strategy = self.strategy
        penalty = scale_penalty(options, self.scaling, strategy.degree)
        if noise is not None:
            n_moments = strategy.noise_moments(self.bags)
            if strategy.loss.degree is not None and n_moments:
                check_noise(noise, n_moments)
        problem = Problem(self.bags, strategy.loss, noise, penalty, options.fit_intercept, offsets)
        return lambda rng: strategy.solve(problem, rng, effort)


def _check_device(bags: Bags, strategy: Strategy, options: FitOptions) -> tuple[str, ...]:
    """Refuse a GPU for what no GPU does; say so where there is too little for one to do."""
    if find_device(options.device) is None:
        return ()
    check_kernels(strategy, options)
    if bags.n > BLOCKS_ABOVE:
        raise InputError(
            f"device={options.device!r} is for one label for each row and no known pairs: leave "
            "device out"
        )
    return (
        f"{bags.n} rows were fitted on the processor, as up to {BLOCKS_ABOVE} always are: device="
        f"{options.device!r} is for more.",
    )


def check_kernels(strategy: Strategy, options: FitOptions) -> None:
    """Refuse a method that has no kernels for a GPU, where one is asked for."""
    if read_number(options.device) is not None and not strategy.has_passes:
        raise InputError(
            f"device={options.device!r}: method '{strategy.name}' runs on the processor only: "
            "leave device out, or use method 'likelihood'"
        )


def make_effort(options: FitOptions, report: Report) -> Effort:
    """Return how much work a solver may take, and whom it tells how far it is."""
    n_starts = None if options.n_starts is None else int(options.n_starts)
    n_jobs = None if options.n_jobs is None else int(options.n_jobs)
    return Effort(n_starts, options.tol, n_jobs, report)
