"""
Some links are wrong
====================

In record linkage every label stands beside a row, but some links are wrong. Ordinary least squares
shrinks towards zero by their share. ``mislinked="estimate"`` fits a mixture of right and wrong
links, and estimates how many are wrong. 300 rows, two columns, medians of three data sets.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import HuberRegressor, LinearRegression

from unshuffle import ShuffledLinearRegression, make_shuffled

shares = [0.0, 0.1, 0.3, 0.5, 0.7]
errors = {"least squares": [], "Huber": [], "mislinked": []}
found = []
for share in shares:
    gaps, told = [], []
    for seed in range(3):
        data = make_shuffled(300, 2, noise=0.4, rng=seed)
        rng = np.random.default_rng(seed)
        y, wrong = data.linked_y.copy(), np.flatnonzero(rng.random(300) < share)
        y[wrong] = y[rng.permutation(wrong)]
        model = ShuffledLinearRegression(mislinked="estimate", random_state=0).fit(data.X, y)
        told.append(model.summary().mislinked)
        others = LinearRegression().fit(data.X, y), HuberRegressor().fit(data.X, y)
        size = np.linalg.norm(data.weights)
        gaps.append([np.linalg.norm(m.coef_ - data.weights) / size for m in (*others, model)])
    for values, middle in zip(errors.values(), np.median(gaps, axis=0), strict=True):
        values.append(middle)
    found.append(np.median(told))

figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
styles = (("o-", "#0072B2"), ("D-", "#D55E00"), ("s-", "#009E73"))
for (name, values), (style, colour) in zip(errors.items(), styles, strict=True):
    ax.plot(range(len(shares)), values, style, color=colour, label=name)
texts = [f"{s:.0%}\n(found {f:.0%})" for s, f in zip(shares, found, strict=True)]
ax.set_xticks(range(len(shares)), texts)
ax.set_xlabel("links that are wrong")
ax.set_ylabel("relative error of the coefficients")
ax.legend(frameon=False)
plt.show()
