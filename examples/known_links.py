"""How many links to find out: the error against the share of known pairs, as a picture.

Two registers of 200 households share no key. Finding out by telephone who is who costs time for
each household, so that one would like to know how far a few known pairs (anchors) take. For every
share of them the same registers are fitted three ways: with the known pairs beside the shuffled
rest, with the known pairs alone, and with all pairs known, which is the best there is. The picture
shows all three.

Run: python examples/known_links.py [picture.svg]
"""

import sys
import warnings

import numpy as np
from sklearn.linear_model import LinearRegression

from unshuffle import ShuffledLinearRegression, make_shuffled

N, D, NOISE = 200, 4, 1.0
SHARES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)


def fit_all(share, seed):
    """Return the errors with anchors and the rest, with anchors alone, and with all pairs."""
    rng = np.random.default_rng([seed, 1])
    data = make_shuffled(N, D, noise=NOISE, rng=seed)
    known = np.zeros(N, dtype=bool)
    known[rng.permutation(N)[: round(share * N)]] = True
    y = data.linked_y.copy()
    y[~known] = rng.permutation(y[~known])

    def error(coef):
        return float(np.linalg.norm(coef - data.weights) / np.linalg.norm(data.weights))

    both = ShuffledLinearRegression(random_state=seed).fit(data.X, y, anchors=known)
    alone = np.nan
    if known.sum() > D + 1:
        alone = error(LinearRegression().fit(data.X[known], y[known]).coef_)
    return error(both.coef_), alone, error(LinearRegression().fit(data.X, data.linked_y).coef_)


def draw(errors, path):
    """Draw the mean errors against the share of known pairs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = figure.add_subplot()
    names = ("known pairs and the rest", "known pairs alone", "all pairs known")
    styles = (("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "", ":"))
    for k, (name, (colour, marker, line)) in enumerate(zip(names, styles, strict=True)):
        values = [errors[share][k] for share in SHARES]
        ax.plot([100 * s for s in SHARES], values, color=colour, marker=marker, ls=line, label=name)
    ax.set_xlabel("pairs that are known, %")
    ax.set_ylabel("error of the weights")
    ax.set_yscale("log")
    ax.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main(n_trials=6, path=None):
    warnings.simplefilter("ignore")  # what a fit warns of is what the errors show
    errors = {}
    print("pairs known   with the rest   alone   all known")
    for share in SHARES:
        errors[share] = np.mean([fit_all(share, seed) for seed in range(n_trials)], axis=0)
        both, alone, best = errors[share]
        shown = f"{alone:7.3f}" if np.isfinite(alone) else "      –"
        print(f"{share:10.0%}   {both:13.3f} {shown} {best:11.3f}")
    if path is not None:
        draw(errors, path)
        print(f"picture written to {path}")
    return errors


if __name__ == "__main__":
    main(path=sys.argv[1] if len(sys.argv) > 1 else None)
