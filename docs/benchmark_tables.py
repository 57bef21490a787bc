"""The tables of `benchmarks.md`, from the files of `benchmarks/results` as they are.

Each function returns Markdown; `site_figures.py` puts it between the comments of its name
(``<!-- bench_corpus -->`` and ``<!-- end of bench_corpus -->``). A file that is missing gives a
sentence in place of a table.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
WRONG = 0.3  # the error above which a fit that is called identified is wrong
# A heading, and what becomes of a cell below it.
Column = tuple[str, Callable[[str], str]]
VERSIONS = {"head": "default", "ls": "`ls`"}
FEATURES = {
    "anchors": "15 % of the pairs known",
    "separate samples": "separate samples",
    "histograms": "labels as histograms",
    "half missing": "half of the labels missing",
}
# Commits of version 0.1.0 whose rows may still be in the results.
RELEASED = {"efc02b1"}
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
METHOD_NAMES = {"auto": "default", "negative-control": "regression on shuffled labels"}
SCALE_CASES = {
    "normal": "the model holds, normal columns, 20 random bags",
    "exponential": "the same, exponential columns",
    "differing": "the same, bags that differ in their rows",
    "one row": "one bag and one known pair, columns of one distribution",
    "real": "real tables resampled to so many rows, 10 random bags",
}


def tabulate(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def read_text(name: str) -> str:
    """Return a file of results; an empty text where it is missing."""
    path = RESULTS / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def read_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file of results; none where it is missing."""
    return list(csv.DictReader(read_text(name).splitlines()))


def read_tables(text: str) -> list[list[dict[str, str]]]:
    """Return the tables of a text in Markdown, in their order."""
    found = []
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in block.splitlines()]
        head, _, *rows = cells
        # A heading that comes twice is numbered the second time.
        names = [f"{name} ({head[:k].count(name) + 1})" if name in head[:k] else name
                 for k, name in enumerate(head)]  # fmt: skip
        found.append([dict(zip(names, row, strict=False)) for row in rows])
    return found


def pick(rows: Sequence[dict[str, str]], columns: Mapping[str, Column]) -> str:
    """Return a table of some columns, with headings and forms of their own.

    Columns that the rows do not have are left out.
    """
    if not rows:
        return "No results are here."
    there = {name: each for name, each in columns.items() if name in rows[0]}
    return tabulate(
        [heading for heading, _ in there.values()],
        ([form(row[name]) for name, (_, form) in there.items()] for row in rows),
    )


def find_rows(name: str, column: str, section: str = "") -> list[dict[str, str]]:
    """Return the rows of all tables of a file, or of one section of it, that have a column."""
    text = read_text(name)
    if section:
        text = next((t for t in text.split("## ") if t.startswith(f"{section}\n")), "")
    tables = read_tables(text)
    return [row for table in tables if table and column in table[0] for row in table]


def name_commits(rows: Iterable[dict[str, str]]) -> str:
    """Say which commits made some rows."""
    counts = Counter(row["commit"] for row in rows if row.get("commit", "-") != "-")
    return f"Commits: {', '.join(f'`{name}`' for name in sorted(counts))}." if counts else ""


def percent(share: str) -> str:
    """Return "0.962 ± 0.011" as "96 ± 1"; "–" stays."""
    numbers = re.findall(r"[\d.]+", share)
    return "\u00a0±\u00a0".join(f"{100 * float(x):.0f}" for x in numbers) if numbers else "–"


def join(row: dict[str, str], *names: str) -> str:
    """Return some cells of a row, with commas between them."""
    return ", ".join(row[name] for name in names)


def end(text: str, closing: str) -> str:
    """Return a table with a closing line, if there is one."""
    return f"{text}\n\n{closing}".strip()


def same(cell: str) -> str:
    """Return a cell as it is, an error beside its number."""
    return cell.replace(" ± ", "\u00a0±\u00a0")


def tabulate_corpus() -> str:
    """Real tables: errors, coverage and verdicts by corpus and bags."""
    rows = [
        {**row, "verdict": f"{row['identified']} ({row['of these wrong']})".replace("– (–)", "–")}
        for row in find_rows("corpus.md", "RMS error", "Bags")
        if row["version"] in VERSIONS
    ]
    return pick(
        rows,
        {
            "corpus": ("tables", same),
            "bags": ("bags", same),
            "version": ("method", VERSIONS.__getitem__),
            "fits": ("fits", same),
            "mean error": ("mean error", same),
            "RMS error": ("RMS error", same),
            "coverage": ("coverage, %", percent),
            "interval score": ("interval score", same),
            "verdict": ("identified (wrong)", same),
            "CPU s": ("CPU s", same),
        },
    )


def tabulate_features() -> str:
    """Real tables with anchors, separate samples, histograms and missing labels."""
    rows = [row for row in find_rows("corpus.md", "RMS error") if row["bags"] in FEATURES]
    return pick(
        [row for row in rows if row["version"] == "head"],
        {
            "bags": ("data", FEATURES.__getitem__),
            "fits": ("fits", same),
            "mean error": ("mean error", same),
            "coverage": ("coverage, %", percent),
            "interval score": ("interval score", same),
            "identified": ("identified", same),
            "CPU s": ("CPU s", same),
        },
    )


def tabulate_means() -> str:
    """Bags known by their means, beside weighted least squares on these means."""
    found: dict[tuple[str, str], dict[str, dict[str, list[tuple[float, float]]]]] = {}
    for row in read_rows("corpus.csv"):
        if row["part"] == "means":
            own = found.setdefault((row["corpus"], row["case"]), {})
            fits = own.setdefault(row["table"], {}).setdefault(row["label"], [])
            fits.append((float(row["error"]), float(row["covered"])))
    lines = []
    for (corpus, bags), tables in sorted(found.items()):
        both = [each for each in tables.values() if {"wls", "head"} <= each.keys()]
        if not both:
            continue
        means = {
            label: np.array([np.mean(each[label], axis=0) for each in both])
            for label in ("wls", "head")
        }
        (wls, covered_wls), (head, covered) = (each.mean(axis=0) for each in means.values())
        gaps = means["head"][:, 0] - means["wls"][:, 0]
        spread = gaps.std(ddof=1) / np.sqrt(len(gaps))
        lines.append(
            [
                corpus, bags, str(len(both)), f"{wls:.3f}", f"{head:.3f}",
                same(f"{gaps.mean():+.3f} ± {spread:.3f}").replace("-", "−"),
                f"{100 * covered_wls:.0f}", f"{100 * covered:.0f}",
            ]
        )  # fmt: skip
    head_line = [
        "tables", "bags", "number of tables", "error, WLS", "error", "difference",
        "coverage, WLS, %", "coverage, %",
    ]  # fmt: skip
    return tabulate(head_line, lines) if lines else "No results are here."


def tabulate_misfit() -> str:
    """Coverage on real tables by the misfit that is reported."""
    return pick(
        find_rows("corpus.md", "misfit"),
        {
            "misfit": ("misfit reported", same),
            "fits": ("fits", same),
            "coverage": ("coverage, %", percent),
            "interval score": ("interval score", same),
        },
    )


def tabulate_matches() -> str:
    """Predictions and matches on real tables."""
    return pick(
        [r for r in find_rows("corpus.md", "predictive coverage") if r["version"] == "head"],
        {
            "corpus": ("tables", same),
            "bags": ("bags", same),
            "predictive coverage": ("coverage of new labels, %", percent),
            "share right": (
                "mean match probability → share right, %",
                lambda cell: " → ".join(percent(each) for each in cell.split(" → ")),
            ),
            "match probability": ("calibration error", _calibration_error),
        },
    )


def _calibration_error(cell: str) -> str:
    """Return the mean gap between probabilities of matches and shares that are right."""
    pairs = [pair.split(" → ") for pair in cell.split("; ")]
    return f"{np.mean([abs(float(given) - float(found)) for given, found in pairs]):.2f}"


def tabulate_accuracy() -> str:
    """The paper's thirteen data sets: errors by method over the 65 cells."""
    rows = read_rows("accuracy.csv")
    if not rows:
        return "No results are here: `make accuracy`."
    cells: dict[str, dict[tuple[str, str], list[float]]] = {}
    commits: dict[str, set[str]] = {}
    for row in rows:
        if row["seed"] == "0":
            own = cells.setdefault(row["method"], {})
            if row["error"] not in ("", "nan"):  # fewer bags than coefficients have no means
                own.setdefault((row["data"], row["bags"]), []).append(float(row["error"]))
            commits.setdefault(row["method"], set()).add(row["commit"])
    lines = []
    printed = [float(row["printed"]) for row in read_tables(read_text("accuracy.md"))[0]]
    is_old = commits.get("auto", set()) <= RELEASED
    names = METHOD_NAMES | ({"auto": "default of version 0.1.0"} if is_old else {})
    everything = {"printed in the paper": (printed, "–")} | {
        names.get(name, f"`{name}`"): (
            [float(np.mean(errors)) for errors in own.values()],
            ", ".join(sorted(commits[name])).replace("-", "–"),
        )
        for name, own in cells.items()
    }
    for name, (errors, commit) in everything.items():
        found = np.array(errors)
        lines.append(
            [
                name, str(len(found)), f"{found.mean():.2f}", f"{np.median(found):.2f}",
                str(int((found < 0.3).sum())), str(int((found > 1).sum())), commit,
            ]
        )  # fmt: skip
    head = ["method", "cells", "mean error", "median", "below 0.3", "above 1", "commit"]
    later = "The default of this version is in the decision below." if is_old else ""
    return end(tabulate(head, lines), later)


def tabulate_violations() -> str:
    """Wrong models: coverage, errors, and what is reported."""
    from site_figures import KINDS

    rows = find_rows("violations.md", "kind")
    rows.sort(key=lambda row: (int(row["n"]), [*KINDS, row["kind"]].index(row["kind"])))
    table = pick(
        [{**row, "size": join(row, "n", "d", "bags")} for row in rows],
        {
            "size": ("n, d, bags", same),
            "kind": ("data", lambda kind: KINDS.get(kind, kind)),
            "coverage": ("coverage, %", percent),
            "error": ("error", same),
            "ls": ("error of `ls`", same),
            "any": ("misfit reported, %", percent),
        },
    )
    return end(table, name_commits(read_rows("violations.csv")))


def tabulate_linkage() -> str:
    """Wrong links in simulations, with the mismatch rate estimated."""
    table = pick(
        find_rows("linkage.md", "OLS"),
        {
            "noise": ("noise sd", same),
            "shuffled": ("links wrong", same),
            "trials": ("fits", same),
            "ours": ("default", same),
            "OLS": ("OLS", same),
            "Huber": ("Huber", same),
            "coverage": ("coverage", same),
        },
    )
    return end(table, name_commits(read_rows("linkage.csv")))


def tabulate_scale() -> str:
    """Very many rows: coverage, verdicts, errors and seconds."""
    rows = read_rows("scale.csv")
    lines = []
    for n in sorted({int(row["n"]) for row in rows}):
        for case, words in SCALE_CASES.items():
            own = [r for r in rows if r["case"].split(":")[0] == case and int(r["n"]) == n]
            if not own:
                continue
            values = {
                name: np.array([float(row[name]) for row in own])
                for name in ("covered", "identified", "error", "sm", "seconds")
            }
            wrong = (values["identified"] == 1) & (values["error"] > WRONG)
            lines.append(
                [
                    f"10{_raise(round(np.log10(n)))}", words, str(len(own)),
                    f"{100 * values['covered'].mean():.0f}",
                    f"{100 * values['identified'].mean():.0f}", str(int(wrong.sum())),
                    f"{values['error'].mean() / values['sm'].mean():.2f}",
                    f"{np.median(values['seconds']):.1f}",
                ]
            )  # fmt: skip
    head = [
        "rows", "data", "fits", "coverage, %", "identified, %", "of these wrong",
        "error / that of `sm`", "CPU s (median)",
    ]  # fmt: skip
    return end(tabulate(head, lines), name_commits(rows))


def _raise(power: int) -> str:
    return "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(power))


def tabulate_gpu() -> str:
    """Times of fits on a graphics card."""
    text = read_text("gpu.txt")
    card = text.splitlines()[0].split(";")[0] if text else ""
    rows = []
    for n, where, seconds in re.findall(r"fit of n = (\S+) (.*?): ([\d.]+) s", text):
        place = re.sub(r" \(seed.*", "", where)
        place = place.replace("drawn on the card", "on the card, rows drawn there")
        rows.append([f"{float(n):.0e}".replace("e+0", " · 10").replace("1 · ", ""), place, seconds])
    rows = [[re.sub(r"10(\d)$", lambda m: f"10{_raise(int(m[1]))}", r[0]), *r[1:]] for r in rows]
    return end(tabulate(["rows", "where", "seconds"], rows), f"Card: {card}." if card else "")


def tabulate_inference() -> str:
    """Simulations that obey the model: coverage and verdicts."""
    rows = find_rows("inference.md", "features")
    table = pick(
        [{**row, "size": join(row, "n", "d", "R")} for row in rows],
        {
            "size": ("n, d, bags", same),
            "features": ("columns", same),
            "dB": ("dB", same),
            "noise": ("noise", same),
            "fits": ("fits", same),
            "coverage": ("coverage, %", percent),
            "identified": ("identified, %", percent),
            "error": ("error", same),
        },
    )
    return end(table, name_commits(read_rows("inference.csv")))


def tabulate_prediction() -> str:
    """Intervals at new rows in simulations that obey the model."""
    table = pick(
        find_rows("prediction.md", "new label"),
        {
            "rows": ("rows", same),
            "bags": ("bags", same),
            "dB": ("dB", same),
            "fits": ("fits", same),
            "prediction": ("mean label covered", same),
            "new label": ("new label covered", same),
        },
    )
    return end(table, _find_commit(read_text("prediction.md")))


def tabulate_pairings() -> str:
    """Analyses of completed tables, pooled by Rubin's rules."""
    table = pick(
        find_rows("pairings.md", "error pooled"),
        {
            "data": ("data", same),
            "tables": ("tables", same),
            "coverage pooled (se)": (
                "coverage pooled, %",
                lambda cell: percent(cell.replace(" (", " ± ").rstrip(")")),
            ),
            "coverage of the fit": ("coverage of the fit, %", percent),
            "error pooled": ("error pooled", same),
            "error of the fit": ("error of the fit", same),
        },
    )
    return end(table, _find_commit(read_text("pairings.md")))


def tabulate_design() -> str:
    """Designed bags against random ones."""
    text = read_text("design.md")
    line = re.compile(
        r"(plan|random) bags \(offsets (\w+)\) to random bags \(offsets (\w+)\): "
        r"geometric mean (\S+) ± (\S+) of \d+ cells \(R = 2 (\S+), R = 4 (\S+), R = 8 (\S+)\)"
    )
    bags, told = {"plan": "designed", "random": "random"}, {"auto": "estimated", "none": "none"}
    rows = [
        [
            f"{bags[kind]}, offsets {told[own]}", f"random, offsets {told[other]}",
            *(f"{float(x):.2f}" for x in numbers[2:]),
            f"{float(numbers[0]):.2f}\u00a0±\u00a0{float(numbers[1]):.2f}",
        ]
        for kind, own, other, *numbers in line.findall(text)
    ]  # fmt: skip
    table = tabulate(["bags", "relative to", "2 runs", "4 runs", "8 runs", "all"], rows)
    return end(table, _find_commit(text))


def tabulate_certified() -> str:
    """Proofs that no matching is better."""
    table = pick(
        find_rows("certified.md", "seconds"),
        {
            "n": ("rows, one bag", same),
            "weights": ("coefficients", same),
            "seconds": ("seconds", lambda cell: f"{float(cell):.2g}"),
        },
    )
    return end(table, _find_commit(read_text("certified.md")))


def tabulate_speed() -> str:
    """Seconds beside shuffled_stats."""
    text = read_text("speed.txt")
    case = re.compile(r"│ +(\S[^│]*?) │ +([\d.]+) ms │ +([\d.]+) ms │ +([\d.]+) × │")
    table = tabulate(
        ["method", "unshuffle, ms", "shuffled_stats, ms", "ratio"],
        ([name, f"{float(a):.0f}", f"{float(b):.0f}", c] for name, a, b, c in case.findall(text)),
    )
    return end(table, _find_commit(text))


def tabulate_cluster() -> str:
    """Costs of a row by stage, and the simulation of clusters."""
    text = read_text("cluster.txt")
    parts = []
    # A title of one or more lines, a frame, the head, and the rows.
    for title, box in re.findall(r"((?:^ +\S.*\n)+)^┏.*\n((?:^[┃┡│].*\n)+)", text, re.MULTILINE):
        rows = [re.split("[┃│]", line)[1:-1] for line in box.splitlines() if line[0] in "┃│"]
        head, *body = [[cell.strip() or "–" for cell in row] for row in rows]
        parts += [f"{_polish_title(title)}:", tabulate(head, body)]
    return "\n\n".join([*parts, _find_commit(text)]) if parts else "No results are here."


def _polish_title(text: str) -> str:
    """Return the title of a printed table as the beginning of a sentence."""
    line = " ".join(text.split())
    line = re.sub(r"\b1e\+?0?(\d+)", lambda found: f"10{found[1].translate(RAISED)}", line)
    return re.sub(r"\b1000000\b", "10⁶", line)


def _find_commit(text: str) -> str:
    found = re.search(r"[Cc]ommit:? ((?:[0-9a-f]{7,}(?:, )?)+)", text)
    if not found:
        return ""
    names = [f"`{each}`" for each in re.findall(r"[0-9a-f]{7,}", found[1])]
    return f"Commit{'s' * (len(names) > 1)}: {', '.join(names)}."


TABLES: dict[str, Callable[[], str]] = {
    "bench_corpus": tabulate_corpus,
    "bench_features": tabulate_features,
    "bench_means": tabulate_means,
    "bench_misfit": tabulate_misfit,
    "bench_matches": tabulate_matches,
    "bench_accuracy": tabulate_accuracy,
    "bench_violations": tabulate_violations,
    "bench_linkage": tabulate_linkage,
    "bench_scale": tabulate_scale,
    "bench_gpu": tabulate_gpu,
    "bench_inference": tabulate_inference,
    "bench_prediction": tabulate_prediction,
    "bench_pairings": tabulate_pairings,
    "bench_design": tabulate_design,
    "bench_certified": tabulate_certified,
    "bench_speed": tabulate_speed,
    "bench_cluster": tabulate_cluster,
}
