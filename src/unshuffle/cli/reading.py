"""Tables as the options describe them: files, missing codes, dates and ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from unshuffle.cli.options import FILE_BAG, choose_reading

if TYPE_CHECKING:
    from datetime import date

    from unshuffle.io import Table

Used = Callable[[Sequence["Table"]], Collection[str]]


def read_file(path: str, options: dict[str, Any]) -> Table:
    """Read a file as the options describe it."""
    from unshuffle.io import read_table

    table = read_table(path, **choose_reading(options), texts=list_texts(options))
    return settle([table], options)[0]


def read_files(
    paths: Sequence[str], options: dict[str, Any], used: Used
) -> tuple[Table, str | None]:
    """Read one file, or several; return the table and its bag column.

    Several are one table where --bag names a column they have, and a bag each otherwise. `used`
    returns the columns of the tables that are needed.
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
    """Return the columns whose cells are kept as they are written."""
    name = options.get("id")
    return [] if name is None else [name]


def settle(tables: Sequence[Table], options: dict[str, Any]) -> list[Table]:
    """Count days in columns of dates; refuse options that name no column of any table."""
    from unshuffle.io.columns.dates import count_days, read_origins
    from unshuffle.io.columns.missing_codes import read_codes

    origins = read_origins(options["dates"])
    for name in origins:
        find_in_some(tables, name, "column of dates")
    for name in read_codes(options["na"]).by_column:
        find_in_some(tables, name, "column with missing codes")
    return [count_days(table, _choose(origins, table)) for table in tables]


def find_in_some(tables: Sequence[Table], name: str, role: str) -> None:
    """Refuse a name that no table knows."""
    if not any(name in table.columns or name in table.aliases for table in tables):
        tables[0].find(name, role)


def _choose(origins: dict[str, date], table: Table) -> dict[str, date]:
    known = (*table.columns, *table.aliases)
    return {name: origin for name, origin in origins.items() if name in known}


def list_origins(options: dict[str, Any]) -> dict[str, str]:
    """Return the day from which each column of dates counts, as JSON writes it."""
    from unshuffle.io.columns.dates import read_origins

    return {name: day.isoformat() for name, day in read_origins(options["dates"]).items()}


def list_ids(table: Table, options: dict[str, Any], rows: Sequence[int]) -> list[Any] | None:
    """Return the names of these rows, where a column is named that holds them."""
    if options.get("id") is None:
        return None
    from unshuffle.io.table import as_text

    names = as_text(table.columns[table.find(options["id"], "column of ids")])
    return names[list(rows)].tolist()


def list_used(options: dict[str, Any], *more: str | None) -> Used:
    """Return what says which columns of several files are needed: others may differ.

    Without --features these are all but those of --exclude. ``more`` are columns beside the
    features, or expressions of columns.
    """
    from unshuffle.io.columns.label_column import list_sources

    def find(tables: Sequence[Table]) -> list[str]:
        names = [*options["features"], *options["categorical"], options["bag"], options["weight"]]
        if not options["features"]:
            every = dict.fromkeys(name for table in tables for name in table.names)
            names += [name for name in every if name not in options["exclude"]]
            names = [name for name in names if name not in tables[0].aside]
        # A label may be an expression; features are columns, also those of other files alone.
        aliases = tables[0].aliases
        found = [aliases.get(name, name) for name in names if name is not None]
        found += [name for each in more for name in list_sources(tables[0], each)]
        return list(dict.fromkeys(found))

    return find


def list_label_columns(options: dict[str, Any]) -> Used:
    """Return what says which columns of several files of labels are needed."""
    from unshuffle.io.columns.label_column import list_sources

    def find(tables: Sequence[Table]) -> list[str]:
        label, others = options["label"], [options["bag"], options["weight"]]
        if label is None:
            return list(dict.fromkeys(name for table in tables for name in table.names))
        return [*list_sources(tables[0], label), *(name for name in others if name is not None)]

    return find
