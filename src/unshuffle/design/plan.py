"""Plans: designed bags, and the errors to be expected of them and of random bags."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unshuffle.design.assignment import (
    Assignment,
    assess_runs,
    assign_runs,
    check_rows,
    choose_spread,
)
from unshuffle.design.simulation import (
    SIMULATION,
    Cell,
    Expectation,
    Scenario,
    simulate_cells,
)
from unshuffle.design.words import compare_runs, describe_bags
from unshuffle.errors import InputError
from unshuffle.options import FitOptions, make_rng
from unshuffle.progress import Report, say_nothing

DESIGNED, RANDOM, GIVEN = "designed", "random", "given"


@dataclass(frozen=True, eq=False)
class Plan:
    """Assignments by number of runs, and what is to be expected of them.

    Attributes
    ----------
    names : tuple of str
        Names of the features.
    assignments : mapping of int to Assignment
        The designed bags by number of runs.
    expectations : tuple of Expectation
        One for every number of runs, kind of bags, and whether runs were offset.
    verdict : tuple of str
        What follows, in sentences.
    notes : tuple of str
        What was assumed, in sentences.
    trials : int
        Most experiments simulated for each kind of bags.

    Examples
    --------
    >>> X = np.random.default_rng(0).exponential(size=(24, 2))
    >>> plan = plan_runs(X, [2, 4], noise=0.1, label_sd=1.0, trials=2, method="ls", rng=0)
    >>> sorted(plan.assignments), plan.trials
    ([2, 4], 2)
    """

    names: tuple[str, ...]
    assignments: Mapping[int, Assignment]
    expectations: tuple[Expectation, ...]
    verdict: tuple[str, ...]
    notes: tuple[str, ...]
    trials: int

    def find(self, n_runs: int, kind: str, has_offsets: bool = False) -> Expectation:
        """Return what is expected of so many runs of a kind.

        Parameters
        ----------
        n_runs : int
            Number of runs.
        kind : str
            "designed", "random" or "given".
        has_offsets : bool, default=False
            Whether runs were offset.

        Returns
        -------
        Expectation
            Errors, widths and coverage.

        Raises
        ------
        InputError
            Where that was not simulated.

        Examples
        --------
        >>> X = np.random.default_rng(0).exponential(size=(24, 2))
        >>> plan = plan_runs(X, [2], noise=0.1, label_sd=1.0, trials=2, method="ls", rng=0)
        >>> plan.find(2, "designed").n_runs
        2
        """
        for each in self.expectations:
            if (each.n_runs, each.kind, each.has_offsets) == (n_runs, kind, has_offsets):
                return each
        raise InputError(f"{n_runs} {kind} runs were not simulated")

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the assignments as what JSON holds.

        Returns
        -------
        dict
            Verdict, notes, designs and expectations.

        Examples
        --------
        >>> X = np.random.default_rng(0).exponential(size=(24, 2))
        >>> plan = plan_runs(X, [2], noise=0.1, label_sd=1.0, trials=2, method="ls", rng=0)
        >>> sorted(plan.to_dict())
        ['designs', 'expectations', 'notes', 'trials', 'verdict']
        """
        return {
            "verdict": list(self.verdict),
            "notes": list(self.notes),
            "trials": self.trials,
            "designs": {
                str(n_runs): {"sizes": found.sizes.tolist(), "shares": found.shares.tolist()}
                for n_runs, found in self.assignments.items()
            },
            "expectations": [self._as_object(each) for each in self.expectations],
        }

    def _as_object(self, found: Expectation) -> dict[str, Any]:
        named: dict[str, Any] = {}
        for j, name in enumerate(self.names):
            named[name] = {
                key: None if values is None else float(values[j])
                for key, values in (
                    ("width", found.width),
                    ("width_mc", found.width_mc),
                    ("sign_known", found.sign_known),
                    ("sign_known_mc", found.sign_known_mc),
                    ("covered", found.covered),
                )
            }
        return {
            "runs": found.n_runs,
            "bags": found.kind,
            "offsets": found.has_offsets,
            "error": found.error,
            "error_mc": found.error_mc,
            "trials": found.trials,
            "weights": named,
        }

    def __str__(self) -> str:
        lines = [*self.verdict, "", f"{'runs':>4}  {'bags':<8}  {'offsets':<7}  error"]
        lines += [
            f"{each.n_runs:>4}  {each.kind:<8}  {'yes' if each.has_offsets else 'no':<7}  "
            f"{each.error:.3g} ± {each.error_mc:.2g}"
            for each in self.expectations
        ]
        return "\n".join([*lines, "", *self.notes])


def plan_runs(
    X: Any,
    runs: Sequence[int] = (1, 2, 4, 8),
    *,
    noise: float,
    label_sd: float | None = None,
    weights: Sequence[float] | None = None,
    offset: float = 0.1,
    sizes: Sequence[int] | None = None,
    capacities: int | Sequence[int] | None = None,
    together: Any = None,
    spread: float | None = None,
    names: Sequence[str] | None = None,
    bag_offsets: Any = None,
    trials: int = SIMULATION.trials,
    rng: np.random.Generator | int | None = None,
    n_jobs: int | None = None,
    report: Report = say_nothing,
    **options: Any,
) -> Plan:
    """Design bags for each number of runs, and simulate the errors of these and of random bags.

    Parameters
    ----------
    X : array (n, d)
        The features of the samples, known before the experiment.
    runs : sequence of int, default=(1, 2, 4, 8)
        Numbers of runs.
    noise : float
        Sd of the noise of a label.
    label_sd, weights : optional
        The sd of the labels, or the coefficients that are expected (one for each feature). Without
        either the noise's share of the variance is drawn from the prior, and a note says so.
    offset : float
        Sd of the offsets between runs that are simulated besides, over the sd of the labels.
    sizes, capacities, together, spread : optional
        As in `assign_runs`; without a `spread` it is that of `choose_spread`.
    names : sequence of str, optional
        Names of the features.
    bag_offsets : optional
        What the fits know of offsets, as in `ShuffledLinearRegression`. None: of runs without
        offsets they know that there are none, with offsets they must find out.
    trials : int
        Most experiments simulated for each kind of bags; fewer where its error is known to 15 %.
    rng : None, int or Generator, default=None
        Seed of designs and simulations.
    n_jobs : int or None, default=None
        Threads; the result is the same for every number.
    report : callable, optional
        Told the stage, and the share of all that is done.
    **options
        How they are fitted, as in `ShuffledLinearRegression`.

    Returns
    -------
    Plan
        Designed bags, and the error to be expected of them and of random bags.

    Raises
    ------
    InputError
        For features and numbers of runs that make no sense.

    Examples
    --------
    >>> X = np.random.default_rng(0).exponential(size=(24, 2))
    >>> plan = plan_runs(X, [2], noise=0.1, label_sd=1.0, trials=2, method="ls", rng=0)
    >>> plan.assignments[2].sizes.tolist(), plan.find(2, "designed").error < 1
    ([12, 12], True)
    """
    rows = check_rows(X)
    scenario = _make_scenario(rows, noise, label_sd, weights, offset)
    numbers = _check_numbers(runs, len(rows), sizes)
    rng = make_rng(rng)
    limits: dict[str, Any] = {"sizes": sizes, "capacities": capacities, "together": together}
    assignments = {}
    for place, n_runs in enumerate(numbers):
        report("designing", place / len(numbers))
        width = choose_spread(rows, n_runs) if spread is None else spread
        assignments[n_runs] = assign_runs(rows, n_runs, **limits, spread=width, rng=rng)
    order, note = _sample_rows(rows, assignments[max(numbers)].runs, rng)
    cells = _list_cells(assignments, order, offset > 0)
    asked = FitOptions(**options, bag_offsets=bag_offsets)
    found = simulate_cells(
        rows[order], cells, scenario, trials=trials, rng=rng, n_jobs=n_jobs, report=report,
        options=asked,
    )  # fmt: skip
    shown = _check_names(names, rows.shape[1])
    verdict = compare_runs(found, shown, scenario.offset)
    notes = (*_describe(scenario, found, asked), *note)
    return Plan(shown, assignments, tuple(found), verdict, notes, trials)


def assess_bags(
    X: Any,
    groups: Any,
    *,
    noise: float,
    label_sd: float | None = None,
    weights: Sequence[float] | None = None,
    offset: float = 0.1,
    names: Sequence[str] | None = None,
    bag_offsets: Any = None,
    trials: int = SIMULATION.trials,
    rng: np.random.Generator | int | None = None,
    n_jobs: int | None = None,
    report: Report = say_nothing,
    **options: Any,
) -> Plan:
    """Simulate the errors of bags that exist, beside random and designed bags of their sizes.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The features of the samples.
    groups : sequence of n hashable labels
        The bag of each sample.
    noise : float
        Sd of the noise of a label.
    label_sd, weights : optional
        As in `plan_runs`.
    offset : float, default=0.1
        As in `plan_runs`.
    names : sequence of str, optional
        Names of the features.
    bag_offsets : optional
        As in `plan_runs`.
    trials : int
        Most experiments simulated for each kind of bags.
    rng : None, int or Generator, default=None
        Seed of designs and simulations.
    n_jobs : int or None, default=None
        Threads; the result is the same for every number.
    report : callable, optional
        Told the stage, and the share of all that is done.
    **options
        How they are fitted, as in `ShuffledLinearRegression`.

    Returns
    -------
    Plan
        The error to be expected of the bags given, of random and of designed bags.

    Examples
    --------
    >>> X = np.random.default_rng(0).exponential(size=(24, 2))
    >>> plan = assess_bags(X, [0, 1] * 12, noise=0.1, label_sd=1.0, trials=2, method="ls", rng=0)
    >>> sorted({each.kind for each in plan.expectations})
    ['designed', 'given', 'random']
    """
    rows = check_rows(X)
    scenario = _make_scenario(rows, noise, label_sd, weights, offset)
    rng = make_rng(rng)
    given = assess_runs(rows, _number_bags(rows, groups))
    report("designing", 0.0)
    spread = choose_spread(rows, given.n_runs)
    designed = assign_runs(rows, sizes=given.sizes.tolist(), spread=spread, rng=rng)
    order, note = _sample_rows(rows, given.runs, rng)
    has_offsets = (False, True) if offset > 0 and given.n_runs > 1 else (False,)
    kinds = {GIVEN: given, RANDOM: given, DESIGNED: designed}
    cells = [
        Cell(given.n_runs, kind, has, found.runs[order])
        for kind, found in kinds.items()
        for has in has_offsets
        if kind == GIVEN or given.n_runs > 1
    ]
    asked = FitOptions(**options, bag_offsets=bag_offsets)
    found = simulate_cells(
        rows[order], cells, scenario, trials=trials, rng=rng, n_jobs=n_jobs, report=report,
        options=asked,
    )  # fmt: skip
    shown = _check_names(names, rows.shape[1])
    verdict = describe_bags(found, shown, scenario.offset)
    notes = (*_describe(scenario, found, asked), *note)
    return Plan(shown, {given.n_runs: designed}, tuple(found), verdict, notes, trials)


def _make_scenario(
    X: np.ndarray, noise: float, label_sd: float | None, weights: Any, offset: float
) -> Scenario:
    given = None if weights is None else np.asarray(weights, dtype=float)
    if given is not None:
        if given.shape != (X.shape[1],):
            raise InputError(f"there are {given.size} weights for {X.shape[1]} features")
        if not np.isfinite(given).all() or not (given[np.ptp(X, axis=0) > 0] != 0).any():
            raise InputError("the weights must be finite and not all zero: there is no signal else")
    return Scenario(noise, given, label_sd, offset)


def _check_numbers(runs: Sequence[int], n: int, sizes: Sequence[int] | None) -> list[int]:
    """Return the numbers of runs, each once and in order."""
    numbers = sorted(set(np.atleast_1d(np.asarray(runs)).tolist()))
    if not numbers:
        raise InputError("no number of runs is given; give some, such as 1, 2, 4, 8")
    if sizes is not None and len(numbers) > 1:
        raise InputError("sizes are those of one number of runs; give one number, or no sizes")
    too_many = [each for each in numbers if each > n]
    if too_many:
        raise InputError(f"{too_many[0]} runs are more than the {n} samples; plan at most {n} runs")
    return numbers


def _check_names(names: Sequence[str] | None, d: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"x{j}" for j in range(d))
    if len(names) != d:
        raise InputError(f"there are {len(names)} names for {d} features")
    return tuple(map(str, names))


def _number_bags(X: np.ndarray, groups: Any) -> np.ndarray:
    """Return the number of every sample's bag, whatever bags are called and rows are ordered."""
    names = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
    if len(names) != len(X):
        raise InputError(f"there are {len(names)} entries of groups for {len(X)} samples")
    codes: dict[Hashable, int] = {}
    for i in np.lexsort(X.T[::-1]).tolist():
        codes.setdefault(names[i], len(codes))
    return np.array([codes[name] for name in names], dtype=np.int64)


def _sample_rows(
    X: np.ndarray, runs: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the rows to simulate on in canonical order, and a note where they are not all."""
    order = np.lexsort(X.T[::-1])
    n = len(order)
    if n <= SIMULATION.most_rows:
        return order, ()
    # Every so many of the rows sorted by run: each run keeps its share.
    shuffled = order[rng.permutation(n)]
    by_run = shuffled[np.argsort(runs[shuffled], kind="stable")]
    kept = by_run[(np.arange(SIMULATION.most_rows) * n) // SIMULATION.most_rows]
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    return kept[np.argsort(place[kept])], (
        f"Simulated on {SIMULATION.most_rows} of the {n} rows; with all of them errors will be "
        "smaller.",
    )


def _list_cells(
    assignments: Mapping[int, Assignment], order: np.ndarray, has_offsets: bool
) -> list[Cell]:
    """Return what is simulated: every number of runs, and twice the largest at random.

    One run has neither design nor offsets.
    """
    cells = []
    for n_runs, found in assignments.items():
        runs = _renumber_runs(found.runs[order])
        if n_runs == 1:
            cells.append(Cell(1, RANDOM, False, runs))
            continue
        cells += [
            Cell(n_runs, kind, has, runs)
            for kind in (RANDOM, DESIGNED)
            for has in ((False, True) if has_offsets else (False,))
        ]
    most = max(assignments)
    if most > 1 and 4 * most <= len(order):
        twice = np.arange(len(order)) % (2 * most)
        cells += [
            Cell(2 * most, RANDOM, has, twice)
            for has in ((False, True) if has_offsets else (False,))
        ]
    return cells


def _renumber_runs(runs: np.ndarray) -> np.ndarray:
    """Number runs without gaps: sampling may have emptied one."""
    return np.unique(runs, return_inverse=True)[1]


def _describe(
    scenario: Scenario, found: Sequence[Expectation], options: FitOptions
) -> tuple[str, ...]:
    """Say what was assumed, how often it was simulated, and what the fits knew of offsets."""
    numbers = sorted({each.trials for each in found})
    shown = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    known = (
        "Fits of runs without offsets knew that there are none; set bag_offsets='none' in yours. "
        "With offsets they had to estimate them."
    )
    # Other methods know of no offsets.
    is_known = options.bag_offsets is None and options.method in ("auto", "likelihood")
    return (
        scenario.describe(),
        f"{shown} experiments were simulated for each kind of bags, until its error was known to "
        f"{SIMULATION.precision:.0%} or there were enough; ± is the Monte Carlo error.",
        *([known] if is_known and found[-1].n_runs > 1 else []),
    )
