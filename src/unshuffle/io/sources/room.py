"""Checks that data fit into memory, before a fit that needs all of them there."""

from __future__ import annotations

import os
from pathlib import Path

from unshuffle.errors import InputError

# Copies of the data in a fit in memory: the table, its rows in canonical order and in standard
# units, and sorted values (`benchmarks/speed.py` prints the memory).
_COPIES = 4
_IN_BLOCKS = "use method 'auto', which reads blocks"


def check_room(n: int, n_columns: int, what: str, who: str, way_out: str = _IN_BLOCKS) -> None:
    """Refuse a fit in memory of more rows than there is room for; `who` needs them in memory."""
    room, needed = find_room(), 8 * _COPIES * n * n_columns
    if room is None or needed <= room:
        return
    raise InputError(
        f"{what}: {who} holds all {n} rows of {n_columns} columns in memory, about "
        f"{needed / 2**30:.1f} GB where {room / 2**30:.1f} GB are free: {way_out}, or fit a sample "
        "of the rows"
    )


def check_table_room(n_bytes: int, what: str, reason: str) -> None:
    """Refuse to read files as one table if there is no room for it."""
    room, needed = find_room(), _COPIES * n_bytes
    if room is None or needed <= room:
        return
    raise InputError(
        f"{what}: cannot be read in pieces ({reason}), and as one table takes about "
        f"{needed / 2**30:.1f} GB where {room / 2**30:.1f} GB are free: choose columns of numbers "
        "by --features, or write the data to Parquet"
    )


def find_room() -> int | None:
    """Return the free memory for this process in bytes; None if the system does not report it."""
    found = [_free_memory(), _left_in_group()]
    known = [each for each in found if each is not None]
    return min(known) if known else None


def _free_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # other systems have other names
        return None


def _left_in_group() -> int | None:
    """Return the memory left in the limit of a container; None without a limit."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = int((folder / "memory.max").read_text(encoding="ascii"))
        return limit - int((folder / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no group, or no limit ("max")
        return None
