"""The audit beside `match` on the shuffled release, on ten real tables.

    python benchmarks/audit.py [--bags 10] [--rows 420] [--tables 10]

Tables of `real_tables.npz` with at most so many rows, evenly spaced by name, in equal random bags.
The audit of the linked table states the share of rows re-identified with its 95 % interval. Then
the labels are shuffled inside the bags, and an outsider with another seed fits that release (the
label on the scale that the audit names) and matches it. The table has each share, and whether that
of `match` lies in the interval. Writes results/audit.md.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from real_tables import CORPORA
from rows import head_commit

from unshuffle import ShuffledLinearRegression, audit, shuffle_labels
from unshuffle.auditing.scales import SCALES

TARGET = Path(__file__).parent / "results" / "audit.md"
HEAD = (
    "| table | rows | features | scale | by guessing | audit | 95 % interval | match | inside | "
    "control rows | risk, 95 % interval |"
)
LEAST_ROWS = 60


class Row(NamedTuple):
    """A table, what its audit states, and the share of rows that `match` gets right."""

    name: str
    n: int
    d: int
    scale: str
    guess: float
    right: float
    low: float
    high: float
    matched: float
    control: float
    risk: tuple[float, float, float]

    @property
    def is_inside(self) -> bool:
        return self.low <= self.matched <= self.high

    def __str__(self) -> str:
        value, low, high = self.risk
        return (
            f"| {self.name} | {self.n} | {self.d} | {self.scale} | {self.guess:.1%} | "
            f"{self.right:.1%} | {self.low:.1%} to {self.high:.1%} | {self.matched:.1%} | "
            f"{'yes' if self.is_inside else 'no'} | {self.control:.1%} | "
            f"{value:.1%}, {low:.1%} to {high:.1%} |"
        )


def choose_tables(n_tables: int, most_rows: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return X and the linked labels of tables that are evenly spaced by name."""
    found = np.load(Path(os.environ["UNSHUFFLE_DATA"]) / CORPORA["clean"])
    names = sorted({key.split("|")[0] for key in found.files})
    fitting = [name for name in names if LEAST_ROWS <= len(found[f"{name}|y"]) <= most_rows]
    places = np.linspace(0, len(fitting) - 1, n_tables).round().astype(int)
    chosen = [fitting[place] for place in places]
    return {name: (found[f"{name}|X"], found[f"{name}|y"]) for name in chosen}


def measure(
    name: str, X: np.ndarray, y: np.ndarray, n_bags: int, method: str = "auto", seed: int = 0
) -> Row:
    """Audit a table in random bags, and match its shuffled release with another seed."""
    X, y = np.asarray(X, float), np.asarray(y, float)
    rng = np.random.default_rng([seed, len(y)])
    groups = rng.permutation(np.arange(len(y)) % n_bags)
    found = audit(X, y, groups, rng=seed, method=method).planned
    released = shuffle_labels(y, groups, rng=rng)
    labels = SCALES[found.scale].transform(released)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ShuffledLinearRegression(method, random_state=seed + 1).fit(X, labels, groups)
        match = model.match(X, labels, groups)
    matched = float(np.mean(released[match.order] == y))
    share, risk = found.matched, found.risk
    return Row(
        name, len(y), X.shape[1], found.scale, found.guess, share.value, share.low, share.high,
        matched, found.control_right.value, (risk.value, risk.low, risk.high),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bags", type=int, default=10)
    parser.add_argument("--rows", type=int, default=420)
    parser.add_argument("--tables", type=int, default=10)
    asked = parser.parse_args()
    start, rows = time.process_time(), []
    print(f"{HEAD}\n{'|---' * 11}|")
    for name, (X, y) in choose_tables(asked.tables, asked.rows).items():
        rows.append(measure(name, X, y, asked.bags))
        print(rows[-1], flush=True)
    n_inside = sum(row.is_inside for row in rows)
    summary = f"{n_inside} of {len(rows)} shares of `match` lie in the interval of the audit."
    print(summary)
    minutes = (time.process_time() - start) / 60
    lines = [
        "# The audit beside `match`", "", __doc__.split("\n\n")[2].strip(), "",
        f"Commit {head_commit()}, {asked.bags} bags, {minutes:.1f} minutes of one core.", "",
        HEAD, "|---" * 11 + "|", *map(str, rows), "", summary, "",
    ]  # fmt: skip
    TARGET.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
