"""Diagnostics of a fit: misfit, curvature, noise share, spread of bags, heteroscedasticity."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np

from unshuffle.core.solution import CURVED, HETEROSCEDASTIC, OFFSETS, OTHER_DISTRIBUTION
from unshuffle.inference.modes import Mode
from unshuffle.model.goodness_of_fit import measure_misfit, measure_uneven
from unshuffle.model.posterior import Target

# Kinds of misfit that are warned of: those whose 95 % intervals cover below .90 of the given real
# tables out of fold. The others are reported in the summary.
WARNED_MISFITS: tuple[str, ...] = ()


@dataclass(frozen=True)
class DiagnosticSettings:
    """Modes that are diagnosed.

    Attributes
    ----------
    n_modes : int
        The best few modes. The model fits as far as one of them explains the labels.
    """

    n_modes: int = 3


DIAGNOSTICS = DiagnosticSettings()


@dataclass(frozen=True)
class Diagnostics:
    """Diagnostics of a fit at its best mode.

    Attributes
    ----------
    misfit : nats by which the PIT histogram of the labels departs from uniform, beyond chance.
    curve : largest absolute coefficient of a term of the mean function, as its curvature.
    noise : share of the labels' variance that is noise.
    uneven : score of noise that changes with the prediction, in standard deviations.
    offset_probability, offset_sd : posterior probability and mean sd of random bag effects.
    """

    misfit: float
    curve: float
    noise: float
    uneven: float
    offset_probability: float
    offset_sd: float

    @property
    def misfits(self) -> tuple[str, ...]:
        """The kinds of misfit found; empty where the model fits."""
        found = {
            OFFSETS: self.offset_probability > 0.95,
            CURVED: self.curve > 0.15,
            HETEROSCEDASTIC: abs(self.uneven) > 2.8,
            OTHER_DISTRIBUTION: self.misfit > 10.0,
        }
        return tuple(kind for kind, is_found in found.items() if is_found)


def diagnose(target: Target, modes: list[Mode]) -> Diagnostics:
    """Return the diagnostics of the best mode by misfit, of equals the first."""
    thetas = [theta for _, theta in modes[: DIAGNOSTICS.n_modes]]
    if target.n_shuffled == 0.0 and target.is_mean is not None:
        return _diagnose_means(target, thetas[0])
    misfits = [measure_misfit(target, theta) for theta in thetas]
    best = thetas[int(np.argmin(misfits))]
    sds, shares = target.offset_shares(best)
    return Diagnostics(
        misfit=min(misfits),
        curve=float(np.abs(best[target.term_places]).max(initial=0.0)),
        noise=exp(2.0 * target.split(best)[1]),
        uneven=measure_uneven(target, best),
        offset_probability=float((shares * (sds > 0.0)).sum()),
        offset_sd=float((shares * sds).sum()),
    )


def _diagnose_means(target: Target, theta: np.ndarray) -> Diagnostics:
    """Return the diagnostics of bags known by their means: no label in a bag departs from it."""
    noise = exp(2.0 * target.split(theta)[1])
    return Diagnostics(0.0, 0.0, noise, 0.0, offset_probability=0.0, offset_sd=0.0)


def measure_spread(target: Target) -> float:
    """Return the F statistic of the mean rows of bags of several rows, averaged over columns."""
    is_bag = target.home_sizes > 1.0
    sizes, rows = target.home_sizes[is_bag], target.home_rows[is_bag]
    n, n_bags = float(sizes.sum()), len(sizes)
    if n_bags < 2 or n <= n_bags:
        return 1.0
    between = float((sizes[:, None] * rows**2).sum()) / (n * target.p)
    share = min(between / float(np.trace(target.covariance) / target.p), 1.0 - 1e-9)
    return share / (n_bags - 1) / ((1.0 - share) / (n - n_bags))


def measure_difference(target: Target) -> float:
    """Return 1 − p/level, at least 0: how clearly the bags are no random parts of the rows.

    p is two-sided, of the F test of equal mean rows: designed bags may be too much alike. Columns
    that correlate count as (Σλ)²/Σλ² of them, λ the eigenvalues of their covariance (Box 1954).
    """
    is_bag = target.home_sizes > 1.0
    n, n_bags = float(target.home_sizes[is_bag].sum()), int(is_bag.sum())
    if n_bags < 2 or n <= n_bags:
        return 0.0
    from scipy.special import fdtr, fdtrc

    n_columns = float(np.trace(target.covariance)) ** 2 / float((target.covariance**2).sum())
    degrees, f = (n_columns * (n_bags - 1), n_columns * (n - n_bags)), measure_spread(target)
    p = 2.0 * min(fdtr(*degrees, f), fdtrc(*degrees, f))
    # Where only means are known, nothing inside the bags corrects a false alarm.
    level = 0.02 if target.has_means_alone else 0.05
    return max(0.0, 1.0 - float(p) / level)
