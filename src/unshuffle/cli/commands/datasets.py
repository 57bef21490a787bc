"""``unshuffle datasets``: the data sets known by name."""

from __future__ import annotations

from typing import Any

import click

from unshuffle.cli import console
from unshuffle.cli.options import json_option

_EPILOG = """\b
Example:
  UNSHUFFLE_DATA=~/data unshuffle datasets"""


@click.command(epilog=_EPILOG)
@json_option
def datasets(**options: Any) -> None:
    """List the data sets known by name.

    The table has names, sizes, origins, and whether a data set is on this machine. Files are
    looked for in the folder named by UNSHUFFLE_DATA, then in the cache. Nothing is downloaded.
    """
    from unshuffle.datasets import list_datasets

    rows = list_datasets()
    if options["as_object"]:
        console.print_json({"datasets": [row._asdict() for row in rows]})
        return
    cells = [[row.name, row.where, row.origin, str(row.rows), str(row.features)] for row in rows]
    console.print_result(
        console.make_table(["name", "where", "origin", "rows", "features"], cells, n_text=3)
    )
