"""A quadratic surrogate of the within-bag likelihood of data in blocks.

The within-bag likelihood determines variance and skewness of all labels well, and the weights
hardly. Its posterior is a narrow curved sheet, which a few ellipses do not cover. A quadratic in
the coordinates and in these two moments has an error of a fifth of a nat after a hundred training
points. The likelihood of bag means takes no pass. So the surrogate is cheap to sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
from scipy.special import logsumexp

from unshuffle.data.products import multiply, solve_rows
from unshuffle.inference.block_modes import TrainingPoints, gather_training_points
from unshuffle.inference.moves import JITTER, STEP, halve, sweep
from unshuffle.inference.proposals import PROPOSALS, Mixture, adapt, flatten, normalise, standardise
from unshuffle.model.points import Parameters
from unshuffle.model.posterior import Target


@dataclass(frozen=True)
class SurrogateSettings:
    """The quadratic surrogate, its training, and its sampling.

    Attributes
    ----------
    nats : float
        Points count in the fit by exp(−nats below the best/this).
    sds : float
        Points count within so many sds of a mode. Modes that are nearer to one another have one
        quadratic.
    ridge : float
        Ridge of the fit: squared error in nats over the squared size of the coefficients in nats.
    most_coefficients : int
        Most coefficients of a quadratic, 22 coordinates: a larger fit takes longer than it saves.
    training : float
        Equations of the training points for each coefficient and stage.
    most_stages : int
        Most stages of training.
    right : float
        Mean error in nats at which the surrogate is right.
    every : int
        One draw in so many is evaluated exactly, and all that come from the mixture. Where the
        surrogate is right there on average, its values are taken for the others.
    above : float
        Nats by which the surrogate may exceed the highest training point.
    n_tried : int
        Draws of a round that adapts the mixture to the surrogate.
    n_adapted : int
        Number of these rounds.
    least_effective : float
        Least effective sample size of the last round from which an ensemble starts; below it the
        mixture serves.
    n_sweeps : int
        Sweeps of the ensemble, in which a member accepts some seven steps.
    first_round : int
        How many times as many draws the first round has as the others.
    max_rounds : int
        Most rounds of importance sampling, each with a new surrogate.
    """

    nats: float = 15.0
    sds: float = 8.0
    ridge: float = 1e-3
    most_coefficients: int = 400
    training: float = 2.0
    most_stages: int = 5
    right: float = 0.2
    every: int = 4
    above: float = 3.0
    n_tried: int = 2500
    n_adapted: int = 3
    least_effective: float = 25.0
    n_sweeps: int = 30
    first_round: int = 2
    max_rounds: int = 8


SURROGATE = SurrogateSettings()


@dataclass(frozen=True, eq=False)
class _Quadratic:
    """A quadratic of the within-bag likelihood about a mode, in coordinates and label moments."""

    centre: np.ndarray
    factor: np.ndarray
    inverse: np.ndarray
    middle: np.ndarray
    unit: np.ndarray
    coefficients: np.ndarray
    highest: float

    def __call__(self, x: np.ndarray, moments: np.ndarray) -> np.ndarray:
        """Return the surrogate at points, at the power of its fit."""
        variables = self.describe(x, moments)
        left, right = np.triu_indices(variables.shape[1])
        values = multiply(variables[:, left] * variables[:, right], self.coefficients)
        # Beyond its training points the quadratic is no guide: it falls.
        far = _root_mean_square(variables[:, 1 : 1 + len(self.centre)]) - SURROGATE.sds
        return np.minimum(values, self.highest) - 0.5 * x.shape[1] * np.maximum(far, 0.0) ** 2

    def describe(self, x: np.ndarray, moments: np.ndarray) -> np.ndarray:
        """Return one, the coordinates in sds, and the label moments in units of their own."""
        u = multiply(x - self.centre, self.inverse.T)
        return np.hstack([np.ones((len(x), 1)), u, (moments - self.middle) / self.unit])


def _root_mean_square(u: np.ndarray) -> np.ndarray:
    """Return the root mean square of coordinates."""
    return np.sqrt((u * u).mean(axis=1))


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A posterior whose within-bag likelihood is quadratic about each mode of a mixture."""

    target: Target
    mixture: Mixture
    quadratics: dict[int, _Quadratic]

    def log_posterior(self, x: np.ndarray) -> np.ndarray:
        """Return the log posterior of points."""
        params = self.target.read_points(x)
        return self.within_bag(x, params) + _evaluate_rest(self.target, x, params)

    def within_bag(self, x: np.ndarray, params: Parameters) -> np.ndarray:
        """Return the surrogate at points, at its power."""
        moments = find_label_moments(self.target, params)[0]
        values = np.array([quadratic(x, moments) for quadratic in self.quadratics.values()])
        owner = self.mixture.log_parts(x)[list(self.quadratics)].argmax(axis=0)
        return np.asarray(values[owner, np.arange(len(x))])


def _evaluate_rest(target: Target, x: np.ndarray, params: Parameters) -> np.ndarray:
    """Return the log posterior of points without the within-bag likelihood."""
    parts = target.parts_of_means(params)
    return np.asarray(target.mix(np.zeros(len(x)), parts[:, 1]) + parts[:, 2])


@dataclass(frozen=True, eq=False)
class SurrogateProposal:
    """A proposal: the surrogate's posterior, with a defensive share of a mixture (Hesterberg 1995).

    `starts` are draws of the surrogate's posterior, with repetitions. An ensemble moves from them.
    """

    surrogate: Surrogate
    mixture: Mixture
    starts: np.ndarray
    log_mass: float

    def count_defensive(self, n: int) -> int:
        """Return how many of n draws come from the mixture: the last ones."""
        return round(PROPOSALS.defensive * n)

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n points."""
        n_plain = self.count_defensive(n)
        chosen = rng.choice(len(self.starts), n - n_plain, replace=False)
        x = _sample_surrogate(self.surrogate, self.starts[np.sort(chosen)], rng)
        return np.vstack([x, self.mixture.draw(n_plain, rng)])

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log density at every point."""
        near = self.surrogate.log_posterior(x) - self.log_mass + log(1.0 - PROPOSALS.defensive)
        return np.logaddexp(near, self.mixture.log_density(x) + log(PROPOSALS.defensive))


def _sample_surrogate(
    surrogate: Surrogate, starts: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return points after differential evolution moves in the surrogate's posterior."""
    x, d = starts.copy(), starts.shape[1]
    values = surrogate.log_posterior(x)
    jitter = JITTER * x.std(axis=0) + 1e-12
    halves = halve(len(x), rng)

    def propose(mine: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, bool]:
        first, second = (others[rng.integers(len(others), size=len(mine))] for _ in range(2))
        trial = mine + STEP / sqrt(2.0 * d) * (first - second)
        return trial + jitter * rng.standard_normal(trial.shape), True

    for _ in range(SURROGATE.n_sweeps):
        sweep(x, values, halves, propose, surrogate.log_posterior, np.asarray, rng)
    return x


def find_label_moments(target: Target, params: Parameters) -> tuple[np.ndarray, np.ndarray]:
    """Return log total variance and skewness of the labels at points, and their slopes.

    Of m points (m, 1 or 2) and (m, 1 or 2, dim); without a curve there is no skewness.
    """
    w, p, noise = params.w, target.p, np.exp(2.0 * params.log_sigmas)
    total = params.signals + noise
    by_total = np.zeros((len(w), target.dim))
    by_total[:, :p] = 2.0 * multiply(w, target.covariance)
    if target.log_sigma is None:
        by_total[:, p] = 2.0 * noise
    moments, slopes = [np.log(total)], [by_total / total[:, None]]
    if target.third.size:
        turned = np.einsum("jkl,mk,ml->mj", target.third, w, w)
        cubes, by_cubes = (turned * w).sum(axis=1), np.zeros(by_total.shape)
        by_cubes[:, :p] = turned + 2.0 * np.einsum("jkl,mj,mk->ml", target.third, w, w)
        moments.append(cubes / total**1.5)
        slopes.append(by_cubes / total[:, None] ** 1.5 - 1.5 * moments[1][:, None] * slopes[0])
    return np.stack(moments, axis=1), np.stack(slopes, axis=1)


def fit_surrogate(target: Target, mixture: Mixture, rng: np.random.Generator) -> Mixture:
    """Return the mixture with more training points: its own draws, then draws of the surrogate.

    Training ends where the surrogate is right at its own draws.
    """
    m = target.dim + 2 + bool(target.third.size)
    n_points = int(np.ceil(SURROGATE.training * m * (m + 1) / 2 / (target.dim + 1)))
    if m * (m + 1) / 2 > SURROGATE.most_coefficients:
        return mixture
    nothing = (np.empty((0, target.dim)), np.empty(0))
    for stage in range(SURROGATE.most_stages):
        proposal = build_proposal(target, mixture, nothing, n_points, rng) if stage else None
        if isinstance(proposal, SurrogateProposal):
            x = _sample_surrogate(proposal.surrogate, proposal.starts, rng)
        else:
            x = replace(mixture, dof=np.inf, shares=_without_shell(mixture)).draw(n_points, rng)
        assert mixture.training_points is not None
        more = gather_training_points(target, x)
        mixture = replace(mixture, training_points=mixture.training_points.with_more(more))
        if isinstance(proposal, SurrogateProposal):
            expected = proposal.surrogate.within_bag(x, target.read_points(x))
            error = target.power * more.values - expected
            if float(np.abs(error - np.median(error)).mean()) < SURROGATE.right:
                break
    return mixture


def _without_shell(mixture: Mixture) -> np.ndarray:
    """Return shares of the mixture's modes alone."""
    shares = np.append(mixture.shares[:-1], 0.0)
    return shares / shares.sum()


def build_proposal(
    target: Target,
    mixture: Mixture,
    drawn: tuple[np.ndarray, np.ndarray],
    n_draws: int,
    rng: np.random.Generator,
) -> SurrogateProposal | Mixture | None:
    """Return a proposal for n draws, fitted to the training points and to earlier draws.

    Return None where there are too few points, and a mixture where it does not cover the surrogate.
    """
    quadratics = _fit_quadratics(target, mixture, drawn)
    if 0 not in quadratics:
        return None
    surrogate = Surrogate(target, mixture, quadratics)
    cover = standardise(mixture)
    for _ in range(SURROGATE.n_adapted):
        tried = cover.draw(SURROGATE.n_tried, rng)
        logs = surrogate.log_posterior(tried) - cover.log_density(tried)
        cover = adapt(cover, tried, flatten(logs, 10.0 * target.dim))
    pool = cover.draw(SURROGATE.n_tried, rng)
    logs = surrogate.log_posterior(pool) - cover.log_density(pool)
    shares, n_effective = normalise(logs)
    if n_effective < SURROGATE.least_effective:
        return cover
    places = (np.arange(n_draws) + rng.random(n_draws)) / n_draws
    chosen = np.minimum(np.searchsorted(np.cumsum(shares), places), len(pool) - 1)
    return SurrogateProposal(
        surrogate, cover, pool[chosen], float(logsumexp(logs)) - log(len(pool))
    )


def _fit_quadratics(
    target: Target, mixture: Mixture, drawn: tuple[np.ndarray, np.ndarray]
) -> dict[int, _Quadratic]:
    """Fit a quadratic about every mode of the mixture that has enough training points."""
    assert mixture.training_points is not None
    without_slopes = TrainingPoints(*drawn, np.full(drawn[0].shape, np.nan))
    seen = mixture.training_points.with_more(without_slopes).at_power(target.power)
    params = target.read_points(seen.x)
    values = seen.values + _evaluate_rest(target, seen.x, params)
    moments = find_label_moments(target, params)
    quadratics: dict[int, _Quadratic] = {}
    for k in range(mixture.n_modes):
        centre = mixture.means[k]
        # Modes that differ in offsets alone share training points, which have no offsets.
        gaps = [
            multiply(quadratic.inverse, centre - quadratic.centre)
            for quadratic in quadratics.values()
        ]
        if all(np.sqrt((gap * gap).mean()) > SURROGATE.sds for gap in gaps):
            quadratic = fit_quadratic(centre, mixture.factors[k], seen, values, moments)
            quadratics.update({} if quadratic is None else {k: quadratic})
    return quadratics


def fit_quadratic(
    centre: np.ndarray,
    factor: np.ndarray,
    seen: TrainingPoints,
    values: np.ndarray,
    moments: tuple[np.ndarray, np.ndarray],
) -> _Quadratic | None:
    """Fit a quadratic to values and gradients near a mode; None where there are too few."""
    inverse = np.linalg.inv(factor)
    is_near = _root_mean_square(multiply(seen.x - centre, inverse.T)) < SURROGATE.sds
    if not is_near.any():
        return None
    x, values = seen.x[is_near], values[is_near]
    within_bag, slopes = seen.values[is_near], seen.slopes[is_near]
    moments_x, by_x = moments[0][is_near], moments[1][is_near]
    weights = np.exp((values - values.max()) / SURROGATE.nats)
    mode = int(np.argmax(values))
    unit = (weights[:, None] * (moments_x - moments_x[mode]) ** 2).sum(axis=0) / weights.sum()
    unit = np.sqrt(unit) + 1e-12
    quadratic = _Quadratic(centre, factor, inverse, moments_x[mode], unit, np.empty(0), np.inf)
    rows, labels, importance = _build_equations(
        quadratic, x, (moments_x, by_x), (within_bag - within_bag[mode], slopes)
    )
    if not rows.shape[1] < len(labels) or rows.shape[1] > SURROGATE.most_coefficients:
        return None
    root = np.sqrt(np.repeat(weights, importance))
    sizes = np.sqrt(((root[:, None] * rows) ** 2).sum(axis=0) / weights.sum()) + 1e-12
    ridge = np.sqrt(SURROGATE.ridge) * np.eye(len(sizes))
    ridge[0] = 0.0  # the level is free
    found, _ = solve_rows(
        np.vstack([root[:, None] * rows / sizes, ridge]),
        np.concatenate([root * labels, np.zeros(len(sizes))]),
        1e-12,
    )
    found = found / sizes
    found[0] += within_bag[mode]
    return replace(quadratic, coefficients=found, highest=float(within_bag.max()) + SURROGATE.above)


def _build_equations(
    quadratic: _Quadratic,
    x: np.ndarray,
    moments: tuple[np.ndarray, np.ndarray],
    seen: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows and labels of the fit's equations, and how many equations each point has.

    A point has one for its value and, where its gradient is known, one for each derivative in sds.
    """
    variables = quadratic.describe(x, moments[0])
    n, d = x.shape
    left, right = np.triu_indices(variables.shape[1])
    has_slopes = np.isfinite(seen[1]).all(axis=1)
    along = np.zeros((n, variables.shape[1], d))
    along[:, 1 : 1 + d] = np.eye(d)
    along[:, 1 + d :] = (
        np.einsum("mbj,jk->mbk", moments[1], quadratic.factor) / quadratic.unit[:, None]
    )
    by_u = along[:, left] * variables[:, right, None] + along[:, right] * variables[:, left, None]
    rows = np.concatenate(
        [(variables[:, left] * variables[:, right])[:, None], by_u.transpose(0, 2, 1)], axis=1
    )
    slopes = np.einsum("mj,jk->mk", seen[1], quadratic.factor)
    labels = np.column_stack([seen[0], slopes])
    keep = np.column_stack([np.ones(n, bool), np.repeat(has_slopes[:, None], d, axis=1)])
    return rows[keep], labels[keep], keep.sum(axis=1)
