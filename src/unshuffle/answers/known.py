"""What is known of each weight, what cannot be told apart, and which weights are known least."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from unshuffle import kernels
from unshuffle.core.products import predict_rows
from unshuffle.core.solution import Solution
from unshuffle.core.uncertainty import Posterior

SIGN_AND_SIZE, SIGN, NOTHING = "sign and size", "sign", "no"
# The rule is about 95 % whatever level is shown: what is known must not change with the display.
KNOWN_LEVEL = 0.95
# Both ends are then within a factor of two or so of the estimate.
SIZE_SHARE = 0.5
KNOWN_RULE = (
    f"Known: '{SIGN}' where the 95 % interval lies on one side of zero, '{SIGN_AND_SIZE}' where "
    f"half its width is also at most half of the estimate, otherwise '{NOTHING}'."
)
# Such intervals come from a weakened likelihood: however narrow, they are no evidence.
UNEXPLORED_RULE = f"Here it is '{NOTHING}' for all of them: the posterior could not be sampled."

# The verdict's rule: identified unless this share of the posterior lies further than this
# fraction of |ŵ| from ŵ (weights in units of w_j sd(x_j), the intercept left out).
FAR_SHARE, FAR_RADIUS = 0.05, 0.3
# Parts of a direction below this share of the largest add less than a tenth of its variance; more
# than four parts no reader combines.
_LEAST_PART, SHOWN_PARTS = 0.3, 4
_SHOWN_DIRECTIONS = 3
# Weights that are named as known least, and drawn in pairs: more panes than 15 no reader compares.
SHOWN_DOUBTFUL = 5
# Two weights hang together where what is open about them is three times as wide as what is known:
# (1 + 0.8)/(1 - 0.8) = 3². A weight far wider than the other is unknown by itself.
_TOGETHER, _LEAST_RATIO = 0.8, 0.3


def judge_weights(solution: Solution) -> tuple[str | None, ...]:
    """Return what is known of each weight by `KNOWN_RULE`; None where the method has no intervals.

    A posterior that could not be explored tells nothing, nor does an interval that its own estimate
    lies outside of.

    >>> from unshuffle.core.solution import Candidate, Status
    >>> posterior = Posterior(np.array([[1.9, 0.1, -1.0], [2.1, 3.0, 1.0]]), np.ones(2), np.ones(2))
    >>> best = Candidate(np.array([2.0, 1.5, 0.1]), 0.0)
    >>> judge_weights(Solution((best,), Status.POSTERIOR, uncertainty=posterior))
    ('sign and size', 'sign', 'no')
    """
    unsure, weights = solution.uncertainty, solution.weights
    if unsure is None or not unsure.has_interval:
        return (None,) * len(weights)
    if isinstance(unsure, Posterior) and unsure.is_thin:
        return (NOTHING,) * len(weights)
    ends = unsure.interval(KNOWN_LEVEL).tolist()
    return tuple(_judge(w, *pair) for w, pair in zip(weights.tolist(), ends, strict=True))


def _judge(estimate: float, low: float, high: float) -> str:
    has_sign = 0 < low <= estimate <= high or low <= estimate <= high < 0
    if not has_sign:
        return NOTHING
    # Halved before the difference is taken, which could overflow.
    return SIGN_AND_SIZE if high / 2 - low / 2 <= SIZE_SHARE * abs(estimate) else SIGN


def find_inseparable(
    solution: Solution, scales: np.ndarray, names: Sequence[str], sources: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Return pairs of which the data tell what they do together, but not what each does.

    Two weights, neither known in sign and size, count where their draws lie along a slanted line
    (`_TOGETHER`) whose distance from zero is known: the joint effect has a sign. `sources` are what
    the columns were made from: levels of a category are called by it, and by their own `names` only
    against each other. The pairs that hang together most come first. A posterior that could not be
    explored tells nothing.
    """
    posterior = solution.uncertainty
    if not isinstance(posterior, Posterior) or posterior.is_thin:
        return ()
    gaps, parts, _ = posterior.measure(solution.weights, scales)
    drawn = gaps + parts
    centred = drawn - (posterior.shares[:, None] * drawn).sum(axis=0)
    columns = np.ascontiguousarray((centred * np.sqrt(posterior.shares)[:, None]).T)
    covariance = kernels.gram(columns)
    sd = np.sqrt(np.diag(covariance))
    known = judge_weights(solution)
    open_ones = [
        j
        for j in range(len(scales))
        if known[j] != SIGN_AND_SIZE and j not in posterior.unknown and sd[j] > 0
    ]
    found: dict[tuple[str, str], float] = {}
    for i, j in combinations(open_ones, 2):
        together = abs(float(covariance[i, j] / (sd[i] * sd[j])))
        is_even = min(sd[i], sd[j]) >= _LEAST_RATIO * max(sd[i], sd[j])
        if together < _TOGETHER or not is_even:
            continue
        if _has_joint_effect(posterior, drawn[:, [i, j]], covariance[np.ix_([i, j], [i, j])]):
            called = names if sources[i] == sources[j] else sources
            pair = (called[i], called[j])
            found[pair] = max(together, found.get(pair, 0.0))
    return tuple(sorted(found, key=lambda pair: -found[pair]))


def _has_joint_effect(posterior: Posterior, drawn: np.ndarray, covariance: np.ndarray) -> bool:
    """Return whether the combination that is known best differs from zero.

    It is zero where an answer and its mirror image compete: then the two effects are told apart,
    and what is open is their sign.
    """
    best = np.linalg.eigh(covariance)[1][:, 0]
    tail = (1 - KNOWN_LEVEL) / 2
    low, high = posterior.quantiles(predict_rows(drawn, best), (tail, 1 - tail))
    return bool(low > 0 or high < 0)


def free_directions(
    solution: Solution, posterior: Posterior, scales: np.ndarray
) -> tuple[list[tuple[float, np.ndarray]], float]:
    """Return the directions in weight space that the data leave open, widest first, and |ŵ|.

    They are the principal axes of the posterior about the estimate, in units of w_j sd(x_j), along
    which a share of FAR_SHARE or more lies beyond the verdict's radius; each comes after the
    distance from the estimate that all but this share keep. Lengths are in units of the largest
    part of ŵ or of a draw, or plain where ŵ is 0.
    """
    gaps, parts, unit = posterior.measure(solution.weights, scales)
    # A square root on either side keeps the matrix symmetric.
    columns = np.ascontiguousarray((gaps * np.sqrt(posterior.shares)[:, None]).T)
    _, axes = np.linalg.eigh(kernels.gram(columns))
    size = float(np.sqrt((parts**2).sum()))
    found = []
    for axis in axes.T:
        reach = float(posterior.quantiles(np.abs(predict_rows(gaps, axis)), (1 - FAR_SHARE,))[0])
        if reach > FAR_RADIUS * size:
            found.append((reach, axis))
    if size == 0:
        found = [(reach * unit, axis) for reach, axis in found]
    return sorted(found, key=lambda pair: -pair[0]), size


def largest_parts(axis: np.ndarray) -> list[int]:
    """Return the positions of the parts of an axis that matter, the largest first."""
    order = np.argsort(-np.abs(axis), kind="stable")
    return [int(i) for i in order if abs(axis[i]) >= _LEAST_PART * abs(axis[order[0]])]


def told_directions(
    found: Sequence[tuple[float, np.ndarray]],
) -> list[tuple[float, np.ndarray]]:
    """Return the widest directions, as many as can be told with `SHOWN_DOUBTFUL` weights."""
    told: list[tuple[float, np.ndarray]] = []
    named: set[int] = set()
    for reach, axis in found[:_SHOWN_DIRECTIONS]:
        named |= set(largest_parts(axis)[:SHOWN_PARTS])
        if len(named) > SHOWN_DOUBTFUL:
            break
        told.append((reach, axis))
    return told


def doubtful_weights(solution: Solution, scales: np.ndarray) -> list[int]:
    """Return the weights that words, tables and pictures show as known least, in column order.

    They are those of the directions that the verdict tells. Where it tells none, or only one
    weight, those of the widest intervals in units of w_j sd(x_j) join them. A weight of which the
    data say nothing is left out: its draws have no meaning.
    """
    posterior = solution.uncertainty
    if not isinstance(posterior, Posterior):
        return list(range(min(len(scales), SHOWN_DOUBTFUL)))
    named: list[int] = []
    for _, axis in told_directions(free_directions(solution, posterior, scales)[0]):
        named += [j for j in largest_parts(axis)[:SHOWN_PARTS] if j not in named]
    low, high = posterior.interval(KNOWN_LEVEL)[: len(scales)].T
    with np.errstate(invalid="ignore"):  # the whole line, of a column without spread
        widths = (high / 2 - low / 2) * scales
    widest = [int(j) for j in np.argsort(-widths, kind="stable") if np.isfinite(widths[j])]
    limit = max(len(named), 2) if named else SHOWN_DOUBTFUL
    named += [j for j in widest if j not in named and j not in posterior.unknown]
    return sorted(named[:limit])
