"""Processor seconds of the default fit by the number of rows, this version beside another.

    python benchmarks/fit_times.py [--base OTHER/src] [--cases 100,5 1000,20 1000,20,10] [--seeds 3]

A case is rows, bags and columns (5 unless given): Gaussian columns, noise of half of the signal's
sd, bags at random. Versions take turns in one run, each in a process of its own with one thread; a
fit before the first is not counted (it compiles).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

CASES = ("100,5", "300,20", "1000,20", "4000,20", "10000,20", "39000,20", "50000,20")
HERE = Path(__file__).parent.parent / "src"
MEASURE = """
import sys, time, warnings
import numpy as np
from unshuffle import ShuffledLinearRegression
warnings.simplefilter("ignore")
n, n_bags, d = (int(part) for part in sys.argv[1].split(","))
times = []
for seed in range(int(sys.argv[2]) + 1):
    rng = np.random.default_rng(seed)
    X, weights, bags = rng.normal(size=(n, d)), rng.normal(size=d), np.arange(n) % n_bags
    y = X @ (weights / np.linalg.norm(weights)) + 0.5 * rng.normal(size=n)
    for r in range(n_bags):
        y[bags == r] = rng.permutation(y[bags == r])
    start = time.process_time()
    ShuffledLinearRegression(random_state=0).fit(X, y, groups=bags)
    times.append(time.process_time() - start)
print(float(np.median(times[1:])))
"""


def measure(src: Path, case: str, n_seeds: int) -> float:
    """Return the median processor time of fits by the code in a folder."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, "-c", MEASURE, case, str(n_seeds)]
    environment = {**os.environ, **one, "PYTHONPATH": str(src)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="src folder of the other version")
    parser.add_argument("--cases", nargs="+", default=CASES, help="rows,bags[,columns]")
    parser.add_argument("--seeds", type=int, default=3, help="data sets for each case")
    given = parser.parse_args()
    print("| rows, bags, columns | base, s | this version, s | ratio |\n|---|---|---|---|")
    for case in given.cases:
        whole = case if case.count(",") == 2 else f"{case},5"
        new = measure(HERE, whole, given.seeds)
        old = None if given.base is None else measure(given.base, whole, given.seeds)
        beside = "– | {:.2f} | –" if old is None else f"{old:.2f} | {{:.2f}} | {new / old:.2f}"
        print(f"| {whole.replace(',', ', ')} | {beside.format(new)} |", flush=True)


if __name__ == "__main__":
    main()
