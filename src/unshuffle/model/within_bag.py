"""What the shapes of bags say: the likelihood of their labels, beside that of their means.

Where every row has one label of Gaussian noise, the mean of a bag leaves the sum over matchings
exactly: both sides are centred in each bag, and the means are weighed apart in full
(`model.bag_means`). Elsewhere the mean is part of the whole, and the level of all labels, the
intercept, is a coordinate: the whole counts with its power, and the means with what is left of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import exp

import numpy as np

from unshuffle import kernels
from unshuffle.data.bags import Bags
from unshuffle.data.labels import Labels
from unshuffle.kernels.transport.pairings import DRAWS, EXACT_LABELS, PERMUTATION, SUBSET
from unshuffle.kernels.transport.permanent import EXACT_ROWS
from unshuffle.model.settings import LOG_SIGMA_MIN
from unshuffle.objectives.noise import Noise

# Above so many rows of plain bags the shape of given noise would take minutes, and they tell more
# than the shape: it counts as Gaussian of its sd, and the fit says so.
_SHAPED_ROWS = 2000
_CODES = {"permutation": PERMUTATION, "subset": SUBSET, "draws": DRAWS}
# A bag's labels are told by at most so many bins of equal numbers (fewer in separate samples): a
# coupling then costs a millisecond, and a bin is narrower than noise that so many could tell apart.
_MOST_BINS, _MOST_BINS_APART = 100, 50
# Answers that predict the same law differ by what chance made of the sampled rows, several nats
# where all labels count. At shares of 1, 0.3 and 0.1 the 95 % intervals of weights that separate
# samples cannot tell apart cover 0.74, 0.95 and 1.00 (300 rows and 200 labels in four bags), and
# 0.66, 0.82 and 0.98 with 10⁵ labels (32 to 39 simulations each).
SAMPLED = 0.15
# Tables of a noise density: places of a 32nd of its sd, out to 40 sds, where heavy tails still have
# a part in ten thousand and straight lines of the log density go on.
_PER_SD, _REACH = 32, 40


class Shapes(ABC):
    """The log likelihood of deviations at full power."""

    # Number of labels of each bag, as the deviations count: fewer than there are where the rows are
    # a sample too.
    worth: np.ndarray
    # Share of the labels whose sum over matchings is approximate.
    approximate: float

    # Whether the means of bags are weighed apart, both sides being centred in each bag.
    is_centred: bool
    # Whether given noise counts with its shape, and not as a Gaussian of its sd.
    has_shaped_noise: bool = False

    @abstractmethod
    def evaluate(
        self, columns: np.ndarray, point: np.ndarray, log_sigma: float, wants_slopes: bool
    ) -> tuple[float, np.ndarray, float]:
        """Return the value at predictions pointᵀ columns, and its slopes in point and log sigma.

        `columns` (k, n) are centred in each bag where `is_centred`. Without slopes they are zeros.
        """

    @abstractmethod
    def evaluate_many(
        self, z: np.ndarray, log_sigmas: np.ndarray, floors: np.ndarray, tolerance: float
    ) -> np.ndarray:
        """Return the values at many predictions (m, n), centred in each bag where `is_centred`.

        Iterations may end at steps of so many nats, and a value surely below its floor may be
        -inf.
        """


@dataclass(frozen=True, eq=False)
class PermutationShapes(Shapes):
    """One label of Gaussian noise for each row: permanents."""

    labels: np.ndarray
    offsets: np.ndarray
    is_centred = True

    @cached_property
    def worth(self) -> np.ndarray:  # type: ignore[override]
        """Number of rows of each bag."""
        return np.diff(self.offsets).astype(float)

    @property
    def approximate(self) -> float:  # type: ignore[override]
        """Share of the rows in bags too large for exact permanents."""
        return float(self.worth[self.worth > EXACT_ROWS].sum()) / len(self.labels)

    def evaluate(
        self, columns: np.ndarray, point: np.ndarray, log_sigma: float, wants_slopes: bool
    ) -> tuple[float, np.ndarray, float]:
        return kernels.log_likelihood(
            columns, self.labels, self.offsets, point, log_sigma, wants_slopes
        )

    def evaluate_many(
        self, z: np.ndarray, log_sigmas: np.ndarray, floors: np.ndarray, tolerance: float
    ) -> np.ndarray:
        values = np.empty(len(z))
        kernels.log_likelihoods(
            z.copy(), self.labels, self.offsets, log_sigmas, floors, tolerance, values
        )
        return values


@dataclass(frozen=True, eq=False)
class PairedShapes(Shapes):
    """Any pairing, masses on either side, bins of labels, and noise of any density."""

    masses: np.ndarray
    offsets: np.ndarray
    labels: Labels
    pairing: int
    row_totals: np.ndarray
    label_totals: np.ndarray
    spreads: np.ndarray
    tables: np.ndarray
    table_start: float
    table_step: float
    is_centred = False

    @cached_property
    def shares(self) -> np.ndarray:
        """How much each bag's likelihood counts: against a sample of rows, as two samples do.

        The law of a bag's labels is known only as well as its n rows tell it, so that m labels
        compared with it are worth nm/(n + m), and less: see `SAMPLED`.
        """
        n, m = self.row_totals, self.label_totals
        return SAMPLED * n / (n + m) if self.pairing == DRAWS else np.ones(len(n))

    @cached_property
    def worth(self) -> np.ndarray:  # type: ignore[override]
        """Number of labels of each bag, as they count."""
        return self.shares * self.label_totals

    @property
    def approximate(self) -> float:  # type: ignore[override]
        """Share of the labels in bags too large for enumeration; a mixture is exact."""
        if self.pairing == DRAWS:
            return 0.0
        return float(self.worth[self.worth > EXACT_LABELS].sum() / self.worth.sum())

    def evaluate(
        self, columns: np.ndarray, point: np.ndarray, log_sigma: float, wants_slopes: bool
    ) -> tuple[float, np.ndarray, float]:
        # The shape of known noise is in the tables; only their width matters then.
        sigma = exp(log_sigma) if self.tables.shape[1] == 0 else self.table_step * _PER_SD
        noise = np.array([sigma, self.table_start, self.table_step])
        return kernels.evaluate_pairings(
            columns, self.masses, self.offsets, self.labels.low, self.labels.high,
            self.labels.masses, self.labels.offsets, self.shares, point, self.pairing, noise,
            self.tables, wants_slopes,
        )  # fmt: skip

    def evaluate_many(
        self, z: np.ndarray, log_sigmas: np.ndarray, floors: np.ndarray, tolerance: float
    ) -> np.ndarray:
        one = np.ones(1)
        return np.array(
            [self.evaluate(z[k : k + 1], one, log_sigmas[k], False)[0] for k in range(len(z))]
        )

    @property
    def has_shaped_noise(self) -> bool:  # type: ignore[override]
        """Whether the shape of given noise counts."""
        return self.tables.shape[1] > 0

    def prediction_variances(self, z: np.ndarray) -> np.ndarray:
        """Return the variance of predictions (…, n) in each bag."""
        squares = self.masses * self._centre(z) ** 2
        return np.add.reduceat(squares, self.offsets[:-1], axis=-1) / self.row_totals

    def _centre(self, z: np.ndarray) -> np.ndarray:
        means = np.add.reduceat(self.masses * z, self.offsets[:-1], axis=-1) / self.row_totals
        return z - np.repeat(means, np.diff(self.offsets), axis=-1)

    def pull_variances(self, columns: np.ndarray, z: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return the slope in the point of what has these slopes in the bags' variances."""
        sizes = np.diff(self.offsets)
        each = np.repeat(2.0 * slopes / self.row_totals, sizes) * self.masses * self._centre(z)
        return np.array([(column * each).sum() for column in columns])


def make_shapes(bags: Bags, noise: Noise | None) -> Shapes:
    """Return what the shapes of bags in standard units say."""
    has_shape = noise is not None and noise.has_shape and noise.sd > exp(LOG_SIGMA_MIN)
    if bags.known_means is not None or (bags.is_plain and bags.n > _SHAPED_ROWS):
        has_shape = False  # the mean of many labels is nearly Gaussian
    offsets = np.ascontiguousarray(bags.offsets, dtype=np.int64)
    if bags.is_plain and not has_shape:
        means = bags.statistics.label_means
        return PermutationShapes(bags.y - np.repeat(means, bags.sizes), offsets)
    stats = bags.statistics
    is_apart = bags.pairing.name == "draws"
    labels = merge_labels(bags.labels, _MOST_BINS_APART if is_apart else _MOST_BINS)
    start, step, tables = _tabulate(noise) if has_shape and noise else (0.0, 1.0, np.empty((3, 0)))
    widths = np.where(np.isfinite(labels.high - labels.low), labels.high - labels.low, 0.0)
    inside = labels.masses * widths**2 / 12.0
    return PairedShapes(
        masses=np.ascontiguousarray(bags.rows.masses),
        offsets=offsets,
        labels=labels,
        pairing=_CODES[bags.pairing.name],
        row_totals=np.asarray(stats.n, dtype=float),
        label_totals=np.asarray(stats.m, dtype=float),
        spreads=np.add.reduceat(inside, labels.offsets[:-1]) / stats.m,
        tables=tables,
        table_start=start,
        table_step=step,
    )


def merge_labels(labels: Labels, limit: int) -> Labels:
    """Return the labels as at most so many bins a bag."""
    lows, highs, masses, sizes = [], [], [], []
    for start, stop in zip(labels.offsets[:-1], labels.offsets[1:], strict=True):
        part = slice(start, stop)
        low, high, mass = labels.low[part], labels.high[part], labels.masses[part]
        if len(low) > limit:
            low, high, mass = _merge_bins(low, high, mass, limit)
        lows.append(low)
        highs.append(high)
        masses.append(mass)
        sizes.append(len(low))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    every = np.concatenate(masses).astype(float)
    low, high = np.concatenate(lows), np.concatenate(highs)
    return Labels(low, high, every, offsets, np.arange(len(low)))


def _merge_bins(
    low: np.ndarray, high: np.ndarray, mass: np.ndarray, limit: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge neighbouring labels into bins of about equal numbers, which meet halfway."""
    cumulated = np.cumsum(mass) - 0.5 * mass
    group = np.minimum((cumulated / mass.sum() * limit).astype(int), limit - 1)
    firsts = np.flatnonzero(np.append(True, np.diff(group) > 0))
    lasts = np.append(firsts[1:] - 1, len(low) - 1)
    new_low, new_high = low[firsts].copy(), high[lasts].copy()
    between = 0.5 * (new_high[:-1] + new_low[1:])
    new_low[1:], new_high[:-1] = between, between
    return new_low, new_high, np.add.reduceat(mass, firsts)


def _tabulate(noise: Noise) -> tuple[float, float, np.ndarray]:
    """Return start and step of tables of the noise about its mean: log density, probabilities."""
    mean, sd = float(noise.moments(1)[0]), noise.sd
    places = sd * np.arange(-_REACH * _PER_SD, _REACH * _PER_SD + 1) / _PER_SD
    logs = noise.log_density(places + mean)
    density = np.exp(logs)
    steps = 0.5 * (density[1:] + density[:-1])
    below = np.concatenate([[0.0], np.cumsum(steps)])
    above = np.concatenate([np.cumsum(steps[::-1])[::-1], [0.0]])
    return float(places[0]), sd / _PER_SD, np.stack([logs, below / below[-1], above / above[0]])
