"""Data that are read in blocks: from options to a stream, and from a stream to a fit."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.data import choose_features, point_out
from unshuffle.cli.fitting import make_options
from unshuffle.cli.options import choose_reading
from unshuffle.errors import quote, shorten
from unshuffle.formatting import count

if TYPE_CHECKING:
    from unshuffle.data.blocks.sources import Source
    from unshuffle.progress import Report
    from unshuffle.results.fit import Fit


# Text and cytometry files of more bytes are read in pieces: as one table they would take three to
# four times as much memory.
MEMORY_BYTES = 128 * 2**20
# Options that need the whole table.
_IN_MEMORY = (
    "rows", "labels", "weight", "categorical", "separate", "same_individuals", "anchor",
    "mislinked", "link_probability", "audit", "safe",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Stream:
    """Data that are read in blocks, and where they came from."""

    source: Source
    label: str
    features: tuple[str, ...]
    # The column of bags; None where every file is one.
    bag: str | None
    files: str
    n_files: int
    sha256: str
    # Where blocks come from, and what else is to be said.
    notes: tuple[str, ...]
    n_read: int
    # The address of Dask's scheduler, "local", or None where blocks are read here.
    cluster: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what is said of the data in JSON."""
        return {
            "source": self.files,
            "label": self.label,
            "bag": self.bag,
            "rows_read": self.n_read,
            "rows_dropped": self.n_read - self.source.n,
            "base_levels": {},
            "notes": self.describe()[1:],
        }

    def describe(self) -> list[str]:
        """Say in a few lines what is read and chosen."""
        source = self.source
        bags = count(source.n_bags, "bag")
        each = "one bag" if self.n_files == 1 else f"{bags} (files)"
        bag = f"bag {quote(self.bag)} ({bags})" if self.bag is not None else each
        names = ", ".join(shorten(name, 30) for name in self.features[:12])
        more = f" and {source.d - 12} more" if source.d > 12 else ""
        return [
            f"{self.files}: {count(source.n, 'row')}, label {quote(self.label)}, {bag}, "
            f"{count(source.d, 'feature')}: {names}{more}",
            *self.notes,
        ]


def load_stream(options: dict[str, Any]) -> Stream | None:
    """Return files as a stream where they are many rows for the likelihood, else None.

    What only tables in memory can (weights, categories, known links) keeps them there; where a
    cluster is asked for, that is refused.
    """
    for name in _IN_MEMORY:
        if options[name]:
            return _stay(options, f"--{name.replace('_', '-')} is given", "leave out one of them")
    if not options["data"] or options["label"] is None:
        return None  # refused in other words
    from unshuffle.io.paths import are_parquet, expand_paths

    paths = ["-"] if "-" in options["data"] else expand_paths(options["data"])
    if are_parquet(paths):
        return _open_parquet(paths, options)
    if options["dask"]:
        _stay(options, f"{quote(paths[0])} is no Parquet file", "write the data to Parquet")
    if not _are_large(paths):
        return None
    from unshuffle.methods import find_block_settings

    has_blocks = find_block_settings(make_options(options), sys.maxsize) is not None
    return _lay_down(paths, options) if has_blocks else None


def _are_large(paths: list[str]) -> bool:
    """Whether files are there and more than are read into memory."""
    try:
        return sum(Path(path).stat().st_size for path in paths) > MEMORY_BYTES
    except OSError:
        return False  # refused in other words


def _open_parquet(paths: list[str], options: dict[str, Any]) -> Stream | None:
    from unshuffle.io.parquet import describe_left_out
    from unshuffle.io.parquet_source import open_parquet
    from unshuffle.io.paths import describe_file_bags
    from unshuffle.io.room import check_room
    from unshuffle.methods import BLOCKS_ABOVE, find_block_settings

    table = open_parquet(paths)
    for option, is_given, way_out in (
        ("--log10", options["log10"], "write logarithms to the files"),
        ("--missing drop", options["missing"] != "error", "drop rows beforehand"),
    ):
        if is_given:
            if not options["dask"]:
                check_room(table.n, len(table.columns), _name(paths), option, way_out)
            return _stay(options, f"{option} is given", way_out)
    method = f"method '{options['method']}'"
    if find_block_settings(make_options(options), table.n) is None:
        if table.n <= BLOCKS_ABOVE:
            return None  # as few rows as these are one block
        if not options["dask"]:
            check_room(table.n, len(table.columns), _name(paths), method)
        return _stay(options, "the method works in memory", "take --method auto and no penalty")
    asked = options["bag"]
    bag = asked if asked and (len(paths) == 1 or table.names_bags(asked)) else None
    features = choose_features(options, list(table.columns), paths[0], bag)
    chosen = features or [name for name in table.columns if name not in (options["label"], bag)]
    text = [name for name in chosen if not table.columns.get(name, True)]
    if text:  # which becomes categories, in memory
        what = f"column {quote(text[0])} holds text"
        if not options["dask"]:
            way_out = "leave it out by --features or --exclude"
            check_room(table.n, len(table.columns), _name(paths), f"{what}, which", way_out)
        return _stay(options, what, "leave it out by --features")
    n_jobs = make_options(options, table.n).n_jobs
    with console.show_progress("reading …", options["quiet"]) as status:
        report = console.reporter(status)
        source = table.as_source(options["label"], features, bag, n_jobs, report)
        digest = table.find_sha256(report)
    cluster = options["dask"]
    note = f"read in blocks from {count(len(source.groups), 'row group')}" + (
        f" by Dask ({cluster})" if cluster else ""
    )
    each = [] if asked is None or bag is not None else [describe_file_bags(asked, table.columns)]
    return Stream(
        source, source.label, source.features, bag, _name(paths), len(paths), digest,
        (*each, *describe_left_out(table.left_out), note), source.n, cluster,
    )  # fmt: skip


def _lay_down(paths: list[str], options: dict[str, Any]) -> Stream | None:
    """Return text or cytometry files as a stream; None where they are better read as a whole."""
    from unshuffle.io.room import check_table_room
    from unshuffle.io.table_source import Asked, lay_down
    from unshuffle.io.text.arrow_pieces import UnusualError
    from unshuffle.methods import BLOCKS_ABOVE

    size = sum(Path(path).stat().st_size for path in paths)
    if options["exclude"]:  # which columns there are is known only once they are read
        check_table_room(size, _name(paths), "--exclude is given: name the rest by --features")
        return None
    features = options["features"] or None
    asked = Asked(
        options["label"], None if features is None else tuple(features), options["bag"],
        bool(options["log10"]), options["missing"] == "drop",
    )  # fmt: skip
    given = choose_reading(options)
    n_jobs = make_options(options, BLOCKS_ABOVE + 1).n_jobs
    with console.show_progress("reading …", options["quiet"]) as status:
        try:
            laid = lay_down(paths, asked, n_jobs=n_jobs, report=console.reporter(status), **given)
        except UnusualError as exc:
            check_table_room(size, _name(paths), str(exc))
            return None
    laid_size = laid.source.scratch.size / 2**20
    note = f"read in pieces into a scratch file of {laid_size:.0f} MB"
    hint = [] if laid.forgotten is None else [point_out(*laid.forgotten)]
    return Stream(
        laid.source, laid.label, laid.features, laid.bag, _name(paths), len(paths), laid.sha256,
        (*laid.notes, note, *hint), laid.n_read,
    )  # fmt: skip


def _name(paths: list[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths)} files)"


def _stay(options: dict[str, Any], why: str, way_out: str) -> Stream | None:
    """Leave data to what reads them into memory, unless a cluster is asked for."""
    if options["dask"]:
        raise click.UsageError(
            f"--dask is for many rows of numbers in Parquet files, but {why}: {way_out}, or leave "
            "out --dask"
        )
    return None


def fit_stream(stream: Stream, options: dict[str, Any], report: Report) -> Fit:
    """Fit data that are read in blocks, as the options say; few of them in memory."""
    from unshuffle.io.parquet_source import ParquetSource
    from unshuffle.io.room import check_room
    from unshuffle.io.scratch_source import ScratchSource
    from unshuffle.methods import find_block_settings
    from unshuffle.options import make_rng
    from unshuffle.results.fit import fit_source, fit_table

    source = stream.source
    asked = make_options(options, source.n)
    settings = find_block_settings(asked, source.n)
    rng, names = make_rng(options["seed"]), stream.features
    if settings is None:
        assert isinstance(source, ScratchSource)  # few rows of Parquet are no stream
        check_room(source.n, source.d + 1, stream.files, f"method '{options['method']}'")
        X, y, codes = source.gather()
        return fit_table(X, y, codes, asked, rng, names, report)
    if stream.cluster is None:
        return fit_source(source, asked, settings, rng, names, report)
    from unshuffle.io.dask.cluster import connect
    from unshuffle.io.dask.source import spread_parquet

    report("starting Dask", 0.0)
    assert isinstance(source, ParquetSource)  # or a cluster would be refused
    with connect(stream.cluster, options["jobs"]):
        return fit_source(spread_parquet(source), asked, settings, rng, names, report)
