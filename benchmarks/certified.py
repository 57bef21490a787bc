"""Least squares with a proof: errors, values and times beside LS climbed from the truth.

    python benchmarks/certified.py [--trials 200] [--n 100] [--d 3] [--noise 0.01] [--jobs 1]

X, w ~ N(0, 1), no intercept, one bag. Printed are the mean errors |w - w₀|/|w₀| of the certified
answer, of LS climbed from the true weights (no method: the best that LS can be near the truth) and
of LS from many starts, in how many trials the certified value is no higher than the climbed one and
the proof complete, and the times; then those of other sizes, each the least of three fits.
results/certified.md keeps it.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from rows import head_commit, run_jobs

from unshuffle import ShuffledLinearRegression
from unshuffle.data.bags import make_bags
from unshuffle.objectives.losses import Squared
from unshuffle.objectives.penalties import no_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.solvers.descent import descend

RESULTS = Path(__file__).parent / "results"
SIZES = ((100, 3), (100, 4), (1000, 3), (1000, 4))


def climb_from(truth: np.ndarray, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the weights and the value of LS climbed from given weights."""
    problem = Problem(make_bags(X, y), Squared(), None, no_penalty(len(truth)))
    inverse = 0.5 * np.linalg.inv(problem.curvature)
    ends = descend(problem.smooth, truth[None], inverse, np.zeros(len(truth)), 1e-18, None)
    return ends.weights[0], float(ends.values[0])


def run_one(job: tuple[int, int, int, float]) -> dict:
    """Return errors, values and time of one trial."""
    seed, n, d, noise = job
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    y = rng.permutation(X @ w + noise * rng.standard_normal(n))

    def measure(weights: np.ndarray) -> float:
        return float(np.linalg.norm(weights - w) / np.linalg.norm(w))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        proven = ShuffledLinearRegression("certified", fit_intercept=False).fit(X, y)
        seconds = time.process_time() - begin
        searched = ShuffledLinearRegression("ls", fit_intercept=False, random_state=seed).fit(X, y)
    weights, value = climb_from(w, X, y)
    return {
        "certified": measure(proven.coef_),
        "truth": measure(weights),
        "ls": measure(searched.coef_),
        "is_lower": proven.solution_.value <= value * (1 + 1e-9),
        "is_complete": proven.solution_.certificate.is_complete,
        "gap": proven.solution_.certificate.gap,
        "seconds": seconds,
    }


def time_sizes(noise: float) -> list[str]:
    """Return a table of the seconds that proofs of several sizes take, the least of three fits."""
    lines = ["| n | weights | seconds |", "|---|---|---|"]
    for n, d in SIZES:
        n_times = 1 if n * 10**d > 10**6 else 3  # the largest takes long enough to be told once
        seconds = min(run_one((seed, n, d, noise))["seconds"] for seed in range(n_times))
        lines.append(f"| {n} | {d} | {seconds:.3f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--d", type=int, default=3)
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    # The first fit of a process compiles or loads, which is no time of the method.
    run_one((0, asked.n, asked.d, asked.noise))
    jobs = [(seed, asked.n, asked.d, asked.noise) for seed in range(asked.trials)]
    rows = list(run_jobs(run_one, jobs, asked.jobs, "trials"))
    errors = {name: np.array([row[name] for row in rows]) for name in ("certified", "truth", "ls")}
    seconds = np.array([row["seconds"] for row in rows])
    lines = [
        f"X, w ~ N(0, 1), n = {asked.n}, d = {asked.d}, no intercept, noise sd {asked.noise:g}, "
        f"one bag, {len(rows)} trials, commit {head_commit()}.",
        "",
        "| answer | mean error | median | largest |",
        "|---|---|---|---|",
    ]
    shown = {
        "certified": "certified",
        "truth": "LS climbed from the truth",
        "ls": "LS, many starts",
    }
    lines += [
        f"| {shown[name]} | {found.mean():.5f} | {np.median(found):.5f} | {found.max():.5f} |"
        for name, found in errors.items()
    ]
    ratio = errors["certified"].mean() / errors["truth"].mean()
    lines += [
        "",
        f"Certified to climbed from the truth: {ratio:.3f}. Value no higher than the climbed one "
        f"in {sum(row['is_lower'] for row in rows)} of {len(rows)} trials, proof complete in "
        f"{sum(row['is_complete'] for row in rows)}, largest gap "
        f"{max(row['gap'] for row in rows):.1e}.",
        f"Seconds of processor time: mean {seconds.mean():.3f}, largest {seconds.max():.3f}; over "
        f"1 s in {int((seconds > 1).sum())} trials.",
        "",
        *time_sizes(asked.noise),
        "",
    ]
    text = "\n".join(lines)
    (RESULTS / "certified.md").write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
