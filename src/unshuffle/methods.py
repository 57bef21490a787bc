"""The choice of a method: "auto", names and objects, wrong links, and data in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unshuffle.core.strategy import BlockStrategy, Strategy
from unshuffle.data.bags import Bags
from unshuffle.errors import InputError, suggest
from unshuffle.objectives.losses import Loss, Moments
from unshuffle.options import ESTIMATE, LINK_METHODS, FitOptions
from unshuffle.registry import METHODS
from unshuffle.solvers.multistart import Search
from unshuffle.solvers.self_moments import SelfMoments

if TYPE_CHECKING:
    from unshuffle.data.links import MismatchPrior

__all__ = [
    "METHODS",
    "Choice",
    "choose_method",
    "choose_paper_method",
    "find_block_strategy",
    "find_strategy",
]


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


# Above this many rows the likelihood reads blocks, also of data in memory: a few passes in place of
# copies in canonical order.
BLOCKS_ABOVE = 20_000


# P1 and P2 sort rows in memory up to here (1 GB with five columns): their searches evaluate single
# points, and a pass over blocks costs as much as many.
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
    """Return the method of "auto" for n rows, d coefficients (the intercept counts) and these bags.

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
    """Return the method of the paper's rule: SM if d <= 2 or bags >= 3d, else P1.

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
    """Return the strategy of an object given as method; None where it is no method."""
    if isinstance(method, Strategy):
        return method
    if isinstance(method, Moments):
        return SelfMoments(method)
    return Search(method) if isinstance(method, Loss) else None


def resolve(method: object, bags: Bags, options: FitOptions) -> Strategy:
    """Return the strategy of a method's name or object; "auto" and "paper" depend on the bags."""
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


def find_strategy(bags: Bags, options: FitOptions, links: MismatchPrior | None = None) -> Strategy:
    """Return the strategy for bags in memory: the method asked for, or that of wrong links."""
    strategy = _resolve_links(bags, options, links) or resolve(options.method, bags, options)
    return strategy.declare(options)


def _resolve_links(bags: Bags, options: FitOptions, links: MismatchPrior | None) -> Strategy | None:
    """Return the strategy for links of which a share is wrong; None where there are no links."""
    share, method = options.mislinked, options.method
    equations = method if isinstance(method, str) and method in LINK_METHODS else None
    if share is None and equations is not None:
        raise InputError(
            f"method '{method}' needs labels beside their rows and a known mismatch rate: give it "
            "as mislinked"
        )
    # A share of 1 is the model of every method for shuffled labels.
    if share is None or (share != ESTIMATE and float(share) == 1.0 and links is None):
        return None
    # Slow to import, and seldom needed.
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


def find_block_strategy(options: FitOptions, n: int) -> BlockStrategy | None:
    """Return the strategy where so many rows go through blocks; None elsewhere.

    The number of rows and the method decide, never where the rows lie. Other methods sort rows or
    match them one by one, and need all in memory.
    """
    if n <= BLOCKS_ABOVE:
        return None
    method = options.method
    if method == "auto" and not (options.l1 or options.l2):
        method = "likelihood"
    if isinstance(method, str):
        method = METHODS[method].strategy if method in METHODS else None
    strategy = as_strategy(method)
    if strategy is None or (strategy.asks_single_points and n <= KEPT_UP_TO):
        return None
    return strategy.for_blocks(options)
