"""Cheap rows for the tests of experiments, also run in processes of their own."""

from unshuffle.experiments import runner
from unshuffle.experiments.runner import Scope


def quick_tasks(n_trials=4):
    """Rows that cost next to nothing."""
    tasks = runner.plan_tasks(["figure2b"], Scope(quick=True))
    cheap = [t for t in tasks if t.settings["method"] in ("ols", "sm") and t.settings["n"] <= 100]
    return [t for t in cheap if t.settings["trial"] < n_trials]


def compute(out, tasks, seed=0, jobs=1):
    """Run what is missing; return the rows computed now."""
    computed = []
    runner.prepare_folder(out, seed)
    todo = runner.missing_tasks(out, tasks, seed)
    runner.run_tasks(out, todo, seed, jobs, lambda task, row: computed.append(row))
    return computed


def without_time(table):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in table]
