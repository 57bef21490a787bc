"""Write `references.md`, the page of the literature, from `references.bib`.

Run: python docs/make_references.py
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

BIBLIOGRAPHY = Path(__file__).with_name("references.bib")
PAGE = Path(__file__).with_name("references.md")
HEAD = """# References

<!-- Written by docs/make_references.py from references.bib: change that, not this. -->

The literature that the pages, the docstrings and the reports cite, as
[BibTeX](https://www.bibtex.org/Format/): `docs/references.bib` in the repository.
"""
ENTRY = re.compile(r"@(\w+)\{(\w+),\n(.*?)\n\}", re.DOTALL)
FIELD = re.compile(r"^  (\w+) = \{(.*)\},$", re.MULTILINE)
PLACES = ("journal", "booktitle", "publisher", "institution", "howpublished")
# An author's name or names and the year: "Sinkhorn 1967", "Abid, Poon and Zou (2017)".
CITATION = re.compile(
    r"\b((?:[A-Z][\w’'-]+|ter Braak|van Ommen|Del Moral)"
    r"(?:(?:,?\s+(?:and|&)\s+|,\s+)(?:[A-Z][\w’-]+|van Ommen)|\s+et\s+al\.)*)"
    r",?\s+\(?((?:18|19|20)\d\d)\b"
)


@dataclass(frozen=True)
class Reference:
    """An entry of the bibliography."""

    key: str
    authors: tuple[str, ...]
    year: str
    title: str
    place: str
    note: str

    @property
    def surnames(self) -> tuple[str, ...]:
        return tuple(author.split(",")[0] for author in self.authors)

    def __str__(self) -> str:
        names = [_abbreviate(author) for author in self.authors]
        *others, last = names
        who = f"{', '.join(others)} and {last}" if others else last
        if last == "others":
            who = f"{others[0]} et al."
        where = ", ".join(each for each in (f"*{self.place}*", self.note) if each)
        return f"{who} ({self.year}). {self.title}. {where}."


def _abbreviate(author: str) -> str:
    """Return "Abid, Abubakar" as "Abid, A."; given names that are initials stay."""
    surname, _, given = author.partition(", ")
    initials = " ".join(name[0] + "." for name in re.split(r"[ -]", given) if name)
    return f"{surname}, {initials}" if initials else surname


def read_references(text: str) -> list[Reference]:
    """Return the entries of a bibliography, by first author, then year."""
    found = []
    for _, key, body in ENTRY.findall(text):
        fields = dict(FIELD.findall(body))
        (place,) = [fields[name] for name in PLACES if name in fields]
        authors = tuple(fields["author"].split(" and "))
        given = (fields["year"], fields["title"], place, fields.get("note", ""))
        found.append(Reference(key, authors, *given))
    return sorted(found, key=lambda each: (fold(each.authors[0]), each.year, each.title))


def fold(name: str) -> str:
    """Return a name in small letters without accents, by which it is sorted and compared."""
    plain = unicodedata.normalize("NFKD", name)
    return "".join(c for c in plain if not unicodedata.combining(c)).casefold()


def find_citations(text: str) -> set[tuple[str, str]]:
    """Return the citations of a text: first author and year."""
    found = set()
    for names, year in CITATION.findall(text):
        first = re.split(r",|\s+and\s+|\s+&\s+|\s+et\s+al", names)[0]
        found.add((fold(re.sub(r"['’]s$", "", first)), year))
    return found


def make_page() -> str:
    """Return the page."""
    references = read_references(BIBLIOGRAPHY.read_text(encoding="utf-8"))
    return HEAD + "\n" + "".join(f"- {each}\n" for each in references)


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
