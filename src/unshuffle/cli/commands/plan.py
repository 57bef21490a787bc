"""``unshuffle plan``: which samples go into which run, and the errors to be expected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.dataset import list_features
from unshuffle.cli.load_tables import choose_columns, read_labelled
from unshuffle.cli.options import (
    categorical_option,
    choose_marks,
    exclude_option,
    features_option,
    id_option,
    json_option,
    label_option,
    method_option,
    pictures_options,
    provenance,
    read_offsets,
    reading_options,
    seed_option,
    split_names,
)
from unshuffle.cli.output_files import check_outputs
from unshuffle.cli.reading import list_ids
from unshuffle.cli.sections import Sectioned
from unshuffle.cli.tables import format_columns, list_cells
from unshuffle.errors import InputError, quote, shorten, suggest
from unshuffle.formatting import count

if TYPE_CHECKING:
    from unshuffle.design import Expectation, Plan
    from unshuffle.io import Samples, Table

_EPILOG = """\b
Examples:
  unshuffle plan samples.csv --runs 1,2,4,8 --noise 0.2 --label-sd 1.5 --out plan.csv
  unshuffle plan samples.csv --runs 4 --noise 0.2 --weights expected.csv --capacity 96
  unshuffle plan samples.csv --bag pool --noise 0.2 --label-sd 1.5"""


def split_numbers(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> list[int] | None:
    """Turn ``1,2,4`` into whole numbers from 1."""
    found = []
    for text in split_names(ctx, param, values):
        if not (text.isascii() and text.isdigit() and int(text) > 0):
            raise click.BadParameter(f"{quote(text)} is no whole number from 1; give such as 1,2,4")
        found.append(int(text))
    return found or None


@click.command(cls=Sectioned, epilog=_EPILOG)
@click.argument("data")
@click.option(
    "--runs",
    multiple=True,
    callback=split_numbers,
    metavar="R,R",
    help="Numbers of runs to plan; 1,2,4,8 without it, as far as there are samples.",
)
@click.option("--noise", type=float, required=True, metavar="SD", help="Noise sd of a label.")
@click.option("--label-sd", type=float, metavar="SD", help="Sd of the labels, as expected.")
@click.option(
    "--weights",
    metavar="FILE",
    help="Coefficients, as expected: a CSV of feature and coefficient, or a model of fit --save.",
)
@click.option("--bag", metavar="COL", help="Assess the bags that this column holds.")
@features_option("Columns of features; all that have no other role without it.")
@exclude_option
@label_option("Column of labels that exist; its sd is --label-sd.")
@click.option("--together", metavar="COL", help="Samples of one entry here stay in one run.")
@categorical_option
@id_option
@click.option(
    "--sizes", multiple=True, callback=split_numbers, metavar="N,N", help="Samples of each run."
)
@click.option(
    "--capacity",
    multiple=True,
    callback=split_numbers,
    metavar="N[,N]",
    help="Most samples of a run: one number for all runs, or one for each.",
)
@click.option(
    "--offset",
    type=float,
    default=0.1,
    show_default=True,
    metavar="SHARE",
    help="Sd of offsets between runs, over that of the labels, for the second simulation.",
)
@click.option(
    "--trials",
    type=int,
    default=12,
    show_default=True,
    metavar="N",
    help="Most experiments simulated for each kind of bags; fewer where the error is soon known.",
)
@method_option
@click.option(
    "--bag-offsets",
    callback=lambda ctx, param, value: value and read_offsets(ctx, param, value),
    metavar="B",
    help="What fits know of offsets: auto, none, estimate, or their sd. Without it fits of runs "
    "without offsets know that there are none, and the others estimate them.",
)
@click.option(
    "--jobs",
    type=int,
    default=-1,
    metavar="N",
    help="Threads, all cores without it; the result stays the same.",
)
@seed_option
@click.option("--out", metavar="FILE", help="Write the run of every sample to a CSV file.")
@click.option("--figure", metavar="FILE", help="Draw the expected errors: .svg, .png or .pdf.")
@click.option("--report", metavar="F.html", help="Write a report page.")
@pictures_options
@reading_options
@json_option
def plan(**options: Any) -> None:
    """Assign samples to runs, and simulate the errors to expect.

    DATA is a table of the samples' features, known before the experiment. For each number of runs,
    samples are assigned so that the means of the runs differ in every direction. Experiments with
    random and with designed bags are then simulated and fitted, with and without offsets between
    runs. With --bag the bags of the table are assessed instead.

    Without --label-sd, --weights or --label the signal is drawn from the prior. Errors are printed
    with their Monte Carlo errors.
    """
    from unshuffle.io import choose_samples
    from unshuffle.io.writing import write_whole

    _check_calls(options)
    check_outputs(options)
    table = read_labelled(options)
    samples = choose_samples(
        table,
        bag=options["bag"],
        together=options["together"],
        label=options["label"],
        categorical=options["categorical"],
        missing=options["missing"],
        **choose_columns(options, table),
    )
    described = f"{count(len(samples.X), 'sample')}, {list_features(samples.names)}"
    notes = [f"{table.source}: {described}", *samples.notes]
    console.print_messages(notes, options["quiet"])
    with console.report_progress("designing", options["quiet"]) as report:
        found = _make_plan(samples, options, report)
    ids = list_ids(table, options, samples.rows.tolist())
    if options["out"]:
        write_whole(options["out"], as_csv(found, samples, table, ids))
        console.print_messages([f"runs written to {options['out']}"], options["quiet"])
    if options["figure"]:
        _draw(found, options["figure"])
        console.print_messages([f"figure written to {options['figure']}"], options["quiet"])
    _write_page(found, table, notes, options)
    if options["as_object"]:
        console.print_json(_as_object(found, samples, options, table.sha256, ids))
        return
    console.print_result(*found.verdict, "", *_tables(found), "", *found.notes)
    if not options["out"]:
        text = "which sample goes into which run: give --out plan.csv to keep it"
        console.print_messages([text], options["quiet"])


def _write_page(found: Plan, table: Table, notes: list[str], options: dict[str, Any]) -> None:
    """Write the report and its pictures, where the options name them."""
    written = []
    if options["report"]:
        from unshuffle.design.page import write_plan

        origin = provenance(options["seed"], table.sha256)
        write_plan(found, options["report"], source=table.source, notes=notes, provenance=origin)
        written.append(f"report written to {options['report']}")
    if options["pictures"]:
        from unshuffle.design.page import write_plan_pictures

        paths = write_plan_pictures(found, options["pictures"], options["picture_format"])
        written.append(f"{count(len(paths), 'picture')} written to {options['pictures']}")
    console.print_messages(written, options["quiet"])


def _check_calls(options: dict[str, Any]) -> None:
    """Refuse options that do not go together, before anything is read."""
    if sum(options[name] is not None for name in ("label_sd", "weights", "label")) > 1:
        raise click.UsageError("give one of --label-sd, --weights and --label")
    for name in ("runs", "sizes", "capacity", "together"):
        if options["bag"] and options[name]:
            raise click.UsageError(f"--bag assesses bags that exist; leave out --{name}")
    if options["sizes"] and options["capacity"]:
        raise click.UsageError("give --sizes or --capacity, not both: sizes are kept exactly")


def _make_plan(samples: Samples, options: dict[str, Any], report: Any) -> Plan:
    from unshuffle.design import assess_bags, plan_runs

    label_sd = options["label_sd"]
    if samples.label is not None:
        label_sd = float(samples.label.std())
        if label_sd == 0:
            raise InputError(
                f"the label column {quote(options['label'])} is constant and gives no sd of "
                "the signal; give --label-sd or --weights"
            )
    shared: dict[str, Any] = {
        "noise": options["noise"],
        "label_sd": label_sd,
        "weights": _read_weights(options, samples.names),
        "offset": options["offset"],
        "names": samples.names,
        "trials": options["trials"],
        "method": options["method"],
        "bag_offsets": options["bag_offsets"],
        "rng": options["seed"],
        "n_jobs": options["jobs"],
        "report": report,
    }
    if samples.groups is not None:
        return assess_bags(samples.X, samples.groups, **shared)
    runs, capacity = options["runs"], options["capacity"]
    if runs is None:
        given = options["sizes"] or (capacity if capacity and len(capacity) > 1 else None)
        n = len(samples.X)
        runs = [len(given)] if given else [each for each in (1, 2, 4, 8) if each <= n]
    return plan_runs(
        samples.X,
        runs,
        sizes=options["sizes"],
        capacities=capacity[0] if capacity and len(capacity) == 1 else capacity,
        together=samples.together,
        **shared,
    )


def _read_weights(options: dict[str, Any], names: Sequence[str]) -> list[float] | None:
    """Return the coefficient of every feature, from a CSV or a saved model."""
    path = options["weights"]
    if path is None:
        return None
    found = _weights_of_model(path) if _is_json(path) else _weights_of_table(path, options)
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(
            f"{shorten(path, 120)}: no coefficient for the feature {quote(missing[0])}; "
            f"{suggest(missing[0], list(found))}"
        )
    return [found[name] for name in names]


def _is_json(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:
        return False  # refused when the file is read


def _weights_of_model(path: str) -> dict[str, float]:
    from unshuffle.results.storage import read_model

    kept = read_model(path)
    names = kept.feature_names or kept.result.facts.names[: len(kept.result.coef)]
    return dict(zip(names, kept.result.coef.tolist(), strict=True))


def _weights_of_table(path: str, options: dict[str, Any]) -> dict[str, float]:
    from unshuffle.io import read_table

    table = read_table(path, **choose_marks(options))
    texts = [name for name in table.names if table.columns[name].dtype == object]
    numbers = [name for name in table.names if table.columns[name].dtype != object]
    if len(texts) != 1 or len(numbers) != 1:
        raise InputError(
            f"{table.source}: needs a column of feature names and one of coefficients, and has "
            f"{count(len(texts), 'column')} of text and {len(numbers)} of numbers"
        )
    pairs = zip(table.columns[texts[0]].tolist(), table.columns[numbers[0]].tolist(), strict=True)
    return {str(name): value for name, value in pairs}


def as_csv(found: Plan, samples: Samples, table: Table, ids: Sequence[Any] | None = None) -> str:
    """Return the run of every sample, counted from 1, for each number of runs.

    The columns of the table follow, so that the file can be fitted once labels are measured.
    """
    columns: dict[str, list[Any]] = {"row": (samples.rows + 1).tolist()}
    if ids is not None:
        columns["id"] = list(ids)
    for n_runs, each in found.assignments.items():
        columns[f"runs_{n_runs}"] = (each.runs + 1).tolist()
    for name in table.names:
        named = f"({name})" if name in columns else name
        columns[named] = list_cells(table.columns[name][samples.rows])
    return format_columns(columns)


def _tables(found: Plan) -> list[Any]:
    """Return the table of errors, and that of signs and widths by coefficient."""
    from unshuffle.design.words import show_coefficient

    rows = [
        [
            str(each.n_runs),
            each.kind,
            "yes" if each.has_offsets else "no",
            f"{each.error:.3g} ± {each.error_mc:.2g}",
            "–" if each.sign_known is None else f"{each.sign_known.mean():.0%}",
        ]
        for each in found.expectations
    ]
    tables: list[Any] = [
        console.make_table(["runs", "bags", "offsets", "error", "signs determined"], rows, 3)
    ]
    shown = [each for each in found.expectations if not each.has_offsets]
    if any(each.sign_known is not None for each in shown):
        head = ["coefficient", *(f"{each.n_runs} {each.kind}" for each in shown)]
        cells = [
            [name, *(show_coefficient(each, j) for each in shown)]
            for j, name in enumerate(found.names)
        ]
        tables += [
            "",
            "Chance that the sign of a coefficient is determined, and width of its interval:",
        ]
        tables.append(console.make_table(head, cells))
        tables.append(_describe_precision(shown))
    return tables


def _describe_precision(shown: Sequence[Expectation]) -> str:
    """Return a sentence with the Monte Carlo errors of chances and widths."""
    chances = [each.sign_known_mc.max() for each in shown if each.sign_known_mc is not None]
    # Intervals without ends have no width.
    widths = [
        error / width
        for each in shown
        if each.width is not None and each.width_mc is not None
        for error, width in zip(each.width_mc, each.width, strict=True)
        if 0 < width < float("inf")
    ]
    parts = [f"of chances at most ± {max(chances):.0%}"]
    parts += [f"of widths at most ± {max(widths):.0%} of themselves"] if widths else []
    return f"Monte Carlo errors: {', '.join(parts)}."


def _draw(found: Plan, path: str) -> None:
    from matplotlib.figure import Figure

    from unshuffle.io.writing import write_whole
    from unshuffle.results.pictures.drawing import render_figure
    from unshuffle.results.pictures.plots import plot_plan

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    plot_plan(found, ax=figure.add_subplot())
    write_whole(path, render_figure(figure, Path(path).suffix.lower()[1:], dpi=150))


def _as_object(
    found: Plan,
    samples: Samples,
    options: dict[str, Any],
    digest: str,
    ids: Sequence[Any] | None,
) -> dict[str, Any]:
    rows = (samples.rows + 1).tolist()
    named = None if ids is None else dict(zip(map(str, rows), ids, strict=True))
    assignment = {
        str(n_runs): dict(zip(map(str, rows), (each.runs + 1).tolist(), strict=True))
        for n_runs, each in found.assignments.items()
    }
    origin = provenance(options["seed"], digest)
    return {**found.to_dict(), "assignment": assignment, "ids": named, "provenance": origin}
