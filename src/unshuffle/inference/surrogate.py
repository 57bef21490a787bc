"""Proposals from what the shapes of data in blocks were seen to say.

The shapes know a few things well (the variance and the skewness of all labels) and the weights
hardly, so that their posterior is a thin sheet, bent in the weights, which no few ellipses cover.
As a quadratic in the coordinates and in those two they are known to a fifth of a nat from a hundred
draws, or from the slopes on the way to the tops. What the means of bags say takes no pass. So a
posterior that lacks a fifth of a nat is sampled at will, and all rows judge draws from it, which
hardly differ in weight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
from scipy.special import logsumexp

from unshuffle.data.products import multiply, solve_rows
from unshuffle.inference.block_modes import Lessons, take_lessons
from unshuffle.inference.moves import JITTER, STEP
from unshuffle.inference.proposals import Mixture, flatten, follow, normalise
from unshuffle.model.points import Laws
from unshuffle.model.posterior import Target

# Share of the draws that come from the mixture: where the quadratic is wrong they still fall.
_DEFENSIVE = 0.1
# Points count in the fit of the quadratic by exp(−nats below the best/this), down to so many nats
# below and within so many sds of a top.
_NATS, _DEEPEST, _SDS = 15.0, 60.0, 8.0
# Tops so many sds of one another apart have one quadratic.
_NEIGHBOURS = 3.0
# Errors of the quadratic in nats over its coefficients' size in nats, squared: the ridge.
_RIDGE = 1e-3
# A fit takes so many equations for a coefficient, and no more coefficients than this (d = 22): it
# would take longer than what it saves.
_LEAST_EQUATIONS, _MOST_COEFFICIENTS = 1.3, 400
# Slopes of points that teach, for each coefficient and stage, and degrees of freedom that are none.
_LESSONS, _NORMAL = 2.0, 1e6
# Stages of teaching at most, and the mean error in nats at which they end.
_MOST_STAGES, _RIGHT = 5, 0.5
# Nats above what was seen that no quadratic is believed to reach.
_ABOVE = 3.0
# Draws that adapt the mixture to the quadratic, and rounds of them. Draws of the last round are
# where walkers begin, unless they are worth fewer than so many: then the mixture has to do.
_N_TRIED, _N_ROUNDS, _LEAST_WORTH = 2500, 3, 25.0
# Sweeps of the walkers, in which one accepts some seven steps.
_N_SWEEPS = 30


@dataclass(frozen=True, eq=False)
class _Piece:
    """The shapes about one top: a quadratic in coordinates in its sds, total and skewness."""

    centre: np.ndarray
    factor: np.ndarray
    inverse: np.ndarray
    middle: np.ndarray
    unit: np.ndarray
    coefficients: np.ndarray
    highest: float

    def __call__(self, x: np.ndarray, bent: np.ndarray) -> np.ndarray:
        """Return what the shapes say at points, at the power that they were fitted at."""
        variables = self.describe(x, bent)
        left, right = np.triu_indices(variables.shape[1])
        values = multiply(variables[:, left] * variables[:, right], self.coefficients)
        # Beyond the points that it was fitted to the quadratic falls, whatever it says.
        far = _length(variables[:, 1 : 1 + len(self.centre)]) - _SDS
        return np.minimum(values, self.highest) - 0.5 * x.shape[1] * np.maximum(far, 0.0) ** 2

    def describe(self, x: np.ndarray, bent: np.ndarray) -> np.ndarray:
        """Return one, the coordinates in sds and the bent ones in units of their own."""
        u = multiply(x - self.centre, self.inverse.T)
        return np.hstack([np.ones((len(x), 1)), u, (bent - self.middle) / self.unit])


def _length(u: np.ndarray) -> np.ndarray:
    """Return the root mean square of coordinates."""
    return np.sqrt((u * u).mean(axis=1))


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A posterior whose shapes are quadratics about its tops, by the mixture's component."""

    target: Target
    mixture: Mixture
    pieces: dict[int, _Piece]

    def log_posterior(self, x: np.ndarray) -> np.ndarray:
        """Return the log posterior of points."""
        law = self.target.read_points(x)
        return self.shapes(x, law) + _weigh_rest(self.target, x, law)

    def shapes(self, x: np.ndarray, law: Laws) -> np.ndarray:
        """Return what the shapes say at points, at their power."""
        bent = bend_coordinates(self.target, law)[0]
        values = np.array([piece(x, bent) for piece in self.pieces.values()])
        owner = self.mixture.log_parts(x)[list(self.pieces)].argmax(axis=0)
        return np.asarray(values[owner, np.arange(len(x))])


def _weigh_rest(target: Target, x: np.ndarray, law: Laws) -> np.ndarray:
    """Return the log posterior of points without the within-bag likelihood."""
    parts = target.parts_of_means(law)
    return np.asarray(target.mix(np.zeros(len(x)), parts[:, 1]) + parts[:, 2])


@dataclass(frozen=True, eq=False)
class Followed:
    """A proposal: draws of the surrogate's posterior, and some of the mixture that covers it.

    `starts` are points of the surrogate's posterior, some of them more than once: walkers leave
    them along their differences.
    """

    surrogate: Surrogate
    mixture: Mixture
    starts: np.ndarray
    log_mass: float

    def count_plain(self, n: int) -> int:
        """Return how many of so many draws come from the mixture: the last ones."""
        return round(_DEFENSIVE * n)

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n points."""
        n_plain = self.count_plain(n)
        chosen = rng.choice(len(self.starts), n - n_plain, replace=False)
        x = _walk(self.surrogate, self.starts[np.sort(chosen)], rng)
        return np.vstack([x, self.mixture.draw(n_plain, rng)])

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log density at every point."""
        near = self.surrogate.log_posterior(x) - self.log_mass + log(1.0 - _DEFENSIVE)
        return np.logaddexp(near, self.mixture.log_density(x) + log(_DEFENSIVE))


def _walk(surrogate: Surrogate, starts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move points of the surrogate's posterior about in it, each half along the other's gaps."""
    x, d = starts.copy(), starts.shape[1]
    values = surrogate.log_posterior(x)
    jitter = JITTER * x.std(axis=0) + 1e-12
    order = rng.permutation(len(x))
    halves = (order[: len(x) // 2], order[len(x) // 2 :])
    for _ in range(_N_SWEEPS):
        for mine, others in (halves, halves[::-1]):
            first, second = (others[rng.integers(len(others), size=len(mine))] for _ in range(2))
            trial = x[mine] + STEP / sqrt(2.0 * d) * (x[first] - x[second])
            trial += jitter * rng.standard_normal(trial.shape)
            found = surrogate.log_posterior(trial)
            is_taken = np.log(rng.random(len(mine))) < found - values[mine]
            x[mine[is_taken]], values[mine[is_taken]] = trial[is_taken], found[is_taken]
    return x


def bend_coordinates(target: Target, law: Laws) -> tuple[np.ndarray, np.ndarray]:
    """Return log total variance and skewness of the labels' law at points, and their slopes.

    Of m points (m, 1 or 2) and (m, 1 or 2, dim); without a curve there is no skewness.
    """
    w, p, noise = law.w, target.p, np.exp(2.0 * law.log_sigmas)
    total = law.signals + noise
    by_total = np.zeros((len(w), target.dim))
    by_total[:, :p] = 2.0 * multiply(w, target.covariance)
    if target.log_sigma is None:
        by_total[:, p] = 2.0 * noise
    bent, slopes = [np.log(total)], [by_total / total[:, None]]
    if target.third.size:
        turned = np.einsum("jkl,mk,ml->mj", target.third, w, w)
        cubes, by_cubes = (turned * w).sum(axis=1), np.zeros(by_total.shape)
        by_cubes[:, :p] = turned + 2.0 * np.einsum("jkl,mj,mk->ml", target.third, w, w)
        bent.append(cubes / total**1.5)
        slopes.append(by_cubes / total[:, None] ** 1.5 - 1.5 * bent[1][:, None] * slopes[0])
    return np.stack(bent, axis=1), np.stack(slopes, axis=1)


def teach(target: Target, mixture: Mixture, rng: np.random.Generator) -> Mixture:
    """Return the mixture with more lessons: draws of its own, then of what these taught.

    Until what was taught was right where it led to: too few lessons lead astray.
    """
    m = target.dim + 2 + bool(target.third.size)
    n_points = int(np.ceil(_LESSONS * m * (m + 1) / 2 / (target.dim + 1)))
    if m * (m + 1) / 2 > _MOST_COEFFICIENTS:
        return mixture
    nothing = (np.empty((0, target.dim)), np.empty(0))
    for stage in range(_MOST_STAGES):
        proposal = learn(target, mixture, nothing, n_points, rng) if stage else None
        if isinstance(proposal, Followed):
            x = _walk(proposal.surrogate, proposal.starts, rng)
        else:
            x = replace(mixture, dof=_NORMAL, shares=_without_shell(mixture)).draw(n_points, rng)
        assert mixture.lessons is not None
        more = take_lessons(target, x)
        mixture = replace(mixture, lessons=mixture.lessons.with_more(more))
        if isinstance(proposal, Followed):
            expected = proposal.surrogate.shapes(x, target.read_points(x))
            error = target.power * more.values - expected
            if float(np.abs(error - np.median(error)).mean()) < _RIGHT:
                break
    return mixture


def _without_shell(mixture: Mixture) -> np.ndarray:
    """Return shares of the mixture's tops alone."""
    shares = np.append(mixture.shares[:-1], 0.0)
    return shares / shares.sum()


def learn(
    target: Target,
    mixture: Mixture,
    drawn: tuple[np.ndarray, np.ndarray],
    n_draws: int,
    rng: np.random.Generator,
) -> Followed | Mixture | None:
    """Return a proposal for so many draws from points and shapes of earlier ones.

    None where too little is known, and a mixture where it does not cover the surrogate.
    """
    pieces = _fit_pieces(target, mixture, drawn)
    if 0 not in pieces:
        return None
    surrogate = Surrogate(target, mixture, pieces)
    cover = mixture
    for _ in range(_N_ROUNDS):
        tried = cover.draw(_N_TRIED, rng)
        logs = surrogate.log_posterior(tried) - cover.log_density(tried)
        cover = follow(cover, tried, flatten(logs, 10.0 * target.dim), rng)
    pool = cover.draw(_N_TRIED, rng)
    logs = surrogate.log_posterior(pool) - cover.log_density(pool)
    shares, worth = normalise(logs)
    if worth < _LEAST_WORTH:
        return cover
    places = (np.arange(n_draws) + rng.random(n_draws)) / n_draws
    chosen = np.minimum(np.searchsorted(np.cumsum(shares), places), len(pool) - 1)
    return Followed(surrogate, cover, pool[chosen], float(logsumexp(logs)) - log(len(pool)))


def _fit_pieces(
    target: Target, mixture: Mixture, drawn: tuple[np.ndarray, np.ndarray]
) -> dict[int, _Piece]:
    """Return the quadratics of those of the mixture's tops near which enough was seen."""
    assert mixture.lessons is not None
    without_slopes = Lessons(*drawn, np.full(drawn[0].shape, np.nan))
    seen = mixture.lessons.with_more(without_slopes).at_power(target.power)
    law = target.read_points(seen.x)
    values = seen.values + _weigh_rest(target, seen.x, law)
    bent = bend_coordinates(target, law)
    pieces: dict[int, _Piece] = {}
    for k in range(mixture.n_modes):
        centre = mixture.means[k]
        # Shapes know of no offsets: tops that differ in these alone share what was seen.
        gaps = [multiply(piece.inverse, centre - piece.centre) for piece in pieces.values()]
        if all(np.sqrt((gap * gap).mean()) > _NEIGHBOURS for gap in gaps):
            piece = _fit(centre, mixture.factors[k], seen, values, bent)
            pieces.update({} if piece is None else {k: piece})
    return pieces


def _fit(
    centre: np.ndarray,
    factor: np.ndarray,
    seen: Lessons,
    values: np.ndarray,
    bent: tuple[np.ndarray, np.ndarray],
) -> _Piece | None:
    """Fit a quadratic to the shapes at points near a top; None where they are too few."""
    inverse = np.linalg.inv(factor)
    is_near = _length(multiply(seen.x - centre, inverse.T)) < _SDS
    is_near &= values > values[is_near].max(initial=-np.inf) - _DEEPEST
    if not is_near.any():
        return None
    x, values = seen.x[is_near], values[is_near]
    shapes, slopes = seen.values[is_near], seen.slopes[is_near]
    bent_x, by_x = bent[0][is_near], bent[1][is_near]
    weights = np.exp((values - values.max()) / _NATS)
    top = int(np.argmax(values))
    unit = (weights[:, None] * (bent_x - bent_x[top]) ** 2).sum(axis=0) / weights.sum()
    unit = np.sqrt(unit) + 1e-12
    piece = _Piece(centre, factor, inverse, bent_x[top], unit, np.empty(0), np.inf)
    rows, labels, importance = _pose(piece, x, (bent_x, by_x), (shapes - shapes[top], slopes))
    if len(labels) < _LEAST_EQUATIONS * rows.shape[1] or rows.shape[1] > _MOST_COEFFICIENTS:
        return None
    root = np.sqrt(np.repeat(weights, importance))
    sizes = np.sqrt(((root[:, None] * rows) ** 2).sum(axis=0) / weights.sum()) + 1e-12
    ridge = np.sqrt(_RIDGE) * np.eye(len(sizes))
    ridge[0] = 0.0  # the level is free
    found, _ = solve_rows(
        np.vstack([root[:, None] * rows / sizes, ridge]),
        np.concatenate([root * labels, np.zeros(len(sizes))]),
        1e-12,
    )
    found = found / sizes
    found[0] += shapes[top]
    return replace(piece, coefficients=found, highest=float(shapes.max()) + _ABOVE)


def _pose(
    piece: _Piece,
    x: np.ndarray,
    bent: tuple[np.ndarray, np.ndarray],
    seen: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the equations of a quadratic's coefficients, their sides, and how many a point has.

    One for its value, and where slopes are known one for each of them, in sds.
    """
    variables = piece.describe(x, bent[0])
    n, d = x.shape
    left, right = np.triu_indices(variables.shape[1])
    has_slopes = np.isfinite(seen[1]).all(axis=1)
    along = np.zeros((n, variables.shape[1], d))
    along[:, 1 : 1 + d] = np.eye(d)
    along[:, 1 + d :] = np.einsum("mbj,jk->mbk", bent[1], piece.factor) / piece.unit[:, None]
    by_u = along[:, left] * variables[:, right, None] + along[:, right] * variables[:, left, None]
    rows = np.concatenate(
        [(variables[:, left] * variables[:, right])[:, None], by_u.transpose(0, 2, 1)], axis=1
    )
    slopes = np.einsum("mj,jk->mk", seen[1], piece.factor)
    labels = np.column_stack([seen[0], slopes])
    keep = np.column_stack([np.ones(n, bool), np.repeat(has_slopes[:, None], d, axis=1)])
    return rows[keep], labels[keep], keep.sum(axis=1)
