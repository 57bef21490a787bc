"""Reader of Parquet files, by pyarrow (the extra ``parquet``)."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from unshuffle.errors import InputError, import_extra, quote, shorten
from unshuffle.io.table import Column, Table, make_table
from unshuffle.io.text.arrow import as_floats

# Names of the nameless index of a frame, which pandas and Dask write as a column.
_ROW_NUMBERS = re.compile(r"__index_level_\d+__|__null_dask_index__")


def is_index(name: str) -> bool:
    """Whether a column is the nameless index of a frame.

    >>> [is_index(name) for name in ("__index_level_0__", "index", "__null_dask_index__")]
    [True, False, True]
    """
    return _ROW_NUMBERS.fullmatch(name) is not None


def describe_left_out(names: Sequence[str]) -> tuple[str, ...]:
    """Return a note on index columns that were left out."""
    if not names:
        return ()
    listed = ", ".join(map(quote, names))
    return (f"left out {listed}: numbers of rows that pandas or Dask wrote, no data",)


def read_parquet(data: bytes, source: str, digest: str) -> Table:
    """Read a Parquet file in memory."""
    pa = import_extra("pyarrow", "parquet", "reading Parquet files")
    parquet = import_extra("pyarrow.parquet", "parquet", "reading Parquet files")
    try:
        table = parquet.read_table(pa.BufferReader(data))
        names = [str(name) for name in table.column_names]
        chosen = [j for j, name in enumerate(names) if not is_index(name)]
        columns = [_convert(table.column(j), pa) for j in chosen]
    except pa.ArrowCancelled as exc:
        # pyarrow catches Ctrl-C while it reads.
        raise KeyboardInterrupt from exc
    # Corrupt files raise many kinds of errors.
    except (pa.ArrowException, OSError, ValueError, MemoryError) as exc:
        raise InputError(
            f"{source}: the Parquet file is broken or cut off ({shorten(exc, 100)}); "
            "write or fetch it again"
        ) from exc
    notes = describe_left_out([name for name in names if is_index(name)])
    return make_table([names[j] for j in chosen], columns, source, notes, digest)


def _convert(column: Any, pa: Any) -> Column:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return as_floats(column.cast(pa.float64(), safe=False))
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    # Everything else (text, true and false, dates) becomes text; equal texts are shared.
    values = column.to_pylist()
    words: dict[str, str] = {}
    texts = [None if v is None else words.setdefault(str(v), str(v)) for v in values]
    return np.array(texts, dtype=object)
