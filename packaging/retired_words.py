"""List retired words: home-made words for things that have a name in statistics.

Run: python packaging/retired_words.py [--words | --clean] FILE_OR_FOLDER…

Each hit is printed as ``path:line: "word" -> replacement``. The exit code is 1 when there is any.
``--words`` prints the table instead. ``--clean`` reads ``CLEAN``, the files and folders that
have none: `make lint` does. Examples::

    python packaging/retired_words.py README.md CONTRIBUTING.md docs
    python packaging/retired_words.py src/unshuffle/solvers tests/solvers

How it reads:

- Text files only (``SUFFIXES``). Names that start with a dot and generated files
  (``GENERATED``) are left out.
- In Markdown and reStructuredText, code (fenced blocks and inline code) and link targets are left
  out: names of the public interface stay as they are.
- In other files everything is read, names too: ``held_bags`` and ``HeldBags`` both contain "held".

To permit a legitimate use, add one of these with its reason:

- a phrase to the word's ``allowed`` (a regular expression; permitted wherever it stands), or
- a line to ``ALLOWED_PATHS`` (path pattern, word, reason), for one word in some files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".py", ".md", ".rst", ".html", ".json", ".toml", ".sh", ".cu", ".txt"}
GENERATED = (
    "*/_build/*",
    "*/_samples/*",
    "*/generated/*",
    "*/auto_gallery/*",
    "*/__pycache__/*",
    "tests/*/golden/*",
)
PROSE = (".md", ".rst")
START = r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))"  # also inside snake_case and CamelCase


@dataclass(frozen=True)
class Word:
    """A retired word: the pattern that finds it, what to say instead, and where it is right.

    ``allowed`` are phrases that contain the word and are right everywhere. ``paths`` limits the
    check to some files (patterns relative to the root); without it all files are checked.
    """

    name: str
    pattern: str
    replacement: str
    allowed: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


READ_BY_USERS = ("README.md", "docs/*.md")

WORDS = (
    Word(
        "top",
        r"tops?",
        "posterior mode, local maximum",
        (
            r"top[- ]level",
            r"top (left|right|row|margin|of)",
            r"(upper|align(ed)?|padding|margin|border)[-_ ]top",
            r"(on|at the|from the|the|to the) top\b(?! of the posterior)",
            r"\btop\s*[:=]",
            r"[\"']top[\"']",
            r"top-(down|k)\b",
        ),
    ),
    Word(
        "peak",
        r"peaks?",
        "posterior mode",
        (r"peak (of )?memory", r"memory peak", r"peak[ _]?(rss|mb|bytes)"),
    ),
    Word("hill", r"hills?", "posterior mode", (r"hill[- ]climb",)),
    Word(
        "shapes",
        r"shapes",
        "within-bag likelihood (of the labels given the bag's rows)",
        (
            r"shapes of (the )?(arrays?|matrices|tensors|operands)",
            r"array shapes",
            r"noise shapes",
            r"got shapes",
        ),
    ),
    Word(
        "law",
        r"laws?",
        "distribution, mean function or property (test)",
        (r"laws? of large numbers", r"by law"),
    ),
    Word("worth", r"worth", "effective sample size; say how much more it gives"),
    Word(
        "trust",
        r"(dis|un)?trust(s|ed|ing)?",
        "likelihood power, tempering; rely on",
        (r"trusted publish", r"trust region"),
    ),
    Word(
        "thin",
        r"thin(ner|nest)?",
        "low effective sample size; narrow",
        (r"thin[- ]plate", r"is_thin", r"THIN_POSTERIOR"),  # names in model files
    ),
    Word("lessons", r"lessons?", "training points"),
    Word("teach", r"(un)?(teach(es|ing)?|taught)", "fit"),
    Word("judge", r"judg(e|es|ed|ing)", "evaluate (exactly), assess, compare"),
    Word("walkers", r"walkers?", "ensemble members, chains (differential evolution move)"),
    Word("rising", r"rising", "tempered SMC; increasing"),
    Word("ladder", r"ladders?", "replica exchange: its temperatures", (r"temperature ladders?",)),
    Word(
        "race",
        r"(race|races|racing|racers?|raced)",
        "screening, successive halving",
        (
            r"(data )?race conditions?",
            r"data races?",
            r"[\"']race[\"']",
            r"(sex|age)(,| and| or) race",
            r"race(,| and) sex",
        ),
    ),
    Word("give up", r"g(i|a)ve(s|n)? up|giving up", "are dropped, stop"),
    Word(
        "held",
        r"held",
        "kept in memory; kept",
        (r"held[- _]?out", r"with[- ]?held"),
    ),
    Word("pose", r"(pose|poses|posing)", "build, construct", (r"ill[- ]posed",)),
    Word(
        "home",
        r"homes?",
        "original bag",
        (
            r"home (folder|directory|page)",
            r"\bhome\(\)",
            r"/home/",
            r"[\"']HOME[\"']",
            r"_HOME\b",
            r"HOME_",
            r"XDG_\w+",
        ),
    ),
    Word(
        "pull",
        r"(pull|pulls|pulled|pulling)",
        "gradient; attract",
        (r"pull requests?", r"git pull", r"pull_request"),
    ),
    Word(
        "stretch",
        r"stretch(es|ed|ing)?",
        "derivative with respect to log σ; range",
        (r"(font|align|justify)-\w*stretch", r"stretch[\"';]"),
    ),
    Word("effective draws", r"effective draws", "effective sample size"),
    Word(
        "counts with power",
        r"counts? with (a )?power|how far it is believed|believed",
        "likelihood power",
    ),
    Word("uneven noise", r"uneven[ _](noise|spread)", "heteroscedastic noise"),
    Word(
        "cannot be separated",
        r"inseparable|cannot be separated",
        "collinear",
        (r"[\"']inseparable[\"']",),  # a key of the JSON
    ),
    Word("not even the sign", r"not even the sign", "undetermined"),
    Word(
        "the data identify",
        r"the data (do not )?identify",
        "identified, partly identified, not identified",
    ),
    Word("stays close", r"posterior stays close", "identified"),
    Word("nobody looked", r"nobody (looked|found out|has tried)", "not checked"),
    Word("places of the labels", r"places of (the )?labels", "PIT histogram, goodness of fit"),
    Word("whoever", r"whoever", "name the case: without groups, all rows form one bag"),
    Word("hang on", r"(hangs?|hung) on", "depends on"),
    Word("in the mean", r"in the mean(?! (function|square|label|row|reading))", "on average"),
    Word("with their own", r"is said\b|it is said|which is said", "is reported"),
    Word("at the border", r"dents?|basins?", "local minimum", (), READ_BY_USERS),
    Word(
        "weight",
        r"weights?",
        "coefficient (the columns'), importance weight (of draws)",
        (
            r"importance weights?",
            r"Akaike weights?",
            r"(row|sampling|survey|frequency|case|column of|analytic|Huber|draw) weights?",
            r"weights? (column|of (the )?(draws?|rows?|lines?|bags?|table|mixture|means?))",
            r"weights? \$",
            r"weighted",
            r"{term}`[^`]*`",
        ),
        READ_BY_USERS,
    ),
)

# Path pattern, word, reason.
ALLOWED_PATHS = (
    ("packaging/retired_words.py", "*", "the table itself"),
    ("tests/package/test_retired_words.py", "*", "its test"),
    ("benchmarks/results/*", "*", "records of earlier versions"),
    ("src/unshuffle/objectives/losses.py", "pull", "the public parameter of OrderInvariant"),
    ("src/unshuffle/cli/commands/simulate.py", "law", "the old name of --distribution"),
    ("tests/cli/test_cli_simulate.py", "law", "the old name of --distribution"),
    ("src/unshuffle/core/solution.py", "thin", "the public name Status.THIN_POSTERIOR"),
    ("src/unshuffle/core/uncertainty.py", "thin", "the public attribute Posterior.is_thin"),
    ("tests/objectives/test_gradients.py", "pull", "the public parameter of OrderInvariant"),
    (
        "src/unshuffle/experiments/*.py",
        "top",
        "an edge of a picture, a column 'top 5'",
    ),
    ("packaging/count_constants.py", "judge", "the name of a test"),
    ("packaging/count_constants.py", "held", "names of constants"),
    ("benchmarks/*.py", "peak", "peak memory"),
    ("src/unshuffle/design/__init__.py", "judge", "old names that still work"),
    ("tests/design/test_design.py", "judge", "old names that still work"),
    ("tests/methods/test_threads.py", "pull", "the public parameter of OrderInvariant"),
    ("tests/results/test_stats.py", "race", "a name in model files of version 0.1.0"),
    ("docs/reproduction.md", "weight", "the paper's w"),
    ("docs/paper.md", "weight", "the paper's w"),
    ("docs/reproduction.md", "top", "the paper's top five motifs"),
    ("docs/references.md", "law", "titles of papers"),
    ("src/unshuffle/results/storage.py", "*", "names in files of version 0.1.0"),
    ("tests/results/models_of_0_1_0/*", "*", "files of version 0.1.0"),
    ("LICENSE", "*", "not ours to word"),
)

# Files and folders without retired words, which `make lint` keeps so (``--clean``).
CLEAN = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs",
    "examples",
    "packaging",
    "src",
    "tests",
)


@dataclass(frozen=True)
class Hit:
    """A retired word where it stands."""

    path: str
    line: int
    found: str
    replacement: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: "{self.found}" -> {self.replacement}'


def find_files(given: list[str]) -> Iterator[Path]:
    """Yield the text files among the given files and folders."""
    for each in given:
        path = Path(each).resolve()
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from (p for p in sorted(path.rglob("*")) if p.is_file() and _is_read(p))
        else:
            raise FileNotFoundError(f"{each}: no such file or folder")


def _is_read(path: Path) -> bool:
    """Return whether a file found in a folder is text that someone wrote."""
    name = _relative(path)
    is_hidden = any(part.startswith(".") for part in Path(name).parts)
    is_generated = any(
        fnmatch(name, pattern) or fnmatch("/" + name, pattern) for pattern in GENERATED
    )
    return path.suffix in SUFFIXES and not is_hidden and not is_generated


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()


def find_hits(text: str, name: str) -> list[Hit]:
    """Return the retired words in a text whose path relative to the root is ``name``."""
    if name.endswith(PROSE):
        text = blank_code(text)
    found = []
    for word in WORDS:
        if word.paths and not any(fnmatch(name, pattern) for pattern in word.paths):
            continue
        if any(
            fnmatch(name, path) and which in ("*", word.name) for path, which, _ in ALLOWED_PATHS
        ):
            continue
        permitted = [m.span() for phrase in word.allowed for m in re.finditer(phrase, text, re.I)]
        for m in re.finditer(START + f"(?i:{word.pattern})(?![a-z])", text):
            if not any(start <= m.start() and m.end() <= end for start, end in permitted):
                line = text.count("\n", 0, m.start()) + 1
                found.append(Hit(name, line, m[0], word.replacement))
    return sorted(found, key=lambda hit: hit.line)


def blank_code(text: str) -> str:
    """Replace code and link targets in prose by blanks, and keep the line breaks."""
    for pattern in (
        r"^(`{3,}|~{3,}).*?^\1`*\s*$",
        r"<!--.*?-->",
        r"``[^`]+``|(?<!})`[^`\n]+`",
        r"(?<=\])\([^)\s]*\)",
        r"{(doc|ref|download|py:\w+|class|func|meth)}`[^`]*`",
        r"^\(.*\)=$",
        r"\$\$.*?\$\$|\$[^$\n]+\$",
    ):
        text = re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S | re.M)
    return text


def main(arguments: list[str]) -> int:
    if "--clean" in arguments:
        arguments = [str(ROOT / each) for each in CLEAN]
    if "--words" in arguments or not arguments:
        for word in WORDS:
            print(f"{word.name:<22} {word.replacement}")
        return 0
    hits = [
        hit
        for path in find_files(arguments)
        for hit in find_hits(path.read_text("utf-8"), _relative(path))
    ]
    for hit in hits:
        print(hit)
    print(f"{len(hits)} retired words", file=sys.stderr)
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
