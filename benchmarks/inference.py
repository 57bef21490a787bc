"""Whether the likelihood's intervals, verdicts and match probabilities are right.

    python benchmarks/inference.py run [--trials 200] [--jobs 2]
    python benchmarks/inference.py table

`run` adds one line per simulation to results/inference.csv and skips what is there already;
`table` prints every case and the commits that its rows come from, and writes results/inference.md.
With --fresh the rows of other commits are dropped first. Seed 0 is for reporting; tuning uses
seeds from 1000.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from rows import head_commit, run_jobs, write_rows

from unshuffle import ShuffledLinearRegression
from unshuffle.core.uncertainty import Posterior
from unshuffle.data.bags import make_bags
from unshuffle.results.matching import match_labels

RESULTS = Path(__file__).parent / "results"
ROWS = RESULTS / "inference.csv"
FIELDS = (
    "seed", "case", "known", "trial", "covered", "identified", "error", "seconds", "draws", "width",
    "score", "oracle", "reliability", "commit",
)  # fmt: skip

# n, d, bags, distribution of the features, SNR in dB, and what is asked of the case.
CASES = [
    (200, 3, 4, "uniform", 15, "coverage 90–99 %"),
    (200, 3, 4, "uniform", 5, "coverage 90–99 %"),
    (400, 5, 8, "exponential", 15, "coverage 90–99 %"),
    (400, 5, 8, "exponential", 5, "coverage 90–99 %"),
    (60, 2, 1, "exponential", 15, "coverage 90–99 %"),
    (60, 2, 1, "exponential", 5, "coverage 90–99 %"),
    (300, 5, 1, "normal", 15, "not identified in ≥ 95 %"),
    (300, 5, 1, "normal", 30, "identified in ≥ 90 %"),
    (300, 3, 6, "exponential", 15, "identified in ≥ 90 %"),
    (120, 3, 6, "exponential", 20, "matching: reliability ≤ 0.05, log score within 0.1"),
]
MATCHING = 9
KNOWN = (2, 3)


def simulate(case: int, trial: int, seed: int):
    """Return features, linked labels, groups, weights and noise sd of one simulation."""
    n, d, n_bags, kind, snr, _ = CASES[case]
    rng = np.random.default_rng([seed, case, trial])
    draw = {"uniform": rng.uniform, "exponential": rng.exponential, "normal": rng.normal}[kind]
    X, w = draw(size=(n, d)), rng.standard_normal(d)
    signal = X @ w
    noise = float(np.sqrt(np.mean(signal**2) / 10 ** (snr / 10)))
    return X, signal + noise * rng.standard_normal(n), np.arange(n) % n_bags, w, noise


def score_match(match, linked: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the mean log score of the stated matches, their probabilities and their truth."""
    stated = np.clip(match.probability, 1e-3, 1 - 1e-3)
    right = linked[match.order] == linked
    return float(np.mean(np.where(right, np.log(stated), np.log(1 - stated)))), stated, right


def run_one(job: tuple[int, bool, int, int]) -> dict:
    """Fit one simulation and return its row."""
    case, known, trial, seed = job
    X, y, groups, w, noise = simulate(case, trial, seed)
    model = ShuffledLinearRegression(
        "likelihood", noise=noise if known else None, random_state=trial
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, groups)
    seconds = time.perf_counter() - start
    low, high = model.conf_int().T
    row = dict(
        seed=seed, case=case, known=int(known), trial=trial,
        covered=float(np.mean((low <= w) & (w <= high))), identified=int(model.identified_),
        error=float(np.linalg.norm(model.coef_ - w) / np.linalg.norm(w)), seconds=seconds,
        draws=model.solution_.stats["effective_draws"], width=float(np.mean(high - low)),
        score="", oracle="", reliability="",
    )  # fmt: skip
    if case == MATCHING:
        truth = Posterior(np.append(w, 0.0)[None], np.ones(1), np.array([noise]))
        oracle = match_labels(make_bags(X, y, groups), w, 0.0, truth)
        score, stated, right = score_match(model.match(X, y, groups), y)
        bins = np.minimum((stated * 10).astype(int), 9)
        sums = [
            f"{(bins == b).sum()}:{stated[bins == b].sum():.4f}:{right[bins == b].sum()}"
            for b in range(10)
        ]
        row.update(score=score, oracle=score_match(oracle, y)[0], reliability=" ".join(sums))
    return row


def read_rows() -> list[dict]:
    """Read the whole rows; a last line without its end does not count."""
    if not ROWS.exists():
        return []
    text = ROWS.read_text()
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))


def run(n_trials: int, n_jobs: int, seed: int, is_fresh: bool) -> None:
    """Compute the rows that are missing."""
    commit = head_commit()
    rows = [row for row in read_rows() if not is_fresh or row["commit"] == commit]
    done = {(int(r["case"]), bool(int(r["known"])), int(r["trial"]), int(r["seed"])) for r in rows}
    kinds = [(case, False) for case in range(len(CASES))] + [(case, True) for case in KNOWN]
    plan = [(case, known, t, seed) for t in range(n_trials) for case, known in kinds]
    missing = [job for job in plan if job not in done]
    write_rows(ROWS, FIELDS, rows)
    with ROWS.open("a") as file:
        for row in run_jobs(run_one, missing, n_jobs, "simulations"):
            row["commit"] = commit
            file.write(",".join(str(row[field]) for field in FIELDS) + "\n")
            file.flush()


def table(seed: int) -> str:
    """Return one line per case, and what known noise and matching show."""
    cells: dict[tuple[int, bool], list[dict]] = {}
    for row in read_rows():
        if int(row["seed"]) == seed:
            cells.setdefault((int(row["case"]), bool(int(row["known"]))), []).append(row)

    def mean(rows: list[dict], field: str) -> float:
        return float(np.mean([float(r[field]) for r in rows]))

    lines = [
        "| n | d | R | features | dB | noise | fits | coverage | identified | error | s | asked |",
        "|---" * 12 + "|",
    ]
    for (case, known), rows in sorted(cells.items()):
        n, d, n_bags, kind, snr, asked = CASES[case]
        lines.append(
            f"| {n} | {d} | {n_bags} | {kind} | {snr} | {'given' if known else 'unknown'} | "
            f"{len(rows)} | {mean(rows, 'covered'):.3f} | {mean(rows, 'identified'):.2f} | "
            f"{mean(rows, 'error'):.3f} | {mean(rows, 'seconds'):.2f} | {asked} |"
        )
    for case in KNOWN:
        if (case, True) in cells and (case, False) in cells:
            both = {int(r["trial"]) for r in cells[case, True]}
            other = [r for r in cells[case, False] if int(r["trial"]) in both]
            ratio = mean(cells[case, True], "error") / mean(other, "error")
            lines.append(f"\nError with noise given / unknown at {CASES[case][4]} dB: {ratio:.3f}.")
    if (MATCHING, False) in cells:
        lines.append(matching_line(cells[MATCHING, False]))
    commits = Counter(row["commit"] for rows in cells.values() for row in rows)
    shown = ", ".join(f"{name} ({count})" for name, count in commits.most_common())
    lines.append(f"\nCommit (rows): {shown}.")
    return "\n".join(lines) + "\n"


def matching_line(rows: list[dict]) -> str:
    """Return the reliability error over ten bins and the log scores."""
    bins = np.zeros((10, 3))
    for row in rows:
        bins += np.array(
            [[float(v) for v in part.split(":")] for part in row["reliability"].split()]
        )
    gap = np.abs(bins[:, 1] - bins[:, 2]).sum() / bins[:, 0].sum()
    score, oracle = (np.mean([float(r[f]) for r in rows]) for f in ("score", "oracle"))
    return (
        f"\nMatching: binned reliability error {gap:.3f}; mean log score {score:.3f} against "
        f"{oracle:.3f} of an oracle that knows weights and noise."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="drop the rows of other commits")
    args = parser.parse_args()
    if args.command == "run":
        run(args.trials, args.jobs, args.seed, args.fresh)
    text = table(args.seed)
    (RESULTS / "inference.md").write_text(f"Simulations of seed {args.seed}.\n\n" + text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
