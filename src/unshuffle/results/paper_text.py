"""Text for a paper: a sentence on the result, a paragraph on the method, and the references.

The references are those of ``CITATION.cff`` and ``docs/references.bib`` (a test compares them):
neither file is part of the package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, floor, isfinite, log, log10

from unshuffle import __version__
from unshuffle.data.pairing import Draws
from unshuffle.errors import shorten
from unshuffle.formatting import SHOWN_NAMES, count, list_names, show_number
from unshuffle.options import ESTIMATE
from unshuffle.registry import METHODS
from unshuffle.results.determined import NEGLIGIBLE, UNDETERMINED
from unshuffle.results.result import Fit
from unshuffle.results.summary import Summary, SummaryRow
from unshuffle.results.verdict import NOT_IDENTIFIED

_LOG = re.compile(r"(log10|log2|log|ln)\b")
_BASES = {"log10": 10.0, "log2": 2.0, "log": exp(1.0), "ln": exp(1.0)}

REFERENCES = {
    "unshuffle": "The unshuffle developers (2026). unshuffle: linear regression when you do not "
    f"know which label belongs to which row (version {__version__}). Software.",
    "abid2017": "Abid, A., Poon, A. and Zou, J. (2017). Linear regression with shuffled labels. "
    "arXiv:1705.01342.",
    "lahiri2005": "Lahiri, P. and Larsen, M. D. (2005). Regression analysis with linked data. "
    "Journal of the American Statistical Association, 100(469), 222–230.",
    "chambers2009": "Chambers, R. (2009). Regression analysis of probability-linked data. Official "
    "Statistics Research Series 4, Statistics New Zealand.",
}
_LINK_REFERENCES = {"ll": "lahiri2005", "mixture": "lahiri2005", "chambers": "chambers2009"}
_BIBTEX = """@software{{unshuffle,
  author = {{{{The unshuffle developers}}}},
  title = {{unshuffle: linear regression when you do not know which label belongs to which row}},
  year = {{2026}},
  version = {{{version}}},
}}

@misc{{abid2017,
  author = {{Abid, Abubakar and Poon, Ada and Zou, James}},
  title = {{Linear regression with shuffled labels}},
  year = {{2017}},
  howpublished = {{arXiv:1705.01342}},
}}"""


@dataclass(frozen=True)
class PaperText:
    """A sentence on the result, a paragraph on the method, references, and these as BibTeX."""

    result: str
    method: str
    references: tuple[str, ...]
    bibtex: str


def write_paper_text(found: Fit, level: float, label: str | None, seed: object) -> PaperText:
    """Return text for a paper on a fit; `label` is the name of the label."""
    summary = found.summary(level)
    keys = ["unshuffle", "abid2017"]
    if summary.method in _LINK_REFERENCES:
        keys.append(_LINK_REFERENCES[summary.method])
    return PaperText(
        _describe_result(summary, label, found.facts.is_linked),
        " ".join(_describe_method(found, summary, seed)),
        tuple(REFERENCES[key] for key in keys),
        _BIBTEX.format(version=__version__),
    )


def find_log_base(label: str | None) -> float | None:
    """Return the base of a label that is a logarithm by its name, else None.

    >>> find_log_base("log10 wage"), find_log_base("log2(a / b)"), find_log_base("logistics")
    (10.0, 2.0, None)
    """
    found = None if label is None else _LOG.match(label)
    return None if found is None else _BASES[found[1]]


def show_factor(exponent: float | None, base: float, near: float | None = None) -> str:
    """Write base to the power of an exponent, with the digits by which it differs from one.

    Ends of an interval are written with as many decimals as the estimate `near` them.

    >>> show_factor(0.0294, 10.0), show_factor(0.00038, 10.0), show_factor(2.5, 10.0)
    ('1.070', '1.000875', '316.2')
    >>> show_factor(0.0, 10.0, near=0.0294)
    '1.000'
    """
    # A factor beyond this has too many digits to be read.
    if exponent is None or not isfinite(exponent) or abs(exponent) * log(base) > 30.0:
        return "–"
    factor = base**exponent
    around = exponent if near is None else near
    gap = abs(base**around - 1.0) if abs(around) * log(base) < 1.0 else 1.0
    if factor >= 10.0:
        return f"{factor:.4g}"
    decimals = 3 if gap >= 0.01 or gap == 0.0 else 2 - floor(log10(gap))
    return f"{factor:.{decimals}f}" if factor >= 0.1 else f"{factor:.4g}"


def show_effect(row: SummaryRow, base: float | None) -> str:
    """Write a coefficient with its interval, as a factor where the label is a logarithm."""

    def show(value: float | None) -> str:
        return show_number(value) if base is None else show_factor(value, base, row.estimate)

    ends = "" if row.low is None else f" ({show(row.low)} to {show(row.high)})"
    return f"{show(row.estimate)}{ends}"


def _describe_links(summary: Summary, is_linked: bool) -> str:
    """Say what was known of which label belongs to which row."""
    bags = "one bag" if summary.n_bags == 1 else count(summary.n_bags, "bag")
    if is_linked:
        return "with each label beside its row"
    if summary.mislinked is not None:
        return f"with some labels beside wrong rows of {bags}"
    if summary.n_means == summary.n_bags:
        return f"with the mean labels of {bags}"
    if isinstance(summary.pairing, Draws):
        return f"with rows and labels as separate samples of {bags}"
    means = f", {summary.n_means} of them known by mean labels" if summary.n_means else ""
    return f"with labels shuffled inside {bags}{means}"


def _describe_result(summary: Summary, label: str | None, is_linked: bool) -> str:
    """Return one or two sentences on the result."""
    name = "the label" if label is None else shorten(label, 60)
    labels = "" if summary.n_labels == summary.n else f", {count(summary.n_labels, 'label')}"
    start = (
        f"In a linear regression of {name} on {count(summary.d, 'feature')} "
        f"{_describe_links(summary, is_linked)} ({count(summary.n, 'row')}{labels})"
    )
    if summary.verdict == NOT_IDENTIFIED:
        reason = summary.reason[:1].lower() + summary.reason[1:]
        why = f": {reason}" if reason else "."
        return f"{start} the coefficients were not identified{why}"
    base = find_log_base(label)
    rows = summary.rows[: summary.d]
    open_rows = [row.name for row in rows if row.determined == UNDETERMINED]
    found = [row for row in rows if row.determined not in (UNDETERMINED, NEGLIGIBLE)]
    small = [row.name for row in rows if row.determined == NEGLIGIBLE]
    parts = "; ".join(
        f"{shorten(row.name, 80)} {show_effect(row, base)}" for row in found[:SHOWN_NAMES]
    )
    more = f"; and {len(found) - SHOWN_NAMES} more" if len(found) > SHOWN_NAMES else ""
    kind = "coefficients were" if base is None else "factors per unit were"
    ends = f" (with {100 * summary.level:g} % intervals)" if summary.has_intervals else ""
    sentences = [f"{start} no sign of a coefficient was determined."]
    if found:
        sentences = [f"{start} the {kind}{ends}: {parts}{more}."]
    if small:
        sentences.append(f"Negligible: {list_names(small)}.")
    if open_rows:
        sentences.append(f"Undetermined: {list_names(open_rows)}.")
    if not summary.has_intervals:
        sentences.append("This method gives no intervals.")
    if summary.model_fits is False:
        sentences.append(f"The linear model did not fit ({list_names(list(summary.misfits), 3)}).")
    return " ".join(sentences)


def _describe_method(found: Fit, summary: Summary, seed: object) -> Iterator[str]:
    """Yield the sentences of the paragraph on the method."""
    yield (
        "Coefficients were estimated by linear regression with shuffled labels "
        f"(Abid, Poon and Zou 2017), using unshuffle {__version__}, method '{summary.method}'"
        + (f" ({METHODS[summary.method].summary})." if summary.method in METHODS else ".")
    )
    has_single = summary.n_means < summary.n_bags
    if summary.mislinked is None and not found.facts.is_linked and has_single:
        yield "Which label belongs to which row of a bag was treated as unknown."
    if summary.n_means:
        yield f"Of {count(summary.n_means, 'bag')} only the mean label was known."
    if summary.n_anchors:
        yield f"Of {summary.n_anchors} rows the label was known."
    if summary.mislinked is not None:
        how = "estimated" if found.options.mislinked == ESTIMATE else "given"
        yield f"A share of {summary.mislinked:.1%} of the links is wrong ({how})."
    yield from _describe_noise(summary)
    if found.posterior is not None:
        yield (
            f"Estimates are spatial medians of the posterior, with {100 * summary.level:g} % "
            "posterior intervals."
        )
    elif summary.has_intervals:
        yield f"Intervals are t intervals at {100 * summary.level:g} %."
    effects = summary.effects
    if effects is not None and found.posterior is not None:
        contexts = f", contextual effects {effects.context_probability:.0%}"
        yield (
            "The model includes bag effects; posterior probabilities: random effects "
            f"{effects.offset_probability:.0%}{contexts}."
        )
    yield from summary.priors
    yield f"The seed was {seed}."


def _describe_noise(summary: Summary) -> Iterator[str]:
    if summary.noise is not None:
        how = "given" if summary.is_noise_given else "estimated"
        yield f"The standard deviation of the noise was {how}: {show_number(summary.noise)}."
