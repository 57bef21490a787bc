"""Pooled least squares over sampled pairings of real tables: coverage, score and error.

    python benchmarks/pairings.py [--draws 20] [--every 3] [--rows 400]

Both corpora (see `real_tables.py`), every k-th table of at most so many rows: 10 random bags with
the labels shuffled inside, and one block with 30 % of the links permuted, the rate estimated and
known. Each fit draws pairings; least squares on every completed table is pooled by Rubin's rules.
The truth is least squares on the true links. The fit's own intervals stand beside.
Writes results/pairings.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from calibrate_links import permute
from real_tables import CORPORA, bootstrap_error, judge, load_tables, relative_error, split
from rows import head_commit

from unshuffle import ShuffledLinearRegression, pool

TARGET = Path(__file__).parent / "results" / "pairings.md"
SHARE = 0.3
CASES = ("10 bags", "30 % wrong, rate estimated", "30 % wrong, rate known")
HEAD = (
    "| data | tables | coverage pooled (se) | coverage of the fit | score pooled | score of the "
    "fit | error pooled | error of the fit | missing information |"
)


def least_squares(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients, the intercept last, and their covariance."""
    Z = np.column_stack([X, np.ones(len(y))])
    inverse = np.linalg.inv(Z.T @ Z)
    w = inverse @ Z.T @ y
    gaps = y - Z @ w
    return w, inverse * (gaps @ gaps / (len(y) - Z.shape[1]))


def measure(model, X, y, truth, n_draws: int) -> tuple[float, ...]:
    """Return coverage, score and error of pooled least squares and of the fit."""
    fits = [least_squares(X, y[each]) for each in model.sample_pairings(n_draws, rng=1)]
    pooled = pool(*zip(*fits, strict=True), dof=len(y) - X.shape[1] - 1)
    d = len(truth)
    mine = (*judge(pooled.interval, truth), relative_error(pooled.estimate[:d], truth))
    fitted = (*judge(model.conf_int(), truth), relative_error(model.coef_, truth))
    return (*mine, *fitted, float(pooled.missing_information[:d].mean()))


def list_fits(corpus: str, name: str, place: int):
    """Yield (case, fitted model, rows, labels, truth) of a table."""
    X, y, _, truth = load_tables(corpus)[name]
    bags = split(corpus, name, "10", 0)
    if bags is not None:
        model = ShuffledLinearRegression(random_state=0).fit(bags.X, bags.y, bags.groups)
        yield CASES[0], model, bags.X, bags.y, truth
    rng = np.random.default_rng([0, place, round(100 * SHARE)])
    mixed = permute(y, np.zeros(len(y), dtype=int), SHARE, rng)
    for case, rate in zip(CASES[1:], ("estimate", SHARE), strict=True):
        yield case, ShuffledLinearRegression(mislinked=rate).fit(X, mixed), X, mixed, truth


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--rows", type=int, default=400)
    asked = parser.parse_args()
    start, found = time.process_time(), {}
    for corpus in CORPORA:
        tables = load_tables(corpus)
        for place, name in enumerate(sorted(tables)):
            if place % asked.every or len(tables[name].y) > asked.rows:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for case, model, X, y, truth in list_fits(corpus, name, place):
                    figures = measure(model, X, y, truth, asked.draws)
                    found.setdefault((case, corpus), []).append(figures)
            print(corpus, name, flush=True)
    lines = [
        f"{asked.draws} pairings of every table number k × {asked.every} of at most {asked.rows} "
        f"rows; {time.process_time() - start:.0f} s of processor time; commit {head_commit()}.",
        "", HEAD, "|---" * (HEAD.count("|") - 1) + "|",
    ]  # fmt: skip
    for case in CASES:
        for corpus in CORPORA:
            rows = np.array(found[case, corpus])
            c, s, e, fit_c, fit_s, fit_e, missing = rows.mean(axis=0)
            lines.append(
                f"| {case}, {corpus} | {len(rows)} | {c:.3f} ({bootstrap_error(rows[:, 0]):.3f}) | "
                f"{fit_c:.3f} | {s:.2f} | {fit_s:.2f} | {e:.3f} | {fit_e:.3f} | {missing:.2f} |"
            )
    TARGET.write_text("\n".join([*lines, ""]))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
