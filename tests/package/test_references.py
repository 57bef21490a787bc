"""The bibliography is whole, its page is up to date, and every citation is in it."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "docs" / "references.bib").is_file():
    pytest.skip("there is no documentation here", allow_module_level=True)


def _load():
    spec = importlib.util.spec_from_file_location(
        "make_references", ROOT / "docs" / "make_references.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


references = _load()
TEXT = references.BIBLIOGRAPHY.read_text(encoding="utf-8")
ENTRIES = references.read_references(TEXT)


def test_every_entry_is_read_once():
    assert len(ENTRIES) == TEXT.count("\n@")
    assert len({entry.key for entry in ENTRIES}) == len(ENTRIES)
    assert all(entry.key.endswith(entry.year) for entry in ENTRIES)


def test_the_page_is_up_to_date():
    page = references.PAGE.read_text(encoding="utf-8")
    assert page == references.make_page(), "run: python docs/make_references.py"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("(Sinkhorn 1967)", "sinkhorn"),
        ("as Abid, Poon and Zou (2017) do", "abid"),
        ("Cornuet et al. 2012", "cornuet"),
        ("by ter Braak (2006)", "ter braak"),
        ("Grünwald and van Ommen 2017", "grunwald"),
        ("Silverman's (1986) rule", "silverman"),
        ("Miller\n  and Dunson 2019", "miller"),
    ],
)
def test_a_citation_is_found(text, first):
    assert [name for name, _ in references.find_citations(text)] == [first]


# Names before a year that cite nothing.
NO_CITATIONS = {("oopsla", "2014"), ("november", "2026"), ("python", "2024")}


@pytest.mark.parametrize("folder", ["docs", "src"])
def test_what_is_cited_is_in_the_bibliography(folder):
    known = {(references.fold(entry.surnames[0]), entry.year) for entry in ENTRIES}
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in (".md", ".py") and "_build" not in path.parts:
            cited = references.find_citations(path.read_text(encoding="utf-8"))
            assert cited - known - NO_CITATIONS == set(), path.relative_to(ROOT)
