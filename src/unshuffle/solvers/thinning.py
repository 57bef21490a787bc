"""Many rows: starts compete on a sample, and what is left of them races on all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import Effort
from unshuffle.objectives.losses import Moments
from unshuffle.objectives.moments import count_monomials
from unshuffle.objectives.problem import Curve, Problem
from unshuffle.solvers.damped import Racers, descend_damped
from unshuffle.solvers.descent import descend
from unshuffle.solvers.searching import (
    Space,
    draw_starts,
    gather_ends,
    make_space,
    search,
    step_aside,
)

# Above this many rows starts compete on a sample of 5 000, at most so many where nobody says
# how many, and the best go on to a larger sample.
THIN_ABOVE, THIN_TO, THIN_STARTS, N_CARRIED = 40_000, 5_000, 96, 24
# Fewer where nobody needs them: of 50 data sets (a million rows, seeds from 1040) the answers of
# moments alone led to the right one in 50, with two of samples beside them in 50 as well.
LED_STARTS, N_LED = 32, 6
# The answers of moments and of bag means see every row, and go on whatever their value: among a
# million rows of 20 random bags they lie in the basin of the truth, and those of samples do not (of
# 12 fits 6 ended in wrong ones, where all had to be low from the beginning). A monomial costs 0.2
# to 1.5 ns a row.
N_MET, MOST_MONOMIALS = 4, 1000
# On all rows the lowest race: first all of those and the best of a sample, until a step gains less
# than ten times the tolerance, then ever fewer to ever less of it. LS of few bags is a flat valley:
# at the tolerance a descent ends up to five times too high. Where two of nine went on after the
# first stage, one of ten data sets (a million rows, seeds from 1006) ended 1.7 times too high; with
# four that one did not.
STAGES = ((4, 1.0), (2, 0.1), (1, 0.01))
FIRST = 10.0
# Where curvatures are known a start is at the end of its valley after some ten evaluations, so that
# more answers of moments go on, for as many passes as here: all, then four, then two. Of 50 data
# sets (a million rows, 20 bags, seeds from 1040) 50 ended within 1.1 times of the best of 23 starts
# that went on to their ends; with eight answers of moments 48, and with stages of 4 and 8 passes,
# where valleys are not yet told apart, 48. A last gain below a hundredth of the tolerance ends it.
N_MET_DAMPED, DAMPED_PASSES, DAMPED_LEFT, DAMPED_TOL = 12, (6, 4, 30), (4, 2), 0.01
# So many times as high as the lowest after one, two, three passes, and from the fourth on, a racer
# gives up: eight times as high as any later winner was among 77 data sets (60 000 to a million
# rows, 1 to 20 bags, seeds from 1000; 20, 3.5, 2.1 and 1.5 times, and up to 320 before the first
# pass). Of 40 others (1 to 5 bags) one ended 1.28 times as high for it, and three with a quarter of
# these limits, which saves a sixth of the time where these save a twelfth.
DAMPED_LIMITS = (160.0, 28.0, 16.0, 12.0)
# One of a sample races among a million rows or more, and more among fewer, for the same cost, with
# more in every stage; and more rows are smoother, so that one round of steps aside is enough.
ASIDE = (4.0, 2.0)
RACE_ROWS, MOST_RACING, PER_SHARE, SMOOTH_ROWS = 1_500_000, 24, 6, 500_000


def solve_thinned(
    problem: Problem,
    thin: Callable[[int], Problem],
    rng: np.random.Generator,
    effort: Effort,
    whole: Effort | None = None,
) -> Solution:
    """Search on samples of so many rows, and go on from the best on all of them.

    `whole` is the effort on all rows, where it is another.
    """
    few, space = thin(THIN_TO), make_space(problem, rng)
    # Samples hardly lead anywhere where the answers of moments are as exact as there.
    is_led = space.curve is not None and problem.bags.n >= SMOOTH_ROWS
    most, n_carried = (LED_STARTS, N_LED) if is_led else (THIN_STARTS, N_CARRIED)
    rough = search(make_space(few, rng), effort, few.bags.n, most=most, is_rough=True)
    better = carry(make_space(thin(THIN_ABOVE), rng), rough, effort, n_carried)
    others = _meet_moments(problem, rng, effort)
    whole = whole or effort
    effort.report("descending on all rows", 0.0)
    if space.curve is not None:
        settled = race_damped(space, space.curve, better, others, whole, problem.bags.n)
        effort.report("descending on all rows", 1.0)
        return settled
    found = race(space, better, others[: 1 + N_MET], whole, problem.bags.n)
    effort.report("descending on all rows", 0.5)
    settled = _settle(space, found, whole, ASIDE if problem.bags.n < SMOOTH_ROWS else ASIDE[-1:])
    effort.report("descending on all rows", 1.0)
    return settled


def carry(space: Space, rough: Solution, effort: Effort, n_carried: int) -> Solution:
    """Let so many of the best candidates of a sample descend on a larger one."""
    top = rough.candidates[:n_carried]
    weights = np.stack([c.weights for c in top])
    found = descend(space.evaluate, weights, space.inverse, space.l1, effort.tol, effort.n_jobs)
    stats = rough.stats.more_evaluations(found.n_evaluations)
    counts = [c.n_starts for c in top]
    return gather_ends(rough, found.weights, found.values, counts, space.curvature, stats)


def meet_by(d: int, n_bags: int) -> Moments:
    """Return the moments whose answers are judged on all rows: as many as are cheap to take."""
    wanted = Moments().n_moments(d, n_bags)
    while wanted > 2 and count_monomials(d, wanted) > MOST_MONOMIALS:
        wanted -= 1
    return Moments(K=wanted)


def _meet_moments(problem: Problem, rng: np.random.Generator, effort: Effort) -> np.ndarray:
    """Return the answers (k, d) of the moments of all rows, and of the means of bags.

    They see every row where a sample sees a few: among a million rows they lie in the basin of the
    best answer where those of 5 000 often do not.
    """
    moments = problem.with_loss(meet_by(problem.bags.d, problem.bags.n_bags))
    found = search(make_space(moments, rng), effort, THIN_TO, most=THIN_STARTS)
    means = draw_starts(problem, 1, True, rng)
    return np.concatenate([means, *(c.weights[None] for c in found.candidates[:N_MET_DAMPED])])


def race(
    space: Space, rough: Solution, others: np.ndarray, effort: Effort, n_rows: int
) -> Solution:
    """Let candidates of a sample that are low on all rows descend there, beside other answers.

    Ever fewer go on, ever further, with what they have learned of the curvature.
    """
    n_racing = int(np.clip(RACE_ROWS // n_rows, 1, MOST_RACING))
    share = max(1, n_racing // PER_SHARE)
    top = rough.candidates[: 2 * n_racing]
    weights = np.concatenate([*(c.weights[None] for c in top), others])
    values = np.full(len(weights), -np.inf)  # which the others keep, so that all of them go on
    drawn = slice(0, len(top))
    kinks = (space.l1 * np.abs(weights[drawn])).sum(axis=1)
    values[drawn] = space.evaluate(weights[drawn])[0] + kinks
    inverses = np.repeat(space.inverse[None], len(weights), axis=0)
    n_evaluations = len(top)
    stages = [(n_racing + len(others), FIRST)]
    stages += [(share * n_left if n_left > 1 else 1, factor) for n_left, factor in STAGES]
    for n_left, factor in stages:
        chosen = np.argsort(values, kind="stable")[:n_left]
        found = descend(
            space.evaluate, weights[chosen], inverses[chosen], space.l1, effort.tol * factor,
            effort.n_jobs,
        )  # fmt: skip
        weights[chosen], values[chosen] = found.weights, found.values
        inverses[chosen] = found.inverses
        n_evaluations += found.n_evaluations
    stats = rough.stats.more_evaluations(n_evaluations)
    counts = [c.n_starts for c in top] + [1] * len(others)
    return gather_ends(rough, weights, values, counts, space.curvature, stats)


def race_damped(
    space: Space, curve: Curve, rough: Solution, others: np.ndarray, effort: Effort, n_rows: int
) -> Solution:
    """Race where curvatures are known: more starts, of few steps each, and no steps aside."""
    n_racing = int(np.clip(RACE_ROWS // n_rows, 1, MOST_RACING))
    share = max(1, n_racing // PER_SHARE)
    top = rough.candidates[: 2 * n_racing]
    starts = np.concatenate([others, *(c.weights[None] for c in top)])
    racers, chosen = Racers.begin(curve, starts), np.arange(len(starts))
    tol = effort.tol * DAMPED_TOL
    limits: Sequence[float] = DAMPED_LIMITS
    for n_left, n_passes in zip((len(starts), *DAMPED_LEFT), DAMPED_PASSES, strict=True):
        chosen = chosen[np.argsort(racers.values[chosen], kind="stable")[: share * n_left]]
        racers = descend_damped(curve, racers, chosen, space.curvature, tol, n_passes, limits)
        limits = limits[-1:]
    stats = rough.stats.more_evaluations(racers.n_evaluations)
    counts = [1] * len(others) + [c.n_starts for c in top]
    return gather_ends(rough, racers.weights, racers.values, counts, space.curvature, stats)


def _settle(space: Space, found: Solution, effort: Effort, sizes: Sequence[float]) -> Solution:
    """Leave the small dents of the best answer's basin, by steps aside of some sizes."""
    best, rest = found.candidates[0], found.candidates[1:]
    weights, values, n_evaluations = best.weights[None], np.array([best.value]), 0
    for size in sizes:
        weights, values, n_more = step_aside(space, weights, values, size, effort)
        n_evaluations += n_more
    stats = found.stats.more_evaluations(n_evaluations)
    weights = np.concatenate([weights, *(c.weights[None] for c in rest)])
    values = np.append(values, [c.value for c in rest])
    counts = [c.n_starts for c in found.candidates]
    return gather_ends(found, weights, values, counts, space.curvature, stats)
