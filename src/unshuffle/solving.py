"""The way from data to a solution: standardise, solve, and return to the user's units.

`solve` takes bags in memory (`take_bags`) or what a first pass knows of a source that is read in
blocks (`take_blocks`). Both carry the strategy that fits them, which `methods` has chosen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import BlockStrategy, Effort, Strategy, Task
from unshuffle.data.bags import Bags
from unshuffle.data.blocks.first_pass import FirstPass, make_first_pass
from unshuffle.data.blocks.sources import Source
from unshuffle.data.scaling import Scaling, standardise, standardise_pass
from unshuffle.errors import InputError
from unshuffle.gpu.devices import find_device, read_number
from unshuffle.methods import BLOCKS_ABOVE, find_strategy
from unshuffle.objectives.block_moments import BlockProblem
from unshuffle.objectives.checks import (
    check_labels_of_user,
    check_noise,
    check_range,
    check_scaling,
    check_sizes,
    describe_data,
    make_remarks,
    scale_noise,
    scale_offsets,
)
from unshuffle.objectives.noise import Noise, as_noise
from unshuffle.objectives.penalties import Penalty, scale_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.options import BagOffsets, FitOptions, as_bag_offsets, check_options
from unshuffle.progress import IN_BLOCKS, Report, say_nothing
from unshuffle.solvers.means import Means

if TYPE_CHECKING:
    from unshuffle.data.links import MismatchPrior


@dataclass(frozen=True, eq=False)
class Standard:
    """Data in standard units.

    `strategy` solves them, `remarks` say what should be known of them, and `prepare` returns the
    work, given noise, offsets and penalty in these units.
    """

    strategy: Strategy
    scaling: Scaling
    remarks: tuple[str, ...]
    prepare: Callable[[Noise | None, BagOffsets, Penalty, Effort], Task]


class Data(ABC):
    """Data in the user's units, whose numbers are checked, with the strategy that fits them."""

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
    penalty = scale_penalty(options, scaling, strategy.degree)
    n_starts, n_jobs = (None if n is None else int(n) for n in (options.n_starts, options.n_jobs))
    task = standard.prepare(noise, offsets, penalty, Effort(n_starts, options.tol, n_jobs, report))
    # The solver needs standard units only; freeing the rest saves a copy of the data.
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
        prepare = partial(_prepare_bags, standard, strategy, has_intercept)
        return Standard(strategy, scaling, remarks + on_device, prepare)


def _prepare_bags(
    bags: Bags,
    strategy: Strategy,
    has_intercept: bool,
    noise: Noise | None,
    offsets: BagOffsets,
    penalty: Penalty,
    effort: Effort,
) -> Task:
    """Return the work on bags in standard units."""
    n_moments = strategy.noise_moments(bags)
    if noise is not None and n_moments and strategy.loss.degree is not None:
        check_noise(noise, n_moments)
    problem = Problem(bags, strategy.loss, noise, penalty, has_intercept, offsets)
    return lambda rng: strategy.solve(problem, rng, effort)


def _check_device(bags: Bags, strategy: Strategy, options: FitOptions) -> tuple[str, ...]:
    """Refuse a GPU for methods without kernels; return a remark where there are too few rows."""
    if find_device(options.device) is None:
        return ()
    _check_kernels(strategy, options)
    if bags.n > BLOCKS_ABOVE:
        raise InputError(
            f"device={options.device!r} is for one label for each row and no known pairs: leave "
            "device out"
        )
    return (
        f"{bags.n} rows were fitted on the processor, as up to {BLOCKS_ABOVE} always are: device="
        f"{options.device!r} is for more.",
    )


def _check_kernels(strategy: Strategy, options: FitOptions) -> None:
    """Refuse a method that has no kernels for a GPU, where one is asked for."""
    if read_number(options.device) is not None and not strategy.has_passes:
        raise InputError(
            f"device={options.device!r}: method '{strategy.name}' runs on the processor only: "
            "leave device out, or use method 'likelihood'"
        )


def take_blocks(
    source: Source,
    options: FitOptions,
    strategy: BlockStrategy,
    rng: np.random.Generator,
    names: Sequence[str] | None = None,
    report: Report = say_nothing,
) -> Blocks:
    """Return the first pass over a source, with the strategy that `find_block_strategy` chose."""
    check_options(options)
    as_noise(options.noise)
    strategy = strategy.declare(options)
    strategy.check_penalties(options)
    _check_kernels(strategy, options)
    if strategy.has_passes:
        report(IN_BLOCKS, 0.0)
    if options.device is not None:
        from unshuffle.gpu.source import move_source  # only where a card may be asked for

        source = move_source(source, options.device, report)
    first = make_first_pass(source, int(rng.integers(2**63)), report, has_cubes=strategy.has_passes)
    strategy.check_offsets(len(first.sizes), options)
    largest = np.abs(first.column_ends).max(axis=1)
    check_sizes(largest, np.abs(first.label_ends).max(), first.n, names)
    return Blocks(first, strategy)


@dataclass(frozen=True, eq=False)
class Blocks(Data):
    """Sums of the first pass over data in blocks, and the strategy that fits them."""

    first: FirstPass
    strategy: BlockStrategy

    def standardise(self, options: FitOptions, names: Sequence[str] | None) -> Standard:
        first, strategy = self.first, self.strategy
        centre_labels = options.fit_intercept and strategy.loss.is_shift_invariant
        scaling = standardise_pass(first, options.fit_intercept, centre_labels)
        squares = first.moments(scaling.centre, scaling.scale)[1]
        # Mean products of the standardised columns, zero for columns that do not vary.
        gram = np.einsum("r,rjk->jk", first.sizes / first.n, squares)
        is_single = first.sizes == 1
        rank = np.linalg.matrix_rank(gram, tol=1e-9, hermitian=True)
        if strategy.has_passes and options.noise is None and is_single.all() and rank == len(gram):
            strategy = Means()  # every pair is linked: ordinary least squares
        useful = np.flatnonzero(~scaling.is_constant)
        remarks = describe_data(
            scaling,
            gram[np.ix_(useful, useful)],
            names,
            has_prior=strategy.has_posterior,
            is_flat=bool(np.ptp(first.label_ends) == 0),
            n_single=int(is_single.sum()),
            n_bags=len(first.sizes),
        )
        # Blocks are brought to standard units as they are read.
        prepare = partial(_prepare_blocks, first, strategy, scaling)
        return Standard(strategy, scaling, remarks, prepare)


def _prepare_blocks(
    first: FirstPass,
    strategy: BlockStrategy,
    scaling: Scaling,
    noise: Noise | None,
    offsets: BagOffsets,
    penalty: Penalty,
    effort: Effort,
) -> Task:
    """Return the work on data in blocks."""
    return strategy.prepare_blocks(BlockProblem(first, scaling, noise, offsets, penalty), effort)
