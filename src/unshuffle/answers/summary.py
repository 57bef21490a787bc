"""What a fit says in tables: estimate, intervals, verdict, competing answers."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import numpy as np

from unshuffle.answers.verdict import (
    WORTH_SAYING,
    Facts,
    is_identified,
    make_verdict,
    model_fits,
)
from unshuffle.core.pairing import Pairing
from unshuffle.core.solution import Certificate, Solution
from unshuffle.errors import InputError

_RIVALS = "Competing answers (posterior share, weights in the order above):"


@dataclass(frozen=True)
class SummaryRow:
    """One weight: its name, estimate and interval (None where the method has none)."""

    name: str
    estimate: float
    low: float | None
    high: float | None


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
    is_converged: bool
    status: str
    n: int
    n_labels: int
    d: int
    n_bags: int
    pairing: Pairing
    candidates: tuple[dict[str, Any], ...]
    priors: tuple[str, ...]
    remarks: tuple[str, ...]
    certificate: Certificate | None = None

    def _cells(self) -> list[tuple[str, str, str, str]]:
        return [
            (row.name, _number(row.estimate), _number(row.low), _number(row.high))
            for row in self.rows
        ]

    def _facts(self) -> list[str]:
        rows = "1 row" if self.n == 1 else f"{self.n} rows"
        bags = "1 bag" if self.n_bags == 1 else f"{self.n_bags} bags"
        if self.n_labels != self.n:
            rows += " and 1 label" if self.n_labels == 1 else f" and {self.n_labels} labels"
        facts = [f"{rows} in {bags}, method {self.method}."]
        if not self.pairing.is_usual:
            facts.append(self.pairing.sentence)
        if self.noise is not None:
            facts.append(f"Noise sd {_number(self.noise)}.")
        if self.certificate is not None:
            facts.append(self.certificate.describe(self.candidates[0]["value"]))
        return [*facts, *self.priors, *self.remarks]

    def _rivals(self) -> list[str]:
        """Return one line per competing answer, none where one stands alone."""
        rivals = [
            f"{c['share']:.0%}: " + ", ".join(_number(w) for w in c["weights"])
            for c in self.candidates[:5]
            if c["share"] is not None and c["share"] >= WORTH_SAYING
        ]
        return rivals if len(rivals) > 1 else []

    def __str__(self) -> str:
        low, high = f"{(1 - self.level) / 2:.1%}", f"{(1 + self.level) / 2:.1%}"
        table = [("", "estimate", low, high), *self._cells()]
        widths = [max(len(line[i]) for line in table) for i in range(4)]
        lines = [
            line[0].ljust(widths[0])
            + "".join(
                "  " + cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)
            )
            for line in table
        ]
        rivals = [f"  {rival}" for rival in self._rivals()]
        if rivals:
            rivals = ["", _RIVALS, *rivals]
        return "\n".join([*self.verdict, "", *lines, *rivals, "", *self._facts()])

    def _repr_html_(self) -> str:
        low, high = f"{(1 - self.level) / 2:.1%}", f"{(1 + self.level) / 2:.1%}"
        head = "".join(f"<th>{text}</th>" for text in ("", "estimate", low, high))
        body = "".join(
            "<tr><th>"
            + html.escape(name)
            + "</th>"
            + "".join(f"<td>{c}</td>" for c in cells)
            + "</tr>"
            for name, *cells in self._cells()
        )
        words = "".join(f"<p>{html.escape(line)}</p>" for line in self.verdict)
        facts = "".join(f"<p><small>{html.escape(line)}</small></p>" for line in self._facts())
        rivals = "".join(f"<li>{html.escape(line)}</li>" for line in self._rivals())
        if rivals:
            rivals = f"<p>{html.escape(_RIVALS)}</p><ul>{rivals}</ul>"
        return f"<div>{words}<table><tr>{head}</tr>{body}</table>{rivals}{facts}</div>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists (None, never NaN, where there is no value).

        This is the JSON of the command line too, described by ``schema/fit.schema.json``. The
        intercept stands apart from the coefficients: a feature may have its name.
        """
        entries = [
            {"estimate": row.estimate, "low": row.low, "high": row.high} for row in self.rows
        ]
        names = [row.name for row in self.rows[: self.d]]
        return {
            "verdict": list(self.verdict),
            "coefficients": dict(zip(names, entries[: self.d], strict=True)),
            "intercept": entries[self.d] if len(entries) > self.d else None,
            "level": self.level,
            "noise": self.noise,
            "method": self.method,
            "n": self.n,
            "labels": self.n_labels,
            "d": self.d,
            "bags": self.n_bags,
            "pairing": self.pairing.name,
            "identified": self.identified,
            "model_fits": self.model_fits,
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
        rows = [(row.estimate, row.low, row.high) for row in self.rows]
        return pandas.DataFrame(
            rows, index=[row.name for row in self.rows], columns=["estimate", "low", "high"]
        )

    def to_latex(self) -> str:
        """Return the table as a LaTeX tabular."""
        lines = [r"\begin{tabular}{lrrr}", r"\hline", r" & estimate & low & high \\", r"\hline"]
        lines += [" & ".join([_latex(name), *cells]) + r" \\" for name, *cells in self._cells()]
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
        rows=_make_rows(solution, facts.names, level),
        level=level,
        noise=facts.noise,
        method=facts.method,
        identified=identified,
        model_fits=model_fits(solution),
        is_converged=not solution.status.is_doubtful,
        status=solution.status.value,
        n=facts.n,
        n_labels=facts.n if facts.n_labels is None else facts.n_labels,
        d=len(facts.scales),
        n_bags=facts.n_bags,
        pairing=facts.pairing,
        candidates=candidates,
        priors=tuple(solution.stats.get("priors", ())),
        remarks=tuple(solution.stats.get("remarks", ())),
        certificate=solution.certificate,
    )


def _as_proof(proof: Certificate | None) -> dict[str, Any] | None:
    """Return what is proven as plain numbers, None where nothing is."""
    if proof is None:
        return None
    found = {"lower_bound": proof.lower_bound, "gap": proof.gap}
    return {"certified": proof.is_complete, **found}


def _make_rows(solution: Solution, names: tuple[str, ...], level: float) -> tuple[SummaryRow, ...]:
    """Return the table's rows, without an interval where there is none or it has no ends."""
    unsure = solution.uncertainty
    ends = np.full((len(names), 2), np.inf)
    if unsure is not None and unsure.has_interval:
        ends = unsure.interval(level)
    return tuple(
        SummaryRow(name, w, *((low, high) if np.isfinite([low, high]).all() else (None, None)))
        for name, w, (low, high) in zip(
            names, solution.weights.tolist(), ends.tolist(), strict=True
        )
    )


def _number(value: float | None) -> str:
    """Show a number with four digits, and a missing one as a dash."""
    return "–" if value is None else f"{value:.4g}"


def _latex(text: str) -> str:
    """Escape what LaTeX would take for a command."""
    signs = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(signs.get(c, "\\" + c if c in "&%$#_{}" else c) for c in text)
