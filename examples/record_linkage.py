"""Two registers without a common key: what firms own in one, what they invest in the other.

Grunfeld's panel, eleven firms over twenty years, comes with statsmodels. Suppose the firms' names
were removed from both registers and only the year is left: inside a year nobody knows which
investment belongs to which firm. Three ways on are compared with the truth: pretend that the
registers are in the same order, regress the means of the years, or fit the shuffled model.

Run: python examples/record_linkage.py
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from statsmodels.datasets import grunfeld

from unshuffle import ModelMisfitWarning, ShuffledLinearRegression, shuffle_labels

FEATURES = ["value", "capital"]


def read_registers(rng):
    """Return what firms own, the year, investments in another order, and in the true order."""
    panel = grunfeld.load_pandas().data
    linked = panel["invest"].to_numpy()
    return panel[FEATURES], panel["year"], shuffle_labels(linked, panel["year"], rng), linked


def main():
    # The verdict below says whatever a warning would.
    for kind in (ConvergenceWarning, ModelMisfitWarning):
        warnings.simplefilter("ignore", kind)
    X, years, y, linked = read_registers(np.random.default_rng(0))
    print(
        f"{len(y)} investments in {years.nunique()} years, {len(y) // years.nunique()} firms each"
    )

    fits = {
        "unshuffled": ShuffledLinearRegression(random_state=0).fit(X, y, groups=years),
        "year means": ShuffledLinearRegression("means").fit(X, y, groups=years),
        "as if linked": LinearRegression().fit(X, y),
        "truly linked": LinearRegression().fit(X, linked),
    }
    print(" ".join(fits["unshuffled"].summary().verdict))
    truth, scale = fits["truly linked"].coef_, X.std().to_numpy()
    print(f"{'':<14}" + "".join(f"{name:>10}" for name in FEATURES) + f"{'error':>9}")
    errors = {}
    for name, model in fits.items():
        gap = np.linalg.norm(scale * (model.coef_ - truth)) / np.linalg.norm(scale * truth)
        errors[name] = float(gap)
        print(f"{name:<14}" + "".join(f"{w:10.4f}" for w in model.coef_) + f"{gap:9.1%}")

    match = fits["unshuffled"].match(X, y, groups=years)
    share = np.mean(y[match.order] == linked)
    print(f"investments given to the right firm: {share:.0%} (by chance 9%)")
    return errors


if __name__ == "__main__":
    main()
