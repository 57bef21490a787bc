"""
Columns of the same distribution cannot be told apart
=====================================================

Two Gaussian columns, one bag. Every coefficient vector on a circle gives labels of the same
distribution. So does every shorter one with more noise. No method can tell them apart: the
posterior fills the disc, and the fit says "not identified". In six bags the same rows determine
both signs, and the magnitude of the first coefficient.
"""

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import ShuffledLinearRegression, shuffle_labels

rng = np.random.default_rng(1)
X = rng.standard_normal((240, 2))
truth = np.array([1.0, 0.5])
linked = X @ truth + 0.3 * rng.standard_normal(240)

figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True, layout="constrained")
for ax, n_bags in zip(axes, (1, 6), strict=True):
    groups = np.arange(240) % n_bags
    y = shuffle_labels(linked, groups, rng=0)
    model = ShuffledLinearRegression(random_state=0).fit(X, y, groups)
    draws, weights = model.posterior_.draws, model.posterior_.draw_weights
    shown = np.random.default_rng(0).choice(len(draws), 500, p=weights / weights.sum())
    ax.plot(draws[shown, 0], draws[shown, 1], ".", color="#0072B2", ms=4, alpha=0.4)
    ax.plot(*truth, "X", color="#D55E00", ms=11, mec="white")
    is_known = model.verdict_
    ax.set_title(f"{n_bags} bag{'s' * (n_bags > 1)}: {is_known}")
    ax.set_aspect("equal")
    ax.set_xlabel("coefficient of the first column")
axes[0].set_ylabel("coefficient of the second column")
plt.show()
