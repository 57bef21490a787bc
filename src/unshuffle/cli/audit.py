"""``unshuffle audit``: what an outsider could recover from a release with shuffled labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.data import choose_columns, leave_out, read_labelled
from unshuffle.cli.options import (
    categorical_option,
    exclude_option,
    features_option,
    id_option,
    json_option,
    label_option,
    method_option,
    provenance,
    reading_options,
    seed_option,
)
from unshuffle.cli.sections import Sectioned
from unshuffle.errors import InputError, quote, shorten
from unshuffle.formatting import count

if TYPE_CHECKING:
    from unshuffle.auditing import Audit
    from unshuffle.io import Samples, Table

_EPILOG = """\b
Examples:
  unshuffle audit register.csv --label income --bag district --report audit.html
  unshuffle audit register.csv --label income --json"""


@click.command(cls=Sectioned, epilog=_EPILOG)
@click.argument("data")
@label_option("Column that will be shuffled.", required=True)
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
@click.option("--report", metavar="F.html", help="Write a report page.")
@reading_options
@json_option
def audit(**options: Any) -> None:
    """Say what an outsider could recover from this table with its label shuffled.

    DATA is the linked table, before its release: every label beside its own row. It is attacked as
    an outsider would who sees the features and the labels of each bag in no order; the links that
    the owner has say how often that is right. The outsider tries linear models of the label, its
    logarithm and its square root; the worst is reported. Then the same with bags merged, labels
    rounded and noise added. What is not shown (side information above all) stands below the
    result.
    """
    from unshuffle.io import choose_samples
    from unshuffle.io.missing import keep_positive

    if options["report"]:
        from unshuffle.results.report import check_report

        check_report(options["report"])
    table = read_labelled(options)
    if options["log10"]:
        label = table.find(options["label"], "label column")
        table = keep_positive(table, [label], options["missing"])
    samples = choose_samples(
        table,
        bag=options["bag"],
        label=options["label"],
        categorical=options["categorical"],
        missing=options["missing"],
        **leave_out(choose_columns(options, table), [options["id"]]),
    )
    notes = _describe(samples, table, options)
    console.print_messages(notes, options["quiet"])
    found = _attack(samples, table, options)
    origin = provenance(options["seed"], table.sha256)
    if options["report"]:
        from unshuffle.auditing.page import write_audit

        write_audit(
            found, options["report"], label=options["label"], source=table.source, notes=notes,
            provenance=origin,
        )  # fmt: skip
        console.print_messages([f"report written to {options['report']}"], options["quiet"])
    if options["as_object"]:
        console.print_json({**found.to_dict(), "label": options["label"], "provenance": origin})
        return
    shown = [*found.verdict, "", _table(found), "", *found.remarks, "", "What this does not show:"]
    console.print_result(*shown, *(f"- {each}" for each in found.not_shown))


def _attack(samples: Samples, table: Table, options: dict[str, Any]) -> Audit:
    """Run the audit; what is wrong with a table is said with its name."""
    from unshuffle.auditing import audit as run_audit

    try:
        with console.show_progress("attacking …", options["quiet"]) as status:
            return run_audit(
                samples.X,
                samples.label,
                samples.groups,
                rows=(samples.rows + 1).tolist(),
                rng=options["seed"],
                n_jobs=options["jobs"],
                method=options["method"],
                scale="log10" if options["log10"] else None,
                report=console.reporter(status),
            )
    except InputError as exc:
        raise InputError(f"{table.source}, label {quote(options['label'])}: {exc}") from exc


def _describe(samples: Samples, table: Table, options: dict[str, Any]) -> list[str]:
    n, d = samples.X.shape
    names = ", ".join(shorten(name, 30) for name in samples.names[:12])
    more = f" and {d - 12} more" if d > 12 else ""
    bag = "one bag" if options["bag"] is None else f"bag {quote(options['bag'])}"
    return [
        f"{table.source}: {count(n, 'row')}, label {quote(options['label'])}, {bag}, "
        f"{count(d, 'feature')}: {names}{more}",
        *samples.notes,
    ]


def _table(found: Audit) -> Any:
    head = ["release", "weights' error", "right", "guessing", "right at 0.8", "gap"]
    rows = []
    for each in found.exposures:
        share = each.share_at(0.8)
        rows.append(
            [
                each.release.name,
                f"{each.error:.2g}",
                f"{each.right:.1%}",
                f"{each.guess:.1%}",
                "–" if share is None else f"{share:.1%}",
                f"{each.label_gap:.2g}",
            ]
        )
    return console.make_table(head, rows)
