"""The options of a fit, and their checks."""

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

# The default level of intervals, and the level of all rules about intervals.
LEVEL = 0.95
# The value of `mislinked` with which the mismatch rate is estimated.
ESTIMATE = "estimate"
# Methods for links with a known mismatch rate.
LINK_METHODS = ("ll", "chambers")


@dataclass(frozen=True)
class BagOffsets:
    """Prior knowledge on offsets that the labels of a bag share.

    `share` is the probability that there are offsets, None if the data decide; `sd` is their
    standard deviation, None if it is estimated.
    """

    share: float | None = None
    sd: float | None = None

    @property
    def is_declared(self) -> bool:
        """Whether the user declares that there are offsets."""
        return self.share == 1.0

    def divided_by(self, scale: float) -> BagOffsets:
        """Return the same for labels divided by a scale."""
        return self if self.sd is None else BagOffsets(self.share, self.sd / scale)


_NAMED_OFFSETS = {
    "auto": BagOffsets(),
    "none": BagOffsets(0.0),
    "estimate": BagOffsets(1.0),
}


def as_bag_offsets(value: object) -> BagOffsets:
    """Return `BagOffsets` from "auto", "none", "estimate", a bool or an sd.

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
    """All options of a fit, as in `ShuffledLinearRegression`."""

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
    """The keyword arguments that functions pass to `FitOptions`."""

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
    """Refuse options with impossible values."""
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
    """Refuse a share of wrong links that is neither a number from 0 to 1 nor "estimate"."""
    if mislinked is None or (isinstance(mislinked, str) and mislinked == ESTIMATE):
        return
    is_number = isinstance(mislinked, Real) and not isinstance(mislinked, bool)
    if not (is_number and 0.0 <= float(mislinked) <= 1.0):
        raise InputError(
            f"mislinked={shorten(repr(mislinked))} is no share of wrong links: give a number from "
            f"0 to 1, or '{ESTIMATE}' (None: no link is known)"
        )


def _is_whole(value: object) -> bool:
    """Return whether a value is a whole number; 3.0 is one."""
    if isinstance(value, Integral):
        return True
    return isinstance(value, Real) and float(value).is_integer()


def make_rng(seed: Any) -> np.random.Generator:
    """Return a generator from a seed, or from scikit-learn's random_state."""
    if isinstance(seed, np.random.RandomState):
        return np.random.default_rng(seed.randint(2**32, dtype=np.uint64))
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as exc:
        raise InputError(
            f"random_state and rng must be None, a whole number from 0 or a generator, "
            f"got {shorten(repr(seed))}"
        ) from exc
