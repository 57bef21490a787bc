"""
Knowing the noise
=================

The variance of the labels is that of signal plus noise, so known noise gives the size of the
signal. It can be measured: labels of identical inputs differ by noise alone
(``noise_from_calibration``). One data set of 200 rows in four bags at four noise levels. Shown are
95 % intervals of one coefficient, without and with the noise given.
"""

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import ShuffledLinearRegression, make_shuffled, noise_from_calibration

levels = [0.2, 0.4, 0.7, 1.0]
figure, ax = plt.subplots(figsize=(6.8, 3.8), layout="constrained")
for place, sd in enumerate(levels):
    data = make_shuffled(200, 2, noise=sd, bags=4, weights=[1.0, -0.8], rng=0)
    blanks = sd * np.random.default_rng(1).standard_normal(300)  # one input, measured 300 times
    for shift, noise, colour in ((-0.12, None, "#D55E00"), (0.12, blanks, "#0072B2")):
        given = None if noise is None else noise_from_calibration(noise).sd
        model = ShuffledLinearRegression(noise=given, random_state=0)
        model.fit(data.X, data.y, data.groups)
        text = None if place else "noise unknown" if noise is None else "noise measured"
        ax.plot([place + shift] * 2, model.conf_int()[0], color=colour, lw=5, alpha=0.4)
        ax.plot(place + shift, model.coef_[0], "o", color=colour, label=text)
ax.axhline(1.0, color="0.5", lw=1, ls="--")
ax.axhline(0.0, color="0.85", lw=1, zorder=0)
ax.set_xticks(range(len(levels)), levels)
ax.set_xlabel("sd of the noise")
ax.set_ylabel("first coefficient (truth 1)")
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 0.08))
plt.show()
