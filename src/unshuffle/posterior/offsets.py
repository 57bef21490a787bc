"""What the draws say of offsets between bags."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from unshuffle.core.options import BagOffsets
from unshuffle.core.solution import OffsetLaw
from unshuffle.posterior.model import Target
from unshuffle.posterior.trust import offset_share

AnyTarget = TypeVar("AnyTarget", bound=Target)

# Draws over which the law is averaged: an error of a tenth of its spread, for the price of so many
# evaluations of the bag means.
_N_LAWS = 100


def declare_offsets(target: AnyTarget, known: BagOffsets) -> AnyTarget:
    """Return the target with what is known of offsets; where nothing is, the rows' spread tells."""
    share = offset_share(target) if known.share is None else known.share
    return target.with_offsets(share, known.sd)


def average_offsets(target: Target, x: np.ndarray, shares: np.ndarray) -> OffsetLaw | None:
    """Return what weighted draws say of offsets between bags; None for one bag, which has none.

    As many draws as matter are taken in even steps through the shares, each as likely.
    """
    if target.n_homes < 2:
        return None
    ends = np.cumsum(shares)
    steps = (np.arange(_N_LAWS) + 0.5) / _N_LAWS * ends[-1]
    found = [target.offset_shares(theta) for theta in x[np.searchsorted(ends, steps)]]
    sds, weights = (np.array(part) for part in zip(*found, strict=True))
    probability = float(np.mean((weights * (sds > 0.0)).sum(axis=1)))
    sd = float(np.mean((weights * sds).sum(axis=1)))
    sizes, masses = sds.mean(axis=0).tolist(), weights.mean(axis=0).tolist()
    return OffsetLaw(min(probability, 1.0), sd, tuple(sizes), tuple(masses))


def widen_levels(
    target: Target, levels: np.ndarray, sigma: np.ndarray, law: OffsetLaw | None
) -> np.ndarray:
    """Return draws of the intercept about its mean, wider by what declared offsets add to it.

    The mean of all labels has the variance σ²/M of their noise and Σ(m/M)² τ² of the offsets of
    bags of m labels, M in all. Offsets that nobody declared leave the draws as they are.
    """
    if law is None or target.means.offset_share < 1.0 or target.has_level:
        return levels
    m = target.means.m
    return levels * np.sqrt(1.0 + (law.sd / sigma) ** 2 * float((m * m).sum() / m.sum()))
