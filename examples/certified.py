"""Least squares with a proof, and what a proof does not say.

A register of a hundred households was released with one column shuffled. To argue from its
least-squares fit, one should know that no other matching of labels to rows fits better. A search
from many starts cannot show that. A proof can, in about the same time for up to four coefficients.
With little noise the least-squares answer is also the truth. With much noise it is proven all the
same, and wrong: it fits the noise better than the truth does. Then only a posterior (method
"likelihood") says what the data tell.

A proof that is stopped by time says how far it is. With a picture to be written, the bound on a
harder register is shown against the time that it was given.

Run: python examples/certified.py [picture.svg]
"""

import sys
import warnings

import numpy as np

from unshuffle import Certified, ShuffledLinearRegression, sorted_error

N = 100
WEIGHTS = np.array([0.9, -0.4, 0.6])
# Four weights and much noise take longer to prove.
HARDER, LIMITS = np.array([0.9, -0.4, 0.6, 0.3]), (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


def draw_register(noise, rng, weights=WEIGHTS):
    """Return rows, and labels in no order."""
    X = rng.standard_normal((N, len(weights)))
    return X, rng.permutation(X @ weights + noise * rng.standard_normal(N))


def draw_bounds(path, limits=LIMITS):
    """Prove a harder register in more and more time, and draw value and lower bound."""
    from matplotlib.figure import Figure

    X, y = draw_register(0.5, np.random.default_rng(1), HARDER)
    values, bounds = [], []
    for limit in limits:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that time ran out is what the picture shows
            model = ShuffledLinearRegression(Certified(limit), fit_intercept=False).fit(X, y)
        values.append(model.solution_.value)
        bounds.append(model.solution_.certificate.lower_bound)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = figure.add_subplot()
    ax.plot(limits, values, color="#0072B2", marker="o", label="value found")
    ax.plot(limits, bounds, color="#D55E00", marker="s", ls="--", label="proven lower bound")
    ax.set_xscale("log")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("seconds given")
    ax.set_ylabel("mean squared gap of sorted labels")
    ax.legend(frameon=False)
    figure.savefig(path, dpi=150)
    print(f"picture written to {path}")
    return values, bounds


def main(path=None):
    errors = {}
    for noise in (0.01, 0.5):
        X, y = draw_register(noise, np.random.default_rng(0))
        model = ShuffledLinearRegression(Certified(time_limit=30), fit_intercept=False).fit(X, y)
        errors[noise] = float(np.linalg.norm(model.coef_ - WEIGHTS) / np.linalg.norm(WEIGHTS))
        weights = ", ".join(f"{w:.2f}" for w in model.coef_)
        print(f"noise sd {noise}: weights {weights} (truth 0.90, -0.40, 0.60)")
        print(f"  {model.solution_.certificate.describe(model.solution_.value)}")
        print(f"  The true weights have {sorted_error(y, X @ WEIGHTS):.4g}.")
    if path is not None:
        draw_bounds(path)
    return errors


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
