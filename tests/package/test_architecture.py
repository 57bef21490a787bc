"""The map of the code is short and true: packages, files and tests that it names are there."""

import re
from pathlib import Path

import pytest

import unshuffle

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(unshuffle.__file__).parent
if not (ROOT / "CONTRIBUTING.md").is_file():
    pytest.skip("there are no pages of the repository here", allow_module_level=True)

FILES = sorted((ROOT / "tests").rglob("*.py"))
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def find_paths(text):
    """Return the files and folders that a page names in code, but for patterns."""
    named = re.findall(r"`([\w./-]+/[\w./-]*)`", text)
    return {each for each in named if not re.search(r"[*…]|^-", each)}


def test_the_map_is_short():
    assert len(read("docs/architecture.md").splitlines()) <= 150


def test_the_map_has_every_package():
    table = read("docs/architecture.md").split("## The way of a fit")[0]
    named = set(re.findall(r"`([a-z_]+)`", table))
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages - named == set()


@pytest.mark.parametrize("name", PAGES)
def test_what_the_map_names_is_there(name):
    paths = find_paths(read(name))
    assert len(paths) > 5
    missing = {
        path for path in paths if not (ROOT / path).exists() and not (SOURCE / path).exists()
    }
    assert missing - {"kernels/__pycache__"} == set()


def test_folders_of_tests_are_those_of_packages():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    # Every method through the public API; the repository itself; builders; long random runs.
    others = {"methods", "package", "helpers", "fuzz"}
    folders = {path.parent.relative_to(ROOT / "tests").as_posix() for path in FILES}
    assert folders - packages - others == {"."}


def test_no_two_files_of_tests_have_one_name():
    assert len({path.name for path in FILES}) == len(FILES)
