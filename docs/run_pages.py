"""Run the code of the pages, and see that it prints what they show.

A page is a session in an empty folder: its ``python`` blocks share one namespace, its ``bash``
blocks hold commands (``unshuffle …``, ``head -5 FILE``), and a ``text`` block that follows at once
shows what was printed on stdout. Words must agree exactly and numbers as far as their digits are
meant (``tests/helpers/printed.py``). Where times are printed, or shares of answers that
compete, the line ``<!-- numbers not compared -->`` stands before the output; where it depends on
the machine, ``<!-- not compared -->``. Blocks of other kinds are not run.

Run: python docs/run_pages.py [--write] [PAGE…]     --write puts what is printed into the pages
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from sklearn import config_context  # noqa: E402

from printed import find_difference  # noqa: E402

README = ROOT / "README.md"
PAGES = (
    "index.md",
    "installation.md",
    "start.md",
    "reading-the-output.md",
    "posterior.md",
    "methods.md",
    "scikit-learn.md",
    "guides/*.md",
    "reference/*.md",
)
WORDS_ONLY, NOTHING = "<!-- numbers not compared -->", "<!-- not compared -->"
BLOCK = re.compile(
    r"^```(?P<kind>python|bash)\n(?P<code>.*?)^```\n"
    r"(?P<gap>\n(?:<!-- (?:numbers )?not compared -->\n)?)?(?:^```text\n(?P<shown>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Difference:
    """A block that does not print what its page shows."""

    page: str
    code: str
    shown: str
    printed: str
    first: str

    def __str__(self) -> str:
        where = f"{self.page}: {self.first}"
        return f"{where}\n{self.code}shows\n{self.shown}prints\n{self.printed}"


def find_pages() -> list[Path]:
    """List the pages of the site whose code is run."""
    return [page for pattern in PAGES for page in sorted(HERE.glob(pattern))]


def run_page(page: Path) -> tuple[str, list[Difference]]:
    """Run a page; return it as it should read, and what it shows otherwise now."""
    differences: list[Difference] = []
    names: dict[str, Any] = {"__name__": "__page__"}

    def renew(found: re.Match[str]) -> str:
        code, shown = found["code"], found["shown"]
        printed = run_python(code, names, page) if found["kind"] == "python" else run_shell(code)
        if shown is None:
            return found[0]
        gap = found["gap"] or ""
        first = find_difference(printed, shown, has_numbers=WORDS_ONLY not in gap)
        if not first or (NOTHING in gap and shown.strip()):
            return found[0]
        differences.append(Difference(page.name, code, shown, printed, first))
        start, end = (place - found.start() for place in found.span("shown"))
        return found[0][:start] + printed.rstrip("\n") + "\n" + found[0][end:]

    # A page may set options of scikit-learn.
    with empty_folder(), config_context():
        text = BLOCK.sub(renew, page.read_text(encoding="utf-8"))
    return text, differences


def run_python(code: str, names: dict[str, Any], page: Path) -> str:
    """Run a block of Python in the page's namespace; return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), names)
    return printed.getvalue()


def run_shell(code: str) -> str:
    """Run the commands of a block in this process; return what they printed on stdout."""
    from unshuffle.cli.app import run

    printed = io.StringIO()
    for line in code.replace("\\\n", " ").splitlines():
        name, *args = shlex.split(line, comments=True) or [""]
        if name == "unshuffle":
            messages = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(messages):
                status = run(args)
            if status not in (0, 3):
                raise RuntimeError(f"{line}\nended with {status}: {messages.getvalue()}")
        elif name == "head":
            with Path(args[1]).open(encoding="utf-8") as file:
                printed.writelines(islice(file, int(args[0][1:])))
        elif name:
            raise RuntimeError(f"{line}: only unshuffle and head can be run")
    return printed.getvalue()


@contextlib.contextmanager
def empty_folder() -> Iterator[None]:
    """Work in a folder that is gone afterwards."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def main(arguments: list[str]) -> int:
    is_writing = "--write" in arguments
    named = [Path(each).resolve() for each in arguments if each != "--write"]
    n_different = 0
    for page in named or [README, *find_pages()]:
        text, differences = run_page(page)
        n_different += len(differences)
        for each in differences:
            print(each)
        if is_writing:
            page.write_text(text, encoding="utf-8")
        print(f"{page.name}: {len(differences)} outputs differ", flush=True)
    return 0 if is_writing or not n_different else 1


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    sys.exit(main(sys.argv[1:]))
