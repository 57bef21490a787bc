"""A curve from shuffled labels: a kernel approximation before the estimator.

The response to a dose is a curve, not a line. Samples were measured in batches, and inside a batch
the labels were mixed up. A scikit-learn pipeline first turns the dose into a few smooth features;
the estimator then finds their weights, and the pipeline predicts the curve.

Run: python examples/kernel.py
"""

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from unshuffle import ShuffledLinearRegression, shuffle_labels

N_BATCHES, N_SAMPLES, NOISE = 40, 25, 0.1


def respond(dose):
    """Return the true response: it rises, then falls."""
    return np.sin(1.5 * dose) + 0.3 * dose


def main():
    rng = np.random.default_rng(0)
    batches = np.repeat(np.arange(N_BATCHES), N_SAMPLES)
    # Each batch covers another range of doses: without such differences bags say little.
    centre = rng.uniform(0.3, 2.7, N_BATCHES)[batches]
    dose = np.clip(centre + 0.5 * rng.standard_normal(len(batches)), 0.0, 3.0)
    linked = respond(dose) + NOISE * rng.standard_normal(len(dose))
    y = shuffle_labels(linked, batches, rng)

    pipeline = make_pipeline(
        Nystroem(gamma=1.0, n_components=5, random_state=0),
        ShuffledLinearRegression(noise=NOISE, random_state=0),
    )
    pipeline.fit(dose[:, None], y, shuffledlinearregression__groups=batches)

    grid = np.linspace(0.1, 2.9, 8)
    curve = pipeline.predict(grid[:, None])
    print(f"{N_BATCHES} batches of {N_SAMPLES} samples, labels shuffled inside each")
    print("dose      " + "".join(f"{value:7.2f}" for value in grid))
    print("found     " + "".join(f"{value:7.2f}" for value in curve))
    print("truth     " + "".join(f"{value:7.2f}" for value in respond(grid)))
    error = float(np.sqrt(np.mean((curve - respond(grid)) ** 2)))
    print(f"root mean square error of the curve: {error:.3f} (noise {NOISE})")
    return error


if __name__ == "__main__":
    main()
