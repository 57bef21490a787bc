"""Links of which a share is wrong: the mixture of linked and mixed-up labels, as in record linkage.

Each label stands beside its row, but some were mixed up inside their bags. A label is that of its
row with probability h and otherwise any label of the bag, so that its density is

    h N(y; xᵀw, σ²) + (1 − h) g(y),

g being the law of the labels in their bag. EM finds the top from several starts, and sandwich
errors measure how sure it is. Where links of an unknown share say nothing the labels count without
their order, and where noise is so low that links are told one by one, the right ones become known
pairs and the others are matched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np

from unshuffle.core.bags import Bags, make_bags
from unshuffle.core.losses import Squared
from unshuffle.core.options import ESTIMATE, FitOptions
from unshuffle.core.problem import Problem
from unshuffle.core.products import dot, predict_rows, solve_rows
from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.core.uncertainty import StudentT
from unshuffle.errors import InputError
from unshuffle.posterior.likelihood import Likelihood
from unshuffle.solvers import multistart
from unshuffle.solvers.means import solve_means

# Least squares on links of which a share s is wrong is (1 − s) times the weights: starts for each.
_SHRUNK = (1.0, 0.8, 0.6, 0.4, 0.2)
# Least-squares answers that ignore the links: starts where few are right.
_N_SHUFFLED = 3
# An end is a gain below a millionth of a nat; slow ends (few wrong links) take a few hundred steps.
_LEAST_GAIN, _MOST_STEPS = 1e-6, 1000
# Starts whose values agree to so many nats have met.
_SAME_VALUE = 0.01
# Half a right and half a wrong link are counted besides: the share stays off 0 and 1.
_EXTRA_LINKS = 0.5
# A noise sd below this part of the labels' is rounding.
_LEAST_SIGMA = 1e-8
# Cells of the labels' law, out to some widths of the kernel, and its least density: no label is
# impossible.
_N_CELLS, _MARGIN, _LEAST_DENSITY = 2048, 4.0, 1e-4
# Beyond this, and below its inverse, labels in the user's units are brought to ordinary ones.
_LARGEST_LABEL = 1e100
# Noise below this share of the labels' variance tells links one by one.
_SHARP_NOISE = 0.003
# Fewer wrong links than this share leave nothing to gain by matching them.
_WORTH_MATCHING = 0.05


@dataclass(frozen=True)
class Linkage(Strategy):
    """Regression on links of which a share (a number, or "estimate") is wrong."""

    share: Any = ESTIMATE

    takes_penalty: ClassVar[bool] = False
    why_plain: ClassVar[str | None] = "a link is one label beside one row"

    @property
    def name(self) -> str:
        return "mixture"

    @property
    def degree(self) -> int:
        return 0

    def check(self, bags: Bags, options: FitOptions) -> None:
        if bags.n != len(bags.y) or not bags.is_plain:
            raise InputError(
                "mislinked needs one label beside each row, which separate samples, bins and "
                "missing labels do not have: leave mislinked out"
            )
        if options.l1 or options.l2:
            raise InputError("mislinked takes no penalties: leave l1 and l2 at 0")
        super().check(bags, options)

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        return solve(problem, self.share, rng, effort)


@dataclass(frozen=True, eq=False)
class Links:
    """Rows and the labels beside them; `is_known` where a pair cannot be wrong.

    `place` says where each stood in the data as given, `codes` number the bags, `log_law` is the
    log density of each label in the law of its bag.
    """

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    is_known: np.ndarray
    place: np.ndarray
    log_law: np.ndarray


@dataclass(frozen=True, eq=False)
class Top:
    """Where EM ended: weights, noise sd, share of right links, their probabilities, the value."""

    w: np.ndarray
    sigma: float
    right: float
    probability: np.ndarray
    value: float


def solve(problem: Problem, share: Any, rng: np.random.Generator, effort: Effort) -> Solution:
    """Fit links of which a share is wrong, in standard units."""
    links = read_links(problem.bags)
    noise = problem.noise
    if noise is not None:
        links = replace(links, y=links.y - float(noise.moments(1)[0]))
    if share == 0.0 or links.is_known.all():
        linked = make_bags(links.X, links.y, links.codes, np.ones(len(links.y), dtype=bool))
        found = solve_means(linked)
        return replace(found, stats={**found.stats, **_say(0.0, np.ones(len(links.y)))})
    given = None if share == ESTIMATE else 1.0 - float(share)
    sigma = None if noise is None else max(noise.sd, _LEAST_SIGMA)
    starts = _make_starts(problem, links, rng, effort)
    tops = [climb(links, w, given, sigma) for w in starts]
    top = max(tops, key=lambda each: _weigh(links, each))
    probability = np.empty(len(links.y))
    probability[links.place] = top.probability
    stats = {"n_starts": len(starts), **_say(1.0 - top.right, probability)}
    if given is None and _says_nothing(links, top):
        found = Likelihood(power="full").solve(problem, rng, effort)
        return _with_stats(found, {**stats, "method": "likelihood"})
    if top.sigma**2 < _SHARP_NOISE and 1.0 - top.right > _WORTH_MATCHING:
        known = links.is_known | (top.probability > 0.5)
        bags = make_bags(links.X, links.y, links.codes, known)
        found = Likelihood().solve(problem.with_bags(bags), rng, effort)
        return _with_stats(found, stats)
    n_met = sum(abs(top.value - other.value) < _SAME_VALUE for other in tops)
    return Solution(
        (Candidate(top.w, -top.value, n_starts=n_met),),
        Status.AGREED if n_met > 1 else Status.LONELY,
        stats,
        uncertainty=_measure_errors(links, top, given is None, sigma is None),
    )


def estimate_share(problem: Problem, rng: np.random.Generator, effort: Effort) -> float:
    """Return the share of wrong links that the mixture finds."""
    return float(solve(problem, ESTIMATE, rng, effort).stats["mislinked"])


def _weigh(links: Links, top: Top) -> float:
    """Return the log evidence of a top, by Laplace: weights are known to σ/√mass of a prior's sd.

    Without it the best tops of mixed-up labels would be narrow bands through a few of them by
    chance (26 nats above the law alone at n = 500, d = 5, where the evidence is 17 below it).
    """
    n, d = links.X.shape
    mass = max(float(top.probability.sum()), 1.0)
    return top.value - d * (0.5 * log(mass) - log(top.sigma)) - log(n)


def _says_nothing(links: Links, top: Top) -> bool:
    """Return whether chance explains as well that labels stand beside their rows."""
    return not links.is_known.any() and _weigh(links, top) < float(links.log_law.sum())


def _say(wrong: float, probability: np.ndarray) -> dict[str, Any]:
    return {"mislinked": wrong, "link_probability": probability}


def _with_stats(found: Solution, stats: dict[str, Any]) -> Solution:
    return replace(found, stats={**found.stats, **stats})


def read_links(bags: Bags) -> Links:
    """Return the pairs as they were given, in an order of their own content."""
    unit = np.repeat(np.arange(bags.n_bags), bags.sizes)
    rows = np.lexsort((bags.rows.order, bags.sizes[unit] > 1))
    labels = np.lexsort((bags.labels.order, bags.sizes[unit] > 1))
    n_single = int((bags.sizes == 1).sum())
    # Bags of one row come first, and are pairs whatever stood beside them.
    rows[:n_single] = labels[:n_single] = np.flatnonzero(bags.sizes[unit] == 1)
    beside = bags.rows.order[rows] == bags.labels.order[labels]
    if not (beside[n_single:] & (unit[rows] == unit[labels])[n_single:]).all():
        raise InputError(
            "anchors give away the label beside another row, whose link is then unknown: with "
            "mislinked give anchors as True or False for every row"
        )
    homes = unit if bags.homes is None else bags.homes[unit]
    X, y, codes, place = bags.X[rows], bags.y[labels], homes[rows], bags.rows.order[rows]
    is_known = np.arange(len(y)) < n_single
    order = np.lexsort([codes, is_known, *X.T[::-1], y])
    X, y, codes = np.asfortranarray(X[order]), y[order], codes[order]
    means = np.bincount(codes, y) / np.bincount(codes)
    law = estimate_law(y - means[codes])
    return Links(X, y, codes, is_known[order], place[order], law)


def estimate_law(values: np.ndarray) -> np.ndarray:
    """Return the log density of each value in the smoothed law of all: a kernel of Silverman's."""
    size = float(np.abs(values).max(initial=0.0))
    if size > _LARGEST_LABEL or 0.0 < size < 1.0 / _LARGEST_LABEL:
        # Squares would overflow or vanish; a power of two changes no digit.
        exponent = int(np.frexp(size)[1])
        return estimate_law(np.ldexp(values, -exponent)) - exponent * np.log(2.0)
    low, high = np.quantile(values, [0.25, 0.75])
    sd = float(values.std())
    spread = min(sd, (high - low) / 1.34) if high > low else sd
    if spread == 0.0:
        return np.zeros(len(values))
    width = 0.9 * spread * len(values) ** -0.2
    start, stop = values.min() - _MARGIN * width, values.max() + _MARGIN * width
    step = (stop - start) / (_N_CELLS - 1)
    at = (values - start) / step
    left = np.floor(at).astype(int)
    masses = np.bincount(left, 1.0 - (at - left), _N_CELLS)
    masses += np.bincount(left + 1, at - left, _N_CELLS)[:_N_CELLS]
    from scipy.ndimage import gaussian_filter1d  # slow to import, and seldom needed

    density = gaussian_filter1d(masses, width / step, mode="constant", truncate=_MARGIN)
    density /= len(values) * step
    return np.log(np.maximum(np.interp(at, np.arange(_N_CELLS), density), _LEAST_DENSITY / spread))


def _make_starts(
    problem: Problem, links: Links, rng: np.random.Generator, effort: Effort
) -> list[np.ndarray]:
    """Return weights to start from: of the links, and of the labels without them."""
    w = solve_rows(links.X, links.y, 1e-10)[0]
    starts = [w / share for share in _SHRUNK]
    plain = replace(problem, loss=Squared(), noise=None)
    found = multistart.solve(plain, rng, replace(effort, n_starts=None))
    return starts + [c.weights for c in found.candidates[:_N_SHUFFLED]]


def climb(links: Links, w: np.ndarray, right: float | None, sigma: float | None) -> Top:
    """Climb by EM from weights; the share of right links and the noise may be given."""
    X, y = links.X, links.y
    is_free = ~links.is_known
    rest = y - predict_rows(X, w)
    at = sigma or max(1.4826 * float(np.median(np.abs(rest))), _LEAST_SIGMA)
    h, value = 0.5 if right is None else right, -np.inf
    for _ in range(_MOST_STEPS):
        linked = -0.5 * (rest / at) ** 2 - log(at) - 0.5 * log(2.0 * np.pi)
        own = linked + log(max(h, 1e-300))
        total = np.logaddexp(own, links.log_law + log(max(1.0 - h, 1e-300)))
        probability = np.where(is_free, np.exp(own - total), 1.0)
        last, value = value, float(np.where(is_free, total, linked).sum())
        if right is None:
            value += _EXTRA_LINKS * (log(h) + log(1.0 - h))
            n_free = float(is_free.sum())
            h = (float(probability[is_free].sum()) + _EXTRA_LINKS) / (n_free + 2 * _EXTRA_LINKS)
        if value - last < _LEAST_GAIN:
            break
        w = _solve_weighted(X, y, probability, w)
        rest = y - predict_rows(X, w)
        if sigma is None:
            mass = max(float(probability.sum()), 1e-300)
            at = max(sqrt(dot(probability, rest * rest) / mass), _LEAST_SIGMA)
    return Top(w, at, h, probability, value)


def _solve_weighted(X: np.ndarray, y: np.ndarray, weights: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return weighted least squares, as the step from weights that were: by sums, not by BLAS."""
    heavy = X * weights[:, None]
    gram = np.einsum("ni,nj->ij", heavy, X)
    pull = np.einsum("ni,n->i", heavy, y - predict_rows(X, w))
    return np.asarray(w + np.linalg.pinv(gram, rcond=1e-10, hermitian=True) @ pull)


def _measure_errors(links: Links, top: Top, has_share: bool, has_noise: bool) -> StudentT:
    """Return sandwich errors: A⁻¹BA⁻¹ of the slopes of each label's log density.

    The unknowns are the weights, log σ and logit h, as far as they are free.
    """
    X, r, h = links.X, top.probability, top.right
    n, d = X.shape
    is_free = ~links.is_known
    gap = (links.y - predict_rows(X, top.w)) / top.sigma
    linked = np.column_stack([X * (gap / top.sigma)[:, None], gap**2 - 1.0, is_free * (1.0 - h)])
    mixed = np.column_stack([np.zeros((n, d + 1)), is_free * -h])
    scores = r[:, None] * linked + (1.0 - r)[:, None] * mixed
    second = np.zeros((d + 2, d + 2))
    second[:d, :d] = np.einsum("ni,nj->ij", X * r[:, None], X) / top.sigma**2
    second[:d, d] = second[d, :d] = 2.0 * np.einsum("ni,n->i", X, r * gap) / top.sigma
    second[d, d] = 2.0 * dot(r, gap**2)
    second[-1, -1] = (float(is_free.sum()) + 2.0 * _EXTRA_LINKS) * h * (1.0 - h)
    second -= np.einsum("ni,nj->ij", linked * r[:, None], linked)
    second -= np.einsum("ni,nj->ij", mixed * (1.0 - r)[:, None], mixed)
    outer = np.einsum("ni,nj->ij", scores, scores)
    second += outer
    kept = np.flatnonzero([*[True] * d, has_noise, has_share])
    inverse = np.linalg.pinv(second[np.ix_(kept, kept)], rcond=1e-12, hermitian=True)
    spread = (inverse @ outer[np.ix_(kept, kept)] @ inverse)[:d, :d]
    # Rows count as far as their links are right.
    mass = float(r.sum())
    dof = max(int(mass - d), 1)
    values, axes = np.linalg.eigh(0.5 * (spread + spread.T) * (mass / dof))
    steps = np.sqrt(np.maximum(values, 0.0))[:, None] * axes.T
    return StudentT(top.w, steps, dof, top.sigma * sqrt(mass / dof) if has_noise else top.sigma)
