"""Shares of rows with Wilson intervals, and the risk beyond control rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

from scipy.special import ndtri

from unshuffle.options import LEVEL


@dataclass(frozen=True)
class Proportion:
    """So many of n, with the interval of Wilson (1927).

    It holds for few rows and for shares near 0 and 1, where that of Wald does not.

    >>> share = Proportion(0, 100)
    >>> share.value, share.low, round(share.high, 3)
    (0.0, 0.0, 0.037)
    """

    count: int
    n: int

    @property
    def value(self) -> float:
        """The share; 0 of no rows."""
        return self.count / self.n if self.n else 0.0

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval."""
        return max(self._centre - self._half_width, 0.0) if self.count else 0.0

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval."""
        return min(self._centre + self._half_width, 1.0) if self.count < self.n else 1.0

    @property
    def _centre(self) -> float:
        z2 = _quantile() ** 2
        return (self.count + z2 / 2.0) / (self.n + z2)

    @property
    def _half_width(self) -> float:
        z = _quantile()
        spread = self.count * (self.n - self.count) / max(self.n, 1) + z * z / 4.0
        return z * sqrt(spread) / (self.n + z * z)


@dataclass(frozen=True)
class Risk:
    """The share of rows re-identified because of the release, with its 95 % interval.

    `at_least` is the probability from which a match counts, `n_control` the number of control rows.
    """

    value: float
    low: float
    high: float
    at_least: float
    n_control: int


def find_risk(attack: Proportion, control: Proportion, at_least: float) -> Risk:
    """Return the risk beyond control rows, (a − c)/(1 − c), as Giomi et al. (2023) define it.

    `attack` are the successes on released rows and `control` those on rows that were left out of
    the release: what an outsider gets right about them is no fault of the release. The interval
    combines the two Wilson intervals by square-and-add (Newcombe 1998). Without control rows the
    risk is the share of successes.

    >>> find_risk(Proportion(40, 100), Proportion(10, 50), 0.0).value
    0.25
    >>> find_risk(Proportion(0, 100), Proportion(0, 0), 0.0).value
    0.0
    """
    a = attack.value
    if control.n == 0:
        return Risk(a, attack.low, attack.high, at_least, 0)
    c = control.value
    if c == 1.0:
        return Risk(0.0, 0.0, 1.0, at_least, control.n)
    value, slope, slope_control = (a - c) / (1 - c), 1 / (1 - c), (1 - a) / (1 - c) ** 2
    below = hypot(slope * (a - attack.low), slope_control * (control.high - c))
    above = hypot(slope * (attack.high - a), slope_control * (c - control.low))
    return Risk(
        max(value, 0.0), max(value - below, 0.0), min(max(value + above, 0.0), 1.0), at_least,
        control.n,
    )  # fmt: skip


def _quantile() -> float:
    return float(ndtri(0.5 + LEVEL / 2))
