"""The methods by name, the rule that chooses one, and the one way from bags to a solution."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unshuffle import losses
from unshuffle import noise as noises
from unshuffle.bags import Bag, Bags, join_bags
from unshuffle.checks import (
    check_noise,
    check_range,
    check_scaling,
    check_values,
    make_remarks,
)
from unshuffle.errors import InputError, suggest
from unshuffle.options import FitOptions, check_options, make_rng
from unshuffle.penalties import scale_penalty
from unshuffle.problem import Problem
from unshuffle.scaling import standardise
from unshuffle.solution import Solution, Status
from unshuffle.solvers import closed_form, exact, likelihood, multistart, projection, sampler
from unshuffle.solvers.likelihood import Likelihood
from unshuffle.solvers.multistart import Effort
from unshuffle.solvers.projection import Projection
from unshuffle.solvers.sampler import Sampler


@dataclass(frozen=True)
class Means:
    """Regress the mean labels of the bags on their mean rows.

    >>> bags = [Bag([[0.0], [2.0]], [5.0, 1.0]), Bag([[4.0]], [9.0])]
    >>> fit(bags, method=Means()).weights.round(6).tolist()
    [2.0, 1.0]
    """


@dataclass(frozen=True)
class Exact:
    """Try every permutation; for at most eight rows.

    >>> bag = Bag([[0.0], [1.0], [3.0]], [7.0, 3.0, 1.0])
    >>> fit([bag], method=Exact()).weights.round(6).tolist()
    [2.0, 1.0]
    """


Strategy = losses.Loss | Projection | Means | Exact | Likelihood | Sampler


@dataclass(frozen=True)
class Method:
    """A method's name, one line on it, and what it does (None: it chooses another)."""

    name: str
    summary: str
    strategy: Strategy | None = None


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("auto", "the method that the decision table picks for these data"),
        Method(
            "likelihood",
            "the posterior of the shuffled model: estimate, intervals, competing answers",
            Likelihood(),
        ),
        Method(
            "sampler",
            "the exact model sampled: matchings, weights and noise, for up to a few hundred rows",
            Sampler(),
        ),
        Method("paper", "the paper's rule: 'sm' if d <= 2 or bags >= 3d, else 'p1'"),
        Method(
            "ls",
            "least squares over all matchings: sorted predictions against sorted labels",
            losses.Squared(),
        ),
        Method(
            "sm",
            "self-moments: the first K moments of predictions and labels agree",
            losses.Moments(),
        ),
        Method("p1", "least squares among weights that meet the mean exactly", Projection(1)),
        Method(
            "p2", "least squares among weights that meet mean and variance exactly", Projection(2)
        ),
        Method("emd", "earth mover's distance between predictions and labels", losses.Absolute()),
        Method(
            "ks",
            "Kolmogorov-Smirnov distance between predictions and labels",
            losses.KolmogorovSmirnov(),
        ),
        Method(
            "small-d",
            "least squares on the smallest labels only (the paper's poor example)",
            losses.SmallD(),
        ),
        Method(
            "means",
            "regression of bag means, unbiased, for at least as many bags as weights",
            Means(),
        ),
        Method("exact", "least squares over every permutation, for at most 8 rows", Exact()),
    )
}


@dataclass(frozen=True)
class Choice:
    """Which method to use, and why."""

    method: str
    reason: str


# Above this many rows the likelihood would take minutes.
LIKELIHOOD_ROWS = 50_000


def choose_method(
    n: int,
    d: int,
    bag_sizes: Sequence[int] | None = None,
    noise: object = None,
    *,
    penalty: bool = False,
) -> Choice:
    """Say what "auto" would do for n rows, d weights (the intercept counts) and these bags.

    `penalty` says whether l1 or l2 is above zero.

    The table, first row that applies:

    ==================================  ==============  ========================================
    data                                method          why
    ==================================  ==============  ========================================
    a penalty is asked for              the paper's     the likelihood has a prior instead
    n <= 50 000                         ``likelihood``  least error on the paper's data, and the
                                                        only one that knows how sure it is
    n > 50 000                          the paper's     sampling would take minutes
    ==================================  ==============  ========================================

    >>> choose_method(1000, 5).method
    'likelihood'
    >>> choose_method(1000, 5, penalty=True).method
    'p1'
    """
    _check_sizes(n, bag_sizes)
    if penalty:
        paper = choose_paper_method(n, d, bag_sizes)
        return Choice(
            paper.method,
            "a penalty is asked for, where the likelihood has a prior instead; then as in the "
            f"paper: {paper.reason}",
        )
    if n <= LIKELIHOOD_ROWS:
        known = "" if noise is None else ", with the noise level given"
        return Choice(
            "likelihood",
            f"n = {n} rows: the posterior has the least error on real data and says how sure it "
            f"is{known}",
        )
    paper = choose_paper_method(n, d, bag_sizes)
    return Choice(
        paper.method,
        f"n = {n} rows are over {LIKELIHOOD_ROWS}, where sampling takes minutes; then as in the "
        f"paper: {paper.reason}",
    )


def choose_paper_method(n: int, d: int, bag_sizes: Sequence[int] | None = None) -> Choice:
    """Say what the paper's rule picks: SM if d <= 2 or bags >= 3d, else P1.

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


def fit(
    bags: Iterable[Bag], *, rng: np.random.Generator | int | None = None, **options: Any
) -> Solution:
    """Fit separate bags; the options are those of `ShuffledLinearRegression`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.exponential(size=(200, 2))
    >>> bags = [Bag(X[:100], rng.permutation(X[:100] @ [1.0, 2.0])),
    ...         Bag(X[100:], rng.permutation(X[100:] @ [1.0, 2.0]))]
    >>> fit(bags, method="ls", rng=1).weights.round(3).tolist()
    [1.0, 2.0, 0.0]
    """
    bags = list(bags)
    joined = join_bags(bags)
    for r, bag in enumerate(bags):
        check_values(bag.X, bag.y, place=f"bag {r}, ")
    solution, _ = solve_bags(joined, FitOptions(**options), make_rng(rng))
    warn_once(solution)
    return solution


def resolve(
    method: object, bags: Bags, d: int, noise: object, has_penalty: bool
) -> tuple[str, Strategy]:
    """Turn a method's name or object into its name and strategy."""
    if isinstance(method, Strategy):
        return _name_of(method), method
    if not isinstance(method, str):
        raise InputError(
            f"method={method!r} is not understood: give a name, one of {', '.join(METHODS)}, or an "
            "object such as Moments(K=3), Projection(2) or OrderInvariant(g, p)"
        )
    if method not in METHODS:
        raise InputError(f"unknown method '{method}': {suggest(method, METHODS)}")
    if METHODS[method].strategy is None:
        sizes = bags.sizes.tolist()
        if method == "paper":
            method = choose_paper_method(bags.n, d, sizes).method
        else:
            method = choose_method(bags.n, d, sizes, noise, penalty=has_penalty).method
    strategy = METHODS[method].strategy
    assert strategy is not None
    return method, strategy


def _name_of(strategy: Strategy) -> str:
    """Return the name under which a strategy given as an object is reported."""
    if isinstance(strategy, Projection):
        return f"p{strategy.dp}"
    for method in METHODS.values():
        if type(method.strategy) is type(strategy):
            return method.name
    return "order-invariant"


def solve_bags(
    bags: Bags,
    options: FitOptions,
    rng: np.random.Generator,
    names: Sequence[str] | None = None,
) -> tuple[Solution, str]:
    """Solve bags in standard units; return the solution in the user's, and the method used.

    Remarks call the columns by their `names`, or by number.
    """
    check_options(options)
    noise = noises.as_noise(options.noise)
    d = bags.d + options.fit_intercept
    has_penalty = bool(options.l1 or options.l2)
    name, strategy = resolve(options.method, bags, d, noise, has_penalty)
    loss = strategy if isinstance(strategy, losses.Loss) else losses.Squared()
    keeps_units = loss.degree is None
    check_range(bags, names)
    standard, scaling = standardise(
        bags, options.fit_intercept, options.fit_intercept and loss.is_shift_invariant
    )
    if keeps_units:
        scaling = replace(scaling, label_scale=1.0, label_centre=0.0)
        standard = standard.with_values(standard.X, bags.y)
    _check_size(bags, d, strategy, options)
    has_prior = isinstance(strategy, Likelihood | Sampler)
    # Log evidence has no unit; bag means and matchings are judged by squares.
    degree = 0 if has_prior else loss.degree or 0
    check_scaling(scaling, degree)
    penalty = scale_penalty(options, scaling, degree)
    if noise is not None:
        noise = noise.divided_by(scaling.label_scale)
        if not keeps_units and not isinstance(strategy, Means | Exact):
            check_noise(noise, _count_moments(strategy, standard))
    remarks = make_remarks(bags, standard, scaling, names, has_prior=has_prior)
    problem = Problem(standard, loss, noise, penalty)
    # The solver sees standard units only; letting go of the rest saves a copy of the data.
    del bags, standard
    solution = _solve(problem, strategy, rng, options)
    solution = solution.with_remarks(remarks, np.flatnonzero(scaling.is_constant).tolist())
    return solution.mapped(scaling.to_user, scaling.label_scale, degree), name


def _count_moments(strategy: Strategy, bags: Bags) -> int:
    """Return how many moments of the noise a strategy reads: two for the starts, or more."""
    if isinstance(strategy, losses.Moments):
        return max(2, strategy.n_moments(bags.d, bags.n_bags))
    return max(2, strategy.dp) if isinstance(strategy, Projection) else 2


def _solve(
    problem: Problem, strategy: Strategy, rng: np.random.Generator, options: FitOptions
) -> Solution:
    """Hand a problem to the solver of its strategy."""
    n_starts = None if options.n_starts is None else int(options.n_starts)
    n_jobs = None if options.n_jobs is None else int(options.n_jobs)
    effort = Effort(n_starts, options.tol, n_jobs)
    if isinstance(strategy, Likelihood):
        has_intercept = options.fit_intercept
        return likelihood.solve(problem.bags, has_intercept, problem.noise, strategy, rng, effort)
    if isinstance(strategy, Sampler):
        has_intercept = options.fit_intercept
        return sampler.solve(problem.bags, has_intercept, problem.noise, strategy, rng, effort)
    if isinstance(strategy, Means):
        return closed_form.solve_means(problem.bags)
    if isinstance(strategy, Exact):
        return exact.solve(problem.bags)
    if isinstance(strategy, Projection):
        return projection.solve(problem, strategy.dp, rng, effort)
    if isinstance(strategy, losses.Moments):
        return _solve_moments(problem, strategy, rng, effort)
    return multistart.solve(problem, rng, effort)


def _solve_moments(
    problem: Problem, loss: losses.Moments, rng: np.random.Generator, effort: Effort
) -> Solution:
    """Take the closed forms where they hold, else search."""
    bags = problem.bags
    n_moments = loss.n_moments(bags.d, bags.n_bags)
    has_kinks = bool(problem.penalty.l1.any())
    if n_moments == 1 and not has_kinks:
        return closed_form.solve_first_moment(problem, loss)
    if bags.d == 2 and n_moments == 2 and bags.n_bags == 1 and not problem.penalty.is_active:
        solution = closed_form.solve_two_moments(problem)
        if solution is not None:
            return solution
    return multistart.solve(problem, rng, effort)


def _check_size(bags: Bags, d: int, strategy: Strategy, options: FitOptions) -> None:
    """Refuse data too small for the method, and options that it does not have."""
    if isinstance(strategy, Sampler) and bags.n > sampler.MAX_ROWS:
        raise InputError(
            f"n_samples = {bags.n} are over {sampler.MAX_ROWS}, where method 'sampler' would take "
            "minutes and not mix: use method 'likelihood', which has the same posterior"
        )
    if isinstance(strategy, Means | Exact | Likelihood | Sampler):
        if options.l1 or options.l2:
            raise InputError(
                f"method '{_name_of(strategy)}' has no penalties: leave l1 and l2 at 0, or use "
                "method 'ls'"
            )
        return
    if bags.n < d and not options.l2 and not isinstance(strategy, losses.Moments):
        raise InputError(
            f"n_samples = {bags.n} cannot fix {d} weights (the intercept counts): add rows, use "
            "fewer features, or give a penalty l2 > 0"
        )


_DOUBTFUL = (
    Status.LONELY,
    Status.UNFINISHED,
    Status.UNMET_MOMENTS,
    Status.THIN_POSTERIOR,
    Status.UNMIXED,
    Status.MISFIT,
)


def warn_once(solution: Solution) -> None:
    """Say at most one thing about convergence and one about the data."""
    if solution.status in _DOUBTFUL:
        warnings.warn(solution.status.value, ConvergenceWarning, stacklevel=3)
    remarks = solution.stats.get("remarks", ())
    if remarks:
        warnings.warn(" ".join(remarks), UserWarning, stacklevel=3)
