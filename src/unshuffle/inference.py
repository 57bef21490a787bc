"""What a fit says in words and tables: intervals, verdict, competing answers."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import numpy as np

from unshuffle.errors import InputError
from unshuffle.solution import Solution, Status
from unshuffle.uncertainty import Posterior, StudentT

# The verdict's rule: identified unless this share of the posterior lies further than this
# fraction of |ŵ| from ŵ (weights in units of w_j sd(x_j), the intercept left out).
FAR_SHARE, FAR_RADIUS = 0.05, 0.3
# Candidates with less than this share of the posterior are not worth a reader's time.
_WORTH_SAYING = 0.02
_RIVALS = "Competing answers (posterior share, weights in the order above):"
# More candidates than this are noise of the search; all are in `solution_.candidates`.
_SHOWN_CANDIDATES = 10


def check_level(level: float) -> float:
    """Refuse a level that is no probability."""
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, got {level}: 0.95 means 95 %")
    return float(level)


def make_intervals(solution: Solution, method: str, level: float) -> np.ndarray:
    """Return one row (low, high) per weight, or say why there is none."""
    check_level(level)
    if solution.uncertainty is None:
        raise InputError(
            f"method '{method}' is biased or inconsistent on shuffled data, so that an interval "
            "around it would cover the wrong value: use method='likelihood' for intervals"
        )
    return solution.uncertainty.interval(level)


def is_identified(solution: Solution, scales: np.ndarray) -> bool | None:
    """Return whether the posterior stays near the estimate; None without a posterior."""
    posterior = solution.uncertainty
    if not isinstance(posterior, Posterior):
        return None
    share = posterior.share_beyond(solution.weights, scales, FAR_RADIUS)
    # A posterior that could not be explored must never count as certainty.
    return bool(share < FAR_SHARE) and not posterior.is_thin


def free_directions(
    solution: Solution, scales: np.ndarray, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Describe the directions in weight space that the data leave free, widest first.

    They are the principal axes of the posterior (in standardised units) whose sd exceeds the
    verdict's radius, each told by its largest parts.
    """
    posterior = solution.uncertainty
    if not isinstance(posterior, Posterior):
        return ()
    k = len(scales)
    # In units of the largest part: squares of labels beyond 1e154 would overflow.
    unit = scales / (np.abs(solution.weights[:k] * scales).max(initial=0.0) or 1.0)
    weights = posterior.draws[:, :k] * unit
    centred = weights - posterior.shares @ weights
    values, axes = np.linalg.eigh((centred * posterior.shares[:, None]).T @ centred)
    size = np.sqrt(((solution.weights[:k] * unit) ** 2).sum())
    sentences = []
    for j in np.argsort(-values):
        sd = np.sqrt(max(values[j], 0.0))
        if sd * 2 <= FAR_RADIUS * size:
            break
        axis = axes[:, j] * np.sign(axes[np.argmax(np.abs(axes[:, j])), j])
        largest = [i for i in np.argsort(-np.abs(axis)) if abs(axis[i]) > 0.3][:4]
        terms = " ".join(
            f"{'+' if axis[i] > 0 else '-'} {abs(axis[i]):.2f} {names[i]}" for i in largest
        ).removeprefix("+ ")
        ratio = sd / size if size > 0 else np.inf
        sentences.append(f"{terms} (known to within ±{ratio:.0%} of the size of all weights)")
    return tuple(sentences)


def make_verdict(
    solution: Solution, identified: bool | None, free: tuple[str, ...]
) -> tuple[str, ...]:
    """Say in plain words what the data tell and what they do not."""
    if isinstance(solution.uncertainty, StudentT):
        regression = (
            "The means of the bags are regressed on each other: unbiased whatever the order"
        )
        if not solution.uncertainty.has_interval:
            return (
                f"{regression}, but with as many weights as bags nothing is left to measure the "
                "error, so that there are no intervals: add a bag, or use method 'likelihood'.",
            )
        dof = solution.uncertainty.dof
        degrees = "1 degree" if dof == 1 else f"{dof} degrees"
        return (f"{regression}, with textbook t intervals on {degrees} of freedom.",)
    if identified is None:
        sentences = ["This method has no posterior, so that it cannot say how sure the answer is."]
        return (*sentences, solution.status.value)
    if identified:
        sentences = ["The data identify the weights: the posterior stays close to the estimate."]
    else:
        sentences = [
            "The data do not identify the weights: other answers explain them about as well."
        ]
        rivals = [c for c in solution.candidates if (c.share or 0.0) >= _WORTH_SAYING]
        if len(rivals) > 1:
            shares = ", ".join(f"{c.share:.0%}" for c in rivals[:4])
            sentences.append(
                f"{len(rivals)} distinct answers compete, with posterior shares {shares}."
            )
        if free:
            sentences.append("Not fixed by the data: " + "; ".join(free[:3]) + ".")
        sentences.append(
            "What would help: more bags (also the same samples divided into more, different "
            "bags), a known noise level, or a few linked pairs as bags of one row."
        )
    if solution.status is not Status.POSTERIOR:
        sentences.append(solution.status.value)
    return tuple(sentences)


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
    n: int
    d: int
    n_bags: int
    candidates: tuple[dict[str, Any], ...]
    priors: tuple[str, ...]
    remarks: tuple[str, ...]

    def _cells(self) -> list[tuple[str, str, str, str]]:
        return [
            (row.name, _number(row.estimate), _number(row.low), _number(row.high))
            for row in self.rows
        ]

    def _facts(self) -> list[str]:
        bags = "1 bag" if self.n_bags == 1 else f"{self.n_bags} bags"
        facts = [f"{self.n} rows in {bags}, method {self.method}."]
        if self.noise is not None:
            facts.append(f"Noise sd {_number(self.noise)}.")
        return [*facts, *self.priors, *self.remarks]

    def _rivals(self) -> list[str]:
        """Return one line per competing answer, none where one stands alone."""
        rivals = [
            f"{c['share']:.0%}: " + ", ".join(_number(w) for w in c["weights"])
            for c in self.candidates[:5]
            if c["share"] is not None and c["share"] >= _WORTH_SAYING
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

        The intercept stands apart from the coefficients: a feature may have its name.
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
            "identified": self.identified,
            "n": self.n,
            "d": self.d,
            "bags": self.n_bags,
            "candidates": [dict(c) for c in self.candidates],
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


def summarise(
    solution: Solution,
    method: str,
    names: tuple[str, ...],
    scales: np.ndarray,
    sizes: tuple[int, int],
    noise: float | None,
    level: float,
) -> Summary:
    """Put everything a fit says into one object; intervals are None where there are none."""
    weights = [float(w) for w in solution.weights]
    if solution.uncertainty is None or not solution.uncertainty.has_interval:
        ends: list[tuple[float | None, float | None]] = [(None, None)] * len(weights)
    else:
        ends = [(float(a), float(b)) for a, b in solution.uncertainty.interval(level)]
    identified = is_identified(solution, scales)
    free = () if identified else free_directions(solution, scales, names)
    rows = tuple(
        SummaryRow(name, w, low, high)
        for name, w, (low, high) in zip(names, weights, ends, strict=True)
    )
    candidates = tuple(
        {
            "weights": [float(w) for w in c.weights],
            "value": c.value,
            "evidence": c.evidence,
            "share": c.share,
            "noise": c.noise,
            "n_starts": c.n_starts,
        }
        for c in solution.candidates[:_SHOWN_CANDIDATES]
    )
    return Summary(
        make_verdict(solution, identified, free),
        rows,
        level,
        noise,
        method,
        identified,
        sizes[0],
        len(scales),
        sizes[1],
        candidates,
        tuple(solution.stats.get("priors", ())),
        tuple(solution.stats.get("remarks", ())),
    )


def _number(value: float | None) -> str:
    """Show a number with four digits, and a missing one as a dash."""
    return "–" if value is None else f"{value:.4g}"


def _latex(text: str) -> str:
    """Escape what LaTeX would take for a command."""
    signs = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(signs.get(c, "\\" + c if c in "&%$#_{}" else c) for c in text)
