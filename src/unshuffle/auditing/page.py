"""The report page of an audit: one HTML file that needs neither network nor scripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from unshuffle import __version__
from unshuffle.auditing.findings import CONFIDENTIAL, Audit
from unshuffle.auditing.words import LITTLE, show_risk
from unshuffle.errors import shorten
from unshuffle.io.writing import write_whole
from unshuffle.results.pictures import drawing, plots
from unshuffle.results.pictures.report_pictures import Drawing, draw_picture, write_pictures
from unshuffle.results.report import check_report, fill_template, today


def write_audit(
    audit: Audit,
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    source: str | None = None,
    notes: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
    written: date | None = None,
    words: Callable[[str], str] = str,
) -> Path:
    """Write the report of an audit to an HTML file, whole or not at all.

    Parameters
    ----------
    audit : Audit
        What `unshuffle.audit` returned.
    path : str or path-like
        The file, replaced where it exists.
    label : str, optional
        Name of the label for the title.
    source : str, optional
        Name of the data.
    notes : sequence of str, optional
        Sentences on how the data were read.
    provenance : mapping of str to object, optional
        What repeats the audit: version, seed, hash of the data, command.
    written : date, optional
        The date shown; today in UTC without it, or that of SOURCE_DATE_EPOCH.
    words : callable, optional
        Puts each sentence into the words of the reader, such as options in place of parameters.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from unshuffle import audit, make_shuffled
    >>> data = make_shuffled(60, 1, noise=0.02, bags=6, rng=0)
    >>> found = audit(data.X, data.linked_y, data.groups, rng=0, method="ls")
    >>> write_audit(found, tempfile.mkdtemp() + "/audit.html").name
    'audit.html'
    """
    target = check_report(path)
    origin = {"version": __version__, "seed": "not fixed", "data_sha256": None, "command": None}
    facts = [
        *([("Source", shorten(source, 200))] if source is not None else []),
        ("Rows", f"{audit.n}"),
        ("Features", f"{audit.d}"),
        *([("Known to the outsider", _describe_known(audit))] if audit.known else []),
        ("Bags", f"{audit.planned.release.n_bags}"),
        ("Label fitted", f"{audit.planned.scale}"),
        *([] if audit.accept is None else [("Accepted risk", f"{100 * audit.accept:g} %")]),
    ]
    page = fill_template(
        "audit.html",
        audit=audit,
        planned=audit.planned,
        confidential=CONFIDENTIAL,
        risk=show_risk(audit.planned.risk),
        has_ids=any(each.id is not None for each in audit.shown),
        headline=_make_headline(audit),
        pictures=[draw_picture(each) for each in _list_drawings(audit)],
        facts=facts,
        label=label,
        source=None if source is None else shorten(source, 200),
        written=(written or today()).isoformat(),
        verdict=[words(each) for each in audit.verdict],
        notes=[shorten(words(note), 2000) for note in (*notes, *audit.remarks)],
        origin={**origin, **(provenance or {})},
    )
    write_whole(target, page)
    return Path(path)


def write_audit_pictures(
    audit: Audit, folder: str | os.PathLike[str], ending: str = "svg"
) -> list[Path]:
    """Write each picture of the report to a file of a folder: "svg", "png" or "pdf"."""
    return write_pictures(_list_drawings(audit), folder, ending)


def _describe_known(audit: Audit) -> str:
    names = shorten(", ".join(audit.known), 200)
    return f"{names}, with an error of {audit.known_noise:g} sd" if audit.known_noise else names


def _make_headline(audit: Audit) -> tuple[str, str]:
    """Return the verdict in a few words, and the class of its colour; nothing is called safe."""
    limit = LITTLE if audit.accept is None else audit.accept
    if audit.planned.risk.value > limit:
        words = "Rows are exposed" if audit.accept is None else "The risk is above the accepted one"
        return words, "doubtful"
    return "This attack is sure of few rows", "unknown"


def _list_drawings(audit: Audit) -> list[Drawing]:
    drawings = [
        Drawing(
            "How the risk changes",
            partial(plots.plot_exposure, audit),
            (4.8, 1.0 + drawing.row_height(len(audit.exposures))),
            "Share of rows matched to their own label in each release (bars), by guessing inside "
            "bags (lines), by an outsider who knows the true coefficients (diamonds), and the risk "
            "with its 95 % interval.",
        )
    ]
    if audit.planned.calibration:
        drawings.append(
            Drawing(
                "Claimed and true probabilities",
                partial(plots.plot_calibration, audit),
                (4.8, 3.6),
                "Share of matches that are right against the probability claimed for them, in "
                "bins, with the number of rows beside each. On the line claims and facts agree. An "
                "outsider sees only the claims.",
            )
        )
    return drawings
