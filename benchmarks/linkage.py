"""Links of which a share is wrong: every cell beside least squares, Huber and shuffled LS.

    python benchmarks/linkage.py [--trials 200] [--noise 0.1,0.5,1] [--features exponential]

n = 500, d = 5, one bag. Printed for each share of rows that were shuffled: the mean error
|w - w₀|/|w₀| of each, how ours compares with the best of the others, the coverage of its 95 %
intervals, the mean share found, and how often each path was taken. Seeds from 0 are for reporting.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter

import numpy as np
from sklearn.linear_model import HuberRegressor, LinearRegression

from unshuffle import ShuffledLinearRegression, make_shuffled

SHARES = (0.0, 0.1, 0.3, 0.6, 1.0)
N, D = 500, 5


def simulate(noise: float, share: float, features: str, trial: int):
    """Return rows, labels of which a share was shuffled, and the weights."""
    rng = np.random.default_rng([trial, round(100 * share)])
    data = make_shuffled(N, D, noise=noise, features=features, rng=rng)
    y, some = data.linked_y.copy(), rng.permutation(N)[: round(share * N)]
    y[some] = y[rng.permutation(some)]
    return data.X, y, data.weights


def run_one(noise: float, share: float, features: str, trial: int):
    """Return the errors of all four, which intervals cover, the share found and the path."""
    X, y, w = simulate(noise, share, features, trial)
    ours = ShuffledLinearRegression(mislinked="estimate", random_state=trial).fit(X, y)
    fits = {
        "ours": ours,
        "ols": LinearRegression().fit(X, y),
        "huber": HuberRegressor(max_iter=1000).fit(X, y),
        "shuffled ls": ShuffledLinearRegression("ls", random_state=trial).fit(X, y),
    }
    errors = {
        name: float(np.linalg.norm(fit.coef_ - w) / np.linalg.norm(w)) for name, fit in fits.items()
    }
    low, high = ours.conf_int().T
    path = "matched" if ours.method_ == "mixture" and ours.posterior_ else ours.method_
    return errors, np.mean((low <= w) & (w <= high)), ours.summary().mislinked, path


def main() -> None:
    """Print every cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--noise", default="0.1,0.5,1")
    parser.add_argument("--features", default="exponential")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    names = ("ours", "ols", "huber", "shuffled ls")
    print(f"{asked.trials} trials, n = {N}, d = {D}, {asked.features} features")
    print("noise shuffled " + " ".join(f"{name:>12}" for name in names) + "  to best  cover  found")
    for noise in map(float, asked.noise.split(",")):
        for share in SHARES:
            rows = [run_one(noise, share, asked.features, trial) for trial in range(asked.trials)]
            errors = {name: np.mean([row[0][name] for row in rows]) for name in names}
            ratio = errors["ours"] / min(errors[name] for name in names[1:])
            cover, found = np.mean([row[1] for row in rows]), np.mean([row[2] for row in rows])
            paths = ", ".join(f"{k} {v}" for k, v in Counter(row[3] for row in rows).most_common())
            cells = " ".join(f"{errors[name]:12.4f}" for name in names)
            print(
                f"{noise:5g} {share:8.0%} {cells} {ratio:8.2f} {cover:6.1%} {found:6.2f}  {paths}",
                flush=True,
            )


if __name__ == "__main__":
    main()
