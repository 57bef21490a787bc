"""The exact model, sampled: matchings, weights and noise together, by replica exchange.

Replica exchange is that of Geyer (1991). The only error is that of chance: swaps of labels move
over the matchings themselves. So this is an independent check of the likelihood's permanents, for
data small enough that the noise levels mix.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, log, sqrt
from threading import Event
from typing import ClassVar

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform

from unshuffle.core.solution import Candidate, Solution, Status
from unshuffle.core.stats import Stats
from unshuffle.core.strategy import Effort, Strategy
from unshuffle.core.uncertainty import Posterior
from unshuffle.data.bags import Bags
from unshuffle.data.products import multiply
from unshuffle.errors import InputError
from unshuffle.inference.chains import effective_draws, split_rhat
from unshuffle.inference.replica_exchange import Beside, Run, run_levels
from unshuffle.model.building import build_target
from unshuffle.model.posterior import Target
from unshuffle.model.settings import Settings
from unshuffle.model.special_cases import N_DRAWS, Columns, nothing_to_learn
from unshuffle.objectives.problem import Problem
from unshuffle.options import FitOptions
from unshuffle.threads import run_all

__all__ = ["MAX_ROWS", "Sampler", "solve"]

# Levels and rows both grow: a thousand rows take most of a minute and seldom mix.
MAX_ROWS = 1000


@dataclass(frozen=True)
class SamplerSettings:
    """Noise levels of the sampler, and how its draws are reported.

    Attributes
    ----------
    n_levels, levels_per_root : float
        Noise levels: so many, and so many times √n more. Squared residuals fluctuate like √n.
    unmixed_power : float
        Power of the noise's density where the levels did not mix: more noise, wider draws.
    n_grouped : int
        Draws that are grouped into competing answers.
    gap : float
        Least gap between the predictions of two answers, in sds of the labels.
    """

    n_levels: float = 8.0
    levels_per_root: float = 3.5
    unmixed_power: float = 0.1
    n_grouped: int = 400
    gap: float = 0.3


SAMPLER = SamplerSettings()


@dataclass(frozen=True)
class Sampler(Strategy):
    """The exact posterior of the shuffled model by replica exchange, for up to 1000 rows.

    Parameters
    ----------
    prior : Settings, default=Settings(weight_scale=1.0)
        A ``Likelihood(…)`` will do. Its `weight_scale`, `share_low` and `share_high` are the
        prior; its other fields are not used: the likelihood counts in full.
    n_runs : int, default=4
        Independent runs. They must agree, or the fit says that they did not mix. The
        estimator's `n_starts`, where given, is their number instead.
    n_sweeps : int, default=800
        Recorded sweeps of each run. Raise it where the fit says that they did not mix.
    n_levels : int or None, default=None
        Noise levels, from no likelihood to the least noise; None takes 8 + 3.5 √n.

    most_rhat : float, default=1.1
        Largest split R̂ (Gelman and Rubin 1992) at which the runs agree.
    least_draws : float, default=100.0
        Least effective sample size that can show an interval.
    least_exchange : float, default=0.05
        Least rate at which neighbouring noise levels exchange.

    Examples
    --------
    >>> from unshuffle import Bag, fit
    >>> bag = Bag([[0.0], [1.0], [3.0], [7.0]], [15.1, 3.0, 1.0, 7.1])
    >>> fit([bag], method=Sampler(n_sweeps=400), noise=0.1, rng=0).weights.round(1).tolist()
    [2.0, 1.0]
    """

    prior: Settings = field(default_factory=lambda: Settings(weight_scale=1.0))
    n_runs: int = 4
    n_sweeps: int = 800
    n_levels: int | None = None
    # The runs agree when spread between them adds less than this to the spread inside: 1.1 means
    # that a mean may be off by 0.46 of its sd.
    most_rhat: float = 1.1
    # As for the likelihood: a lower effective sample size cannot show an interval.
    least_draws: float = 100.0
    # A pair of levels that exchanges less often than this cuts the levels in two.
    least_exchange: float = 0.05

    takes_penalty: ClassVar[bool] = False
    has_posterior: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = False
    why_plain: ClassVar[str | None] = "it walks over matchings of labels to rows"
    # Beyond, it takes longer than all other methods together.
    compared_rows: ClassVar[int | None] = 300

    @property
    def name(self) -> str:
        return "sampler"

    def check(self, bags: Bags, options: FitOptions) -> None:
        if bags.n > MAX_ROWS:
            raise InputError(
                f"n_samples = {bags.n} are over {MAX_ROWS}, where method 'sampler' would take "
                "minutes and not mix: use method 'likelihood', which has the same posterior"
            )
        super().check(bags, options)

    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        return solve(problem, self, rng, effort)

    def __post_init__(self) -> None:
        for name, least in (("n_runs", 1), ("n_sweeps", 10), ("n_levels", 3)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"Sampler needs {name} of at least {least}, got {value}")

    def priors(self, log_sigma: float | None) -> tuple[str, ...]:
        """Return what was assumed, in sentences.

        Parameters
        ----------
        log_sigma : float or None
            Logarithm of the known noise in standard units; None where it is estimated.

        Returns
        -------
        tuple of str
            The assumptions.

        Examples
        --------
        >>> len(Sampler().priors(None)) > 0
        True
        """
        sentences = self.prior.priors(log_sigma)
        # The likelihood's second sentence is on its estimate where the noise is not known.
        kept = sentences[:1] if log_sigma is None else sentences
        return (
            *kept,
            "The estimate is the plain posterior mean, and the likelihood counts in full.",
        )


def solve(
    problem: Problem,
    options: Sampler,
    rng: np.random.Generator,
    effort: Effort,
    beside: Beside | None = None,
) -> Solution:
    """Sample the posterior of a problem in standard units; labels may stand beside their rows."""
    bags, has_intercept, noise = problem.bags, problem.has_intercept, problem.noise
    # The sampler's mean function is straight: its curve and its bags' offsets are closed.
    built = build_target(bags, has_intercept, noise, replace(options.prior, curve_scale=0.0))
    if built is None:
        return nothing_to_learn(bags, has_intercept, noise)
    target, columns, _ = built
    n_levels = options.n_levels or ceil(SAMPLER.n_levels + SAMPLER.levels_per_root * sqrt(bags.n))
    n_runs = options.n_runs if effort.n_starts is None else effort.n_starts

    def run(seed: np.random.Generator, stop: Event) -> Run:
        return run_levels(
            target, n_levels, options.n_sweeps, seed, stop, options.least_exchange, beside
        )

    runs = run_all(run, rng.spawn(n_runs), effort.n_jobs)
    return _assemble(target, runs, options, columns, rng)


@dataclass(frozen=True)
class Mixing:
    """How well the runs mixed: split R̂, effective sample size, exchange and the cold end."""

    split_rhat: float
    effective_draws: float
    least_exchange: float
    cut_share: float


def measure_mixing(runs: list[Run]) -> Mixing:
    """Return the worst split R̂, effective sample size, exchange rate and share at the cold end."""
    shares = np.array([run.shares() for run in runs])
    noise = np.array([run.levels[:, 1] for run in runs])
    draws = np.stack([run.draws for run in runs])
    # The mean over all levels after each sweep, and the posterior's variance in each run.
    series = np.einsum("rk,rtkp->rtp", shares, draws)
    squares = np.einsum("rk,rtkp->rtp", shares, draws**2)
    variances = (squares.mean(axis=1) - series.mean(axis=1) ** 2).mean(axis=0).tolist()
    level = (shares * noise).sum(axis=1)
    spread = float(((shares * noise**2).sum(axis=1) - level**2).mean())
    rhats = [split_rhat(series[:, :, j], v) for j, v in enumerate(variances)]
    return Mixing(
        split_rhat=max(*rhats, split_rhat(np.repeat(level[:, None], 2, axis=1), spread)),
        # A mean over many levels can be surer than the draws that are handed on.
        effective_draws=min(
            N_DRAWS, *(effective_draws(series[:, :, j], v) for j, v in enumerate(variances))
        ),
        least_exchange=min(float(run.exchange_rates.min()) for run in runs),
        cut_share=max(run.cut_share for run in runs),
    )


def match_tables(target: Target, runs: list[Run]) -> tuple[np.ndarray, ...]:
    """Return for each bag the probabilities (rows × labels, both in canonical order) of matches."""
    tables = []
    for start, stop in zip(
        target.within_bag.offsets[:-1], target.within_bag.offsets[1:], strict=True
    ):
        size = int(stop - start)
        table = np.zeros(size * size)
        for run in runs:
            shares = run.shares() / (len(runs) * len(run.holders))
            for k in np.flatnonzero(shares):
                kept = run.holders[:, k, start:stop].astype(np.int64) - start
                cells = kept * size + np.arange(size)
                table += shares[k] * np.bincount(cells.ravel(), minlength=size * size)
        tables.append(table.reshape(size, size))
    return tuple(tables)


def _assemble(
    target: Target,
    runs: list[Run],
    options: Sampler,
    columns: Columns,
    rng: np.random.Generator,
) -> Solution:
    """Turn the runs into draws of all weights, the posterior mean and competing answers."""
    mixing = measure_mixing(runs)
    is_thin = (
        mixing.split_rhat > options.most_rhat
        or mixing.effective_draws < options.least_draws
        or mixing.least_exchange < options.least_exchange
        # At the least effective sample size one draw would lie beyond the cold end.
        or mixing.cut_share > 1.0 / options.least_draws
    )
    means = [np.einsum("k,tkp->p", run.shares(), run.draws) / len(run.draws) for run in runs]
    evidences = np.array([run.log_evidence for run in runs])
    evidence = float(evidences.mean())
    stats = Stats(
        n_starts=len(runs),
        n_levels=len(runs[0].levels),
        n_sweeps=options.n_sweeps,
        split_rhat=mixing.split_rhat,
        effective_draws=mixing.effective_draws,
        least_exchange=mixing.least_exchange,
        cut_share=mixing.cut_share,
        exchange_rates=np.mean([run.exchange_rates for run in runs], axis=0),
        n_trips=sum(run.n_trips for run in runs),
        log_evidence=evidence,
        # One run cannot tell its own error.
        log_evidence_error=float(evidences.std() / sqrt(len(runs) - 1)) if runs[1:] else None,
        match_probabilities=match_tables(target, runs),
        priors=options.priors(target.log_sigma),
    )
    posterior = _make_posterior(target, runs, columns, is_thin, rng)
    return Solution(
        candidates=_competing_answers(target, posterior, evidence, columns),
        status=Status.UNMIXED if is_thin else Status.POSTERIOR,
        stats=stats,
        estimate=columns.widen(np.mean(means, axis=0)[None])[0],
        uncertainty=posterior,
    )


def _make_posterior(
    target: Target, runs: list[Run], columns: Columns, is_thin: bool, rng: np.random.Generator
) -> Posterior:
    """Draw from all levels by their shares; where the levels did not mix, weakened ones, which
    err on the side of doubt.
    """
    weights, log_sigma = [], []
    n_each = ceil(N_DRAWS / len(runs))
    for run in runs:
        level, noise = run.pick(n_each, SAMPLER.unmixed_power if is_thin else 1.0, rng.random())
        # Evenly through the sweeps too.
        sweep = rng.permutation(np.arange(n_each) % len(run.draws))
        weights.append(run.draws[sweep, level])
        log_sigma.append(noise)
    sigma = np.exp(np.concatenate(log_sigma))
    draws = columns.widen(np.concatenate(weights))
    if columns.has_intercept:
        # Given the weights the intercept is exactly Gaussian about its centred value.
        draws[:, -1] += sigma / sqrt(target.n) * rng.standard_normal(len(draws))
    return Posterior(draws, np.ones(len(draws)), sigma, is_thin)


def _competing_answers(
    target: Target, posterior: Posterior, evidence: float, columns: Columns
) -> tuple[Candidate, ...]:
    """Return the groups of draws that lie apart from each other, largest first.

    A group ends where no draw is within the gap (single linkage); with many columns draws are
    sparse, so that the gap is at least twice the usual distance to the next draw.
    """
    n_all = len(posterior.draws)
    some = np.linspace(0, n_all - 1, min(n_all, SAMPLER.n_grouped)).astype(int)
    kept = posterior.draws[some][:, : len(columns.is_kept)][:, columns.is_kept]
    values, axes = np.linalg.eigh(target.covariance)
    distances = pdist(multiply(kept, axes * np.sqrt(np.maximum(values, 0.0))))
    nearest = (squareform(distances) + 1e300 * np.eye(len(kept))).min(axis=1)
    gap = max(SAMPLER.gap, 2.0 * float(np.quantile(nearest, 0.9)))
    group = fcluster(linkage(distances, "single"), gap, "distance")
    shares = np.bincount(group)[1:] / len(kept)
    candidates = []
    for k, share in enumerate(shares.tolist(), start=1):
        # Fewer than four draws tell no answer.
        if share < min(4.0 / SAMPLER.n_grouped, shares.max()):
            continue
        weights = columns.widen(kept[group == k].mean(axis=0)[None])[0]
        sd = float(posterior.sigma[some][group == k].mean())
        part = evidence + log(share)
        candidates.append(Candidate(weights, -part, 1, part, share, sd))
    return tuple(sorted(candidates, key=lambda c: c.value))
