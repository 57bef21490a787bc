"""Parquet files, by pyarrow (the extra ``parquet``)."""

from typing import Any

import numpy as np

from unshuffle.errors import InputError, import_extra, shorten
from unshuffle.files.arrow import as_floats
from unshuffle.files.table import Column, Table, make_table


def read_parquet(data: bytes, source: str, digest: str) -> Table:
    """Read a Parquet file held in memory."""
    pa = import_extra("pyarrow", "parquet", "reading Parquet files")
    parquet = import_extra("pyarrow.parquet", "parquet", "reading Parquet files")
    try:
        table = parquet.read_table(pa.BufferReader(data))
        columns = [_convert(table.column(j), pa) for j in range(table.num_columns)]
    except pa.ArrowCancelled as exc:
        # While it reads, pyarrow takes Ctrl-C for itself.
        raise KeyboardInterrupt from exc
    # The bytes are a stranger's: corrupt ones raise whatever the decoder meets first.
    except (pa.ArrowException, OSError, ValueError, MemoryError) as exc:
        raise InputError(
            f"{source}: the Parquet file is broken or cut off ({shorten(exc, 100)}); "
            "write or fetch it again"
        ) from exc
    return make_table([str(name) for name in table.column_names], columns, source, (), digest)


def _convert(column: Any, pa: Any) -> Column:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return as_floats(column.cast(pa.float64(), safe=False))
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    # Everything else (text, true and false, dates) is text; few different ones are shared.
    values = column.to_pylist()
    words: dict[str, str] = {}
    texts = [None if v is None else words.setdefault(str(v), str(v)) for v in values]
    return np.array(texts, dtype=object)
