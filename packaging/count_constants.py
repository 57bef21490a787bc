"""Count the numbers that someone chose: numeric module constants and numeric settings fields.

Run: python packaging/count_constants.py [--list] [--limit N] [FILE_OR_FOLDER…]

Prints a line for each package of ``src/unshuffle``, and the total. ``--list`` prints every name
with its place. The exit code is 1 when the total is above ``--limit``.

What counts, read from the syntax tree of each module:

- **constant**: a module-level name bound to a number. A number is a literal, a tuple or list of
  numbers, a dictionary whose values are numbers, or arithmetic and calls (``48 * 2**20``,
  ``np.uint64(7)``) that contain a literal. A tuple counts once. In ``A, B = 1, 2`` each counts.
- **setting**: a field of a dataclass with a numeric default (``field(default=…)`` and ``ClassVar``
  included). In a class whose name ends in "Settings" every such field counts. In other dataclasses
  the neutral defaults 0 and 1 do not, since they say "nothing happened" or "times one".
- **override**: a number given to a class in a module-level call, as in ``A = SearchSettings(8)``.

A name that is computed from other names without a number of its own (``np.finfo(float).eps``) is
derived and does not count. Neither do the names in ``EXEMPT``. Each line there has a kind:

- ``guard``: a limit that no answer depends on. The line names the test that shows what it guards.
- ``code``: an integer that names a state, a format version or a bit pattern.
- ``published``: numbers of the paper or of an experiment of it, which only ``experiments`` read.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "unshuffle"


@dataclass(frozen=True)
class Number:
    """A number that someone chose, where it stands and what kind of name it has."""

    package: str
    path: str
    line: int
    name: str
    kind: str  # "constant", "setting" or "override"

    @property
    def place(self) -> str:
        return f"{self.path}:{self.name}"


# Pattern of "path:name" (relative to src/unshuffle) -> kind, and the test of a guard or the reason.
_KERNELS, _EXTREMES = "tests/kernels/test_kernels.py::", "tests/methods/test_extremes.py::"
_CERTIFIED = "tests/solvers/test_certified.py::"
EXEMPT: dict[str, tuple[str, str]] = {
    "core/uncertainty.py:_QUANTILE_TOL": (
        "guard",
        "tests/results/test_prediction.py::"
        "test_intervals_of_new_labels_are_quantiles_of_the_mixture",
    ),
    "data/products.py:BATCH_NUMBERS": (
        "guard",
        "tests/objectives/test_batches.py::test_batches_of_any_size_give_the_same_bits",
    ),
    "objectives/block_sorted.py:TOTAL_BYTES": (
        "guard",
        "tests/blocks/test_block_sorted.py::test_blocks_orders_and_batches_give_the_same_bits",
    ),
    "objectives/checks.py:MOST_NOISE": (
        "guard",
        _EXTREMES + "test_noise_of_the_size_of_the_labels_is_taken_and_any_beyond_is_refused",
    ),
    "objectives/checks.py:MOST_PENALTY": (
        "guard",
        _EXTREMES + "test_a_penalty_beyond_the_loss_is_refused_and_one_far_above_it_taken",
    ),
    "objectives/checks.py:MOST_LABEL": (
        "guard",
        _EXTREMES + "test_a_g_of_the_user_has_labels_that_can_be_squared",
    ),
    "solvers/closed_form.py:NO_MEAN": (
        "guard",
        "tests/solvers/test_closed_forms.py::test_two_weights_pivot_on_the_larger_mean",
    ),
    "solvers/projection.py:MET": (
        "guard",
        "tests/solvers/test_projection.py::test_every_candidate_meets_the_pooled_moments",
    ),
    "solvers/projection.py:_NEWTON_STEPS": (
        "guard",
        "tests/solvers/test_projection.py::test_every_candidate_meets_the_pooled_moments",
    ),
    "solvers/projection.py:_SMOOTHING": (
        "guard",
        "tests/objectives/test_penalties.py::test_sparse_p1_is_the_lowest_point_of_its_plane",
    ),
    "solvers/certified.py:_CLOCK_ROWS": (
        "guard",
        _CERTIFIED + "test_the_proof_does_not_depend_on_how_often_it_looks_at_the_clock",
    ),
    "solvers/certified.py:ROUNDING": (
        "guard",
        _CERTIFIED + "test_labels_without_noise_leave_no_gap",
    ),
    "solvers/certified.py:COMPLETE_GAP": (
        "guard",
        _CERTIFIED + "test_the_value_is_that_of_every_matching_tried",
    ),
    "solvers/descent.py:MAX_ITERATIONS": (
        "guard",
        "tests/solvers/test_descent.py::test_a_value_without_a_minimum_ends_and_is_not_converged",
    ),
    "solvers/searching.py:_FULL_PRECISION": (
        "guard",
        "tests/solvers/test_closed_forms.py::"
        "test_noiseless_moments_of_bags_vanish_at_the_weights_found",
    ),
    "solvers/levenberg_marquardt.py:_*": (
        "guard",
        "tests/solvers/test_levenberg_marquardt.py::"
        "test_values_too_low_to_be_told_apart_are_not_compared_by_their_ratio",
    ),
    "kernels/cones.py:_ZERO": (
        "guard",
        _CERTIFIED + "test_bounds_of_cones_equal_non_negative_least_squares",
    ),
    "kernels/designing.py:_LEAST_GAIN": (
        "guard",
        "tests/planning/test_design.py::test_exchanges_equal_those_assessed_by_the_whole_determinant",
    ),
    "kernels/descent.py:_MAX_HALVINGS": (
        "guard",
        "tests/solvers/test_descent.py::test_a_gradient_that_points_uphill_ends_where_it_began",
    ),
    "kernels/sorting.py:_*": ("guard", _KERNELS + "test_sort_equals_numpy_stable_argsort"),
    "kernels/moment_losses.py:_TILE": (
        "guard",
        _KERNELS + "test_tensors_are_the_means_of_all_monomials",
    ),
    "kernels/projection.py:_BLOCK": ("guard", _KERNELS + "test_gram_is_the_product_of_the_columns"),
    "kernels/sorted_cells.py:_TILE": (
        "guard",
        "tests/blocks/test_block_sorted.py::test_values_and_slopes_are_those_of_sorted_rows",
    ),
    "kernels/sorting.py:ROW": ("code", "the low half of a word"),
    "kernels/scanning.py:*": ("code", "the multipliers of SplitMix64"),
    "kernels/sorted_losses.py:[A-Z]*": ("code", "a code for each loss"),
    "kernels/tempering.py:*": ("code", "places in an array of random numbers"),
    "data/anchors.py:NO_LABEL": ("code", "the place of an unknown label"),
    "solvers/descent.py:_OUT_OF_ITERATIONS": ("code", "a state of the kernel"),
    "objectives/losses.py:*.degree": ("code", "how the loss scales with the labels"),
    "experiments/paper/*": ("published", "designs and printed figures of the paper"),
    "experiments/motifs.py:*": ("published", "the design of Table 3"),
}


def is_number(node: ast.expr | None) -> bool:
    """Return whether an expression is made of numbers and has at least one literal."""
    return node is not None and _is_numeric(node) and any(map(_is_literal, ast.walk(node)))


def _is_literal(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Constant)
    return is_constant and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _is_numeric(node: ast.expr) -> bool:
    """Return whether every leaf of an expression may be a number."""
    match node:
        case ast.Constant():
            return _is_literal(node)
        case ast.UnaryOp(operand=inner):
            return _is_numeric(inner)
        case ast.BinOp(left=left, right=right):
            return _is_numeric(left) and _is_numeric(right)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return bool(parts) and all(map(_is_numeric, parts))
        case ast.Dict(values=parts):
            return bool(parts) and all(map(_is_numeric, parts))
        case ast.Call(func=called, args=arguments, keywords=[]):
            return not _is_class(called) and all(map(_is_numeric, arguments))
        case ast.Name() | ast.Attribute():
            return True
    return False


def _is_class(called: ast.expr) -> bool:
    """Return whether what is called has the name of a class."""
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name.lstrip("_")[:1].isupper()


def _makes_object(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _is_class(node.func)


def _is_neutral(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (0, 1)


def _find_constants(body: list[ast.stmt]) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and kind of the constants and overrides among statements of a module."""
    for statement in body:
        if isinstance(statement, ast.Assign):
            pairs = [(target, statement.value) for target in statement.targets]
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            pairs = [(statement.target, statement.value)]
        else:
            continue
        while pairs:
            target, value = pairs.pop()
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs += list(zip(target.elts, value.elts, strict=True))
            elif isinstance(target, ast.Name) and is_number(value):
                yield statement.lineno, target.id, "constant"
            elif isinstance(target, ast.Name) and _makes_object(value):
                given = [*value.args, *(each.value for each in value.keywords)]
                for place, each in enumerate(given):
                    if is_number(each):
                        yield statement.lineno, f"{target.id}[{place}]", "override"


def _find_fields(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and kind of the numeric fields of dataclasses."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        if not any("dataclass" in ast.unparse(each) for each in node.decorator_list):
            continue
        is_settings = node.name.endswith("Settings")
        for statement in node.body:
            if not isinstance(statement, ast.AnnAssign) or statement.value is None:
                continue
            value = statement.value
            if isinstance(value, ast.Call):  # field(default=…)
                named = {each.arg: each.value for each in value.keywords}
                value = named.get("default", value)
            if is_number(value) and (is_settings or not _is_neutral(value)):
                assert isinstance(statement.target, ast.Name)
                yield statement.lineno, f"{node.name}.{statement.target.id}", "setting"


def find_numbers(path: Path) -> list[Number]:
    """Return the numbers of a module, exempt ones as well."""
    tree = ast.parse(path.read_text("utf-8"))
    inner = path.relative_to(SOURCE)
    package = inner.parts[0] if len(inner.parts) > 1 else "(modules)"
    found = [*_find_constants(tree.body), *_find_fields(tree)]
    return [Number(package, inner.as_posix(), *each) for each in sorted(found)]


def is_exempt(number: Number) -> bool:
    """Return whether a number is in ``EXEMPT``."""
    return find_exemption(number.place) is not None


def find_exemption(place: str) -> tuple[str, str] | None:
    """Return the kind of an exempt name, and its test or reason; None where it counts."""
    return next((found for each, found in EXEMPT.items() if fnmatchcase(place, each)), None)


def count(paths: list[Path]) -> list[Number]:
    """Return the numbers of files and folders."""
    files = [each for path in paths for each in ([path] if path.is_file() else path.rglob("*.py"))]
    return [number for each in sorted(set(files)) for number in find_numbers(each)]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Count numeric constants and settings fields.")
    parser.add_argument("paths", nargs="*", type=Path, default=[SOURCE])
    parser.add_argument("--list", action="store_true", help="print every name with its place")
    parser.add_argument("--limit", type=int, help="exit with 1 when the total is above this")
    given = parser.parse_args(arguments)
    numbers = count([path.resolve() for path in given.paths])
    counted = [each for each in numbers if not is_exempt(each)]
    if given.list:
        for each in numbers:
            found = find_exemption(each.place)
            exempt = f"  exempt: {found[0]}" if found else ""
            print(f"{each.path}:{each.line}: {each.kind} {each.name}{exempt}")
    print(f"{'package':<14}{'constants':>10}{'settings':>10}{'both':>6}{'exempt':>8}")
    for package in sorted({each.package for each in numbers}):
        print(_row(package, [each for each in numbers if each.package == package]))
    print(_row("total", numbers))
    return 1 if given.limit is not None and len(counted) > given.limit else 0


def _row(name: str, numbers: list[Number]) -> str:
    kinds = Counter("exempt" if is_exempt(each) else each.kind for each in numbers)
    settings = kinds["setting"] + kinds["override"]
    both = kinds["constant"] + settings
    return f"{name:<14}{kinds['constant']:>10}{settings:>10}{both:>6}{kinds['exempt']:>8}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
