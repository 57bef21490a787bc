"""The within-bag likelihood: of the labels given a bag's rows, beside that of the means.

Where every row has one label of Gaussian noise, the mean of a bag leaves the sum over matchings
exactly: both sides are centred in each bag, and the means are weighed apart in full
(`model.bag_means`). Elsewhere the mean is part of the whole, and the level of all labels, the
intercept, is a coordinate: the whole counts with its power, and the means with what is left of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import exp

import numpy as np

from unshuffle import kernels
from unshuffle.data.bags import Bags
from unshuffle.data.labels import Labels
from unshuffle.kernels.transport.pairings import DRAWS, EXACT_LABELS, PERMUTATION, SUBSET
from unshuffle.model.nodes import FINE_PER_SIGMA, SMALL_ROWS, nodes_per_sigma, share_nodes
from unshuffle.model.paired_bags import PairedBags
from unshuffle.model.points import Evaluated, Parameters, predict
from unshuffle.model.settings import LOG_SIGMA_MIN
from unshuffle.objectives.noise import Noise

# Above so many rows of plain bags the shape of given noise would take minutes, and they tell more
# than the shape: it counts as Gaussian of its sd, and the fit says so.
_SHAPED_ROWS = 2000
_CODES = {"permutation": PERMUTATION, "subset": SUBSET, "draws": DRAWS}
# A bag's labels are merged into at most so many bins of equal numbers (fewer in separate samples).
# A coupling then costs a millisecond, and a bin is narrower than noise so many could tell apart.
_MOST_BINS, _MOST_BINS_APART = 100, 50
# Answers that predict the same distribution differ by what chance made of the sampled rows, several
# nats where all labels count. At shares of 1, 0.3 and 0.1 the 95 % intervals of weights that
# separate samples cannot tell apart cover 0.74, 0.95 and 1.00 (300 rows and 200 labels in four
# bags), and 0.66, 0.82 and 0.98 with 10⁵ labels (32 to 39 simulations each).
SAMPLED = 0.15
# Tables of a noise density: places of a 32nd of its sd, out to 40 sds, where heavy tails still have
# a part in ten thousand and straight lines of the log density go on.
_PER_SD, _REACH = 32, 40
# Nats that the last step of a scaling may gain in drawing, at full power, and ever.
_ROUGH, _ROUGHEST = 1e-4, 1e-2


class WithinBag(ABC):
    """The log likelihood of deviations at full power."""

    # The rows (p, n) that are in memory, and where bags of them begin and end.
    rows: np.ndarray
    offsets: np.ndarray
    # Number of labels of each bag, as the deviations count: fewer than there are where the rows are
    # a sample too.
    label_counts: np.ndarray
    # Share of the labels whose sum over matchings is approximate.
    approximate: float

    # Whether the means of bags are weighed apart, both sides being centred in each bag.
    is_centred: bool
    # Whether given noise counts with its shape, and not as a Gaussian of its sd.
    has_shaped_noise: bool = False
    # Whether an evaluation reads all data again: many points at a time cost hardly more than one.
    has_passes: bool = False

    @abstractmethod
    def evaluate(
        self,
        params: Parameters,
        power: float,
        wants_slopes: bool,
        n_jobs: int | None,
    ) -> Evaluated:
        """Return the log likelihoods of points, and their slopes if wanted (otherwise zeros).

        To digits that matter at this power.
        """

    def tolerance(self, power: float) -> float:
        """Return the nats that the last step of a scaling may gain where no slopes are wanted.

        Values then err by a few thousandths of a nat as they count, and a draw takes a quarter less
        time (half at low powers).
        """
        return min(_ROUGH / power, _ROUGHEST)

    def variances(self, params: Parameters) -> np.ndarray:
        """Return the variances of predictions in bags, (m, R), zero where they do not matter."""
        return np.zeros((len(params), len(self.label_counts)))

    def variance_gradients(self, params: Parameters, slopes: np.ndarray) -> np.ndarray:
        """Return slopes in (w, terms, level) of what has these in the variances at points."""
        return np.zeros((len(params), params.w.shape[1] + len(params.degrees) + 1))

    @abstractmethod
    def bag_distributions(
        self, params: Parameters
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield the labels of each bag (as a slice), atoms of its predictions, and their shares.

        The atoms are its rows, or in larger bags ascending nodes. Small bags may be left to
        `small_bags`.
        """

    def small_bags(self, params: Parameters) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return what `bag_distributions` leaves out: predictions, and offsets of both."""
        return None

    @abstractmethod
    def label_items(
        self, label_means: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return both ends of the labels, how much each counts, and where bags begin and end."""


@dataclass(frozen=True, eq=False)
class PairedWithinBag(WithinBag):
    """Any pairing, masses on either side, bins of labels, and noise of any density."""

    rows: np.ndarray
    masses: np.ndarray
    offsets: np.ndarray
    labels: Labels
    pairing: int
    row_totals: np.ndarray
    label_totals: np.ndarray
    spreads: np.ndarray
    # Variance of bag means due to that of predictions in bags: see `Pairing.row_factors`.
    factors: np.ndarray
    tables: np.ndarray
    table_start: float
    table_step: float
    # Plain labels, every one of them; None where some are bins.
    points: Labels | None = None
    is_centred = False

    @cached_property
    def bags(self) -> PairedBags:
        """The bags without their columns."""
        return PairedBags(
            self.masses, self.offsets, self.labels, self.points, self.pairing, self.tables
        )

    @cached_property
    def shares(self) -> np.ndarray:
        """How much each bag's likelihood counts: against a sample of rows, as two samples do.

        The distribution of a bag's labels is known only as well as its n rows tell it, so that m
        labels compared with it count for nm/(n + m), and less: see `SAMPLED`.
        """
        n, m = self.row_totals, self.label_totals
        return SAMPLED * n / (n + m) if self.pairing == DRAWS else np.ones(len(n))

    @cached_property
    def label_counts(self) -> np.ndarray:  # type: ignore[override]
        """Number of labels of each bag, as they count."""
        return self.shares * self.label_totals

    @property
    def approximate(self) -> float:  # type: ignore[override]
        """Share of the labels in bags too large for enumeration; a mixture is exact."""
        if self.pairing == DRAWS:
            return 0.0
        return float(
            self.label_counts[self.label_counts > EXACT_LABELS].sum() / self.label_counts.sum()
        )

    @property
    def has_shaped_noise(self) -> bool:  # type: ignore[override]
        """Whether the shape of given noise counts."""
        return self.tables.shape[1] > 0

    def evaluate(
        self,
        params: Parameters,
        power: float,
        wants_slopes: bool,
        n_jobs: int | None,
    ) -> Evaluated:
        m = len(params)
        # The shape of known noise is in the tables; only their width matters then.
        sigmas = np.exp(params.log_sigmas)
        if self.has_shaped_noise:
            sigmas = np.full(m, self.table_step * _PER_SD)
        noises = np.column_stack([sigmas, np.full((m, 2), [self.table_start, self.table_step])])
        z = np.empty((m, self.rows.shape[1]))
        for k in range(m):
            z[k] = predict(self.rows, params, k)
        per_sigma = nodes_per_sigma(power * self.label_totals.sum())
        scores = self.bags.score(z, noises, per_sigma, wants_slopes, self.tolerance(power), n_jobs)
        gradients = np.zeros((m, params.w.shape[1] + len(params.degrees) + 1))
        for k in range(m * wants_slopes):
            each = np.repeat(self.shares, np.diff(self.offsets)) * scores.slopes[k]
            gradients[k] = self._chain(params.part(slice(k, k + 1)), each)
        return Evaluated(
            (scores.values * self.shares).sum(axis=1),
            gradients,
            (scores.by_sigmas * self.shares).sum(axis=1),
        )

    def _chain(self, params: Parameters, slopes: np.ndarray) -> np.ndarray:
        """Return slopes in (w, terms, level) of one point from those in its predictions."""
        w, coefs = params.w, params.coefs
        z, bent = np.empty((2, 1, len(slopes)))
        kernels.predict_points(self.rows, w, params.degrees, coefs, z, bent)
        found = np.zeros((1, w.shape[1] + coefs.shape[1]))
        by_level = slopes.sum()
        kernels.chain_points(self.rows, self.offsets, z, params.degrees, coefs, slopes[None], found)
        return np.append(found[0], by_level)

    def variances(self, params: Parameters) -> np.ndarray:
        found = np.zeros((len(params), len(self.row_totals)))
        if self.factors.any():
            for k in range(len(params)):
                squares = self.masses * self._centre(predict(self.rows, params, k)) ** 2
                found[k] = np.add.reduceat(squares, self.offsets[:-1]) / self.row_totals
        return found

    def _centre(self, z: np.ndarray) -> np.ndarray:
        means = np.add.reduceat(self.masses * z, self.offsets[:-1]) / self.row_totals
        return np.asarray(z - np.repeat(means, np.diff(self.offsets)))

    def variance_gradients(self, params: Parameters, slopes: np.ndarray) -> np.ndarray:
        if not self.factors.any():
            return super().variance_gradients(params, slopes)
        found, sizes = super().variance_gradients(params, slopes), np.diff(self.offsets)
        for k in range(len(params)):
            each = np.repeat(2.0 * slopes[k] / self.row_totals, sizes) * self.masses
            each = each * self._centre(predict(self.rows, params, k))
            found[k] = self._chain(params.part(slice(k, k + 1)), each)
        return found

    def bag_distributions(
        self, params: Parameters
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        z, width = predict(self.rows, params, 0), exp(params.log_sigmas[0]) / FINE_PER_SIGMA
        ends = self.labels.offsets
        for r, (start, stop) in enumerate(zip(self.offsets[:-1], self.offsets[1:], strict=True)):
            part, masses = z[start:stop], self.masses[start:stop]
            if len(part) > SMALL_ROWS:
                yield slice(ends[r], ends[r + 1]), *share_nodes(part, width, masses)
            else:
                yield slice(ends[r], ends[r + 1]), part, masses / masses.sum()

    def label_items(
        self, label_means: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        labels = self.labels
        counts = labels.masses * np.repeat(self.shares, np.diff(labels.offsets))
        return labels.low, labels.high, counts, labels.offsets


def pair_within_bag(bags: Bags, noise: Noise | None, kept: np.ndarray) -> PairedWithinBag:
    """Return the within-bag likelihood in standard units under a pairing and noise."""
    stats = bags.statistics
    is_apart = bags.pairing.name == "draws"
    labels = merge_labels(bags.labels, _MOST_BINS_APART if is_apart else _MOST_BINS)
    has_shape = has_shaped_noise(bags, noise)
    start, step, tables = _tabulate(noise) if has_shape and noise else (0.0, 1.0, np.empty((3, 0)))
    widths = np.where(np.isfinite(labels.high - labels.low), labels.high - labels.low, 0.0)
    inside = labels.masses * widths**2 / 12.0
    n, m = np.asarray(stats.n, dtype=float), np.asarray(stats.m, dtype=float)
    is_plain = bool((bags.labels.low == bags.labels.high).all()) and not has_shape
    is_plain &= bool((bags.labels.masses == 1.0).all() and (bags.rows.masses == 1.0).all())
    return PairedWithinBag(
        rows=np.ascontiguousarray(bags.columns[kept]),
        masses=np.ascontiguousarray(bags.rows.masses),
        offsets=np.ascontiguousarray(bags.offsets, dtype=np.int64),
        labels=labels,
        pairing=_CODES[bags.pairing.name],
        row_totals=n,
        label_totals=m,
        spreads=np.add.reduceat(inside, labels.offsets[:-1]) / stats.m,
        factors=np.asarray(bags.pairing.row_factors(n, m), dtype=float),
        tables=tables,
        table_start=start,
        table_step=step,
        points=bags.labels if is_plain else None,
    )


def has_shaped_noise(bags: Bags, noise: Noise | None) -> bool:
    """Whether given noise counts with its own density, not as a Gaussian of its sd."""
    if bags.known_means is not None or (bags.is_plain and bags.n > _SHAPED_ROWS):
        return False  # the mean of many labels is nearly Gaussian
    return noise is not None and noise.has_shape and noise.sd > exp(LOG_SIGMA_MIN)


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
