"""Rows from one instrument and labels from another, which never saw the same cell.

An image cytometer measures size and granularity of some cells of each culture; a sorter measures
the fluorescence of others of the same culture and exports a histogram. No cell is in both, and
there is nothing to match. Rows and labels are separate samples of a culture. The data tell how
their distributions change together from culture to culture. The cultures are simulated, and the
answer is compared with the truth.

Run: python examples/separate_samples.py
"""

import numpy as np

from unshuffle import Bag, Histogram, fit

METHOD = "ls"
FEATURES = ["size", "granularity"]
WEIGHTS, INTERCEPT, NOISE = np.array([0.8, -0.5]), 2.0, 0.1
N_CULTURES, N_IMAGED, N_SORTED = 12, 300, 5000
# Log10 fluorescence; what lies beyond the sorter's range piles up at its ends.
EDGES = np.array([-np.inf, *np.linspace(0.0, 5.0, 41), np.inf])


def grow(n_cells, mean, rng):
    """Return size and granularity of cells of one culture."""
    return mean * rng.gamma(4.0, 0.25, (n_cells, 2))


def measure_cultures(rng):
    """Return a bag for each culture: imaged cells, and the histogram of sorted ones."""
    bags = []
    for _ in range(N_CULTURES):
        mean = rng.uniform(0.5, 2.5, 2)
        imaged, others = grow(N_IMAGED, mean, rng), grow(N_SORTED, mean, rng)
        light = others @ WEIGHTS + INTERCEPT + NOISE * rng.standard_normal(N_SORTED)
        bags.append(Bag(imaged, Histogram(EDGES, np.histogram(light, EDGES)[0])))
    return bags


def main():
    bags = measure_cultures(np.random.default_rng(0))
    found = fit(bags, method=METHOD, same_individuals=False, rng=0)
    print(f"{N_CULTURES} cultures, {N_IMAGED} cells imaged and {N_SORTED} sorted in each")
    print(found.pairing.sentence)
    for name, w, true in zip(FEATURES, found.coef, WEIGHTS, strict=True):
        print(f"{name:<12}{w:8.3f}   (truth {true:g})")
    return float(np.linalg.norm(found.coef - WEIGHTS) / np.linalg.norm(WEIGHTS))


if __name__ == "__main__":
    main()
