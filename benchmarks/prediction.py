"""Coverage of predictive intervals, by simulation: of the prediction, and of a new label.

    python benchmarks/prediction.py [--trials 200] [--jobs 2] [--settings 60x6@15,60x6@5,60x1@15]

Rows x bags @ SNR in dB, three exponential features, an intercept; 95 % intervals of the default at
one new row of each fit. results/prediction.md keeps what is printed.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from rows import head_commit, run_jobs

from unshuffle import ShuffledLinearRegression, make_shuffled

RESULTS = Path(__file__).parent / "results"
SETTINGS = "60x6@15,60x6@5,60x1@15,300x10@10"


def run_one(job: tuple[str, int]) -> dict:
    """Fit one simulation, and look whether the intervals at a new row hold."""
    setting, seed = job
    shape, snr = setting.split("@")
    n, bags = map(int, shape.split("x"))
    rng = np.random.default_rng([7, seed])
    data = make_shuffled(n, 3, snr_db=float(snr), bags=bags, intercept=1.0, rng=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ShuffledLinearRegression(random_state=seed).fit(data.X, data.y, data.groups)
    row = rng.exponential(size=(1, 3))
    truth = float(row[0] @ data.weights + data.intercept)
    found: dict = {"setting": setting}
    for new_label in (False, True):
        value = truth + new_label * data.noise * rng.standard_normal()
        low, high = model.predict_interval(row, new_label=new_label)[0]
        found["label" if new_label else "prediction"] = bool(low <= value <= high)
        found["label width" if new_label else "prediction width"] = (high - low) / data.noise
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--settings", default=SETTINGS)
    asked = parser.parse_args()
    settings = asked.settings.split(",")
    jobs = [(setting, seed) for setting in settings for seed in range(asked.trials)]
    rows = list(run_jobs(run_one, jobs, asked.jobs, "fits"))
    head = ("rows", "bags", "dB", "fits", "prediction", "new label", "widths / noise sd")
    lines = [
        f"95 % intervals at a new row, the default method, commit {head_commit()}.",
        "",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
    ]
    for setting in settings:
        own = [row for row in rows if row["setting"] == setting]
        shape, snr = setting.split("@")
        cells = [*shape.split("x"), snr, str(len(own))]
        cells += [f"{np.mean([row[name] for row in own]):.1%}" for name in ("prediction", "label")]
        widths = (
            np.median([row[f"{name} width"] for row in own]) for name in ("prediction", "label")
        )
        cells.append(" and ".join(f"{width:.2g}" for width in widths))
        lines.append("| " + " | ".join(cells) + " |")
    text = "\n".join([*lines, ""])
    (RESULTS / "prediction.md").write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
