"""The choice between blocks and memory, and files opened as sources of blocks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.dataset import Dataset, InBlocks, InMemory, name_files
from unshuffle.cli.fitting import make_options
from unshuffle.cli.load_tables import choose_features, describe_forgotten_bag, load_data
from unshuffle.cli.options import choose_reading
from unshuffle.errors import quote
from unshuffle.formatting import count

if TYPE_CHECKING:
    from unshuffle.data.blocks.sources import Source
    from unshuffle.io import Design
    from unshuffle.io.sources.parquet_source import ParquetSource, ParquetTable
    from unshuffle.io.sources.table_source import ScratchTable


# Text and cytometry files of more bytes are read in pieces: as one table they would take three to
# four times as much memory.
MEMORY_BYTES = 128 * 2**20
# Options that need the whole table in memory.
_IN_MEMORY = (
    "formula", "rows", "labels", "weight", "categorical", "base", "id", "na", "dates", "separate",
    "same_individuals", "anchor", "mislinked", "link_probability",
    "link_columns", "audit", "safe",
)  # fmt: skip


def load_dataset(options: dict[str, Any]) -> Dataset:
    """Return the data that the options name: in blocks if they have many rows, else in memory.

    Weights, categories and known links need a table in memory. With --dask they are refused.
    """
    found = _load_blocks(options)
    if found is not None:
        return found
    data = load_data(options)
    if not options["dask"]:
        return data
    few = f"{count(data.n_rows, 'row')} are few: fitted here, without Dask"
    return replace(data, notes=(*data.notes, few))


def _load_blocks(options: dict[str, Any]) -> Dataset | None:
    """Return the data in blocks; None where they have to be read as a table."""
    for name in _IN_MEMORY:
        if options[name]:
            what = f"--{name.replace('_', '-')} is given"
            _check_cluster(options, what, "leave out one of them")
            _check_memory(options, what)
            return None
    if not options["data"] or options["label"] is None:
        return None  # refused by `load_data`
    from unshuffle.io.paths import are_parquet, expand_paths

    paths = ["-"] if "-" in options["data"] else expand_paths(options["data"])
    if are_parquet(paths):
        return _open_parquet(paths, options)
    if options["dask"]:
        _check_cluster(
            options, f"{quote(paths[0])} is no Parquet file", "write the data to Parquet"
        )
    if not _are_large(paths):
        return None
    from unshuffle.methods import find_block_strategy

    has_blocks = find_block_strategy(make_options(options), sys.maxsize) is not None
    return _read_to_scratch(paths, options) if has_blocks else None


def _check_memory(options: dict[str, Any], why: str) -> None:
    """Refuse to read large files into memory where there is no room for them."""
    from unshuffle.io.paths import are_parquet, expand_paths
    from unshuffle.io.sources.room import check_table_room

    named = options["data"]
    paths = [] if not named or "-" in named else expand_paths(named)
    if paths and _are_large(paths) and not are_parquet(paths):
        check_table_room(sum(Path(path).stat().st_size for path in paths), name_files(paths), why)


def _are_large(paths: list[str]) -> bool:
    """Whether the files exist and are larger than what is read into memory at once."""
    try:
        return sum(Path(path).stat().st_size for path in paths) > MEMORY_BYTES
    except OSError:
        return False  # refused when the file is read


def _open_parquet(paths: list[str], options: dict[str, Any]) -> Dataset | None:
    """Return Parquet files as data in blocks; None where they have to be read as a table."""
    from unshuffle.io.columns.expressions import is_expression
    from unshuffle.io.parquet import describe_left_out
    from unshuffle.io.paths import describe_file_bags
    from unshuffle.io.sources.parquet_source import open_parquet
    from unshuffle.methods import BLOCKS_ABOVE, find_block_strategy

    table = open_parquet(paths)
    is_computed = is_expression(options["label"], list(table.columns))
    for option, is_given, way_out in (
        ("an expression as --label", is_computed, "write its value to a column"),
        ("--log10", options["log10"], "write logarithms to the files"),
        ("--missing drop", options["missing"] != "error", "drop rows beforehand"),
    ):
        if is_given:
            _check_table(table, options, option, f"{option} is given", way_out, way_out)
            return None
    if find_block_strategy(make_options(options), table.n) is None:
        if table.n > BLOCKS_ABOVE:
            method, way_out = f"method '{options['method']}'", "take --method auto and no penalty"
            _check_table(table, options, method, "the method works in memory", way_out)
        return None
    asked = options["bag"]
    bag = asked if asked and (len(paths) == 1 or table.names_bags(asked)) else None
    features = choose_features(options, list(table.columns), paths[0], bag)
    chosen = features or [name for name in table.columns if name not in (options["label"], bag)]
    text = [name for name in chosen if not table.columns.get(name, True)]
    if text:  # categories are coded in memory
        what, way_out = f"column {quote(text[0])} holds text", "leave it out by --features"
        _check_table(table, options, f"{what}, which", what, way_out, f"{way_out} or --exclude")
        return None
    n_jobs = make_options(options, table.n).n_jobs
    with console.show_progress("reading …", options["quiet"]) as status:
        report = console.reporter(status)
        source = table.as_source(options["label"], features, bag, n_jobs, report)
        digest = table.find_sha256(report)
    cluster = options["dask"]
    note = f"read in blocks from {count(len(source.places), 'row group')}" + (
        f" by Dask ({cluster})" if cluster else ""
    )
    each = [] if asked is None or bag is not None else [describe_file_bags(asked, table.columns)]
    return InBlocks.of(
        source,
        source.features,
        paths,
        sha256=digest,
        label=source.label,
        bag=bag,
        n_read=source.n,
        notes=(*each, *describe_left_out(table.left_out), note),
        spread=None if not cluster else partial(_read_on_workers, source, cluster, options["jobs"]),
    )


def _check_table(
    table: ParquetTable, options: dict[str, Any], who: str, why: str, way_out: str, *room: str
) -> None:
    """Refuse Parquet files that must be read as a table: with --dask, or without room for them.

    `who` needs the table, and `room` is the way out where there is too little memory.
    """
    from unshuffle.io.sources.room import check_room

    if not options["dask"]:
        check_room(table.n, len(table.columns), name_files(table.paths), who, *room)
    _check_cluster(options, why, way_out)


def _read_to_scratch(paths: list[str], options: dict[str, Any]) -> Dataset | None:
    """Return text or cytometry files as data in blocks; None where they are read as a table."""
    from unshuffle.io.sources.room import check_room, check_table_room
    from unshuffle.io.sources.table_source import ColumnChoice, read_to_scratch
    from unshuffle.io.text.pieces import WholeFileError
    from unshuffle.methods import BLOCKS_ABOVE, find_block_strategy

    size = sum(Path(path).stat().st_size for path in paths)
    if options["exclude"]:  # the columns are known only once the files are read
        check_table_room(size, name_files(paths), "--exclude is given: name the rest by --features")
        return None
    features = options["features"] or None
    asked = ColumnChoice(
        options["label"], None if features is None else tuple(features), options["bag"],
        bool(options["log10"]), options["missing"] == "drop",
    )  # fmt: skip
    given = choose_reading(options)
    n_jobs = make_options(options, BLOCKS_ABOVE + 1).n_jobs
    with console.show_progress("reading …", options["quiet"]) as status:
        try:
            table = read_to_scratch(
                paths, asked, n_jobs=n_jobs, report=console.reporter(status), **given
            )
        except WholeFileError as exc:
            check_table_room(size, name_files(paths), str(exc))
            return None
    source, size = table.source, table.source.scratch.size
    facts: dict[str, Any] = {
        "sha256": table.sha256,
        "label": table.label,
        "bag": table.bag,
        "n_read": table.n_read,
        "has_logs": asked.log10,
        "is_log10": asked.log10,
        "hint": None if table.forgotten is None else describe_forgotten_bag(*table.forgotten),
    }
    notes = (*table.notes, f"read in pieces into a scratch file of {size / 2**20:.0f} MB")
    if find_block_strategy(make_options(options), source.n) is not None:
        return InBlocks.of(source, table.features, paths, notes=notes, **facts)
    check_room(source.n, source.d + 1, name_files(paths), f"method '{options['method']}'")
    return InMemory.of(_gather(table, notes), source=name_files(paths), **facts)


def _gather(table: ScratchTable, notes: Sequence[str]) -> Design:
    """Return the rows of a scratch file as a design in memory."""
    import numpy as np

    from unshuffle.io import Coding, Design

    source = table.source
    X, y, codes = source.gather()
    names = source.bag_names
    groups = codes if names is None else np.array(names, dtype=object)[codes]
    rows, coding = np.arange(source.n), tuple(map(Coding, table.features))
    return Design(
        X, y, None if source.n_bags == 1 else groups, table.features, tuple(notes), rows,
        coding=coding,
    )  # fmt: skip


def _check_cluster(options: dict[str, Any], why: str, way_out: str) -> None:
    """Refuse --dask for data that are read into memory."""
    if options["dask"]:
        raise click.UsageError(
            f"--dask is for many rows of numbers in Parquet files, but {why}: {way_out}, or leave "
            "out --dask"
        )


@contextmanager
def _read_on_workers(
    source: ParquetSource, address: str, n_workers: int | None
) -> Iterator[Source]:
    """Yield the rows as a source that the workers of a Dask cluster read."""
    from unshuffle.io.dask.cluster import connect
    from unshuffle.io.dask.source import spread_parquet

    with connect(address, n_workers):
        yield spread_parquet(source)
