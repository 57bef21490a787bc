"""Put the results of `unshuffle reproduce` into their page: sentences, pictures and Table 3.

Of several folders the first that has drawn an item tells it, so that full runs go before quick
ones. Sentences are those of the runs, word for word; what stands outside the marks is written by
hand.

Run: python docs/make_reproduction.py FOLDER [FOLDER…]
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from unshuffle.experiments import EXPERIMENTS, load_experiment
from unshuffle.experiments.paper.table2 import ONE_SPLIT

HERE = Path(__file__).parent
PAGE = HERE / "reproduction.md"
HEAD = "| item | in print | agrees | run | what it finds |\n|---|---|---|---|---|"
WORDS = {
    "Agrees": "yes",
    "Agrees in part": "partly",
    "Cannot be checked": "cannot be checked",
    ONE_SPLIT: "one split",
}


def find_drawn(name: str, folders: list[Path]) -> tuple[Path, dict] | None:
    """Return the folder that tells an item, and what it has drawn."""
    for folder in folders:
        path = folder / "drawn" / f"{name}.json"
        if path.exists():
            return folder, json.loads(path.read_text(encoding="utf-8"))
    return None


def write_row(name: str, drawn: dict) -> str:
    """Return an item's line of the table."""
    word, _, rest = drawn["verdict"].partition(": ")
    size = "quick" if drawn["is_quick"] else "full"
    run = f"{size}, {drawn['n_rows']} fits" if drawn["n_rows"] else size
    rest = rest.replace("|", r"\|")
    finding = rest if rest[1] == " " else rest[0].upper() + rest[1:]  # "n and d" stay as they are
    return f"| `{name}` | {load_experiment(name).place} | {WORDS[word]} | {run} | {finding} |"


def replace_between(text: str, mark: str, content: str) -> str:
    """Return the page with other content between the marks of that name."""
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)"
    if not re.search(pattern, text, re.DOTALL):
        raise SystemExit(f"{PAGE.name} has no marks called '{mark}'")
    return re.sub(
        pattern, lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text, flags=re.DOTALL
    )


def main(folders: list[Path]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines, seconds, n_fits = [HEAD], 0.0, 0
    for name in EXPERIMENTS:
        found = find_drawn(name, folders)
        if found is None:
            raise SystemExit(f"{name} is drawn in none of the folders")
        folder, drawn = found
        lines.append(write_row(name, drawn))
        seconds, n_fits = seconds + drawn["seconds"], n_fits + drawn["n_rows"]
        for file in drawn["files"]:
            if file.endswith(".svg"):
                shutil.copy(folder / file, HERE / "images" / "paper" / Path(file).name)
        if name == "table3":
            table = (folder / "tables" / "table3-1.md").read_text(encoding="utf-8")
            text = replace_between(text, "table 3", table[table.index("| data") :].rstrip())
    lines += ["", f"Together {n_fits} fits, {seconds / 60:.0f} minutes of processor time."]
    PAGE.write_text(replace_between(text, "results", "\n".join(lines)), encoding="utf-8")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
