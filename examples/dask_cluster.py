"""Rows by the hundred million on a cluster of Dask: here one of processes on this machine.

Every partition is generated where it is used and stays there; what travels are histograms. Each of
20 sites sends rows of five columns and, apart from them and in an order of their own, their labels:
a bag each. The weights are known, so that the answer can be compared with the truth.

Run: python examples/dask_cluster.py                    a million rows
     python examples/dask_cluster.py 100_000_000        19 minutes on two cores, and 3 GB in the
                                                        workers' memory (29 bytes a row)

On a cluster that is running replace `LocalCluster(...)` by ``Client("tcp://host:8786")``; the
coefficients are the same to the last digit.
"""

import sys
import time

import numpy as np

from unshuffle import ShuffledLinearRegression

FEATURES = ["a", "b", "c", "d", "e"]
WEIGHTS = np.array([1.0, -0.6, 0.4, 0.3, -0.2])
N_SITES, NOISE = 20, 0.25
PARTITION_ROWS = 500_000


def generate(place, n_rows):
    """Return one partition: rows of all sites, the labels of each in an order of their own."""
    import pandas as pd

    rng = np.random.default_rng([7, place])
    site = rng.integers(0, N_SITES, n_rows)
    X = rng.exponential(size=(n_rows, len(FEATURES)))
    y = X @ WEIGHTS + NOISE * rng.standard_normal(n_rows)
    for each in range(N_SITES):
        own = np.flatnonzero(site == each)
        y[own] = y[rng.permutation(own)]
    frame = pd.DataFrame(X.astype(np.float32), columns=FEATURES)
    return frame.assign(score=y, site=site.astype(np.int8))


def open_table(n_rows):
    """Return the table of Dask; nothing is generated yet."""
    import dask.dataframe as dd

    n_parts = max(2, -(-n_rows // PARTITION_ROWS))
    sizes = [n_rows // n_parts + (k < n_rows % n_parts) for k in range(n_parts)]
    return dd.from_map(generate, range(n_parts), sizes, meta=generate(0, 1))


def main(n_rows=1_000_000, n_workers=2):
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster):
        ddf = open_table(n_rows)
        start = time.perf_counter()
        model = ShuffledLinearRegression(random_state=0)
        model.fit(ddf[FEATURES], ddf["score"], groups=ddf["site"])
        seconds = time.perf_counter() - start
    print(f"{n_rows} rows in {ddf.npartitions} partitions, {n_workers} workers: {seconds:.1f} s")
    print(model.summary())
    print("truth", *WEIGHTS)
    return float(np.linalg.norm(model.coef_ - WEIGHTS) / np.linalg.norm(WEIGHTS))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
