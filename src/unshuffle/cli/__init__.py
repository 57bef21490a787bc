"""The command line: one library call per command.

`app` holds the table of commands and turns errors into exit codes, `options` what several
commands share, `console` where output goes; every command has a file of its own, whose imports of
the library wait until it runs, so that ``unshuffle --help`` answers at once.
"""

import atexit
import contextlib
import os
import signal
import sys
from typing import Any, NoReturn

# Seconds after which an interrupt that was not heard is raised again.
_PATIENCE = 1.0
# The exit code of an interrupt, in `app` too.
_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command of this process and leave with its exit code."""
    try:
        _listen()
        from unshuffle.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # Before the first command was found: nothing to clean up.
        code = _INTERRUPTED
    # From here on an interrupt could only cut the farewell short.
    _stop_listening()
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process without tidying up its memory, which takes longer than a small fit.

    After an interrupt threads may still be searching; all files are closed, so that there is
    nothing to wait for.
    """
    if code != _INTERRUPTED:
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # A reader that has gone was noticed before.
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _listen() -> None:
    """Raise KeyboardInterrupt on Ctrl-C, again and again until it ends the command.

    Once is not enough: some libraries swallow whatever is raised while they are imported.
    """

    def interrupt(number: int, frame: Any) -> NoReturn:
        if os.name == "posix":
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    if os.name == "posix":
        signal.signal(signal.SIGALRM, interrupt)


def _stop_listening() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
