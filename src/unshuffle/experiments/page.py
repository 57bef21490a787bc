"""One offline HTML page with every figure and table that was drawn in a folder.

Each experiment has a file `drawn/NAME.json`: the verdict, what it was drawn from and the files that
were written. The page reads these files alone, and shows all drawings in the folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unshuffle.errors import InputError
from unshuffle.experiments import EXPERIMENTS, load_experiment
from unshuffle.experiments.drawing import Drawing, save_drawing
from unshuffle.experiments.origin import library_version
from unshuffle.experiments.runner import rows_path
from unshuffle.formatting import show_time
from unshuffle.io.writing import write_whole
from unshuffle.results.report import fill_template


@dataclass(frozen=True)
class Drawn:
    """What the page has to know of one drawing; `files` are relative to the folder."""

    verdict: str
    is_quick: bool
    n_rows: int
    seconds: float
    left_out: list[str]
    files: list[str]


def save_drawn(out: Path, name: str, drawing: Drawing, rows: Sequence[Any], **facts: Any) -> None:
    """Write figure and sheets, remove those of an earlier drawing, and then say what is there."""
    before = load_drawn(out, name)
    written = [path.relative_to(out).as_posix() for path in save_drawing(drawing, name, out)]
    for old in set(before.files if before else ()) - set(written):
        (out / old).unlink(missing_ok=True)
    (out / "drawn").mkdir(exist_ok=True)
    seconds = sum(float(row["seconds"]) for row in rows)
    drawn = Drawn(drawing.verdict, n_rows=len(rows), seconds=seconds, files=written, **facts)
    write_whole(_drawn_path(out, name), json.dumps(asdict(drawn), indent=1, ensure_ascii=False))


def load_drawn(out: Path, name: str) -> Drawn | None:
    """Return what was drawn of an experiment, or None."""
    path = _drawn_path(out, name)
    try:
        return Drawn(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, TypeError, ValueError) as exc:
        raise InputError(f"{path} is damaged: delete it and run again with --step draw") from exc


def _drawn_path(out: Path, name: str) -> Path:
    return out / "drawn" / f"{name}.json"


def write_page(out: Path, seed: int, left_out: Sequence[str] = ()) -> Path:
    """Write the page of everything drawn in a folder; all that it needs is inside it."""
    found = {name: load_drawn(out, name) for name in EXPERIMENTS}
    items = [_describe(out, name, drawn) for name, drawn in found.items() if drawn is not None]
    if not items:
        raise InputError(
            f"nothing is drawn in {out}: run without --step, or with --step draw first"
        )
    page = fill_template(
        "reproduction.html",
        items=items,
        seed=seed,
        version=library_version(),
        left_out=left_out,
        undrawn=[_describe_undrawn(out, name) for name in EXPERIMENTS if found[name] is None],
        total=show_time(sum(item["seconds"] for item in items)),
        n_rows=sum(item["n_rows"] for item in items),
    )
    return write_whole(out / "index.html", page)


def _describe(out: Path, name: str, drawn: Drawn) -> dict[str, Any]:
    experiment = load_experiment(name)
    word, _, rest = drawn.verdict.partition(":")
    try:
        texts = {
            each: (out / each).read_text("utf-8")
            for each in drawn.files
            if each.endswith((".svg", ".html"))
        }
    except OSError as exc:
        raise InputError(f"{exc.filename} is gone: run again with --step draw") from exc
    svg = next((text for each, text in texts.items() if each.endswith(".svg")), "")
    return {
        "name": name,
        "title": experiment.title,
        "place": experiment.place,
        "caption": experiment.caption,
        "choices": experiment.choices,
        "word": word,
        "rest": rest,
        "agrees": word == "Agrees",
        "is_quick": drawn.is_quick,
        # The XML head of an SVG file has no place inside HTML.
        "svg": svg[svg.index("<svg") :] if svg else "",
        "sheets": [text for each, text in texts.items() if each.endswith(".html")],
        "left_out": drawn.left_out,
        "n_rows": drawn.n_rows,
        "seconds": drawn.seconds,
        "minutes": show_time(drawn.seconds),
    }


def _describe_undrawn(out: Path, name: str) -> dict[str, str]:
    is_run = rows_path(out, name).exists()
    reason = "has rows, but is not drawn" if is_run else "has not been run"
    return {"name": name, "place": load_experiment(name).place, "reason": reason}
