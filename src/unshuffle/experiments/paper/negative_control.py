"""The negative control: ordinary regression on labels shuffled inside bags."""

from __future__ import annotations

import numpy as np

from unshuffle.experiments.drawing import Drawing
from unshuffle.experiments.paper.table2 import BAGS, grid_of, method_sheet, printed_sheet, split
from unshuffle.experiments.rows import Row, Settings, Table
from unshuffle.experiments.runner import Experiment
from unshuffle.experiments.simulations import make_row, relative_error

PRINTED: dict[str, tuple[float, ...]] = {
    "lsat": (1.07, 0.90, 0.84, 0.68, 0.66),
    "accidents": (1.07, 1.04, 0.92, 0.92, 0.74),
    "acetylene": (1.82, 2.16, 1.43, 2.22, 1.12),
    "power_plant": (0.80, 0.80, 0.80, 0.79, 0.80),
    "airfoil": (0.76, 0.75, 0.74, 0.75, 0.75),
    "yacht": (1.99, 1.30, 1.54, 1.82, 1.43),
    "concrete": (1.13, 1.06, 1.04, 1.10, 1.14),
    "synthetic1": (0.92, 0.95, 0.89, 0.90, 0.88),
    "synthetic2": (0.97, 0.91, 0.93, 0.93, 0.89),
    "synthetic3": (0.90, 0.89, 0.91, 0.88, 0.88),
    "synthetic4": (1.28, 1.25, 1.27, 1.27, 1.25),
    "synthetic5": (1.01, 0.97, 0.98, 0.96, 0.95),
    "synthetic6": (0.82, 0.81, 0.82, 0.79, 0.81),
}


def run_one(settings: Settings, rng: np.random.Generator) -> Row:
    """Regress the shuffled labels as if they were in order."""
    X, shuffled, _, reference = split(settings)
    design = np.column_stack([X, np.ones(len(shuffled))])
    weights = np.linalg.lstsq(design, shuffled, rcond=None)[0]
    value = float(np.mean((design @ weights - shuffled) ** 2))
    return make_row(relative_error(weights, reference), value, "control", "EXACT")


def draw(table: Table) -> Drawing:
    """Lay out the printed control and ours."""
    sheets = (
        printed_sheet("Printed in the paper", PRINTED, table),
        method_sheet(table, "control", "Ours"),
    )
    return Drawing(_verdict(table), sheets)


def _verdict(table: Table) -> str:
    ours = {name: [table.mean(data=name, bags=r) for r in BAGS] for name in table.unique("data")}
    gaps = {name: np.abs(np.divide(errors, PRINTED[name]) - 1) for name, errors in ours.items()}
    near = sum(int(np.sum(gap <= 0.15)) for gap in gaps.values())
    n_cells, low = len(ours) * len(BAGS), min(min(errors) for errors in ours.values())
    # The paper's point is that the errors stay up; it calls an estimate good below 0.3.
    is_high = low >= 0.3
    word = "Agrees" if is_high and near > 0.75 * n_cells else "Agrees in part"
    furthest = sorted(gaps, key=lambda name: -gaps[name].mean())[:3]
    return (
        f"{word}: {near} of {n_cells} cells lie within 15 % of print, and the lowest error is "
        f"{low:.2f}, so that the bags alone {'do not' if is_high else 'do'} give the links away; "
        f"furthest from print, on average over a row, are {', '.join(furthest)}."
    )


EXPERIMENT = Experiment(
    name="negative-control",
    title="Negative control: ignore the shuffling",
    place="Table 4 (appendix F)",
    caption=(
        "Ordinary regression on the shuffled labels, in whatever order they fell. If many bags "
        "alone gave the order away, these errors would fall towards zero as R grows; they do not."
    ),
    choices=(
        "The splits are those of Table 2, scaled in the same way; mean of 10 trials (quick: 1, and "
        "power_plant on 2000 rows)."
    ),
    keys=("data", "rows", "bags", "method", "trial"),
    grid=lambda scope: grid_of(("control",), scope),
    run_one=run_one,
    draw=draw,
    seconds=lambda settings: 0.02,
)
