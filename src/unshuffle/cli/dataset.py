"""The data of a command: rows in memory or in blocks, and the facts that output needs."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from unshuffle.errors import quote, shorten
from unshuffle.formatting import count, list_names

if TYPE_CHECKING:
    import numpy as np

    from unshuffle.data.blocks.sources import Source
    from unshuffle.data.links import Links
    from unshuffle.formulas.columns import FormulaColumns
    from unshuffle.io import Coding, Design
    from unshuffle.options import FitOptions
    from unshuffle.progress import Report
    from unshuffle.results.fit import Fit


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(ABC):
    """The data of a command: their source, the roles of columns, and how to fit them."""

    source: str
    sha256: str
    label: str
    # The column of bags; None where all rows are one bag, or each file is a bag.
    bag: str | None
    feature_names: Sequence[str]
    coding: Sequence[Coding]
    n_rows: int
    n_bags: int
    # Rows in the files, before rows with missing values are dropped.
    n_read: int
    notes: Sequence[str]
    has_logs: bool = False
    # Whether the label is log10 of something.
    is_log10: bool = False
    # The first day of each column of dates.
    dates: Mapping[str, str] = field(default_factory=dict)
    missing_codes: Sequence[str] = ()
    # The column that names the rows.
    id: str | None = None
    # Header and lines of the report's table of columns.
    columns: Sequence[Sequence[str]] = ()
    # A sentence on a column that looks like bags where none was named.
    hint: str | None = None

    @abstractmethod
    def fit(self, asked: FitOptions, rng: np.random.Generator, report: Report) -> Fit:
        """Fit the model to these data."""

    @abstractmethod
    def list_rows(self) -> dict[str, Any]:
        """Return the arguments of `write_report` that hold the rows; {} for data in blocks."""

    @abstractmethod
    def list_offsets(self, found: Fit) -> dict[str, dict[str, float]] | None:
        """Return the offset of each bag by name; {} without offsets, None for data in blocks."""

    @property
    def base_levels(self) -> dict[str, str]:
        """The base level of each categorical column."""
        return {each.column: each.levels[0] for each in self.coding if each.levels}

    @property
    def shown_label(self) -> str:
        """The name of what is fitted: the label, or its logarithm."""
        return f"log10 {self.label}" if self.has_logs else self.label

    @property
    def transformed_label(self) -> str | None:
        """The name of the transformed label; None without a transformation."""
        return self.shown_label if self.has_logs or self.is_log10 else None

    def describe_labels(self) -> str:
        """Return the number of labels as text where labels are in a table of their own."""
        return ""

    def describe(self) -> list[str]:
        """Return messages on the source, the roles of columns, and notes."""
        bags = count(self.n_bags, "bag")
        files = "one bag" if self.n_bags == 1 else f"{bags} (files)"
        bag = files if self.bag is None else f"bag {quote(self.bag)} ({bags})"
        return [
            f"{self.source}: {count(self.n_rows, 'row')}, {self.describe_labels()}"
            f"label {quote(self.label)}, {bag}, {list_features(self.feature_names)}",
            *self.notes,
            *([] if self.hint is None else [self.hint]),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the data's part of the JSON output."""
        return {
            "source": self.source,
            "label": self.label,
            "bag": self.bag,
            "rows_read": self.n_read,
            "rows_dropped": self.n_read - self.n_rows,
            "base_levels": self.base_levels,
            "dates": dict(self.dates),
            "missing_codes": list(self.missing_codes),
            "id": self.id,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class InMemory(Dataset):
    """Data in memory: a design, with what is known of linked labels."""

    design: Design
    truth: np.ndarray | None = None
    # The labels before logarithms are taken, in the order of the design.
    given: np.ndarray | None = None
    # What is known of links between rows and the labels beside them.
    links: Links | None = None
    # The name of each row of the file, where a column holds them.
    ids: dict[int, Any] | None = None
    # How a formula made the columns.
    formula: FormulaColumns | None = None

    @classmethod
    def of(cls, design: Design, **facts: Any) -> InMemory:
        """Return the dataset of a design; ``facts`` are the other fields."""
        import numpy as np

        groups = design.groups
        return cls(
            design=design,
            feature_names=design.feature_names,
            coding=design.coding,
            n_rows=len(design.X),
            n_bags=1 if groups is None else len(np.unique(groups.astype(str))),
            notes=design.notes,
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
        from unshuffle.io import join_design, name_bags
        from unshuffle.results.fit import fit_bags, fit_table, note_rows

        design = self.design
        names = design.feature_names
        sources = design.sources if self.formula is None else self.formula.sources
        if self.is_plain:
            found = fit_table(
                design.X, design.y, design.groups, asked, rng, names, report,
                sources=sources, anchors=design.anchors, links=self.links,
            )  # fmt: skip
            return dataclasses.replace(found, formula=self.formula)
        if self.links is not None:
            raise click.UsageError(
                "--link-probability, --link-columns, --audit and --safe need one label beside "
                "each row; leave --weight and --separate out"
            )
        bags, bag_names = join_design(design), name_bags(design)
        found = fit_bags(bags, asked, rng, names, report, sources=sources, bag_names=bag_names)
        found = note_rows(found, len(design.X)) if design.are_shares else found
        return dataclasses.replace(found, formula=self.formula)

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


@dataclass(frozen=True, eq=False, kw_only=True)
class InBlocks(Dataset):
    """Data read in blocks; a report shows the fit without the rows."""

    rows: Source
    # Opens the rows for the workers of a cluster; None where blocks are read here.
    spread: Callable[[], AbstractContextManager[Source]] | None = None

    @classmethod
    def of(cls, rows: Source, features: Sequence[str], paths: list[str], **facts: Any) -> InBlocks:
        """Return the dataset of a source of blocks; ``facts`` are the other fields."""
        from unshuffle.io import Coding

        return cls(
            rows=rows,
            source=name_files(paths),
            feature_names=features,
            coding=tuple(map(Coding, features)),
            n_rows=rows.n,
            n_bags=rows.n_bags,
            **facts,
        )

    def fit(self, asked: FitOptions, rng: np.random.Generator, report: Report) -> Fit:
        from unshuffle.methods import find_block_strategy
        from unshuffle.results.fit import fit_source

        settings = find_block_strategy(asked, self.n_rows)
        assert settings is not None  # or the rows would be in memory
        if self.spread is None:
            return fit_source(self.rows, asked, settings, rng, self.feature_names, report)
        report("starting Dask", 0.0)
        with self.spread() as rows:
            return fit_source(rows, asked, settings, rng, self.feature_names, report)

    def list_rows(self) -> dict[str, Any]:
        return {}

    def list_offsets(self, found: Fit) -> None:
        return None


def list_features(names: Sequence[str]) -> str:
    """Return the number of features and the first names, as messages show them."""
    shown = list_names([shorten(name, 30) for name in names], 12)
    return f"{count(len(names), 'feature')}: {shown}"


def name_files(paths: Sequence[str]) -> str:
    """Return the name of one file, or of the first and last of several."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths)} files)"
