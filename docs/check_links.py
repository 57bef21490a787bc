"""See that every link inside the built site leads to a page, and to a place on it, that exists.

Sphinx checks what it resolves itself; this reads what it wrote, so that raw links, pictures and
downloads are seen as well. Links to other sites are left alone: the build needs no network.

Run: python docs/check_links.py docs/_build/html
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Links(HTMLParser):
    """The places of a page, and what it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.targets: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.places.add(value)
            elif name in ("href", "src") and value:
                self.targets.add(value)


def read_page(path: Path) -> Links:
    """Read one page."""
    links = Links()
    links.feed(path.read_text(encoding="utf-8"))
    return links


def find_broken(root: Path) -> list[str]:
    """Return a line for each link that leads nowhere."""
    files = (path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts)
    pages = {path.resolve(): read_page(path) for path in files}
    broken = []
    for path, links in pages.items():
        for target in sorted(links.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            here = path.relative_to(root.resolve())
            if not goal.exists():
                broken.append(f"{here}: {target} is no file")
            elif goal in pages and unquote(parts.fragment) not in {"", *pages[goal].places}:
                broken.append(f"{here}: {target} is no place on that page")
    return broken


if __name__ == "__main__":
    found = find_broken(Path(sys.argv[1]))
    print("\n".join(found) if found else "every link inside the site leads somewhere")
    sys.exit(1 if found else 0)
