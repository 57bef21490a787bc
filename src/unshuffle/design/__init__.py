"""Planning an experiment: which samples go into which run, and the errors to be expected.

`assign_runs` assigns samples to runs so that the runs' means differ in every direction, and
`assess_runs` says how far those of given runs do. `plan_runs` and `assess_bags` simulate, on the
samples' own features, the errors to be expected of designed, given and random bags.
"""

from typing import TYPE_CHECKING, Any

from unshuffle.design.assignment import Assignment, assess_runs, assign_runs, choose_spread
from unshuffle.design.plan import Plan, assess_bags, plan_runs
from unshuffle.design.simulation import Expectation
from unshuffle.errors import find_renamed

__all__ = [
    "Assignment",
    "Expectation",
    "Plan",
    "assess_bags",
    "assess_runs",
    "assign_runs",
    "choose_spread",
    "plan_runs",
]

# Old name → new name, for one minor version.
_RENAMED = {"judge_bags": "assess_bags", "judge_runs": "assess_runs"}

if not TYPE_CHECKING:  # type checkers know the new names alone

    def __getattr__(name: str) -> Any:
        return globals()[find_renamed(f"module {__name__!r}", name, _RENAMED)]
