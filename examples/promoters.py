"""Which promoter does what? Pooled flow cytometry, from FCS files to a report.

Twenty-five constructs carry two promoters each. Measuring them one by one takes twenty-five runs;
here ten runs measure pools of unequal mixes, and no cell says which construct it carries. The
noise is measured in a run of a single construct, whose cells differ by nothing else.

Needs the data: set UNSHUFFLE_DATA to the folder that holds `promoters.csv.gz` and `fcs/`.
Run: python examples/promoters.py [report.html]
"""

import sys
import warnings

import numpy as np
import pandas
from sklearn.exceptions import ConvergenceWarning

from unshuffle import (
    ModelMisfitWarning,
    ShuffledLinearRegression,
    noise_from_calibration,
    shuffle_labels,
    write_report,
)
from unshuffle.datasets import dataset_path, load_promoters
from unshuffle.io import read_table

N_POOLS, N_CELLS = 10, 2000


def read_labels(name):
    """Read one run: the label of a cell is the log ratio of its two colours."""
    run = read_table(dataset_path(name))
    green, red = run.columns["FITC-A"], run.columns["PE-Texas Red-A"]
    is_lit = (green > 0) & (red > 0)
    return np.log10(green[is_lit] / red[is_lit])


def draw_pools(promoters, rng):
    """Mix constructs in unequal, known shares; return the rows of all pools and their pool."""
    names = np.unique(promoters.construct)
    members = {name: np.flatnonzero(promoters.construct == name) for name in names}
    rows, pools = [], []
    for pool in range(N_POOLS):
        shares = rng.dirichlet(np.full(len(names), 0.5))
        for name, count in zip(names, rng.multinomial(N_CELLS, shares), strict=True):
            rows.append(rng.choice(members[name], count))
            pools += [f"run {pool + 1}"] * count
    return np.concatenate(rows), np.array(pools)


def main(path="promoters.html"):
    # The verdict below says whatever a warning would.
    for kind in (ConvergenceWarning, ModelMisfitWarning):
        warnings.simplefilter("ignore", kind)
    rng = np.random.default_rng(0)
    noise = noise_from_calibration(read_labels("fcs-J23101_J23101"))
    print(f"noise of a single-construct run: sd {noise.sd:.3f}")

    promoters = load_promoters()
    rows, pools = draw_pools(promoters, rng)
    X, linked = promoters.X[rows], promoters.y[rows]
    y = shuffle_labels(linked, pools, rng)  # the cytometer does not tell which cell is which

    frame = pandas.DataFrame(X, columns=list(promoters.feature_names))
    model = ShuffledLinearRegression(noise=noise, random_state=0).fit(frame, y, groups=pools)
    truth = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), linked, rcond=None)[0]

    print(" ".join(model.summary().explanation))
    print(f"{'promoter':<20}{'pooled':>8}{'linked':>8}")
    for name, found, known in zip(promoters.feature_names, model.coef_, truth, strict=False):
        print(f"{name:<20}{found:8.3f}{known:8.3f}")
    error = np.linalg.norm(model.coef_ - truth[:-1]) / np.linalg.norm(truth[:-1])
    print(f"relative error against the linked fit: {error:.1%}")

    notes = [f"{N_POOLS} pools of {N_CELLS} cells drawn from 25 constructs, Dirichlet(0.5) mixes"]
    write_report(model, path, X, y, pools, source="promoters", notes=notes)
    print(f"report: {path}")
    return error


if __name__ == "__main__":
    main(*sys.argv[1:])
