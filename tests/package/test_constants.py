"""Numbers that someone chose are counted, do not grow in number, and guards have their tests."""

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "packaging" / "count_constants.py").is_file():
    pytest.skip("there are no scripts of the repository here", allow_module_level=True)

# Constants and settings fields that count; lower this when you remove some.
LIMIT = 233


def _load():
    path = ROOT / "packaging" / "count_constants.py"
    spec = importlib.util.spec_from_file_location("count_constants", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


counting = _load()


@cache
def count_all():
    """Return the numbers of the whole library."""
    return counting.count([counting.SOURCE])


def count_source(tmp_path, monkeypatch, source):
    """Return kind and name of the numbers that a module with this source has."""
    monkeypatch.setattr(counting, "SOURCE", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")
    return [(each.kind, each.name) for each in counting.find_numbers(path)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("A = 1.5", [("constant", "A")]),
        ("A = -2", [("constant", "A")]),
        ("A = (1, 2.0, 3)", [("constant", "A")]),
        ("A, B = 1, 2", [("constant", "A"), ("constant", "B")]),
        ("A: int = 48 * 2**20", [("constant", "A")]),
        ("A = np.uint64(7)", [("constant", "A")]),
        ("A = {'x': 1, 'y': (2, 3)}", [("constant", "A")]),
        ("B = 2 * A", [("constant", "B")]),
        ("A = np.cbrt(np.finfo(float).eps)", []),
        ("A = True\nB = 'one'\nC = ('a', 1)\nD = None", []),
        ("def f(x=3):\n    y = 2", []),
        ("A = Settings(3, tol=0.1, name='x')", [("override", "A[0]"), ("override", "A[1]")]),
        (
            "@dataclass\nclass ASettings:\n    a: int = 1\n    b: str = 'x'",
            [("setting", "ASettings.a")],
        ),
        ("@dataclass\nclass Found:\n    n: int = 0\n    scale: float = 1.0", []),
        ("@dataclass\nclass Found:\n    p: float = field(default=2.0)", [("setting", "Found.p")]),
        ("class Plain:\n    p: float = 2.0", []),
    ],
)
def test_finds_numbers_that_someone_chose(tmp_path, monkeypatch, source, found):
    assert sorted(count_source(tmp_path, monkeypatch, source)) == sorted(found)


def test_the_number_of_chosen_constants_does_not_grow():
    counted = [each for each in count_all() if not counting.is_exempt(each)]
    assert len(counted) <= LIMIT, "derive the number, or remove another"


def test_every_exemption_is_used_and_has_a_kind():
    for pattern, (kind, _) in counting.EXEMPT.items():
        assert kind in ("guard", "code", "published"), pattern
        used = [each for each in count_all() if counting.fnmatchcase(each.place, pattern)]
        assert used, f"{pattern} names no number"


def test_every_guard_names_a_test_that_exists():
    for pattern, (kind, where) in counting.EXEMPT.items():
        if kind == "guard":
            path, name = where.split("::")
            text = (ROOT / path).read_text(encoding="utf-8")
            assert f"\ndef {name}(" in text, f"{pattern}: there is no test {where}"


def test_every_published_number_has_its_source():
    keys = set(re.findall(r"^@\w+{(\w+),", (ROOT / "docs" / "references.bib").read_text(), re.M))
    for where in counting.PUBLISHED:
        assert " " in where or where in keys, f"{where} is not in the bibliography"
