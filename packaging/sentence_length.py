"""Print the mean number of words per sentence of README and pages, and check it against a limit.

Run: python packaging/sentence_length.py [--limit 18] [--longest N] [FILE_OR_FOLDER…]

Without files: README.md, CONTRIBUTING.md, CHANGELOG.md and docs. The exit code is 1 when a page is
above the limit. ``--longest N`` also prints the N longest sentences of each page that is.

What counts: running text and list items of Markdown. Code blocks, tables, headings, displayed
formulas and comments are left out. Inline code and inline formulas count as one word, a link counts
by its text. A sentence ends at ``.``, ``!`` or ``?`` before a space, and at the end of a paragraph,
list item or definition.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")
GENERATED = ("_build", "auto_gallery", "generated")
BLOCKS = (
    r"^(?P<fence>`{3,}|~{3,})(?!{(?:glossary|note|warning|tip)}).*?^(?P=fence)\s*$",
    r"^(`{3,}|:{3,})[^\n]*$",  # what is left are directives that contain text
    r"<!--.*?-->",
    r"\$\$.*?\$\$",
    r"^---$.*?^---$",
)
LINES = r"^\s*(#|\||!\[|<|\(.*\)=$|(:\w+:)|[=\-~^]{3,}$|\[\^?\w+\]:).*$"
ABBREVIATIONS = r"\b(e\.g|i\.e|et al|cf|vs|approx|Fig|No|pp|vol|Sec|Eq)\."


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a page of Markdown."""
    for pattern in BLOCKS:
        text = re.sub(pattern, "\n\n", text, flags=re.S | re.M)
    text = re.sub(LINES, "", text, flags=re.M)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"{[\w:]+}`([^`<]*?)\s*(<[^>]*>)?`", r"\1", text)
    text = re.sub(r"`+[^`]+`+|\$[^$]+\$", "code", text)
    text = re.sub(ABBREVIATIONS, lambda m: m[0].replace(".", ""), text)
    # A list item, a paragraph and a definition begin anew.
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)|\n(?=\S[^\n]*\n  \S)", text)
    sentences = []
    for part in parts:
        line = re.sub(r"^\s*([-*+>]|\d+\.)\s+", "", " ".join(part.split()))
        sentences += re.split(r"(?<=[.!?])[\")*_’”]*\s+", line)
    return [s for s in sentences if len(split_words(s)) > 1]


def split_words(sentence: str) -> list[str]:
    """Return the words of a sentence: what has a letter or a digit."""
    return [word for word in sentence.split() if re.search(r"\w", word)]


def find_pages(given: list[str]) -> list[Path]:
    """List the pages of Markdown among files and folders."""
    pages: list[Path] = []
    for each in given:
        path = ROOT / each
        pages += [path] if path.is_file() else sorted(path.rglob("*.md"))
    return [p for p in pages if not set(GENERATED) & set(p.parts)]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Mean words per sentence of each page.")
    parser.add_argument("pages", nargs="*", default=list(PAGES))
    parser.add_argument("--limit", type=float, default=18.0)
    parser.add_argument("--longest", type=int, default=0)
    given = parser.parse_args(arguments)
    n_above, lengths_of_all = 0, []
    for page in find_pages(given.pages):
        sentences = split_sentences(page.read_text(encoding="utf-8"))
        lengths = [len(split_words(s)) for s in sentences]
        if not lengths:
            continue
        lengths_of_all += lengths
        mean = sum(lengths) / len(lengths)
        is_above = mean > given.limit
        n_above += is_above
        name = page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else str(page)
        print(f"{mean:5.1f}  {len(lengths):4d} sentences  {name}{'  above' if is_above else ''}")
        if is_above or given.longest:
            for sentence in sorted(sentences, key=lambda s: -len(split_words(s)))[: given.longest]:
                print(f"         {len(split_words(sentence)):3d}  {sentence}")
    print(
        f"{sum(lengths_of_all) / max(len(lengths_of_all), 1):5.1f}  in all, limit {given.limit:g}"
    )
    return 1 if n_above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
