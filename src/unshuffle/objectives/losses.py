"""Losses between two sorted samples: value and slope.

LS and EMD are Wasserstein distances, which sorting computes on a line (Vallender 1974). SM, KS and
small-d are losses of Abid, Poon and Zou (2017).

A loss sees arrays of shape (…, n), sorted along the last axis: predictions `z` and labels `y`.
It returns the value (…) and its slope in `z` (…, n); a slope of None asks the problem for
differences. Facts a solver needs are class attributes:

- ``name``: the method's name where the loss alone makes the method;
- ``is_sorted``: whether it compares sorted samples, or only a few numbers of each;
- ``code``: the compiled form in `kernels`, or None;
- ``degree``: how the value scales with the labels (2 for squares; None: not at all predictably,
  so that the user's units must be kept);
- ``is_shift_invariant``: whether adding a constant to both samples changes nothing;
- ``is_smooth``: whether the slope leads to the minimum; if not, a search without derivatives
  finishes the work;
- ``is_flat``: whether the slope is zero almost everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import factorial, inf
from typing import ClassVar

import numpy as np

from unshuffle import kernels
from unshuffle.errors import InputError


class Loss(ABC):
    """A distance between two sorted samples."""

    name: ClassVar[str]
    code: ClassVar[int | None] = None
    degree: ClassVar[int | None] = 0
    is_sorted: ClassVar[bool] = True
    # Why it compares only samples of equal numbers; None where it takes masses of any number.
    why_plain: ClassVar[str | None] = None
    is_shift_invariant: ClassVar[bool] = True
    is_smooth: ClassVar[bool] = True
    is_flat: ClassVar[bool] = False
    # Whether rows counted in cells of their predictions are enough.
    is_counted: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return value and slope in `z`."""

    def extent(self, smallest_bag: int, d: int) -> int:
        """Return how many order statistics the compiled form may read; 0: all."""
        return 0


@dataclass(frozen=True)
class Squared(Loss):
    """Mean squared gap of order statistics (LS): the squared 2-Wasserstein distance.

    Examples
    --------
    >>> Squared()(np.array([1.0, 2.0]), np.array([1.0, 4.0]))[0].item()
    2.0
    """

    name: ClassVar[str] = "ls"
    code: ClassVar[int | None] = kernels.SQUARED
    is_counted: ClassVar[bool] = True
    degree: ClassVar[int | None] = 2

    def __call__(self, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        gap = z - y
        return (gap**2).mean(-1), 2 * gap / gap.shape[-1]


@dataclass(frozen=True)
class Absolute(Loss):
    """Mean absolute gap of order statistics (EMD): the earth mover's distance.

    Examples
    --------
    >>> Absolute()(np.array([1.0, 2.0]), np.array([1.0, 4.0]))[0].item()
    1.0
    """

    name: ClassVar[str] = "emd"
    code: ClassVar[int | None] = kernels.ABSOLUTE
    is_counted: ClassVar[bool] = True
    degree: ClassVar[int | None] = 1

    def __call__(self, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        gap = z - y
        return np.abs(gap).mean(-1), np.sign(gap) / gap.shape[-1]


@dataclass(frozen=True)
class KolmogorovSmirnov(Loss):
    """Largest gap between the two step functions (KS); flat almost everywhere.

    Examples
    --------
    >>> KolmogorovSmirnov()(np.array([1.0, 2.0]), np.array([1.0, 4.0]))[0].item()
    0.5
    """

    name: ClassVar[str] = "ks"
    why_plain: ClassVar[str | None] = "its steps are those of samples of equal numbers"
    code: ClassVar[int | None] = kernels.KOLMOGOROV_SMIRNOV
    is_smooth: ClassVar[bool] = False
    is_flat: ClassVar[bool] = True

    def __call__(self, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        pairs = z.reshape(-1, z.shape[-1]), np.broadcast_to(y, z.shape).reshape(-1, y.shape[-1])
        values = [kernels.largest_step_gap(a, b) for a, b in zip(*pairs, strict=True)]
        return np.array(values).reshape(z.shape[:-1]), np.zeros_like(z)


@dataclass(frozen=True)
class SmallD(Loss):
    """Mean squared gap of the D smallest order statistics, the paper's poor example.

    Default of D: a tenth of the smallest bag, and at least one more than there are coefficients.

    Parameters
    ----------
    D : int or None, default=None
        Number of order statistics; None takes a tenth of the smallest bag, and at least one more
        than there are coefficients.

    Examples
    --------
    >>> SmallD(1)(np.array([1.0, 2.0]), np.array([1.0, 4.0]))[0].item()
    0.0
    """

    name: ClassVar[str] = "small-d"
    why_plain: ClassVar[str | None] = "the smallest of unequal samples are not alike"
    D: int | None = None
    code: ClassVar[int | None] = kernels.SMALL_D
    degree: ClassVar[int | None] = 2

    def __post_init__(self) -> None:
        if self.D is not None and not (int(self.D) == self.D and self.D >= 1):
            raise InputError(f"SmallD needs a whole D of at least 1, got {self.D}")

    def __call__(self, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        if self.D is None:
            raise InputError("SmallD without D has no meaning outside a problem: give D")
        m = min(self.D, z.shape[-1])
        gap = np.where(np.arange(z.shape[-1]) < m, z - y, 0.0)
        return (gap**2).sum(-1) / m, 2 * gap / m

    def extent(self, smallest_bag: int, d: int) -> int:
        return self.D or max(d + 1, -(-smallest_bag // 10))


@dataclass(frozen=True)
class OrderInvariant(Loss):
    """Mean |g(z↑) − g(y↑)|ᵖ of sorted samples, or the largest gap for p = ∞.

    With g the identity, p = 2 is LS and p = 1 is EMD.

    Parameters
    ----------
    g : callable
        Takes and returns arrays along the last axis.
    p : float, default=2.0
        The power, at least 1, or infinity for the largest gap.
    pull : callable, optional
        ``pull(z, s)`` is the product of the slope `s` of g's output with g's Jacobian at z; without
        it differences are taken.

    Examples
    --------
    >>> OrderInvariant(np.sqrt, p=1)(np.array([1.0, 4.0]), np.array([1.0, 9.0]))[0].item()
    0.5
    """

    name: ClassVar[str] = "order-invariant"
    why_plain: ClassVar[str | None] = "g takes sorted samples of equal length"
    g: Callable[[np.ndarray], np.ndarray]
    p: float = 2.0
    pull: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    degree: ClassVar[int | None] = None
    is_shift_invariant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not callable(self.g):
            raise InputError(f"OrderInvariant needs a function g, got {self.g!r}")
        if not self.p >= 1:
            raise InputError(f"OrderInvariant needs p of at least 1 (or infinity), got {self.p}")

    @property
    def is_smooth(self) -> bool:  # type: ignore[override]
        """Whether descent finds the minimum: not for the largest gap, nor without `pull`."""
        return self.p < inf and self.pull is not None

    def __call__(self, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        gap = self.g(z) - self.g(y)
        size = np.abs(gap)
        if self.p == inf:
            value = size.max(-1)
            slope = np.sign(gap) * (size == value[..., None])
        else:
            value = (size**self.p).mean(-1)
            slope = self.p * size ** (self.p - 1) * np.sign(gap) / gap.shape[-1]
        return value, None if self.pull is None else self.pull(z, slope)


def one_over_factorial(k: int) -> float:
    """Return the paper's weight of the k-th moment, 1/k!."""
    return 1.0 / factorial(k)


@dataclass(frozen=True)
class Moments(Loss):
    """Σₖ f(k) (Mₖ − Nₖ)² over the first K self-moments (SM).

    Moments are taken in units of the root mean square of all labels, not centred, so that the K
    terms keep their balance in any units. Without K it is ⌈d/R⌉, and at least 2 when d > 1.

    Parameters
    ----------
    K : int or None, default=None
        Number of moments. Default: ⌈d/R⌉ for d coefficients and R bags, at least 2 if d > 1.
    f : callable, default=1/k!
        Factor of the k-th moment.

    Examples
    --------
    >>> Moments(K=1)(np.array([1.0, 2.0]), np.array([1.0, 4.0]))[0].item()
    1.0
    """

    name: ClassVar[str] = "sm"
    is_sorted: ClassVar[bool] = False
    K: int | None = None
    f: Callable[[int], float] = one_over_factorial
    is_shift_invariant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.K is not None and not (int(self.K) == self.K and self.K >= 1):
            raise InputError(f"Moments needs a whole K of at least 1, got {self.K}")

    def n_moments(self, d: int, n_bags: int) -> int:
        """Return the number of moments used for d coefficients and so many bags.

        Parameters
        ----------
        d : int
            Number of coefficients.
        n_bags : int
            Number of bags.

        Returns
        -------
        int
            The number of moments.

        Examples
        --------
        >>> Moments().n_moments(5, 2)
        3
        """
        return self.K or max(-(-d // n_bags), 2 if d > 1 else 1)

    def factors(self, n_moments: int) -> np.ndarray:
        """Return f(1) … f(K).

        Parameters
        ----------
        n_moments : int
            Number of moments.

        Returns
        -------
        ndarray of shape (n_moments,)
            The factors.

        Raises
        ------
        InputError
            For factors that are negative, not finite, or all zero.

        Examples
        --------
        >>> Moments().factors(2).tolist()
        [1.0, 0.5]
        """
        factors = np.array([float(self.f(k)) for k in range(1, n_moments + 1)])
        if not (np.all(np.isfinite(factors)) and np.all(factors >= 0) and factors.any()):
            raise InputError(f"f(k) must be finite, at least 0 and not all 0, got {factors}")
        return factors

    def __call__(self, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        if self.K is None:
            raise InputError("Moments without K has no meaning outside a problem: give K")
        value, slope = np.zeros(z.shape[:-1]), np.zeros_like(z)
        for k, factor in enumerate(self.factors(self.K), start=1):
            gap = (z**k).mean(-1) - (y**k).mean(-1)
            value = value + factor * gap**2
            slope += (2 * factor * gap * k / z.shape[-1])[..., None] * z ** (k - 1)
        return value, slope


LOSSES: dict[str, type[Loss]] = {
    "squared": Squared,
    "absolute": Absolute,
    "kolmogorov-smirnov": KolmogorovSmirnov,
    "small-d": SmallD,
    "order-invariant": OrderInvariant,
    "moments": Moments,
}
