"""Accuracy on the 65 cells of the paper's Table 2: ours, the peer's and the printed values.

    python benchmarks/accuracy.py run [--methods auto,ls] [--trials 10] [--jobs 2] [--fresh]
    python benchmarks/accuracy.py table

`run` adds one line per fit to results/accuracy.csv and skips what is there already, so that it
can be stopped and started at will; with --fresh it computes our rows of other commits anew, each
of which takes the place of the old one. `table` prints every cell and the commits that its rows
come from, and writes results/accuracy.md.
"from-truth" is no method: it climbs the likelihood from the weights of the linked data to the
nearest mode, which is what a perfect choice among its modes would give.
Splits of seed 0 are for reporting; anything that is tuned must use seeds from 1000.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rows import head_commit, run_jobs, write_rows

from unshuffle import (
    Likelihood,
    ShuffledLinearRegression,
    __version__,
    load_dataset,
    shuffle_labels,
)
from unshuffle.data.bags import make_bags
from unshuffle.data.scaling import standardise
from unshuffle.inference.modes import maximise_all
from unshuffle.model.building import make_target

NAMES = (
    "lsat", "accidents", "acetylene", "power_plant", "airfoil", "yacht", "concrete",
    "synthetic1", "synthetic2", "synthetic3", "synthetic4", "synthetic5", "synthetic6",
)  # fmt: skip
BAGS = (1, 2, 4, 6, 8)
OURS = ("auto", "likelihood", "ls", "paper", "means")
PEER = "shuffled_stats"
FLOOR = "from-truth"
OTHERS = ("negative-control", FLOOR, PEER)
RESULTS = Path(__file__).parent / "results"
ROWS = RESULTS / "accuracy.csv"
FIELDS = ("seed", "data", "bags", "trial", "method", "error", "seconds", "version", "commit")

# Table 2 as printed.
PRINTED = dict(
    zip(
        NAMES,
        (
            (0.31, 0.20, 0.54, 0.27, 0.16), (0.09, 0.04, 0.03, 0.13, 0.21),
            (1.58, 0.66, 0.25, 0.11, 0.04), (0.34, 0.33, 0.33, 0.32, 0.33),
            (0.69, 0.40, 0.36, 0.20, 0.15), (10.0, 8.11, 1.15, 0.09, 0.11),
            (1.20, 0.84, 0.66, 0.66, 0.47), (0.22, 0.14, 0.05, 0.04, 0.03),
            (0.17, 0.02, 0.02, 0.02, 0.01), (1.24, 0.32, 0.12, 0.10, 0.08),
            (1.45, 0.13, 0.05, 0.05, 0.05), (1.45, 1.00, 0.24, 0.12, 0.13),
            (1.21, 0.95, 0.46, 0.27, 0.21),
        ),
        strict=True,
    )
)  # fmt: skip


def split(name: str, n_bags: int, trial: int, seed: int):
    """Return X, linked y, shuffled y and groups of one trial."""
    X, y = load_dataset(name, scale=True)
    rng = np.random.default_rng([seed, NAMES.index(name), n_bags, trial])
    groups = np.empty(len(y), dtype=int)
    groups[rng.permutation(len(y))] = np.arange(len(y)) % n_bags
    shuffled = y.copy()
    for r in range(n_bags):
        rows = np.flatnonzero(groups == r)
        shuffled[rows] = rng.permutation(shuffled[rows])
    return X, y, shuffled, groups


def estimate(method: str, X, y, groups, numbers: list[int]) -> np.ndarray:
    """Return the weights, intercept last, that a method finds."""
    design = np.column_stack([X, np.ones(len(y))])
    if method == "negative-control":
        again = shuffle_labels(y, groups, np.random.default_rng(numbers))
        return np.linalg.lstsq(design, again, rcond=None)[0]
    if method == PEER:
        import shuffled_stats

        np.random.seed(numbers)
        by_bag = groups if groups.max() else None
        return np.ravel(shuffled_stats.linregress(design, y, groups=by_bag))
    model = ShuffledLinearRegression(method=method, random_state=numbers[-1])
    model.fit(X, y, groups)
    return np.append(model.coef_, model.intercept_)


def climb_from(weights: np.ndarray, X, linked, y, groups) -> np.ndarray:
    """Return the mode of the likelihood (as the estimate leans) nearest to given weights."""
    bags, scaling = standardise(make_bags(X, y, groups), True, True)
    p = X.shape[1]
    target = make_target(bags, np.arange(p), True, None, Likelihood())
    residual = linked - X @ weights[:p] - weights[p]
    start = weights[:p] * scaling.scale[:p] / scaling.label_scale
    level = np.log(max(residual.std(), 1e-3 * linked.std()) / linked.std())
    mode = maximise_all(target, [target.join(start, level)])[0][1]
    return scaling.to_user(np.append(target.slopes(mode[None])[0], 0.0))


def run_one(job: tuple[str, int, int, str, int]) -> dict:
    """Fit one trial and return its row without the commit."""
    name, n_bags, trial, method, seed = job
    X, linked, y, groups = split(name, n_bags, trial, seed)
    truth = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), linked, rcond=None)[0]
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if method == FLOOR:
                weights = climb_from(truth, X, linked, y, groups)
            else:
                weights = estimate(method, X, y, groups, [seed, NAMES.index(name), n_bags, trial])
            error = float(np.linalg.norm(weights - truth) / np.linalg.norm(truth))
        except ValueError:
            if method != "means":  # which refuses fewer bags than weights
                raise
            error = float("nan")
    seconds = time.perf_counter() - start
    return dict(
        seed=seed, data=name, bags=n_bags, trial=trial, method=method, error=f"{error:.8g}",
        seconds=f"{seconds:.4f}", version=version(PEER) if method == PEER else __version__,
    )  # fmt: skip


def read_rows(path: Path = ROWS) -> list[dict]:
    """Read the whole rows; a last line without its end was cut off and does not count.

    Where a fit was computed again, only its last row counts.
    """
    if not path.exists():
        return []
    text = path.read_text()
    rows = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())
    return list({job_of(row): row for row in rows}.values())


def job_of(row: dict) -> tuple[str, int, int, str, int]:
    """Return the fit that a row tells of."""
    return row["data"], int(row["bags"]), int(row["trial"]), row["method"], int(row["seed"])


def run(methods: list[str], n_trials: int, n_jobs: int, seed: int, is_fresh: bool) -> None:
    """Compute the rows that are missing, and our rows of other commits where `is_fresh`."""
    rows, commit = read_rows(), head_commit()
    is_old = {job_of(row): row["method"] != PEER and row["commit"] != commit for row in rows}
    done = {job for job, old in is_old.items() if not (is_fresh and old)}
    plan = [
        (name, n_bags, trial, method, seed)
        for method in methods
        for name in NAMES
        for n_bags in BAGS
        for trial in range(n_trials)
    ]
    missing = [job for job in plan if job not in done]
    write_rows(ROWS, FIELDS, rows)
    with ROWS.open("a") as file:
        for row in run_jobs(run_one, missing, n_jobs, "fits"):
            row["commit"] = "-" if row["method"] == PEER else commit
            file.write(",".join(str(row[field]) for field in FIELDS) + "\n")
            file.flush()


def table(seed: int) -> str:
    """Return every cell as a Markdown table, with the summary figures below."""
    cells: dict[tuple[str, str, int], list[float]] = {}
    times: dict[tuple[str, str], list[float]] = {}
    commits: dict[str, Counter[str]] = {}
    for row in read_rows():
        if int(row["seed"]) == seed:
            commits.setdefault(row["method"], Counter())[row["commit"]] += 1
            cells.setdefault((row["method"], row["data"], int(row["bags"])), []).append(
                float(row["error"])
            )
            times.setdefault((row["method"], row["data"]), []).append(float(row["seconds"]))
    methods = [m for m in (*OURS, *OTHERS) if any(key[0] == m for key in cells)]
    mean = {key: float(np.mean(values)) for key, values in cells.items()}
    lines = [
        "| data | R | printed | " + " | ".join(methods) + " |",
        "|---" * (3 + len(methods)) + "|",
    ]
    for name in NAMES:
        for n_bags, printed in zip(BAGS, PRINTED[name], strict=True):
            shown = [f"{mean.get((m, name, n_bags), np.nan):.3f}" for m in methods]
            shown = ["–" if v == "nan" else v for v in shown]
            lines.append(f"| {name} | {n_bags} | {printed:.2f} | " + " | ".join(shown) + " |")
    origins = ["| method | commit (rows) |", "|---|---|"]
    for method in methods:
        shown = ", ".join(f"{name} ({count})" for name, count in commits[method].most_common())
        origins.append(f"| {method} | {shown} |")
    return "\n".join([*lines, "", *summarise(mean, times, methods), "", *origins, ""])


def summarise(mean: dict, times: dict, methods: list[str]) -> list[str]:
    """Return counts of colours, geometric means of ratios, seconds per fit, and the bad cells."""
    keys = [(name, n_bags) for name in NAMES for n_bags in BAGS]
    printed = {(name, b): v for name in NAMES for b, v in zip(BAGS, PRINTED[name], strict=True)}

    def ratio(method: str, other: dict) -> str:
        logs = [
            np.log(mean[(method, *key)] / other[key])
            for key in keys
            if np.isfinite(mean.get((method, *key), np.nan)) and np.isfinite(other.get(key, np.nan))
        ]
        return f"{np.exp(np.mean(logs)):.3f} ({len(logs)})" if logs else "–"

    peer = {key: mean.get((PEER, *key), np.nan) for key in keys}
    lines = [
        "| method | green < 0.3 | yellow | red > 1 | / paper (cells) | / peer (cells) "
        "| mean s | worst mean s |",
        "|---" * 8 + "|",
    ]
    for method in methods:
        values = np.array([mean.get((method, *key), np.nan) for key in keys])
        seconds = {name: np.mean(t) for (m, name), t in times.items() if m == method}
        worst = max(seconds, key=seconds.get)
        colours = (values < 0.3).sum(), ((values >= 0.3) & (values <= 1)).sum(), (values > 1).sum()
        lines.append(
            f"| {method} | {colours[0]} | {colours[1]} | {colours[2]} | {ratio(method, printed)} | "
            f"{ratio(method, peer)} | {np.mean(list(seconds.values())):.2f} | "
            f"{seconds[worst]:.2f} ({worst}) |"
        )
    worse = [
        f"{name} R={b}: {mean['auto', name, b]:.3f} against {mean['ls', name, b]:.3f}"
        for name, b in keys
        if mean.get(("auto", name, b), 0) > 1.2 * mean.get(("ls", name, b), np.inf)
    ]
    lines += ["", f"Cells where auto is over 1.2 × ls: {len(worse)}. " + "; ".join(worse)]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--methods", default=",".join((*OURS, *OTHERS)))
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--fresh", action="store_true", help="compute our rows of other commits anew"
    )
    args = parser.parse_args()
    if args.command == "run":
        run(args.methods.split(","), args.trials, args.jobs, args.seed, args.fresh)
    text = f"Mean relative error, splits of seed {args.seed}.\n\n" + table(args.seed)
    (RESULTS / "accuracy.md").write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
