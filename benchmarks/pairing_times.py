"""Processor seconds of the default fit by what is known of the labels, two versions in turns.

    python benchmarks/pairing_times.py [--base OTHER/src] [--rows 600 1500 10000] [--seeds 3]

Six bags of three Gaussian columns, whose means differ by half of a column's sd; noise of half of
the signal's sd. All labels, the labels of half of the rows, half of the rows with the labels of the
others, and histograms of 15 bins. Then 80 labels of 100 rows (Tsakiris and Peng 2019): see
`field.py`. Each version runs in a process of its own with one thread; a fit before the first is not
counted (it compiles). The ratio is that to all labels, of the seeds' sums.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent.parent / "src"
KINDS = ("all labels", "half missing", "separate samples", "histograms")
NOISES = (0.01, 0.05, 0.1)
MEASURE = """
import sys, time, warnings
import numpy as np
from unshuffle import Bag, Histogram, fit
warnings.simplefilter("ignore")
kind, n, n_seeds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
times, errors = [], []
for seed in range(n_seeds + 1):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, 3)), rng.normal(size=3)
    options = {}
    if kind.startswith("80"):
        y = (X @ w + float(kind.split()[-1]) * rng.normal(size=n))[rng.permutation(n)[:80]]
        bags, options = [Bag(X, y)], dict(fit_intercept=False, same_individuals=True)
    else:
        groups = np.arange(n) % 6
        X += 0.5 * rng.normal(size=(6, 3))[groups]
        w /= np.linalg.norm(w)
        y, bags = X @ w + 0.5 * rng.normal(size=n), []
        edges = np.linspace(y.min(), y.max(), 16)
        for r in range(6):
            rows = rng.permutation(np.flatnonzero(groups == r))
            half = len(rows) // 2
            if kind == "all labels":
                bags.append(Bag(X[rows], rng.permutation(y[rows])))
            elif kind == "half missing":
                bags.append(Bag(X[rows], y[rows[:half]]))
            elif kind == "separate samples":
                bags.append(Bag(X[rows[:half]], y[rows[half:]]))
            else:
                bags.append(Bag(X[rows], Histogram(edges, np.histogram(y[rows], edges)[0])))
        options = dict(same_individuals={"half missing": True, "separate samples": False}.get(kind))
    start = time.process_time()
    found = fit(bags, rng=0, **options)
    times.append(time.process_time() - start)
    errors.append(float(np.linalg.norm(found.coef - w) / np.linalg.norm(w)))
print(float(np.mean(times[1:])), float(np.median(errors[1:])))
"""


def measure(src: Path, kind: str, n: int, n_seeds: int) -> tuple[float, float]:
    """Return the mean processor time of fits by the code in a folder, and their median error."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, "-c", MEASURE, kind, str(n), str(n_seeds)]
    environment = {**os.environ, **one, "PYTHONPATH": str(src)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, error = done.stdout.split()
    return float(seconds), float(error)


def show(src: Path | None, kind: str, n: int, n_seeds: int) -> tuple[float, str]:
    """Return seconds, and seconds and error as cells of the table."""
    if src is None:
        return float("nan"), "– | –"
    seconds, error = measure(src, kind, n, n_seeds)
    return seconds, f"{seconds:.2f} | {error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="src folder of the other version")
    parser.add_argument("--rows", nargs="+", type=int, default=[600, 1500, 10_000])
    parser.add_argument("--seeds", type=int, default=3, help="data sets for each case")
    given = parser.parse_args()
    print("| rows | labels | base, s | error | this version, s | error | ratio to all labels |")
    print("|---|---|---|---|---|---|---|")
    for n in given.rows:
        unit = 0.0
        for kind in KINDS:
            seconds, cells = show(HERE, kind, n, given.seeds)
            unit = seconds if kind == KINDS[0] else unit
            _, old = show(given.base, kind, n, given.seeds)
            print(f"| {n} | {kind} | {old} | {cells} | {seconds / unit:.1f} |", flush=True)
    for noise in NOISES:
        kind = f"80 of 100, noise {noise:g}"
        _, cells = show(HERE, kind, 100, given.seeds)
        _, old = show(given.base, kind, 100, given.seeds)
        print(f"| 100 | {kind} | {old} | {cells} | – |", flush=True)


if __name__ == "__main__":
    main()
