"""Two registers without a common key: what firms own in one, what they invest in the other.

Grunfeld's panel, eleven firms over twenty years, comes with statsmodels. Suppose the firms' names
were removed from both registers and only the year is left: inside a year nobody knows which
investment belongs to which firm. Three ways on are compared with the truth: pretend that the
registers are in the same order, regress the means of the years, or fit the shuffled model.

Two firms in eleven are then recognised after all: their pairs are anchors. And where names do exist
but were spelt so badly that a fifth of the links is wrong, `mislinked` weighs each link by how well
it fits. The share that it finds is too large here: residuals grow with the firm, and those of large
firms pass for wrong links.

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


def link_some(X, years, linked, rng):
    """Return which pairs are known, labels shuffled but for those, and labels a fifth wrong."""
    known = np.arange(len(linked)) < 2 * years.nunique()  # the panel goes firm by firm
    half_known = linked.copy()
    half_known[~known] = shuffle_labels(linked[~known], years[~known], rng)
    some = rng.random(len(linked)) < 0.28
    misspelt = linked.copy()
    misspelt[some] = shuffle_labels(linked[some], years[some], rng)
    return known, half_known, misspelt


def main():
    # The verdict below says whatever a warning would.
    for kind in (ConvergenceWarning, ModelMisfitWarning):
        warnings.simplefilter("ignore", kind)
    X, years, y, linked = read_registers(np.random.default_rng(0))
    print(
        f"{len(y)} investments in {years.nunique()} years, {len(y) // years.nunique()} firms each"
    )

    known, half_known, misspelt = link_some(X, years, linked, np.random.default_rng(1))
    fits = {
        "unshuffled": ShuffledLinearRegression(random_state=0).fit(X, y, groups=years),
        "two firms known": ShuffledLinearRegression(random_state=0).fit(
            X, half_known, groups=years, anchors=known
        ),
        "a fifth wrong": ShuffledLinearRegression(mislinked="estimate", random_state=0).fit(
            X, misspelt, groups=years
        ),
        "if all right": LinearRegression().fit(X, misspelt),
        "year means": ShuffledLinearRegression("means").fit(X, y, groups=years),
        "as if linked": LinearRegression().fit(X, y),
        "truly linked": LinearRegression().fit(X, linked),
    }
    print(" ".join(fits["unshuffled"].summary().explanation))
    truth, scale = fits["truly linked"].coef_, X.std().to_numpy()
    print(f"{'':<16}" + "".join(f"{name:>10}" for name in FEATURES) + f"{'error':>9}")
    errors = {}
    for name, model in fits.items():
        gap = np.linalg.norm(scale * (model.coef_ - truth)) / np.linalg.norm(scale * truth)
        errors[name] = float(gap)
        print(f"{name:<16}" + "".join(f"{w:10.4f}" for w in model.coef_) + f"{gap:9.1%}")

    match = fits["unshuffled"].match(X, y, groups=years)
    share = np.mean(y[match.order] == linked)
    wrong = fits["a fifth wrong"].summary().mislinked
    print(f"links taken as wrong: {wrong:.0%} (in truth {np.mean(misspelt != linked):.0%})")
    print(f"investments given to the right firm: {share:.0%} (by chance 9%)")
    return errors


if __name__ == "__main__":
    main()
