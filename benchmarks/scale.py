"""The likelihood in blocks: coverage of its intervals, error beside SM's, time and memory.

    python benchmarks/scale.py coverage [--trials 100] [--large 30] [--jobs 1]
        [--only 100000] [--cases normal,exponential]
    python benchmarks/scale.py real [--jobs 1]
    python benchmarks/scale.py speed [--rows 50000,100000,1000000]
    python benchmarks/scale.py table

`coverage` adds one line per simulation to results/scale.csv, skips what is there already, and
prints the table: so many simulations of every case of 10⁵ rows, and fewer of 10⁶. With --fresh the
rows of other commits are dropped first. `real` does so with the real tables of `corpus.py` that
have a hundred rows and at most eight columns, in ten random bags of 10⁵ rows in all: rows are drawn
from the table and jittered with their labels by .15 sds, and the truth is OLS of the linked labels.
So many rows show that they do not obey the model. `speed` prints seconds, processor seconds and the
memory that a fit takes at its peak beside the data, above what is left of a smaller one once free
memory was given back. Trials are seeds below 1000; tuning uses those from 1000.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import gc
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from corpus import WRONG, load_tables
from rows import head_commit, run_jobs, write_rows

from unshuffle import ShuffledLinearRegression, shuffle_labels

ROWS = Path(__file__).parent / "results" / "scale.csv"
FIELDS = (
    "case", "n", "trial", "covered", "identified", "fits", "status", "error", "sm", "power",
    "draws", "seconds", "commit",
)  # fmt: skip
D, N_BAGS, SNR_DB = 5, 20, 15.0
# Whether the rows of bags differ, and the distribution of the columns.
CASES = ("normal", "exponential", "differing", "one row")
LARGE = 1_000_000
REAL, N_REAL, REAL_BAGS, JITTER = "real:", 100_000, 10, 0.15


def list_real() -> list[str]:
    """Return the cases of real tables."""
    sizes = {name: X.shape for name, (X, _, _) in load_tables().items()}
    return [REAL + name for name, (n, d) in sizes.items() if n >= 100 and d <= 8]


def draw_real(case: str, n: int, trial: int):
    """Return rows and shuffled labels like those of a real table, groups and linked OLS weights."""
    X, y, _ = load_tables()[case.removeprefix(REAL)]
    rng = np.random.default_rng([trial, len(y)])
    drawn = rng.integers(0, len(y), n)
    X = X[drawn] + JITTER * rng.standard_normal((n, X.shape[1]))
    y = y[drawn] + JITTER * rng.standard_normal(n)
    groups = np.arange(n) % REAL_BAGS
    w = np.linalg.lstsq(np.column_stack([X, np.ones(n)]), y, rcond=None)[0][:-1]
    return X, shuffle_labels(y, groups, rng), groups, w


def simulate(case: str, n: int, trial: int):
    """Return rows, shuffled labels, groups and weights of one simulation."""
    if case.startswith(REAL):
        return draw_real(case, n, trial)
    rng = np.random.default_rng([CASES.index(case), n, trial])
    groups = np.sort(np.arange(n) % N_BAGS)
    if case == "one row":  # beside one bag that holds all others
        groups = np.minimum(np.arange(n), 1)
    X = rng.exponential(size=(n, D)) if case == "exponential" else rng.standard_normal((n, D))
    if case == "differing":
        X += rng.standard_normal((N_BAGS, D))[groups]
    if case == "one row":
        X = np.exp(0.5 * X)  # one bag of normal columns says nothing of directions
    w = rng.standard_normal(D)
    signal = X @ w
    noise = signal.std() / 10 ** (SNR_DB / 20)
    y = signal + noise * rng.standard_normal(n)
    return X, shuffle_labels(y, groups, rng), groups, w


def run_one(job: tuple[str, int, int]) -> dict:
    """Fit one simulation and return its row."""
    case, n, trial = job
    X, y, groups, w = simulate(case, n, trial)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ShuffledLinearRegression(random_state=trial).fit(X, y, groups)
        seconds = time.perf_counter() - start
        moments = ShuffledLinearRegression("sm", random_state=trial).fit(X, y, groups)
    low, high = model.conf_int().T
    unit = X.std(axis=0)

    def err(weights: np.ndarray) -> float:
        return float(np.linalg.norm((weights - w) * unit) / np.linalg.norm(w * unit))

    stats = model.solution_.stats
    return dict(
        case=case, n=n, trial=trial, covered=float(np.mean((low <= w) & (w <= high))),
        identified=int(model.identified_), fits=int(model.model_fits_),
        status=model.solution_.status.name, error=err(model.coef_), sm=err(moments.coef_),
        power=stats["likelihood_power"], draws=stats["effective_draws"], seconds=seconds,
        commit=head_commit(),
    )  # fmt: skip


def read_rows() -> list[dict]:
    """Return the rows that are there."""
    if not ROWS.exists():
        return []
    with open(ROWS, newline="") as file:
        return list(csv.DictReader(file))


def run_coverage(asked: argparse.Namespace) -> None:
    """Run the simulations that are not there yet."""
    rows = [row for row in read_rows() if not asked.fresh or row["commit"] == head_commit()]
    there = {(row["case"], int(row["n"]), int(row["trial"])) for row in rows}
    counts = {100_000: asked.trials, LARGE: asked.large}
    wanted = [
        (case, n, trial)
        for n, count in counts.items()
        for trial in range(count)
        for case in asked.cases.split(",")
        if asked.only in (None, n)
    ]
    if asked.command == "real":
        wanted = [(case, N_REAL, 0) for case in list_real()]
    jobs = [job for job in wanted if job not in there]
    for row in run_jobs(run_one, jobs, asked.jobs, "simulations"):
        rows.append(row)
        write_rows(ROWS, FIELDS, rows)


def is_wrong(row: dict) -> bool:
    """Whether a fit says that its weights are identified and errs by more than it may."""
    return int(row["identified"]) == 1 and float(row["error"]) > WRONG


def print_table() -> None:
    """Print coverage, verdicts and errors of every case."""
    rows = read_rows()
    for n in sorted({int(row["n"]) for row in rows}):
        for case in (*CASES, REAL):
            own = [row for row in rows if row["case"].startswith(case) and int(row["n"]) == n]
            if not own:
                continue
            mean = {
                name: np.mean([float(row[name]) for row in own])
                for name in ("covered", "identified", "fits", "error", "sm", "power", "draws")
            }
            n_doubtful = sum(row["status"] != "POSTERIOR" for row in own)
            print(
                f"n = {n:>8} {case:12} {len(own):4} fits: covered {mean['covered']:.3f}, "
                f"identified {mean['identified']:.2f}, model fits {mean['fits']:.2f}, "
                f"doubtful {n_doubtful}, "
                f"{sum(is_wrong(row) for row in own)} identified and wrong, "
                f"error {mean['error']:.4f} ({mean['error'] / mean['sm']:.2f} of SM's), "
                f"power {mean['power']:.3g}, draws {mean['draws']:.0f}"
            )
    for commit, count in Counter(row["commit"] for row in rows).items():
        print(f"{count} rows of commit {commit}")


def read_memory(field: str) -> float:
    """Return a field of this process's memory in megabytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1.024e-3 for line in file if line.startswith(field))


def forget_peak() -> float:
    """Give back what is free, begin a new peak, and return the memory that is taken (Linux)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return read_memory("VmRSS")


def print_speed(sizes: list[int]) -> None:
    """Print what fits take: a first one, of few rows, loads what is compiled."""
    for n in (45_000, *sizes):
        X, y, groups, _ = simulate("exponential", n, 0)
        before = forget_peak()
        start, used = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ShuffledLinearRegression(random_state=0, n_jobs=2).fit(X, y, groups)
        seconds, used = time.perf_counter() - start, time.process_time() - used
        memory = read_memory("VmHWM") - before
        print(
            f"n = {n:>8}: {seconds:5.1f} s, {used:5.1f} s of processors, "
            f"{memory:4.0f} MB beside {(X.nbytes + y.nbytes) / 1e6:.0f} MB of data, "
            f"{model.solution_.stats['n_evaluations']} points", flush=True,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("coverage", "real", "speed", "table"))
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--large", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--rows", default="50000,100000,1000000")
    asked = parser.parse_args()
    if asked.command == "speed":
        print_speed([int(n) for n in asked.rows.split(",")])
        return
    if asked.command in ("coverage", "real"):
        run_coverage(asked)
    print_table()


if __name__ == "__main__":
    main()
