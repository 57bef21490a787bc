"""Links of which a share is wrong: every cell beside least squares, Huber and shuffled LS.

    python benchmarks/linkage.py run [--trials 210] [--noise 0.1,0.5,1] [--jobs 2]
    python benchmarks/linkage.py table

n = 500, d = 5, one bag, exponential features. `run` adds one line per simulation to
results/linkage.csv and skips what is there already, so that it can be stopped and started at will;
`table` prints every cell and writes results/linkage.md: the mean error |w - w₀|/|w₀| of each, how
ours compares with the best of the others, the coverage of its 95 % intervals, the mean share found,
and how often each path was taken. Its numbers were calibrated on other data (`calibrate_links.py`).
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from rows import head_commit, run_jobs, write_rows
from sklearn.linear_model import HuberRegressor, LinearRegression

from unshuffle import ShuffledLinearRegression, make_shuffled

ROWS = Path(__file__).parent / "results" / "linkage.csv"
SHARES = (0.0, 0.1, 0.3, 0.6, 1.0)
N, D, FEATURES = 500, 5, "exponential"
NAMES = ("ours", "ols", "huber", "ls")
FIELDS = ("noise", "share", "trial", *NAMES, "covered", "found", "path", "commit")


def simulate(noise: float, share: float, trial: int):
    """Return rows, labels of which a share was shuffled, and the weights."""
    rng = np.random.default_rng([trial, round(100 * share)])
    data = make_shuffled(N, D, noise=noise, features=FEATURES, rng=rng)
    y, some = data.linked_y.copy(), rng.permutation(N)[: round(share * N)]
    y[some] = y[rng.permutation(some)]
    return data.X, y, data.weights


def run_one(job: tuple[float, float, int]) -> dict:
    """Return the errors of all four, which intervals cover, the share found and the path."""
    noise, share, trial = job
    X, y, w = simulate(noise, share, trial)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = ShuffledLinearRegression(mislinked="estimate", random_state=trial).fit(X, y)
        fits = {
            "ours": ours,
            "ols": LinearRegression().fit(X, y),
            "huber": HuberRegressor(max_iter=1000).fit(X, y),
            "ls": ShuffledLinearRegression("ls", random_state=trial).fit(X, y),
        }
    row = {
        name: f"{np.linalg.norm(fit.coef_ - w) / np.linalg.norm(w):.6g}"
        for name, fit in fits.items()
    }
    low, high = ours.conf_int().T
    is_matched = ours.solution_.stats["likelihood_power"] is not None
    path = "matched" if ours.method_ == "mixture" and is_matched else ours.method_
    return dict(
        noise=noise, share=share, trial=trial, **row, path=path,
        covered=float(np.mean((low <= w) & (w <= high))),
        found=f"{ours.summary().mislinked:.4f}",
    )  # fmt: skip


def read_rows() -> list[dict]:
    """Return the rows that are there."""
    return list(csv.DictReader(ROWS.read_text().splitlines())) if ROWS.exists() else []


def run(asked: argparse.Namespace) -> None:
    """Compute the rows that are missing, trial by trial."""
    rows, commit = read_rows(), head_commit()
    done = {(float(row["noise"]), float(row["share"]), int(row["trial"])) for row in rows}
    jobs = [
        (noise, share, trial)
        for trial in range(asked.first, asked.trials)
        for noise in map(float, asked.noise.split(","))
        for share in SHARES
    ]
    missing = [job for job in jobs if job not in done]
    for row in run_jobs(run_one, missing, asked.jobs, "simulations"):
        rows.append({**row, "commit": commit})
        write_rows(ROWS, FIELDS, rows)


def make_table(rows: list[dict]) -> list[str]:
    """Return every cell of these rows."""
    head = ("noise", "shuffled", "trials", "ours", "OLS", "Huber", "shuffled LS", "to best")
    head += ("coverage", "share found", "paths")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for noise, share in sorted({(float(r["noise"]), float(r["share"])) for r in rows}):
        own = [r for r in rows if (float(r["noise"]), float(r["share"])) == (noise, share)]
        mean = {
            name: float(np.mean([float(r[name]) for r in own]))
            for name in (*NAMES, "covered", "found")
        }
        ratio = mean["ours"] / min(mean[name] for name in NAMES[1:])
        paths = ", ".join(f"{k} {v}" for k, v in Counter(r["path"] for r in own).most_common())
        cells = [f"{noise:g}", f"{share:.0%}", len(own), *(f"{mean[name]:.4f}" for name in NAMES)]
        cells += [f"{ratio:.2f}", f"{mean['covered']:.1%}", f"{mean['found']:.2f}", paths]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def table() -> None:
    """Print every cell."""
    rows = read_rows()
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    head = f"n = {N}, d = {D}, one bag, {FEATURES} features; commit {commits}."
    text = "\n".join([head, "", *make_table(rows), ""])
    ROWS.with_suffix(".md").write_text(text)
    sys.stdout.write(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("task", choices=("run", "table"))
    parser.add_argument("--trials", type=int, default=210)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--noise", default="0.1,0.5,1")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    if asked.task == "run":
        run(asked)
    table()


if __name__ == "__main__":
    main()
