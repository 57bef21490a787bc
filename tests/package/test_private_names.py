"""Tests use public names, but for kernels that meet their oracle."""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

# Private names of the library by test file. A new line needs a reason; an unused one is an error.
ALLOWED = {
    "kernels/test_sinkhorn.py": {"_weigh_links"},
    "objectives/test_gradients.py": {"_plain_evaluator"},
}  # fmt: skip


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def find_private_names(tree):
    """Return private names of the library that a file imports, reads from a module, or patches."""
    found, modules = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "unshuffle":
            found |= {each.name for each in node.names if is_private(each.name)}
            modules |= {each.asname or each.name for each in node.names}
    modules = {name for name in modules if name.islower()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {node.attr} if node.value.id in modules and is_private(node.attr) else set()
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr":
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            names = {each.split(".")[-1] for each in texts if isinstance(each, str)}
            found |= {name for name in names if is_private(name)}
    return found


@cache
def parse_tests():
    """Return the syntax tree of every file of the tests."""
    return {
        path.relative_to(TESTS).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(TESTS.rglob("*.py"))
    }


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from unshuffle.data.bags import _LIMIT, Bag", {"_LIMIT"}),
        ("from unshuffle.data import bags\nbags._number()", {"_number"}),
        ("from unshuffle.data import bags\nmonkeypatch.setattr(bags, '_LIMIT', 3)", {"_LIMIT"}),
        ("patch.setattr('unshuffle.data.bags._LIMIT', 3)", {"_LIMIT"}),
        ("from helpers import _own\nself._value = _own()", set()),
    ],
)
def test_finds_private_names_of_the_library_alone(source, found):
    assert find_private_names(ast.parse(source)) == found


def test_tests_use_no_other_private_names():
    found = {name: find_private_names(tree) for name, tree in parse_tests().items()}
    more = {name: each - ALLOWED.get(name, set()) for name, each in found.items()}
    assert not {name: each for name, each in more.items() if each}


def test_every_permission_is_used():
    files = parse_tests()
    unused = {
        name: each - (find_private_names(files[name]) if name in files else set())
        for name, each in ALLOWED.items()
    }
    assert not {name: each for name, each in unused.items() if each}


def test_no_test_module_imports_another():
    tests = {Path(name).stem for name in parse_tests() if Path(name).stem.startswith("test_")}
    imported = {
        (name, module)
        for name, tree in parse_tests().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in [getattr(node, "module", None), *(each.name for each in node.names)]
        if module in tests
    }
    assert not imported
