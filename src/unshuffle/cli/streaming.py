"""Data that are read in blocks, or into memory where they are few rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unshuffle.cli import console
from unshuffle.cli.data import Dataset, InMemory, choose_features, load_data, point_out
from unshuffle.cli.fitting import make_options
from unshuffle.cli.options import choose_reading
from unshuffle.errors import quote
from unshuffle.formatting import count

if TYPE_CHECKING:
    import numpy as np

    from unshuffle.data.blocks.sources import Source
    from unshuffle.io import Design
    from unshuffle.io.sources.parquet_source import ParquetSource
    from unshuffle.io.sources.table_source import Laid
    from unshuffle.options import FitOptions
    from unshuffle.progress import Report
    from unshuffle.results.fit import Fit


# Text and cytometry files of more bytes are read in pieces: as one table they would take three to
# four times as much memory.
MEMORY_BYTES = 128 * 2**20
# Options that need the whole table.
_IN_MEMORY = (
    "formula", "rows", "labels", "weight", "categorical", "base", "id", "na", "dates", "separate",
    "same_individuals", "anchor", "mislinked", "link_probability",
    "link_columns", "audit", "safe",
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class InBlocks(Dataset):
    """Many rows that are read in blocks; a report shows the fit without the rows."""

    rows: Source
    # Opens the rows for the workers of a cluster; None where blocks are read here.
    spread: Callable[[], AbstractContextManager[Source]] | None = None

    @classmethod
    def of(cls, rows: Source, features: Sequence[str], paths: list[str], **facts: Any) -> InBlocks:
        """Return the data of a source of blocks; ``facts`` are what the source does not tell."""
        from unshuffle.io import Coding

        return cls(
            rows=rows,
            source=_name(paths),
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


def load_dataset(options: dict[str, Any]) -> Dataset:
    """Read the files that the options name: in blocks where they are many rows, else into memory.

    What only tables in memory can (weights, categories, known links) keeps them there; where a
    cluster is asked for, that is refused.
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
    """Return files as data in blocks; None where they are better read as a table."""
    for name in _IN_MEMORY:
        if options[name]:
            what = f"--{name.replace('_', '-')} is given"
            _check_cluster(options, what, "leave out one of them")
            _check_memory(options, what)
            return None
    if not options["data"] or options["label"] is None:
        return None  # refused in other words
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
    return _lay_down(paths, options) if has_blocks else None


def _check_memory(options: dict[str, Any], why: str) -> None:
    """Refuse large files that something keeps in memory where there is no room."""
    from unshuffle.io.paths import are_parquet, expand_paths
    from unshuffle.io.sources.room import check_table_room

    named = options["data"]
    paths = [] if not named or "-" in named else expand_paths(named)
    if paths and _are_large(paths) and not are_parquet(paths):
        check_table_room(sum(Path(path).stat().st_size for path in paths), _name(paths), why)


def _are_large(paths: list[str]) -> bool:
    """Whether files are there and more than are read into memory."""
    try:
        return sum(Path(path).stat().st_size for path in paths) > MEMORY_BYTES
    except OSError:
        return False  # refused in other words


def _open_parquet(paths: list[str], options: dict[str, Any]) -> Dataset | None:
    from unshuffle.io.columns.expressions import is_expression
    from unshuffle.io.parquet import describe_left_out
    from unshuffle.io.paths import describe_file_bags
    from unshuffle.io.sources.parquet_source import open_parquet
    from unshuffle.io.sources.room import check_room
    from unshuffle.methods import BLOCKS_ABOVE, find_block_strategy

    table = open_parquet(paths)
    is_computed = is_expression(options["label"], list(table.columns))
    for option, is_given, way_out in (
        ("an expression as --label", is_computed, "write its value to a column"),
        ("--log10", options["log10"], "write logarithms to the files"),
        ("--missing drop", options["missing"] != "error", "drop rows beforehand"),
    ):
        if is_given:
            if not options["dask"]:
                check_room(table.n, len(table.columns), _name(paths), option, way_out)
            _check_cluster(options, f"{option} is given", way_out)
            return None
    method = f"method '{options['method']}'"
    if find_block_strategy(make_options(options), table.n) is None:
        if table.n <= BLOCKS_ABOVE:
            return None  # as few rows as these are one block
        if not options["dask"]:
            check_room(table.n, len(table.columns), _name(paths), method)
        _check_cluster(options, "the method works in memory", "take --method auto and no penalty")
        return None
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
        _check_cluster(options, what, "leave it out by --features")
        return None
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
    return InBlocks.of(
        source,
        source.features,
        paths,
        sha256=digest,
        label=source.label,
        bag=bag,
        n_read=source.n,
        notes=(*each, *describe_left_out(table.left_out), note),
        spread=None if not cluster else partial(_spread, source, cluster, options["jobs"]),
    )


def _lay_down(paths: list[str], options: dict[str, Any]) -> Dataset | None:
    """Return text or cytometry files as a stream; None where they are better read as a whole."""
    from unshuffle.io.sources.room import check_room, check_table_room
    from unshuffle.io.sources.table_source import Asked, lay_down
    from unshuffle.io.text.pieces import UnusualError
    from unshuffle.methods import BLOCKS_ABOVE, find_block_strategy

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
    size = laid.source.scratch.size
    facts: dict[str, Any] = {
        "sha256": laid.sha256,
        "label": laid.label,
        "bag": laid.bag,
        "n_read": laid.n_read,
        "has_logs": asked.log10,
        "is_log10": asked.log10,
        "hint": None if laid.forgotten is None else point_out(*laid.forgotten),
    }
    notes = (*laid.notes, f"read in pieces into a scratch file of {size / 2**20:.0f} MB")
    if find_block_strategy(make_options(options), laid.source.n) is not None:
        return InBlocks.of(laid.source, laid.features, paths, notes=notes, **facts)
    source = laid.source
    check_room(source.n, source.d + 1, _name(paths), f"method '{options['method']}'")
    return InMemory.of(_gather(laid, notes), source=_name(paths), **facts)


def _gather(laid: Laid, notes: Sequence[str]) -> Design:
    """Return the rows of a scratch file as a design in memory."""
    import numpy as np

    from unshuffle.io import Coding, Design

    source = laid.source
    X, y, codes = source.gather()
    names = source.bag_names
    groups = codes if names is None else np.array(names, dtype=object)[codes]
    rows, coding = np.arange(source.n), tuple(map(Coding, laid.features))
    return Design(
        X, y, None if source.n_bags == 1 else groups, laid.features, tuple(notes), {}, rows,
        coding=coding,
    )  # fmt: skip


def _name(paths: list[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]} ({len(paths)} files)"


def _check_cluster(options: dict[str, Any], why: str, way_out: str) -> None:
    """Refuse a cluster for data that are read into memory."""
    if options["dask"]:
        raise click.UsageError(
            f"--dask is for many rows of numbers in Parquet files, but {why}: {way_out}, or leave "
            "out --dask"
        )


@contextmanager
def _spread(source: ParquetSource, address: str, n_workers: int | None) -> Iterator[Source]:
    """Let the workers of a cluster of Dask read the rows."""
    from unshuffle.io.dask.cluster import connect
    from unshuffle.io.dask.source import spread_parquet

    with connect(address, n_workers):
        yield spread_parquet(source)
