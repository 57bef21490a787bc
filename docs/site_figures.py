"""Figures of the prose pages, in numbers and pictures, from the benchmarks' files as they are.

A page holds its figures as text, so that it can be read as it lies here. A comment behind a figure
names what it quotes (``0.25<!-- clean_error_4 -->``), and two comments stand around a longer text
(``<!-- limits -->`` and ``<!-- end of limits -->``).

Run: python docs/site_figures.py     puts the figures as they are now into the pages
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from benchmark_tables import TABLES
from plain_links import link_page

from unshuffle.results.limits import LIMITS, LINKS_LIMITS

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "results"
QUOTE = re.compile(r"(?:–|\d[\d.]*(?: to \d[\d.]*)?)<!-- (\w+) -->")
SCHEMAS = ("describe", "fit", "compare", "predict", "plan", "audit")
BAGS = ("1", "4", "10", "natural")
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#6b7075"
CORPORA = ("clean", "noisy")
WRONG = 0.3  # the error above which a fit that is called identified is wrong
KINDS = {
    "obeys": "as the model says",
    "offset": "offsets between bags",
    "offset_means": "offsets, bags that differ",
    "curve": "curved mean",
    "curve_means": "curved, bags that differ",
    "uneven": "noise grows with the label",
    "uneven_strong": "noise grows strongly",
    "uneven_normal": "noise grows, normal columns",
    "skewed": "skewed noise",
    "two_point": "noise of two values",
    "t3": "heavy tails",
    "outliers": "outliers",
    "discrete": "whole-number columns",
    "correlated": "correlated columns",
    "binary": "binary columns",
}


def read_table(name: str) -> list[dict[str, str]]:
    """Read the first table of a Markdown file, a dictionary for each line."""
    lines = (RESULTS / name).read_text(encoding="utf-8").splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


def quote_corpus() -> dict[str, str]:
    """Return what the pages quote of the corpora: {clean_error_4: "0.46", …}, shares in percent."""
    found, quotes = read_corpus(), {}
    for corpus in CORPORA:
        for bags in BAGS:
            own, ls = found["head", corpus, bags], found["ls", corpus, bags]

            def mean(name: str, rows: list[dict[str, str]] = own) -> float:
                return float(np.mean([float(row[name]) for row in rows]))

            signs = mean("signs")
            sure = [row for row in own if row["verdict"] in ("identified", "True")]
            values = {
                "error": f"{mean('error'):.2f}",
                "ls": f"{mean('error', ls):.2f}",
                "coverage": f"{100 * mean('covered'):.0f}",
                "score": f"{mean('score'):.2f}",
                "fits": str(len(own)),
                "identified": str(len(sure)),
                "wrong": str(sum(float(row["error"]) > WRONG for row in sure)),
                "signs": f"{100 * signs:.0f}",
                "wrong_signs": f"{100 * mean('wrong_signs') / max(signs, 1e-9):.1f}",
                "seconds": f"{mean('seconds'):.1f}",
            }
            quotes.update({f"{corpus}_{name}_{bags}": text for name, text in values.items()})
    return quotes


def quote_speed() -> dict[str, str]:
    """Return times beside the peer: {speed_ls_ms: "21", speed_ls_ratio: "33", …}."""
    text = (RESULTS / "speed.txt").read_text(encoding="utf-8")
    quotes = {"speed_commit": re.findall(r"Commit (\w+)", text)[0]}
    case = r"│ +(LS|SM|P1|P2|EMD|KS)(?:, K = 5)?, (?:50 starts|per start) │"
    for name, ours, ratio in re.findall(case + r" +([\d.]+) ms │[^│]*│ +([\d.]+) ×", text):
        quotes.setdefault(f"speed_{name.lower()}_ms", f"{float(ours):.0f}")
        quotes.setdefault(f"speed_{name.lower()}_ratio", ratio)
    return quotes


def quote_design() -> dict[str, str]:
    """Return errors of designed bags over those of random ones, by what fits are told of offsets.

    {design_none_none: "0.59", design_none_none_spread: "0.08", design_none_none_8: "0.53", …}
    """
    line = re.compile(
        r"plan bags \(offsets (\w+)\) to random bags \(offsets (\w+)\): "
        r"geometric mean (\S+) ± (\S+) .*R = 2 (\S+), R = 4 (\S+), R = 8 (\S+)\)"
    )
    quotes = {}
    for plan, random, *numbers in line.findall((RESULTS / "design.md").read_text("utf-8")):
        names = ("", "_spread", "_2", "_4", "_8")
        for name, number in zip(names, numbers, strict=True):
            quotes[f"design_{plan}_{random}{name}"] = f"{float(number):.2f}"
    return quotes


def quote_audit() -> dict[str, str]:
    """Return of how many tables `match` does what the audit states: {audit_inside: "10", …}."""
    text = (RESULTS / "audit.md").read_text(encoding="utf-8")
    found = re.search(r"^(\d+) of (\d+) shares of `match`", text, re.MULTILINE)
    assert found is not None
    return {"audit_inside": found[1], "audit_tables": found[2]}


def quote_certified() -> dict[str, str]:
    """Return the seconds that proofs take: {certified_100_3: "0.02", …}."""
    text = (RESULTS / "certified.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| (\d+) \| (\d) \| ([\d.]+) \|", text, re.MULTILINE)
    return {f"certified_{n}_{d}": f"{float(seconds):.2g}" for n, d, seconds in found}


def quote_sizes() -> dict[str, str]:
    """Return the numbers of real tables, with natural bags too, and seconds of a million rows."""
    corpus = read_corpus()
    counts = {
        f"tables_{bags}": str(sum(len(corpus["head", name, bags]) for name in CORPORA))
        for bags in ("1", "natural")
    }
    seconds: dict[str, list[float]] = {}
    with (RESULTS / "scale.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["n"] == "1000000":
                seconds.setdefault(row["case"], []).append(float(row["seconds"]))
    medians = sorted(float(np.median(each)) for each in seconds.values())
    return {**counts, "million_seconds": f"{medians[0]:.0f} to {medians[-1]:.0f}"}


def quote_cluster() -> dict[str, str]:
    """Return measured costs of a pass, as the simulation of clusters takes them."""
    text = (RESULTS / "cluster.txt").read_text(encoding="utf-8")
    costs = {name: float(number) for name, number in re.findall(r"(\w+)=([\d.e+-]+)", text)}
    return {
        "cluster_row": f"{1e6 * costs['row']:.1f}",
        "cluster_host": f"{costs['host']:.1f}",
        "cluster_matching": f"{costs['matching']:.1f}",
        "cluster_passes": f"{costs['n_passes']:.0f}",
        "cluster_waits": f"{costs['n_waits']:.0f}",
        "cluster_bytes": f"{costs['total_bytes'] / 1e6:.1f}",
        "cluster_merge": f"{1e3 * costs['merge']:.1f}",
    }


def quote_violations() -> dict[str, str]:
    """Return how many intervals hold where the model is wrong in the worst way, in percent."""
    worst = [
        float(r["coverage"]) for r in read_table("violations.md") if r["kind"] == "uneven_strong"
    ]
    low, high = (f"{100 * share:.0f}" for share in (min(worst), max(worst)))
    return {"violations_worst": low if low == high else f"{low} to {high}"}


def quote_all() -> dict[str, str]:
    """Return everything that pages quote from the files of the benchmarks."""
    kinds = (
        quote_corpus,
        quote_sizes,
        quote_speed,
        quote_design,
        quote_certified,
        quote_cluster,
        quote_violations,
        quote_audit,
    )
    return {name: text for quote in kinds for name, text in quote().items()}


def quote_texts() -> dict[str, str]:
    """Return the longer texts that pages quote: from the package, and tables of the benchmarks."""
    schemas = {f"{name}_schema": describe_schema(name) for name in SCHEMAS}
    tables = {name: make() for name, make in TABLES.items()}
    return {"limits": f"> {LIMITS}", "links_limits": f"> {LINKS_LIMITS}", **schemas, **tables}


def quote_page(text: str, quotes: Mapping[str, str], texts: Mapping[str, str]) -> str:
    """Return a page with its figures and texts as they are now."""
    text = QUOTE.sub(lambda found: f"{quotes[found[1]]}<!-- {found[1]} -->", text)
    for name, content in texts.items():
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)",
            lambda found, content=content: f"{found[1]}\n{content}\n\n{found[2]}",
            text,
            flags=re.DOTALL,
        )
    return text


def write_pages() -> None:
    """Put the figures and texts as they are now into the pages, and links for roles."""
    quotes, texts = quote_all(), quote_texts()
    for page in sorted(HERE.rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = link_page(quote_page(before, quotes, texts), page)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{page.relative_to(HERE)}: figures or links changed")


def describe_schema(name: str = "fit") -> str:
    """Return tables in Markdown of every key of the JSON of a command, part by part."""
    text = (resources.files("unshuffle") / "schema" / f"{name}.schema.json").read_text("utf-8")
    schema = json.loads(text)
    parts = {"The object": schema, **{f"`{k}`": v for k, v in schema["$defs"].items()}}
    blocks = []
    for title, part in parts.items():
        rows = [
            f"| `{key}` | {_kind(entry)} | {escape_bars(entry['description'])} |"
            for key, entry in part.get("properties", {}).items()
        ]
        if rows:
            head = ["| key | kind | meaning |", "|---|---|---|"]
            blocks.append("\n".join([f"**{title}**", "", *head, *rows]))
    return "\n\n".join(blocks)


def escape_bars(text: str) -> str:
    """Return a text as a cell of a table in Markdown."""
    return text.replace("|", r"\|")


def _kind(entry: dict) -> str:
    """Say in a word or two what a key holds."""
    if "anyOf" in entry:
        return " or ".join(_kind(each) for each in entry["anyOf"])
    if "$ref" in entry:
        return f"`{entry['$ref'].rsplit('/', 1)[1]}`"
    if "enum" in entry:
        return " or ".join(json.dumps(each) for each in entry["enum"])
    kind = entry.get("type", "anything")
    words = " or ".join(kind) if isinstance(kind, list) else kind
    if words == "array" and "items" in entry:
        return f"array of {_kind(entry['items'])}"
    if words == "object" and isinstance(entry.get("additionalProperties"), dict):
        return f"object of {_kind(entry['additionalProperties'])}"
    return words


def read_corpus() -> dict[tuple[str, str, str], list[dict[str, str]]]:
    """Return the fits of the corpora by version, corpus and bags."""
    found: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    with (RESULTS / "corpus.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["part"] == "bags":
                found.setdefault((row["label"], row["corpus"], row["case"]), []).append(row)
    return found


def write_samples(folder: Path) -> None:
    """Write the pages that the commands write, so that a reader sees them before installing."""
    from contextlib import chdir, redirect_stderr, redirect_stdout
    from io import StringIO

    from unshuffle.cli.app import run

    folder.mkdir(parents=True, exist_ok=True)
    small = ["-n", "200", "-d", "3", "--bags", "20", "--noise", "0.3", "--linked", "--seed", "1"]
    released = ["--label", "linked", "--bag", "bag", "--exclude", "y", "--method", "ls"]
    # Pages tell the command that made them, which should not hold the folders of a machine.
    with chdir(folder), redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
        for command in (
            ["demo", "--out", "demo.html"],
            ["simulate", *small, "--out", "register.csv"],
            ["audit", "register.csv", *released, "--report", "audit.html"],
        ):
            if run(command) != 0:
                raise RuntimeError(f"{command}: {said.getvalue()}")
        Path("register.csv").unlink()


def draw_all(folder: Path) -> None:
    """Draw every picture of the prose pages."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from unshuffle.results.pictures.drawing import render_figure

    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in (("corpus", draw_corpus), ("violations", draw_violations)):
        figure = draw()
        (folder / f"{name}.svg").write_bytes(render_figure(figure, "svg"))
        plt.close(figure)  # or the gallery would take it for one of its own


def draw_corpus():
    """Draw errors on the real tables by number of bags, and coverage of intervals."""
    import matplotlib.pyplot as plt

    found, quotes = read_corpus(), quote_corpus()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    places = np.arange(len(BAGS))
    cases = [
        (label, corpus, colour, mark)
        for corpus, colour in (("clean", BLUE), ("noisy", ORANGE))
        for label, mark in (("head", "o"), ("ls", "x"))
    ]
    for k, (label, corpus, colour, mark) in enumerate(cases):
        errors = [np.array([float(r["error"]) for r in found[label, corpus, b]]) for b in BAGS]
        at = places + 0.18 * (k - 1.5)
        low, high = np.array([np.quantile(e, [0.25, 0.75]) for e in errors]).T
        left.vlines(at, low, high, color=colour, lw=4, alpha=0.25)
        name = f"{'default' if label == 'head' else 'least squares'}, {corpus} tables"
        left.plot(at, [e.mean() for e in errors], mark, color=colour, label=name)
    left.axhline(1.0, color="0.3", lw=0.8, ls=":")
    left.set_ylim(0, 1.25 * left.get_ylim()[1])  # room for the legend
    left.set_ylabel("relative error of the coefficients")
    left.set_title("marks: mean, bars: middle half of the tables", fontsize=9)
    left.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
    for shift, corpus, colour in ((-0.17, "clean", BLUE), (0.17, "noisy", ORANGE)):
        heights = [float(quotes[f"{corpus}_coverage_{b}"]) for b in BAGS]
        right.bar(places + shift, heights, 0.3, color=colour, label=f"{corpus} tables")
    right.axhline(95, color="0.3", lw=0.8, ls=":")
    right.set_ylim(0, 118)
    right.set_yticks([0, 25, 50, 75, 95])
    right.set_ylabel("coverage of 95 % intervals, %")
    right.legend(frameon=False, fontsize=8, loc="upper left")
    for ax in (left, right):
        ax.set_xticks(places, ["1 bag", "4 bags", "10 bags", "natural"])
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def draw_violations():
    """Draw what wrong models cost: coverage of intervals, and the share of fits that say so."""
    import matplotlib.pyplot as plt

    rows = read_table("violations.md")
    sizes = list(dict.fromkeys((r["n"], r["d"], r["bags"]) for r in rows))
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained", sharey=True)
    kinds = sorted({r["kind"] for r in rows}, key=[*KINDS, *(r["kind"] for r in rows)].index)
    places = np.arange(len(kinds))
    for k, size in enumerate(sizes):
        of = {r["kind"]: r for r in rows if (r["n"], r["d"], r["bags"]) == size}
        label = f"n = {size[0]}, d = {size[1]}, {size[2]} bags"
        marks = {"marker": "os"[k % 2], "color": (BLUE, ORANGE)[k % 2], "ls": "none"}
        at = places + 0.24 * k - 0.12
        for ax, column in ((axes[0], "coverage"), (axes[1], "any")):
            there = [kind in of for kind in kinds]
            shares = [100 * float(of[kind][column]) for kind in kinds if kind in of]
            ax.plot(shares, at[there], label=label, **marks)
    axes[0].axvline(95, color="0.3", lw=0.8, ls=":")
    axes[0].set_xlim(60, 102)
    axes[0].set_xlabel("coverage of 95 % intervals, %")
    axes[1].set_xlim(-4, 104)
    axes[1].set_xlabel("fits that report a misfit, %")
    axes[1].legend(frameon=False, fontsize=8, loc="lower right")
    axes[0].set_yticks(places, [KINDS.get(kind, kind) for kind in kinds])
    axes[0].invert_yaxis()
    for ax in axes:
        ax.grid(axis="y", color="0.9")
        ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    write_pages()
