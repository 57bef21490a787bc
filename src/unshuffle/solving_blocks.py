"""Data in blocks as `solving` takes them, wherever they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from unshuffle.core.solution import Candidate, Solution
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.data.blocks.first_pass import FirstPass, make_first_pass
from unshuffle.data.blocks.sources import Source
from unshuffle.data.scaling import Scaling, standardise_pass
from unshuffle.objectives.block_moments import MomentProblem, as_bags, take_moments
from unshuffle.objectives.block_sorted import (
    draw_subsample,
    make_sample_problem,
    make_sorted_problem,
    make_standard,
)
from unshuffle.objectives.checks import check_noise, check_sizes, describe_data
from unshuffle.objectives.losses import Squared
from unshuffle.objectives.noise import Noise, as_noise
from unshuffle.objectives.penalties import scale_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.options import BagOffsets, FitOptions, check_options
from unshuffle.progress import IN_BLOCKS, Report, say_nothing
from unshuffle.solvers.closed_form import find_roots
from unshuffle.solvers.means import Means
from unshuffle.solvers.successive_halving import choose_moments
from unshuffle.solving import Data, Standard, Task, check_kernels


def look_through(
    source: Source,
    options: FitOptions,
    strategy: Strategy,
    rng: np.random.Generator,
    names: Sequence[str] | None = None,
    report: Report = say_nothing,
) -> Blocks:
    """Return what a first pass over blocks tells, for a strategy (`methods.find_block_strategy`).

    The first pass knows all else that is to be said of the data.
    """
    check_options(options)
    as_noise(options.noise)
    strategy = strategy.declare(options)
    strategy.check_penalties(options)
    check_kernels(strategy, options)
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
    """What the first pass tells of data in blocks, and the strategy that fits them."""

    first: FirstPass
    strategy: Strategy

    def standardise(self, options: FitOptions, names: Sequence[str] | None) -> Standard:
        first, strategy = self.first, self.strategy
        centre_labels = options.fit_intercept and strategy.loss.is_shift_invariant
        scaling = standardise_pass(first, options.fit_intercept, centre_labels)
        if strategy.has_passes and options.noise is None and _is_regression(first, scaling):
            strategy = Means()  # every pair is linked: ordinary least squares
        remarks = _describe_pass(first, scaling, names, strategy.has_posterior)
        return StandardBlocks(strategy, scaling, remarks, first)


@dataclass(frozen=True, eq=False)
class StandardBlocks(Standard):
    """Blocks, which are brought to standard units as they are read."""

    first: FirstPass

    def build_task(
        self, noise: Noise | None, offsets: BagOffsets, options: FitOptions, effort: Effort
    ) -> Task:
        first, scaling, strategy = self.first, self.scaling, self.strategy
        task = strategy.build_passes(first, scaling, noise, offsets, effort)
        if task is None:
            task = partial(_solve_moments, first, scaling, noise, strategy, effort, options)

        def solve(rng: np.random.Generator) -> Solution:
            found = task(rng)
            return replace(found, stats=replace(found.stats, method=strategy.name))

        return solve


def _is_regression(first: FirstPass, scaling: Scaling) -> bool:
    """Whether every pair is linked and the columns are independent: ordinary least squares."""
    if first.sizes.max() > 1:
        return False
    gram = _pool_squares(first, scaling)
    return bool(np.linalg.matrix_rank(gram, tol=1e-9, hermitian=True) == len(gram))


def _pool_squares(first: FirstPass, scaling: Scaling) -> np.ndarray:
    """Return the mean products of the standardised columns, zero for columns that do not vary."""
    squares = first.moments(scaling.centre, scaling.scale)[1]
    return np.einsum("r,rjk->jk", first.sizes / first.n, squares)


def _describe_pass(
    first: FirstPass, scaling: Scaling, names: Sequence[str] | None, has_prior: bool
) -> tuple[str, ...]:
    """Say what should be known of data in blocks."""
    useful = np.flatnonzero(~scaling.is_constant)
    gram = _pool_squares(first, scaling)[np.ix_(useful, useful)]
    return describe_data(
        scaling,
        gram,
        names,
        has_prior=has_prior,
        is_flat=bool(np.ptp(first.label_ends) == 0),
        n_single=int((first.sizes == 1).sum()),
        n_bags=len(first.sizes),
    )


def _solve_moments(
    first: FirstPass,
    scaling: Scaling,
    noise: Noise | None,
    settings: Strategy,
    effort: Effort,
    options: FitOptions,
    rng: np.random.Generator,
) -> Solution:
    """Solve data in blocks from their moments, in standard units."""
    d, n_bags, loss = len(scaling.scale) + scaling.has_intercept, len(first.sizes), settings.loss
    degree = settings.block_degree(d, n_bags)
    if degree is None:  # least squares begins where moments lead
        degree = choose_moments(d, n_bags).n_moments(d, n_bags)
    found = take_moments(first, scaling, degree, effort.report)
    bags = as_bags(found)
    settings.check(bags, options)
    n_moments = settings.noise_moments(bags)
    if noise is not None and n_moments:
        check_noise(noise, n_moments)
    penalty = scale_penalty(options, scaling, settings.degree)
    if settings.compares_ranks:
        standard = make_standard(first, scaling)
        problem = make_sorted_problem(found, standard, loss, penalty, options.fit_intercept)
        # Points share a pass; its threads are those of the source.
        alone = effort if problem.is_in_memory else replace(effort, n_jobs=None)

        def subsample(n_rows: int) -> Problem:
            return make_sample_problem(problem, draw_subsample(first, scaling, n_rows))

        return settings.solve_ranks(problem, subsample, rng, effort, alone)
    sums = MomentProblem(bags, loss, noise, penalty, options.fit_intercept)
    solution = settings.solve(sums, rng, effort)
    if settings.has_roots and (d, n_bags, degree) == (2, 1, 2) and not penalty.is_active:
        # Two roots meet both moments: least squares chooses, as where rows are kept in memory. All
        # rows count: only the labels' own rows tell roots of one distribution apart.
        standard = make_standard(first, scaling)
        sorted_problem = make_sorted_problem(
            found, standard, Squared(), penalty, options.fit_intercept
        )
        weights = find_roots(solution.candidates[0].weights, bags.statistics)
        values = sums.smooth(weights)[0]
        order = np.argsort(sorted_problem.smooth(weights)[0], kind="stable")
        roots = tuple(Candidate(weights[k], float(values[k])) for k in order)
        solution = replace(solution, candidates=roots)
    return solution
