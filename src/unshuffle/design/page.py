"""The report page of a plan: one HTML file that needs neither network nor scripts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from unshuffle import __version__
from unshuffle.design.plan import Plan
from unshuffle.design.words import show_coefficient
from unshuffle.errors import shorten
from unshuffle.io.writing import write_whole
from unshuffle.results.pictures import plots
from unshuffle.results.pictures.report_pictures import Drawing, draw_picture, write_pictures
from unshuffle.results.report import check_report, fill_template, today


def write_plan(
    plan: Plan,
    path: str | os.PathLike[str],
    *,
    source: str | None = None,
    notes: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
    written: date | None = None,
) -> Path:
    """Write the report of a plan to an HTML file, whole or not at all.

    `source` names the data, `notes` are sentences on how they were read, `provenance` says what
    repeats the plan, and `written` is the date shown: today in UTC, or that of SOURCE_DATE_EPOCH.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from unshuffle.design import plan_runs
    >>> X = np.random.default_rng(0).exponential(size=(24, 2))
    >>> plan = plan_runs(X, [2], noise=0.1, label_sd=1.0, trials=2, method="ls", rng=0)
    >>> write_plan(plan, tempfile.mkdtemp() + "/plan.html").name
    'plan.html'
    """
    target = check_report(path)
    origin = {"version": __version__, "seed": "not fixed", "data_sha256": None, "command": None}
    shown = [each for each in plan.expectations if not each.has_offsets]
    page = fill_template(
        "plan.html",
        plan=plan,
        headline=("Errors to be expected", "unknown"),
        n_samples=max(int(each.sizes.sum()) for each in plan.assignments.values()),
        shown=shown,
        has_signs=any(each.sign_known is not None for each in shown),
        show_coefficient=show_coefficient,
        pictures=[draw_picture(each) for each in _list_drawings(plan)],
        source=None if source is None else shorten(source, 200),
        written=(written or today()).isoformat(),
        notes=[shorten(note, 2000) for note in (*notes, *plan.notes)],
        origin={**origin, **(provenance or {})},
    )
    write_whole(target, page)
    return Path(path)


def write_plan_pictures(
    plan: Plan, folder: str | os.PathLike[str], ending: str = "svg"
) -> list[Path]:
    """Write each picture of the report to a file of a folder: "svg", "png" or "pdf"."""
    return write_pictures(_list_drawings(plan), folder, ending)


def _list_drawings(plan: Plan) -> list[Drawing]:
    return [
        Drawing(
            "Expected errors",
            partial(plots.plot_plan, plan),
            (4.8, 3.6),
            "Mean error of the coefficients over simulated experiments, with its Monte Carlo "
            "error (bars): |ŵ − w|/|w| in units of w sd(x).",
        )
    ]
