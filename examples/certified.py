"""Least squares with a proof, and what a proof does not say.

A register of a hundred households was released with one column shuffled. Whoever argues from its
least-squares fit should know that no other matching of labels to rows fits better: a search from
many starts cannot say so, a proof can, in about the same time for up to four weights. With little
noise the least is also the truth. With much noise it is proven all the same, and wrong: it fits
better than the truth does, since among so many matchings one fits the noise. Then only a posterior
(method "likelihood") says what the data tell.

Run: python examples/certified.py
"""

import numpy as np

from unshuffle import Certified, ShuffledLinearRegression, sorted_error

N = 100
WEIGHTS = np.array([0.9, -0.4, 0.6])


def draw_register(noise, rng):
    """Return rows, and labels in no order."""
    X = rng.standard_normal((N, len(WEIGHTS)))
    return X, rng.permutation(X @ WEIGHTS + noise * rng.standard_normal(N))


def main():
    errors = {}
    for noise in (0.01, 0.5):
        X, y = draw_register(noise, np.random.default_rng(0))
        model = ShuffledLinearRegression(Certified(time_limit=30), fit_intercept=False).fit(X, y)
        errors[noise] = float(np.linalg.norm(model.coef_ - WEIGHTS) / np.linalg.norm(WEIGHTS))
        weights = ", ".join(f"{w:.2f}" for w in model.coef_)
        print(f"noise sd {noise}: weights {weights} (truth 0.90, -0.40, 0.60)")
        print(f"  {model.solution_.certificate.describe(model.solution_.value)}")
        print(f"  The true weights have {sorted_error(y, X @ WEIGHTS):.4g}.")
    return errors


if __name__ == "__main__":
    main()
