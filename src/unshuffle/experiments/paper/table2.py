"""Thirteen data sets in up to eight bags: the paper's rule, LS, auto and a negative control."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unshuffle.datasets import load_dataset
from unshuffle.experiments.drawing import STYLES, Cell, Drawing, Sheet, error_cell, mean_sheet
from unshuffle.experiments.paper.table1 import PRINTED as PROPERTIES
from unshuffle.experiments.rows import Row, Settings, Table
from unshuffle.experiments.runner import Experiment, Scope
from unshuffle.experiments.simulations import (
    fit_and_compare,
    fit_seconds,
    make_row,
    relative_error,
)

BAGS = (1, 2, 4, 6, 8)
METHODS = ("paper", "ls", "auto")
# The order is part of the seed of every split, which other measurements of accuracy share.
DATA = tuple(PROPERTIES)
QUICK_ROWS = 2000
ONE_SPLIT = "Quick run of one split"
PRINTED: dict[str, tuple[float, ...]] = {
    "lsat": (0.31, 0.20, 0.54, 0.27, 0.16),
    "accidents": (0.09, 0.04, 0.03, 0.13, 0.21),
    "acetylene": (1.58, 0.66, 0.25, 0.11, 0.04),
    "power_plant": (0.34, 0.33, 0.33, 0.32, 0.33),
    "airfoil": (0.69, 0.40, 0.36, 0.20, 0.15),
    "yacht": (10.00, 8.11, 1.15, 0.09, 0.11),
    "concrete": (1.20, 0.84, 0.66, 0.66, 0.47),
    "synthetic1": (0.22, 0.14, 0.05, 0.04, 0.03),
    "synthetic2": (0.17, 0.02, 0.02, 0.02, 0.01),
    "synthetic3": (1.24, 0.32, 0.12, 0.10, 0.08),
    "synthetic4": (1.45, 0.13, 0.05, 0.05, 0.05),
    "synthetic5": (1.45, 1.00, 0.24, 0.12, 0.13),
    "synthetic6": (1.21, 0.95, 0.46, 0.27, 0.21),
}


def grid_of(methods: tuple[str, ...], scope: Scope) -> list[Settings]:
    """List the rows: every data set, number of bags and method."""
    return [
        {"data": name, "rows": rows_of(name, scope), "bags": n_bags, "method": method, "trial": t}
        for name in DATA
        for n_bags in BAGS
        for method in methods
        for t in range(1 if scope.quick else 10)
    ]


def rows_of(name: str, scope: Scope) -> int:
    """Return how many rows of a data set are used: all, unless quick."""
    n = PROPERTIES[name][1]
    return min(n, QUICK_ROWS) if scope.quick else n


def split(settings: Settings) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return X, the labels shuffled inside random bags, the bags, and the OLS weights.

    The reference weights are those of ordinary least squares on the linked labels of the rows
    used, the intercept last.
    """
    name, n_bags = settings["data"], settings["bags"]
    X, y = load_dataset(name, scale=True)
    if settings["rows"] < len(y):
        kept = np.random.default_rng(settings["seed"]).permutation(len(y))[: settings["rows"]]
        X, y = X[kept], y[kept]
    reference = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), y, rcond=None)[0]
    rng = np.random.default_rng([settings["seed"], DATA.index(name), n_bags, settings["trial"]])
    groups = np.empty(len(y), dtype=int)
    groups[rng.permutation(len(y))] = np.arange(len(y)) % n_bags
    shuffled = y.copy()
    for r in range(n_bags):
        members = np.flatnonzero(groups == r)
        shuffled[members] = rng.permutation(shuffled[members])
    return X, shuffled, groups, reference


def run_one(settings: Settings, rng: np.random.Generator) -> Row:
    """Fit one split."""
    return fit_and_compare(*split(settings), rng, method=settings["method"])


def seconds(settings: Settings) -> float:
    """Estimate the time of one row."""
    d = PROPERTIES[settings["data"]][0]
    return fit_seconds(settings["method"], settings["rows"], d, settings["bags"])


def printed_sheet(title: str, printed: Mapping[str, tuple[float, ...]], table: Table) -> Sheet:
    """Lay out what the paper printed, for the data sets at hand."""
    rows = [
        (Cell(name), *(error_cell(error) for error in printed[name]))
        for name in table.unique("data")
    ]
    return Sheet(title, ("data set \\ R", *map(str, BAGS)), tuple(rows))


def method_sheet(table: Table, method: str, title: str) -> Sheet:
    """Lay out the mean errors of one method."""
    part = table.where(method=method)
    return mean_sheet(part, "data", "bags", title, "data set \\ R", digits=2)


def draw(table: Table) -> Drawing:
    """Lay out the printed table and ours."""
    sheets = [printed_sheet("Printed in the paper", PRINTED, table)]
    for method in table.unique("method"):
        sheets.append(
            method_sheet(table, method, f"Ours: {STYLES[method][0].removesuffix(' (ours)')}")
        )
    return Drawing(_verdict(table), tuple(sheets))


def _verdict(table: Table) -> str:
    data = table.unique("data")
    printed = np.array([PRINTED[name] for name in data])
    ours = {
        m: np.array([[table.mean(data=name, bags=r, method=m) for r in BAGS] for name in data])
        for m in table.unique("method")
    }
    shade = {m: int(np.sum(_shade(e) == _shade(printed))) for m, e in ours.items()}
    ratio = {m: float(np.exp(np.mean(np.log(e / printed)))) for m, e in ours.items()}
    better = int(np.sum(ours["auto"] < printed - 0.02))
    worse = int(np.sum(ours["auto"] > printed + 0.02))
    word = "Agrees" if shade["paper"] > 0.75 * printed.size else "Agrees in part"
    if len(table.unique("trial")) == 1:
        # The printed cells are means of ten splits; one split does not compare with them.
        word = ONE_SPLIT
    return (
        f"{word}: with the paper's rule {shade['paper']} of {printed.size} cells have the printed "
        f"colour (geometric mean of our error over print: the rule {ratio['paper']:.2f}, LS "
        f"{ratio['ls']:.2f}, auto {ratio['auto']:.2f}); auto is better than print by more than "
        f"0.02 in {better} cells and worse in {worse}."
    )


def _shade(errors: np.ndarray) -> np.ndarray:
    return np.where(errors < 0.3, 0, np.where(errors <= 1, 1, 2))


EXPERIMENT = Experiment(
    name="table2",
    title="Relative error on thirteen data sets",
    place="Table 2",
    caption=(
        "Labels of thirteen data sets are shuffled inside 1, 2, 4, 6 or 8 random bags and the "
        "weights estimated; each cell is the mean relative distance to the weights that ordinary "
        "least squares finds with the links known. Green is below 0.3, yellow up to 1, red above."
    ),
    choices=(
        "All columns scaled to [0, 1], intercept fitted and counted in the error; mean of 10 "
        "random splits (quick: 1, and power_plant on 2000 rows). The paper used its rule (SM if "
        "d ≤ 2 or R ≥ 3d, else P1); LS and auto stand beside it on the same splits."
    ),
    keys=("data", "rows", "bags", "method", "trial"),
    grid=lambda scope: grid_of(METHODS, scope),
    run_one=run_one,
    draw=draw,
    seconds=seconds,
)


PRINTED_CONTROL: dict[str, tuple[float, ...]] = {
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


def run_control(settings: Settings, rng: np.random.Generator) -> Row:
    """Regress the shuffled labels as if they were in order."""
    X, shuffled, _, reference = split(settings)
    design = np.column_stack([X, np.ones(len(shuffled))])
    weights = np.linalg.lstsq(design, shuffled, rcond=None)[0]
    value = float(np.mean((design @ weights - shuffled) ** 2))
    return make_row(relative_error(weights, reference), value, "control", "EXACT")


def _draw_control(table: Table) -> Drawing:
    """Lay out the printed control and ours."""
    sheets = (
        printed_sheet("Printed in the paper", PRINTED_CONTROL, table),
        method_sheet(table, "control", "Ours"),
    )
    return Drawing(_verdict_control(table), sheets)


def _verdict_control(table: Table) -> str:
    ours = {name: [table.mean(data=name, bags=r) for r in BAGS] for name in table.unique("data")}
    gaps = {
        name: np.abs(np.divide(errors, PRINTED_CONTROL[name]) - 1) for name, errors in ours.items()
    }
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


NEGATIVE_CONTROL = Experiment(
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
    run_one=run_control,
    draw=_draw_control,
    seconds=lambda settings: 0.02,
)
