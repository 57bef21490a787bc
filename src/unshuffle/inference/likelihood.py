"""The posterior of the shuffled model: its modes, its draws, its centre.

Inside a bag the labels are y = π(Xw + b) + e with an unknown permutation and Gaussian noise, so
that the likelihood is a permanent (DeGroot and Goel 1980),

    log p(y | w, σ) = −n log σ + Σ_r [log perm exp(−(y_j − z_i)²/2σ²) − log n_r!] + const.

The permanent is taken exactly for bags of up to ten rows, and otherwise as the value of entropic
transport (Sinkhorn's scaling, on a grid where that is cheaper) with a local correction. Modes are
found from many starts; adaptive multiple importance sampling from a mixture around them draws from
one tempered posterior (`inference.calibration`). Estimate, intervals and competing answers are the
spatial median, the quantiles and the groups of these draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import BlockStrategy, Effort, Task
from unshuffle.data.bags import Bags
from unshuffle.inference.answer import declare_effects, sample_and_solve
from unshuffle.inference.modes import MODES, Mode, find_modes
from unshuffle.inference.noiseless import solve_exactly
from unshuffle.model.building import build_target
from unshuffle.model.posterior import Target
from unshuffle.model.settings import FLAT, FULL, Settings
from unshuffle.model.special_cases import Columns, nothing_to_learn
from unshuffle.objectives.block_moments import BlockProblem
from unshuffle.objectives.checks import check_noise
from unshuffle.objectives.losses import Squared
from unshuffle.objectives.penalties import no_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.options import FitOptions
from unshuffle.solvers import multistart
from unshuffle.solvers.local_search import BRIEF
from unshuffle.solvers.means import solve_linked

__all__ = ["Likelihood", "search", "solve"]


@dataclass(frozen=True)
class Likelihood(Settings, BlockStrategy):
    """The posterior of the shuffled model; the prior's scale is yours to change.

    In standard units (sd(y) = sd(x_j) = 1) the prior density of weights w and log σ is

        exp(−|w|²/2 weight_scale²) · s^(share_high − p/2) · σ^(2 share_low) / (s + σ²)^(both),

    s = wᵀ cov(x) w being the signal's variance and both = share_low + share_high: every direction
    of the predictions is as likely, the noise's share σ²/(s + σ²) is Beta(share_low, share_high),
    the scale is free, and a Gaussian factor bounds the weights.

    `power` tempers the within-bag likelihood; the rest is numerical effort.

    Parameters
    ----------
    weight_scale : float, default=2.5
        Sd of the factor that bounds a weight, in units of sd(y)/sd(x_j).
    share_low, share_high : float, default=0.5, 1.0
        The noise's share of the labels' variance is Beta(share_low, share_high).
    prior : "share" or "flat", default="share"
        "flat" drops all of the above: the density is constant in the weights and in log σ. Of use
        with bags known by their means alone, where it gives weighted least squares.
    power : "calibrated", "full" or float, default="calibrated"
        Power of the within-bag likelihood: calibrated on real tables; "full" declares that the
        linear model with this noise holds; a number in (0, 1] is taken as it is.
    approximate_power : float, default=0.8
        Power of approximate permanents at full power, beside exact ones.
    curve_scale : float, default=0.3
        Prior sd of the curvature c of the mean function z + c (z² − mean z²) with many bags, closed
        with one; 0 makes the mean linear.

    n_starts, n_refined, n_components : int, default=240, 60, 16
        Most starts of the search for modes, most that are refined, and modes kept.
    n_draws : int, default=200
        Draws of each round of importance sampling.
    min_rounds, max_rounds : int, default=1, 30
        Least and most rounds.
    target_draws, least_draws : float, default=400.0, 100.0
        Effective sample size at which sampling may stop, and below which nothing is identified.
    proposal_dof : float, default=5.0
        Degrees of freedom of the proposal, a mixture of t distributions.

    Examples
    --------
    >>> Likelihood(weight_scale=2.5).weight_scale
    2.5
    """

    takes_penalty: ClassVar[bool] = False
    has_posterior: ClassVar[bool] = True
    takes_offsets: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = False
    takes_known_means: ClassVar[bool] = True
    has_passes: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "likelihood"

    def declare(self, options: FitOptions) -> Self:
        return replace(self, power=FULL) if options.model_holds else self

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        return solve(problem, self, rng, effort)

    def for_blocks(self, options: FitOptions) -> BlockStrategy:
        return self

    def prepare_blocks(self, problem: BlockProblem, effort: Effort) -> Task:
        # Heavy, and small data do not need it.
        from unshuffle.inference.blocks import build_posterior

        first, scaling, noise = problem.first, problem.scaling, problem.noise
        if noise is not None:
            check_noise(noise, 2)
        return build_posterior(first, scaling, noise, problem.offsets, self, effort)


def solve(
    problem: Problem, options: Settings, rng: np.random.Generator, effort: Effort
) -> Solution:
    """Sample the posterior of a problem in standard units."""
    if effort.n_starts is not None:
        options = replace(options, n_starts=effort.n_starts)
    found = search(problem, options, rng, effort)
    if isinstance(found, Solution):
        return found
    return sample_and_solve(*found, rng, effort)


def search(
    problem: Problem, options: Settings, rng: np.random.Generator, effort: Effort
) -> tuple[Target, Columns, list[Mode]] | Solution:
    """Return the target and its modes at full power, or the solution where nothing is sampled."""
    bags, has_intercept, noise = problem.bags, problem.has_intercept, problem.noise
    if bags.is_linked and noise is None and bags.n > bags.d and not problem.offsets.is_declared:
        found = solve_linked(bags)
        if found is not None:
            return found
    if _is_weighted_regression(problem, options):
        found = solve_linked(bags)
        if found is not None:
            return replace(found, stats=replace(found.stats, method="likelihood"))
    if options.power == FULL or bags.known_means is not None:
        # The mean of a curved function needs the squares of all rows.
        options = replace(options, curve_scale=0.0)
    built = build_target(bags, has_intercept, noise, options, effort.n_jobs)
    if built is None:
        return nothing_to_learn(bags, has_intercept, noise)
    target, columns, bags = built
    target = declare_effects(target, problem.offsets)
    fitted = fit_least_squares(bags, columns, rng, effort)
    if not problem.offsets.is_declared and bags.known_means is None:
        exact = solve_exactly(bags, columns, noise, fitted, effort)
        if exact is not None:
            return exact
    effort.report("looking for modes", 0.0)
    modes = find_modes(target, fitted[: MODES.n_followed], rng)
    effort.report("looking for modes", 1.0)
    return target, columns, modes


def _is_weighted_regression(problem: Problem, options: Settings) -> bool:
    """Whether the posterior is that of weighted least squares: means alone, flat, no effects."""
    known = problem.bags.known_means
    return (
        known is not None
        and known.has_means_alone
        and options.prior == FLAT
        and problem.noise is None
        and problem.offsets.share == 0.0
    )


def fit_least_squares(
    bags: Bags, columns: Columns, rng: np.random.Generator, effort: Effort
) -> list[tuple[np.ndarray, float]]:
    """Return the least-squares answers, best first, and their mean squared gaps."""
    problem = Problem(bags, Squared(), None, no_penalty(bags.d))
    settings = replace(BRIEF, max_starts=MODES.most_least_squares)
    found = multistart.solve(problem, rng, replace(effort, n_starts=None), settings)
    p = len(columns.is_kept)
    return [(c.weights[:p][columns.is_kept], c.value) for c in found.candidates]
