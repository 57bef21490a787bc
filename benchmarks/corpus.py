"""Honesty and accuracy on real tables that no model was made for.

    python benchmarks/corpus.py run [--methods auto,ls] [--seeds 0,1,2,3,4] [--jobs 2] [--fresh]
    python benchmarks/corpus.py table [--rows results/corpus.csv]

The tables are those of `real_tables.npz` in the folder that UNSHUFFLE_DATA names. Columns and
label are standardised; the truth is OLS on the linked table; random bags of equal size (R = 1, 4,
10, three rows a bag at least) and the natural bags where a table has them, labels shuffled inside.
`run` adds one line per fit to results/corpus.csv and skips what is there already; `table` sums up
by bags and writes results/corpus.md. Seeds 0 to 4 are for reporting; tuning uses seeds from 1000.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from rows import head_commit, run_jobs, write_rows

from unshuffle import ShuffledLinearRegression

BAGS = ("1", "4", "10", "natural")
METHODS = ("auto", "ls", "paper", "means")
PEER = "shuffled_stats"
RESULTS = Path(__file__).parent / "results"
FIELDS = (
    "seed", "table", "bags", "method", "n", "d", "n_bags", "error", "covered", "score",
    "identified", "signs", "wrong_signs", "power", "draws", "evaluations", "seconds", "commit",
)  # fmt: skip
# Errors below this are as good as exact: geometric means have it as a floor.
FLOOR = 0.01
WRONG, RIGHT = 0.3, 0.1


def load_tables() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Return features, linked labels and natural bags (or None) of every table, standardised."""
    folder = os.environ.get("UNSHUFFLE_DATA")
    if not folder:
        raise SystemExit("set UNSHUFFLE_DATA to the folder that holds real_tables.npz")
    found = np.load(Path(folder) / "real_tables.npz")
    tables = {}
    for name in sorted({key.split("|")[0] for key in found.files}):
        X, y = found[name + "|X"].astype(float), found[name + "|y"].astype(float)
        bags = found[name + "|bags"] if name + "|bags" in found.files else None
        tables[name] = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), bags
    return tables


def split(tables: dict, name: str, bags: str, seed: int):
    """Return X, linked y, shuffled y and groups, or None where the table has no such bags."""
    X, y, natural = tables[name]
    rng = np.random.default_rng([seed, sorted(tables).index(name), BAGS.index(bags)])
    if bags == "natural":
        if natural is None:
            return None
        groups = np.unique(natural, return_inverse=True)[1]
    else:
        n_bags = int(bags)
        if len(y) < 3 * n_bags:
            return None
        groups = np.empty(len(y), dtype=int)
        groups[rng.permutation(len(y))] = np.arange(len(y)) % n_bags
    shuffled = y.copy()
    for r in np.unique(groups):
        rows = np.flatnonzero(groups == r)
        shuffled[rows] = rng.permutation(shuffled[rows])
    return X, y, shuffled, groups


def judge(ends: np.ndarray, truth: np.ndarray) -> dict:
    """Return coverage, interval score and signs of 95 % intervals."""
    low, high = ends[: len(truth)].T
    over = np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)
    is_known = (low > 0) | (high < 0)
    return dict(
        covered=float(np.mean(over == 0)), score=float(np.mean(high - low + 40.0 * over)),
        signs=float(np.mean(is_known)),
        wrong_signs=float(np.mean(is_known & (np.sign(low) != np.sign(truth)))),
    )  # fmt: skip


def run_one(job: tuple[str, str, str, int]) -> dict:
    """Fit one split with one method and return its row without the commit."""
    name, bags, method, seed = job
    X, linked, y, groups = split(load_tables(), name, bags, seed)
    truth = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), linked, rcond=None)[0][:-1]
    row = dict.fromkeys(FIELDS, "")
    row.update(seed=seed, table=name, bags=bags, method=method, n=len(y), d=X.shape[1])
    row["n_bags"] = len(np.unique(groups))
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == PEER:
            import shuffled_stats

            np.random.seed([seed, len(y), X.shape[1]])
            by_bag = groups if groups.max() else None
            design = np.column_stack([X, np.ones(len(y))])
            weights = np.ravel(shuffled_stats.linregress(design, y, groups=by_bag))[:-1]
        else:
            model = ShuffledLinearRegression(method, random_state=seed)
            try:
                weights = model.fit(X, y, groups).coef_
            except ValueError:
                if method != "means":  # which refuses fewer bags than weights
                    raise
                weights = np.full(len(truth), np.nan)
    row["seconds"] = f"{time.perf_counter() - start:.4f}"
    row["error"] = f"{np.linalg.norm(weights - truth) / np.linalg.norm(truth):.8g}"
    if method in ("auto", "likelihood"):
        stats = model.solution_.stats
        row.update(judge(model.conf_int(), truth), identified=int(model.identified_))
        row.update(power=stats["likelihood_power"], draws=stats["effective_draws"])
        row["evaluations"] = stats["n_evaluations"]
    return row


def job_of(row: dict) -> tuple[str, str, str, int]:
    """Return the fit that a row tells of."""
    return row["table"], row["bags"], row["method"], int(row["seed"])


def read_rows(path: Path) -> list[dict]:
    """Read the whole rows; a last line without its end was cut off and does not count."""
    if not path.exists():
        return []
    text = path.read_text()
    rows = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())
    return list({job_of(row): row for row in rows}.values())


def run(path: Path, methods: list[str], seeds: list[int], n_jobs: int, is_fresh: bool, part: tuple):
    """Compute the rows that are missing, and our rows of other commits where `is_fresh`."""
    rows, commit, tables = read_rows(path), head_commit(), load_tables()
    done = {
        job_of(row) for row in rows
        if not (is_fresh and row["method"] != PEER and row["commit"] != commit)
    }  # fmt: skip
    first, step, largest = part
    names = sorted(tables, key=lambda name: (len(tables[name][1]), name))[first::step]
    names = [name for name in names if len(tables[name][1]) <= largest]
    plan = [
        (name, bags, method, seed)
        for seed in seeds for name in names for bags in BAGS for method in methods
        if split(tables, name, bags, seed) is not None
        and (bags != "natural" or seed == seeds[0] or method != "means")
    ]  # fmt: skip
    write_rows(path, FIELDS, rows)
    with path.open("a") as file:
        for row in run_jobs(run_one, [job for job in plan if job not in done], n_jobs, "fits"):
            row["commit"] = "-" if row["method"] == PEER else commit
            file.write(",".join(str(row[field]) for field in FIELDS) + "\n")
            file.flush()


def geometric_mean(errors: np.ndarray) -> float:
    """Return the geometric mean with the floor."""
    return float(np.exp(np.mean(np.log(np.maximum(errors, FLOOR)))))


def table(rows: list[dict]) -> str:
    """Return one line per method and kind of bags."""
    lines = [
        "| method | bags | fits | error | / ls | coverage | interval score | identified | wrong "
        "| of errors < .1 identified | signs known | of these wrong | mean s |",
        "|---" * 13 + "|",
    ]
    for method in dict.fromkeys(row["method"] for row in rows):
        for bags in BAGS:
            these, ls = (
                {
                    (r["table"], r["seed"]): r
                    for r in rows
                    if (r["method"], r["bags"]) == (name, bags) and r["error"] != "nan"
                }
                for name in (method, "ls")
            )
            if these:
                lines.append(_line(method, bags, these, ls))
    return "\n".join(lines) + "\n"


def _line(method: str, bags: str, these: dict, ls: dict) -> str:
    """Return one line of the table."""

    def column(name: str) -> np.ndarray:
        return np.array([float(row[name]) for row in these.values()])

    errors, shown = column("error"), ["–"] * 7
    both = [key for key in these if key in ls]
    ratio = "–"
    if both:
        pair = [np.array([float(d[k]["error"]) for k in both]) for d in (these, ls)]
        ratio = f"{geometric_mean(pair[0]) / geometric_mean(pair[1]):.2f}"
    if next(iter(these.values()))["covered"] != "":
        is_identified = column("identified") > 0
        known, wrong = column("signs").mean(), column("wrong_signs").mean()
        near = errors < RIGHT
        shown = [
            f"{column('covered').mean():.3f}", f"{column('score').mean():.2f}",
            str(is_identified.sum()), str((is_identified & (errors > WRONG)).sum()),
            f"{(is_identified & near).sum() / max(near.sum(), 1):.2f}",
            f"{known:.2f}", f"{wrong / max(known, 1e-9):.3f}",
        ]  # fmt: skip
    cells = [method, bags, str(len(these)), f"{geometric_mean(errors):.3f}", ratio, *shown]
    return "| " + " | ".join([*cells, f"{column('seconds').mean():.2f}"]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--methods", default=",".join((*METHODS, PEER)))
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", type=Path, default=RESULTS / "corpus.csv")
    parser.add_argument("--part", default="0/1", help="every k-th table from the i-th on: i/k")
    parser.add_argument("--largest", type=int, default=10**9, help="leave out longer tables")
    parser.add_argument(
        "--fresh", action="store_true", help="compute our rows of other commits anew"
    )
    args = parser.parse_args()
    if args.command == "run":
        first, step = (int(v) for v in args.part.split("/"))
        run(args.rows, args.methods.split(","), [int(v) for v in args.seeds.split(",")],
            args.jobs, args.fresh, (first, step, args.largest))  # fmt: skip
    text = table(read_rows(args.rows))
    args.rows.with_suffix(".md").write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
