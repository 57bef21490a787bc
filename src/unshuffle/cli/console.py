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

from unshuffle.cli.wording import speak
from unshuffle.errors import shorten

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Sentences may hold names from a file: control characters are escaped, and nothing is endless.
_LONGEST = 5000
# Between two columns of a table.
_GAP = 3


def make_console(stream: TextIO, least_width: int = 0) -> Console:
    """Return a console that takes text as it is, without colour where none is wanted."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise  # rich would end the process here, whatever is left to do

    is_terminal = stream.isatty()
    has_colour = is_terminal and not os.environ.get("NO_COLOR")
    console = Plain(
        file=stream,
        force_terminal=is_terminal,
        color_system="auto" if has_colour else None,
        width=None if is_terminal else _piped_width(),
        markup=False,
        emoji=False,
        highlight=False,
    )
    if console.width < least_width:
        console.width = least_width
    return console


def _has_columns() -> bool:
    """Whether COLUMNS says how wide a pipe is."""
    columns = os.environ.get("COLUMNS", "")
    # Narrower no table can be read.
    return columns.isdigit() and int(columns) >= 20


def _piped_width() -> int:
    """Return the width of tables in a pipe: COLUMNS where it is set, or a fixed one."""
    # Without a terminal and without COLUMNS there is no width to ask for.
    return int(os.environ["COLUMNS"]) if _has_columns() else 100


def count_fitting(table: Table, n_text: int = 1) -> int:
    """Return how many of a table's columns of numbers fit side by side; one always does."""
    console = make_console(sys.stdout)
    widths = [column.min_width or 0 for column in table.columns]
    room = console.width - sum(widths[:n_text]) - _GAP * (n_text - 1)
    used = accumulate(width + _GAP for width in widths[n_text:])
    return max(1, sum(total <= room for total in used))


@contextmanager
def _outlive_reader(stream: TextIO) -> Iterator[None]:
    """Go on in silence where the reader of a stream has gone, as in ``unshuffle fit … | head``.

    A report or a model may be left to write, and the exit code to be told.
    """
    try:
        yield
    except BrokenPipeError:
        give_up(stream)


def give_up(stream: TextIO) -> None:
    """Let what is still to be printed go nowhere: Python would try it once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def flush_results() -> None:
    """Hand over what was printed on stdout, if anybody is there to read it."""
    with _outlive_reader(sys.stdout):
        sys.stdout.flush()


def print_result(*parts: Any) -> None:
    """Print text and tables on stdout."""
    console = make_console(sys.stdout)
    with _outlive_reader(sys.stdout):
        for part in parts:
            if isinstance(part, str):
                # Without a width a sentence stays one line: the reader of the pipe can wrap it.
                is_free = not console.is_terminal and not _has_columns()
                console.print(shorten(speak(part), _LONGEST), soft_wrap=is_free)
            else:
                # A table wider than the screen is wrapped there; cut off, it would be useless.
                needed = part.__rich_measure__(console, console.options).minimum
                make_console(sys.stdout, needed).print(part)


def print_json(content: Any) -> None:
    """Print exactly one JSON object on stdout; what is no number becomes null."""
    with _outlive_reader(sys.stdout):
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
    flush_results()
    console = make_console(sys.stderr)
    with _outlive_reader(sys.stderr):
        for line in lines:
            console.print(shorten(speak(line), _LONGEST), soft_wrap=True, style="dim")


def show_progress(text: str, quiet: bool = False) -> AbstractContextManager[Any]:
    """Show on stderr how far work is, where stderr is a terminal; `reporter` tells it."""
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    from unshuffle.cli.progress import Display

    return Display(make_console(sys.stderr), text)


def describe_effort(seconds: float) -> str:
    """Say how long something took, and how much memory the process needed at most."""
    most = _find_most_memory()
    memory = "" if most is None else f", at most {most / 2**20:.0f} MB of memory"
    return f"{seconds:.1f} s{memory}"


def _find_most_memory() -> int | None:
    """Return the most memory of this process in bytes; None where the system does not count it."""
    try:
        # Not getrusage alone: there a process may begin with the count of the one that started it.
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
    """Return what tells the display of `show_progress`, where there is one, how far work is.

    With `verbose` every stage is a line on stderr as well, also without a terminal.
    """
    from unshuffle.progress import Lines, say_nothing

    if not verbose:
        return say_nothing if status is None else status.report
    lines = Lines(_write_line if status is None else lambda text: status.write(text.rstrip()))

    def report(stage: str, share: float) -> None:
        lines(stage, share)
        if status is not None:
            status.report(stage, share)

    return report


@contextmanager
def report_progress(
    text: str, quiet: bool = False, verbose: bool = False
) -> Iterator[Callable[[str, float], None]]:
    """Show progress, and yield what tells it; what is compiled meanwhile is told too."""
    with show_progress(text, quiet) as status:
        report = reporter(status, verbose)
        if status is None:
            yield report  # without numba, which takes a while to import
            return
        from unshuffle.progress import watch_compiling

        with watch_compiling(report):
            yield report


def _write_line(text: str) -> None:
    print_messages([text.rstrip()])


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
        # Names are folded to no less than this, and numbers never.
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
