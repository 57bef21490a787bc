"""``unshuffle audit``: what an outsider could recover from a release with shuffled labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.app import DOUBTFUL, OK
from unshuffle.cli.dataset import list_features
from unshuffle.cli.load_tables import ask_for_label, choose_columns, read_labelled
from unshuffle.cli.options import (
    categorical_option,
    exclude_option,
    features_option,
    id_option,
    json_option,
    label_option,
    method_option,
    pictures_options,
    provenance,
    reading_options,
    seed_option,
    split_names,
)
from unshuffle.cli.output_files import check_outputs
from unshuffle.cli.reading import list_ids
from unshuffle.cli.sections import Sectioned
from unshuffle.cli.tables import format_csv
from unshuffle.cli.wording import rephrase
from unshuffle.errors import InputError, quote
from unshuffle.formatting import count, show_number

if TYPE_CHECKING:
    from unshuffle.auditing import Audit
    from unshuffle.io import Samples, Table

_EPILOG = """\b
Examples:
  unshuffle audit register.csv --label income --bag district --report audit.html
  unshuffle audit register.csv --label income --bag district --accept 0.01 --exposed rows.csv
  unshuffle audit register.csv --label income --known age,rent --known-noise 0.1
  unshuffle audit register.csv --label income --json"""


_NOT_SHOWN = "What this does not show:"


@click.command(cls=Sectioned, epilog=_EPILOG)
@click.argument("data")
@label_option("Column that will be shuffled.")
@click.option(
    "--bag", metavar="COL", help="Column inside whose entries it will be shuffled; one bag without."
)
@features_option("Columns of features that are released; all but label and bag without it.")
@exclude_option
@categorical_option
@id_option
@click.option(
    "--log10",
    is_flag=True,
    help="Attack the logarithm of the label alone; without it the label, its logarithm and its "
    "square root are tried, and the worst is reported.",
)
@method_option
@click.option("--jobs", type=int, metavar="N", help="Threads; the result stays the same.")
@seed_option
@click.option(
    "--known",
    multiple=True,
    callback=split_names,
    metavar="A,B",
    help="Side information: columns that are not released and that the outsider has from "
    "elsewhere; the label may be one, with an error.",
)
@click.option(
    "--known-noise",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Error of the known columns: its sd over that of the column.",
)
@click.option(
    "--accept",
    type=click.FloatRange(min=0, max=1),
    metavar="SHARE",
    help="Accepted risk, such as 0.01; exit with 3 if the risk is above it.",
)
@click.option(
    "--exposed",
    metavar="F.csv",
    help="Write the rows that are matched rightly to a CSV file, the surest first: row, id, bag, "
    "label, probability.",
)
@click.option("--report", metavar="F.html", help="Write a report page.")
@pictures_options
@reading_options
@json_option
def audit(**options: Any) -> int:
    """Measure what an outsider recovers from shuffled labels.

    DATA is the linked table before its release: every label beside its own row. The outsider sees
    the features and, in no order, the labels of each bag. The audit fits and matches as an outsider
    would, and counts how often that is right. It tries linear models of the label, its logarithm
    and its square root, and reports the worst. It then repeats this with bags merged, labels
    rounded and noise added.

    The risk is the share of rows re-identified, beyond that among control rows, which are left out
    of the release. The result ends with what an audit does not show.
    """
    from unshuffle.io import choose_samples
    from unshuffle.io.columns.missing import keep_positive

    if options["known_noise"] and not options["known"]:
        raise click.UsageError("--known-noise is the error of the columns --known; name some")
    check_outputs(options)
    if options["label"] is None:
        ask_for_label([options["data"]], options)
    table = read_labelled(options)
    if options["log10"]:
        label = table.find(options["label"], "label column")
        table = keep_positive(table, [label], options["missing"])
    samples = choose_samples(
        table,
        bag=options["bag"],
        label=options["label"],
        known=options["known"],
        categorical=options["categorical"],
        missing=options["missing"],
        **choose_columns(options, table),
    )
    notes = _describe(samples, table, options)
    console.print_messages(notes, options["quiet"])
    found = _attack(samples, table, options)
    origin = provenance(options["seed"], table.sha256)
    _write_files(found, table, notes, origin, options)
    if options["as_object"]:
        console.print_json({**found.to_dict(), "label": options["label"], "provenance": origin})
    else:
        shown = [*found.verdict, "", _table(found), "", *found.remarks, "", _NOT_SHOWN]
        console.print_result(*shown, *(f"- {each}" for each in found.not_shown))
    return DOUBTFUL if found.is_acceptable is False else OK


def _write_files(
    found: Audit, table: Table, notes: list[str], origin: dict[str, Any], options: dict[str, Any]
) -> None:
    """Write report, exposed rows and pictures, where the options name them."""
    written = []
    if options["report"]:
        from unshuffle.auditing.page import write_audit

        write_audit(
            found, options["report"], label=options["label"], source=table.source, notes=notes,
            provenance=origin, words=rephrase,
        )  # fmt: skip
        written.append(f"report written to {options['report']}")
    if options["exposed"]:
        from unshuffle.io.writing import write_whole

        write_whole(options["exposed"], list_exposed(found, options))
        n_rows = count(len(found.exposed), "exposed row")
        written.append(f"{n_rows} written to {options['exposed']}")
    if written:
        written.append("confidential: it names rows and their labels")
    if options["pictures"]:
        from unshuffle.auditing.page import write_audit_pictures

        paths = write_audit_pictures(found, options["pictures"], options["picture_format"])
        written.append(f"{count(len(paths), 'picture')} written to {options['pictures']}")
    console.print_messages(written, options["quiet"])


def list_exposed(found: Audit, options: dict[str, Any]) -> str:
    """Return the exposed rows as CSV, with ids and bags where there are columns of them."""
    named = [name for name in ("id", "bag") if options[name] is not None]
    names = ["row", *named, "label", "probability"]
    return format_csv(names, ([getattr(each, name) for name in names] for each in found.exposed))


def _attack(samples: Samples, table: Table, options: dict[str, Any]) -> Audit:
    """Return the audit; errors name the table."""
    from unshuffle.auditing import audit as run_audit

    if options["known_noise"] and any("=" in name for name in samples.known_names):
        raise InputError(
            f"{table.source}: --known-noise is for columns of numbers; leave columns of categories "
            "out of --known, or the noise"
        )
    try:
        with console.show_progress("attacking …", options["quiet"]) as status:
            return run_audit(
                samples.X,
                samples.label,
                samples.groups,
                rows=(samples.rows + 1).tolist(),
                ids=list_ids(table, options, samples.rows.tolist()),
                known=samples.known,
                known_noise=options["known_noise"],
                known_names=samples.known_names,
                accept=options["accept"],
                rng=options["seed"],
                n_jobs=options["jobs"],
                method=options["method"],
                scale="log10" if options["log10"] else None,
                report=console.reporter(status),
            )
    except InputError as exc:
        raise InputError(f"{table.source}, label {quote(options['label'])}: {exc}") from exc


def _describe(samples: Samples, table: Table, options: dict[str, Any]) -> list[str]:
    """Return messages on the table, its label and features, and notes."""
    bag = "one bag" if options["bag"] is None else f"bag {quote(options['bag'])}"
    return [
        f"{table.source}: {count(len(samples.X), 'row')}, label {quote(options['label'])}, {bag}, "
        f"{list_features(samples.names)}",
        *samples.notes,
    ]


def _table(found: Audit) -> Any:
    head = ["release", "coefficient error", "right", "guessing", "control", "risk", "label error"]
    rows = [
        [
            each.release.name,
            f"{each.error:.2g}",
            f"{each.right:.1%}",
            f"{each.guess:.1%}",
            f"{each.control_right.value:.1%}" if each.control.n else "–",
            f"{each.risk.value:.1%}",
            show_number(each.label_sd * each.label_gap),
        ]
        for each in found.exposures
    ]
    return console.make_table(head, rows)
