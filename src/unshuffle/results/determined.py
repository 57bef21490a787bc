"""Sign and magnitude of coefficients as their intervals determine them, and collinear pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from unshuffle import kernels
from unshuffle.core.solution import Solution
from unshuffle.core.uncertainty import Posterior
from unshuffle.data.products import predict_rows
from unshuffle.options import LEVEL

SIGN_AND_MAGNITUDE, SIGN, NEGLIGIBLE, UNDETERMINED = (
    "sign and magnitude",
    "sign",
    "negligible",
    "no",
)
# Half the width of an interval, relative to the estimate: both ends are then within a factor of
# about two of it.
MAGNITUDE_SHARE = 0.5
# A standardised coefficient inside ± this is negligible: small by the convention of Cohen (1988).
NEGLIGIBLE_SHARE = 0.1
DETERMINED_RULE = (
    f"Determined: '{SIGN}' where the 95 % interval lies on one side of zero, "
    f"'{SIGN_AND_MAGNITUDE}' where its width is also at most the size of the estimate, "
    f"'{NEGLIGIBLE}' where it lies within ±{NEGLIGIBLE_SHARE:g} sd(y)/sd(x), otherwise "
    f"'{UNDETERMINED}'."
)
# The words of version 0.1.0, kept beside the others for one version.
_KNOWN = {SIGN_AND_MAGNITUDE: "sign and size", SIGN: "sign", UNDETERMINED: "no"}
KNOWN_RULE = (
    "Known: 'sign' where the 95 % interval lies on one side of zero, 'sign and size' where half "
    "its width is also at most half of the estimate, otherwise 'no'."
)
# Intervals of a posterior that was not explored are no evidence, however narrow.
UNEXPLORED_RULE = f"Here it is '{UNDETERMINED}' for all: the posterior was not sampled well."

# Most coefficients in the picture of pairs, which then has 15 panes.
_SHOWN_DOUBTFUL = 5


def assess_coefficients(solution: Solution, limits: np.ndarray) -> tuple[str | None, ...]:
    """Return what is determined of each coefficient by `DETERMINED_RULE`; None without intervals.

    `limits` are the sizes below which each is negligible. A posterior that was not explored
    determines nothing, nor does an interval that its own estimate lies outside of.

    >>> from unshuffle.core.solution import Candidate, Status
    >>> posterior = Posterior(np.array([[1.9, 0.1, -1.0], [2.1, 3.0, 1.0]]), np.ones(2), np.ones(2))
    >>> best = Candidate(np.array([2.0, 1.5, 0.1]), 0.0)
    >>> solution = Solution((best,), Status.POSTERIOR, uncertainty=posterior)
    >>> assess_coefficients(solution, np.array([0.1, 0.1, 0.1]))
    ('sign and magnitude', 'sign', 'no')
    >>> assess_coefficients(solution, np.array([9.0, 9.0, 9.0]))
    ('sign and magnitude', 'negligible', 'negligible')
    """
    unsure, estimates = solution.uncertainty, solution.weights
    if unsure is None or not unsure.has_interval:
        return (None,) * len(estimates)
    if unsure.is_thin:
        return (UNDETERMINED,) * len(estimates)
    low, high = unsure.interval(LEVEL).T.tolist()
    return tuple(map(_assess, estimates.tolist(), low, high, limits.tolist()))


def _assess(estimate: float, low: float, high: float, limit: float) -> str:
    if not low <= estimate <= high:
        return UNDETERMINED
    has_sign = low > 0 or high < 0
    # Halved before the difference is taken, which could overflow.
    if has_sign and high / 2 - low / 2 <= MAGNITUDE_SHARE * abs(estimate):
        return SIGN_AND_MAGNITUDE
    if -limit <= low and high <= limit:
        return NEGLIGIBLE
    return SIGN if has_sign else UNDETERMINED


def assess_known(solution: Solution) -> tuple[str | None, ...]:
    """Return what is known of each coefficient by the rule of version 0.1.0, `KNOWN_RULE`."""
    assessed = assess_coefficients(solution, np.full(len(solution.weights), -1.0))
    return tuple(None if each is None else _KNOWN[each] for each in assessed)


def find_collinear_pairs(
    solution: Solution, scales: np.ndarray, names: Sequence[str], sources: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Return pairs of coefficients whose joint effect is determined, but not the effect of each.

    Two coefficients, neither determined in sign and magnitude, count where their draws lie along a
    slanted line (`_TOGETHER`) whose distance from zero is known: the joint effect has a sign.
    `sources` are what the columns were made from: levels of a category are called by it, and by
    their own `names` only against each other. The pairs that hang together most come first. A
    posterior that was not explored tells nothing.
    """
    posterior = solution.posterior
    if posterior is None or posterior.is_thin:
        return ()
    gaps, parts, _ = posterior.measure(solution.weights, scales)
    drawn = gaps + parts
    centred = drawn - (posterior.shares[:, None] * drawn).sum(axis=0)
    columns = np.ascontiguousarray((centred * np.sqrt(posterior.shares)[:, None]).T)
    covariance = kernels.gram(columns)
    sd = np.sqrt(np.diag(covariance))
    open_ones = [j for j in _list_open(solution, len(scales)) if sd[j] > 0]
    found: dict[tuple[str, str], float] = {}
    for i, j in combinations(open_ones, 2):
        together = abs(float(covariance[i, j] / (sd[i] * sd[j])))
        # From a correlation of 0.8 on the open direction is three times as wide as the known one:
        # (1 + 0.8)/(1 - 0.8) = 3². One that is far wider than the other is unknown by itself.
        is_even = min(sd[i], sd[j]) >= 0.3 * max(sd[i], sd[j])
        if together < 0.8 or not is_even:
            continue
        if _has_joint_effect(posterior, drawn[:, [i, j]], covariance[np.ix_([i, j], [i, j])]):
            called = names if sources[i] == sources[j] else sources
            pair = (called[i], called[j])
            found[pair] = max(together, found.get(pair, 0.0))
    return tuple(sorted(found, key=lambda pair: -found[pair]))


def _list_open(solution: Solution, d: int) -> list[int]:
    """Return the features that vary and are not determined in sign and magnitude."""
    unknown = () if solution.uncertainty is None else solution.uncertainty.unknown
    known = assess_known(solution)[:d]
    return [j for j in range(d) if known[j] != _KNOWN[SIGN_AND_MAGNITUDE] and j not in unknown]


def _has_joint_effect(posterior: Posterior, drawn: np.ndarray, covariance: np.ndarray) -> bool:
    """Return whether the combination with the least variance differs from zero.

    It is zero where an answer and its mirror image compete: then the two effects are told apart,
    and what is open is their sign.
    """
    best = np.linalg.eigh(covariance)[1][:, 0]
    tail = (1 - LEVEL) / 2
    low, high = posterior.quantiles(predict_rows(drawn, best), (tail, 1 - tail))
    return bool(low > 0 or high < 0)


def doubtful_weights(solution: Solution, scales: np.ndarray) -> list[int]:
    """Return the features that pictures show as determined least, in column order.

    They have the widest intervals in units of w_j sd(x_j), those determined in sign and magnitude
    last. A column of which the data say nothing is left out: its draws have no meaning.
    """
    posterior, d = solution.posterior, len(scales)
    if posterior is None:
        return list(range(min(d, _SHOWN_DOUBTFUL)))
    low, high = posterior.interval(LEVEL)[:d].T
    with np.errstate(invalid="ignore"):  # the whole line, of a column without spread
        widths = (high / 2 - low / 2) * scales
    still_open = set(_list_open(solution, d))
    varied = [j for j in range(d) if j not in posterior.unknown and np.isfinite(widths[j])]
    varied.sort(key=lambda j: (j not in still_open, -widths[j], j))
    n_shown = max(2, min(len(still_open), _SHOWN_DOUBTFUL)) if still_open else _SHOWN_DOUBTFUL
    return sorted(varied[:n_shown])
