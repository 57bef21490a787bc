"""
Least squares takes noise for signal
====================================

Labels spread more than predictions, because of the noise. Least squares over all matchings
increases the coefficient until both spread alike. With one column and many rows it tends to √(w² +
σ²) (dashed) instead of w. The posterior allows for noise: its 95 % intervals contain the truth,
and widen as noise grows. One column, exponential, centred, 600 rows in three bags.
"""

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import ShuffledLinearRegression, shuffle_labels

levels = np.array([0.1, 0.4, 0.7, 1.0, 1.3])
rng = np.random.default_rng(0)
groups = np.arange(600) % 3
found = {"ls": [], "auto": []}
ends = []
for sd in levels:
    X = rng.exponential(size=(600, 1)) - 1
    y = shuffle_labels(X[:, 0] + sd * rng.standard_normal(600), groups, rng)
    for method, values in found.items():
        model = ShuffledLinearRegression(method, random_state=0).fit(X, y, groups)
        values.append(model.coef_[0])
    ends.append(model.conf_int()[0])

figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
ax.axhline(1.0, color="0.5", lw=1, label="truth")
ax.plot(levels, np.sqrt(1 + levels**2), "--", color="#D55E00", label="√(w² + σ²)")
ax.plot(levels, found["ls"], "o", color="#D55E00", label="least squares")
ax.vlines(levels, *np.array(ends).T, color="#0072B2", lw=4, alpha=0.35)
ax.plot(levels, found["auto"], "s", color="#0072B2", label="posterior, 95 % interval")
ax.set_xlabel("sd of the noise (the coefficient is 1)")
ax.set_ylabel("estimated coefficient")
ax.legend(frameon=False)
plt.show()
