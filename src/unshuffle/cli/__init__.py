"""The command line: one library call per command.

`app` holds the table of commands and turns errors into exit codes, `options` what several
commands share, `console` where output goes; every command has a file of its own, whose imports of
the library wait until it runs, so that ``unshuffle --help`` answers at once.
"""

import sys
from typing import NoReturn

# The exit code of an interrupt, in `app` too.
_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command of this process and leave with its exit code."""
    try:
        from unshuffle.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # Before the first command was found: nothing to clean up.
        code = _INTERRUPTED
    sys.exit(code)
