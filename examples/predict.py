"""Fit today, predict tomorrow: a model kept in a file, and how sure its predictions are.

A laboratory pools its samples, so that inside a pool no reading is linked to its sample. The model
fitted to the pools is kept as JSON; later, on another machine, it predicts single new samples: the
mean reading of such a sample, and the range in which the next reading will lie, noise included.
The same from the command line:

    unshuffle fit pools.csv --label reading --bag pool --save model.json
    unshuffle predict model.json new.csv --new-label

Run: python examples/predict.py
"""

import tempfile
from pathlib import Path

import numpy as np

from unshuffle import ShuffledLinearRegression, load, make_shuffled

N_NEW = 200


def main(folder=None):
    data = make_shuffled(n=240, d=2, noise=0.2, bags=8, intercept=1.0, rng=0)
    model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    with tempfile.TemporaryDirectory() as spare:
        path = Path(folder or spare) / "model.json"
        model.save(path)
        kept = load(path)
        print(f"kept in {path.stat().st_size // 1024} KB of JSON")
    rng = np.random.default_rng(1)
    rows = rng.exponential(size=(N_NEW, 2))
    mean = rows @ data.weights + data.intercept
    readings = mean + data.noise * rng.standard_normal(N_NEW)
    shares = {}
    for what, values, new_label in (("mean", mean, False), ("reading", readings, True)):
        low, high = kept.predict_interval(rows, level=0.95, new_label=new_label).T
        shares[what] = float(np.mean((low <= values) & (values <= high)))
        width = float(np.mean(high - low))
        print(f"{what:<8} mean width {width:.3f}, holds the truth in {shares[what]:.0%}")
    z, sd = kept.predict(rows[:1], return_std=True)
    print(f"first new sample: {z[0]:.2f} ± {sd[0]:.2f} (measured {readings[0]:.2f})")
    return shares


if __name__ == "__main__":
    main()
