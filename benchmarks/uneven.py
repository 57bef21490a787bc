"""How often noise is called uneven where the data obey the model: scores at their true point.

    python benchmarks/uneven.py [--trials 12] [--first 0] [--rows 5000,20000,39000]

d = 5 columns, one, four and twenty random bags; prints mean, sd and the largest of the scores of
every setting, and how many are beyond 2.8, where a fit calls noise uneven: one in 200 of the normal
distribution. Seeds from 1000 are for tuning.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from rich.console import Console
from rich.table import Table

from unshuffle import Likelihood, make_shuffled
from unshuffle.data.bags import make_bags
from unshuffle.data.scaling import standardise
from unshuffle.model.building import build_target
from unshuffle.model.goodness_of_fit import measure_uneven

# From this score on a fit says "heteroscedastic noise": see `model/goodness_of_fit.py`.
ALARM = 2.8


def score(n: int, n_bags: int, features: str, snr_db: float, seed: int) -> float:
    """Return the score of simulated data at their true weights and noise."""
    data = make_shuffled(n, 5, bags=n_bags, snr_db=snr_db, features=features, rng=seed)
    bags, scaling = standardise(make_bags(data.X, data.y, data.groups), True, True)
    target = build_target(bags, True, None, Likelihood())[0]
    w = data.weights * scaling.scale / scaling.label_scale
    return measure_uneven(target, target.join(w, np.log(data.noise / scaling.label_scale)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", default="5000,20000,39000")
    asked = parser.parse_args()
    table = Table(title=f"seeds {asked.first} to {asked.first + asked.trials - 1}")
    for name in ("rows", "bags", "columns", "dB", "mean", "sd", "largest", f"beyond {ALARM}"):
        table.add_column(name, justify="right")
    n_alarms, n_all = 0, 0
    sizes = [int(text) for text in asked.rows.split(",")]
    for n, n_bags, features, snr_db in product(
        sizes, (1, 4, 20), ("normal", "exponential"), (15, 25)
    ):
        found = np.array(
            [
                score(n, n_bags, features, snr_db, seed)
                for seed in range(asked.first, asked.first + asked.trials)
            ]
        )
        n_beyond = int((np.abs(found) > ALARM).sum())
        n_alarms, n_all = n_alarms + n_beyond, n_all + len(found)
        table.add_row(
            str(n), str(n_bags), features, str(snr_db), f"{found.mean():.2f}",
            f"{found.std(ddof=1):.2f}", f"{np.abs(found).max():.2f}", str(n_beyond),
        )  # fmt: skip
    Console(width=100).print(table)
    print(f"{n_alarms} of {n_all} beyond {ALARM}")


if __name__ == "__main__":
    main()
