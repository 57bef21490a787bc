"""``unshuffle describe``: the columns of a file, before anything is fitted."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.options import FILE_BAG, choose_reading, json_option, provenance, reading_options
from unshuffle.cli.reading import convert_dates
from unshuffle.formatting import count

if TYPE_CHECKING:
    from unshuffle.io.description import Description

_EPILOG = """\b
Examples:
  unshuffle describe register.csv
  unshuffle describe pool1.fcs
  unshuffle describe 'pools/*.fcs' --json"""


@click.command(epilog=_EPILOG)
@click.argument("data", nargs=-1, required=True)
@reading_options
@json_option
def describe(**options: Any) -> None:
    """List the columns of a file and suggest a fit.

    The table has the type, range and missing values of each column.

    DATA is CSV, TSV, Parquet, FCS or Excel; '-' is standard input. Several files are described as
    one table with the columns that all of them have. Notes name outliers, codes such as 999 and
    -9, row names, dates, constants, and names that differ in case or blanks alone. The last line
    suggests a label and a bag.
    """
    from unshuffle.io.description import describe_table, read_common
    from unshuffle.io.paths import expand_paths

    table = read_common(expand_paths(options["data"]), FILE_BAG, **choose_reading(options))
    found = describe_table(convert_dates([table], options)[0])
    if options["as_object"]:
        origin = provenance(None, table.sha256)
        console.print_json({**found.to_dict(), "provenance": origin})
        return
    _print_description(found, options)


def _print_description(found: Description, options: dict[str, Any]) -> None:
    """Print the table of columns, remarks on some of them, and the command that would fit."""
    from unshuffle.io.description import list_columns

    n_columns = count(len(found.columns), "column")
    heads, rows = list_columns(found)
    console.print_result(f"{found.source}: {count(found.n_rows, 'row')}, {n_columns}", "")
    console.print_result(console.make_table(heads, rows, n_text=len(heads)))
    notes = [*found.notes, *found.remarks]
    if notes:
        console.print_result("", *(f"- {note}" for note in notes))
    console.print_result("", *_suggest(found, options))


def _suggest(found: Description, options: dict[str, Any]) -> list[str]:
    """Return the suggested command, or what is missing for one."""
    if found.label is None:
        return ["No column looks like a label."]
    # Several files are a bag each by default.
    has_bag = found.bag is not None and (found.bag != FILE_BAG or len(options["data"]) == 1)
    command = ["unshuffle", "fit", *options["data"], "--label", found.label]
    command += ["--bag", str(found.bag)] if has_bag else []
    return [
        "Label and bag are guessed from names and values. To fit:",
        f"  {shlex.join([*command, *_suggest_reading(found)])}",
    ]


def _suggest_reading(found: Description) -> list[str]:
    """Return the options for names of rows, dates, missing values, their codes, and constants."""
    from unshuffle.io.description import CONSTANT, DATES, EMPTY, NAMES

    taken = (found.label, found.bag)
    left = [each for each in found.columns if each.name not in taken]
    ids = [each.name for each in left if each.type == NAMES]
    lists = {
        "--id": ids[:1],
        "--dates": [each.name for each in left if each.type == DATES],
        "--na": [f"{each.name}={code:g}" for each in found.columns for code in each.codes],
        "--exclude": [*ids[1:], *(each.name for each in left if each.type in (CONSTANT, EMPTY))],
    }
    out = set(lists["--id"] + lists["--exclude"])
    lacks = any((each.n_missing or each.codes) and each.name not in out for each in found.columns)
    chosen = [part for name, values in lists.items() if values for part in (name, _join(values))]
    return [*chosen, *(["--missing", "drop"] if lacks else [])]


def _join(names: list[str]) -> str:
    """Return names as the value of an option; names with commas are in quotation marks."""
    return ",".join(f'"{name}"' if "," in name else name for name in names)
