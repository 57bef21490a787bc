"""Reading tables people already have, and choosing from them what a fit needs.

`read_table` turns a file into a `Table`, `make_design` turns a `Table` into X, y and groups. One
module per format; all of them build the same `Table`, so nothing downstream knows formats.
"""

from unshuffle.files.design_matrix import Design, make_design, make_design_from_two
from unshuffle.files.frame import table_from_frame
from unshuffle.files.reading import read_table, read_tables
from unshuffle.files.table import Table

__all__ = [
    "Design",
    "Table",
    "make_design",
    "make_design_from_two",
    "read_table",
    "read_tables",
    "table_from_frame",
]
