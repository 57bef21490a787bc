"""
When one bag is enough
======================

One bag can identify the coefficients if noise is small and the columns have different
distributions. Then only one combination of the columns has the distribution of the labels. Here:
three columns (exponential, uniform and binary), 300 rows, one bag. With almost no noise the
intervals are short and contain the truth (dashed). With a little more the estimates are still near,
but intervals are longer, and the fit is only partly identified. With more noise one bag does not
tell the coefficients apart, and the intervals are wide.
"""

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import ShuffledLinearRegression

truth = np.array([1.0, -0.8, 0.6])
shares = [0.0001, 0.001, 0.01, 0.1]
rng = np.random.default_rng(0)
X = np.column_stack([rng.exponential(size=300), 3 * rng.random(300), 2 * (rng.random(300) < 0.3)])
signal = X @ truth

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
colours = ["#0072B2", "#D55E00", "#009E73"]
for place, share in enumerate(shares):
    noise = signal.std() * np.sqrt(share / (1 - share))
    y = rng.permutation(signal + noise * rng.standard_normal(300))
    model = ShuffledLinearRegression(random_state=0).fit(X, y)
    for j, (low, high) in enumerate(model.conf_int()):
        at = place + 0.2 * (j - 1)
        ax.plot([at, at], [low, high], color=colours[j], lw=4, alpha=0.5)
        ax.plot(at, model.coef_[j], "o", color=colours[j])
    ax.text(place, 2.3, model.verdict_, ha="center")
for j, w in enumerate(truth):
    ax.axhline(w, color=colours[j], ls="--", lw=0.8)
ax.set_ylim(-2.4, 2.6)
ax.set_xticks(range(len(shares)), [f"{share:.2%}" for share in shares])
ax.set_xlabel("noise's share of the labels' variance")
ax.set_ylabel("coefficient, 95 % interval")
plt.show()
