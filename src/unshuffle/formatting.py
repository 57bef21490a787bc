"""Numbers, names and tables as text, the same everywhere."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

# Smaller probabilities rest on too few draws to have meaningful digits.
LEAST_PROBABILITY = 0.001
# Most names in a sentence, and most rows of a printed table.
SHOWN_NAMES, SHOWN_ROWS = 8, 20


def show_number(value: float | None) -> str:
    """Return a number with four significant digits, or a dash for None and infinities.

    >>> show_number(1234.56), show_number(None), show_number(math.inf)
    ('1235', '–', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.4g}"


def show_probability(value: float | None) -> str:
    """Return a probability with three decimals, or "< 0.001".

    >>> show_probability(0.25), show_probability(1e-9), show_probability(None)
    ('0.250', '< 0.001', '–')
    """
    if value is None:
        return "–"
    return f"< {LEAST_PROBABILITY}" if value < LEAST_PROBABILITY else f"{value:.3f}"


def count(n: int, what: str) -> str:
    """Return a number with a noun, in the plural where needed.

    >>> count(1, "row"), count(2, "row")
    ('1 row', '2 rows')
    """
    return f"{n} {what}{'' if n == 1 else 's'}"


def split_numbers(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names with the numbers in them by size.

    >>> sorted(["pool10", "pool2", "10", "9"], key=split_numbers)
    ['9', '10', 'pool2', 'pool10']
    """
    parts = re.split(r"0*([0-9]+)", name)
    # Longer numbers are larger; every second part is one.
    return [(len(part) if k % 2 else 0, part) for k, part in enumerate(parts)]


def show_time(seconds: float) -> str:
    """Return a time in seconds, minutes or hours.

    >>> show_time(4.2), show_time(200), show_time(9000)
    ('4 s', '3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def align(lines: Sequence[Sequence[str]], n_left: int = 1) -> list[str]:
    """Write lines of cells as a table, the first columns to the left and the others to the right.

    >>> align([("name", "size"), ("a", "10")])
    ['name  size', 'a       10']
    """
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if j < n_left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]


def list_names(names: list[str], limit: int = SHOWN_NAMES) -> str:
    """Return names joined by commas, or the first ones with the number of the others.

    >>> list_names(["a", "b", "c"], 5), list_names(["a", "b", "c", "d"], 2)
    ('a, b, c', 'a, b and 2 more')
    """
    if len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} and {len(names) - limit} more"
