"""Noiseless data: answers that meet the labels to rounding, recognised before any sampling.

Noisy labels are never met by more rows than weights, unless by chance where labels take few values.
So an answer with a gap at rounding level is the truth, if chance can be ruled out and no other has
such a gap: others are looked for, and all that exist are listed with equal shares. That generic
noiseless data have one answer is shown by Unnikrishnan, Haghighatshoar and Vetterli (2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import ceil, exp, log, sqrt

import numpy as np
from scipy.special import gammaln

from unshuffle.core.solution import BagEffects, Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import Effort
from unshuffle.core.uncertainty import Posterior
from unshuffle.data.bags import Bags
from unshuffle.data.products import multiply, predict_rows, solve_rows
from unshuffle.inference.importance import find_centre
from unshuffle.model.special_cases import N_DRAWS, Columns
from unshuffle.objectives.losses import Squared
from unshuffle.objectives.noise import Noise
from unshuffle.objectives.penalties import no_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.solvers import exact, local_search
from unshuffle.solvers.descent import descend
from unshuffle.solvers.local_search import BRIEF

# Root mean square gap, in label spreads, that is nothing but rounding: labels of 1e6 with spread 1
# have 1e-10, and noise that is smaller than this nobody sees.
ROUNDING = 1e-9
# Descents that end at an exact answer stop at a mean squared gap below 1e-6.
_NEAR = 1e-5
# Columns from which on many rows need a search too.
_MANY_COLUMNS = 5
# Answers whose predictions differ by less than this (root mean square, in label spreads) are one.
_SAME = 1e-6
# Where columns are symmetric and alike there are thousands of answers; so many are listed.
_MOST_ANSWERS = 64
# The draws are as wide as answers are known: wider than any rounding on the way to the user's
# units, a hundredth of what is promised.
_WIDTH = 1e-10
# Equal data must give equal answers, so the search has a seed of its own.
_SEED = 0
_MAX_MATCHINGS = 50


@dataclass(frozen=True)
class NoiselessSettings:
    """The search for exact answers.

    Attributes
    ----------
    chance : float
        An answer counts as exact where fewer than so many are expected by chance.
    columns : tuple of int
        Least and most columns with which exact answers are searched: least squares finds them with
        fewer, and no search with more.
    most_bags : int
        Most bags with which they are searched: with more, least squares finds them.
    few_rows : int
        Rows up to which they are searched from many starts. The loss of few rows is roughest.
    aside : tuple of float
        Steps of the rounds that descend from beside the lowest minima.
    rows_aside, rows_started : int
        Rows that are sorted at the starts of such a round, and at other starts.
    """

    chance: float = 0.05
    columns: tuple[int, int] = (4, 6)
    most_bags: int = 2
    few_rows: int = 60
    aside: tuple[float, ...] = (8.0, 8.0, 4.0)
    rows_aside: int = 8_000
    rows_started: int = 100_000


NOISELESS = NoiselessSettings()


@dataclass(frozen=True, eq=False)
class Exact:
    """An answer and the root mean square gap that is left, in label spreads."""

    weights: np.ndarray
    gap: float


def solve_exactly(
    bags: Bags,
    columns: Columns,
    noise: Noise | None,
    fitted: list[tuple[np.ndarray, float]],
    effort: Effort,
) -> Solution | None:
    """Return the answers that meet the labels to rounding, or None where there are none.

    `bags` are in standard units and `fitted` the least-squares answers with their mean squared
    gaps. Noise that is given, and labels that are not one for each row, leave nothing to find.
    """
    if not bags.is_plain or (noise is not None and noise.sd > ROUNDING):
        return None
    kept = np.append(columns.is_kept, np.full(int(columns.has_intercept), True))
    bags = bags.with_columns(bags.X[:, kept])
    p = int(columns.is_kept.sum())
    is_near = bool(fitted) and fitted[0][1] < _NEAR
    least, most = NOISELESS.columns
    is_searched = least <= p <= most and bags.n_bags <= NOISELESS.most_bags
    is_searched &= p >= _MANY_COLUMNS or bags.n <= NOISELESS.few_rows
    if (
        not (is_near or is_searched)
        or bags.n <= bags.d
        or expect_by_chance(bags) > NOISELESS.chance
    ):
        return None
    search = _Search(bags, p, effort)
    found = search.keep_exact([w for w, gap in fitted if gap < _NEAR])
    if not found and is_searched:
        weights, gaps = zip(*fitted, strict=True)
        found = search.keep_exact(search.perturb(np.stack(weights), np.array(gaps)))
        if not found and bags.n <= NOISELESS.few_rows and p >= _MANY_COLUMNS:
            found = search.keep_exact(search.look())
    if not found:
        return None
    return _assemble(bags, columns, search.find_others(found))


def expect_by_chance(bags: Bags) -> float:
    """Return how many answers at most would meet labels that have nothing to do with the rows.

    Two labels fewer than weights fix an answer up to one choice, since mean and variance of all
    labels are met too. They can be dealt to the rows of the smallest bags in so many ways; by
    chance an answer meets each of the labels that its weights left over with the probability of
    a label's value. Labels on a lattice (whole numbers, few digits) have values of some
    probability, others only that of their resolution.
    """
    d = bags.d
    bag = np.repeat(np.arange(bags.n_bags), bags.sizes)
    level, log_probability = _rate_values(bags.y)
    rest = np.argsort(log_probability, kind="stable")[d:]
    ways = np.concatenate([np.log(np.arange(size, 0, -1)) for size in np.sort(bags.sizes)])
    n_dealt = max(d - 2, 0)
    hypotheses = log(2.0) + min(float(ways[:n_dealt].sum()), n_dealt * log(level.max() + 1))
    sizes = np.bincount(bag[rest], minlength=bags.n_bags)
    repeats = np.unique(bag[rest] * (level.max() + 1) + level[rest], return_counts=True)[1]
    orders = float(gammaln(sizes + 1.0).sum() - gammaln(repeats + 1.0).sum())
    return exp(min(hypotheses + orders + float(log_probability[rest].sum()), 700.0))


def _rate_values(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each label the number of its value, and the log probability of this value.

    A value's probability is its frequency where it repeats, and that of its neighbourhood spread
    over the cells of the lattice where that is more.
    """
    n = len(y)
    order = np.argsort(y, kind="stable")
    v = y[order]
    places = np.concatenate([[0], np.cumsum(np.diff(v) > ROUNDING)])
    counts = np.bincount(places)
    step = _common_step(np.diff(v[np.searchsorted(places, np.arange(len(counts)))]))
    reach = int(np.ceil(sqrt(n) / 2))
    first = np.clip(np.arange(n) - reach, 0, max(n - 2 * reach - 1, 0))
    last = np.minimum(first + 2 * reach, n - 1)
    cells = np.round((v[last] - v[first]) / step) + 1.0
    repeated = np.where(counts > 1, counts, 0)[places]
    probability = np.maximum((last - first + 1.0) / cells, repeated) / n
    level, log_probability = np.empty(n, dtype=int), np.empty(n)
    level[order], log_probability[order] = places, np.log(probability)
    return level, log_probability


def _common_step(gaps: np.ndarray) -> float:
    """Return the step of which all gaps are multiples, by Euclid; at least the rounding."""
    step = 0.0
    for gap in gaps.tolist():
        larger, smaller = gap, step
        while smaller > ROUNDING:
            larger, smaller = smaller, abs(larger - round(larger / smaller) * smaller)
        step = larger
        if step < 10 * ROUNDING:
            break
    return max(step, ROUNDING)


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for exact answers among the weights of bags, `p` of them features."""

    bags: Bags
    p: int
    effort: Effort

    def keep_exact(self, starts: list[np.ndarray]) -> list[Exact]:
        """Polish every start, and keep the exact answers that differ."""
        return self._add([], starts)

    def _add(self, found: list[Exact], starts: list[np.ndarray]) -> list[Exact]:
        gram = self.bags.statistics.gram
        for w in starts:
            answer = self._polish(w)
            if answer is None or len(found) == _MOST_ANSWERS:
                continue
            gaps = [answer.weights - other.weights for other in found]
            if all(float(gap @ gram @ gap) > _SAME**2 for gap in gaps):
                found = [*found, answer]
        return found

    def _polish(self, w: np.ndarray) -> Exact | None:
        """Match ranks and fit the pairs until they stay; None if a gap or freedom is left."""
        rows, y = self.bags.X, self.bags.y
        bag = np.repeat(np.arange(self.bags.n_bags), self.bags.sizes)
        matched = np.full(self.bags.n, np.nan)
        weights, gap = np.empty(0), np.inf
        for _ in range(_MAX_MATCHINGS):
            # The level moves all rows of a bag alike, and never their ranks.
            before, matched = matched, np.empty(self.bags.n)
            matched[np.lexsort((predict_rows(rows[:, : self.p], w[: self.p]), bag))] = y
            if np.array_equal(before, matched):
                break
            weights, rank = solve_rows(rows, matched, 1e-10)
            if rank < self.bags.d:
                return None
            w = weights
            gap = sqrt(float(((predict_rows(rows, w) - matched) ** 2).mean()))
        return Exact(weights, gap) if gap <= ROUNDING else None

    def look(self) -> list[np.ndarray]:
        """Return near answers: from every matching where they are few, else from many starts.

        After the starts, descents from beside the lowest ends go on.
        """
        bags = self.bags
        if exact.count_matchings(bags) <= log(exact.MAX_PERMUTATIONS) + 1e-9:
            weights, values = exact.fit_matchings(bags)
            return list(np.unique(weights[values < ROUNDING**2].round(9), axis=0))
        space = self._space
        n_starts = ceil(NOISELESS.rows_started / bags.n)
        points = space.draw(BRIEF.n_screened * n_starts, False)
        order = np.argsort(space.evaluate(points)[0], kind="stable")
        ends = descend(
            space.evaluate,
            points[order[:n_starts]],
            space.inverse,
            space.l1,
            self.effort.tol,
            self.effort.n_jobs,
        )
        return self.perturb(ends.weights[:, : self.p], ends.values)

    def perturb(self, features: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
        """Descend from beside the lowest ends, round after round; return near answers."""
        order = np.argsort(values, kind="stable")
        # One of each that stopped at the same gap.
        order = order[np.diff(values[order], prepend=-1.0) > 1e-9]
        order = order[: ceil(NOISELESS.rows_aside / self.bags.n)]
        weights, values = self._with_levels(features[order]), values[order]
        for size in NOISELESS.aside:
            weights, values, _ = local_search.perturb(
                self._space, weights, values, size, self.effort
            )
        return list(weights[values < _NEAR])

    @cached_property
    def _space(self) -> local_search.Space:
        problem = Problem(self.bags, Squared(), None, no_penalty(self.bags.d))
        return local_search.make_space(problem, np.random.default_rng(_SEED))

    def _with_levels(self, features: np.ndarray) -> np.ndarray:
        """Return weights with the level that meets the mean of the labels, if there is one."""
        bags, p = self.bags, self.p
        weights = np.zeros((len(features), bags.d))
        weights[:, :p] = features
        if bags.d > p:
            means = bags.X[:, :p].mean(axis=0)
            weights[:, -1] = bags.y.mean() - (features * means).sum(axis=1)
        return weights

    def find_others(self, found: list[Exact]) -> list[Exact]:
        """Return all exact answers: images of one another under symmetries, and by search."""
        found = self._add(found, self.look())
        done = 0
        while done < len(found) < _MOST_ANSWERS:
            found = self._add(found, self._near_images(found[done].weights))
            done += 1
        return sorted(found, key=lambda answer: tuple(-answer.weights))

    def _near_images(self, w: np.ndarray) -> list[np.ndarray]:
        """Return the images of an answer, under signs and exchanges of columns, that are near.

        A column that is symmetric about its mean takes either sign, and columns alike take each
        other's weights.
        """
        p = self.p
        signs = (
            np.array(list(product((1.0, -1.0), repeat=p))) if p <= NOISELESS.columns[1] else _few(p)
        )
        orders = [list(range(p))]
        for i, j in combinations(range(p), 2):
            orders.append(list(range(p)))
            orders[-1][i], orders[-1][j] = j, i
        images = self._with_levels(np.concatenate([signs * w[order] for order in orders]))
        return list(images[self._space.evaluate(images)[0] < _NEAR])


def _few(p: int) -> np.ndarray:
    """Return the signs of many columns that are tried: all, one or none turned."""
    signs = np.ones((p + 2, p))
    signs[np.arange(p), np.arange(p)] = -1.0
    signs[p] = -1.0
    return signs


def _assemble(bags: Bags, columns: Columns, found: list[Exact]) -> Solution:
    """Return exact answers with equal shares, and draws as wide as answers are known."""
    p, n_found = int(columns.is_kept.sum()), len(found)
    weights = np.stack([answer.weights for answer in found])
    shares = np.full(n_found, 1.0 / n_found)
    estimate = weights[0] if n_found == 1 else find_centre(weights, shares)
    # Halfway between an answer and its opposite is zero, not what rounding leaves of it.
    estimate = np.where(np.abs(estimate) > _WIDTH, estimate, 0.0) if n_found > 1 else estimate
    n_pairs = ceil(N_DRAWS / (2 * n_found))
    steps = np.random.default_rng(_SEED).standard_normal((n_pairs, bags.d))
    # Steps of one spread of the predictions, each with its opposite: the median is the answer.
    values, axes = np.linalg.eigh(bags.statistics.gram)
    # The symmetric root: rounding chooses the signs of eigenvectors.
    steps = _WIDTH * multiply(steps, multiply(axes / np.sqrt(values), axes.T))
    draws = np.concatenate([w + sign * steps for w in weights for sign in (1.0, -1.0)])
    gaps = np.array([answer.gap for answer in found])

    def widen(x: np.ndarray) -> np.ndarray:
        return columns.widen(x[:, :p], x[:, -1] if columns.has_intercept else 0.0)

    more = "at least " if n_found == _MOST_ANSWERS else ""
    which = "One answer meets" if n_found == 1 else f"{more}{n_found} answers meet".capitalize()
    sentence = f"{which} the labels to rounding: no noise and no prior were needed."
    return Solution(
        candidates=tuple(
            Candidate(full, value=gap**2, share=1.0 / n_found, noise=gap)
            for full, gap in zip(widen(weights), gaps.tolist(), strict=True)
        ),
        status=Status.NOISELESS,
        stats=Stats(n_exact=n_found, priors=(sentence,)),
        estimate=widen(estimate[None])[0],
        misfits=(),
        effects=BagEffects(0.0, 0.0) if bags.n_bags > 1 else None,
        uncertainty=Posterior(
            draws=widen(draws),
            draw_weights=np.ones(len(draws)),
            sigma=np.repeat(gaps, 2 * n_pairs),
        ),
    )
