"""L1 and L2 penalties of the weights (Tibshirani 1996; Hoerl and Kennard 1970)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unshuffle.data.scaling import Scaling
from unshuffle.errors import InputError
from unshuffle.objectives.checks import check_penalty
from unshuffle.options import FitOptions


@dataclass(frozen=True, eq=False)
class Penalty:
    """Σ l1ⱼ |wⱼ| + Σ l2ⱼ wⱼ², with one factor per weight (zero: that weight is free)."""

    l1: np.ndarray
    l2: np.ndarray

    def __post_init__(self) -> None:
        for name, values in (("l1", self.l1), ("l2", self.l2)):
            if not (np.all(np.isfinite(values)) and np.all(np.asarray(values) >= 0)):
                raise InputError(f"{name} must be finite and at least 0, got {values}")

    @property
    def is_active(self) -> bool:
        """Whether any weight is penalised."""
        return bool(self.l1.any() or self.l2.any())

    @cached_property
    def is_smooth_active(self) -> bool:
        """Whether the part without kinks is more than zero."""
        return bool(self.l2.any())

    def smooth(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return value and gradient of the part without kinks, for weights (…, d)."""
        return (self.l2 * w**2).sum(-1), 2 * self.l2 * w

    def kinks(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return value and slope of the part with kinks (slope 0 at the kink itself)."""
        return (self.l1 * np.abs(w)).sum(-1), self.l1 * np.sign(w)


def no_penalty(d: int) -> Penalty:
    """Return the penalty that leaves d weights free."""
    return Penalty(np.zeros(d), np.zeros(d))


def scale_penalty(options: FitOptions, scaling: Scaling, degree: int) -> Penalty:
    """Return the penalties in standard units; one of zero stays zero at any scale."""
    factors = []
    for power, name in ((1, "l1"), (2, "l2")):
        scale = scaling.penalty_factors(power, degree)
        amount = float(getattr(options, name))
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = amount * scale if amount > 0 else np.zeros_like(scale)
        check_penalty(name, amount, scaled)
        factors.append(scaled)
    return Penalty(*factors)
