"""Reading tables from files, and designs of a fit from tables.

`read_table` returns a file as a `Table`. `make_design` returns X, y and groups of a table,
`make_design_from_two` those of a table of rows and a table of labels, and `join_design` the bags of
a design. Each format has a reader of its own; all of them return a `Table`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unshuffle.io.designs.design_matrix import Apart, Coding, Design, make_design
    from unshuffle.io.designs.joining import expand_design, join_design, name_bags
    from unshuffle.io.designs.label_tables import describe_label, is_histogram, is_mean_table
    from unshuffle.io.designs.new_rows import code_new_rows
    from unshuffle.io.designs.samples import Samples, choose_samples
    from unshuffle.io.designs.two_tables import make_design_from_two
    from unshuffle.io.reading import read_table, read_tables
    from unshuffle.io.table import Table

# Public name → its module, imported on first use: reading a file does not need the kernels.
_NAMES = {
    "Apart": "designs.design_matrix",
    "Coding": "designs.design_matrix",
    "Design": "designs.design_matrix",
    "Samples": "designs.samples",
    "Table": "table",
    "choose_samples": "designs.samples",
    "code_new_rows": "designs.new_rows",
    "describe_label": "designs.label_tables",
    "expand_design": "designs.joining",
    "is_histogram": "designs.label_tables",
    "is_mean_table": "designs.label_tables",
    "join_design": "designs.joining",
    "make_design": "designs.design_matrix",
    "make_design_from_two": "designs.two_tables",
    "name_bags": "designs.joining",
    "read_table": "reading",
    "read_tables": "reading",
}

__all__ = [
    "Apart",
    "Coding",
    "Design",
    "Samples",
    "Table",
    "choose_samples",
    "code_new_rows",
    "describe_label",
    "expand_design",
    "is_histogram",
    "is_mean_table",
    "join_design",
    "make_design",
    "make_design_from_two",
    "name_bags",
    "read_table",
    "read_tables",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
