"""LS of many rows: how far its value lies above the one that is reached from the truth.

    python benchmarks/block_ls.py [--rows 5e4 1e6] [--seeds 0:20] [--bags 20] [--method ls]

Five columns, 15 dB. Values are those of all rows, sorted, in the labels' variance; the one from the
truth is where a descent on all sorted rows ends that begins with the true weights. Seconds are
those of the processor, for the fit alone. With `--method emd` the same of EMD.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402

import numpy as np  # noqa: E402

from unshuffle import ShuffledLinearRegression, make_shuffled  # noqa: E402
from unshuffle.data.bags import make_bags  # noqa: E402
from unshuffle.data.scaling import standardise  # noqa: E402
from unshuffle.objectives.losses import Absolute, Squared  # noqa: E402
from unshuffle.objectives.penalties import no_penalty  # noqa: E402
from unshuffle.objectives.problem import Problem  # noqa: E402
from unshuffle.solvers.descent import descend  # noqa: E402

D, SNR_DB = 5, 15.0
# A value so many times that from the truth is one of another basin.
WRONG = 1.1
LOSSES = {"ls": Squared(), "emd": Absolute()}


def compare(n: int, n_bags: int, seed: int, method: str) -> tuple[float, float, float, float]:
    """Return value over that from the truth, the latter, the weights' error, and seconds."""
    data = make_shuffled(n, D, bags=n_bags, snr_db=SNR_DB, rng=seed)
    model = ShuffledLinearRegression(method=method, random_state=seed, n_jobs=-1)
    begin = time.process_time()
    model.fit(data.X, data.y, data.groups)
    seconds = time.process_time() - begin
    bags, scaling = standardise(make_bags(data.X, data.y, data.groups), True, True)
    problem = Problem(bags, LOSSES[method], None, no_penalty(D + 1), True)
    truth = scaling.to_standard(np.append(data.weights, data.intercept))
    inverse = 0.5 * np.linalg.inv(problem.curvature)
    ends = descend(problem.smooth, truth[None], inverse, problem.penalty.l1, 1e-9)
    found = scaling.to_standard(np.append(model.coef_, model.intercept_))
    value = float(problem.smooth(found[None])[0][0])
    error = np.linalg.norm(model.coef_ - data.weights) / np.linalg.norm(data.weights)
    return value / float(ends.values[0]), float(ends.values[0]), float(error), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", type=lambda text: int(float(text)), default=[50_000])
    parser.add_argument("--seeds", default="0:20", help="first and behind the last")
    parser.add_argument("--bags", type=int, default=20)
    parser.add_argument("--method", choices=list(LOSSES), default="ls")
    asked = parser.parse_args()
    first, stop = map(int, asked.seeds.split(":"))
    warnings.simplefilter("ignore")
    for n in asked.rows:
        ratios, times = [], []
        for seed in range(first, stop):
            ratio, value, error, seconds = compare(n, asked.bags, seed, asked.method)
            ratios.append(ratio)
            times.append(seconds)
            print(
                f"{asked.method}, {n} rows, {asked.bags} bags, seed {seed}: {ratio:.4f} x "
                f"{value:.3e}, error {error:.3f}, {seconds:.2f} s",
                flush=True,
            )
        n_right = sum(ratio <= WRONG for ratio in ratios)
        print(
            f"{n} rows: {n_right} of {len(ratios)} within {WRONG} x of the value from the truth, "
            f"worst {max(ratios):.3f}; median {np.median(times):.2f} s of processor"
        )


if __name__ == "__main__":
    main()
