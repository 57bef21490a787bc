"""How often the default finds the exact answer of noiseless data, in a table on stdout.

    python benchmarks/noiseless.py [--cases 30] [--rows 12,20,50,200,1000] [--columns 1,2,3,4,5,6]
                                   [--bags 1]

A cell says how many of the cases were right to 1e-8 and called identified; after + come those with
several exact answers, the true one among them. One bag unless told; the intercept is fitted too.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from unshuffle import ShuffledLinearRegression, shuffle_labels
from unshuffle.core.solution import Status

KINDS = ("gamma", "normal", "uniform", "integer", "binary")


def draw_columns(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the columns; "binary" has every second one binary, the rest normal."""
    if kind == "gamma":
        return rng.gamma(2.0, size=(n, d))
    if kind == "uniform":
        return rng.random((n, d))
    if kind == "integer":
        return rng.integers(0, 10, (n, d)).astype(float)
    X = rng.standard_normal((n, d))
    if kind == "binary" and d > 1:
        X[:, ::2] = rng.integers(0, 2, X[:, ::2].shape)
    return X


def classify(kind: str, n: int, d: int, n_bags: int, seed: int) -> str:
    """Return whether one case was found: "right", "several" or "missed"."""
    rng = np.random.default_rng([seed, n, d, n_bags])
    X = draw_columns(kind, n, d, rng)
    w = rng.choice([-5.0, -3.0, -2.0, 1.0, 2.0, 4.0], d)
    w = w if kind == "integer" else rng.standard_normal(d)
    groups = np.arange(n) % n_bags
    y = shuffle_labels(X @ w + 0.5, groups, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ShuffledLinearRegression(random_state=seed).fit(X, y, groups)
    answers = [c.weights[:d] for c in model.solution_.candidates]
    is_there = any(np.abs(answer - w).max() < 1e-8 for answer in answers)
    if not is_there or model.solution_.status is not Status.NOISELESS:
        return "missed"
    return "right" if len(answers) == 1 and model.identified_ else "several"


def main() -> None:
    """Print a row for each number of rows and columns."""
    parser = argparse.ArgumentParser(description="exact answers of noiseless data")
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--rows", default="12,20,50,200,1000")
    parser.add_argument("--columns", default="1,2,3,4,5,6")
    parser.add_argument("--bags", type=int, default=1)
    args = parser.parse_args()
    print("n     d  " + "  ".join(f"{kind:>8}" for kind in KINDS) + f"   of {args.cases}")
    for n in map(int, args.rows.split(",")):
        for d in map(int, args.columns.split(",")):
            cells = []
            for kind in KINDS:
                found = [classify(kind, n, d, args.bags, seed) for seed in range(args.cases)]
                several = found.count("several")
                cells.append(f"{found.count('right')}" + (f"+{several}" if several else ""))
            print(f"{n:<5} {d}  " + "  ".join(f"{cell:>8}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
