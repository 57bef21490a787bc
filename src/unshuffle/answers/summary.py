"""What a fit says in tables: estimate, intervals, verdict, competing answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unshuffle.answers.cards import make_card
from unshuffle.answers.known import KNOWN_RULE, UNEXPLORED_RULE, judge_weights
from unshuffle.answers.verdict import (
    Facts,
    competing_answers,
    is_identified,
    list_inseparable,
    make_headline,
    make_verdict,
    model_fits,
)
from unshuffle.core.pairing import Pairing
from unshuffle.core.solution import BagEffects, Certificate, Solution
from unshuffle.errors import InputError
from unshuffle.wording import show_number

_RIVALS = "Competing answers, best first:"


@dataclass(frozen=True)
class SummaryRow:
    """One weight: name, estimate, interval and what is known of it (None without intervals).

    `standardised` is the estimate times the sd of its column: in units of the label, and fit to be
    compared with that of other columns. The intercept has none.
    """

    name: str
    estimate: float
    low: float | None
    high: float | None
    known: str | None = None
    standardised: float | None = None


@dataclass(frozen=True)
class Summary:
    """Everything a fit says, as text, HTML, a frame, a dictionary or LaTeX."""

    verdict: tuple[str, ...]
    rows: tuple[SummaryRow, ...]
    level: float
    noise: float | None
    method: str
    identified: bool | None
    model_fits: bool | None
    misfits: tuple[str, ...]
    inseparable: tuple[tuple[str, str], ...]
    is_converged: bool
    status: str
    n: int
    n_labels: int
    d: int
    n_bags: int
    pairing: Pairing
    offsets: BagEffects | None
    candidates: tuple[dict[str, Any], ...]
    n_competing: int
    priors: tuple[str, ...]
    remarks: tuple[str, ...]
    certificate: Certificate | None = None
    are_offsets_declared: bool = False
    # Pairs that were known, and the share of links that are wrong, given or found.
    n_anchors: int = 0
    mislinked: float | None = None
    # The verdict in a few words, and whether it is good, doubtful or unknown.
    headline: tuple[str, str] = ("Not judged", "unknown")
    # Whether the posterior could be sampled, where there is one.
    is_explored: bool = True

    @property
    def has_intervals(self) -> bool:
        """Whether any weight has an interval."""
        return any(row.low is not None for row in self.rows)

    @property
    def known_rule(self) -> str | None:
        """The rule behind `known`; None where nothing is judged by it."""
        if all(row.known is None for row in self.rows):
            return None
        return KNOWN_RULE if self.is_explored else f"{KNOWN_RULE} {UNEXPLORED_RULE}"

    @property
    def offsets_sentence(self) -> str | None:
        """How probable offsets between bags are and how large, or what was declared of them."""
        if self.offsets is None:
            return None
        return _describe_offsets(self.offsets, self.are_offsets_declared)

    def _table(self) -> list[tuple[str, ...]]:
        """Return the head and one line per weight, with what is known where that is judged."""
        low, high = f"{(1 - self.level) / 2:.1%}", f"{(1 + self.level) / 2:.1%}"
        lines: list[tuple[str, ...]] = [("", "estimate", low, high, "known")]
        for row in self.rows:
            numbers = (show_number(value) for value in (row.estimate, row.low, row.high))
            lines.append((row.name, *numbers, row.known or "–"))
        width = 4 if self.known_rule is None else 5
        return [line[:width] for line in lines]

    def _opening(self) -> list[str]:
        """Return the verdict, and after its first sentence the sizes: bags may be forgotten."""
        rows = "1 row" if self.n == 1 else f"{self.n} rows"
        bags = "one bag" if self.n_bags == 1 else f"{self.n_bags} bags"
        if self.n_labels != self.n:
            rows += " and 1 label" if self.n_labels == 1 else f" and {self.n_labels} labels"
        known = f", {_count_pairs(self.n_anchors)}" if self.n_anchors else ""
        sizes = f"{rows} in {bags}{known}, method {self.method}."
        return [*self.verdict[:1], sizes, *self.verdict[1:]]

    def _facts(self) -> list[str]:
        facts = []
        if not self.pairing.is_usual:
            facts.append(self.pairing.sentence)
        if self.noise is not None:
            facts.append(f"Noise sd {show_number(self.noise)}.")
        if self.offsets_sentence is not None:
            facts.append(self.offsets_sentence)
        if self.certificate is not None:
            facts.append(self.certificate.describe(self.candidates[0]["value"]))
        rule = [] if self.known_rule is None else [self.known_rule]
        return [*rule, *facts, *self.priors, *self.remarks]

    def _rivals(self) -> list[tuple[str, ...]]:
        """Return competing answers, weights down and answers across; none where one stands alone.

        The first line holds their numbers, the second their shares of the posterior.
        """
        if self.n_competing < 2 or self.candidates[0]["share"] is None:
            return []
        shown = self.candidates[: self.n_competing]
        return [
            ("", *(str(place) for place in range(1, len(shown) + 1))),
            ("share", *(f"{c['share']:.0%}" for c in shown)),
            *(
                (row.name, *(show_number(c["weights"][j]) for c in shown))
                for j, row in enumerate(self.rows)
            ),
        ]

    def __str__(self) -> str:
        rivals = self._rivals()
        more = ["", _RIVALS, *_align(rivals)] if rivals else []
        return "\n".join([*self._opening(), "", *_align(self._table()), *more, "", *self._facts()])

    def _repr_html_(self) -> str:
        return self.to_card()

    def to_card(self, title: str = "") -> str:
        """Return HTML for a notebook, below a title such as the model's parameters."""
        tables: list[tuple[str, list[tuple[str, ...]]]] = [("", self._table())]
        if self._rivals():
            tables.append((_RIVALS, self._rivals()))
        return make_card(self.headline, self._opening(), tables, self._facts(), title)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists (None, never NaN, where there is no value).

        This is the JSON of the command line too, described by ``schema/fit.schema.json``. The
        intercept stands apart from the coefficients: a feature may have its name.
        """
        entries = [
            {"estimate": row.estimate, "low": row.low, "high": row.high, "known": row.known}
            for row in self.rows
        ]
        names = [row.name for row in self.rows[: self.d]]
        return {
            "verdict": list(self.verdict),
            "coefficients": dict(zip(names, entries[: self.d], strict=True)),
            "intercept": entries[self.d] if len(entries) > self.d else None,
            "standardised": {row.name: row.standardised for row in self.rows[: self.d]},
            "level": self.level,
            "known_rule": self.known_rule,
            "inseparable": [list(pair) for pair in self.inseparable],
            "noise": self.noise,
            "method": self.method,
            "n": self.n,
            "labels": self.n_labels,
            "d": self.d,
            "bags": self.n_bags,
            "anchors": self.n_anchors,
            "mislinked": self.mislinked,
            "pairing": self.pairing.name,
            "bag_offsets": None
            if self.offsets is None
            else {
                "probability": self.offsets.offset_probability,
                "sd": self.offsets.offset_sd,
                "declared": self.are_offsets_declared,
            },
            "identified": self.identified,
            "model_fits": self.model_fits,
            "misfits": list(self.misfits),
            "converged": self.is_converged,
            "status": self.status,
            "candidates": [dict(c) for c in self.candidates],
            "certificate": _as_proof(self.certificate),
            "priors": list(self.priors),
            "remarks": list(self.remarks),
        }

    def to_frame(self) -> Any:
        """Return the table as a pandas frame."""
        try:
            import pandas
        except ImportError as exc:
            raise InputError("to_frame needs the library pandas: pip install pandas") from exc
        rows = [(row.estimate, row.low, row.high, row.known) for row in self.rows]
        names = [row.name for row in self.rows]
        return pandas.DataFrame(rows, index=names, columns=["estimate", "low", "high", "known"])

    def to_latex(self) -> str:
        """Return the table as a LaTeX tabular."""
        head = ["", "estimate", "low", "high", "known"]
        _, *rows = self._table()
        n_columns = len(rows[0])
        lines = [rf"\begin{{tabular}}{{lrrr{'l' * (n_columns - 4)}}}", r"\hline"]
        lines += [" & ".join(head[:n_columns]) + r" \\", r"\hline"]
        lines += [" & ".join([_latex(name), *cells]) + r" \\" for name, *cells in rows]
        return "\n".join([*lines, r"\hline", r"\end{tabular}"])


def summarise(solution: Solution, facts: Facts, level: float) -> Summary:
    """Put everything a fit says into one object; intervals are None where there are none."""
    identified = is_identified(solution, facts.scales)
    candidates = tuple(
        {
            "weights": [float(w) for w in c.weights],
            "value": c.value,
            "starts": c.n_starts,
            "evidence": c.evidence,
            # A sum of shares passes one by rounding.
            "share": None if c.share is None else min(c.share, 1.0),
            "noise": c.noise,
        }
        for c in solution.candidates
    )
    return Summary(
        verdict=make_verdict(solution, identified, facts),
        rows=_make_rows(solution, facts, level),
        level=level,
        noise=facts.noise,
        method=facts.method,
        identified=identified,
        model_fits=model_fits(solution),
        misfits=solution.misfits or (),
        inseparable=list_inseparable(solution, facts),
        is_converged=not solution.status.is_doubtful,
        status=solution.status.value,
        n=facts.n,
        n_labels=facts.n if facts.n_labels is None else facts.n_labels,
        d=len(facts.scales),
        n_bags=facts.n_bags,
        pairing=facts.pairing,
        offsets=solution.effects,
        candidates=candidates,
        n_competing=len(competing_answers(solution)),
        priors=tuple(solution.stats.get("priors", ())),
        remarks=tuple(solution.stats.get("remarks", ())),
        certificate=solution.certificate,
        are_offsets_declared=facts.are_offsets_declared,
        n_anchors=facts.n_anchors,
        mislinked=solution.stats.get("mislinked"),
        headline=make_headline(solution, identified),
        is_explored=not getattr(solution.uncertainty, "is_thin", False),
    )


def _align(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Return lines of cells as text, the first column to the left."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return [
        line[0].ljust(widths[0])
        + "".join(
            "  " + cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)
        )
        for line in lines
    ]


def _count_pairs(n: int) -> str:
    return "1 pair known" if n == 1 else f"{n} pairs known"


def _as_proof(proof: Certificate | None) -> dict[str, Any] | None:
    """Return what is proven as plain numbers, None where nothing is."""
    if proof is None:
        return None
    found = {"lower_bound": proof.lower_bound, "gap": proof.gap}
    return {"certified": proof.is_complete, **found}


def _make_rows(solution: Solution, facts: Facts, level: float) -> tuple[SummaryRow, ...]:
    """Return the table's rows, without an interval where there is none or it has no ends."""
    unsure, names = solution.uncertainty, facts.names
    scales = [*facts.scales.tolist(), *[None] * (len(names) - len(facts.scales))]
    ends = np.full((len(names), 2), np.inf)
    if unsure is not None and unsure.has_interval:
        ends = unsure.interval(level)
    found = []
    weights, judged = solution.weights.tolist(), judge_weights(solution)
    for name, w, (low, high), known, scale in zip(
        names, weights, ends.tolist(), judged, scales, strict=True
    ):
        pair = (low, high) if np.isfinite([low, high]).all() else (None, None)
        standardised = None if scale is None else w * scale
        found.append(SummaryRow(name, w, pair[0], pair[1], known, standardised))
    return tuple(found)


def _describe_offsets(offsets: BagEffects, are_declared: bool) -> str:
    if are_declared and offsets.offset_probability == 0.0:
        return "Offsets between bags: none, as declared (bag_offsets='none')."
    if offsets.offset_probability == 0.0:
        return "No offsets between bags."
    size = show_number(offsets.offset_sd)
    if are_declared:
        return f"Offsets between bags: declared, sd {size}."
    if offsets.offset_probability < 0.005:
        return "Offsets between bags: none seen (probability below 1 %)."
    return f"Offsets between bags: probability {offsets.offset_probability:.0%}, sd {size}."


def _latex(text: str) -> str:
    """Escape what LaTeX would take for a command."""
    signs = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(signs.get(c, "\\" + c if c in "&%$#_{}" else c) for c in text)
