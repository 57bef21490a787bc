"""The table of commands, and the one place where errors become exit codes."""

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
from unshuffle.cli.console import flush_results, give_up
from unshuffle.cli.wording import speak
from unshuffle.errors import InputError, shorten, suggest

# Name → where the command is. Its module is imported when it runs or when help is shown, so it
# must import neither numpy nor the library at the top (a test counts what help imports).
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
    """The reader of our output has gone; click would make an error of a BrokenPipeError."""


class LazyGroup(click.Group):
    """Commands that are imported when they are needed."""

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
        # Click hands back what the command returned, or the code it was left with.
        result = app.main(list(args), prog_name="unshuffle", standalone_mode=False, obj=tuple(args))
        flush_results()
        return result if isinstance(result, int) else OK
    except click.exceptions.NoArgsIsHelpError as exc:
        click.echo(exc.ctx.get_help() if exc.ctx else "", err=True)
        return WRONG
    except click.UsageError as exc:
        return _complain(f"{exc.format_message()}{_way_out(exc)}")
    except click.ClickException as exc:
        return _complain(exc.format_message())
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else OK if exc.code is None else FAILED
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted")
        return INTERRUPTED
    except MemoryError:
        return _complain("the memory does not suffice; use fewer rows or columns")
    except (BrokenPipeError, _ClosedPipeError):
        return _leave_pipe()
    except OSError as exc:
        return _explain_output(exc)
    except ValueError as exc:  # InputError, and what scikit-learn says of data
        if not isinstance(exc, InputError) and os.environ.get("UNSHUFFLE_TRACEBACK"):
            raise
        return _complain(str(exc))
    except Exception as exc:
        return _confess(exc)


def _open_streams() -> None:
    """Print to nowhere where a stream is closed, as by ``>&-``."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _accept_any_text() -> None:
    """Let no character of a column name break the output, whatever the terminal's encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _complain(message: str) -> int:
    # Long enough for every message of the library, short enough for a terminal.
    line = shorten(speak(" ".join(message.split())), 1000)
    click.echo(f"unshuffle: {line}", err=True)
    return WRONG


def _way_out(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "unshuffle"
    return f" (see '{path} --help')"


def _leave_pipe() -> int:
    """End quietly when the reader of our output has gone, as in ``unshuffle … | head``."""
    give_up(sys.stdout)
    return OK


def _explain_output(error: OSError) -> int:
    if error.errno == errno.ENOSPC:
        give_up(sys.stdout)  # the rest cannot be written either
        return _complain("standard output: no space is left; make room and run again")
    name = shorten(error.filename, 120) + ": " if error.filename else ""
    return _complain(f"{name}{error.strerror or error}; check the place and its permissions")


def _confess(error: Exception) -> int:
    """Admit a mistake of ours in one line; the traceback is there for the asking."""
    if os.environ.get("UNSHUFFLE_TRACEBACK"):
        raise error
    what = shorten(f"{type(error).__name__}: {error}", 300)
    click.echo(
        f"unshuffle: this is a mistake of unshuffle, not yours ({what}); "
        "run again with UNSHUFFLE_TRACEBACK=1 and report what it prints",
        err=True,
    )
    return FAILED
