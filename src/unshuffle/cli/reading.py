"""Tables read as the options describe: missing codes, dates, ids, and columns of several files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from unshuffle.cli.options import FILE_BAG, choose_reading

if TYPE_CHECKING:
    from unshuffle.io import Table

Used = Callable[[Sequence["Table"]], Collection[str]]


def read_file(path: str, options: dict[str, Any]) -> Table:
    """Return the table of one file."""
    from unshuffle.io import read_table

    table = read_table(path, **choose_reading(options), texts=list_texts(options))
    return convert_dates([table], options)[0]


def read_files(
    paths: Sequence[str], options: dict[str, Any], used: Used
) -> tuple[Table, str | None]:
    """Return the table of one or several files, and its bag column.

    Several files are one table if they have the column of --bag, else each is a bag. `used` returns
    the columns that all tables must have.
    """
    from unshuffle.io import read_table, read_tables
    from unshuffle.io.paths import expand_paths

    how = {**choose_reading(options), "texts": list_texts(options)}
    paths = expand_paths(paths)
    if len(paths) > 1:
        bag = options["bag"] or FILE_BAG
        shares_bags = options["bag"] is not None
        return read_tables(paths, bag=bag, shares_bags=shares_bags, used=used, **how), bag
    table = read_table(paths[0], **how)
    return table, None if options["bag"] is None else table.find(options["bag"], "bag column")


def list_texts(options: dict[str, Any]) -> list[str]:
    """Return the columns that are read as text: ids keep leading zeros."""
    name = options.get("id")
    return [] if name is None else [name]


def convert_dates(tables: Sequence[Table], options: dict[str, Any]) -> list[Table]:
    """Turn columns of dates into days; refuse --dates and --na of unknown columns."""
    from unshuffle.io.columns.dates import count_days, read_origins
    from unshuffle.io.columns.missing_codes import read_codes

    origins = read_origins(options["dates"])
    for name in origins:
        _check_known(tables, name, "column of dates")
    for name in read_codes(options["na"]).by_column:
        _check_known(tables, name, "column with missing codes")
    return [
        count_days(table, {name: day for name, day in origins.items() if _has(table, name)})
        for table in tables
    ]


def _has(table: Table, name: str) -> bool:
    return name in table.columns or name in table.aliases


def _check_known(tables: Sequence[Table], name: str, role: str) -> None:
    """Refuse a column that is in none of the tables."""
    if not any(_has(table, name) for table in tables):
        tables[0].find(name, role)


def list_origins(options: dict[str, Any]) -> dict[str, str]:
    """Return the first day of each column of dates in ISO format."""
    from unshuffle.io.columns.dates import read_origins

    return {name: day.isoformat() for name, day in read_origins(options["dates"]).items()}


def list_ids(table: Table, options: dict[str, Any], rows: Sequence[int]) -> list[Any] | None:
    """Return the ids of these rows; None without --id."""
    if options.get("id") is None:
        return None
    from unshuffle.io.table import as_text

    names = as_text(table.columns[table.find(options["id"], "column of ids")])
    return names[list(rows)].tolist()


def needed_columns(options: dict[str, Any], *more: str | None) -> Used:
    """Return a function that lists the columns a fit needs of several files.

    Other columns may differ between the files. Without --features all columns are needed but those
    of --exclude. ``more`` are columns beside the features, or expressions of columns.
    """
    from unshuffle.io.columns.label_column import list_sources

    def find(tables: Sequence[Table]) -> list[str]:
        names = [*options["features"], *options["categorical"], options["bag"], options["weight"]]
        if not options["features"]:
            every = dict.fromkeys(name for table in tables for name in table.names)
            names += [name for name in every if name not in options["exclude"]]
            names = [name for name in names if name not in tables[0].aside]
        # A label may be an expression of columns, a feature may not.
        aliases = tables[0].aliases
        found = [aliases.get(name, name) for name in names if name is not None]
        found += [name for each in more for name in list_sources(tables[0], each)]
        return list(dict.fromkeys(found))

    return find


def needed_label_columns(options: dict[str, Any]) -> Used:
    """Return a function that lists the columns a fit needs of several files of labels."""
    from unshuffle.io.columns.label_column import list_sources

    def find(tables: Sequence[Table]) -> list[str]:
        label, others = options["label"], [options["bag"], options["weight"]]
        if label is None:
            return list(dict.fromkeys(name for table in tables for name in table.names))
        return [*list_sources(tables[0], label), *(name for name in others if name is not None)]

    return find
