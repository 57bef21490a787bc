"""Tables and files that the tests of reading make."""

import io
import os

import numpy as np
import pytest

from unshuffle.io import Table

needs_files = pytest.mark.skipif(
    not os.environ.get("UNSHUFFLE_DATA"), reason="UNSHUFFLE_DATA names no folder of data files"
)


def table_of(**columns):
    arrays = {name: np.array(values) for name, values in columns.items()}
    arrays = {k: v.astype(float if v.dtype.kind in "if" else object) for k, v in arrays.items()}
    n_rows = len(next(iter(arrays.values())))
    return Table(tuple(arrays), arrays, n_rows, "table")


def fcs_bytes(events, names, long_names=None):
    flowio = pytest.importorskip("flowio")
    buffer = io.BytesIO()
    flat = np.asarray(events, dtype=float).ravel().tolist()
    flowio.create_fcs(buffer, flat, channel_names=names, opt_channel_names=long_names)
    return buffer.getvalue()


def parquet_bytes(**columns):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()
