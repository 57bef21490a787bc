"""Monte Carlo simulation of an experiment on its own rows, before it is run.

Each trial draws weights, noise and offsets and fits the labels as the experiment would. All kinds
of bags share these draws (common random numbers), so that differences are those of the bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from threading import Event, Lock

import numpy as np

from unshuffle.data.bags import make_bags
from unshuffle.data.products import FLAT, predict_rows
from unshuffle.errors import InputError
from unshuffle.inference.likelihood import Likelihood
from unshuffle.model.settings import Settings
from unshuffle.options import FitOptions, check_options
from unshuffle.progress import Report, say_nothing
from unshuffle.results.determined import UNDETERMINED
from unshuffle.results.fit import fit_bags
from unshuffle.threads import run_all

# A simulation averages over many fits, each of which may be rougher than the one that counts.
_QUICK = Likelihood(n_starts=24, n_draws=200, target_draws=100.0, least_draws=50.0)


@dataclass(frozen=True)
class SimulationSettings:
    """The size of a simulation.

    Attributes
    ----------
    trials : int
        Most trials. Errors of one and two runs are then known to a quarter, of more to an eighth.
    precision : float
        A number of runs ends once all its mean errors are known to this share of themselves.
    most_rows : int
        Of more rows a sample is simulated, the same share of each run: a fit of these takes about a
        second.
    """

    trials: int = 12
    precision: float = 0.15
    most_rows: int = 1000


SIMULATION = SimulationSettings()


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
            raise InputError(
                f"the offset must be a share of the labels' sd, at least 0, got {self.offset:g}; "
                "give 0 to leave offsets out"
            )

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
        # All but hopelessly collinear columns need a few tries for weights inside the bound.
        for _ in range(200):
            direction = np.asarray(rng.standard_normal(axes.shape[1]))
            w = signal * predict_rows(axes, direction / np.linalg.norm(direction))
            if rng.random() < np.exp(-0.5 * float(np.sum((w / bound) ** 2))):
                break
        return np.where(spread > 0, w / scale, 0.0)


def _prediction_axes(scaled: np.ndarray) -> np.ndarray:
    """Return weights (d, q) whose predictions have variance one and no correlation."""
    values, vectors = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    kept = values > FLAT * values[-1]
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
    """What fits of one kind of bags gave, means over trials with their Monte Carlo errors.

    Attributes
    ----------
    n_runs : int
        Number of runs.
    kind : str
        "designed", "random" or "given".
    has_offsets : bool
        Whether runs were offset.
    errors : ndarray of shape (trials,)
        Error of each simulated experiment, |ŵ − w|/|w| with coefficients in units of w_j sd(x_j).
    width, width_mc : ndarray of shape (d,) or None
        Width of each 95 % interval, with its Monte-Carlo error; None for methods without intervals.
    sign_known, sign_known_mc : ndarray of shape (d,) or None
        Chance that the sign of each coefficient is determined, with its Monte Carlo error.
    covered : ndarray of shape (d,) or None
        Share of intervals that contain the truth.

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
    errors: np.ndarray
    width: np.ndarray | None = None
    width_mc: np.ndarray | None = None
    sign_known: np.ndarray | None = None
    sign_known_mc: np.ndarray | None = None
    covered: np.ndarray | None = None

    @property
    def trials(self) -> int:
        """Number of trials."""
        return len(self.errors)

    @property
    def error(self) -> float:
        """Mean error."""
        return float(self.errors.mean())

    @property
    def error_mc(self) -> float:
        """Standard error of the mean."""
        return float(self.errors.std(ddof=1) / np.sqrt(self.trials))


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
    """Simulate and fit every cell, at most so many times; the same for any number of threads.

    Trial t of every cell has the same weights, noise and offsets. The cells of a number of runs end
    together once all their errors are precise enough: errors have long tails, and those of other
    trials would be those of other weights. What is reported as done assumes that no more will end.
    """
    check_options(replace(options, n_jobs=n_jobs))
    if trials < 2:
        raise InputError(f"trials must be at least 2, got {trials}: errors need a spread")
    seeds = rng.integers(2**63, size=trials).tolist()
    found: list[list[tuple[float, np.ndarray | None]]] = [[] for _ in cells]
    going, begun, n_done = list(range(len(cells))), 0, 0
    while going and begun < trials:
        # Every kind of bags has eight trials; those that go on have four more between two looks.
        ended = min(begun + (4 if begun else 8), trials)
        jobs = [(cells[place], seed) for seed in seeds[begun:ended] for place in going]
        share = n_done / (n_done + len(going) * (trials - begun))
        step = (1.0 - share) / (len(going) * (trials - begun))
        results = _run_jobs(X, jobs, scenario, options, n_jobs, report, (share, step))
        for at, place in enumerate(going):
            found[place] += results[at :: len(going)]
        begun, n_done = ended, n_done + len(jobs)
        rough = {cells[place].n_runs for place in going if _is_imprecise(found[place])}
        going = [place for place in going if cells[place].n_runs in rough]
    report("simulating", 1.0)
    return [_summarise(cell, own) for cell, own in zip(cells, found, strict=True)]


def _run_jobs(
    X: np.ndarray,
    jobs: Sequence[tuple[Cell, int]],
    scenario: Scenario,
    options: FitOptions,
    n_jobs: int | None,
    report: Report,
    progress: tuple[float, float],
) -> list[tuple[float, np.ndarray | None]]:
    """Run trials in threads; `progress` is the share of all work that was done, and of each."""
    done, lock = count(1), Lock()
    start, step = progress

    def run(job: tuple[Cell, int], stop: Event) -> tuple[float, np.ndarray | None]:
        if stop.is_set():
            return np.nan, None
        found = _run_trial(X, *job, scenario, options)
        with lock:
            report("simulating", min(start + step * next(done), 1.0))
        return found

    return run_all(run, jobs, n_jobs)


def _is_imprecise(found: list[tuple[float, np.ndarray | None]]) -> bool:
    """Return whether the mean error is known too roughly to end."""
    errors = np.array([error for error, _ in found])
    return bool(errors.std(ddof=1) / np.sqrt(len(errors)) > SIMULATION.precision * errors.mean())


def _choose_options(options: FitOptions, cell: Cell, n: int) -> FitOptions:
    """Return how a trial is fitted: as asked, by the likelihood with less effort.

    Without `bag_offsets`, fits of runs without offsets know that there are none.
    """
    if options.bag_offsets is None:
        options = replace(options, bag_offsets="auto" if cell.has_offsets else "none")
    is_default = options.method in ("auto", "likelihood") and not (options.l1 or options.l2)
    if is_default and cell.n_runs < n:
        return replace(options, method=_QUICK, n_jobs=1)
    return replace(options, n_jobs=1)


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
    found = fit_bags(make_bags(X, y, runs), _choose_options(options, cell, n), rng)
    scale = found.facts.scales
    error = np.linalg.norm(scale * (found.coef - w)) / np.linalg.norm(scale * w)
    if None in found.known[:d]:
        return float(error), None
    low, high = found.conf_int().T
    is_known = [each != UNDETERMINED for each in found.known[:d]]
    return float(error), np.stack([high - low, is_known, (low <= w) & (w <= high)])


def _summarise(cell: Cell, found: list[tuple[float, np.ndarray | None]]) -> Expectation:
    errors = np.array([error for error, _ in found])
    root = np.sqrt(len(errors))
    facts = [fact for _, fact in found if fact is not None]
    head = (cell.n_runs, cell.kind, cell.has_offsets, errors)
    if len(facts) < len(found):
        return Expectation(*head)
    widths, known, covered = np.stack(facts, axis=1)
    chance = known.mean(axis=0)
    return Expectation(
        *head,
        width=widths.mean(axis=0),
        width_mc=widths.std(axis=0, ddof=1) / root,
        sign_known=chance,
        # As if one trial more of each kind had been seen: none in twenty is no certainty.
        sign_known_mc=np.sqrt(
            _shrink_chance(chance, root**2) * (1 - _shrink_chance(chance, root**2))
        )
        / root,
        covered=covered.mean(axis=0),
    )


def _shrink_chance(chance: np.ndarray, trials: float) -> np.ndarray:
    return np.asarray((chance * trials + 1.0) / (trials + 2.0))
