"""Data that are read in blocks: from options to a stream, and from a stream to a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unshuffle.cli.data import choose_columns, count
from unshuffle.cli.fitting import make_options
from unshuffle.errors import quote, shorten

if TYPE_CHECKING:
    from unshuffle.answers.fit import Fit
    from unshuffle.core.progress import Report
    from unshuffle.files.parquet_source import ParquetSource


@dataclass(frozen=True, eq=False)
class Stream:
    """Data that are read in blocks, and where they came from."""

    source: ParquetSource
    files: str
    sha256: str

    @property
    def label(self) -> str:
        """The column of labels."""
        return self.source.label

    @property
    def bag(self) -> str | None:
        """The column of bags; None where every file is one."""
        return self.source.bag

    def to_dict(self) -> dict[str, Any]:
        """Return what is said of the data in JSON."""
        return {
            "source": self.files,
            "label": self.label,
            "bag": self.bag,
            "rows_read": self.source.n,
            "rows_dropped": 0,
            "base_levels": {},
            "notes": self.describe()[1:],
        }

    def describe(self) -> list[str]:
        """Say in a few lines what is read and chosen."""
        source = self.source
        bags = count(source.n_bags, "bag")
        bag = f"bag {quote(source.bag)} ({bags})" if source.bag is not None else f"{bags} (files)"
        names = ", ".join(shorten(name, 30) for name in source.features[:12])
        more = f" and {source.d - 12} more" if source.d > 12 else ""
        return [
            f"{self.files}: {count(source.n, 'row')}, label {quote(source.label)}, {bag}, "
            f"{count(source.d, 'feature')}: {names}{more}",
            f"read in blocks from {count(len(source.groups), 'row group')}",
        ]


def load_stream(options: dict[str, Any]) -> Stream | None:
    """Return Parquet files as a stream where they are many rows for the likelihood, else None.

    What only tables in memory can (weights, categories, logarithms, dropping of rows) keeps them
    there.
    """
    names = ("rows", "labels", "weight", "categorical", "log10", "separate", "same_individuals")
    if any(options[name] for name in names) or options["missing"] != "error":
        return None
    if not options["data"] or "-" in options["data"] or options["label"] is None:
        return None
    from unshuffle.files.parquet_source import are_parquet, expand_paths, open_parquet

    paths = expand_paths(options["data"])
    if not are_parquet(paths):
        return None
    from unshuffle.methods import find_block_settings

    table = open_parquet(paths)
    if find_block_settings(make_options(options), table.n) is None:
        return None
    features = choose_columns(options)
    bag = options["bag"] if options["bag"] in table.columns or len(paths) == 1 else None
    chosen = features or [name for name in table.columns if name not in (options["label"], bag)]
    if not all(table.columns.get(name, True) for name in chosen):
        return None  # text becomes categories, in memory
    source = table.as_source(options["label"], features, bag, options["jobs"])
    files = paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths)} files)"
    return Stream(source, files, table.sha256)


def fit_stream(stream: Stream, options: dict[str, Any], report: Report) -> Fit:
    """Fit data that are read in blocks, as the options say."""
    from unshuffle.answers.fit import fit_source
    from unshuffle.core.options import make_rng
    from unshuffle.methods import find_block_settings

    asked = make_options(options)
    settings = find_block_settings(asked, stream.source.n)
    assert settings is not None  # or it would not be a stream
    rng, names = make_rng(options["seed"]), stream.source.features
    return fit_source(stream.source, asked, settings, rng, names, report)
