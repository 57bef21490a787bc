"""The table of commands, and the mapping of errors to messages and exit codes."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from unshuffle import __version__
from unshuffle.cli.console import discard_output, flush_results
from unshuffle.cli.wording import rephrase
from unshuffle.errors import InputError, shorten, suggest

# Name → module and function. Help imports every module, so none imports numpy or the library at
# module level; a test counts what help imports.
COMMANDS = {
    "demo": "unshuffle.cli.commands.demo:demo",
    "describe": "unshuffle.cli.commands.describe:describe",
    "fit": "unshuffle.cli.commands.fit:fit",
    "compare": "unshuffle.cli.commands.compare:compare",
    "match": "unshuffle.cli.commands.match:match",
    "predict": "unshuffle.cli.commands.predict:predict",
    "plan": "unshuffle.cli.commands.plan:plan",
    "audit": "unshuffle.cli.commands.audit:audit",
    "simulate": "unshuffle.cli.commands.simulate:simulate",
    "datasets": "unshuffle.cli.commands.datasets:datasets",
    "reproduce": "unshuffle.experiments.command:reproduce",
    "completion": "unshuffle.cli.commands.completion:completion",
}

OK, FAILED, WRONG, DOUBTFUL, INTERRUPTED = 0, 1, 2, 3, 130


_EPILOG = """\b
Example:
  unshuffle demo
  unshuffle fit cells.csv --label fluorescence --bag pool --report fit.html

Exit codes: 0 done; 2 the input or the command is wrong; 3 with --strict when the fit is not
identified or did not converge, with --strict-model when the model does not fit, with audit --accept
when the risk is above it; 130 interrupted."""


class _ClosedPipeError(Exception):
    """The reader of the output has closed it; click would report a BrokenPipeError as an error."""


class LazyGroup(click.Group):
    """A click group that imports a command when it is used."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as exc:
            raise _ClosedPipeError from exc

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, target in COMMANDS.items() if _is_here(target)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            ctx.fail(f"no command is called '{shorten(args[0])}'; {suggest(args[0], names)}")
        return super().resolve_command(ctx, args)


def _is_here(target: str) -> bool:
    try:
        return find_spec(target.partition(":")[0]) is not None
    except ModuleNotFoundError:
        return False


@click.group(
    cls=LazyGroup,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="unshuffle %(version)s")
def app() -> None:
    """Linear regression when you do not know which label belongs to which row."""


def run(args: Sequence[str]) -> int:
    """Run one command and return its exit code; every error is one line on stderr."""
    _open_streams()
    _accept_any_text()
    try:
        # Click returns the value of the command, or its exit code.
        result = app.main(list(args), prog_name="unshuffle", standalone_mode=False, obj=tuple(args))
        flush_results()
        return result if isinstance(result, int) else OK
    except click.exceptions.NoArgsIsHelpError as exc:
        click.echo(exc.ctx.get_help() if exc.ctx else "", err=True)
        return WRONG
    except click.UsageError as exc:
        return _print_error(f"{exc.format_message()}{_name_help(exc)}")
    except click.ClickException as exc:
        return _print_error(exc.format_message())
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else OK if exc.code is None else FAILED
    except (KeyboardInterrupt, click.Abort):
        _print_error("interrupted")
        return INTERRUPTED
    except MemoryError:
        return _print_error("the memory does not suffice; use fewer rows or columns")
    except (BrokenPipeError, _ClosedPipeError):
        return _end_quietly()
    except OSError as exc:
        return _explain_output_error(exc)
    except ValueError as exc:  # InputError, and errors of scikit-learn about data
        if not isinstance(exc, InputError) and os.environ.get("UNSHUFFLE_TRACEBACK"):
            raise
        return _print_error(str(exc))
    except Exception as exc:
        return _report_bug(exc)


def _open_streams() -> None:
    """Open the null device in place of a closed stream, as after ``>&-``."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _accept_any_text() -> None:
    """Escape characters that the terminal's encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_error(message: str) -> int:
    # No message of the library is longer.
    line = shorten(rephrase(" ".join(message.split())), 1000)
    click.echo(f"unshuffle: {line}", err=True)
    return WRONG


def _name_help(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "unshuffle"
    return f" (see '{path} --help')"


def _end_quietly() -> int:
    """Return 0 when the reader of the output has closed it, as in ``unshuffle … | head``."""
    discard_output(sys.stdout)
    return OK


def _explain_output_error(error: OSError) -> int:
    if error.errno == errno.ENOSPC:
        discard_output(sys.stdout)
        return _print_error("standard output: no space is left; make room and run again")
    name = shorten(error.filename, 120) + ": " if error.filename else ""
    return _print_error(f"{name}{error.strerror or error}; check the place and its permissions")


def _report_bug(error: Exception) -> int:
    """Print an unexpected error in one line; UNSHUFFLE_TRACEBACK=1 shows the traceback."""
    if os.environ.get("UNSHUFFLE_TRACEBACK"):
        raise error
    what = shorten(f"{type(error).__name__}: {error}", 300)
    click.echo(
        f"unshuffle: this is a mistake of unshuffle, not yours ({what}); "
        "run again with UNSHUFFLE_TRACEBACK=1 and report what it prints",
        err=True,
    )
    return FAILED
