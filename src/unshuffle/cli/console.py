"""Where output goes: results to stdout, messages and progress to stderr."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from unshuffle.errors import shorten

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Without a terminal there is no width to ask for, and what is piped should not change with it.
PIPED_WIDTH = 100
# Sentences may hold names from a file: control characters are escaped, and nothing is endless.
_LONGEST = 5000
_LONGEST_CELL = 100


def make_console(stream: TextIO) -> Console:
    """Return a console that takes text as it is, without colour where none is wanted."""
    from rich.console import Console

    is_terminal = stream.isatty()
    has_colour = is_terminal and not os.environ.get("NO_COLOR")
    return Console(
        file=stream,
        force_terminal=is_terminal,
        color_system="auto" if has_colour else None,
        width=None if is_terminal else PIPED_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )


def print_result(*parts: Any) -> None:
    """Print text and tables on stdout."""
    console = make_console(sys.stdout)
    for part in parts:
        if isinstance(part, str):
            # Unlike a table, a sentence can be wrapped by whoever reads the pipe.
            console.print(shorten(part, _LONGEST), soft_wrap=not console.is_terminal)
        else:
            console.print(part)


def print_json(content: Any) -> None:
    """Print exactly one JSON object on stdout; what is no number becomes null."""
    sys.stdout.write(json.dumps(as_json(content), indent=2, allow_nan=False) + "\n")


def as_json(content: Any) -> Any:
    """Turn arrays, NumPy numbers and numbers that are none into what JSON can hold."""
    if isinstance(content, dict):
        return {str(key): as_json(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [as_json(value) for value in content]
    if content is None or isinstance(content, bool | int | str):
        return content
    if isinstance(content, float):
        return float(content) if math.isfinite(content) else None
    # Only NumPy's scalars and arrays are left.
    return as_json(content.tolist())


def print_messages(lines: Iterable[str], quiet: bool = False) -> None:
    """Print messages on stderr, one line each, after the results that came before them."""
    if quiet:
        return
    # A result that cannot be written should be the only thing said.
    sys.stdout.flush()
    console = make_console(sys.stderr)
    for line in lines:
        console.print(shorten(line, _LONGEST), soft_wrap=True, style="dim")


def show_progress(text: str, quiet: bool = False) -> AbstractContextManager[Any]:
    """Show on stderr that work is going on, where stderr is a terminal."""
    console = make_console(sys.stderr)
    if quiet or not console.is_terminal:
        return nullcontext()
    return console.status(shorten(text))


def describe_effort(seconds: float) -> str:
    """Say how long something took, and how much memory the process needed at most."""
    peak = _find_peak()
    memory = "" if peak is None else f", at most {peak / 2**20:.0f} MB of memory"
    return f"{seconds:.1f} s{memory}"


def _find_peak() -> int | None:
    """Return the peak of this process's memory in bytes; None where nothing tells it."""
    try:
        # Not getrusage alone: there a process may begin with the peak of the one that started it.
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def reporter(status: Any) -> Callable[[str, float], None]:
    """Return what tells the status of `show_progress`, where there is one, how far work is."""

    def report(stage: str, share: float) -> None:
        if status is not None:
            status.update(f"{stage} … {share:.0%}")

    return report


def make_table(columns: Sequence[str], rows: Iterable[Sequence[str]], n_text: int = 1) -> Table:
    """Return a table whose first columns are text and whose others are numbers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for j, name in enumerate(columns):
        is_text = j < n_text
        table.add_column(
            Text(shorten(name)),
            justify="left" if is_text else "right",
            overflow="fold",
            no_wrap=not is_text,
        )
    for row in rows:
        table.add_row(*(Text(shorten(cell, _LONGEST_CELL)) for cell in row))
    return table
