"""The version that a row carries: between releases, with a digest of the code that computes it.

The number of an unreleased version stays while its code changes, and rows of two versions of the
code must not be mixed. The digest of an experiment has two parts: every file of the library below
`experiments`, and inside `experiments` only the definitions that computing a row uses. Captions,
figures and verdicts are in the same files and may change without a new run.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import unshuffle
from unshuffle import __version__

if TYPE_CHECKING:
    from unshuffle.experiments.runner import Experiment

# Files that show results and do not compute them: their changes leave rows valid.
_SHOWING = (
    "cli/",
    "experiments/",
    "templates/",
    "results/pictures/drawing.py",
    "results/pictures/bag_views.py",
    "results/pictures/plots.py",
    "results/pictures/bag_plots.py",
    "results/pictures/report_pictures.py",
    "results/report.py",
    "results/cards.py",
)
_PACKAGE = "unshuffle.experiments."
_SOURCE = Path(unshuffle.__file__).parent
# Versions between releases change their code.
_IS_UNRELEASED = ".dev" in __version__
# The function that seeds a row of any experiment.
_SHARED = (f"{_PACKAGE}runner", "make_rng")


class _Module(NamedTuple):
    """The top-level definitions of a file, and the names it takes from other experiments."""

    lines: list[str]
    defined: dict[str, ast.stmt]
    imported: dict[str, tuple[str, str]]


def library_version() -> str:
    """Return the version; between releases with a digest of the library that fits.

    >>> library_version().startswith(__version__)
    True
    """
    return f"{__version__}+{_library_digest()[:8]}" if _IS_UNRELEASED else __version__


@cache
def row_version(experiment: Experiment) -> str:
    """Return the version that the rows of an experiment carry."""
    if not _IS_UNRELEASED:
        return __version__
    parts = [_library_digest(), repr(experiment.keys), repr(experiment.paired)]
    start = (experiment.run_one.__module__, experiment.run_one.__name__)
    for module, name in sorted(reached_from(start, _SHARED)):
        parts += [f"{module}.{name}", _text_of(module, name)]
    return f"{__version__}+{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:8]}"


def reached_from(*starts: tuple[str, str]) -> set[tuple[str, str]]:
    """Return the definitions of experiments, as (module, name), that these use, and they in turn.

    >>> start = ("unshuffle.experiments.paper.figure4", "run_one")
    >>> ("unshuffle.experiments.simulations", "simulate") in reached_from(start)
    True
    """
    found: set[tuple[str, str]] = set()
    todo = list(starts)
    while todo:
        place = module, name = todo.pop()
        file = _read(module)
        if place in found:
            continue
        if name in file.imported:
            todo.append(file.imported[name])
        elif name in file.defined:
            found.add(place)
            todo += [(module, other) for other in _names_in(file.defined[name])]
    return found


def _names_in(node: ast.AST) -> set[str]:
    """Return the names that a definition uses when it runs: annotations are only read."""
    names = {node.id} if isinstance(node, ast.Name) else set()
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns"):
            children = value if isinstance(value, list) else [value]
            names |= {n for c in children if isinstance(c, ast.AST) for n in _names_in(c)}
    return names


@cache
def _library_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(_SOURCE.rglob("*.py")):
        name = path.relative_to(_SOURCE).as_posix()
        if not name.startswith(_SHOWING):
            # A checkout may end its lines in its own way.
            text = path.read_bytes().replace(b"\r\n", b"\n")
            digest.update(name.encode() + text)
    return digest.hexdigest()


def _text_of(module: str, name: str) -> str:
    """Return a definition as it is written; how Python would print it differs by its version."""
    file = _read(module)
    node = file.defined[name]
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return "\n".join(file.lines[first - 1 : node.end_lineno])


@cache
def _read(module: str) -> _Module:
    text = Path(str(import_module(module).__file__)).read_text(encoding="utf-8")
    defined: dict[str, ast.stmt] = {}
    imported = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(_PACKAGE):
            for alias in node.names:
                imported[alias.asname or alias.name] = (str(node.module), alias.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            defined |= dict.fromkeys(names, node)
    return _Module(text.splitlines(), defined, imported)
