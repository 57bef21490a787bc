"""The list of retired words finds them, permits what is legitimate, and the pages pass it."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "packaging" / "retired_words.py").is_file():
    pytest.skip("there are no scripts of the repository here", allow_module_level=True)


def _load():
    path = ROOT / "packaging" / "retired_words.py"
    spec = importlib.util.spec_from_file_location("retired_words", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


retired_words = _load()


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("the linear law of the labels", "src/a.py", ["law"]),
        ("the law of large numbers", "src/a.py", []),
        ("def fill_held_bags(): ...\nclass HeldBags: ...", "src/a.py", ["held", "Held"]),
        ("a held-out fold", "src/a.py", []),
        ("the weights of the columns", "docs/a.md", ["weights"]),
        ("importance weights", "docs/a.md", []),
        ("the weights of the columns", "src/a.py", []),
        ("call `make(weights=[1])`\n```python\nweights = 1\n```\n", "docs/a.md", []),
        ("lawn, toppled, thinking, raced_car", "src/a.py", ["raced"]),
    ],
)
def test_finds_retired_words_alone(text, name, found):
    assert [hit.found for hit in retired_words.find_hits(text, name)] == found


def test_a_hit_has_the_number_of_its_line():
    hits = retired_words.find_hits("a\n`code`\n\nthe law\n", "docs/a.md")
    assert [hit.line for hit in hits] == [4]


def test_no_word_permits_itself_everywhere():
    """A word whose ``allowed`` swallowed each use could never be found."""
    for word in retired_words.WORDS:
        sample = word.replacement  # what to say instead is never a hit of the same word
        assert not [
            hit
            for hit in retired_words.find_hits(sample, "docs/a.md")
            if hit.replacement == word.replacement
        ]
