"""Draws of whole pairings: which label belongs to which row, given draws of the coefficients.

Completed data are multiple imputations of the links (Rubin 1987): draw coefficients and noise from
the posterior, then a pairing given them. Given coefficients, a pairing π has the probability
∝ Π f(y_π(i) − zᵢ) within each bag. It is sampled by Gibbs steps on pairs of rows, as in Wu (1998)
and Abid and Zou (2018): exchange the labels of two rows, with the probability of the exchange
given all others. The chain starts at the rank matching, the mode for Gaussian noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from unshuffle import kernels
from unshuffle.core.uncertainty import Posterior, Uncertainty
from unshuffle.data.anchors import NO_LABEL
from unshuffle.data.bags import Bags
from unshuffle.data.pairing import Subset
from unshuffle.errors import InputError

# Sweeps over all rows; `tests/.../test_pairing_draws.py` compares with enumeration.
_N_SWEEPS = 60
# A noise sd below this share of the labels' size is rounding.
_LEAST_NOISE = 1e-12


class PairingSource(Protocol):
    """Whatever draws pairings of the data that it was made from."""

    def draw(self, m: int, rng: np.random.Generator) -> np.ndarray:
        """Return (m, n) places in y, −1 where a row has no label."""


@dataclass(frozen=True, eq=False)
class Noise:
    """A scale mixture of normals: the sd and share of each component."""

    scales: np.ndarray
    shares: np.ndarray

    @property
    def sd(self) -> float:
        """The noise sd."""
        return float(np.sqrt((self.shares * self.scales**2).sum()))


def exchange_labels(
    z: np.ndarray,
    y: np.ndarray,
    label: np.ndarray,
    codes: np.ndarray,
    noise: Noise,
    rng: np.random.Generator,
    n_sweeps: int = _N_SWEEPS,
) -> np.ndarray:
    """Return a pairing after Gibbs sweeps from `label`.

    `z` are the mean labels of the rows, `codes` their bags, −1 for rows that keep their label.
    """
    moving = np.flatnonzero(codes >= 0)
    order = moving[np.lexsort([z[moving], codes[moving]])]
    sizes = np.bincount(codes[moving])
    offsets = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
    # In units of the labels, whose squares could overflow.
    unit = max(float(np.abs(y).max(initial=0.0)), float(np.abs(z).max(initial=0.0))) or 1.0
    scales = np.maximum(noise.scales / unit, _LEAST_NOISE)
    heights = np.log(np.maximum(noise.shares, 1e-300)) - np.log(scales)
    sd = max(noise.sd / unit, _LEAST_NOISE)
    reaches = np.array(
        [_reach(z[order[start:stop]] / unit / sd) for start, stop in pairwise(offsets.tolist())]
    )
    found = label.astype(np.int64)
    uniforms = rng.random((n_sweeps, len(order), 2))
    kernels.exchange_labels(
        z / unit, y / unit, found, order, offsets, reaches, heights, scales**-2.0, uniforms
    )
    return found


def _reach(scaled: np.ndarray) -> float:
    """Return the mean distance of exchanges, in ranks: labels within one sd of a prediction."""
    return max(1.0, len(scaled) / max(float(np.ptp(scaled)), 1.0))


def match_ranks(z: np.ndarray, row_offsets: np.ndarray, label_offsets: np.ndarray) -> np.ndarray:
    """Return the label of each row by rank in its bag; labels are sorted inside bags.

    Where a bag has fewer labels than rows they go to rows at even ranks.

    >>> match_ranks(np.array([3.0, 1.0, 2.0]), np.array([0, 3]), np.array([0, 2])).tolist()
    [1, 0, -1]
    """
    found = np.full(len(z), NO_LABEL, dtype=np.int64)
    for (start, stop), (first, last) in zip(
        pairwise(row_offsets.tolist()), pairwise(label_offsets.tolist()), strict=True
    ):
        n, m = stop - start, last - first
        ranks = np.floor((np.arange(m) + 0.5) * n / max(m, 1)).astype(int)
        by_rank = start + np.argsort(z[start:stop], kind="stable")
        found[by_rank[ranks]] = first + np.arange(m)
    return found


@dataclass(frozen=True, eq=False)
class KnownPairing:
    """The one pairing of data whose links are known."""

    label: np.ndarray

    def draw(self, m: int, rng: np.random.Generator) -> np.ndarray:
        """Return the same pairing m times."""
        return np.repeat(self.label[None], m, axis=0)


@dataclass(frozen=True, eq=False)
class ShuffledPairings:
    """Pairings of shuffled labels, given a posterior of the coefficients.

    `place` says where rows and labels stood in the data, where that is not in the bags.
    """

    bags: Bags
    posterior: Posterior
    place: np.ndarray | None = None

    def draw(self, m: int, rng: np.random.Generator) -> np.ndarray:
        """Return (m, n) places in y, in the order of the data as given."""
        bags = self.bags
        chosen = choose_evenly(self.posterior.shares, m, rng)
        rows = _append_ones(bags.X, self.posterior.draws.shape[1])
        codes = np.repeat(np.arange(bags.n_bags), bags.sizes)
        labels = np.append(bags.labels.order, NO_LABEL)
        found = np.empty((m, bags.n), dtype=np.int64)
        for k, one in enumerate(chosen.tolist()):
            drawn = self.posterior.at(np.array([one]))
            z, noise = drawn.trend(rows)[:, 0], Noise(drawn.sigma, np.ones(1))
            start = match_ranks(z, bags.offsets, bags.labels.offsets)
            found[k, bags.rows.order] = labels[exchange_labels(z, bags.y, start, codes, noise, rng)]
        if self.place is None:
            return found
        moved = np.empty_like(found)
        moved[:, self.place] = self.place[found]
        return moved


def choose_evenly(shares: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Return m positions by systematic resampling (Kitagawa 1996), in random order."""
    places = (np.arange(m) + rng.random()) / m
    chosen = np.searchsorted(np.cumsum(shares), places)
    return np.asarray(rng.permutation(np.minimum(chosen, len(shares) - 1)))


def read_shuffled(bags: Bags, uncertainty: Uncertainty | None, method: str) -> PairingSource:
    """Return what draws pairings of these bags, or say why nothing can."""
    check_individuals(bags)
    if bags.is_linked:
        label = np.empty(bags.n, dtype=np.int64)
        label[bags.rows.order] = bags.labels.order
        return KnownPairing(label)
    if not isinstance(uncertainty, Posterior):
        raise InputError(
            f"method '{method}' has no posterior to draw pairings from: use method 'likelihood'"
        )
    return ShuffledPairings(bags, uncertainty)


def check_individuals(bags: Bags) -> None:
    """Refuse data whose rows have no label of their own."""
    has_missing = (
        bags.pairing == Subset()
        and not bags.rows.has_masses
        and not bags.labels.has_masses
        and bags.labels.is_raw
    )
    if bags.known_means is not None or not (bags.is_plain or has_missing):
        raise InputError(
            "pairings need rows and labels of the same individuals, one by one: separate samples, "
            "bins, frequencies and bag means have none"
        )


def _append_ones(X: np.ndarray, size: int) -> np.ndarray:
    """Return rows with a column of ones where there is an intercept."""
    return X if X.shape[1] == size else np.column_stack([X, np.ones(len(X))])
