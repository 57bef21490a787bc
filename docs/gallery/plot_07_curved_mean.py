"""
A curved mean is noticed
========================

The model is a straight line, and real labels often bend (left; no method sees the links). The
posterior allows for a curve and reports it (``model_fits_``). It estimates the slopes that least
squares on the linked labels would have (right). Least squares on sorted labels takes the long
upper tail for an effect of the columns. Three normal columns, five bags of 60 rows.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import ModelMisfitWarning, ShuffledLinearRegression, shuffle_labels

warnings.simplefilter("ignore", ModelMisfitWarning)  # the title shows what it says
rng = np.random.default_rng(0)
groups = np.arange(300) % 5
X = rng.standard_normal((300, 3))
z = X @ np.array([0.8, -0.5, 0.3])
linked = z + 0.35 * z**2 + 0.18 * rng.standard_normal(300)
y = shuffle_labels(linked, groups, rng)
truth = np.linalg.lstsq(np.column_stack([X, np.ones(300)]), linked, rcond=None)[0]

auto = ShuffledLinearRegression(random_state=0).fit(X, y, groups)
least = ShuffledLinearRegression("ls", random_state=0).fit(X, y, groups)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(z, linked, ".", color="0.6", ms=5)
left.set_xlabel("linear part of the label")
left.set_ylabel("label, linked")
places = np.arange(3)
right.vlines(places - 0.1, *auto.conf_int().T, color="#0072B2", lw=5, alpha=0.4)
right.plot(places - 0.1, auto.coef_, "o", color="#0072B2", label="posterior, 95 % interval")
right.plot(places + 0.1, least.coef_, "s", color="#D55E00", label="least squares, sorted")
right.plot(places, truth[:3], "kx", ms=9, mew=2, label="least squares, linked")
right.axhline(0, color="0.8", lw=1, zorder=0)
right.set_xticks(places, ["x0", "x1", "x2"])
right.set_ylabel("coefficient")
right.legend(frameon=False, fontsize=8)
figure.suptitle("the posterior says: " + (", ".join(auto.result_.misfits) or "the model fits"))
plt.show()
