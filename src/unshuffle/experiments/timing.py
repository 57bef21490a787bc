"""Expected and measured times of experiments.

A row's time is expected from its settings (`Experiment.seconds`) times a factor for its experiment
and method, kept in `times.csv`. The factors are measured: `benchmarks/reproduction_times.py` writes
that file from the folder of a run. They weigh the progress bar and make the times of --list,
nothing else.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from unshuffle.experiments import load_experiment
from unshuffle.experiments.rows import Row, Settings

if TYPE_CHECKING:
    from unshuffle.experiments.runner import Task

FILE = "times.csv"
COLUMNS = ("experiment", "method", "factor")


def expected_seconds(tasks: Iterable[Task]) -> float:
    """Estimate the time of these rows on one core."""
    return sum(
        load_experiment(task.experiment).seconds(task.settings)
        * load_factors().get((task.experiment, _method(task.settings)), 1.0)
        for task in tasks
    )


@cache
def load_factors() -> dict[tuple[str, str], float]:
    """Return measured over modelled time, by experiment and method."""
    text = files("unshuffle.experiments").joinpath(FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {(row["experiment"], row["method"]): float(row["factor"]) for row in rows}


def measure_factors(name: str, rows: Iterable[Row]) -> dict[str, float]:
    """Return measured over modelled time of an experiment's rows, by method."""
    measured: dict[str, float] = defaultdict(float)
    modelled: dict[str, float] = defaultdict(float)
    for row in rows:
        measured[_method(row)] += float(row["seconds"])
        modelled[_method(row)] += load_experiment(name).seconds(row)
    return {method: measured[method] / modelled[method] for method in measured}


def _method(settings: Settings) -> str:
    return str(settings.get("method", "-"))
