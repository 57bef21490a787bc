"""
Known coefficients do not give the links away
=============================================

``match`` says which label most probably belongs to which row, with the probability. Coefficients
use all rows together, a link uses one row. With the most noise shown here, the coefficients are
accurate to a few percent, while two links in three are wrong. Each curve shows the probabilities
of all rows, surest first. Its area is the share of links that are right.
"""

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import ShuffledLinearRegression, make_shuffled

figure, ax = plt.subplots(figsize=(6.8, 4), layout="constrained")
for noise, colour in ((0.003, "#0072B2"), (0.03, "#D55E00"), (0.3, "#009E73")):
    data = make_shuffled(160, 2, noise=noise, bags=8, weights=[1.0, -0.7], rng=0)
    model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    match = model.match(data.X, data.y, data.groups)
    right = np.mean(data.y[match.order] == data.linked_y)
    gap = np.linalg.norm(model.coef_ - data.weights) / np.linalg.norm(data.weights)
    ax.plot(np.linspace(0, 1, 160), np.sort(match.probability)[::-1], color=colour, lw=2,
            label=f"noise {noise}: coefficients {gap:.1%} off, {right:.0%} of the links right "
                  f"({match.probability.mean():.0%} claimed)")  # fmt: skip
ax.axhline(1 / 20, color="0.5", ls=":", label="guessing in bags of 20")
ax.set_ylim(0, 1.35)
ax.set_yticks([0, 0.5, 1])
ax.set_xlabel("share of the rows, surest first")
ax.set_ylabel("probability of the match")
ax.legend(frameon=False, fontsize=8, loc="upper right")
plt.show()
