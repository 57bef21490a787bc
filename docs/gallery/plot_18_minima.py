"""
Many local minima
=================

Least squares over all matchings has many local minima, so one starting point proves nothing. With
one column the whole objective can be drawn: the gap between sorted labels and sorted predictions w
x + b, with the best b for each w. An increasing and a decreasing line each have a minimum. If x is
nearly symmetric, they are nearly equal. Each search (dots) ends in the minimum in which it
started: half of them are wrong.
"""

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import sorted_error

rng = np.random.default_rng(5)
x = rng.gamma(20.0, 0.3, 120)
y = rng.permutation(1.0 + 1.2 * x + 0.5 * rng.standard_normal(120))


def value(w):
    z = w * x
    return sorted_error(y, z + (y - z).mean())


grid = np.linspace(-2.2, 2.2, 201)
values = np.array([value(w) for w in grid])
starts = rng.uniform(-2, 2, 30)
figure, ax = plt.subplots(figsize=(6.6, 3.8), layout="constrained")
ax.plot(grid, values, color="0.4")
ax.plot(starts, [value(w) for w in starts], "o", color="#56B4E9", ms=5)
notes = (grid < 0, "a falling line", (0, 45)), (grid > 0, "the truth", (-70, 15))
for side, text, place in notes:
    at = np.flatnonzero(side)[values[side].argmin()]
    how = {"textcoords": "offset points", "ha": "center", "arrowprops": {"arrowstyle": "->"}}
    ax.annotate(f"{text}\nvalue {values[at]:.2g}", (grid[at], values[at]), place, **how)
ax.set_yscale("log")
ax.set_xlabel("coefficient (truth 1.2)")
ax.set_ylabel("mean squared gap of sorted values")
plt.show()
