"""``unshuffle compare``: every method side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.data import Data, load_data
from unshuffle.cli.fitting import choose_noise
from unshuffle.cli.options import (
    data_options,
    json_option,
    provenance,
    seed_option,
    split_names,
    tuning_options,
)
from unshuffle.errors import shorten
from unshuffle.wording import show_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unshuffle.comparison import Comparison
    from unshuffle.core.progress import Report

_EPILOG = """\b
Examples:
  unshuffle compare cells.csv --label fluorescence --bag pool
  unshuffle compare linked.csv --truth y --methods ls,sm,p1"""


@click.command(epilog=_EPILOG)
@data_options
@tuning_options
@click.option("--truth", metavar="COL", help="Column of linked labels, to measure the error.")
@click.option(
    "--methods", multiple=True, callback=split_names, metavar="M,M", help="Only these methods."
)
@seed_option
@json_option
def compare(**options: Any) -> None:
    """Fit every method to the same data.

    Shown are the time, the gap of sorted labels and predictions, and the error where the truth is
    known. With --truth alone the linked labels serve as shuffled ones too: their order is never
    used.
    """
    data = load_data(options, options["truth"])
    if data.truth is not None and options["separate"]:
        raise click.UsageError("--truth is about the same individuals; leave --separate out")
    console.print_messages(data.describe(), options["quiet"])
    with console.report_progress("fitting every method", options["quiet"]) as report:
        rows = list(_compare(data, options, report))
    if options["as_object"]:
        names = data.design.feature_names
        origin = provenance(options["seed"], data.sha256)
        console.print_json(
            {"methods": [_as_object(row, names) for row in rows], "provenance": origin}
        )
    else:
        console.print_result(_make_table(rows, data.truth is not None))
        console.print_result(
            *[f"{row.method}: {shorten(row.note, 300)}" for row in rows if row.note]
        )


def _compare(data: Data, options: dict[str, Any], report: Report) -> Iterator[Comparison]:
    """Compare on one label for each row where there is one, and on bags of any kind otherwise."""
    from unshuffle.comparison import compare_bags, compare_methods
    from unshuffle.files import join_design, write_out

    how = {
        "methods": options["methods"],
        "noise": choose_noise(options),
        "l1": options["l1"],
        "l2": options["l2"],
        "fit_intercept": not options["no_intercept"],
        "n_starts": options["starts"],
        "random_state": options["seed"],
        "n_jobs": options["jobs"],
        "bag_offsets": options["bag_offsets"],
        "report": report,
    }
    bags = join_design(data.design)
    if not (bags.pairing.is_usual and bags.labels.is_raw):
        return compare_bags(bags, **how)
    design, truth = write_out(data.design, "compare"), data.truth
    if truth is not None and data.design.counts is not None:
        truth = truth.repeat(data.design.counts.astype(int))
    return compare_methods(
        design.X, design.y, design.groups, linked_y=truth, anchors=design.anchors, **how
    )


def _as_object(row: Comparison, names: tuple[str, ...]) -> dict[str, Any]:
    weights = None if row.weights is None else dict(zip(names, row.weights, strict=True))
    return {
        "method": row.method,
        "seconds": row.seconds,
        "coefficients": weights,
        "intercept": row.intercept,
        "gap": row.gap,
        "error": row.error,
        "r2": row.r2,
        "note": row.note or None,
    }


def _make_table(rows: list[Comparison], has_truth: bool) -> Any:
    columns = ["method", "seconds", "rms gap"] + (["error", "R² linked"] if has_truth else [])
    cells = [
        [row.method, f"{row.seconds:.2f}", show_number(row.gap)]
        + ([show_number(row.error), show_number(row.r2)] if has_truth else [])
        for row in rows
    ]
    return console.make_table(columns, cells)
