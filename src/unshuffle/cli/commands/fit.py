"""``unshuffle fit``: the coefficient table, with the verdict first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.app import DOUBTFUL, OK
from unshuffle.cli.dataset import Dataset
from unshuffle.cli.fitting import fit_data, save_fit
from unshuffle.cli.load_blocks import load_dataset
from unshuffle.cli.options import (
    ManyFiles,
    check_dask,
    check_device,
    data_options,
    json_option,
    level_option,
    links_option,
    model_options,
    pictures_options,
    provenance,
    seed_option,
)
from unshuffle.cli.output_files import check_outputs, write_files
from unshuffle.cli.wording import rephrase
from unshuffle.errors import shorten
from unshuffle.formatting import count, show_number

if TYPE_CHECKING:
    from unshuffle.results.fit import Fit
    from unshuffle.results.summary import Summary

_EPILOG = """\b
Examples:
  unshuffle fit cells.csv --label fluorescence --bag pool --report fit.html
  unshuffle fit --rows rows.csv --labels labels.csv --bag pool --json
  unshuffle fit --rows cells.csv --labels facs.csv --bag sample --separate
  unshuffle fit --rows all.csv --labels some.csv --bag class --same-individuals
  unshuffle fit --rows cells.csv --labels histogram.csv --bag sample
  unshuffle fit table.csv --label score --bag school --weight pupils
  unshuffle fit run1.fcs run2.fcs --label FITC-A --features SSC-A,FSC-A
  unshuffle fit cells.csv --label fluorescence --bag pool --save model.json
  unshuffle fit cells.csv --label 'log10(green / red)' --bag pool --figure fit.svg
  unshuffle fit --rows pools.csv --weight share --labels pool*.fcs --label FITC-A --bag pool
  unshuffle fit register.csv --label income --bag district --na 999 --dates birth --id person
  unshuffle fit 'runs/*.parquet' --label score --bag run
  unshuffle fit cells.csv --label fluorescence --bag pool --anchor barcoded
  unshuffle fit registers.csv --label income --bag village --mislinked estimate
  unshuffle fit 'runs/*.parquet' --label score --bag run --dask tcp://host:8786
  unshuffle fit 'runs/*.parquet' --label score --bag run --device cuda"""


@click.command(cls=ManyFiles, epilog=_EPILOG)
@data_options
@model_options
@level_option
@seed_option
@click.option("--strict", is_flag=True, help="Exit with 3 if not identified or not converged.")
@click.option("--strict-model", is_flag=True, help="Exit with 3 if the model does not fit.")
@links_option
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also print rules, bag effects, priors and all competing answers. Stages, time and use "
    "of memory go to stderr.",
)
@click.option("--report", metavar="F.html", help="Write a report page for the browser.")
@pictures_options
@click.option(
    "--dask",
    metavar="ADDRESS",
    callback=check_dask,
    help="Read Parquet files on the workers of this Dask scheduler, or, with 'local', in processes "
    "of this machine. Results are the same.",
)
@click.option(
    "--device",
    metavar="D",
    callback=check_device,
    help="Fit more than 20000 rows on an NVIDIA GPU: 'cuda', or 'cuda:1' for the second. Results "
    "are the same.",
)
@click.option("--save", metavar="MODEL.json", help="Save the model for 'unshuffle predict'.")
@click.option("--out", metavar="F.csv", help="Write the coefficients to a CSV file.")
@click.option(
    "--draws",
    metavar="F.csv",
    help="Write draws of equal weight from the posterior: coefficients, noise and bag effects.",
)
@click.option(
    "--figure",
    metavar="F.svg",
    help="Draw the coefficients with their intervals: .svg, .png or .pdf.",
)
@json_option
def fit(**options: Any) -> int:
    """Fit coefficients and intervals to a table.

    DATA is CSV, TSV, Parquet, FCS or Excel (the first sheet); '-' is standard input. It may be
    several files, patterns such as 'runs/*.csv', or folders of Parquet. If --bag names a column
    that the files have, they are one table. If not, each file is a bag.

    Rows and labels may also come in separate files of different lengths: --rows and --labels.
    Labels may be histograms, with columns low, high and count. An empty end is an open bin.
    """
    if options["verbose"] and options["quiet"]:
        raise click.UsageError("give --verbose or --quiet, not both")
    if options["device"] not in (None, "cpu") and options["dask"]:
        raise click.UsageError("--device is for this machine, and --dask for others: give one")
    start = time.perf_counter()
    code = _fit(options)
    if options["verbose"]:
        console.print_messages([console.describe_effort(time.perf_counter() - start)])
    return code


def _fit(options: dict[str, Any]) -> int:
    check_outputs(options)
    data = load_dataset(options)
    console.print_messages(data.describe(), options["quiet"])
    with console.show_progress("fitting", options["quiet"]) as status:
        found = fit_data(data, options, console.reporter(status, options["verbose"]))
        summary = found.summary(options["level"], detail=options["verbose"])
    origin = provenance(options["seed"], data.sha256)
    if options["as_object"]:
        console.print_json(make_object(found, summary, data, origin))
    else:
        print_fit(found, summary)
    if options["report"]:
        _write_report(found, data, options, origin)
    if options["pictures"]:
        _write_pictures(found, data, options)
    write_files(found, summary, data, options)
    if options["save"]:
        save_fit(found, data, options, origin)
    return _choose_code(found, options)


def _choose_code(found: Fit, options: dict[str, Any]) -> int:
    """Return the exit code that the options ask for."""
    from unshuffle.results.verdict import NOT_IDENTIFIED

    is_doubtful = options["strict"] and (found.verdict == NOT_IDENTIFIED or not found.is_converged)
    is_misfit = options["strict_model"] and found.model_fits is False
    return DOUBTFUL if is_doubtful or is_misfit else OK


def _write_report(
    found: Fit, data: Dataset, options: dict[str, Any], origin: dict[str, Any]
) -> None:
    from unshuffle.results.report import write_report

    with console.show_progress("writing the report …", options["quiet"]):
        path = write_report(
            found,
            options["report"],
            **data.list_rows(),
            level=options["level"],
            label=data.shown_label,
            base_levels=data.base_levels,
            source=data.source,
            notes=data.describe(),
            columns=data.columns,
            provenance=origin,
            words=rephrase,
        )
    console.print_messages([f"report written to {path}"], options["quiet"])


def _write_pictures(found: Fit, data: Dataset, options: dict[str, Any]) -> None:
    from unshuffle.results.report import write_report_pictures

    with console.show_progress("drawing …", options["quiet"]):
        paths = write_report_pictures(
            found,
            options["pictures"],
            **data.list_rows(),
            level=options["level"],
            label=data.shown_label,
            ending=options["picture_format"],
        )
    written = f"{count(len(paths), 'picture')} written to {options['pictures']}"
    console.print_messages([written], options["quiet"])


def make_object(
    found: Fit, summary: Summary, data: Dataset, origin: dict[str, Any]
) -> dict[str, Any]:
    """Return the fit as the JSON object of the public contract."""
    content = summary.to_dict()
    offsets = None if content["bag_offsets"] is None else data.list_offsets(found)
    if offsets is not None:
        content["bag_offsets"]["bags"] = offsets
    return {**content, "data": data.to_dict(), "provenance": origin}


def print_fit(found: Fit, summary: Summary, truth: list[float] | None = None) -> None:
    """Print the verdict, the table of coefficients, notes, and competing answers."""
    console.print_result(summary.explanation[0], "")
    console.print_result(_coefficient_table(summary, truth), "")
    console.print_result(summary.facts, *summary.notes)
    if summary.shows_candidates:
        console.print_result("", "Competing answers, best first:", *_candidate_tables(found))


def _coefficient_table(summary: Summary, truth: list[float] | None) -> Any:
    head, *rows = summary.table
    if truth is not None:  # beside the interval
        place = head.index("high") + 1 if "high" in head else len(head)
        head = (*head[:place], "truth", *head[place:])
        rows = [
            (*row[:place], show_number(value), *row[place:])
            for row, value in zip(rows, truth, strict=True)
        ]
    return console.make_table(head, rows)


def _candidate_tables(found: Fit) -> list[Any]:
    """Return the tables of competing answers, each as wide as the screen allows."""
    n_answers = len(found.competing)
    n_across = console.count_fitting(_candidate_table(found, 0, n_answers))
    tables: list[Any] = []
    for first in range(0, n_answers, n_across):
        tables += [""] if tables else []
        tables.append(_candidate_table(found, first, min(first + n_across, n_answers)))
    return tables


def _candidate_table(found: Fit, first: int, stop: int) -> Any:
    """Return the table of some of the competing answers."""
    names, candidates = found.facts.names, found.competing[first:stop]
    has_shares = any(c.share is not None for c in found.competing)
    counted = (
        [["share", *(f"{c.share or 0.0:.1%}" for c in candidates)]]
        if has_shares
        else [
            ["starts", *(str(c.n_starts) for c in candidates)],
            ["value", *(show_number(c.value) for c in candidates)],
        ]
    )
    # A column as wide as its name would leave no room for others.
    rows = [
        *counted,
        *(
            [shorten(name, 30), *(show_number(c.weights[j]) for c in candidates)]
            for j, name in enumerate(names)
        ),
    ]
    heads = [str(place) for place in range(first + 1, stop + 1)]
    return console.make_table(["", *heads], rows)
