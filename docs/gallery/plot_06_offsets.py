"""
Offsets between bags
====================

Runs, sites and years often shift all of their labels. A regression of bag means takes these shifts
for effects of the columns. The posterior estimates how probable offsets are and how large. Bag
means then count for less, and the labels inside bags for more. Two columns, eight bags of 40 rows.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import ModelMisfitWarning, ShuffledLinearRegression, make_shuffled

warnings.simplefilter("ignore", ModelMisfitWarning)  # the picture shows what it says
sizes = [0.0, 0.2, 0.5, 1.0]
errors = {"means": [], "ls": [], "auto": []}
told = []
for sd in sizes:
    data = make_shuffled(320, 2, noise=0.2, bags=8, weights=[1.0, -0.6], rng=4)
    shifts = np.random.default_rng(1).standard_normal(8)
    y = data.y + sd * (shifts / shifts.std())[data.groups]
    for method, values in errors.items():
        model = ShuffledLinearRegression(method, random_state=0).fit(data.X, y, data.groups)
        values.append(np.linalg.norm(model.coef_ - data.weights) / np.linalg.norm(data.weights))
    told.append(f"probability {model.bag_offset_probability_:.0%}\nsd {model.bag_offset_sd_:.2f}")

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
styles = (("D-", "#0072B2"), ("o-", "#D55E00"), ("s-", "#009E73"))
for (method, values), (style, colour) in zip(errors.items(), styles, strict=True):
    ax.plot(range(len(sizes)), values, style, color=colour, label=method)
for place, text in enumerate(told):
    ax.text(place, -0.11, text, transform=ax.get_xaxis_transform(), ha="center", va="top",
            fontsize=8, color="#009E73")  # fmt: skip
ax.set_xticks(range(len(sizes)), [str(sd) for sd in sizes])
ax.set_yscale("log")
ax.set_xlabel("true sd of the offsets (below: what auto says of them)", labelpad=38)
ax.set_ylabel("relative error of the coefficients")
ax.legend(frameon=False)
plt.show()
