"""Reading files of any format: the format is detected from the content."""

import gzip
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unshuffle.errors import InputError, quote, shorten
from unshuffle.io.columns.missing_codes import clear_table, read_codes
from unshuffle.io.excel import is_workbook, read_excel
from unshuffle.io.fcs import is_fcs, read_fcs
from unshuffle.io.parquet import read_parquet
from unshuffle.io.paths import describe_file_bags, find_partitions
from unshuffle.io.table import Table, keep_common, source_name, stack_tables
from unshuffle.io.text.delimited import read_delimited

FilePath = str | os.PathLike[str]

# Endings of binary formats.
_PARQUET, _CYTOMETRY = (".parquet", ".pq"), (".fcs", ".lmd")


def read_table(
    path: FilePath,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    allow_offset_error: bool = False,
    na: Sequence[str] = (),
    texts: Collection[str] = (),
) -> Table:
    """Read a table from a file: text (CSV, TSV, …), Parquet, FCS or Excel, gzipped or not.

    The format is detected from the content. ``"-"`` reads standard input. For text, ``delimiter``
    ("," or a name such as "tab"), ``decimal`` ("." or ","), ``thousands`` (".", ",", "'" or
    "space"), ``encoding`` and ``header`` are guessed unless given; guesses are in ``notes``. A
    column is refused if its 1.665 or 1,665 may be 1665 or a decimal number. ``allow_offset_error``
    is for FCS files whose data segment ends one byte too far. ``na`` are codes of missing values,
    for all columns ("999") or one ("age=999"). In text files the columns ``texts`` are read as
    text, such as ids with leading zeros.

    The file is read once, and ``sha256`` is the hash of the bytes that were parsed.
    """
    source = source_name(path)
    raw = _read_bytes(path, source)
    digest = hashlib.sha256(raw).hexdigest()
    data = _unpack(raw, source)
    if not data or data.isspace():
        raise InputError(f"{source}: the file is empty; it needs column names and rows")
    _check_ending(str(path), data, source)
    codes = read_codes(na)
    if data.startswith(b"PAR1"):
        table = read_parquet(data, source, digest)
    elif is_fcs(data):
        table = read_fcs(data, source, digest, allow_offset_error=allow_offset_error)
    elif is_workbook(data):
        table = read_excel(data, source, digest)
    else:
        refuse_json(data, source)
        return read_delimited(
            data, source, digest, delimiter=delimiter, decimal=decimal, thousands=thousands,
            encoding=encoding, header=header, codes=codes, texts=texts,
        )  # fmt: skip
    return clear_table(table, codes) if codes else table


def read_tables(
    paths: Sequence[FilePath],
    *,
    bag: str = "file",
    shares_bags: bool = False,
    used: Callable[[Sequence[Table]], Collection[str]] | None = None,
    **how: Any,
) -> Table:
    """Read several files of the same columns, each a bag named after its file.

    The column ``bag`` has the file name without ending, and without folder if names are unique.
    With ``shares_bags`` files that have this column are one table, and folders such as ``bag=3``
    name the bags. ``used`` returns the columns that all tables must have; others are left out
    unless all files have them. The other parameters are those of `read_table`.
    """
    if not paths:
        raise InputError("no files to read; name at least one")
    tables = [read_table(path, **how) for path in paths]
    has_bags = shares_bags and all(bag in table.columns for table in tables)
    if used is not None:
        tables = keep_common(tables, used(tables))
    if has_bags:
        return stack_tables(tables)
    folders = find_partitions([str(path) for path in paths], bag) if shares_bags else None
    table = stack_tables(tables, folders or check_stems(paths), bag)
    if shares_bags and folders is None:
        said = describe_file_bags(bag, tables[0].names)
        return replace(table, notes=(said, *table.notes))
    return table


def check_stems(paths: Sequence[FilePath]) -> list[str]:
    """Return the names of files as names of bags, with folders if names are not unique."""
    labels = [Path(path).stem for path in paths]
    if len(set(labels)) < len(labels):
        labels = [str(Path(path).with_suffix("")) for path in paths]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(
                f"two files are called {quote(Path(label).name)}; each must name a bag of its own"
            )
    return labels


def _read_bytes(path: FilePath, source: str) -> bytes:
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as exc:
        raise InputError(f"{source}: no such file; check the name and the folder") from exc
    except IsADirectoryError as exc:
        raise InputError(f"{source}: is a folder; name a file in it") from exc
    except PermissionError as exc:
        raise InputError(f"{source}: may not be read; ask for permission or copy it") from exc
    except (OSError, ValueError) as exc:  # names too long or with a zero byte, failing disks
        raise InputError(f"{source}: cannot be read ({shorten(exc, 100)})") from exc


def _unpack(raw: bytes, source: str) -> bytes:
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as exc:
        raise InputError(f"{source}: the gzip file is broken or cut off; fetch it again") from exc


def refuse_json(data: bytes, source: str) -> None:
    """Refuse JSON, also as lines of objects: it has no columns."""
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start.startswith((b"{", b"[")):
        return
    try:
        json.loads(start)
    except ValueError:
        try:
            json.loads(start.splitlines()[0])
        except ValueError:
            return
    raise InputError(
        f"{source}: is JSON, which is not read; write it as CSV or Parquet, for instance with "
        "pandas: read_json(…).to_csv(…)"
    )


def _check_ending(path: str, data: bytes, source: str) -> None:
    """Refuse a file whose ending names another format than its content."""
    ending = Path(path.removesuffix(".gz")).suffix.lower()
    if ending in _PARQUET and not data.startswith(b"PAR1"):
        raise InputError(
            f"{source}: named {ending} but not a Parquet file; if it is text, rename it to .csv"
        )
    if ending in _CYTOMETRY and not is_fcs(data):
        raise InputError(
            f"{source}: named {ending} but not an FCS file; if it is text, rename it to .csv"
        )
