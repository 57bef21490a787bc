"""From files to the data of a fit, as the options name them."""

from __future__ import annotations

import dataclasses
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from unshuffle.cli.link_rates import read_rates
from unshuffle.cli.options import choose_marks, choose_reading
from unshuffle.cli.reading import (
    list_ids,
    list_label_columns,
    list_origins,
    list_used,
    read_file,
    read_files,
    settle,
)
from unshuffle.errors import InputError, quote, shorten
from unshuffle.formatting import SHOWN_NAMES, count

if TYPE_CHECKING:
    import numpy as np

    from unshuffle.data.links import Links
    from unshuffle.formulas.columns import FormulaColumns
    from unshuffle.io import Coding, Design, Table
    from unshuffle.options import FitOptions
    from unshuffle.progress import Report
    from unshuffle.results.fit import Fit

# Columns beside features, label and bag.
_ASIDE = ("link_probability", "safe")


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(ABC):
    """Data as understood: where they came from, and which columns are label, bag and features."""

    source: str
    sha256: str
    label: str
    # The column of bags; None where all rows are one, or every file is.
    bag: str | None
    feature_names: Sequence[str]
    coding: Sequence[Coding]
    n_rows: int
    n_bags: int
    # Rows in the files; some may be left out.
    n_read: int
    notes: Sequence[str]
    base_levels: Mapping[str, str] = field(default_factory=dict)
    has_logs: bool = False
    # Whether the label is log10 of something.
    is_log10: bool = False
    # From which day each column of dates counts.
    dates: Mapping[str, str] = field(default_factory=dict)
    missing_codes: Sequence[str] = ()
    # The column that names the rows.
    id: str | None = None
    # Head and lines of the table of columns, for a report.
    columns: Sequence[Sequence[str]] = ()
    # What may have been forgotten, in a sentence.
    hint: str | None = None

    @abstractmethod
    def fit(self, asked: FitOptions, rng: np.random.Generator, report: Report) -> Fit:
        """Fit the rows where they are."""

    @abstractmethod
    def list_rows(self) -> dict[str, Any]:
        """Return what a report draws of the rows, as `write_report` calls it."""

    @abstractmethod
    def list_offsets(self, found: Fit) -> dict[str, dict[str, float]] | None:
        """Return the offset of each bag by its name, {} where offsets are improbable.

        None where the rows are not in memory.
        """

    @property
    def shown_label(self) -> str:
        """The name of what is fitted: the label, or its logarithm."""
        return f"log10 {self.label}" if self.has_logs else self.label

    @property
    def transformed_label(self) -> str | None:
        """The name of the transformed label; None where the label is fitted as it stands."""
        return self.shown_label if self.has_logs or self.is_log10 else None

    def describe_labels(self) -> str:
        """Say how many labels there are, where they do not stand beside the rows."""
        return ""

    def describe(self) -> list[str]:
        """Say in a few lines what was read and chosen."""
        names, d = self.feature_names, len(self.feature_names)
        shown = ", ".join(shorten(name, 30) for name in names[:12])
        more = f" and {d - 12} more" if d > 12 else ""
        bags = count(self.n_bags, "bag")
        files = "one bag" if self.n_bags == 1 else f"{bags} (files)"
        bag = files if self.bag is None else f"bag {quote(self.bag)} ({bags})"
        return [
            f"{self.source}: {count(self.n_rows, 'row')}, {self.describe_labels()}"
            f"label {quote(self.label)}, {bag}, {count(d, 'feature')}: {shown}{more}",
            *self.notes,
            *([] if self.hint is None else [self.hint]),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON says of the data."""
        return {
            "source": self.source,
            "label": self.label,
            "bag": self.bag,
            "rows_read": self.n_read,
            "rows_dropped": self.n_read - self.n_rows,
            "base_levels": dict(self.base_levels),
            "dates": dict(self.dates),
            "missing_codes": list(self.missing_codes),
            "id": self.id,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class InMemory(Dataset):
    """Data in memory: the design, and the linked labels if named."""

    design: Design
    truth: np.ndarray | None = None
    # The labels as they stand in the file, in the order of the design, where logarithms are fitted.
    given: np.ndarray | None = None
    # What is known of links, where labels stand beside their rows.
    links: Links | None = None
    # The name of each row of the file, where a column holds them.
    ids: dict[int, Any] | None = None
    # How a formula made the columns, where one was given.
    formula: FormulaColumns | None = None

    @classmethod
    def of(cls, design: Design, **facts: Any) -> InMemory:
        """Return the data of a design; ``facts`` are what the design does not tell."""
        import numpy as np

        groups = design.groups
        return cls(
            design=design,
            feature_names=design.feature_names,
            coding=design.coding,
            n_rows=len(design.X),
            n_bags=1 if groups is None else len(np.unique(groups.astype(str))),
            notes=design.notes,
            base_levels=design.base_levels,
            **facts,
        )

    @property
    def is_plain(self) -> bool:
        """Whether each row has one label beside it."""
        return self.design.apart is None and self.design.counts is None

    @property
    def transformed_label(self) -> str | None:
        is_transformed = self.formula is not None and self.formula.is_transformed
        return self.label if is_transformed else super().transformed_label

    @property
    def shown_label(self) -> str:
        return self.label if self.formula is not None else super().shown_label

    def fit(self, asked: FitOptions, rng: np.random.Generator, report: Report) -> Fit:
        found = self._fit(asked, rng, report)
        return dataclasses.replace(found, formula=self.formula)

    def _fit(self, asked: FitOptions, rng: np.random.Generator, report: Report) -> Fit:
        from unshuffle.io import join_design, name_bags
        from unshuffle.results.fit import fit_bags, fit_table, note_rows

        design = self.design
        names = design.feature_names
        sources = design.sources if self.formula is None else self.formula.sources
        if self.is_plain:
            return fit_table(
                design.X, design.y, design.groups, asked, rng, names, report,
                sources=sources, anchors=design.anchors, links=self.links,
            )  # fmt: skip
        if self.links is not None:
            raise click.UsageError(
                "--link-probability, --link-columns, --audit and --safe need one label beside "
                "each row; leave "
                "--weight and --separate out"
            )
        bags, bag_names = join_design(design), name_bags(design)
        found = fit_bags(bags, asked, rng, names, report, sources=sources, bag_names=bag_names)
        return note_rows(found, len(design.X)) if design.are_shares else found

    def list_rows(self) -> dict[str, Any]:
        from unshuffle.io import join_design, name_bags

        design, names = self.design, name_bags(self.design)
        if self.is_plain:
            return {"X": design.X, "y": design.y, "groups": design.groups, "bag_names": names}
        return {"bags": join_design(design), "bag_names": names}

    def list_offsets(self, found: Fit) -> dict[str, dict[str, float]]:
        from unshuffle.io import join_design, name_bags
        from unshuffle.results.pictures.bag_views import estimate_offsets, view_bags

        if found.effects is None or not found.effects.has_offsets:
            return {}
        names = name_bags(self.design)
        # Known pairs would be bags of their own; the canonical order of rows fixes every digit.
        bags = join_design(dataclasses.replace(self.design, anchors=None))
        offsets = estimate_offsets(found, view_bags(found, bags, names))
        return {
            str(name): {"estimate": each.estimate, "low": each.low, "high": each.high}
            for name, each in zip(names or [], offsets, strict=True)
        }

    def describe_labels(self) -> str:
        apart = self.design.apart
        if apart is None:
            return ""
        return f"{count(len(self.design.y), 'label' if apart.high is None else 'bin')}, "


def load_data(options: dict[str, Any], truth: str | None = None) -> InMemory:
    """Read the files that the options name, and choose label, features and bags."""
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
    used = list_used(options, label, options["anchor"], options["id"], *aside)
    table, bag = read_files(options["data"], options, used)
    table = settle([table], options)[0]
    is_log10 = options["log10"] or _is_logarithm(table, label)
    table = _add_labels(table, [label, truth], options)
    table = _mask_unlogged(table, [label, truth], options)
    if truth is not None:
        truth = table.find(truth, "truth column")
    columns = leave_out_ids(choose_columns(options, table), table, options["id"])
    columns = leave_out(columns, aside)
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
        **columns,
    )
    if same_individuals is False:
        apart = Apart(design.groups, design.counts, same_individuals=False)
        notes = (*design.notes, _describe_separate())
        design = dataclasses.replace(design, apart=apart, notes=notes)
    linked = None if truth is None else _find_linked(table, truth, design)
    given = design.y if options["log10"] else None
    if options["log10"]:
        design = dataclasses.replace(design, y=_take_logs(design.y))
        linked = None if linked is None else _take_logs(linked)
    name = table.find(label)
    taken = [name, truth, options["weight"], *options["features"]]
    hint = _point_out_bag(table, bag, taken)
    return InMemory.of(
        design,
        source=table.source,
        sha256=table.sha256,
        label=name,
        bag=bag,
        n_read=table.n_rows,
        truth=linked,
        hint=hint,
        has_logs=options["log10"],
        given=given,
        links=_find_links(table, design, options),
        ids=_find_ids(table, design, options),
        is_log10=is_log10,
        columns=_list_columns([table], options),
        **_describe_reading(options),
    )


def ask_for_label(paths: Sequence[str], options: dict[str, Any]) -> NoReturn:
    """Refuse a missing label, and name the columns of the first file."""
    from unshuffle.io import read_table
    from unshuffle.io.paths import expand_paths

    names = read_table(expand_paths(paths)[0], **choose_reading(options)).names
    shown = ", ".join(quote(name, 30) for name in names[:SHOWN_NAMES])
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    raise click.UsageError(
        f"which column is the label? name it with --label, one of: {shown}{more}; 'unshuffle "
        "describe' says more of them"
    )


def _load_formula(options: dict[str, Any], truth: str | None) -> InMemory:
    """Read one table, and make label and features as a formula says."""
    # What a formula says by itself, or cannot say.
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
    table, bag = read_files(options["data"], options, list_used(options, *aside))
    table = settle([table], options)[0]
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
        source=table.source,
        sha256=table.sha256,
        label=columns.label,
        bag=bag,
        n_read=table.n_rows,
        hint=_point_out_bag(table, bag, used),
        has_logs=columns.has_logs,
        links=_find_links(table, design, options),
        ids=_find_ids(table, design, options),
        formula=columns,
        **_describe_reading(options),
    )


def _load_two(options: dict[str, Any], truth: str | None) -> InMemory:
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

    rows, bag = read_files(options["rows"], options, list_used(options, options["id"]))
    labels, label_bag = read_files(options["labels"], options, list_label_columns(options))
    if options["bag"] is None and label_bag is not None and label_bag not in rows.columns:
        raise click.UsageError(
            "--labels names several files, each a bag; name the column of the rows that holds "
            "their names by --bag"
        )
    rows, labels = settle([rows, labels], options)
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
        **leave_out_ids(choose_columns(options, rows), rows, options["id"]),
    )
    given = design.y if has_raw_logs else None
    if has_raw_logs:
        design = dataclasses.replace(design, y=_take_logs(design.y))
    digest = sha256((rows.sha256 + labels.sha256).encode()).hexdigest()
    source = f"{rows.source} and {labels.source}"
    # Bags must be named in both files.
    alone = [name for name in rows.names if name not in labels.columns]
    used = [*alone, weight, *options["features"]]
    hint = _point_out_bag(rows, bag, used)
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
    """Compute labels that are expressions of columns."""
    from unshuffle.io.columns.label_column import add_label

    for name in names:
        if name is not None:
            table = add_label(table, name, options["missing"])
    return table


def read_labelled(options: dict[str, Any]) -> Table:
    """Read a file, with its label computed where that is an expression of columns."""
    return _add_labels(read_file(options["data"], options), [options["label"]], options)


def _is_logarithm(table: Table, label: str | None) -> bool:
    """Return whether a label is an expression whose value is a logarithm to base 10."""
    from unshuffle.io.columns.label_column import find_expression

    expression = None if label is None else find_expression(table, label)
    return expression is not None and expression.is_log10


def _list_columns(tables: Sequence[Table], options: dict[str, Any]) -> list[list[str]]:
    """Return the table of columns that a report shows, its head first."""
    if not options.get("report"):
        return []
    from unshuffle.io.description import describe_table, list_columns

    parts = [list_columns(describe_table(table)) for table in tables]
    # Long names of channels stand in one of two files perhaps.
    head = next((head for head, _ in parts if len(head) == max(len(h) for h, _ in parts)), [])
    lines = [line for _, own in parts for line in own]
    return [
        head,
        *([*line[:1], "", *line[1:]] if len(line) < len(head) else line for line in lines),
    ]


def _describe_reading(options: dict[str, Any]) -> dict[str, Any]:
    """Return what the options say of dates, missing codes and ids, as JSON has it."""
    return {
        "dates": list_origins(options),
        "missing_codes": tuple(options["na"]),
        "id": options["id"],
    }


def read_base(options: dict[str, Any]) -> dict[str, str]:
    """Return the base level of each category that has one by --base."""
    bases = {}
    for each in options["base"]:
        name, mark, level = each.partition("=")
        if not (name and mark and level):
            raise click.UsageError(f"--base {quote(each)}: write COL=LEVEL, such as sex=female")
        bases[name] = level
    return bases


def _point_out_bag(table: Table, bag: str | None, taken: Sequence[str | None]) -> str | None:
    """Return a note where no bag was named and a column, not taken otherwise, looks like one."""
    if bag is not None:
        return None
    from unshuffle.io.columns.forgotten_bags import find_forgotten_bag

    # Names that the user gave may be second names of columns.
    used = {table.aliases.get(name, name) for name in taken if name is not None}
    found = find_forgotten_bag(table, used)
    if found is None:
        return None
    return point_out(*found)


def point_out(name: str, n_levels: int) -> str:
    """Say that a column looks like bags where none was named."""
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


def _describe_separate() -> str:
    from unshuffle.data.pairing import Draws

    return Draws.sentence


def _mask_unlogged(table: Table, names: Sequence[str | None], options: dict[str, Any]) -> Table:
    """Refuse labels without a logarithm, or let them count as missing, where logarithms are wanted.

    The logarithms are taken of the design, so that the labels of the file are not lost.
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
    """Measure the noise from a file of labels of identical inputs."""
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
    column = _mask_unlogged(table, [name], options).columns[name]
    if column.dtype == object:
        raise InputError(f"{table.source}: column {quote(name)} holds text; make it numbers")
    values = column[column == column]
    return noise_from_calibration(_take_logs(values) if options["log10"] else values)


def choose_columns(options: dict[str, Any], table: Table) -> dict[str, Any]:
    """Return which columns are features, or not, in the words of `make_design`."""
    if options["features"] and options["exclude"]:
        raise click.UsageError("give --features or --exclude, not both")
    for name in (*options["features"], *options["exclude"]):
        _hint_at_commas(name, table)
    return {"features": options["features"] or None, "exclude": options["exclude"]}


def leave_out(columns: dict[str, Any], names: Sequence[str | None]) -> dict[str, Any]:
    """Return the choice of columns without these, where the features were not named."""
    if columns["features"] is not None:
        return columns
    known = [name for name in names if name is not None and name not in columns["exclude"]]
    return {**columns, "exclude": [*columns["exclude"], *known]}


def leave_out_ids(columns: dict[str, Any], table: Table, ids: str | None) -> dict[str, Any]:
    """Return the choice of columns without the column of ids."""
    return leave_out(columns, [None if ids is None else table.find(ids, "column of ids")])


def _hint_at_commas(name: str, table: Table) -> None:
    """Say how a column is named that was cut at its comma."""
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
    """Return the features of a table of which only the names are read; None for all others."""
    from unshuffle.io import Table
    from unshuffle.io.designs.design_matrix import choose_features

    table = Table(tuple(names), dict.fromkeys(names), 0, source)  # type: ignore[arg-type]
    columns = choose_columns(options, table)
    if not columns["exclude"]:
        return columns["features"]
    label = options["label"] if options["label"] in names else None
    return choose_features(table, None, {"label": label, "bag": bag}, columns["exclude"])


def _find_links(table: Table, design: Design, options: dict[str, Any]) -> Links | None:
    """Return what the options say of links; None where they say nothing but a share."""
    names = {"probability": options.get("link_probability"), "safe": options.get("safe")}
    audit, share = options.get("audit"), options.get("mislinked")
    explaining, is_by_block = options.get("link_columns") or (), isinstance(share, Path)
    if audit is None and not explaining and not any(names.values()) and not is_by_block:
        return None
    if audit is not None and share is not None:
        raise click.UsageError("give --mislinked or --audit, not both")
    from unshuffle.data.links import Links
    from unshuffle.options import ESTIMATE, check_mislinked

    if isinstance(share, Path):
        share = read_rates(share, design, options)
    else:
        check_mislinked(share)
    columns = {
        role: _read_shares(table, design, name, role == "safe")
        for role, name in names.items()
        if name is not None
    }
    if explaining:
        columns["columns"] = _read_numbers(table, design, explaining)
    # With match probabilities a share shifts them; without, it is an option of the fit.
    is_option = share == ESTIMATE or not ("probability" in columns or is_by_block)
    rate = None if is_option else share
    return Links(rate=rate, audit=audit, **columns)


def _read_numbers(table: Table, design: Design, names: Sequence[str]) -> np.ndarray:
    """Return columns of numbers, or name the one that holds text or a row without a number."""
    import numpy as np

    found = []
    for given in names:
        name = table.find(given, "column")
        column = table.columns[name][design.rows]
        if column.dtype == object:
            raise InputError(f"{table.source}: column {quote(name)} holds text; make it numbers")
        if not np.isfinite(column).all():
            row = int(design.rows[np.flatnonzero(~np.isfinite(column))[0]]) + 1
            raise InputError(
                f"{table.source}: column {quote(name)} has no number in row {row}: fill it in"
            )
        found.append(column)
    return np.column_stack(found)


def _find_ids(table: Table, design: Design, options: dict[str, Any]) -> dict[int, Any] | None:
    """Return the name of each row of the file, where a column is named that holds them."""
    rows = design.rows.tolist()
    names = list_ids(table, options, rows)
    return None if names is None else dict(zip(rows, names, strict=True))


def _read_shares(table: Table, design: Design, name: str, is_binary: bool) -> np.ndarray:
    """Return a column of numbers from 0 to 1, or of 0 and 1, or name the row that has another."""
    import numpy as np

    name = table.find(name, "column")
    column: np.ndarray = table.columns[name][design.rows]
    if is_binary and column.dtype == object:
        column = _read_truth(column)
    if column.dtype == object:
        raise InputError(f"{table.source}: column {quote(name)} holds text; make it numbers")
    fits = np.isin(column, (0, 1)) if is_binary else (column >= 0) & (column <= 1)
    if not fits.all():
        place = int(np.flatnonzero(~fits)[0])
        allowed = "1 for a link that is certainly right, else 0" if is_binary else "from 0 to 1"
        raise InputError(
            f"{table.source}: column {quote(name)} holds {column[place]:g} in row "
            f"{int(design.rows[place]) + 1}: give numbers {allowed}"
        )
    return column


def _read_truth(column: np.ndarray) -> np.ndarray:
    """Return 1 for true and 0 for false, as pandas and R write them; other text stays."""
    import numpy as np

    words = [str(value).strip().lower() for value in column]
    is_true = np.array([word == "true" for word in words], dtype=float)
    return is_true if set(words) <= {"true", "false"} else column


def _find_linked(table: Table, truth: str, design: Design) -> np.ndarray:
    import numpy as np

    column: np.ndarray = table.columns[truth][design.rows]
    if column.dtype == object or not np.isfinite(column).all():
        raise InputError(
            f"{table.source}: the truth column {quote(truth)} holds text or misses values; "
            "name the column of linked labels"
        )
    return column
