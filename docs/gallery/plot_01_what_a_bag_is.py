"""
What a bag is
=============

A bag is a set of rows and a set of labels that belong together, in unknown order. Left: with
links, the line is obvious. Middle: shuffled in one bag, only two sets of values are left. Right:
shuffled in four bags that differ in x, the sets move together. Each bag adds at least the equation
of its means (crosses), and these four points show the line again.
"""

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import shuffle_labels

rng = np.random.default_rng(3)
bag = np.repeat(np.arange(4), 25)
x = 0.9 * bag + rng.exponential(0.7, 100)
linked = 1.0 + 0.8 * x + 0.3 * rng.standard_normal(100)

figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), sharey=True, layout="constrained")
axes[0].plot(x, linked, ".", color="#0072B2")
axes[0].set_title("linked")
axes[1].plot(x, shuffle_labels(linked, rng=0), ".", color="0.55")
axes[1].set_title("one bag")
y = shuffle_labels(linked, bag, rng=0)
for r, colour in enumerate(["#0072B2", "#D55E00", "#009E73", "#CC79A7"]):
    own = bag == r
    axes[2].plot(x[own], y[own], ".", color=colour, alpha=0.6)
    axes[2].plot(x[own].mean(), y[own].mean(), "X", color=colour, ms=13, mec="white")
axes[2].set_title("four bags, and their means")
for ax in axes:
    ax.set_xlabel("x")
axes[0].set_ylabel("label")
plt.show()
