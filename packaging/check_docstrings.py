"""Check that docstrings of the public interface are complete, by the rules of numpydoc.

Run: python packaging/check_docstrings.py [NAME…]

Public are the names of `unshuffle` and `unshuffle.design`, and the public methods and properties
that their classes define. Methods that a base class declares (`solve` of a method, `atoms` of a
noise) are documented there. Classes that results hold (`IN_RESULTS`) are checked
without their methods. Beyond numpydoc's rules, a function whose body raises an error has a section
Raises, and the fields of a dataclass stand in Parameters or Attributes. The exit code is 1
where anything is missing.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

from numpydoc.validate import Validator, validate

import unshuffle
from unshuffle import design

# https://numpydoc.readthedocs.io/en/latest/validation.html
RULES = {
    "GL03", "GL06", "GL07", "GL08", "GL09", "GL10", "SS01", "SS02", "SS03", "SS04", "SS05", "SS06",
    "PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR07", "PR08", "PR09", "PR10", "RT01", "RT02",
    "RT03", "RT04", "RT05", "YD01", "EX01",
}  # fmt: skip
# A property is a noun: "The estimated coefficients.". Its examples are those of its class.
OF_PROPERTIES = {"GL03", "GL08", "SS01", "SS02", "SS03", "SS06"}
# Classes that results hold, which have pages but no public names.
IN_RESULTS = (
    "unshuffle.core.solution.BagEffects",
    "unshuffle.core.solution.Candidate",
    "unshuffle.core.solution.Certificate",
    "unshuffle.core.stats.Stats",
    "unshuffle.results.summary.SummaryRow",
    "unshuffle.simulate.ShuffledData",
    "unshuffle.comparison.Comparison",
    "unshuffle.methods.Choice",
    "unshuffle.registry.Method",
    "unshuffle.auditing.exposure.Exposure",
    "unshuffle.auditing.findings.ExposedRow",
)
# Constants explain themselves by their values.
CONSTANTS = ("METHODS",)


def find_names() -> Iterator[str]:
    """Yield the full names of all public objects."""
    for name, module in unshuffle._NAMES.items():
        if name not in CONSTANTS:
            yield from _with_members(f"unshuffle.{module}.{name}", getattr(unshuffle, name))
    for name in design.__all__:
        made = getattr(design, name)
        yield from _with_members(f"{made.__module__}.{name}", made)
    yield from IN_RESULTS


def _with_members(full: str, made: Any) -> Iterator[str]:
    yield full
    if not inspect.isclass(made):
        return
    for name, member in vars(made).items():
        is_method = inspect.isfunction(member) or isinstance(
            member, classmethod | staticmethod | property
        )
        is_declared = any(name in vars(base) for base in made.__mro__[1:])
        # The default of a field may be a function.
        is_declared |= inspect.isfunction(member) and made.__name__ not in member.__qualname__
        if is_method and not name.startswith("_") and not is_declared:
            yield f"{full}.{name}"


def check(name: str) -> list[str]:
    """Return what is missing of one docstring."""
    made = _load(name)
    found = validate(name)["errors"]
    if isinstance(made, property):
        return [f"{code} {text}" for code, text in found if code in OF_PROPERTIES]
    errors = [(code, text) for code, text in found if code in RULES]
    if inspect.isclass(made) and issubclass(made, Enum):
        errors = [(code, text) for code, text in errors if code != "PR01"]
    if is_dataclass(made):
        errors = [(code, text) for code, text in errors if code not in ("PR01", "PR02")]
        errors += [("PR01", f"field {each} is not documented") for each in _list_fields(made, name)]
    if inspect.isfunction(made) and _raises(made) and not Validator(_parse(name)).doc["Raises"]:
        errors.append(("RA01", "it raises errors, and has no section Raises"))
    return [f"{code} {text}" for code, text in errors]


def _list_fields(made: Any, name: str) -> list[str]:
    """Return the fields of a dataclass that are in neither Parameters nor Attributes."""
    doc = Validator(_parse(name)).doc
    parts = [*doc["Parameters"], *doc["Attributes"]]
    told = {each.strip() for part in parts for each in part.name.split(",")}
    return [each.name for each in fields(made) if each.name not in told and each.name[0] != "_"]


def _parse(name: str) -> Any:
    from numpydoc.docscrape import get_doc_object

    return get_doc_object(_load(name))


def _raises(function: Any) -> bool:
    """Return whether the body of a function raises an error by itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


def _load(name: str) -> Any:
    """Return the object of a full name, properties as such."""
    parts = name.split(".")
    for n in range(len(parts) - 1, 0, -1):
        try:
            made: Any = import_module(".".join(parts[:n]))
        except ImportError:
            continue
        for part in parts[n:]:
            made = inspect.getattr_static(made, part)
        is_bound = isinstance(made, classmethod | staticmethod)
        return made.__func__ if is_bound else made
    raise ImportError(name)


def main(wanted: list[str]) -> int:
    names = [name for name in find_names() if not wanted or any(each in name for each in wanted)]
    n_wrong = 0
    for name in names:
        missing = check(name)
        n_wrong += bool(missing)
        for each in missing:
            print(f"{name}: {each}")
    print(f"{n_wrong} of {len(names)} public docstrings are incomplete", file=sys.stderr)
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
