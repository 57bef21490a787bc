"""
A curve through a pipeline
==========================

The estimator is linear in its columns, and columns may be anything. Here a dose becomes five
smooth features (Nyström's approximation of a kernel), whose coefficients are estimated from
shuffled labels. 30 batches of 25 samples, each over its own range of doses.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from unshuffle import ShuffledLinearRegression, shuffle_labels

rng = np.random.default_rng(0)
batch = np.repeat(np.arange(30), 25)
dose = np.clip(rng.uniform(0.3, 2.7, 30)[batch] + 0.5 * rng.standard_normal(750), 0, 3)
linked = np.sin(1.5 * dose) + 0.3 * dose + 0.15 * rng.standard_normal(750)
y = shuffle_labels(linked, batch, rng)

curve = make_pipeline(
    Nystroem(gamma=1.0, n_components=5, random_state=0),
    ShuffledLinearRegression("ls", random_state=0),
).fit(dose[:, None], y, shuffledlinearregression__groups=batch)

grid = np.linspace(0, 3, 100)
figure, ax = plt.subplots(figsize=(6.6, 3.8), layout="constrained")
ax.plot(dose, y, ".", color="0.8", ms=4, label="as given: shuffled inside batches")
ax.plot(grid, np.sin(1.5 * grid) + 0.3 * grid, "k:", lw=2, label="truth")
ax.plot(grid, curve.predict(grid[:, None]), color="#0072B2", lw=2, label="found")
ax.set_xlabel("dose")
ax.set_ylabel("response")
ax.set_ylim(top=2.6)  # room for the legend above the cloud
ax.legend(frameon=False, loc="upper right", markerscale=3)
plt.show()
