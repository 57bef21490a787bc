"""What a fit can be asked for, checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np

from unshuffle.errors import InputError, shorten

if TYPE_CHECKING:
    from unshuffle.core.strategy import Strategy
    from unshuffle.objectives.losses import Loss
    from unshuffle.objectives.noise import Noise

    MethodLike: TypeAlias = "str | Strategy | Loss"
    NoiseLike: TypeAlias = "float | Sequence[float] | np.ndarray | Noise | None"
    # A frame of pandas or polars, which need not be installed.
    Frame: TypeAlias = Any
    Seed: TypeAlias = "int | np.integer | np.random.Generator | np.random.RandomState | None"

# The probability of intervals where none is asked for, and of every rule about intervals.
LEVEL = 0.95
# In place of the share of wrong links, where it is to be found.
ESTIMATE = "estimate"
# Methods for links of which a known share is wrong.
LINK_METHODS = ("ll", "chambers")


@dataclass(frozen=True)
class BagOffsets:
    """What is known of offsets that the labels of a bag share.

    `share` is the probability that bags are offset at all, None where the data decide; `sd` that
    of the offsets, None where it is estimated.
    """

    share: float | None = None
    sd: float | None = None

    @property
    def is_declared(self) -> bool:
        """Whether bags are said to be offset."""
        return self.share == 1.0

    def divided_by(self, scale: float) -> BagOffsets:
        """Return the same for labels in other units."""
        return self if self.sd is None else BagOffsets(self.share, self.sd / scale)


_NAMED_OFFSETS = {
    "auto": BagOffsets(),
    "none": BagOffsets(0.0),
    "estimate": BagOffsets(1.0),
}


def as_bag_offsets(value: object) -> BagOffsets:
    """Turn "auto", "none", "estimate", a bool or an sd into what is known of offsets.

    >>> as_bag_offsets("auto"), as_bag_offsets(False), as_bag_offsets(0.5)
    (BagOffsets(share=None, sd=None), BagOffsets(share=0.0, sd=None), BagOffsets(share=1.0, sd=0.5))
    """
    if value is None or (isinstance(value, str) and value in _NAMED_OFFSETS):
        return _NAMED_OFFSETS["auto" if value is None else str(value)]
    if isinstance(value, bool | np.bool_):
        return _NAMED_OFFSETS["estimate" if value else "none"]
    if isinstance(value, Real) and np.isfinite(float(value)) and float(value) >= 0:
        return BagOffsets(1.0, float(value)) if float(value) else _NAMED_OFFSETS["none"]
    raise InputError(
        'bag_offsets must be "auto", "none" (or False), "estimate", or the sd of the offsets in '
        f"units of the labels, got {shorten(repr(value))}"
    )


@dataclass(frozen=True)
class FitOptions:
    """Everything a fit can be asked for, as in `ShuffledLinearRegression`."""

    method: Any = "auto"
    noise: Any = None
    l1: float = 0.0
    l2: float = 0.0
    fit_intercept: bool = True
    n_starts: int | None = None
    tol: float = 1e-6
    n_jobs: int | None = None
    bag_offsets: Any = "auto"
    mislinked: Any = None
    device: Any = None
    model_holds: bool = False


class Options(TypedDict, total=False):
    """The keyword arguments that functions hand on to `FitOptions`."""

    method: MethodLike
    noise: NoiseLike
    l1: float
    l2: float
    fit_intercept: bool
    n_starts: int | None
    tol: float
    n_jobs: int | None
    bag_offsets: str | bool | float
    mislinked: str | float | None
    device: str | None
    model_holds: bool


class ModelOptions(Options, total=False):
    """The keyword arguments of the estimator."""

    random_state: Seed
    verbose: int


def check_options(options: FitOptions) -> None:
    """Refuse numbers that make no sense, before any work."""
    for name in ("l1", "l2"):
        value = getattr(options, name)
        if not (isinstance(value, Real) and np.isfinite(float(value)) and float(value) >= 0):
            raise InputError(f"{name} must be a finite number of at least 0, got {value!r}")
    as_bag_offsets(options.bag_offsets)
    if not (isinstance(options.tol, Real) and float(options.tol) >= 0):
        raise InputError(f"tol must be a number of at least 0, got {options.tol!r}")
    n_starts = options.n_starts
    if n_starts is not None and not (_is_whole(n_starts) and n_starts >= 1):
        raise InputError(f"n_starts must be None or a whole number from 1, got {n_starts!r}")
    n_jobs = options.n_jobs
    if n_jobs is not None and not (_is_whole(n_jobs) and n_jobs != 0):
        raise InputError(
            f"n_jobs must be None or a whole number other than 0 (-1: all cores), got {n_jobs!r}"
        )
    check_mislinked(options.mislinked)
    if not isinstance(options.model_holds, bool | np.bool_):
        raise InputError(f"model_holds must be True or False, got {options.model_holds!r}")


def check_mislinked(mislinked: Any) -> None:
    """Refuse a share of wrong links that is none."""
    if mislinked is None or (isinstance(mislinked, str) and mislinked == ESTIMATE):
        return
    is_number = isinstance(mislinked, Real) and not isinstance(mislinked, bool)
    if not (is_number and 0.0 <= float(mislinked) <= 1.0):
        raise InputError(
            f"mislinked={shorten(repr(mislinked))} is no share of wrong links: give a number from "
            f"0 to 1, or '{ESTIMATE}' (None: no link is known)"
        )


def _is_whole(value: object) -> bool:
    """Return whether a value is a whole number, also one written as 3.0."""
    if isinstance(value, Integral):
        return True
    return isinstance(value, Real) and float(value).is_integer()


def make_rng(seed: Any) -> np.random.Generator:
    """Turn a seed, scikit-learn's random_state included, into a generator."""
    if isinstance(seed, np.random.RandomState):
        return np.random.default_rng(seed.randint(2**32, dtype=np.uint64))
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as exc:
        raise InputError(
            f"random_state and rng must be None, a whole number from 0 or a generator, "
            f"got {shorten(repr(seed))}"
        ) from exc
