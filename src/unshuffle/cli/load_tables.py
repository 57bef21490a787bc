"""Files read into memory: label, features and bags chosen as the options name them."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn

import click

from unshuffle.cli.dataset import InMemory
from unshuffle.cli.links import check_numbers, find_links
from unshuffle.cli.options import choose_marks, choose_reading
from unshuffle.cli.reading import (
    convert_dates,
    list_ids,
    list_origins,
    needed_columns,
    needed_label_columns,
    read_file,
    read_files,
)
from unshuffle.errors import InputError, quote, shorten
from unshuffle.formatting import list_names

if TYPE_CHECKING:
    import numpy as np

    from unshuffle.io import Design, Table

# Options that name columns beside features, label and bag.
_ASIDE = ("link_probability", "safe")


def load_data(options: dict[str, Any], truth: str | None = None) -> InMemory:
    """Read the files into memory, and choose label, features and bags as the options name them."""
    if options.get("formula") is not None:
        return _load_formula(options, truth)
    if options["rows"] or options["labels"]:
        return _load_two(options, truth)
    if not options["data"]:
        raise click.UsageError("no data named; give a file, '-', or --rows and --labels")
    label = options["label"] or truth
    if label is None:
        ask_for_label(options["data"], options)
    same_individuals = _choose_pairing(options)
    aside = [truth, *(options.get(name) for name in _ASIDE), *(options.get("link_columns") or ())]
    used = needed_columns(options, label, options["anchor"], options["id"], *aside)
    table, bag = read_files(options["data"], options, used)
    table = convert_dates([table], options)[0]
    is_log10 = options["log10"] or _is_logarithm(table, label)
    table = _add_labels(table, [label, truth], options)
    table = _mask_unlogged(table, [label, truth], options)
    if truth is not None:
        truth = table.find(truth, "truth column")
    from unshuffle.data.pairing import Draws
    from unshuffle.io import Apart, make_design

    design = make_design(
        table,
        label=label,
        bag=bag,
        weight=options["weight"],
        categorical=options["categorical"],
        missing=options["missing"],
        anchor=options["anchor"],
        base=read_base(options),
        **choose_columns(options, table, aside),
    )
    if same_individuals is False:
        apart = Apart(design.groups, design.counts, same_individuals=False)
        notes = (*design.notes, Draws.sentence)
        design = dataclasses.replace(design, apart=apart, notes=notes)
    linked = None if truth is None else _find_linked(table, truth, design)
    given = design.y if options["log10"] else None
    if options["log10"]:
        design = dataclasses.replace(design, y=_take_logs(design.y))
        linked = None if linked is None else _take_logs(linked)
    name = table.find(label)
    taken = [name, truth, options["weight"], *options["features"]]
    hint = _hint_at_bag(table, bag, taken)
    return InMemory.of(
        design,
        label=name,
        bag=bag,
        truth=linked,
        hint=hint,
        has_logs=options["log10"],
        given=given,
        is_log10=is_log10,
        columns=_list_columns([table], options),
        **_list_facts(table, design, options),
    )


def ask_for_label(paths: Sequence[str], options: dict[str, Any]) -> NoReturn:
    """Refuse a missing --label, with the columns of the first file."""
    from unshuffle.io import read_table
    from unshuffle.io.paths import expand_paths

    names = read_table(expand_paths(paths)[0], **choose_reading(options)).names
    raise click.UsageError(
        "which column is the label? name it with --label, one of: "
        f"{list_names([quote(name, 30) for name in names])}; 'unshuffle describe' says more of them"
    )


def _load_formula(options: dict[str, Any], truth: str | None) -> InMemory:
    """Read one table, and make label and features by --formula."""
    # Options that the formula replaces or does not support.
    taken = ("label", "features", "exclude", "categorical", "base", "log10", "no_intercept")
    for name in (*taken, "rows", "labels", "separate", "same_individuals", "truth"):
        if options.get(name):
            raise click.UsageError(
                f"give --formula or --{name.replace('_', '-')}, not both: a formula names label, "
                "features, factors C(x) and transformations, and '- 1' for no intercept"
            )
    if not options["data"]:
        raise click.UsageError("no data named; give a file, or '-'")
    from unshuffle.formulas.tables import make_formula_design

    aside = [options.get(name) for name in ("id", *_ASIDE)]
    table, bag = read_files(options["data"], options, needed_columns(options, *aside))
    table = convert_dates([table], options)[0]
    design, columns = make_formula_design(
        table,
        options["formula"],
        bag=bag,
        weight=options["weight"],
        anchor=options["anchor"],
        aside=[name for name in aside if name is not None],
        missing=options["missing"],
    )
    options["no_intercept"] = not columns.has_intercept
    used = [*columns.variables, *columns.label_variables, options["weight"]]
    return InMemory.of(
        design,
        label=columns.label,
        bag=bag,
        hint=_hint_at_bag(table, bag, used),
        has_logs=columns.has_logs,
        formula=columns,
        **_list_facts(table, design, options),
    )


def _load_two(options: dict[str, Any], truth: str | None) -> InMemory:
    """Read rows and labels from files of their own (--rows and --labels)."""
    if options["data"] or not (options["rows"] and options["labels"]):
        raise click.UsageError("give one table, or --rows together with --labels")
    if truth is not None:
        raise click.UsageError("--truth needs rows and labels in one table")
    for name in ("anchor", "mislinked", "audit", *_ASIDE):
        if options.get(name) is not None:
            raise click.UsageError(
                f"--{name.replace('_', '-')} needs rows and labels in one table, each label beside "
                "its row"
            )
    same_individuals = _choose_pairing(options)
    from unshuffle.io import describe_label, is_histogram, is_mean_table, make_design_from_two

    rows, bag = read_files(options["rows"], options, needed_columns(options, options["id"]))
    labels, label_bag = read_files(options["labels"], options, needed_label_columns(options))
    if options["bag"] is None and label_bag is not None and label_bag not in rows.columns:
        raise click.UsageError(
            "--labels names several files, each a bag; name the column of the rows that holds "
            "their names by --bag"
        )
    rows, labels = convert_dates([rows, labels], options)
    is_log10 = options["log10"] or _is_logarithm(labels, options["label"])
    labels = _add_labels(labels, [options["label"]], options)
    bag = bag or label_bag
    weight = options["weight"] if options["weight"] in labels.columns else None
    label = describe_label(labels, options["label"], bag, weight)
    has_raw_logs = options["log10"] and not (options["label"] is None and is_histogram(labels))
    has_raw_logs &= not is_mean_table(labels, options["label"])
    if has_raw_logs:
        labels = _mask_unlogged(labels, [label], options)
    design = make_design_from_two(
        rows,
        labels,
        label=options["label"],
        bag=bag,
        weight=options["weight"],
        categorical=options["categorical"],
        missing=options["missing"],
        log10=options["log10"],
        same_individuals=same_individuals,
        base=read_base(options),
        **choose_columns(options, rows),
    )
    given = design.y if has_raw_logs else None
    if has_raw_logs:
        design = dataclasses.replace(design, y=_take_logs(design.y))
    digest = sha256((rows.sha256 + labels.sha256).encode()).hexdigest()
    source = f"{rows.source} and {labels.source}"
    # A bag column has its name in both tables, so columns of the labels are no candidates.
    alone = [name for name in rows.names if name not in labels.columns]
    used = [*alone, weight, *options["features"]]
    hint = _hint_at_bag(rows, bag, used)
    return InMemory.of(
        design,
        source=source,
        sha256=digest,
        label=label,
        bag=bag,
        n_read=rows.n_rows,
        hint=hint,
        has_logs=options["log10"],
        given=given,
        ids=_find_ids(rows, design, options),
        is_log10=is_log10,
        columns=_list_columns([rows, labels], options),
        **_describe_reading(options),
    )


def _add_labels(table: Table, names: Sequence[str | None], options: dict[str, Any]) -> Table:
    """Return the table with labels computed that are expressions of columns."""
    from unshuffle.io.columns.label_column import add_label

    for name in names:
        if name is not None:
            table = add_label(table, name, options["missing"])
    return table


def read_labelled(options: dict[str, Any]) -> Table:
    """Read a file, and compute its label where that is an expression of columns."""
    return _add_labels(read_file(options["data"], options), [options["label"]], options)


def _is_logarithm(table: Table, label: str | None) -> bool:
    """Whether a label is an expression whose value is a logarithm to base 10."""
    from unshuffle.io.columns.label_column import find_expression

    expression = None if label is None else find_expression(table, label)
    return expression is not None and expression.is_log10


def _list_columns(tables: Sequence[Table], options: dict[str, Any]) -> list[list[str]]:
    """Return the report's table of columns, its header first."""
    if not options.get("report"):
        return []
    from unshuffle.io.description import describe_table, list_columns

    parts = [list_columns(describe_table(table)) for table in tables]
    # Perhaps only one of two tables has long names of channels.
    head = next((head for head, _ in parts if len(head) == max(len(h) for h, _ in parts)), [])
    lines = [line for _, own in parts for line in own]
    return [
        head,
        *([*line[:1], "", *line[1:]] if len(line) < len(head) else line for line in lines),
    ]


def _list_facts(table: Table, design: Design, options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a dataset that hold for rows and labels of one table."""
    return {
        "source": table.source,
        "sha256": table.sha256,
        "n_read": table.n_rows,
        "links": find_links(table, design, options),
        "ids": _find_ids(table, design, options),
        **_describe_reading(options),
    }


def _describe_reading(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a dataset for dates, missing codes and ids."""
    return {
        "dates": list_origins(options),
        "missing_codes": tuple(options["na"]),
        "id": options["id"],
    }


def read_base(options: dict[str, Any]) -> dict[str, str]:
    """Return the base level of each category that --base names."""
    bases = {}
    for each in options["base"]:
        name, mark, level = each.partition("=")
        if not (name and mark and level):
            raise click.UsageError(f"--base {quote(each)}: write COL=LEVEL, such as sex=female")
        bases[name] = level
    return bases


def _hint_at_bag(table: Table, bag: str | None, taken: Sequence[str | None]) -> str | None:
    """Return a note where no bag is named and a column without another role looks like one."""
    if bag is not None:
        return None
    from unshuffle.io.columns.forgotten_bags import find_forgotten_bag

    # The user may have given second names of columns.
    used = {table.aliases.get(name, name) for name in taken if name is not None}
    found = find_forgotten_bag(table, used)
    return None if found is None else describe_forgotten_bag(*found)


def describe_forgotten_bag(name: str, n_levels: int) -> str:
    """Return a note that a column looks like bags, and that no bag was named."""
    return (
        "note: no bag was named, so that all rows are one bag; column "
        f"{quote(name)} looks like one ({n_levels} values): did you mean "
        f"--bag {shlex.quote(shorten(name))}?"
    )


def _choose_pairing(options: dict[str, Any]) -> bool | None:
    """Return whether rows and labels are the same individuals; None where neither is given."""
    if options["separate"] and options["same_individuals"]:
        raise click.UsageError("give --separate or --same-individuals, not both")
    return True if options["same_individuals"] else False if options["separate"] else None


def _mask_unlogged(table: Table, names: Sequence[str | None], options: dict[str, Any]) -> Table:
    """With --log10, refuse labels without a logarithm, or make them missing values.

    The logarithms are taken later, of the design: it keeps the labels of the file as well.
    """
    if not options["log10"]:
        return table
    from unshuffle.io.columns.missing import keep_positive

    found = {table.find(name, "label column") for name in names if name is not None}
    return keep_positive(table, found, options["missing"])


def _take_logs(values: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.asarray(np.log10(values))


def read_calibration(path: str, options: dict[str, Any]) -> Any:
    """Return the noise measured from a file of labels of identical inputs."""
    from unshuffle import noise_from_calibration
    from unshuffle.io import read_table

    label = options["label"]
    table = read_table(path, **choose_marks(options))
    if label is None and len(table.names) > 1:
        raise InputError(
            f"{table.source}: which column is the label? name it with --label, or keep one column"
        )
    if len(table.names) > 1:
        table = _add_labels(table, [label], options)
    name = table.names[0] if len(table.names) == 1 else table.find(str(label), "label column")
    table = _mask_unlogged(table, [name], options)
    check_numbers(table, name)
    column = table.columns[name]
    values = column[column == column]
    return noise_from_calibration(_take_logs(values) if options["log10"] else values)


def choose_columns(
    options: dict[str, Any], table: Table, aside: Sequence[str | None] = ()
) -> dict[str, Any]:
    """Return the arguments of `make_design` that choose the features.

    Without --features the column of ids and those of `aside` are excluded.
    """
    if options["features"] and options["exclude"]:
        raise click.UsageError("give --features or --exclude, not both")
    for name in (*options["features"], *options["exclude"]):
        _check_commas(name, table)
    ids = None if options.get("id") is None else table.find(options["id"], "column of ids")
    if options["features"]:
        return {"features": options["features"], "exclude": options["exclude"]}
    names = [*options["exclude"], *(name for name in (ids, *aside) if name is not None)]
    return {"features": None, "exclude": list(dict.fromkeys(names))}


def _check_commas(name: str, table: Table) -> None:
    """Refuse a part of a column name that was split at its comma; show the quoted name."""
    if name in table.columns or name in table.aliases:
        return
    for known in table.names:
        if "," in known and name in (part.strip() for part in known.split(",")):
            raise InputError(
                f"{table.source}: no column is called {quote(name)}; {quote(known)} holds a comma "
                f"and stands in quotation marks: '\"{shorten(known)}\"'"
            )


def choose_features(
    options: dict[str, Any], names: Sequence[str], source: str, bag: str | None
) -> list[str] | None:
    """Return the features by the names of columns alone; None for all columns without a role."""
    from unshuffle.io import Table
    from unshuffle.io.designs.design_matrix import choose_features

    table = Table(tuple(names), dict.fromkeys(names), 0, source)  # type: ignore[arg-type]
    columns = choose_columns(options, table)
    if not columns["exclude"]:
        return columns["features"]
    label = options["label"] if options["label"] in names else None
    return choose_features(table, None, {"label": label, "bag": bag}, columns["exclude"])


def _find_ids(table: Table, design: Design, options: dict[str, Any]) -> dict[int, Any] | None:
    """Return the name of each row of the file, where a column is named that holds them."""
    rows = design.rows.tolist()
    names = list_ids(table, options, rows)
    return None if names is None else dict(zip(rows, names, strict=True))


def _find_linked(table: Table, truth: str, design: Design) -> np.ndarray:
    import numpy as np

    column: np.ndarray = table.columns[truth][design.rows]
    if column.dtype == object or not np.isfinite(column).all():
        raise InputError(
            f"{table.source}: the truth column {quote(truth)} holds text or misses values; "
            "name the column of linked labels"
        )
    return column
