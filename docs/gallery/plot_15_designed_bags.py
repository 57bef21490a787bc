"""
Bags that differ on purpose
===========================

If the features are known beforehand, samples can be assigned so that the means of the runs differ
in every direction. Left: 120 samples in six runs. Random runs all have about the same mean,
designed ones spread. Right: the error of least squares over 40 simulated experiments with each.
"""

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import ShuffledLinearRegression, shuffle_labels
from unshuffle.design import assign_runs

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 2)) @ np.array([[1.0, 0.5], [0.0, 0.8]])
runs = {"random": rng.permutation(120) % 6, "designed": assign_runs(X, 6, rng=0).runs}

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
errors = {name: [] for name in runs}
for ax, (name, run) in zip(axes, runs.items(), strict=False):
    ax.scatter(*X.T, c=run, cmap="tab10", s=12, alpha=0.6)
    means = np.array([X[run == r].mean(axis=0) for r in range(6)])
    ax.scatter(*means.T, c=range(6), cmap="tab10", s=140, marker="X", edgecolors="k")
    ax.set_title(f"{name} runs, and their means")
    for seed in range(40):
        draw = np.random.default_rng(seed)
        w = draw.standard_normal(2)
        y = shuffle_labels(X @ w + 0.4 * draw.standard_normal(120), run, draw)
        model = ShuffledLinearRegression("ls", n_starts=20, random_state=0).fit(X, y, run)
        errors[name].append(np.linalg.norm(model.coef_ - w) / np.linalg.norm(w))
axes[2].boxplot(list(errors.values()), tick_labels=list(errors), showfliers=False)
axes[2].set_ylabel("relative error of the coefficients")
plt.show()
