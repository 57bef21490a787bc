"""
A penalty chosen over whole bags
================================

Twelve columns, of which two matter, in 24 bags of 15 rows. An L1 penalty sets coefficients to
exactly zero (left). The order-blind score of left-out bags says how large it should be (right).
Bags must stay whole: a fold that cuts a bag in two no longer has the labels of its rows.
"""

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.model_selection import GroupKFold, cross_val_score

from unshuffle import ShuffledLinearRegression, make_shuffled

truth = np.zeros(12)
truth[:2] = 1.0, -0.7
data = make_shuffled(360, 12, noise=0.5, bags=24, weights=truth, rng=0)
penalties = np.geomspace(0.003, 1.0, 9)
paths, scores = [], []
with sklearn.config_context(enable_metadata_routing=True):
    for penalty in penalties:
        model = ShuffledLinearRegression("ls", l1=penalty, n_starts=20, random_state=0)
        paths.append(model.fit(data.X, data.y, groups=data.groups).coef_)
        how = {"params": {"groups": data.groups}, "cv": GroupKFold(4)}
        scores.append(cross_val_score(model, data.X, data.y, **how).mean())

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for j, path in enumerate(np.array(paths).T):
    left.plot(penalties, path, lw=2.5 if truth[j] else 1, color="#0072B2" if truth[j] else "0.7")
left.set_ylabel("coefficient (blue: those that count)")
right.plot(penalties, scores, "o-", color="#009E73")
best = int(np.argmax(scores))
for ax in (left, right):
    ax.axvline(penalties[best], color="#D55E00", ls=":", lw=1.5)
    ax.set_xscale("log")
    ax.set_xlabel("L1 penalty (dotted: best score)")
right.set_ylabel("order-blind score, bags left out")
plt.show()
