"""``unshuffle match``: which label most probably belongs to which row."""

from __future__ import annotations

import csv
import dataclasses
import io
import sys
from typing import Any

import click

from unshuffle.cli import console
from unshuffle.cli.data import load_data
from unshuffle.cli.fitting import fit_data
from unshuffle.cli.options import (
    data_options,
    json_option,
    model_options,
    provenance,
    seed_option,
)

_EPILOG = """\b
Example:
  unshuffle match cells.csv --label fluorescence --bag pool --out matches.csv"""


@click.command(epilog=_EPILOG)
@data_options
@model_options
@seed_option
@click.option("--out", metavar="FILE", help="Write the CSV to a file instead of stdout.")
@json_option
def match(**options: Any) -> None:
    """Print a CSV of row, label and probability.

    The model is fitted first; the probability is that the label belongs to the row. Rows are
    counted from 1 below the header, as in the file.
    """
    from unshuffle.files import join_design, write_out
    from unshuffle.files.writing import check_writable, write_whole

    if options["out"]:
        check_writable(options["out"])
    data = load_data(options)
    design = write_out(data.design, f"{data.source}: match")
    console.print_messages(data.describe(), options["quiet"])
    data = dataclasses.replace(data, design=design)
    with console.show_progress("fitting and matching …", options["quiet"]):
        fitted = fit_data(data, options)
        console.print_messages(fitted.remarks, options["quiet"])
        found = fitted.match(join_design(design))
    rows = (design.rows + 1).tolist()
    labels = design.y[found.order].tolist()
    # Methods without a posterior match by rank and have no probabilities.
    given = found.probability
    probabilities = [None] * len(rows) if given is None else given.tolist()
    if options["out"]:
        write_whole(options["out"], _as_csv(rows, labels, probabilities))
        console.print_messages([f"matches written to {options['out']}"], options["quiet"])
    if options["as_object"]:
        matches = [
            {"row": row, "label": label, "probability": probability}
            for row, label, probability in zip(rows, labels, probabilities, strict=True)
        ]
        origin = provenance(options["seed"], data.sha256)
        console.print_json({"matches": matches, "provenance": origin})
    elif not options["out"]:
        sys.stdout.write(_as_csv(rows, labels, probabilities))


def _as_csv(rows: list[int], labels: list[float], probabilities: list[float | None]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "label", "probability"])
    writer.writerows(
        [row, repr(label), "" if probability is None else repr(probability)]
        for row, label, probability in zip(rows, labels, probabilities, strict=True)
    )
    return text.getvalue()
