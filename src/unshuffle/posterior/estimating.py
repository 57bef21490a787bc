"""The point estimate, and the draws behind the intervals, from samples at two powers.

The estimate is the centre of a posterior that leans towards low noise and trusts the shapes of bags
further than the intervals do, and hears least squares; it stays inside its own intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, sqrt

import numpy as np

from unshuffle.core.products import dot
from unshuffle.core.uncertainty import INSIDE, Posterior
from unshuffle.posterior.importance import Sample, limit_tilt
from unshuffle.posterior.model import Target
from unshuffle.posterior.options import Settings
from unshuffle.posterior.proposals import flatten, normalise
from unshuffle.posterior.trust import Signs, share_least_squares

# Share of the intervals' draws that see the shapes as the estimate does; where it bets in full, an
# estimate that a tenth of them supports would be pulled off again, by up to ten times its error.
_SHARP_SHARE, _SHARP_SHARE_IN_FULL = 0.1, 0.5
# Share of the posterior at low noise below which the estimate leans by a nat at most, and above
# which it may in full.
_LEAST_LOW, _ENOUGH_LOW, _LEAST_LEAN = 0.1, 0.3, 1.0
# With one bag nothing checks the lean, and a quarter of it is left.
_LEAN_LOST = 0.75


@dataclass(frozen=True, eq=False)
class Draws:
    """Points, their least-squares slopes, and shares that add up to one."""

    x: np.ndarray
    slopes: np.ndarray
    shares: np.ndarray


def lean(sample: Sample, target: Target) -> np.ndarray:
    """Return log weights that lean towards low noise, as far as the posterior has mass there.

    The closer bound on the weights holds in any case; only the lean is limited.
    """
    sample, limit = _bound_closely(sample, target), 0.0
    if target.log_sigma is None:
        most = target.options.tilt_limit * (1.0 - _LEAN_LOST / target.n_homes)
        least = min(most, _LEAST_LEAN)
        limit = least + (most - least) * _share_of_signal(sample, target)
    return limit_tilt(sample.log_plain, sample.log_tilted, limit)


def hear(
    centre: np.ndarray,
    fitted: np.ndarray,
    sharp: Sample,
    leaning: np.ndarray,
    target: Target,
    signs: Signs,
) -> np.ndarray:
    """Move the centre towards the answer of least squares, as far as that is worth hearing."""
    curve_sds = 0.0
    if target.has_curve:
        curves = sharp.x[:, target.curve_place]
        mean = dot(leaning, curves)
        curve_sds = abs(mean) / sqrt(max(dot(leaning, (curves - mean) ** 2), 1e-300))
    gap = fitted - centre
    share = share_least_squares(signs, target.n_homes, gap, curve_sds)
    return centre + share * _share_of_signal(_bound_closely(sharp, target), target) * gap


def _bound_closely(sample: Sample, target: Target) -> Sample:
    """Return the sample under the estimate's closer bound on the weights."""
    return replace(sample, log_plain=sample.log_plain + target.close_bound(sample.x))


def _share_of_signal(sample: Sample, target: Target) -> float:
    """Return 0 where noise drowns the signal and 1 where enough of the posterior has little."""
    if target.log_sigma is not None:
        return float(exp(2.0 * target.log_sigma) < target.options.tilt_ceiling)
    is_low = np.exp(2.0 * sample.x[:, target.p]) < target.options.tilt_ceiling
    low = float(normalise(sample.log_plain)[0] @ is_low)
    return min(max((low - _LEAST_LOW) / (_ENOUGH_LOW - _LEAST_LOW), 0.0), 1.0)


def blend(sample: Sample, sharp: Sample, leaning: np.ndarray, options: Settings) -> Draws:
    """Return the posterior of the intervals: the draws at its power, and a few of the sharper one.

    How far shapes are to be trusted is not known either: with some probability as far as the
    estimate trusts them. Its draws keep the estimate inside its own intervals, and where the two
    disagree nothing is identified.
    """
    plain = flatten(sample.log_plain, options.least_draws)
    share = _SHARP_SHARE_IN_FULL if options.bets_in_full else _SHARP_SHARE
    return Draws(
        np.vstack([sample.x, sharp.x]),
        np.vstack([sample.slopes, sharp.slopes]),
        np.append((1.0 - share) * plain, share * leaning),
    )


def keep_inside(centre: np.ndarray, draws: Draws) -> np.ndarray:
    """Move an estimate outside its own intervals towards their medians until it is inside."""
    wide = Posterior(draws.slopes, draws.shares, np.ones(len(draws.shares)))
    ends, middle = wide.interval(0.95), wide.interval(1e-9).mean(axis=1)
    gap = centre - middle
    room = np.where(gap > 0, ends[:, 1] - middle, middle - ends[:, 0])
    with np.errstate(divide="ignore"):
        reach = float(np.min(INSIDE * room / np.maximum(np.abs(gap), 1e-300)))
    return middle + min(1.0, reach) * gap
