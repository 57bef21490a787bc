"""The result of a fit, from which estimator, command line, report and JSON all speak."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unshuffle.answers.known import doubtful_weights, judge_weights
from unshuffle.answers.matching import Match, fingerprint, match_labels
from unshuffle.answers.prediction import predict_ends, predict_sds
from unshuffle.answers.summary import Summary, summarise
from unshuffle.answers.verdict import (
    Facts,
    check_level,
    competing_answers,
    describe_misfit,
    is_identified,
    make_intervals,
    model_fits,
)
from unshuffle.core.bags import Bag, Bags, join_bags, make_bags
from unshuffle.core.checks import check_values
from unshuffle.core.labels import Histogram
from unshuffle.core.noise import as_noise
from unshuffle.core.options import FitOptions, make_rng
from unshuffle.core.pairing import Pairing, Permutation
from unshuffle.core.products import predict_rows
from unshuffle.core.progress import Report, say_nothing
from unshuffle.core.scaling import column_spreads
from unshuffle.core.solution import Candidate, OffsetLaw, Solution, Status
from unshuffle.core.sources import ArraySource, Source, number_bags
from unshuffle.core.strategy import Strategy
from unshuffle.core.uncertainty import Posterior
from unshuffle.errors import InputError, ModelMisfitWarning
from unshuffle.methods import find_block_settings, solve_bags, solve_source

# No method keeps tables of matches of more rows than this.
_REMEMBERED_ROWS = 1000


@dataclass(frozen=True, eq=False)
class Fit:
    """A solution with everything that is to be said of it.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.exponential(size=(60, 1))
    >>> found = fit([Bag(X, rng.permutation(2 * X[:, 0] + 1))], method="ls", rng=1)
    >>> found.coef.round(3).tolist(), round(found.intercept, 3), found.method
    ([2.0], 1.0, 'ls')
    """

    solution: Solution
    facts: Facts
    options: FitOptions
    # Tells whether bags to be matched are those of the fit; None where nothing hangs on it.
    fingerprint: str | None = None

    @property
    def method(self) -> str:
        """The method used, where another one chose it."""
        return self.facts.method

    @property
    def weights(self) -> np.ndarray:
        """The estimated weights, the intercept last."""
        return self.solution.weights

    @property
    def coef(self) -> np.ndarray:
        """The estimated weights of the features."""
        return self.weights[: len(self.facts.scales)]

    @property
    def intercept(self) -> float:
        """The estimated intercept, 0.0 without one."""
        return float(self.weights[-1]) if self.options.fit_intercept else 0.0

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Competing answers, best first."""
        return self.solution.candidates

    @property
    def status(self) -> Status:
        """How the solver ended; its value is a sentence of advice."""
        return self.solution.status

    @property
    def stats(self) -> Any:
        """What the solver counted."""
        return self.solution.stats

    @property
    def value(self) -> float:
        """The value of the best candidate."""
        return self.solution.value

    @property
    def start_values(self) -> np.ndarray:
        """The final value of every start, best first."""
        return self.solution.start_values

    @property
    def noise(self) -> float | None:
        """Sd of the noise, given or estimated; None where the method has none."""
        return self.facts.noise

    @property
    def posterior(self) -> Posterior | None:
        """Weighted draws of weights and noise, where the method has them."""
        unsure = self.solution.uncertainty
        return unsure if isinstance(unsure, Posterior) else None

    @property
    def offsets(self) -> OffsetLaw | None:
        """What is known of offsets between bags; None for one bag, or where the method has none."""
        return self.solution.offsets

    @property
    def pairing(self) -> Pairing:
        """How rows and labels belong together; its sentence says what follows from it."""
        return self.facts.pairing

    @property
    def n_labels(self) -> int:
        """Number of labels; it may differ from that of rows."""
        return self.facts.n if self.facts.n_labels is None else self.facts.n_labels

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was handled but should be known, each one sentence."""
        return tuple(self.stats.get("remarks", ()))

    @property
    def is_converged(self) -> bool:
        """Whether the search ended as it should; that the model fits is another thing."""
        return not self.status.is_doubtful

    @property
    def identified(self) -> bool | None:
        """Whether the posterior stays near the estimate; None without a posterior."""
        return is_identified(self.solution, self.facts.scales)

    @property
    def model_fits(self) -> bool | None:
        """Whether the labels look as the model predicts; None where nobody looked."""
        return model_fits(self.solution)

    @property
    def misfits(self) -> tuple[str, ...]:
        """In what the labels do not look as the model predicts, if anybody looked."""
        return self.solution.misfits or ()

    @property
    def known(self) -> tuple[str | None, ...]:
        """What is known of each weight ("sign and size", "sign", "no"); None without intervals."""
        return judge_weights(self.solution)

    @property
    def competing(self) -> tuple[Candidate, ...]:
        """The candidates worth a reader's time, best first."""
        return competing_answers(self.solution)

    @property
    def doubtful(self) -> list[int]:
        """Positions of the weights that text, tables and pictures show as known least."""
        return doubtful_weights(self.solution, self.facts.scales)

    def conf_int(self, level: float = 0.95, intercept: bool = False) -> np.ndarray:
        """Return one row (low, high) per feature, and one for the intercept where asked."""
        ends = make_intervals(self.solution, self.method, level)
        return ends if intercept else ends[: len(self.facts.scales)]

    def summary(self, level: float = 0.95) -> Summary:
        """Return estimate, intervals, noise and verdict: print it, or use its `to_…` methods."""
        return summarise(self.solution, self.facts, check_level(level))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return X w + b for each row."""
        return predict_rows(X, self.coef) + self.intercept

    def predict_sd(self, X: np.ndarray) -> np.ndarray:
        """Return the sd of a new label at each row, noise included."""
        return predict_sds(self.solution, self.facts, X)

    def predict_interval(
        self, X: np.ndarray, level: float = 0.95, new_label: bool = False
    ) -> np.ndarray:
        """Return (low, high) for each row: of the prediction, or of a new label there."""
        return predict_ends(self.solution, self.facts, X, check_level(level), new_label)

    def match(self, bags: Bags) -> Match:
        """Return which label most probably belongs to which row, and how sure that is."""
        posterior, tables = self.posterior, None
        if self.fingerprint is not None and fingerprint(bags) == self.fingerprint:
            tables = self.stats.get("match_probabilities")
        if posterior is not None and posterior.is_thin:
            tables = None  # runs that disagree are no exact answer; the wider draws are kept
        return match_labels(
            bags, self.coef, self.intercept, posterior, tables=tables, method=self.method
        )


def as_fit(fitted: Any) -> Fit:
    """Return the result behind a fitted estimator, or the result itself."""
    if isinstance(fitted, Fit):
        return fitted
    if hasattr(fitted, "get_params"):  # of scikit-learn, which is slow to import
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(fitted)
    found = getattr(fitted, "result_", None)
    if not isinstance(found, Fit):
        raise InputError(
            f"this needs a fitted ShuffledLinearRegression, got {type(fitted).__name__}: of a "
            "pipeline give its last step, with X as the steps before it return it"
        )
    return found


def fit(
    bags: Iterable[Bag],
    *,
    same_individuals: bool | None = None,
    rng: np.random.Generator | int | None = None,
    **options: Any,
) -> Fit:
    """Fit separate bags; the other options are those of `ShuffledLinearRegression`.

    `same_individuals` says whether rows and labels of a bag are the same individuals, some of
    whose labels may be missing, or separate samples of one population. It changes model and
    intervals. None means the same individuals where the numbers of rows and labels agree in every
    bag, and separate samples otherwise.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.exponential(size=(200, 2))
    >>> bags = [Bag(X[:100], rng.permutation(X[:100] @ [1.0, 2.0])),
    ...         Bag(X[100:], rng.permutation(X[100:] @ [1.0, 2.0]))]
    >>> fit(bags, method="ls", rng=1).weights.round(3).tolist()
    [1.0, 2.0, 0.0]
    """
    bags = list(bags)
    joined = join_bags(bags, same_individuals)
    for r, bag in enumerate(bags):
        # The edges and counts of a histogram were checked when it was made.
        y = np.empty(0) if isinstance(bag.y, Histogram) else bag.y
        check_values(bag.X, y, place=f"bag {r}, ")
    found = fit_bags(joined, FitOptions(**options), make_rng(rng))
    warn_once(found, stacklevel=2)
    return found


def fit_bags(
    bags: Bags,
    options: FitOptions,
    rng: np.random.Generator,
    names: Sequence[str] | None = None,
    report: Report = say_nothing,
    sources: Sequence[str] | None = None,
) -> Fit:
    """Fit bags and gather what is to be said.

    Remarks and tables call the columns by their `names`, or by number; `sources` are what the
    columns were made from, where that is another thing.
    """
    # Masses are whole numbers, whose sums are exact in any order.
    facts = _describe(
        names,
        sources,
        options,
        scales=_measure_scales(bags, options),
        n=int(bags.rows.totals.sum()),
        n_bags=bags.n_homes,
        n_anchors=bags.n_anchors,
        n_labels=int(bags.labels.totals.sum()),
        pairing=bags.pairing,
        constants=_find_constants(bags),
    )
    # Tables of matches are made of few rows only: hashing many would be for nothing.
    mark = fingerprint(bags) if facts.n <= _REMEMBERED_ROWS else None
    data = [bags]
    del bags  # the solver lets go of what it no longer needs
    solution, method = solve_bags(data.pop(), options, rng, names, report)
    has_tables = "match_probabilities" in solution.stats
    return _gather(solution, facts, method, options, mark if has_tables else None)


def fit_table(
    X: np.ndarray,
    y: np.ndarray,
    groups: Sequence[Hashable] | np.ndarray | None,
    options: FitOptions,
    rng: np.random.Generator,
    names: Sequence[str] | None = None,
    report: Report = say_nothing,
    sources: Sequence[str] | None = None,
    anchors: Any = None,
) -> Fit:
    """Fit one label for each row, in blocks where there are many and no link is known."""
    settings = find_block_settings(options, len(y))
    if settings is None or anchors is not None or options.mislinked is not None:
        return fit_bags(make_bags(X, y, groups, anchors), options, rng, names, report, sources)
    codes, n_bags = number_bags(groups, len(y))
    n_jobs = None if options.n_jobs is None else int(options.n_jobs)
    return fit_source(
        ArraySource(X, y, codes, n_bags, n_jobs), options, settings, rng, names, report, sources
    )


def fit_source(
    source: Source,
    options: FitOptions,
    settings: Strategy,
    rng: np.random.Generator,
    names: Sequence[str] | None = None,
    report: Report = say_nothing,
    sources: Sequence[str] | None = None,
) -> Fit:
    """Fit data in blocks: see `methods.find_block_settings`."""
    solution, first = solve_source(source, options, settings, rng, names, report)
    scales = first.spreads(first.mean)
    if not options.fit_intercept:
        is_flat = scales == 0
        scales[is_flat] = np.abs(first.column_ends[is_flat]).max(axis=1, initial=0.0)
    low, high = first.column_ends.T
    facts = _describe(
        names,
        sources,
        options,
        scales=scales,
        n=first.n,
        n_bags=len(first.sizes),
        n_labels=first.n,
        pairing=Permutation(),
        constants=tuple((int(j), float(low[j])) for j in np.flatnonzero(low == high)),
    )
    return _gather(solution, facts, settings.name, options)


def _describe(
    names: Sequence[str] | None,
    sources: Sequence[str] | None,
    options: FitOptions,
    *,
    scales: np.ndarray,
    **facts: Any,
) -> Facts:
    """Gather what is known of the data before any method is."""
    shown = [f"x{j}" for j in range(len(scales))] if names is None else names
    return Facts(
        method="",
        names=(*map(str, shown), *(("intercept",) if options.fit_intercept else ())),
        scales=scales,
        noise=None,
        sources=None if sources is None else tuple(map(str, sources)),
        **facts,
    )


def _gather(
    solution: Solution, facts: Facts, method: str, options: FitOptions, mark: str | None = None
) -> Fit:
    """Add what a solver found to what is known of the data."""
    given, unsure = as_noise(options.noise), solution.uncertainty
    noise = given.sd if given is not None else None if unsure is None else unsure.noise
    told = replace(facts, method=method, noise=noise, is_noise_given=given is not None)
    return Fit(solution, told, options, mark)


def _measure_scales(bags: Bags, options: FitOptions) -> np.ndarray:
    """Return the spreads of the columns: the verdict measures weights in units of w_j sd(x_j).

    Taken from the canonical rows, since a sum depends on its order in the last bit.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the solver refuses such columns
        scales = column_spreads(bags)
    if not options.fit_intercept:
        # A constant column serves as the intercept: its weight must not go unjudged.
        is_flat = scales == 0
        scales[is_flat] = np.abs(bags.X[:, is_flat]).max(axis=0, initial=0.0)
    return scales


def _find_constants(bags: Bags) -> tuple[tuple[int, float], ...]:
    """Return the columns that do not vary, each with its value."""
    low, high = bags.X.min(axis=0), bags.X.max(axis=0)
    return tuple((int(j), float(low[j])) for j in np.flatnonzero(low == high))


def warn_once(found: Fit, stacklevel: int) -> None:
    """Say at most one thing about convergence, one about the model and one about the data."""
    from sklearn.exceptions import ConvergenceWarning  # slow to import

    misfit = describe_misfit(found.solution)
    said = [
        (None if found.is_converged else found.status.value, ConvergenceWarning),
        (misfit, ModelMisfitWarning),
        (" ".join(found.remarks), UserWarning),
    ]
    for text, category in said:
        if text:
            warnings.warn(text, category, stacklevel=stacklevel + 1)
