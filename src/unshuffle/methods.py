"""Which method is meant, and the one way from bags to a solution.

The way from data in blocks is `block_methods`; which data take it is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.data.bags import Bags
from unshuffle.data.scaling import standardise
from unshuffle.errors import InputError, suggest
from unshuffle.gpu.devices import find_device, read_number
from unshuffle.objectives.checks import (
    check_labels_of_user,
    check_noise,
    check_range,
    check_scaling,
    make_remarks,
    scale_noise,
    scale_offsets,
)
from unshuffle.objectives.losses import Absolute, Loss, Moments, Squared
from unshuffle.objectives.noise import as_noise
from unshuffle.objectives.penalties import scale_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.options import ESTIMATE, LINK_METHODS, FitOptions, as_bag_offsets, check_options
from unshuffle.progress import Report, say_nothing
from unshuffle.registry import METHODS
from unshuffle.solvers.means import Means
from unshuffle.solvers.multistart import Search
from unshuffle.solvers.projection import Projection
from unshuffle.solvers.self_moments import SelfMoments

if TYPE_CHECKING:
    from unshuffle.data.links import MismatchPrior

__all__ = ["METHODS", "Choice", "choose_method", "choose_paper_method", "solve_bags"]


@dataclass(frozen=True)
class Choice:
    """The method that "auto" would take.

    Attributes
    ----------
    method : str
        Name of the method.
    reason : str
        Why, in a sentence.

    Examples
    --------
    >>> choose_method(500, 3, [100] * 5).method
    'likelihood'
    """

    method: str
    reason: str


# Above this many rows the likelihood works on blocks, wherever the data lie: a few passes over them
# instead of copies in canonical order.
BLOCKS_ABOVE = 20_000


# P1 and P2 keep and sort their rows up to here, which takes 1 GB of five columns at most: their
# searches ask for single points, and a pass pays for many.
KEPT_UP_TO = 5_000_000


def choose_method(
    n: int,
    d: int,
    bag_sizes: Sequence[int] | None = None,
    noise: object = None,
    *,
    penalty: bool = False,
    linked: bool = False,
) -> Choice:
    """Say what "auto" would do for n rows, d coefficients (the intercept counts) and these bags.

    The table, first row that applies:

    ==================================  ==============  ========================================
    data                                method          why
    ==================================  ==============  ========================================
    every pair is known                 ``means``       bags of one row: ordinary regression
                                                        (``ls`` with a penalty)
    a penalty is asked for              the paper's     the likelihood has a prior instead
    otherwise                           ``likelihood``  least error on the paper's data, and the
                                                        only one that knows how sure it is
    ==================================  ==============  ========================================

    Parameters
    ----------
    n : int
        Number of rows.
    d : int
        Number of coefficients, the intercept included.
    bag_sizes : sequence of int, optional
        Rows of each bag; all rows form one bag without it.
    noise : object, optional
        What is known of the noise, None where nothing is.
    penalty : bool, default=False
        Whether l1 or l2 is above zero.
    linked : bool, default=False
        Whether every pair is known.

    Returns
    -------
    Choice
        The method and the reason.

    Examples
    --------
    >>> choose_method(1000, 5).method
    'likelihood'
    >>> choose_method(1000, 5, penalty=True).method
    'p1'
    """
    _check_sizes(n, bag_sizes)
    if linked and (penalty or n >= d):
        known = "every pair is known, so that nothing is left to match: ordinary regression"
        return Choice("ls" if penalty else "means", known)
    if penalty:
        paper = choose_paper_method(n, d, bag_sizes)
        return Choice(
            paper.method,
            "a penalty is asked for, where the likelihood has a prior instead; then as in the "
            f"paper: {paper.reason}",
        )
    known = "" if noise is None else ", with the noise level given"
    blocks = f", in blocks since there are more than {BLOCKS_ABOVE}" if n > BLOCKS_ABOVE else ""
    return Choice(
        "likelihood",
        f"n = {n} rows: the posterior has the least error on real data and says how sure it "
        f"is{known}{blocks}",
    )


def choose_paper_method(n: int, d: int, bag_sizes: Sequence[int] | None = None) -> Choice:
    """Say what the paper's rule picks: SM if d <= 2 or bags >= 3d, else P1.

    Parameters
    ----------
    n : int
        Number of rows.
    d : int
        Number of coefficients, the intercept included.
    bag_sizes : sequence of int, optional
        Rows of each bag; all rows form one bag without it.

    Returns
    -------
    Choice
        The method and the reason.

    Examples
    --------
    >>> choose_paper_method(1000, 2).reason
    'd = 2 weights: two moments fix them in closed form'
    """
    _check_sizes(n, bag_sizes)
    n_bags = 1 if bag_sizes is None else len(bag_sizes)
    if d <= 2:
        known = "one moment fixes it" if d == 1 else "two moments fix them in closed form"
        return Choice("sm", f"d = {d} weight{'s' if d > 1 else ''}: {known}")
    if n_bags >= 3 * d:
        return Choice("sm", f"{n_bags} bags are at least 3 d = {3 * d}: low moments are enough")
    return Choice(
        "p1",
        f"d = {d} weights and {n_bags} bag{'s' if n_bags > 1 else ''}, fewer than "
        f"3 d = {3 * d}: high moments are too noisy, so least squares under the mean condition",
    )


def _check_sizes(n: int, bag_sizes: Sequence[int] | None) -> None:
    """Refuse bag sizes that do not add up to the number of rows."""
    if bag_sizes is not None and sum(bag_sizes) != n:
        raise InputError(f"bag_sizes add up to {sum(bag_sizes)}, not to n = {n}: give every size")


def as_strategy(method: object) -> Strategy | None:
    """Turn an object given as method into what does the work; None where it is no method."""
    if isinstance(method, Strategy):
        return method
    if isinstance(method, Moments):
        return SelfMoments(method)
    return Search(method) if isinstance(method, Loss) else None


def resolve(method: object, bags: Bags, options: FitOptions) -> Strategy:
    """Turn a method's name or object into its strategy; choosers choose by these data."""
    found = as_strategy(method)
    if found is not None:
        return found
    if not isinstance(method, str):
        raise InputError(
            f"method={method!r} is not understood: give a name, one of {', '.join(METHODS)}, or an "
            "object such as Moments(K=3), Projection(2) or OrderInvariant(g, p)"
        )
    if method not in METHODS:
        raise InputError(f"unknown method '{method}': {suggest(method, METHODS)}")
    if METHODS[method].place is None:
        sizes, d = bags.sizes.tolist(), bags.d + options.fit_intercept
        if method == "paper":
            method = choose_paper_method(bags.n, d, sizes).method
        else:
            has_penalty = bool(options.l1 or options.l2)
            method = choose_method(
                bags.n, d, sizes, options.noise, penalty=has_penalty, linked=_is_regression(bags)
            ).method
    strategy = as_strategy(METHODS[method].strategy)
    assert strategy is not None
    return strategy


def _is_regression(bags: Bags) -> bool:
    """Whether every pair is linked and the columns are independent: ordinary least squares."""
    if not bags.is_linked:
        return False
    stats = bags.statistics
    spread = stats.gram - np.outer(stats.mean, stats.mean)
    scale = np.sqrt(np.maximum(np.diagonal(spread), 1e-300))
    return bool(np.linalg.matrix_rank(spread / np.outer(scale, scale), tol=1e-9) == bags.d)


def _resolve_links(bags: Bags, options: FitOptions, links: MismatchPrior | None) -> Strategy | None:
    """Return the strategy for links of which a share is wrong; None where there are no links."""
    share, method = options.mislinked, options.method
    equations = method if isinstance(method, str) and method in LINK_METHODS else None
    if share is None and equations is not None:
        raise InputError(
            f"method '{method}' needs labels beside their rows and a known mismatch rate: give it "
            "as mislinked"
        )
    # All links wrong is what every method assumes.
    if share is None or (share != ESTIMATE and float(share) == 1.0 and links is None):
        return None
    # Heavy, and seldom needed.
    from unshuffle.inference.sampler import Sampler
    from unshuffle.linkage.regression import Linkage
    from unshuffle.linkage.sampler import LinkedSampler

    if method == "auto" or equations is not None:
        return Linkage(share, links, equations)
    if method == "sampler":
        method = METHODS["sampler"].strategy
    if isinstance(method, Sampler):
        return LinkedSampler(share, method)
    raise InputError(
        f"mislinked={share!r} has methods of its own: leave method at 'auto', take 'll' or "
        "'chambers' for a known rate or 'sampler' for few rows, or leave mislinked out to use "
        f"{method!r}"
    )


def solve_bags(
    bags: Bags,
    options: FitOptions,
    rng: np.random.Generator,
    names: Sequence[str] | None = None,
    report: Report = say_nothing,
    links: MismatchPrior | None = None,
) -> tuple[Solution, str]:
    """Solve bags in standard units; return the solution in the user's, and the method used.

    Remarks call the columns by their `names`, or by number; `report` is told how far the work is.
    """
    check_options(options)
    noise = as_noise(options.noise)
    strategy = _resolve_links(bags, options, links) or resolve(options.method, bags, options)
    strategy = strategy.declare(options)
    loss = strategy.loss
    check_range(bags, names)
    standard, scaling = standardise(
        bags, options.fit_intercept, options.fit_intercept and loss.is_shift_invariant
    )
    if loss.degree is None:  # the loss of a user's g keeps the user's units
        check_labels_of_user(bags)
        scaling = replace(scaling, label_scale=1.0, label_centre=0.0)
        standard = replace(standard, labels=bags.labels)
    strategy.check(bags, options)
    on_device = _check_device(bags, strategy, options)
    if not strategy.has_posterior:
        standard = replace(standard, labels=standard.labels.points)
    check_scaling(scaling, strategy.degree)
    penalty = scale_penalty(options, scaling, strategy.degree)
    if noise is not None:
        noise = scale_noise(noise, scaling.label_scale)
        n_moments = strategy.noise_moments(standard)
        if loss.degree is not None and n_moments:
            check_noise(noise, n_moments)
    remarks = make_remarks(bags, standard, scaling, names, has_prior=strategy.has_posterior)
    remarks += on_device
    offsets = scale_offsets(as_bag_offsets(options.bag_offsets), scaling.label_scale)
    problem = Problem(standard, loss, noise, penalty, options.fit_intercept, offsets)
    # The solver sees standard units only; letting go of the rest saves a copy of the data.
    del bags, standard
    solution = strategy.solve(problem, rng, make_effort(options, report))
    solution = solution.with_remarks(remarks, np.flatnonzero(scaling.is_constant).tolist())
    found = solution.mapped(scaling.to_user, scaling.label_scale, strategy.degree)
    return found, solution.stats.method or strategy.name


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


def find_block_strategy(options: FitOptions, n: int) -> Strategy | None:
    """Return the strategy where so many rows go through blocks; None elsewhere.

    The number of rows and the method decide, never where they lie. The others sort rows, or match
    them one by one, and hold them all.
    """
    if n <= BLOCKS_ABOVE:
        return None
    method = options.method
    if method == "auto" and not (options.l1 or options.l2):
        method = "likelihood"
    if isinstance(method, str):
        method = METHODS[method].strategy if method in METHODS else None
    strategy = as_strategy(method)
    if strategy is None:
        return None
    if strategy.has_passes or isinstance(strategy, SelfMoments | Means):
        return strategy
    if options.noise is not None:  # it spreads every prediction
        return None
    if isinstance(strategy, Search):
        return strategy if isinstance(strategy.criterion, Squared | Absolute) else None
    if isinstance(strategy, Projection) and n > KEPT_UP_TO:
        # Zeros of weights need the rows again.
        return strategy if strategy.dp <= 2 and not options.l1 else None
    return None


def make_effort(options: FitOptions, report: Report) -> Effort:
    """Return how much work a solver may take, and whom it tells how far it is."""
    n_starts = None if options.n_starts is None else int(options.n_starts)
    n_jobs = None if options.n_jobs is None else int(options.n_jobs)
    return Effort(n_starts, options.tol, n_jobs, report)
