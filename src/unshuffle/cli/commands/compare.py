"""``unshuffle compare``: every method side by side."""

from __future__ import annotations

from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.dataset import InMemory
from unshuffle.cli.fitting import choose_noise, choose_share
from unshuffle.cli.load_tables import load_data
from unshuffle.cli.options import (
    ManyFiles,
    data_options,
    json_option,
    level_option,
    links_option,
    provenance,
    seed_option,
    split_names,
    tuning_options,
)
from unshuffle.errors import shorten
from unshuffle.formatting import show_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unshuffle.comparison import Comparison
    from unshuffle.progress import Report

_EPILOG = """\b
Examples:
  unshuffle compare cells.csv --label fluorescence --bag pool
  unshuffle compare linked.csv --truth y --methods ls,sm,p1"""


@click.command(cls=ManyFiles, epilog=_EPILOG)
@data_options
@tuning_options
@links_option
@click.option("--truth", metavar="COL", help="Column of linked labels, to measure the error.")
@click.option(
    "--methods", multiple=True, callback=split_names, metavar="M,M", help="Only these methods."
)
@level_option
@seed_option
@json_option
def compare(**options: Any) -> None:
    """Fit every method to the same data.

    The table has coefficients and intervals of each method, its time, and its error if the truth
    is known. --truth without --label uses the linked labels as shuffled ones; their order is never
    used.

    With --mislinked or other options for links, the default is compared with the adjusted
    equations ('ll' and 'chambers', if the rate is known), with least squares and Huber's regression
    of the labels as they stand, and with the methods that ignore their order.
    """
    data = load_data(options, options["truth"])
    if data.truth is not None and options["separate"]:
        raise click.UsageError("--truth is about the same individuals; leave --separate out")
    console.print_messages(data.describe(), options["quiet"])
    with console.report_progress("fitting every method", options["quiet"]) as report:
        rows = list(_compare(data, options, report))
    names, level = data.design.feature_names, options["level"]
    if options["as_object"]:
        origin = provenance(options["seed"], data.sha256)
        found = [_as_object(row, names) for row in rows]
        console.print_json({"methods": found, "level": level, "provenance": origin})
    else:
        heads = [*names, *([] if options["no_intercept"] else ["intercept"])]
        for table in _make_tables(rows, heads, data.truth is not None):
            console.print_result(table, "")
        console.print_result(*_explain(rows, level))
        if options["mislinked"] is not None or data.links is not None:
            from unshuffle.results.limits import LINKS_LIMITS

            console.print_result(LINKS_LIMITS)


def _compare(data: InMemory, options: dict[str, Any], report: Report) -> Iterator[Comparison]:
    """Compare on one label for each row where there is one, and on bags of any kind otherwise."""
    from unshuffle.comparison import compare_bags, compare_methods
    from unshuffle.io import expand_design, join_design

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
        "level": options["level"],
        "report": report,
    }
    bags = join_design(data.design)
    if not (bags.pairing.is_usual and bags.labels.is_raw):
        if options["mislinked"] is not None or data.links is not None:
            raise click.UsageError("links need one label beside each row; leave --mislinked out")
        return compare_bags(bags, **how)
    how |= {"mislinked": choose_share(options), "links": data.links}
    design, truth = expand_design(data.design, "compare"), data.truth
    if truth is not None and data.design.counts is not None:
        truth = truth.repeat(data.design.counts.astype(int))
    return compare_methods(
        design.X, design.y, design.groups, linked_y=truth, anchors=design.anchors, **how
    )


def _as_object(row: Comparison, names: tuple[str, ...]) -> dict[str, Any]:
    weights = None if row.weights is None else dict(zip(names, row.weights, strict=True))
    ends = None
    if row.intervals is not None:
        ends = [{"low": low, "high": high} for low, high in row.intervals.tolist()]
    return {
        "method": row.method,
        "seconds": row.seconds,
        "coefficients": weights,
        "intercept": row.intercept,
        "intervals": None if ends is None else dict(zip(names, ends, strict=False)),
        "intercept_interval": None if ends is None or len(ends) == len(names) else ends[-1],
        "gap": row.gap,
        "error": row.error,
        "r2": row.r2,
        "note": row.note or None,
    }


def _make_tables(rows: list[Comparison], heads: list[str], has_truth: bool) -> list[Any]:
    """Return methods down and coefficients across, below each other where they are too wide."""
    blocks = [[["seconds", *(f"{row.seconds:.2f}" for row in rows)]]]
    if has_truth:
        blocks.append([["error", *(show_number(row.error) for row in rows)]])
        blocks.append([["R² linked", *(show_number(row.r2) for row in rows)]])
    blocks += [_list_coefficient(rows, j, head) for j, head in enumerate(heads)]
    tables = []
    while blocks:
        n_fitting = console.count_fitting(_join_columns(rows, blocks))
        widths = accumulate(len(block) for block in blocks)
        n_blocks = max(1, sum(width <= n_fitting for width in widths))
        tables.append(_join_columns(rows, blocks[:n_blocks]))
        blocks = blocks[n_blocks:]
    return tables


def _list_coefficient(rows: list[Comparison], j: int, head: str) -> list[list[str]]:
    """Return the columns of a coefficient: estimates, and the ends of intervals if any."""
    found: list[list[float | None]] = []
    for row in rows:
        values = None if row.weights is None else [*row.weights.tolist(), row.intercept]
        ends = [None, None] if row.intervals is None else row.intervals[j].tolist()
        found.append([None if values is None else values[j], *ends])
    # A column as wide as its name would leave no room for others.
    columns = list(zip([shorten(head, 30), "low", "high"], *found, strict=True))
    has_intervals = any(row.intervals is not None for row in rows)
    kept = columns if has_intervals else columns[:1]
    return [[name, *map(show_number, values)] for name, *values in kept]


def _join_columns(rows: list[Comparison], blocks: list[list[list[str]]]) -> Any:
    """Return the table of the methods and some other columns."""
    columns = [["method", *(row.method for row in rows)], *chain.from_iterable(blocks)]
    names, *cells = zip(*columns, strict=True)
    return console.make_table(names, cells)


def _explain(rows: list[Comparison], level: float) -> Iterator[str]:
    """Yield notes on the level, methods without intervals, and methods without an answer."""
    fitted = [row for row in rows if row.weights is not None]
    without = [row.method for row in fitted if row.intervals is None]
    if len(without) < len(fitted):
        yield f"low, high: {100 * level:g} % intervals."
    if without:
        yield (
            f"No intervals: {', '.join(without)}. Estimates without an interval may be biased on "
            "shuffled data."
        )
    for row in rows:
        if row.note:
            yield f"{row.method}: {shorten(row.note, 300)}"
