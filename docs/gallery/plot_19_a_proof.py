"""
A proof is of the objective, not of the truth
=============================================

A search from many starting points may miss the lowest value. ``certified`` proves that nothing is
lower. Left: the proven minimum of the mean squared gap, beside its value at the true coefficients.
Among so many matchings one fits the noise, so the truth is not the minimum. Right: the error of
the proven coefficients. Use the proof for an argument about the best matching, and the posterior
for the coefficients.
"""

import matplotlib.pyplot as plt
import numpy as np

from unshuffle import ShuffledLinearRegression, sorted_error

truth = np.array([0.9, -0.4, 0.6])
noises = [0.01, 0.03, 0.1, 0.3, 1.0]
least, of_truth, errors = [], [], []
for noise in noises:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((100, 3))
    y = rng.permutation(X @ truth + noise * rng.standard_normal(len(X)))
    model = ShuffledLinearRegression("certified", fit_intercept=False).fit(X, y)
    assert model.solution_.certificate.is_complete
    least.append(model.solution_.value)
    of_truth.append(sorted_error(y, X @ truth))
    errors.append(np.linalg.norm(model.coef_ - truth) / np.linalg.norm(truth))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(noises, of_truth, "s--", color="#D55E00", label="at the true coefficients")
left.plot(noises, least, "o-", color="#0072B2", label="least, proven")
left.set_ylabel("mean squared gap of sorted values")
left.legend(frameon=False)
right.plot(noises, errors, "o-", color="#0072B2")
right.set_ylabel("relative error of the proven coefficients")
for ax in (left, right):
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(noises, [f"{noise:g}" for noise in noises])
    ax.minorticks_off()
    ax.set_xlabel("sd of the noise")
plt.show()
