"""
More bags, less error
=====================

The same 240 rows are divided at random into 1 to 24 bags. Bag means alone need more bags than
coefficients, and see nothing inside a bag. Least squares compares sorted labels inside each bag.
The posterior uses both. With one bag every method fails here. Each point is the median of four
data sets.
"""

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import ShuffledLinearRegression, make_shuffled, plot_error_by_bags

counts = [1, 2, 4, 8, 24]
errors = {}
for method in ("means", "ls", "auto"):
    errors[method] = []
    for n_bags in counts:
        gaps = []
        for seed in range(4):
            data = make_shuffled(240, 3, snr_db=8, bags=n_bags, rng=seed)
            if method == "means" and n_bags < 4:  # fewer bags than weights
                gaps.append(np.nan)
                continue
            model = ShuffledLinearRegression(method, random_state=0)
            model.fit(data.X, data.y, data.groups)
            gap = np.linalg.norm(model.coef_ - data.weights) / np.linalg.norm(data.weights)
            gaps.append(gap)
        errors[method].append(np.median(gaps))

ax = plot_error_by_bags(counts, errors)
ax.set_title("240 rows, three columns, noise 8 dB below the signal")
plt.show()
