"""Halve and double every number of every settings class, and see which answers move.

    python benchmarks/sensitivity.py                          # all settings classes of the package
    python benchmarks/sensitivity.py --only solvers objectives --minutes 15
    python benchmarks/sensitivity.py --methods ls p2 --tables 5
    python benchmarks/sensitivity.py --only Tempered --methods likelihood --tables 5
    python benchmarks/sensitivity.py --constants kernels --methods likelihood --tables 5
    python benchmarks/sensitivity.py --count                  # how many numbers there are

A settings class is a dataclass whose name ends in "Settings". Each numeric field (each entry of a
tuple) is halved and doubled, in the class and in every instance that a module made. Whole numbers
stay whole and at least 1; infinities stay. ``--constants`` does the same with numeric constants of
modules that count (``packaging/count_constants.py``), in every module that imported them. Those
of compiled functions cannot be changed there and are left out.

Tables are the 20 smallest real tables of ``UNSHUFFLE_DATA`` in four bags. Fields that no method
reads there are tried on simulated tables: two of 60 000 rows, for the likelihood two of 24 000 rows
(one bag of five columns alike, and twelve bags), and three without noise. A field is tried with the
methods that read it, which the first fits record. ``--data`` chooses the tables of constants.

For each field the table has, at half and at double: the number of answers that moved by more than
1e-9 of the coefficients; the median and the largest move, relative to the coefficients; the mean
error relative to that of the default (linked least squares is the truth); processor seconds
relative to the default. ``refused`` counts fits that raised an error. A field that moves nothing is
marked "-". The table goes to ``benchmarks/results/sensitivity.md``, where rows of other fields stay
while the fields exist.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import importlib
import math
import pkgutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from real_tables import load_tables, relative_error, split

import unshuffle
from unshuffle import Projection, ShuffledLinearRegression, make_shuffled

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "packaging"))
import count_constants as counting

OUT = Path(__file__).parent / "results" / "sensitivity.md"
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ls": ("ls", {}),
    "emd": ("emd", {}),
    "ks": ("ks", {}),
    "sm": ("sm", {}),
    "p1": ("p1", {}),
    "p2": ("p2", {}),
    "p2 with l1": ("p2", {"l1": 0.02}),
    "p3": (Projection(3), {}),
    "certified": ("certified", {}),
    "likelihood": ("likelihood", {}),
}
# Tables by name, and what is said of them beside a method.
NOTES = {
    "small": "",
    "large": " (60 000 rows)",
    "blocks": " (24 000 rows)",
    "noiseless": " (no noise)",
}
HEAD = (
    "| field | value | tried with | moved ½ | moved ×2 | median ½ | median ×2 | largest ½ | "
    "largest ×2 | error ½ | error ×2 | time ½ | time ×2 |\n" + "|---" * 13 + "|\n"
)


class Data(NamedTuple):
    """A table in bags, and the linked least squares."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    truth: np.ndarray


class Answer(NamedTuple):
    """Coefficients (None: refused), error and processor seconds of a fit."""

    coef: np.ndarray | None
    error: float
    seconds: float


def find_settings() -> list[type]:
    """Return the settings classes of the package, by module and name."""
    found = {}
    for module in pkgutil.walk_packages(unshuffle.__path__, "unshuffle."):
        if module.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            is_settings = isinstance(value, type) and value.__name__.endswith("Settings")
            if is_settings and dataclasses.is_dataclass(value):
                found[f"{value.__module__}.{value.__name__}"] = value
    return [found[name] for name in sorted(found)]


def find_constants(packages: list[str]) -> list[tuple[str, str, Any]]:
    """Return module, name and value of the constants that count, of packages or by place."""
    found = []
    for number in counting.count([counting.SOURCE]):
        is_asked = any(number.place.startswith(each) for each in packages)
        if not is_asked or number.kind != "constant" or counting.is_exempt(number):
            continue
        if number.path.startswith("kernels/"):
            continue
        name = "unshuffle." + number.path.removesuffix(".py").replace("/", ".")
        found.append((name, number.name, getattr(importlib.import_module(name), number.name)))
    return found


@contextmanager
def replaced(name: str, value: Any, new: Any) -> Iterator[None]:
    """Give a constant another value in every module of the package that has it."""
    modules = [module for key, module in sys.modules.items() if key.startswith("unshuffle.")]
    owners = [module for module in modules if vars(module).get(name) is value]
    for module in owners:
        setattr(module, name, new)
    try:
        yield
    finally:
        for module in owners:
            setattr(module, name, value)


def scale(value: Any, factor: float) -> Any:
    """Return a number, or every number of a tuple, times a factor; None where it stays the same."""
    if isinstance(value, np.ndarray):
        return value * factor
    if isinstance(value, tuple):
        parts = tuple(each if (new := scale(each, factor)) is None else new for each in value)
        return None if parts == value else parts
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    new = max(1, round(value * factor)) if isinstance(value, int) else value * factor
    return None if new == value else new


@contextmanager
def changed(cls: type, name: str, factor: float) -> Iterator[None]:
    """Scale a field in the defaults of a class and in all its instances."""
    kept = [(each, getattr(each, name)) for each in gc.get_objects() if type(each) is cls]
    defaults, default = cls.__init__.__defaults__, getattr(cls, name)  # type: ignore[misc]
    names = [each.name for each in dataclasses.fields(cls) if each.init]
    names = names[len(names) - len(defaults) :]
    new = scale(default, factor)
    scaled = tuple(
        new if each == name and new is not None else value
        for each, value in zip(names, defaults, strict=True)
    )
    try:
        cls.__init__.__defaults__ = scaled  # type: ignore[misc]
        for each, value in kept:
            found = scale(value, factor)
            object.__setattr__(each, name, value if found is None else found)
        yield
    finally:
        cls.__init__.__defaults__ = defaults  # type: ignore[misc]
        for each, value in kept:
            object.__setattr__(each, name, value)


@contextmanager
def recorded(classes: list[type], seen: set[tuple[type, str]]) -> Iterator[None]:
    """Record which fields of some classes are read."""
    names = {cls: {each.name for each in dataclasses.fields(cls)} for cls in classes}

    def make_reader(cls: type) -> Any:
        def read(self: Any, name: str) -> Any:
            if name in names[cls]:
                seen.add((cls, name))
            return object.__getattribute__(self, name)

        return read

    for cls in classes:
        cls.__getattribute__ = make_reader(cls)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        for cls in classes:
            del cls.__getattribute__


def make_tables(n_tables: int) -> list[Data]:
    """Return the smallest real tables in four bags."""
    tables = {name: each for name, each in load_tables("clean").items() if len(each.y) <= 300}
    found = []
    for name in sorted(tables, key=lambda each: (len(tables[each].y), each)):
        cut = split("clean", name, "4", 1000)
        if cut is not None and len(found) < n_tables:
            found.append(Data(cut.X, cut.y, cut.groups, tables[name].truth))
    return found


def make_large_tables() -> list[Data]:
    """Return simulated tables with more rows than are searched at once."""
    found = []
    for seed, bags in ((1000, 4), (1001, 20)):
        data = make_shuffled(60_000, 3, snr_db=10, bags=bags, rng=seed)
        found.append(Data(data.X, data.y, data.groups, data.weights))
    return found


def make_block_tables() -> list[Data]:
    """Return simulated tables of which the likelihood counts rows in cells."""
    found = []
    for seed, d, bags in ((1000, 5, 1), (1001, 3, 12)):
        data = make_shuffled(24_000, d, snr_db=10, bags=bags, rng=seed)
        found.append(Data(data.X, data.y, data.groups, data.weights))
    return found


def make_noiseless_tables() -> list[Data]:
    """Return simulated tables without noise, for least squares alone and for the wide search."""
    found = []
    for seed, n, d in ((1000, 20, 6), (1001, 50, 5), (1002, 200, 5)):
        data = make_shuffled(n, d, noise=0.0, bags=1, features="normal", rng=seed)
        found.append(Data(data.X, data.y, data.groups, data.weights))
    return found


def is_tried(size: str, name: str) -> bool:
    """Return whether a method is tried on the tables of a name."""
    if size in ("blocks", "noiseless"):
        return name == "likelihood"
    return size == "small" or name not in ("ks", "certified", "likelihood")


def fit(name: str, data: Data) -> Answer:
    """Fit a table by a method."""
    method, options = METHODS[name]
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = ShuffledLinearRegression(method, random_state=0, **options)
            coef = model.fit(data.X, data.y, data.groups).coef_
        except (unshuffle.InputError, ArithmeticError, ValueError, IndexError):
            return Answer(None, np.nan, time.process_time() - begin)
    return Answer(coef, relative_error(coef, data.truth), time.process_time() - begin)


def compare(before: list[Answer], after: list[Answer]) -> dict[str, str]:
    """Return the columns of one factor."""
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if a.coef is not None]
    refused = sum(b.coef is None for _, b in pairs)
    pairs = [(a, b) for a, b in pairs if b.coef is not None]
    moves = np.array(
        [np.linalg.norm(b.coef - a.coef) / max(np.linalg.norm(a.coef), 1e-12) for a, b in pairs]
    )
    shown = dict.fromkeys(("median", "largest", "error", "time"), "-")
    shown["moved"] = f"{int((moves > 1e-9).sum())} of {len(moves)}"
    shown["moved"] += f", {refused} refused" if refused else ""
    if not pairs:
        return shown
    shown["median"] = f"{np.median(moves):.1g}" if moves.any() else "-"
    shown["largest"] = f"{moves.max():.1g}" if moves.any() else "-"
    errors = np.array([[a.error, b.error] for a, b in pairs]).mean(axis=0)
    shown["error"] = f"{errors[1] / errors[0]:.3f}" if moves.any() else "-"
    seconds = np.array([[a.seconds, b.seconds] for a, b in pairs]).sum(axis=0)
    shown["time"] = f"{seconds[1] / seconds[0]:.2f}"
    return shown


def main() -> int:
    """Try every field, print its row, and store the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[""], help="packages, or parts of class names")
    parser.add_argument(
        "--constants",
        nargs="*",
        default=[],
        help="packages or places, as inference or\nkernels/moment_losses.py:_ROWS",
    )
    parser.add_argument("--count", action="store_true", help="print how many numbers there are")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--data", nargs="*", default=["small"], choices=list(NOTES))
    parser.add_argument("--minutes", type=float, default=np.inf, help="processor minutes in all")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if args.count:
        return int(counting.main([]))
    if args.constants and args.only == [""]:
        args.only = ["no class"]
    classes = [
        cls
        for cls in find_settings()
        if any(part in f"{cls.__module__}.{cls.__name__}" for part in args.only)
    ]
    tables = {
        "small": make_tables(args.tables),
        "large": make_large_tables(),
        "blocks": make_block_tables(),
        "noiseless": make_noiseless_tables(),
    }
    if args.constants:
        tables = {size: tables[size] for size in args.data}
    reads: dict[tuple[str, str], set[tuple[type, str]]] = {}
    base: dict[tuple[str, str], list[Answer]] = {}
    for size, name in [(s, m) for s in tables for m in args.methods]:
        if not is_tried(size, name):
            continue
        fit(name, tables[size][0])  # compiling
        seen: set[tuple[type, str]] = set()
        with recorded(classes, seen):
            fit(name, tables[size][-1])
            fit(name, tables[size][0])
        reads[size, name], base[size, name] = seen, [fit(name, each) for each in tables[size]]
    known = {
        f"`{cls.__name__}.{e.name}`" for cls in find_settings() for e in dataclasses.fields(cls)
    }
    known |= {f"`{m.removeprefix('unshuffle.')}.{n}`" for m, n, _ in find_constants([""])}
    rows = {key: row for key, row in read_rows(args.out).items() if key in known}
    for cls in classes:
        for each in dataclasses.fields(cls):
            key = f"`{cls.__name__}.{each.name}`"
            default = getattr(cls, each.name, None)
            instances = [getattr(i, each.name) for i in gc.get_objects() if type(i) is cls]
            if all(scale(v, f) is None for v in [default, *instances] for f in (0.5, 2.0)):
                continue
            if time.process_time() > 60 * args.minutes:
                print(f"{key}: no time left", file=sys.stderr)
                continue
            used = [place for place, seen in reads.items() if (cls, each.name) in seen]
            used = [p for p in used if p[0] == "small"] or used
            rows[key] = make_row(
                key, default, used, tables, base, lambda f, c=cls, n=each.name: changed(c, n, f)
            )
            print(rows[key], end="", flush=True)
    for module, name, value in find_constants(args.constants):
        key = f"`{module.removeprefix('unshuffle.')}.{name}`"
        if time.process_time() > 60 * args.minutes:
            print(f"{key}: no time left", file=sys.stderr)
            continue
        changes = {f: (name, value, scale(value, f)) for f in (0.5, 2.0)}
        if any(new is not None for _, _, new in changes.values()):
            rows[key] = make_row(
                key,
                value,
                list(reads),
                tables,
                base,
                lambda f, changes=changes: replaced(*changes[f]),
            )
            print(rows[key], end="", flush=True)
    args.out.write_text(
        f"# Sensitivity of the settings\n\n{__doc__.split(chr(10))[0]} The columns are in "
        "`benchmarks/sensitivity.py`.\n\n" + HEAD + "".join(rows[key] for key in sorted(rows)),
        encoding="utf-8",
    )
    return 0


def make_row(
    key: str,
    default: Any,
    used: list[tuple[str, str]],
    tables: dict[str, list[Data]],
    base: dict[tuple[str, str], list[Answer]],
    change: Callable[[float], AbstractContextManager[None]],
) -> str:
    """Return the row of a number; `change` makes it so many times as large for a while."""
    if not used:
        return f"| {key} | {default} | nothing reads it here |" + " |" * 10 + "\n"
    before = [answer for place in used for answer in base[place]]
    found = {}
    for factor in (0.5, 2.0):
        with change(factor):
            after = [fit(m, each) for size, m in used for each in tables[size]]
        found[factor] = compare(before, after)
    columns = [found[f][c] for c in ("moved", "median", "largest", "error", "time") for f in found]
    tried = ", ".join(m + NOTES[size] for size, m in used)
    return "| " + " | ".join([key, str(default), tried, *columns]) + " |\n"


def read_rows(path: Path) -> dict[str, str]:
    """Return the rows of an earlier table by their field."""
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("| `")}


if __name__ == "__main__":
    sys.exit(main())
