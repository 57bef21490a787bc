"""Planning an experiment: which samples go into which run, and what that will tell.

`assign_runs` shares out samples so that the runs' means differ in every direction, `judge_runs`
says how far those of given runs do; `plan_runs` and `judge_bags` simulate on the samples' own
features what bags, designed or given, will tell beside random ones.
"""

from unshuffle.design.assignment import Assignment, assign_runs, choose_spread, judge_runs
from unshuffle.design.plan import Plan, judge_bags, plan_runs
from unshuffle.design.simulation import Expectation

__all__ = [
    "Assignment",
    "Expectation",
    "Plan",
    "assign_runs",
    "choose_spread",
    "judge_bags",
    "judge_runs",
    "plan_runs",
]
