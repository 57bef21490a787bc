"""Draw the README's picture: shuffled labels, the fit, and its intervals beside the truth."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from unshuffle import ShuffledLinearRegression, make_shuffled
from unshuffle.results.pictures.drawing import render_figure
from unshuffle.results.pictures.plots import BLUE, ORANGE, plot_coefficients


def main() -> None:
    data = make_shuffled(n=300, d=3, noise=0.3, bags=6, rng=7)
    model = ShuffledLinearRegression(random_state=0).fit(data.X, data.y, data.groups)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    one = data.groups == 0
    linked, shuffled = data.linked_y[one], data.y[one]
    z = model.predict(data.X[one])
    axes[0].scatter(data.X[one, 0], shuffled, s=16, color=ORANGE)
    axes[0].set(title="a bag as given: labels shuffled", xlabel="x0", ylabel="label")
    axes[1].scatter(z, linked, s=16, color=BLUE)
    ends = np.array([z.min(), z.max()])
    axes[1].plot(ends, ends, color="0.4", lw=1)
    axes[1].set(title="the fit, against the true pairs", xlabel="prediction", ylabel="label")
    plot_coefficients(model, ax=axes[2])
    places = axes[2].get_yticks()[: len(data.weights)]
    # Below the estimates, which it would hide.
    axes[2].plot(data.weights, places + 0.22, "x", color=ORANGE, ms=8, mew=2, label="truth")
    axes[2].set(title="coefficients, 95 % intervals, truth ×", xlabel="coefficient")
    out = Path(__file__).parent / "images" / "fit.svg"
    out.write_bytes(render_figure(figure, "svg"))


if __name__ == "__main__":
    main()
