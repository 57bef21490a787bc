"""Data that are read in blocks: from options to a stream, and from a stream to a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli.data import choose_features, count
from unshuffle.cli.fitting import make_options
from unshuffle.errors import quote, shorten

if TYPE_CHECKING:
    from unshuffle.answers.fit import Fit
    from unshuffle.core.progress import Report
    from unshuffle.files.parquet_source import ParquetSource


# Options that need the whole table.
_IN_MEMORY = (
    "rows", "labels", "weight", "categorical", "log10", "separate", "same_individuals", "anchor",
    "mislinked", "save",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Stream:
    """Data that are read in blocks, and where they came from."""

    source: ParquetSource
    files: str
    sha256: str
    # The address of Dask's scheduler, "local", or None where blocks are read here.
    cluster: str | None = None

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
            f"read in blocks from {count(len(source.groups), 'row group')}"
            + (f" by Dask ({self.cluster})" if self.cluster else ""),
        ]


def load_stream(options: dict[str, Any]) -> Stream | None:
    """Return Parquet files as a stream where they are many rows for the likelihood, else None.

    What only tables in memory can (weights, categories, logarithms, dropping of rows, known links,
    keeping the model) keeps them there; where a cluster is asked for, that is refused.
    """
    for name in _IN_MEMORY:
        if options[name]:
            return _stay(options, f"--{name.replace('_', '-')} is given", "leave out one of them")
    if options["missing"] != "error":
        return _stay(options, "--missing drop is given", "drop rows beforehand")
    if not options["data"] or options["label"] is None:
        return None  # refused in other words
    from unshuffle.files.parquet_source import are_parquet, expand_paths, open_parquet

    paths = ["-"] if "-" in options["data"] else expand_paths(options["data"])
    if not are_parquet(paths):
        return _stay(options, f"{quote(paths[0])} is no Parquet file", "write the data to Parquet")
    from unshuffle.methods import BLOCKS_ABOVE, find_block_settings

    table = open_parquet(paths)
    asked = make_options(options)
    if find_block_settings(asked, BLOCKS_ABOVE + 1) is None:
        return _stay(options, "the method works in memory", "take --method auto and no penalty")
    if find_block_settings(asked, table.n) is None:
        return None  # as few rows as these are one block
    bag = options["bag"] if options["bag"] in table.columns or len(paths) == 1 else None
    features = choose_features(options, list(table.columns), paths[0], bag)
    chosen = features or [name for name in table.columns if name not in (options["label"], bag)]
    text = [name for name in chosen if not table.columns.get(name, True)]
    if text:  # which becomes categories, in memory
        return _stay(options, f"column {quote(text[0])} holds text", "leave it out by --features")
    source = table.as_source(options["label"], features, bag, options["jobs"])
    files = paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths)} files)"
    return Stream(source, files, table.sha256, options["dask"])


def _stay(options: dict[str, Any], why: str, way_out: str) -> Stream | None:
    """Leave data to what reads them into memory, unless a cluster is asked for."""
    if options["dask"]:
        raise click.UsageError(
            f"--dask is for many rows of numbers in Parquet files, but {why}: {way_out}, or leave "
            "out --dask"
        )
    return None


def fit_stream(stream: Stream, options: dict[str, Any], report: Report) -> Fit:
    """Fit data that are read in blocks, as the options say."""
    from unshuffle.answers.fit import fit_source
    from unshuffle.core.options import make_rng
    from unshuffle.methods import find_block_settings

    asked = make_options(options)
    settings = find_block_settings(asked, stream.source.n)
    assert settings is not None  # or it would not be a stream
    rng, names = make_rng(options["seed"]), stream.source.features
    if stream.cluster is None:
        return fit_source(stream.source, asked, settings, rng, names, report)
    from unshuffle.files.dask_cluster import connect
    from unshuffle.files.dask_source import spread_parquet

    report("starting Dask", 0.0)
    with connect(stream.cluster, asked.n_jobs):
        source = spread_parquet(stream.source)
        return fit_source(source, asked, settings, rng, names, report)
