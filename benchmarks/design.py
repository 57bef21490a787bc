"""Designed against random bags on the thirteen tables of the paper: the error of "auto".

    python benchmarks/design.py run [--designs random,plan] [--offsets auto,none] [--trials 3]
                                    [--bags 2,4,8] [--tables lsat,yacht] [--jobs 2] [--seed 0]
    python benchmarks/design.py table [--seed 0]

The labels of each table are shuffled inside bags that were filled at random (the splits of
accuracy.py), or assigned as `unshuffle plan` does, which sees the features only ("plan"), or with a
`spread` of one's own (a number; 0: only means differ). `run` adds one line per fit to
results/design.csv and skips what is there; `table` prints every cell, by what the fit was told of
offsets between bags, with the ratio to random bags told nothing (the default), and the geometric
means of the ratios to these and to random bags told the same; it writes results/design.md.
Splits of seed 0 are for reporting; anything that is tuned must use seeds from 1000.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from accuracy import NAMES, split
from rows import head_commit, run_jobs, write_rows

from unshuffle import ShuffledLinearRegression, shuffle_labels
from unshuffle.design import assign_runs, choose_spread

ROWS = Path(__file__).parent / "results" / "design.csv"
FIELDS = ("seed", "data", "bags", "trial", "design", "offsets", "error", "commit")
# Random bags, and fits that are told nothing of offsets: the default.
BASE = ("random", "auto")
Job = tuple[int, str, int, int, str, str]


def run_one(job: Job) -> dict:
    """Fit one trial and return its row."""
    seed, name, n_bags, trial, design, offsets = job
    X, linked, y, groups = split(name, n_bags, trial, seed)
    if design != "random":
        spread = choose_spread(X, n_bags) if design == "plan" else float(design)
        groups = assign_runs(X, n_bags, spread=spread, rng=[seed, trial]).runs
        y = shuffle_labels(linked, groups, rng=[seed, trial])
    truth = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), linked, rcond=None)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ShuffledLinearRegression(bag_offsets=offsets, random_state=trial)
        model.fit(X, y, groups)
    gap = np.append(model.coef_, model.intercept_) - truth
    error = float(np.linalg.norm(gap) / np.linalg.norm(truth))
    row = dict(zip(FIELDS, job, strict=False))
    return {**row, "error": f"{error:.6g}"}


def read_rows() -> list[dict]:
    """Return the rows that are there."""
    return list(csv.DictReader(ROWS.read_text().splitlines())) if ROWS.exists() else []


def run(asked: argparse.Namespace) -> None:
    """Compute the rows that are missing."""
    rows, commit = read_rows(), head_commit()
    done = {tuple(str(row[field]) for field in FIELDS[:6]) for row in rows}
    jobs: list[Job] = [
        (asked.seed, name, int(n_bags), trial, design, offsets)
        for trial in range(asked.trials)
        for n_bags in asked.bags.split(",")
        for name in (asked.tables.split(",") if asked.tables else NAMES)
        for design in asked.designs.split(",")
        for offsets in asked.offsets.split(",")
    ]
    missing = [job for job in jobs if tuple(map(str, job)) not in done]
    for row in run_jobs(run_one, missing, asked.jobs, "fits"):
        rows.append({**row, "commit": commit})
        write_rows(ROWS, FIELDS, rows)


def make_table(rows: list[dict]) -> str:
    """Return every cell with its ratios, and their geometric means."""
    errors: dict[tuple[str, str], dict[tuple[str, int], list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        cell = row["data"], int(row["bags"])
        errors[row["design"], row["offsets"]][cell].append(float(row["error"]))
    base = errors[BASE]
    kinds = sorted(set(errors) - {BASE})
    head = ["data", "R", "trials", "random", *(f"{a}, {b} (ratio)" for a, b in kinds)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name in NAMES:
        for n_bags in sorted({bags for _, bags in base}):
            start = base[name, n_bags]
            cells = [name, str(n_bags), str(len(start)), f"{np.mean(start):.3f}"]
            for kind in kinds:
                found = errors[kind][name, n_bags]
                shown = f"{np.mean(found):.3f} ({np.mean(found) / np.mean(start):.2f})"
                cells.append(shown if len(found) == len(start) else "–")
            lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for design, offsets in kinds:
        for other in sorted({BASE, ("random", offsets)} - {(design, offsets)}):
            lines.append(compare(errors, (design, offsets), other))
    return "\n".join([*lines, ""])


def compare(errors: dict, one: tuple[str, str], other: tuple[str, str]) -> str:
    """Return the geometric mean of the ratios of two kinds, over cells of the same trials.

    Its error is that of the mean logarithm over cells, times the ratio.
    """
    logs: dict[int, list[float]] = defaultdict(list)
    for cell, found in errors[one].items():
        start = errors[other].get(cell, [])
        if len(start) == len(found):
            logs[cell[1]].append(float(np.log(np.mean(found) / np.mean(start))))
    each = [value for values in logs.values() for value in values]
    mean = np.exp(np.mean(each))
    doubt = mean * np.std(each, ddof=1) / np.sqrt(len(each))
    parts = [f"R = {r} {np.exp(np.mean(values)):.3f}" for r, values in sorted(logs.items())]
    return (
        f"{one[0]} bags (offsets {one[1]}) to {other[0]} bags (offsets {other[1]}): geometric mean "
        f"{mean:.3f} ± {doubt:.3f} of {len(each)} cells ({', '.join(parts)})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("task", choices=("run", "table"))
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--bags", default="2,4,8")
    parser.add_argument("--designs", default="random,plan")
    parser.add_argument("--offsets", default="auto,none")
    parser.add_argument("--tables", default="")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.task == "run":
        run(asked)
    rows = [row for row in read_rows() if int(row["seed"]) == asked.seed]
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    text = (
        f"Mean relative error of auto, splits of seed {asked.seed}, commit {commits}.\n\n"
        + make_table(rows)
    )
    if asked.seed == 0:
        ROWS.with_suffix(".md").write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
