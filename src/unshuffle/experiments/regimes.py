"""What the three maps of regimes share: one simulated fit, who wins a cell, and the map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unshuffle.experiments.drawing import STYLES, Sheet, error_sheet
from unshuffle.experiments.rows import Row, Settings, Table
from unshuffle.experiments.simulations import (
    fit_seconds,
    fit_simulated,
    noise_at_snr,
    simulate,
)

SNR_DB = 15.0
# Differences within two percentage points go to the faster method, as in the paper.
TIE = 0.02
# Pale fills, so that the dots stay readable; hatches tell them apart without colour.
FILLS = {
    "sm": ("#a6cbe6", ""),
    "p1": ("#f6d8a0", "//"),
    "ls": ("#efb79a", ".."),
    "auto": ("#a9dccb", ""),
}
DOTS = ((0.05, 12, "< 5 %"), (0.30, 60, "5–30 %"), (np.inf, 190, "> 30 %"))


@dataclass(frozen=True)
class Map:
    """The two settings that span a map, and the names of its axes."""

    across: str
    up: str
    across_label: str
    up_label: str


def run_cell(settings: Settings, rng: np.random.Generator) -> Row:
    """Draw x ~ N(1, 1) and w₀ ~ N(0, 1), add noise at 15 dB, fit."""
    n, d = settings["n"], settings["d"]
    weights = rng.standard_normal((d,))
    X = rng.normal(1.0, 1.0, (n, d))
    noise = noise_at_snr(X @ weights, SNR_DB)
    data = simulate(X, weights, noise, settings["bags"], rng)
    return fit_simulated(data, settings["method"], rng)


def cell_seconds(settings: Settings) -> float:
    """Estimate the time of one row."""
    return fit_seconds(settings["method"], settings["n"], settings["d"], settings["bags"])


def make_cells(pairs: Sequence[Settings], methods: Sequence[str], trials: int) -> list[Settings]:
    """List the rows of a map."""
    return [
        {**pair, "method": method, "trial": trial}
        for pair in pairs
        for method in methods
        for trial in range(trials)
    ]


def find_winner(
    table: Table, first: str, second: str, summary: Callable[[np.ndarray], float]
) -> tuple[str, float]:
    """Return the better of two methods in one cell and its error; a tie goes to the first.

    The first is the faster one. The paper measured; here it is settled beforehand, so that a map
    does not depend on what else the machine was doing.
    """
    errors = {m: float(summary(table.values(method=m))) for m in (first, second)}
    winner = second if errors[second] < errors[first] - TIE else first
    return winner, errors[winner]


def plot_winners(
    ax: Any, table: Table, axes: Map, duel: tuple[str, str], summary: Callable[[np.ndarray], float]
) -> None:
    """Fill every cell with its winner, and put a dot for the size of the winner's error."""
    plot_cells(ax, table, axes, lambda cell: find_winner(cell, *duel, summary))


def plot_cells(
    ax: Any, table: Table, axes: Map, judge: Callable[[Table], tuple[str, float]]
) -> None:
    """Draw a map of cells: the fill says which method, the dot how large its error is."""
    across, up = table.unique(axes.across), table.unique(axes.up)
    for i, u in enumerate(across):
        for j, v in enumerate(up):
            method, error = judge(table.where(**{axes.across: u, axes.up: v}))
            colour, hatch = FILLS[method]
            ax.bar(i, 1, 1, j - 0.5, color=colour, hatch=hatch, edgecolor="white", linewidth=1.5)
            size = next(size for limit, size, _ in DOTS if error <= limit)
            ax.scatter(i, j, s=size, color="#111111", zorder=3)
    ax.set_xticks(range(len(across)), [f"{u:g}" for u in across])
    ax.set_yticks(range(len(up)), [f"{v:g}" for v in up])
    ax.set(xlim=(-0.5, len(across) - 0.5), ylim=(-0.5, len(up) - 0.5))
    ax.grid(visible=False)
    ax.set_xlabel(axes.across_label)
    ax.set_ylabel(axes.up_label)


def add_key(figure: Any, methods: Sequence[str]) -> None:
    """Explain fills and dots below all panels."""
    # Imported here: drawing needs the extra, computing does not.
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    fills = [
        Patch(facecolor=FILLS[m][0], hatch=FILLS[m][1], edgecolor="white", label=STYLES[m][0])
        for m in methods
    ]
    dots = [
        Line2D([], [], color="#111111", marker="o", linestyle="", markersize=s**0.5, label=label)
        for _, s, label in DOTS
    ]
    figure.legend(handles=[*fills, *dots], loc="outside lower center", ncols=6, fontsize=8.5)


def map_sheets(table: Table, axes: Map, methods: Sequence[str]) -> tuple[Sheet, ...]:
    """Lay out the mean error of each method, one sheet each."""
    return tuple(
        error_sheet(
            f"Mean relative error of {STYLES[method][0]}",
            f"{axes.up} \\ {axes.across}",
            table.unique(axes.up),
            table.unique(axes.across),
            lambda v, u, m=method: table.mean(method=m, **{axes.across: u, axes.up: v}),
        )
        for method in methods
    )


def count_wins(
    table: Table, axes: Map, duel: tuple[str, str], summary: Callable[[np.ndarray], float]
) -> dict[str, list[tuple[Any, Any]]]:
    """Return the cells that each of two methods wins, as (up, across)."""
    wins: dict[str, list[tuple[Any, Any]]] = {method: [] for method in duel}
    for v in table.unique(axes.up):
        for u in table.unique(axes.across):
            cell = table.where(**{axes.across: u, axes.up: v})
            wins[find_winner(cell, *duel, summary)[0]].append((v, u))
    return wins
