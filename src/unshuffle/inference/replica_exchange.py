"""Replica exchange (Swendsen and Wang 1986; Geyer 1991) over noise levels.

The temperatures are noise levels, from no likelihood to the least noise. Powers of the likelihood
with the noise left free do not work: from about 100 rows on the noise jumps at one power from "all
is noise" to its true level, and no replica passes. At fixed noise the way down is gradual, and the
levels are weighted by the posterior of the noise.

Noise that is given only ends the levels. Were its prior that of every level, the hot levels would
have weights no larger than the noise, and nothing would lead from there to weights that explain the
labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log, sqrt
from threading import Event

import numpy as np
from scipy.interpolate import CubicHermiteSpline
from scipy.special import erfcinv, logsumexp

from unshuffle.data.products import dot, multiply
from unshuffle.inference.chains import bridge_levels, log_prior_mass
from unshuffle.inference.modes import MODES, draw_starts
from unshuffle.kernels import tempering as kernels
from unshuffle.model.posterior import SIGNAL_FLOOR, Target
from unshuffle.model.settings import LOG_SIGMA_MAX, LOG_SIGMA_MIN


@dataclass(frozen=True)
class LevelSettings:
    """How noise levels are tuned.

    Attributes
    ----------
    n_rounds, n_growing : int
        Rounds in which the levels grow from the hot end to the least noise, and sweeps of each.
        Replicas must come down slowly, or they freeze in the first matching they meet. As many
        rounds at most space the levels evenly.
    least_rounds, n_tuning : int
        Least rounds of spacing, and sweeps of each; twice as many in later ones.
    growth : float
        Change of log sigma by which the levels grow where they end too soon.
    span : float
        Range of a bag's labels in their sds.
    """

    n_rounds: int = 10
    n_growing: int = 30
    least_rounds: int = 3
    n_tuning: int = 100
    growth: float = 0.5
    span: float = 3.5


LEVELS = LevelSettings()
# Random numbers are drawn for about this many swaps at once: 3 MB, and an interrupt is heard every
# few milliseconds.
_SWAPS_AT_ONCE = 200_000
# No two levels are closer than where one exchange in a hundred is refused.
_LEAST_REFUSAL = 0.01
# Below this a rate measures only which replicas happened to meet.
_LEAST_RATE = 1e-12
# The hottest step holds a precision of this part of one label's: nothing.
_HOTTEST = 1e-3
# Known noise above e^300 label spreads is the same as e^300, and its square is still a number.
_MOST_KNOWN = 300.0
# Labels whose holders are kept in all, 16 MB: where there are more, only every second, third, …
# sweep keeps its matchings.
_MOST_KEPT = 8_000_000
# Points at which the noise's density is integrated: 0.004 apart in log sigma.
_N_GRID = 2001
# Multiples of the golden section fill the unit interval evenly at any number.
_GOLDEN = 0.618034


@dataclass(frozen=True, eq=False)
class Run:
    """The levels after their run.

    `levels` hold precision and log sigma, hottest first; `draws` (sweeps, levels, p) weights and
    `holders` (kept sweeps, levels, n) matchings; `exchange_rates` those of neighbours; `n_trips`
    counts replicas that came from the hottest level to the coldest; `log_noise` is the log density
    of log sigma on a `grid`, with the evidence in it.
    """

    levels: np.ndarray
    draws: np.ndarray
    holders: np.ndarray
    exchange_rates: np.ndarray
    n_trips: int
    grid: np.ndarray
    log_noise: np.ndarray

    @property
    def log_evidence(self) -> float:
        """Log of the posterior's normalising constant."""
        if len(self.grid) == 1:
            return float(self.log_noise[0])
        return float(logsumexp(self.log_noise)) + log(self.grid[1] - self.grid[0])

    def shares(self, power: float = 1.0) -> np.ndarray:
        """Return the posterior share of each level, with the noise's density at a power.

        What depends on the noise is taken as linear between levels.
        """
        shares = np.zeros(len(self.levels))
        if len(self.grid) == 1:
            shares[-1] = 1.0
            return shares
        mass = self._noise_mass(power)
        place = self._place(self.grid)
        below = np.minimum(place.astype(int), len(self.levels) - 2)
        np.add.at(shares, below, mass * (below + 1 - place))
        np.add.at(shares, below + 1, mass * (place - below))
        return shares

    @property
    def cut_share(self) -> float:
        """About the share of the posterior beyond the cold end: the density there times the sd.

        Known noise and the least noise are ends of the model, not of the levels.
        """
        if len(self.grid) == 1 or self.levels[-1, 1] <= LOG_SIGMA_MIN:
            return 0.0
        mass = self._noise_mass(1.0)
        sd = sqrt(dot(mass, self.grid**2) - dot(mass, self.grid) ** 2)
        return min(float(mass[0] * sd / (self.grid[1] - self.grid[0])), 1.0)

    def pick(self, n: int, power: float, shift: float) -> tuple[np.ndarray, np.ndarray]:
        """Return levels and log sigma of n draws, spread evenly over the noise's posterior.

        Between two levels either is taken, the nearer more often; the noise itself is that of the
        density. Levels are up to half a unit apart, several sds of it: as noise they would be
        rough.
        """
        if len(self.grid) == 1:
            return np.full(n, len(self.levels) - 1), np.full(n, self.grid[0])
        # Evenly, so that chance adds little.
        even = (np.arange(n) + shift) / n
        log_sigma = np.interp(even, np.cumsum(self._noise_mass(power)), self.grid)
        level = np.floor(self._place(log_sigma) + (np.arange(n) * _GOLDEN) % 1.0).astype(int)
        return np.minimum(level, len(self.levels) - 1), log_sigma

    def _noise_mass(self, power: float) -> np.ndarray:
        """Return the noise's posterior on the grid, its density at a power."""
        mass = np.exp(power * (self.log_noise - self.log_noise.max()))
        return mass / mass.sum()

    def _place(self, log_sigma: np.ndarray) -> np.ndarray:
        """Return where between the levels these noise levels lie."""
        nodes = self.levels[:, 1]
        n_hot = int((nodes == nodes[0]).sum()) - 1
        return np.interp(-log_sigma, -nodes[n_hot:], np.arange(n_hot, len(nodes)))


@dataclass(frozen=True, eq=False)
class Beside:
    """The row that each label stood beside (rows and labels in canonical order), and what the log
    prior of a matching loses for every label that another row holds."""

    rows: np.ndarray
    cost: float = 0.0


# Nothing stands beside anything: every matching is as likely.
_NOTHING = Beside(np.empty(0, dtype=np.int64))


def make_model(target: Target, beside: Beside = _NOTHING) -> tuple[kernels.Model, np.ndarray]:
    """Turn the target's data to the axes in which XᵀX is diagonal; return them and the axes."""
    o = target.options
    features, labels = target.within_bag.rows.T, target.label_items()[0]
    spreads, axes = np.linalg.eigh(target.covariance)
    spreads = np.maximum(spreads, 0.0)
    ends = zip(target.within_bag.offsets[:-1], target.within_bag.offsets[1:], strict=True)
    reach = [(b - a) / (LEVELS.span * max(float(labels[a:b].std()), 1e-12)) for a, b in ends]
    excess = o.share_high - 0.5 * target.p
    model = kernels.Model(
        rows=multiply(features, axes),
        labels=labels,
        offsets=target.within_bag.offsets,
        gram=len(labels) * spreads,
        spreads=spreads,
        reach=np.array(reach),
        prior=np.array([o.weight_scale, o.share_low + o.share_high, excess, SIGNAL_FLOOR]),
        squares=dot(labels, labels),
        beside=beside.rows,
        cost=beside.cost,
    )
    return model, axes


def _degrees(target: Target) -> float:
    """Return the factors 1/sigma of the labels' density, the intercept's integrated out."""
    return target.n - float(target.means.has_intercept)


def _make_levels(precisions: np.ndarray, target: Target) -> np.ndarray:
    """Return precision and log sigma of each level; the hottest share the largest noise."""
    largest = max(LOG_SIGMA_MAX, _least_noise(target))
    noise = -0.5 * np.log(np.maximum(precisions, exp(-2.0 * largest)))
    return np.column_stack([precisions, noise])


def _least_noise(target: Target) -> float:
    """Return log sigma of the coldest level that is allowed."""
    return LOG_SIGMA_MIN if target.log_sigma is None else min(target.log_sigma, _MOST_KNOWN)


def run_levels(
    target: Target,
    n_levels: int,
    n_sweeps: int,
    rng: np.random.Generator,
    stop: Event,
    least_exchange: float,
    beside: Beside | None = None,
) -> Run:
    """Tune the levels from the bag means and random starts, then run and record them."""
    model, axes = make_model(target, beside or _NOTHING)
    state = _first_state(model, multiply(draw_starts(target, n_levels, rng), axes))

    def sweep(levels: np.ndarray, n: int) -> kernels.Record:
        return _sweep(model, axes, state, levels, n, rng, stop)

    levels = _tune(model, target, n_levels, least_exchange, sweep)
    record = sweep(levels, n_sweeps)
    _, grid, log_noise = _weigh_noise(model, target, levels, record.sums)
    return Run(
        levels,
        multiply(record.draws, axes.T),
        record.holders,
        1.0 - record.refusals / (0.5 * n_sweeps),
        int(record.trips[0]),
        grid,
        log_noise,
    )


def _tune(
    model: kernels.Model,
    target: Target,
    n_levels: int,
    least_exchange: float,
    sweep: Callable[[np.ndarray, int], kernels.Record],
) -> np.ndarray:
    """Return levels that exchange alike and reach past the noise's posterior.

    Tuned levels exchange twice as often as an answer needs.
    """
    least = _least_noise(target)
    ends = np.exp(-2.0 * np.linspace(max(least, 0.0), least, LEVELS.n_rounds))
    hottest = min(_HOTTEST / target.n, 0.5 * float(ends[0]))
    precisions = np.append(0.0, np.geomspace(hottest, ends[0], n_levels - 1))
    # Nothing is cut before all has grown: replicas on their way know nothing of the cold end.
    for coldest in ends[1:].tolist():
        record = sweep(_make_levels(precisions, target), LEVELS.n_growing)
        precisions = respace(precisions, record.refusals / (0.5 * LEVELS.n_growing), coldest)
    for i in range(LEVELS.n_rounds):
        n_tuning = LEVELS.n_tuning * (1 if i < LEVELS.least_rounds else 2)
        levels = _make_levels(precisions, target)
        record = sweep(levels, n_tuning)
        refusals = record.refusals / (0.5 * n_tuning)
        # The first half of a round forgets where it began.
        noise = _weigh_noise(model, target, levels, record.sums[n_tuning // 2 :])[0]
        coldest, is_long = _coldest(levels, noise, target)
        if i >= LEVELS.least_rounds and is_long and refusals.max() < 1.0 - 2.0 * least_exchange:
            break
        precisions = respace(precisions, refusals, coldest)
    return _make_levels(precisions, target)


def _coldest(levels: np.ndarray, log_noise: np.ndarray, target: Target) -> tuple[float, bool]:
    """Return the greatest precision that needs a level, and whether the levels go far enough."""
    if target.log_sigma is not None:
        return float(levels[-1, 0]), True
    near = np.flatnonzero(log_noise > log_noise.max() - MODES.negligible)[-1]
    is_last = near == len(levels) - 1
    lowest = levels[-1, 1] - LEVELS.growth if is_last else levels[near + 1, 1]
    is_long = (
        log_noise[-1] < log_noise.max() - 0.5 * MODES.negligible or levels[-1, 1] <= LOG_SIGMA_MIN
    )
    return exp(-2.0 * max(lowest, LOG_SIGMA_MIN)), bool(is_long)


def respace(precisions: np.ndarray, refusals: np.ndarray, coldest: float) -> np.ndarray:
    """Return as many precisions from 0 to the coldest, with the refusals spread evenly.

    Two Gaussians d sds apart exchange erfc(d/2) of the time. These distances add up along the
    levels, which refusals near 1 do not: a gap of five counts as five, not as one. A distance grows
    with the precision at the hot step, and with its logarithm at the others.
    """
    rates = np.clip(1.0 - refusals, _LEAST_RATE, 1.0 - _LEAST_REFUSAL)
    way = np.cumsum(2.0 * erfcinv(rates))
    scale = np.log(precisions[1:])
    if log(coldest) > scale[-1]:
        back = -min(3, len(way))
        steepness = (way[-1] - way[back]) / (scale[-1] - scale[back])
        way = np.append(way, way[-1] + steepness * (log(coldest) - scale[-1]))
        scale = np.append(scale, log(coldest))
    even = np.linspace(0.0, np.interp(log(coldest), scale, way), len(precisions))
    spaced = np.exp(np.interp(even, way, scale)) * np.minimum(even / way[0], 1.0)
    spaced[0], spaced[-1] = 0.0, coldest
    return spaced


def _weigh_noise(
    model: kernels.Model, target: Target, levels: np.ndarray, sums: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the log density of log sigma at the levels, a grid, and the density on the grid.

    Neighbouring levels are bridged; between levels the density is the cubic that has their values
    and slopes, which are means over their draws.
    """
    scale, both, excess, floor = (float(number) for number in model.prior)
    residual, power = sums[..., 0], sums[..., 1]
    nodes = levels[:, 1]
    # Densities of every level's draws at their own level and at the next: (draws, levels − 1).
    own, above, below = (
        _level_densities(model.prior, levels[at], residual[:, where], power[:, where])
        for at, where in (
            (slice(None), slice(None)),
            (slice(1, None), slice(None, -1)),
            (slice(None, -1), slice(1, None)),
        )
    )
    steps = bridge_levels(above - own[:, :-1], own[:, 1:] - below)
    first = log_prior_mass(model.spreads, scale, (both, excess, floor), float(nodes[0]))
    low_power = target.options.share_low
    values = first + np.append(0.0, np.cumsum(steps)) + (2.0 * low_power - _degrees(target)) * nodes
    if target.log_sigma is not None:
        return values, nodes[-1:], values[-1:]
    variance = np.exp(2.0 * nodes)
    total = power + variance
    slopes = residual / variance - 2.0 * both * variance / total
    slopes += 2.0 * excess * floor * variance / (power + floor * total)
    slope = slopes.mean(axis=0) + 2.0 * low_power - _degrees(target)
    n_hot = int((nodes == nodes[0]).sum()) - 1
    grid = np.linspace(nodes[-1], nodes[0], _N_GRID)
    curve = CubicHermiteSpline(nodes[n_hot:][::-1], values[n_hot:][::-1], slope[n_hot:][::-1])
    values[:n_hot] = -np.inf
    return values, grid, curve(grid)


def _level_densities(
    prior: np.ndarray, levels: np.ndarray, residual: np.ndarray, power: np.ndarray
) -> np.ndarray:
    """Return the densities of `kernels.level_density` for many draws at once."""
    _, both, excess, floor = prior
    total = power + np.exp(2.0 * levels[:, 1])
    signal = power + floor * total
    return -0.5 * levels[:, 0] * residual + excess * np.log(signal) - both * np.log(total)


def _first_state(model: kernels.Model, weights: np.ndarray) -> kernels.State:
    """Start every replica at its weights and their rank matching, or where labels stood."""
    n_levels, n = len(weights), len(model.labels)
    holder = np.empty((n_levels, n), dtype=np.int64)
    for r, z in enumerate(multiply(weights, model.rows.T)):
        for start, stop in zip(model.offsets[:-1], model.offsets[1:], strict=True):
            holder[r, start:stop] = start + np.argsort(z[start:stop], kind="stable")
    if model.cost > 0.0:
        holder[:] = model.beside
    field = np.stack([(model.labels[:, None] * model.rows[rows]).sum(axis=0) for rows in holder])
    return kernels.State(holder, field, weights.copy(), np.arange(n_levels))


def _sweep(
    model: kernels.Model,
    axes: np.ndarray,
    state: kernels.State,
    levels: np.ndarray,
    n_sweeps: int,
    rng: np.random.Generator,
    stop: Event,
) -> kernels.Record:
    """Run sweeps of all replicas, a few at a time so that an interrupt is heard."""
    n_levels, (n, p) = len(levels), model.rows.shape
    every = 1 + n_sweeps * n_levels * n // _MOST_KEPT
    record = kernels.Record(
        sums=np.ones((n_sweeps, n_levels, 2)),
        draws=np.empty((n_sweeps, n_levels, p)),
        holders=np.empty((1 + (n_sweeps - 1) // every, n_levels, n), dtype=np.int16),
        refusals=np.zeros(n_levels - 1),
        trips=np.zeros(1 + n_levels),
        every=every,
    )
    size = max(1, _SWAPS_AT_ONCE // (n_levels * n))
    for first in range(0, n_sweeps, size):
        if stop.is_set():
            break
        chance = draw_chance(model, axes, (min(size, n_sweeps - first), n_levels), rng)
        kernels.advance_replicas(model, state, levels, chance, record, first)
    return record


def draw_chance(
    model: kernels.Model, axes: np.ndarray, shape: tuple[int, int], rng: np.random.Generator
) -> kernels.Chance:
    """Draw the random numbers of some sweeps of all replicas.

    Normals are drawn for the weights themselves and then turned: axes of equal spread are
    arbitrary, and the result must not depend on them.
    """
    n, p = model.rows.shape
    _, both, excess, _ = model.prior
    gammas = np.zeros((*shape, 2))
    if excess < 0:
        gammas[..., 0] = rng.standard_gamma(-excess, shape)
    gammas[..., 1] = rng.standard_gamma(both, shape)
    return kernels.Chance(
        pairs=rng.random((*shape, n, 2)),
        normals=multiply(rng.standard_normal((*shape, 2, p)), axes),
        gammas=gammas,
        spare=rng.random((*shape, kernels.N_SPARE)),
        exchanges=rng.random(shape),
    )
