"""The command line: one library call per command.

`app` has the table of commands and maps errors to exit codes. `options` has shared options,
`dataset`, `load_tables` and `load_blocks` the data, `console` the output. Each command in
`commands` imports the library when it runs, so ``unshuffle --help`` is fast.
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
