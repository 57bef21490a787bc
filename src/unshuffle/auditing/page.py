"""The report page of an audit: one HTML file that needs neither network nor scripts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from unshuffle import __version__
from unshuffle.auditing.findings import Audit
from unshuffle.errors import shorten
from unshuffle.io.writing import write_whole
from unshuffle.results.pictures import plots
from unshuffle.results.report import Picture, check_report, draw_picture, fill_template, today

# From so many rows matched rightly and surely on, the release as planned is called exposed.
_EXPOSED_SHARE = 0.01


def write_audit(
    audit: Audit,
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    source: str | None = None,
    notes: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
    written: date | None = None,
) -> Path:
    """Write the report of an audit to an HTML file, whole or not at all.

    `label` is the label's name for the title, `source` names the data, `notes` are sentences on how
    they were read, `provenance` says what repeats the audit, and `written` is the date shown: today
    in UTC, or that of SOURCE_DATE_EPOCH.

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
        ("Bags", f"{audit.planned.release.n_bags}"),
        ("Label fitted", f"{audit.planned.scale}"),
    ]
    page = fill_template(
        "audit.html",
        audit=audit,
        planned=audit.planned,
        headline=_headline(audit),
        pictures=_draw_pictures(audit),
        facts=facts,
        label=label,
        source=None if source is None else shorten(source, 200),
        written=(written or today()).isoformat(),
        notes=[shorten(note, 2000) for note in (*notes, *audit.remarks)],
        origin={**origin, **(provenance or {})},
    )
    write_whole(target, page)
    return Path(path)


def _headline(audit: Audit) -> tuple[str, str]:
    """Return the verdict in a few words, and the class of its colour; nothing is called safe."""
    share = audit.planned.share_at(0.8)
    if share is None:
        return "Not judged", "unknown"
    if share >= _EXPOSED_SHARE:
        return "Rows are exposed", "doubtful"
    return "Few rows are exposed by this attack", "unknown"


def _draw_pictures(audit: Audit) -> list[Picture]:
    height = 1.2 + 0.3 * len(audit.exposures)
    pictures = [
        draw_picture(
            "How the risk changes",
            partial(plots.plot_exposure, audit),
            (8.0, height),
            "Share of rows matched to their own label in each release (bars), by guessing inside "
            "bags (lines) and by somebody who knows the true weights (diamonds).",
        )
    ]
    if audit.planned.calibration:
        pictures.append(
            draw_picture(
                "Whether claims hold",
                partial(plots.plot_calibration, audit),
                (5.5, 4.0),
                "Share of matches that are right against the probability claimed for them, in "
                "bins, with the number of rows beside each. On the line the claims hold; an "
                "outsider sees only the claims.",
            )
        )
    return pictures
