"""
Some coefficients are determined, others are not
================================================

The *sign* of a coefficient is determined if its 95 % interval lies on one side of zero. *Sign and
magnitude* are determined if, also, half the interval's width is at most half of the estimate. A
coefficient is *negligible* if its interval lies within 0.1 sd(y)/sd(x) of zero. The table is
scikit-learn's on diabetes: 442 patients, labels shuffled inside 40 bags, standardised columns.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

from unshuffle import ShuffledLinearRegression, shuffle_labels

X, linked = load_diabetes(return_X_y=True, as_frame=True)
X = X[["bmi", "s5", "bp", "sex", "age"]] / 0.0476  # their sd
groups = np.random.default_rng(0).permutation(len(linked)) % 40
y = shuffle_labels(linked, groups, rng=0)
model = ShuffledLinearRegression(random_state=0).fit(X, y, groups)
truth = LinearRegression().fit(X, linked).coef_

colours = {"sign and magnitude": "#0072B2", "sign": "#009E73", "negligible": "0.4", "no": "0.7"}
figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for place, row in enumerate(model.summary().rows[:-1]):
    ax.plot([row.low, row.high], [place, place], color=colours[row.determined], lw=4, alpha=0.6)
    ax.plot(row.estimate, place, "o", color=colours[row.determined])
    ax.text(1.02, place, row.determined, transform=ax.get_yaxis_transform(), va="center")
ax.plot(truth, range(len(truth)), "x", color="#D55E00", ms=9, mew=2, label="with links")
ax.axvline(0, color="0.8", lw=1, zorder=0)
ax.set_yticks(range(X.shape[1]), X.columns)
ax.invert_yaxis()
ax.set_xlabel("coefficient per sd of the column, 95 % interval")
ax.set_title(f"all together: {model.verdict_}")
ax.legend(frameon=False, loc="lower right")
plt.show()
