"""Designed against random bags on the thirteen tables of the paper: the error of "auto".

    python benchmarks/design.py [--trials 10] [--jobs 2] [--bags 2,4,8] [--seed 0]

The labels of each table are shuffled inside bags that were filled at random (the splits of
accuracy.py) or assigned as `unshuffle plan` does, which sees the features only. Every cell
is printed with its ratio, and the geometric means of all ratios below; results/design.md keeps it.
Splits of seed 0 are for reporting; anything that is tuned must use seeds from 1000.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from accuracy import NAMES, split
from rows import head_commit, run_jobs

from unshuffle import ShuffledLinearRegression, shuffle_labels
from unshuffle.design import assign_runs, choose_spread

RESULTS = Path(__file__).parent / "results"


def run_one(job: tuple[str, int, int, str, int]) -> dict:
    """Fit one trial and return its error."""
    name, n_bags, trial, kind, seed = job
    X, linked, y, groups = split(name, n_bags, trial, seed)
    if kind == "designed":
        spread = choose_spread(X, n_bags)
        groups = assign_runs(X, n_bags, spread=spread, rng=[seed, trial]).runs
        y = shuffle_labels(linked, groups, rng=[seed, trial])
    truth = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), linked, rcond=None)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ShuffledLinearRegression(random_state=trial).fit(X, y, groups)
    gap = np.append(model.coef_, model.intercept_) - truth
    return {"job": job, "error": float(np.linalg.norm(gap) / np.linalg.norm(truth))}


def table(errors: dict[tuple[str, int, str], list[float]], bags: list[int]) -> str:
    """Return every cell, and the geometric means of the ratios."""
    lines = ["| data | R | random | designed | ratio |", "|---" * 5 + "|"]
    logs: dict[int, list[float]] = {}
    for name in NAMES:
        for n_bags in bags:
            random, designed = (
                float(np.mean(errors[name, n_bags, kind])) for kind in ("random", "designed")
            )
            logs.setdefault(n_bags, []).append(np.log(designed / random))
            lines.append(
                f"| {name} | {n_bags} | {random:.3f} | {designed:.3f} | {designed / random:.2f} |"
            )
    lines.append("")
    lines += [f"R = {r}: geometric mean {np.exp(np.mean(found)):.3f}" for r, found in logs.items()]
    everything = [value for found in logs.values() for value in found]
    lines.append(f"all {len(everything)} cells: geometric mean {np.exp(np.mean(everything)):.3f}")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--bags", default="2,4,8")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    bags = [int(each) for each in args.bags.split(",")]
    jobs = [
        (name, n_bags, trial, kind, args.seed)
        for name in NAMES
        for n_bags in bags
        for kind in ("random", "designed")
        for trial in range(args.trials)
    ]
    errors: dict[tuple[str, int, str], list[float]] = {}
    for row in run_jobs(run_one, jobs, args.jobs, "fits"):
        name, n_bags, _, kind, _ = row["job"]
        errors.setdefault((name, n_bags, kind), []).append(row["error"])
    text = (
        f"Mean relative error of auto, {args.trials} trials a cell, splits of seed {args.seed}, "
        f"commit {head_commit()}.\n\n" + table(errors, bags)
    )
    (RESULTS / "design.md").write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
