"""Links between rows and the labels beside them: match probabilities, rates and audits."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import expit, logit

from unshuffle.data.anchors import NO_LABEL, find_links
from unshuffle.errors import InputError, quote, shorten
from unshuffle.options import ESTIMATE, FitOptions

# Jeffreys' prior of a mismatch rate adds half a wrong and half a right link to an audit.
_JEFFREYS = 0.5
# Bisection steps until the shift of match probabilities is exact to rounding.
_HALVINGS = 60
# What is known of single pairs.
PER_PAIR = ("probability", "safe", "columns")
# A match probability of one is taken as safe; below it, odds stay finite.
_SAFEST = 1.0 - 1e-12
# Match probabilities that are calibrated by the fit are clipped at this value.
_SURE = 1.0 - 1e-4


@dataclass(frozen=True, eq=False)
class Links:
    """What is known of links between rows and the labels beside them.

    Without a rate, an audit or probabilities the mismatch rate is estimated. The rate is the share
    of wrong pairs among those that are not safe.

    Parameters
    ----------
    probability : array of n numbers or str, optional
        Match probability of each pair, taken as calibrated. Together with `rate` or `audit` it only
        orders the pairs: its logits are shifted until the mean agrees with the rate. With
        ``mislinked="estimate"`` it is calibrated by the fit: its logit is a column that explains
        link quality, and a probability of 1 is not taken as safe.
    rate : float or dict, optional
        Share of wrong links: one number, or one for each block by its name in `groups`.
    audit : (checked, wrong) or dict, optional
        Links that were checked by hand, and how many of them were wrong: overall, or by block. The
        sampling error of the audit widens the intervals.
    safe : array of n booleans or str, optional
        Pairs that are certainly right.
    columns : array of shape (n, k), frame or str, optional
        Columns that explain link quality, such as the frequency of a name or a string distance. The
        logit of the mismatch rate is linear in them. They are assumed independent of the noise, and
        replace `probability`.

    Notes
    -----
    A fit of a formula finds `probability` and `safe` in its frame where they are names of columns,
    and `columns` may be a formula without a label, such as ``"log(frequency) + C(source)"``.

    Examples
    --------
    >>> from unshuffle import ShuffledLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 1))
    >>> y = 2.0 * X[:, 0] + 0.3 * rng.normal(size=400)
    >>> y[:80] = rng.permutation(y[:80])
    >>> model = ShuffledLinearRegression(random_state=0).fit(X, y, links=Links(audit=(50, 10)))
    >>> bool(abs(model.coef_[0] - 2.0) < 0.2)
    True
    """

    probability: Any = None
    rate: Any = None
    audit: Any = None
    safe: Any = None
    columns: Any = None

    def __post_init__(self) -> None:
        if self.rate is not None and self.audit is not None:
            raise InputError("Links has a rate and an audit: give one of them")
        if self.probability is not None and self.columns is not None:
            raise InputError("Links has a probability and columns: give one of them")
        for name, check in (("rate", _check_rate), ("audit", _check_audit)):
            value = getattr(self, name)
            for block, each in value.items() if isinstance(value, Mapping) else [(None, value)]:
                if value is not None:
                    check(each, "" if block is None else f" of block {quote(block)}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of pairs, where there is something about each: scikit-learn cuts it with rows."""
        for values in (self.probability, self.safe, self.columns):
            if values is not None and not isinstance(values, str):
                return (len(values),)
        raise AttributeError("these links say nothing of single pairs")

    def __getitem__(self, rows: Any) -> Links:
        """Return what is known of some of the pairs, by their numbers or a mask."""
        key = rows[0] if isinstance(rows, tuple) else rows  # scikit-learn asks for [rows, ...]
        cut = {
            name: np.asarray(getattr(self, name))[key]
            for name in PER_PAIR
            if getattr(self, name) is not None and not isinstance(getattr(self, name), str)
        }
        return replace(self, **cut)


@dataclass(frozen=True, eq=False)
class MismatchPrior:
    """Prior probability of each pair to be wrong, in the order of the data.

    Attributes
    ----------
    codes : (n,) number of the stratum of each pair, whose mismatch rate is its own.
    wrong, right : (strata,) parameters of the Beta distribution of each rate; where `right` is
        infinite, `wrong` is the rate itself.
    logits : (n,) logit of the probability of each pair to be wrong but for the shift that meets
        the rate; None where all pairs of a stratum are alike.
    columns : (n, k) columns that explain link quality, from which logits are fitted; None for none.
    """

    codes: np.ndarray
    wrong: np.ndarray
    right: np.ndarray
    logits: np.ndarray | None = None
    columns: np.ndarray | None = None

    @property
    def is_open(self) -> bool:
        """Whether the rate is to be estimated: columns say which links are worse, not how many."""
        return self.columns is not None and bool(np.isnan(self.wrong).all())

    @property
    def mean(self) -> float:
        """Expected share of wrong links, of all pairs."""
        found = self.at_means().wrong[self.codes]
        return float(
            np.mean(
                found
                if self.logits is None
                else np.where(np.isnan(found), expit(self.logits), found)
            )
        )

    def at_means(self) -> MismatchPrior:
        """Return the prior with every rate known, at its expected value."""
        is_beta = np.isfinite(self.right)
        rates = self.wrong.astype(float)
        rates[is_beta] = self.wrong[is_beta] / (self.wrong + self.right)[is_beta]
        return replace(self, wrong=rates, right=np.full(len(rates), np.inf))

    @property
    def is_exact(self) -> bool:
        """Whether every rate is known without error."""
        return bool(np.isinf(self.right).all())

    def draw(self, n_draws: int, is_free: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return (draws, n) probabilities of pairs to be wrong, 0 where a pair is known.

        Rates are the middles of equal slices of their distributions, in random order by stratum
        (Latin hypercube, McKay et al. 1979).
        """
        from scipy.special import betaincinv  # slow to import, and for audits only

        rates = np.repeat(self.wrong[None], 1 if self.is_exact else n_draws, axis=0)
        middles = (np.arange(len(rates)) + 0.5) / len(rates)
        for j in np.flatnonzero(np.isfinite(self.right)):
            levels = rng.permutation(middles)
            rates[:, j] = betaincinv(self.wrong[j], self.right[j], levels)
        return np.array([self._spread(each, is_free) for each in rates])

    def _spread(self, rates: np.ndarray, is_free: np.ndarray) -> np.ndarray:
        if self.logits is None:
            return np.where(is_free, rates[self.codes], 0.0)
        found = np.zeros(len(self.codes))
        for j, rate in enumerate(rates):
            own = is_free & (self.codes == j)
            if own.any():
                found[own] = shift_logits(self.logits[own], float(rate))
        return found


def shift_logits(logits: np.ndarray, rate: float) -> np.ndarray:
    """Return probabilities whose logits are shifted until their mean is the rate."""
    if np.isnan(rate):
        return np.asarray(expit(logits))
    low, high = -1e3, 1e3
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if expit(logits + middle).mean() > rate else (middle, high)
    return np.asarray(expit(logits + 0.5 * (low + high)))


def read_links(
    links: Links,
    groups: Sequence[Hashable] | np.ndarray | None,
    n: int,
    options: FitOptions,
    anchors: Any,
) -> tuple[MismatchPrior | None, FitOptions, Any]:
    """Return the prior of wrong pairs, options that name its rate, and anchors with safe pairs."""
    if not isinstance(links, Links):
        raise InputError(f"links={shorten(repr(links))} is not understood: give a Links object")
    for name in PER_PAIR:
        if isinstance(getattr(links, name), str):
            raise InputError(
                f"links give {name} as the name {quote(getattr(links, name))}, which only a "
                "formula finds in its frame: give the values"
            )
    has_level = links.rate is not None or links.audit is not None
    if links.probability is not None and not has_level and options.mislinked == ESTIMATE:
        find_safe(links, n)  # no safe pair has a probability of 0
        links = replace(links, probability=None, columns=_read_logits(links.probability, n, _SURE))
    prior, safe = make_prior(links, groups, n), find_safe(links, n)
    is_open = prior is None or prior.is_open
    if not is_open and options.mislinked is not None:
        raise InputError(
            "the mismatch rate is given twice, by mislinked and by links: leave mislinked out"
        )
    if options.mislinked is None:
        rate = ESTIMATE if prior is None or prior.is_open else prior.mean
        options = replace(options, mislinked=rate)
    elif prior is not None and options.mislinked != ESTIMATE:
        prior = replace(prior, wrong=np.array([float(options.mislinked)]))
    if safe is not None:
        places = find_links(anchors, n)
        places = np.full(n, NO_LABEL) if places is None else places
        anchors = np.where(safe, np.arange(n), places)
    return prior, options, anchors


def make_prior(
    links: Links, groups: Sequence[Hashable] | np.ndarray | None, n: int
) -> MismatchPrior | None:
    """Return the prior of every pair being wrong; None where the rate is to be estimated."""
    given = links.rate if links.rate is not None else links.audit
    names: list[Any] = [] if groups is None else list(groups)
    if isinstance(given, Mapping):
        codes, rates = _number_blocks(given, names, "rate" if links.rate is not None else "audit")
    else:
        codes, rates = np.zeros(n, dtype=np.int64), [given]
    logits = None if links.probability is None else _read_logits(links.probability, n)
    columns = None if links.columns is None else _read_columns(links.columns, n)
    if given is None and logits is None and columns is None:
        return None
    if links.audit is not None:
        checked, wrong = np.array(rates, dtype=float).T
        right = checked - wrong + _JEFFREYS
        return MismatchPrior(codes, wrong + _JEFFREYS, right, logits, columns)
    known = np.array([np.nan if rate is None else rate for rate in rates], dtype=float)
    return MismatchPrior(codes, known, np.full(len(known), np.inf), logits, columns)


def find_safe(links: Links, n: int) -> np.ndarray | None:
    """Return which pairs are known to be right, by `safe` or a probability of 1; None for none."""
    safe = np.zeros(n, dtype=bool)
    probability = None if links.probability is None else _read_numbers(links.probability, n)
    if links.safe is not None:
        values = np.asarray(links.safe)
        if values.shape != (n,) or not (
            values.dtype == bool or (values.dtype.kind in "iuf" and np.isin(values, (0, 1)).all())
        ):
            raise InputError(
                f"safe must be True or False for each of {n} rows, got {shorten(repr(links.safe))}"
            )
        safe = values.astype(bool)
        if probability is not None and (safe & (probability == 0.0)).any():
            row = int(np.flatnonzero(safe & (probability == 0.0))[0])
            raise InputError(
                f"the pair in row {row} is safe and has a match probability of 0: correct one"
            )
    if probability is not None:
        safe = safe | (probability == 1.0)
    return safe if safe.any() else None


def _check_rate(rate: Any, place: str) -> None:
    is_number = isinstance(rate, Real) and not isinstance(rate, bool)
    if not (is_number and 0.0 <= float(rate) <= 1.0):
        raise InputError(
            f"rate={shorten(repr(rate))}{place} is no share of wrong links: give a number from 0 "
            "to 1"
        )


def _check_audit(audit: Any, place: str) -> None:
    try:
        checked, wrong = audit
        is_whole = all(isinstance(k, Integral) and not isinstance(k, bool) for k in audit)
    except (TypeError, ValueError):
        is_whole = False
    if not is_whole:
        raise InputError(
            f"audit={shorten(repr(audit))}{place} is not understood: give (links checked, links "
            "wrong)"
        )
    if not 0 <= wrong <= checked or checked == 0:
        raise InputError(
            f"audit={shorten(repr(audit))}{place} finds {wrong} wrong of {checked} checked: give "
            "(links checked, links wrong)"
        )


def _number_blocks(
    given: Mapping[Any, Any], names: list[Any], what: str
) -> tuple[np.ndarray, list[Any]]:
    """Return the number of each row's block and what is given for each, or name a block without."""
    keys = list(given)
    places = {key: place for place, key in enumerate(keys)}
    unknown = [key for key in keys if key not in set(names)]
    if unknown:
        raise InputError(
            f"{what} names block {quote(unknown[0])}, which groups do not have: give the blocks "
            "of the data"
        )
    missing = [name for name in names if name not in places]
    if missing:
        raise InputError(
            f"{what} says nothing of block {quote(missing[0])}: give one for every block, or one "
            "for all"
        )
    return np.array([places[name] for name in names], dtype=np.int64), [given[k] for k in keys]


def _read_numbers(values: Any, n: int) -> np.ndarray:
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError("probability must be a number for every row") from None
    if found.shape != (n,):
        raise InputError(f"probability has shape {found.shape} but there are {n} rows")
    for row, value in enumerate(found.tolist()):
        if not (isfinite(value) and 0.0 <= value <= 1.0):
            raise InputError(
                f"probability holds {value:g} in row {row}: match probabilities lie from 0 to 1"
            )
    return found


def _read_columns(values: Any, n: int) -> np.ndarray:
    """Return columns of link quality as finite numbers (n, k), or name what is none."""
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError(
            "columns of link quality must be numbers: code categories as 0 and 1"
        ) from None
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or len(found) != n or not found.shape[1]:
        raise InputError(
            f"columns of link quality have shape {np.shape(values)} but there are {n} rows"
        )
    if not np.isfinite(found).all():
        row, place = np.argwhere(~np.isfinite(found))[0].tolist()
        raise InputError(
            f"column {place} of link quality holds {found[row, place]:g} in row {row}: fill it in"
        )
    return found


def _read_logits(probability: Any, n: int, most: float = _SAFEST) -> np.ndarray:
    """Return the logit of every pair being wrong, with match probabilities of at most `most`."""
    right = np.clip(_read_numbers(probability, n), 1.0 - most, most)
    return np.asarray(-logit(right))
