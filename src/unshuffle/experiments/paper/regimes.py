"""What the three maps of regimes share: one simulated fit, who wins a cell, and the map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from unshuffle.experiments.drawing import STYLES, Sheet, error_sheet, new_figure
from unshuffle.experiments.rows import Row, Settings, Table
from unshuffle.experiments.runner import Experiment, Scope
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
# The largest error, the size and the meaning of every dot.
DOTS = ((0.05, 12, "< 5 %"), (0.30, 60, "5–30 %"), (np.inf, 190, "> 30 %"))


Summary = Callable[[np.ndarray], float]
# What a map says of one cell: a method, and the size of its error.
Winner = Callable[[Table], tuple[str, float]]


@dataclass(frozen=True)
class Map:
    """The two settings that span a map, the names of its axes, and the methods that compete.

    Of the two methods in `duel` the first is the faster one, to which a tie goes. The paper timed
    them; here it is settled beforehand, so that a map does not depend on what else the machine was
    doing.
    """

    across: str
    up: str
    across_label: str
    up_label: str
    duel: tuple[str, str]

    @property
    def methods(self) -> tuple[str, ...]:
        """The two methods of the paper, and ours."""
        return (*self.duel, "auto")

    def find_winner(self, cell: Table, summary: Summary) -> tuple[str, float]:
        """Return the better of the two methods in one cell, and its error."""
        first, second = self.duel
        errors = {m: float(summary(cell.values(method=m))) for m in self.duel}
        winner = second if errors[second] < errors[first] - TIE else first
        return winner, errors[winner]

    def winners(self, table: Table, summary: Summary) -> dict[tuple[Any, Any], tuple[str, float]]:
        """Return winner and error of every cell, by (up, across)."""
        return {
            (v, u): self.find_winner(table.where(**{self.across: u, self.up: v}), summary)
            for v in table.unique(self.up)
            for u in table.unique(self.across)
        }

    def sheets(self, table: Table) -> tuple[Sheet, ...]:
        """Lay out the mean error of each method, one sheet each."""
        return tuple(
            error_sheet(
                f"Mean relative error of {STYLES[method][0]}",
                f"{self.up} \\ {self.across}",
                table.unique(self.up),
                table.unique(self.across),
                lambda v, u, m=method: table.mean(method=m, **{self.across: u, self.up: v}),
            )
            for method in self.methods
        )

    def draw_panels(
        self, table: Table, panels: dict[str, Summary], of_auto: Summary, size: tuple[float, float]
    ) -> tuple[Any, Any]:
        """Draw one map of the duel for each summary of the errors, then the error of auto."""
        names = " or ".join(STYLES[method][0] for method in self.duel)
        winners: dict[str, Winner] = {
            f"{names}: {name}": partial(self.find_winner, summary=summary)
            for name, summary in panels.items()
        }
        last = list(panels)[-1]
        winners[f"auto: {last}"] = lambda cell: ("auto", of_auto(cell.values(method="auto")))
        figure, axes = new_figure(len(winners) // 2, 2, size)
        for ax, (title, winner) in zip(axes.flat, winners.items(), strict=True):
            self._plot_cells(ax, table, winner)
            ax.set_title(title, fontsize=10)
        _add_key(figure, self.methods)
        return figure, axes

    def _plot_cells(self, ax: Any, table: Table, winner: Winner) -> None:
        """Draw a map of cells: the fill says which method, the dot how large its error is."""
        across, up = table.unique(self.across), table.unique(self.up)
        for i, u in enumerate(across):
            for j, v in enumerate(up):
                method, error = winner(table.where(**{self.across: u, self.up: v}))
                colour, hatch = FILLS[method]
                ax.bar(
                    i, 1, 1, j - 0.5, color=colour, hatch=hatch, edgecolor="white", linewidth=1.5
                )
                size = next((size for limit, size, _ in DOTS if error <= limit), 0)
                ax.scatter(i, j, s=size, color="#111111", zorder=3)
        ax.set_xticks(range(len(across)), [f"{u:g}" for u in across])
        ax.set_yticks(range(len(up)), [f"{v:g}" for v in up])
        ax.set(xlim=(-0.5, len(across) - 0.5), ylim=(-0.5, len(up) - 0.5))
        ax.grid(visible=False)
        ax.set_xlabel(self.across_label)
        ax.set_ylabel(self.up_label)


def _add_key(figure: Any, methods: Sequence[str]) -> None:
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


def run_cell(settings: Settings, rng: np.random.Generator) -> Row:
    """Draw x ~ N(1, 1) and w₀ ~ N(0, 1), add noise at 15 dB, fit."""
    n, d = settings["n"], settings["d"]
    weights = rng.standard_normal((d,))
    X = rng.normal(1.0, 1.0, (n, d))
    noise = noise_at_snr(X @ weights, SNR_DB)
    data = simulate(X, weights, noise, settings["bags"], rng)
    return fit_simulated(data, settings["method"], rng)


def make_experiment(
    axes: Map, cells: Callable[[Scope], tuple[Sequence[Settings], int]], **described: Any
) -> Experiment:
    """Make a map an experiment: `cells` gives its cells and the number of trials in each."""

    def grid(scope: Scope) -> list[Settings]:
        pairs, trials = cells(scope)
        return [
            {**pair, "method": method, "trial": trial}
            for pair in pairs
            for method in axes.methods
            for trial in range(trials)
        ]

    return Experiment(
        keys=("n", "d", "bags", "method", "trial"),
        grid=grid,
        run_one=run_cell,
        seconds=lambda s: fit_seconds(s["method"], s["n"], s["d"], s["bags"]),
        **described,
    )
