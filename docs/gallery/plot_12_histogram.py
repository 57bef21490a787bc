"""
Labels as a histogram of other individuals
==========================================

Rows and labels may be different individuals, in different numbers, and labels may be counts in
bins. The fit compares how the two distributions move together from bag to bag. Here: eight
cultures, with 200 cells imaged (x), and the light of 3000 others as a histogram. Bars are the
data, lines the fit.
"""

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import Bag, Histogram, fit

rng = np.random.default_rng(0)
edges = np.linspace(0, 20, 81)
bags = []
for _ in range(8):
    mean = rng.uniform(0.5, 2.5)
    imaged, others = (mean * rng.gamma(4.0, 0.25, n) for n in (200, 3000))
    light = 1.0 + 1.5 * others + 0.15 * rng.standard_normal(3000)
    bags.append(Bag(imaged[:, None], Histogram(edges, np.histogram(light, edges)[0])))
found = fit(bags, method="ls", same_individuals=False, rng=0)

figure, axes = plt.subplots(2, 4, figsize=(9, 4), sharex=True, layout="constrained")
for bag, ax in zip(bags, axes.flat, strict=True):
    ax.stairs(bag.y.counts / bag.y.n, edges, fill=True, color="0.8")
    z = found.predict(bag.X)
    ax.stairs(np.histogram(z, edges)[0] / len(z), edges, color="#0072B2", lw=1.5)
    ax.set_yticks([])
axes[0, 0].set_xlim(0, 9)
figure.suptitle(
    f"coefficient {found.coef[0]:.2f} (truth 1.5), intercept {found.intercept:.2f} (truth 1)"
)
figure.supxlabel("light (grey: 3000 sorted cells; blue: predicted from 200 imaged ones)")
plt.show()
