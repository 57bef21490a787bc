"""Coverage, error and named misfit where the model is wrong: simulations at 15 dB.

    python benchmarks/violations.py run [--trials 24] [--first 0] [--sizes 0,1] [--jobs 2]
    python benchmarks/violations.py table

`run` adds one line per simulation to results/violations.csv and skips what is there already;
`table` prints every setting and writes results/violations.md. "obeys", "binary", "discrete" and
"correlated" obey the model; the truth of a curved mean is least squares on the linked labels. Noise
that grows with the prediction, as e^{.8 z}, has 15 dB as a whole ("uneven" with exponential rows,
"uneven_normal"); "uneven_strong" has 15 dB at z = 0 alone, which leaves about 5 dB. Seeds from 1000
are for tuning.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from rows import head_commit, run_jobs, write_rows

from unshuffle import ShuffledLinearRegression

ROWS = Path(__file__).parent / "results" / "violations.csv"
# Rows, columns and bags.
SIZES = ((150, 3, 5), (1000, 4, 10), (4000, 3, 20))
KINDS = (
    "obeys", "offset", "offset_means", "curve", "curve_means", "uneven_strong", "t3", "binary",
    "uneven", "uneven_normal", "skewed", "two_point", "outliers", "discrete", "correlated",
)  # fmt: skip
TUNING = 1000
NORMAL_ROWS = ("offset", "offset_means", "curve", "curve_means", "uneven_normal")
REASONS = {
    "offsets": "offsets between bags", "curve": "a curved mean", "uneven": "heteroscedastic noise",
    "shape": "labels of another distribution",
}  # fmt: skip
FIELDS = (
    "kind", "size", "seed", "covered", "error", "ls", "means", "identified", "reasons", "seconds",
    "commit",
)  # fmt: skip


def draw_rows(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the rows of a setting."""
    if kind in NORMAL_ROWS:
        return rng.normal(size=(n, d))
    if kind == "binary":
        return np.column_stack([rng.integers(0, 2, n), rng.exponential(size=(n, d - 1))])
    if kind == "discrete":
        return rng.poisson(2.0, size=(n, d)).astype(float)
    X = rng.exponential(size=(n, d))
    # Correlations of about .7 between columns.
    return X + 1.5 * rng.exponential(size=(n, 1)) if kind == "correlated" else X


def draw_noise(kind: str, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw noise, of variance one but where it is strongly uneven."""
    n = len(z)
    if kind == "t3":
        return rng.standard_t(3, n) / np.sqrt(3)
    if kind == "skewed":
        return rng.exponential(size=n) - 1.0
    if kind == "two_point":
        return rng.choice([-1.0, 1.0], n)
    if kind == "outliers":  # one label in twenty has ten times the noise of the others
        return rng.normal(size=n) * np.where(rng.random(n) < 0.05, 10.0, 1.0) / np.sqrt(5.95)
    noise = rng.normal(size=n)
    if kind.startswith("uneven"):
        growth = np.exp(0.8 * z)
        noise *= growth if kind == "uneven_strong" else growth / np.sqrt(np.mean(growth**2))
    return noise


def simulate(kind: str, size: int, seed: int):
    """Return features, shuffled labels, groups and the weights that intervals should cover."""
    n, d, n_bags = SIZES[size]
    rng = np.random.default_rng([seed, size, KINDS.index(kind)])
    groups = rng.permutation(np.arange(n) % n_bags)
    X = draw_rows(kind, n, d, rng)
    if kind.endswith("means"):
        X = X + rng.normal(size=(n_bags, d))[groups]
    w = rng.normal(size=d)
    w /= (X @ w).std()
    z = X @ w - (X @ w).mean()
    sd = 10 ** (-15 / 20)
    noise = sd * draw_noise(kind, z, rng)
    if kind.startswith("offset"):
        noise += sd * rng.normal(size=n_bags)[groups]
    linked = z + 0.35 * z**2 * kind.startswith("curve") + noise
    if kind.startswith("curve"):
        w = np.linalg.lstsq(np.column_stack([X, np.ones(n)]), linked, rcond=None)[0][:-1]
    y = linked.copy()
    for r in range(n_bags):
        rows = np.flatnonzero(groups == r)
        y[rows] = rng.permutation(y[rows])
    return X, y, groups, w


def run_one(job: tuple[str, int, int]) -> dict:
    """Fit one simulation by the default, least squares and bag means, and return its row."""
    kind, size, seed = job
    X, y, groups, w = simulate(kind, size, seed)
    spread = X.std(axis=0)

    def measure(method: str) -> tuple[float, ShuffledLinearRegression]:
        model = ShuffledLinearRegression(method, random_state=seed).fit(X, y, groups)
        gap = np.linalg.norm((model.coef_ - w) * spread)
        return float(gap / np.linalg.norm(w * spread)), model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        error, model = measure("auto")
        seconds = time.perf_counter() - start
        others = {method: f"{measure(method)[0]:.6g}" for method in ("ls", "means")}
    low, high = model.conf_int().T
    return dict(
        kind=kind, size=size, seed=seed, covered=float(np.mean((low <= w) & (w <= high))),
        error=f"{error:.6g}", identified=int(model.identified_), seconds=f"{seconds:.3f}",
        reasons="+".join(model.solution_.misfits), **others,
    )  # fmt: skip


def read_rows() -> list[dict]:
    """Return the rows that are there."""
    return list(csv.DictReader(ROWS.read_text().splitlines())) if ROWS.exists() else []


def run(seeds: range, sizes: list[int], n_jobs: int) -> None:
    """Compute the rows that are missing."""
    rows, commit = read_rows(), head_commit()
    done = {(row["kind"], int(row["size"]), int(row["seed"])) for row in rows}
    jobs = [(kind, size, seed) for size in sizes for kind in KINDS for seed in seeds]
    missing = [job for job in jobs if job not in done]
    for row in run_jobs(run_one, missing, n_jobs, "simulations"):
        rows.append({**row, "commit": commit})
        write_rows(ROWS, FIELDS, rows)


def table() -> None:
    """Print every setting, the bad ones too."""
    rows = [row for row in read_rows() if int(row["seed"]) < TUNING]
    head = ("n", "d", "bags", "kind", "fits", "coverage", "error", "ls", "means", "/ least")
    head += ("identified", "wrong", *REASONS, "any", "s")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for size, shape in enumerate(SIZES):
        for kind in KINDS:
            own = [row for row in rows if (row["kind"], int(row["size"])) == (kind, size)]
            if not own:
                continue
            mean = {
                name: float(np.mean([float(row[name]) for row in own]))
                for name in ("covered", "error", "ls", "means", "identified", "seconds")
            }
            wrong = sum(int(row["identified"]) and float(row["error"]) > 0.3 for row in own)
            named = [
                np.mean([reason in row["reasons"] for row in own]) for reason in REASONS.values()
            ]
            named.append(np.mean([bool(row["reasons"]) for row in own]))
            cells = [*shape, kind, len(own), f"{mean['covered']:.3f}"]
            cells += [f"{mean[name]:.3f}" for name in ("error", "ls", "means")]
            cells += [f"{mean['error'] / min(mean['ls'], mean['means']):.2f}"]
            cells += [f"{mean['identified']:.2f}", wrong, *(f"{share:.2f}" for share in named)]
            cells.append(f"{mean['seconds']:.2f}")
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    text = "\n".join([*lines, "", f"Commit: {commits}."])
    print(text)
    ROWS.with_suffix(".md").write_text(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=("run", "table"))
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--sizes", default="0,1")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.task == "run":
        seeds = range(args.first, args.first + args.trials)
        run(seeds, [int(size) for size in args.sizes.split(",")], args.jobs)
    table()


if __name__ == "__main__":
    main()
