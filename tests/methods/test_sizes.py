"""One solve for every size: entry points agree to the bit, and no size is a step in the answer."""

import json
import subprocess
import sys

import numpy as np
import pytest

from unshuffle import Bag, ShuffledLinearRegression, fit, make_shuffled

N_BAGS = 20


def find_weights(n, entry, folder):
    """Return the coefficients and their intervals of one data set by an entry point."""
    data = make_shuffled(n, 3, bags=N_BAGS, noise=0.5, rng=0)
    codes = np.asarray(data.groups)
    if entry == "bags":
        bags = [Bag(data.X[codes == r], data.y[codes == r]) for r in np.unique(codes)]
        found = fit(bags, rng=0)
        return found.weights, np.asarray(found.conf_int())[:3]
    if entry in ("csv", "parquet"):
        frame = pytest.importorskip("pandas").DataFrame(data.X, columns=["a", "b", "c"])
        frame["y"], frame["bag"] = data.y, codes
        path = folder / f"data.{entry}"
        frame.to_csv(path, index=False) if entry == "csv" else frame.to_parquet(path, index=False)
        command = [sys.executable, "-m", "unshuffle", "fit", str(path)]
        command += ["--label", "y", "--bag", "bag", "--json", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        printed = json.loads(done.stdout)
        ends = printed["coefficients"].values()
        rows = [*ends, printed["intercept"]]
        return (
            np.array([row["estimate"] for row in rows]),
            np.array([[row["low"], row["high"]] for row in ends]),
        )
    X, y, groups = data.X, data.y, codes
    if entry == "dask":
        da = pytest.importorskip("dask.array")
        X, y, groups = (
            da.from_array(each, chunks=(9000, 3)[: each.ndim]) for each in (X, y, codes)
        )
    model = ShuffledLinearRegression(random_state=0).fit(X, y, groups=groups)
    return np.append(model.coef_, model.intercept_), np.asarray(model.conf_int())


@pytest.mark.slow
@pytest.mark.parametrize("n", [42_000, 100_000])
def test_every_entry_point_gives_the_same_bits(n, tmp_path):
    coefficients, intervals = find_weights(n, "estimator", tmp_path)
    for entry in ("bags", "csv", "parquet", "dask"):
        found, ends = find_weights(n, entry, tmp_path)
        np.testing.assert_array_equal(found, coefficients, err_msg=entry)
        np.testing.assert_array_equal(ends, intervals, err_msg=entry)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_row_more_than_what_is_kept_in_memory_moves_no_estimate(seed):
    """At 20 000 rows the search and the draws change: estimates may differ by Monte Carlo error.

    A median has a standard error of 1.25 sds over the root of the effective sample size, and an
    interval is at least 3.9 sds wide: three standard errors are allowed, or a twentieth.
    """
    rng = np.random.default_rng(seed)
    X, groups = rng.normal(size=(20_001, 5)), np.arange(20_001) % N_BAGS
    X += 0.3 * rng.normal(size=(N_BAGS, 5))[groups]
    y = X @ np.array([0.6, -0.4, 0.3, 0.5, 0.0]) + 0.5 * rng.normal(size=20_001)
    for r in range(N_BAGS):
        own = np.flatnonzero(groups == r)
        y[own] = y[rng.permutation(own)]
    fits = [
        ShuffledLinearRegression(random_state=0).fit(X[:n], y[:n], groups=groups[:n])
        for n in (20_000, 20_001)
    ]
    widths = np.diff(np.asarray(fits[0].conf_int())[:5], axis=1)[:, 0]
    sizes = [each.result_.stats.effective_draws for each in fits]
    chance = 1.25 / 3.9 * np.sqrt(sum(1.0 / size for size in sizes))
    shift = np.abs((fits[1].coef_ - fits[0].coef_) / widths).max()
    assert shift < max(0.05, 3.0 * chance), (shift, sizes)
