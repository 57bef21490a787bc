"""Results as frames of pandas or polars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unshuffle.errors import InputError


def make_frame(
    columns: Mapping[str, Any],
    library: str | None = None,
    index: Sequence[str] | None = None,
    what: str = "to_frame",
) -> Any:
    """Return named columns as a frame of "polars", or of pandas; `index` names pandas' rows."""
    try:
        if library == "polars":
            import polars

            return polars.DataFrame(dict(columns))
        import pandas
    except ImportError as exc:
        name = library or "pandas"
        raise InputError(f"{what} needs the library {name}: pip install {name}") from exc
    return pandas.DataFrame(dict(columns), index=None if index is None else list(index))
