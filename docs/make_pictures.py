"""Draw the pictures that prose pages show: of the benchmarks, and of the gallery's scripts.

They are kept in the repository, so that the pages show them on a code host too. The gallery itself
is drawn by every build of the site.

Run: python docs/make_pictures.py [NAME…]     names are those of the gallery's scripts
"""

from __future__ import annotations

import re
import runpy
import sys
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import site_figures  # noqa: E402

from unshuffle.results.pictures.drawing import render_figure  # noqa: E402

SHOWN = re.compile(r"images/gallery/(\w+)\.png")


def find_shown() -> set[str]:
    """Return the names of the gallery's scripts whose pictures pages show."""
    return {name for page in HERE.rglob("*.md") for name in SHOWN.findall(page.read_text("utf-8"))}


def draw_script(name: str) -> None:
    """Run a script of the gallery and keep its picture."""
    plt.close("all")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(str(HERE / "gallery" / f"{name}.py"))
    folder = HERE / "images" / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.png").write_bytes(render_figure(plt.gcf(), "png", dpi=100))


def main(names: list[str]) -> None:
    if not names:
        site_figures.draw_all(HERE / "images" / "benchmarks")
    for name in names or sorted(find_shown()):
        draw_script(name)
        print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
