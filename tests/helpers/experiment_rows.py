"""Cheap rows for the tests of experiments, also run in processes of their own."""

from unshuffle.experiments import runner
from unshuffle.experiments.runner import Scope

# What is kept of every quick grid: enough to draw from, little enough to fit in seconds.
TINY = {
    "figure2": {"n": [10, 100]},
    "figure2b": {"n": [10, 100]},
    "regimes-n-d": {"n": [50], "d": [1, 3]},
    "figure3": {"bags": [4, 64], "nsr": [-20]},
    "regimes-d-r": {"bags": [4], "d": [2, 4]},
    "figure4": {"nsr": [-20]},
    "regularization": {"zeros": [0, 2]},
    "table2": {"data": ["lsat"]},
    "table3": {"data": ["array"], "bags": [60]},
    "regimes-ls-p1": {"n": [50], "d": [1, 2]},
    "figureC": {"n": [30]},
    "negative-control": {"data": ["lsat", "synthetic1"]},
}


def quick_tasks(n_trials=4):
    """Rows that cost next to nothing."""
    tasks = runner.plan_tasks(["figure2b"], Scope(quick=True))
    cheap = [t for t in tasks if t.settings["method"] in ("ols", "sm") and t.settings["n"] <= 100]
    return [t for t in cheap if t.settings["trial"] < n_trials]


def tiny_tasks(name):
    """Rows of every kind of one experiment, computed in seconds."""
    kept = {"trial": [0], **TINY.get(name, {})}
    tasks = runner.plan_tasks([name], Scope(quick=True))
    return [t for t in tasks if all(t.settings[k] in values for k, values in kept.items())]


def compute(out, tasks, seed=0, jobs=1):
    """Run what is missing; return the rows computed now."""
    computed = []
    runner.prepare_folder(out, seed)
    todo = runner.missing_tasks(out, tasks, seed)
    runner.run_tasks(out, todo, seed, jobs, lambda task, row: computed.append(row))
    return computed


def without_time(table):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in table]
