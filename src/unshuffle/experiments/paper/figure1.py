"""A drawing of the model: rows, weights, the permutation and the labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from unshuffle.experiments.drawing import Drawing, new_figure
from unshuffle.experiments.rows import Row, Settings, Table
from unshuffle.experiments.runner import Experiment

# Six rows are enough to see the crossing, few enough to follow every line.
ORDER = (3, 0, 5, 1, 4, 2)
SHADES = (
    (0.2, 0.9, 0.5), (0.7, 0.3, 0.8), (0.4, 0.6, 0.1),
    (0.9, 0.1, 0.6), (0.1, 0.7, 0.9), (0.6, 0.4, 0.3),
)  # fmt: skip
WEIGHTS = (0.5, 0.9, 0.2)
NOISE = (0.05, -0.04, 0.03, -0.06, 0.04, 0.02)


def draw(table: Table) -> Drawing:
    """Draw y = π₀ x w₀ + e with small boxes; the table is empty."""
    figure, axes = new_figure(size=(9.0, 3.9))
    ax = axes[0, 0]
    ax.set(xlim=(-0.3, 14.9), ylim=(-1.15, 7.1), aspect="equal")
    ax.axis("off")
    rows, n = np.array(SHADES), len(ORDER)
    order, z = list(ORDER), rows @ WEIGHTS
    for i in range(n):
        for j in range(3):
            _box(ax, j, n - 1 - i, rows[i, j])
        _box(ax, 6.0, n - 1 - i, z[i])
        _box(ax, 10.6, n - 1 - i, z[order[i]])
        _box(ax, 13.2, n - 1 - i, z[order[i]] + NOISE[i])
        ax.plot([7.0, 10.6], [n - 0.5 - order[i], n - 0.5 - i], color="#D55E00", linewidth=1.2)
    for j in range(3):
        _box(ax, 4.1, 3.5 - j, WEIGHTS[j])
    for place, sign in ((3.55, "×"), (5.55, "="), (12.4, "+ e  =")):
        ax.text(place, 3.0, sign, ha="center", va="center", fontsize=13)
    labels = {1.5: "x: n rows,\nd features", 4.6: "w₀: unknown\nweights", 6.5: "x w₀"}
    labels |= {8.8: "π₀: unknown\npermutation", 11.1: "π₀ x w₀", 13.7: "y: labels\nas seen"}
    for place, text in labels.items():
        ax.text(place, -0.25, text, ha="center", va="top", fontsize=9)
    ax.text(7.2, 6.75, "y = π₀ x w₀ + e", ha="center", va="center", fontsize=13)
    return Drawing("Agrees: it is the same model, drawn anew.", (), figure)


def _box(ax: Any, x: float, y: float, value: float) -> None:
    shade = 1 - 0.75 * min(max(value, 0.0), 1.3) / 1.3
    colour = (shade, shade + 0.25 * (1 - shade), 0.7 + 0.3 * shade)
    ax.fill([x, x + 1, x + 1, x], [y, y, y + 1, y + 1], facecolor=colour, edgecolor="white")


def run_one(settings: Settings, rng: np.random.Generator) -> Row:
    """Return an empty row: a drawing has nothing to compute."""
    return {}


EXPERIMENT = Experiment(
    name="figure1",
    title="The model",
    place="Figure 1",
    caption=(
        "Shuffled linear regression: features x and labels y are seen, but the permutation π₀ that "
        "says which label belongs to which row is not, nor are the weights w₀ and the noise e."
    ),
    choices="A drawing with six rows and three features; darker boxes are larger numbers.",
    keys=("trial",),
    grid=lambda scope: [],
    run_one=run_one,
    draw=draw,
    seconds=lambda settings: 0.0,
)
