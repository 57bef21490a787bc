"""Where output goes: results to stdout, messages and progress to stderr."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TextIO

from unshuffle.cli.wording import rephrase
from unshuffle.errors import shorten

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Sentences may hold names from a file: control characters are escaped, and nothing is endless.
_LONGEST = 5000
# Between two columns of a table.
_GAP = 3


def make_console(stream: TextIO, least_width: int = 0) -> Console:
    """Return a rich console without markup, and without colour in pipes or under NO_COLOR."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise  # rich would end the process here, before reports are written

    is_terminal = stream.isatty()
    has_colour = is_terminal and not os.environ.get("NO_COLOR")
    console = Plain(
        file=stream,
        force_terminal=is_terminal,
        color_system="auto" if has_colour else None,
        width=None if is_terminal else _piped_width() or 100,
        markup=False,
        emoji=False,
        highlight=False,
    )
    if console.width < least_width:
        console.width = least_width
    return console


def _piped_width() -> int | None:
    """Return the width that COLUMNS gives; None if it is unset or too narrow for a table."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdigit() and int(columns) >= 20 else None


def count_fitting(table: Table) -> int:
    """Return how many columns fit beside the first one on the screen; at least one."""
    console = make_console(sys.stdout)
    first, *others = (column.min_width or 0 for column in table.columns)
    room = console.width - first
    used = accumulate(width + _GAP for width in others)
    return max(1, sum(total <= room for total in used))


@contextmanager
def _ignore_closed_pipe(stream: TextIO) -> Iterator[None]:
    """Continue when the reader of a stream has closed it, as in ``unshuffle fit … | head``.

    Reports and models are still written, and the exit code is returned.
    """
    try:
        yield
    except BrokenPipeError:
        discard_output(stream)


def discard_output(stream: TextIO) -> None:
    """Send further output to the null device: Python flushes the stream once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def flush_results() -> None:
    """Flush stdout, unless its reader has closed it."""
    with _ignore_closed_pipe(sys.stdout):
        sys.stdout.flush()


def print_result(*parts: Any) -> None:
    """Print text and tables on stdout."""
    console = make_console(sys.stdout)
    with _ignore_closed_pipe(sys.stdout):
        for part in parts:
            if isinstance(part, str):
                # Without a width a sentence stays one line, for the next program to wrap.
                is_free = not console.is_terminal and _piped_width() is None
                console.print(shorten(rephrase(part), _LONGEST), soft_wrap=is_free)
            else:
                # A table wider than the screen is printed in full: rich would cut cells off.
                needed = part.__rich_measure__(console, console.options).minimum
                make_console(sys.stdout, needed).print(part)


def print_json(content: Any) -> None:
    """Print one JSON object on stdout; NaN and infinities become null."""
    with _ignore_closed_pipe(sys.stdout):
        sys.stdout.write(json.dumps(as_json(content), indent=2, allow_nan=False) + "\n")


def as_json(content: Any) -> Any:
    """Return content as JSON types: arrays become lists, NaN and infinities None."""
    if isinstance(content, dict):
        return {str(key): as_json(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [as_json(value) for value in content]
    if content is None or isinstance(content, bool | int | str):
        return content
    if isinstance(content, float):
        return float(content) if math.isfinite(content) else None
    # What is left are NumPy's scalars and arrays.
    return as_json(content.tolist())


def print_messages(lines: Iterable[str], quiet: bool = False) -> None:
    """Print messages on stderr, one line each, after the results that came before them."""
    if quiet:
        return
    # Results first: if they cannot be written, that error is the only output.
    flush_results()
    console = make_console(sys.stderr)
    with _ignore_closed_pipe(sys.stderr):
        for line in lines:
            console.print(shorten(rephrase(line), _LONGEST), soft_wrap=True, style="dim")


def show_progress(text: str, quiet: bool = False) -> AbstractContextManager[Any]:
    """Return a progress display on stderr; an empty context where stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    from unshuffle.cli.progress import Display

    return Display(make_console(sys.stderr), text)


def describe_effort(seconds: float) -> str:
    """Return the time taken and the most memory that the process has used as text."""
    most = _find_largest_memory()
    memory = "" if most is None else f", at most {most / 2**20:.0f} MB of memory"
    return f"{seconds:.1f} s{memory}"


def _find_largest_memory() -> int | None:
    """Return the most memory this process has used, in bytes; None where it is not counted."""
    try:
        # getrusage may begin with the count of the parent process.
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def reporter(status: Any, verbose: bool = False) -> Callable[[str, float], None]:
    """Return the report function that drives the display of `show_progress`.

    With `verbose` every stage is also printed as a line on stderr.
    """
    from unshuffle.progress import Lines, say_nothing

    if not verbose:
        return say_nothing if status is None else status.report
    write = (lambda text: print_messages([text])) if status is None else status.write
    lines = Lines(lambda text: write(text.rstrip()))

    def report(stage: str, share: float) -> None:
        lines(stage, share)
        if status is not None:
            status.report(stage, share)

    return report


@contextmanager
def report_progress(text: str, quiet: bool = False) -> Iterator[Callable[[str, float], None]]:
    """Show progress, compilation included, and yield the function that reports it."""
    with show_progress(text, quiet) as status:
        report = reporter(status)
        if status is None:
            yield report  # importing numba for `watch_compiling` takes time
            return
        from unshuffle.progress import watch_compiling

        with watch_compiling(report):
            yield report


def make_table(columns: Sequence[str], rows: Iterable[Sequence[str]], n_text: int = 1) -> Table:
    """Return a table whose first columns are text and whose others are numbers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    lines = [[shorten(cell, 100) for cell in row] for row in rows]
    for j, name in enumerate(columns):
        is_text = j < n_text
        longest = max([len(shorten(name)), *(len(line[j]) for line in lines)])
        # Text is folded to 12 characters at least, numbers never.
        table.add_column(
            Text(shorten(name)),
            justify="left" if is_text else "right",
            overflow="fold",
            no_wrap=not is_text,
            min_width=min(longest, 12) if is_text else longest,
        )
    for line in lines:
        table.add_row(*map(Text, line))
    return table
