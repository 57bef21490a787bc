"""What an experiment will tell, simulated on its own rows before it is run.

Labels are drawn from the model again and again and fitted as they would be: every kind of bags sees
the same weights, the same noise and the same offsets, so that differences are those of the bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from threading import Event, Lock

import numpy as np

from unshuffle.answers.fit import fit_bags
from unshuffle.answers.known import NOTHING
from unshuffle.core.bags import make_bags
from unshuffle.core.options import FitOptions
from unshuffle.core.products import predict_rows
from unshuffle.core.progress import Report, say_nothing
from unshuffle.core.threads import run_all
from unshuffle.errors import InputError
from unshuffle.posterior.options import Settings

# Tries for weights inside the prior's bound; all but hopelessly collinear columns need a few.
_TRIES = 200
# Directions of the columns with less variance than this share of the largest carry no weights.
_FLAT = 1e-10


@dataclass(frozen=True, eq=False)
class Scenario:
    """How labels are made: the sd of their noise, and what is known of the signal.

    The signal has the given `weights`; or such that labels have the sd `label_sd`; or the noise's
    share of the variance is drawn from the prior of the fit. Without weights every direction of the
    predictions is as likely. `offset` is the sd of offsets between runs, over that of the labels.
    """

    noise: float
    weights: np.ndarray | None = None
    label_sd: float | None = None
    offset: float = 0.1

    def __post_init__(self) -> None:
        if not (np.isfinite(self.noise) and self.noise > 0):
            raise InputError(
                f"the noise must be a positive sd, got {self.noise:g}; give the sd of repeated "
                "measurements of one sample"
            )
        if self.weights is not None and self.label_sd is not None:
            raise InputError("give the weights or the sd of the labels, not both")
        if self.label_sd is not None and not self.noise < self.label_sd < np.inf:
            raise InputError(
                f"the sd of the labels, {self.label_sd:g}, must be larger than that of their "
                f"noise, {self.noise:g}: labels hold both signal and noise"
            )
        if not (np.isfinite(self.offset) and self.offset >= 0):
            raise InputError(f"the offset must be a share of at least 0, got {self.offset:g}")

    def describe(self) -> str:
        """Say what was assumed about the labels."""
        start = f"Labels: noise of sd {self.noise:g}, "
        if self.weights is not None:
            return start + "and the weights given."
        if self.label_sd is not None:
            return start + (
                f"sd {self.label_sd:g} in all, every direction of the predictions as likely."
            )
        return start + (
            "and nothing is known of the signal: the noise's share of the variance is drawn from "
            "the prior, Beta(0.5, 1), every direction of the predictions as likely. Give the "
            "labels' sd or the weights for an answer about your experiment."
        )

    def draw_weights(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return true weights."""
        if self.weights is not None:
            return self.weights
        settings = Settings()
        if self.label_sd is None:
            share = rng.beta(settings.share_low, settings.share_high)
            # Noise of less than a thousandth of the variance is none to any fit.
            share = max(share, 1e-3)
            signal = self.noise * np.sqrt((1.0 - share) / share)
        else:
            signal = np.sqrt(self.label_sd**2 - self.noise**2)
        spread = X.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        axes = _prediction_axes((X - X.mean(axis=0)) / scale)
        bound = settings.weight_scale * np.hypot(signal, self.noise)
        for _ in range(_TRIES):
            direction = np.asarray(rng.standard_normal(axes.shape[1]))
            w = signal * predict_rows(axes, direction / np.linalg.norm(direction))
            if rng.random() < np.exp(-0.5 * float(np.sum((w / bound) ** 2))):
                break
        return np.where(spread > 0, w / scale, 0.0)


def _prediction_axes(scaled: np.ndarray) -> np.ndarray:
    """Return weights (d, q) whose predictions have variance one and no correlation."""
    values, vectors = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    kept = values > _FLAT * values[-1]
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


@dataclass(frozen=True, eq=False)
class Cell:
    """One kind of bags to be simulated: the run of every row, or sizes to be filled at random."""

    n_runs: int
    kind: str
    has_offsets: bool
    runs: np.ndarray

    def draw_runs(self, rng: np.random.Generator) -> np.ndarray:
        """Return the run of every row in one trial."""
        # Always drawn, so that what follows is the same for every kind.
        shuffled = rng.permutation(self.runs)
        return shuffled if self.kind == "random" else self.runs


@dataclass(frozen=True, eq=False)
class Expectation:
    """What fits of one kind of bags gave, means over trials with their Monte-Carlo errors.

    `error` is |ŵ − w|/|w| with weights in units of w_j sd(x_j). Of every weight, `width` is that
    of its 95 % interval, `sign_known` the chance that its sign is known, and `covered` that the
    interval holds the truth; None where the method has no intervals.

    Examples
    --------
    >>> from unshuffle.design import plan_runs
    >>> X = np.random.default_rng(0).exponential(size=(24, 2))
    >>> plan = plan_runs(X, [2], noise=0.1, label_sd=1.0, trials=2, method="ls", rng=0)
    >>> expected = plan.find(2, "random")
    >>> expected.n_runs, expected.kind, expected.has_offsets
    (2, 'random', False)
    """

    n_runs: int
    kind: str
    has_offsets: bool
    error: float
    error_mc: float
    width: np.ndarray | None = None
    width_mc: np.ndarray | None = None
    sign_known: np.ndarray | None = None
    sign_known_mc: np.ndarray | None = None
    covered: np.ndarray | None = None


def simulate_cells(
    X: np.ndarray,
    cells: Sequence[Cell],
    scenario: Scenario,
    *,
    trials: int,
    options: FitOptions,
    rng: np.random.Generator,
    n_jobs: int | None = None,
    report: Report = say_nothing,
) -> list[Expectation]:
    """Simulate and fit every cell; the same for any number of threads."""
    if trials < 2:
        raise InputError(f"trials must be at least 2, got {trials}: errors need a spread")
    seeds = rng.integers(2**63, size=trials).tolist()
    jobs = [(cell, seed) for seed in seeds for cell in cells]
    done, lock = count(1), Lock()

    def run(job: tuple[Cell, int], stop: Event) -> tuple[float, np.ndarray | None]:
        if stop.is_set():
            return np.nan, None
        found = _run_trial(X, *job, scenario, options)
        with lock:
            report("simulating", next(done) / len(jobs))
        return found

    found = run_all(run, jobs, n_jobs)
    return [_summarise(cell, found[place :: len(cells)]) for place, cell in enumerate(cells)]


def _run_trial(
    X: np.ndarray, cell: Cell, seed: int, scenario: Scenario, options: FitOptions
) -> tuple[float, np.ndarray | None]:
    """Return the error of one fit and, for each weight, (width, sign known, covered)."""
    n, d = X.shape
    rng = np.random.default_rng(seed)
    w = scenario.draw_weights(X, rng)
    y = predict_rows(X, w) + scenario.noise * rng.standard_normal(n)
    offsets = np.asarray(rng.standard_normal(n))
    runs = cell.draw_runs(rng)
    if cell.has_offsets:
        y = y + scenario.offset * y.std() * offsets[: cell.n_runs][runs]
    found = fit_bags(make_bags(X, y, runs), replace(options, n_jobs=1), rng)
    scale = found.facts.scales
    error = np.linalg.norm(scale * (found.coef - w)) / np.linalg.norm(scale * w)
    if None in found.known[:d]:
        return float(error), None
    low, high = found.conf_int().T
    is_known = [each != NOTHING for each in found.known[:d]]
    return float(error), np.stack([high - low, is_known, (low <= w) & (w <= high)])


def _summarise(cell: Cell, found: list[tuple[float, np.ndarray | None]]) -> Expectation:
    errors = np.array([error for error, _ in found])
    root = np.sqrt(len(errors))
    facts = [fact for _, fact in found if fact is not None]
    head = (cell.n_runs, cell.kind, cell.has_offsets)
    tail = (float(errors.mean()), float(errors.std(ddof=1) / root))
    if len(facts) < len(found):
        return Expectation(*head, *tail)
    widths, known, covered = np.stack(facts, axis=1)
    chance = known.mean(axis=0)
    return Expectation(
        *head,
        *tail,
        width=widths.mean(axis=0),
        width_mc=widths.std(axis=0, ddof=1) / root,
        sign_known=chance,
        # As if one trial more of each kind had been seen: none in twenty is no certainty.
        sign_known_mc=np.sqrt(_blur(chance, root**2) * (1 - _blur(chance, root**2))) / root,
        covered=covered.mean(axis=0),
    )


def _blur(chance: np.ndarray, trials: float) -> np.ndarray:
    return np.asarray((chance * trials + 1.0) / (trials + 2.0))
