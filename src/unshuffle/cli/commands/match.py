"""``unshuffle match``: which label most probably belongs to which row."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.fitting import fit_data
from unshuffle.cli.load_tables import load_data
from unshuffle.cli.options import (
    ManyFiles,
    data_options,
    json_option,
    links_option,
    model_options,
    provenance,
    seed_option,
)
from unshuffle.cli.tables import format_columns
from unshuffle.errors import shorten
from unshuffle.formatting import show_probability

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from unshuffle.cli.dataset import InMemory
    from unshuffle.io import Design
    from unshuffle.results.fit import Fit
    from unshuffle.results.matching import Match

_EPILOG = """\b
Examples:
  unshuffle match cells.csv --label fluorescence --bag pool --out matches.csv
  unshuffle match registers.csv --label income --bag village --mislinked estimate
  unshuffle match registers.csv --label income --link-probability p --draws 10 --out completed"""


@click.command(cls=ManyFiles, epilog=_EPILOG)
@data_options
@model_options
@links_option
@seed_option
@click.option(
    "--out",
    metavar="FILE",
    help="Write the CSV to a file instead of stdout; with --draws the folder of the files.",
)
@click.option(
    "--draws",
    type=click.IntRange(min=1),
    metavar="M",
    help="Write M completed tables to the folder --out, each with a pairing drawn at random.",
)
@json_option
def match(**options: Any) -> None:
    """Print a CSV of row, label, probability and bag.

    The model is fitted first; its verdict goes to stderr. The probability is that the row has a
    label of this value. It is empty for methods without a posterior. Labels are those of the file,
    also with --log10. Rows are counted from 1 below the header.

    With --mislinked a row keeps the label beside it if that is more probable than not. The column
    link_probability has the probability that the link is right.

    --draws M writes M tables completed-1.csv, … instead. Each has a pairing drawn from the
    posterior: row, id, bag, features, label, and label_row, the row that the label stood beside.
    Run any analysis on each table, and pool the results by Rubin's rules (unshuffle.pool in
    Python).
    """
    from unshuffle.io import expand_design, join_design
    from unshuffle.io.writing import check_writable, write_whole

    folder = _check_folder(options)
    if options["out"] and folder is None:
        check_writable(options["out"])
    data = load_data(options)
    design = expand_design(data.design, f"{data.source}: match")
    console.print_messages(data.describe(), options["quiet"])
    given = design.y
    if data.given is not None:
        kept = dataclasses.replace(data.design, y=data.given)
        given = expand_design(kept, f"{data.source}: match").y
    data = dataclasses.replace(data, design=design)
    with console.show_progress("fitting", options["quiet"]) as status:
        report = console.reporter(status)
        fitted = fit_data(data, options, report)
        if folder is not None:
            report("drawing pairings", 0.0)
            drawn = _draw_pairings(fitted, design, options)
            _write_draws(folder, drawn, data, given, options)
            return
        report("matching", 0.0)
        found = fitted.match(join_design(design))
    verdict = [*fitted.summary().explanation, *found.verdict]
    console.print_messages([*fitted.remarks, " ".join(verdict)], options["quiet"])
    columns = _list_matches(data, found, given[found.order])
    links = fitted.stats.link_probability
    if links is not None:
        columns["link_probability"] = links.tolist()
    if data.ids is not None:
        columns["id"] = [data.ids[row] for row in design.rows.tolist()]
    if options["out"]:
        write_whole(options["out"], format_columns(columns))
        console.print_messages([f"matches written to {options['out']}"], options["quiet"])
    if options["as_object"]:
        origin = provenance(options["seed"], data.sha256)
        facts = {
            "verdict": verdict,
            "method": fitted.method,
            "identified": fitted.identified,
            "model_fits": fitted.model_fits,
        }
        records = zip(*columns.values(), strict=True)
        matches = [dict(zip(columns, each, strict=True)) for each in records]
        console.print_json({"matches": matches, **facts, "provenance": origin})
    elif not options["out"]:
        is_read = sys.stdout.isatty()
        sys.stdout.write(_as_text(columns) if is_read else format_columns(columns))


def _check_folder(options: dict[str, Any]) -> Path | None:
    """Return the folder of completed tables, made if missing; None where none are asked for."""
    if options["draws"] is None:
        return None
    if not options["out"]:
        raise click.UsageError("--draws writes a file for each draw; name their folder with --out")
    from unshuffle.io.writing import make_folder

    return make_folder(options["out"])


def _draw_pairings(fitted: Fit, design: Design, options: dict[str, Any]) -> np.ndarray:
    """Return the pairings, (draws, rows)."""
    from unshuffle.io import join_design

    keeps = fitted.pairings is not None or fitted.data is not None
    bags = None if keeps else join_design(design)
    return fitted.sample_pairings(options["draws"], options["seed"], bags)


def _write_draws(
    folder: Path, drawn: np.ndarray, data: InMemory, given: np.ndarray, options: dict[str, Any]
) -> None:
    """Write one completed table for each pairing."""
    from unshuffle.io.writing import write_whole

    design, n_digits = data.design, len(str(len(drawn)))
    own: dict[str, list[Any]] = {"row": (design.rows + 1).tolist()}
    if data.ids is not None:
        own["id"] = [data.ids[row] for row in design.rows.tolist()]
    if design.groups is not None:
        own["bag"] = design.groups.tolist()
    columns = zip(design.feature_names, design.X.T.tolist(), strict=True)
    own |= {(f"({name})" if name in own else name): values for name, values in columns}
    paths = []
    for k, pairing in enumerate(drawn, start=1):
        values, places = given.tolist(), pairing.tolist()
        label = f"({data.label})" if data.label in own else data.label
        table = {**own, label: [None if at < 0 else values[at] for at in places]}
        if not options["rows"]:  # labels in a file of their own are in no row
            table["label_row"] = (design.rows[pairing] + 1).tolist()
        path = folder / f"completed-{k:0{n_digits}d}.csv"
        paths.append(write_whole(path, format_columns(table)))
    console.print_messages(
        [f"{len(paths)} completed tables written to {options['out']}"], options["quiet"]
    )
    if options["as_object"]:
        origin = provenance(options["seed"], data.sha256)
        console.print_json({"files": [str(path) for path in paths], "provenance": origin})


def _list_matches(data: InMemory, found: Match, labels: np.ndarray) -> dict[str, list[Any]]:
    """Return the columns row, label, probability, and bag where there are bags."""
    design = data.design
    known = [None] * len(design.X) if found.probability is None else found.probability.tolist()
    columns = {
        "row": (design.rows + 1).tolist(),
        "label": labels.tolist(),
        "probability": known,
    }
    return columns if design.groups is None else {**columns, "bag": design.groups.tolist()}


def _as_text(columns: dict[str, list[Any]]) -> str:
    """Return columns for a terminal, with tiny probabilities in words."""
    shown = {**columns, "probability": map(show_probability, columns["probability"])}
    lines = [list(shown), *([shorten(c) for c in row] for row in zip(*shown.values(), strict=True))]
    widths = [max(len(line[j]) for line in lines) for j in range(len(shown))]
    return "".join("  ".join(map(str.rjust, line, widths)) + "\n" for line in lines)
