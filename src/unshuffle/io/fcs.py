"""Reader of flow cytometry files, FCS 2.0, 3.0 and 3.1, by flowio (the extra ``fcs``)."""

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unshuffle.errors import InputError, import_extra, quote, shorten
from unshuffle.io.table import Table, make_table

# The channel that holds the time of acquisition, by the standard.
_TIME = "time"


def read_fcs(data: bytes, source: str, digest: str, *, allow_offset_error: bool = False) -> Table:
    """Read the events of an FCS file, one column per channel.

    A column has the short name of its channel ($PnN); the long name ($PnS) is an alias. Values are
    linear: gain, logarithmic amplification and time step are applied. The channel Time is set
    aside: it is a feature only if it is named. ``allow_offset_error`` accepts a data segment whose
    stated end is one byte too far.
    """
    flowio = import_extra("flowio", "fcs", "reading FCS files")
    notes: list[str] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            flow = flowio.FlowData(io.BytesIO(data), ignore_offset_error=allow_offset_error)
            events = flow.as_array()
    # Corrupt files raise many kinds of errors.
    except Exception as exc:
        raise InputError(_explain(exc, source)) from exc
    notes += [shorten(each.message, 200) for each in caught]
    names, aliases = _name_channels(flow.pnn_labels, flow.pns_labels, notes)
    _check_events(events, int(flow.event_count), names, source)
    notes += _scaling_notes(flow) + _missing_notes(events, names)
    columns = [np.ascontiguousarray(events[:, j]) for j in range(len(names))]
    table = make_table(names, columns, source, notes, digest)
    times = {name: "the time of acquisition" for name in names if name.lower() == _TIME}
    return replace(table, aliases=aliases, aside=times)


def _explain(exc: Exception, source: str) -> str:
    reason = str(exc)
    if "off by 1" in reason:
        return (
            f"{source}: the data segment ends one byte too far, as some instruments write it; "
            "allow the offset error to read it all the same, and check the events"
        )
    if type(exc).__name__ == "MultipleDataSetsError":
        return f"{source}: holds several data sets; export each to a file of its own"
    cut_off = "greater than file size" in reason or isinstance(exc, (EOFError, MemoryError))
    what = "is cut off" if cut_off else "is broken"
    detail = shorten(reason or type(exc).__name__, 100)
    return f"{source}: the FCS file {what} ({detail}); export it again"


def _name_channels(
    short: Sequence[str], long: Sequence[str], notes: list[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the names of channels, and the long names that are unique."""
    names = [name.strip() or f"channel {j}" for j, name in enumerate(short, start=1)]
    aliases: dict[str, str] = {}
    doubtful = set(names)
    for name, alias in zip(names, (each.strip() for each in long), strict=True):
        if alias in aliases:
            doubtful.add(alias)
            notes.append(f"several channels go by {quote(alias)}: use their short names")
        elif alias:
            aliases[alias] = name
    return names, {alias: name for alias, name in aliases.items() if alias not in doubtful}


def _check_events(
    events: NDArray[np.float64], n_events: int, names: Sequence[str], source: str
) -> None:
    if events.ndim != 2 or events.shape != (n_events, len(names)):
        raise InputError(
            f"{source}: the header promises {n_events} events of {len(names)} channels, the data "
            f"hold {events.size} numbers; the file is cut off or broken, export it again"
        )


def _scaling_notes(flow: Any) -> list[str]:
    keys = [key for key in flow.channels if flow.channels[key]["pne"][0] > 0]
    if not keys:
        return []
    shown = ", ".join(shorten(flow.channels[key]["pnn"], 20) for key in sorted(keys)[:6])
    return [f"logarithmic channels turned linear: {shown}"]


def _missing_notes(events: NDArray[np.float64], names: Sequence[str]) -> list[str]:
    counts = (~np.isfinite(events)).sum(axis=0)
    return [
        f"channel {quote(name)} holds {count} values that are no numbers"
        for name, count in zip(names, counts, strict=True)
        if count
    ]


def is_fcs(data: bytes) -> bool:
    """Return whether the bytes begin like an FCS file."""
    return re.match(rb"FCS\d\.\d", data) is not None
