"""The audit: what an outsider could recover from a release, and what would stop it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from threading import Event, Lock
from typing import Any

import numpy as np
from scipy import stats

from unshuffle.auditing.exposure import LEVELS, Exposure, attack, link
from unshuffle.auditing.releases import MERGED, NOISY, ROUNDED, Release, list_releases, number_bags
from unshuffle.auditing.words import describe_exposure, describe_releases
from unshuffle.core.checks import check_values
from unshuffle.core.options import FitOptions, make_rng
from unshuffle.core.progress import Report, say_nothing
from unshuffle.core.threads import run_all
from unshuffle.errors import InputError

# A link that chance makes once in a hundred tables without one is none to audit.
_LEAST_LINK = 0.01
_SHOWN_ROWS = 20

NOT_SHOWN = (
    "Side information: somebody who knows a few rows, a rank or a rough label from elsewhere "
    "finds more than is shown here.",
    "Other attacks: only a linear law of these columns is tried; a better model of the label, or "
    "columns that are not in this table, match more.",
    "Other releases: the same rows released twice, or in bags cut in another way, say more "
    "together.",
    "Labels that need no match: in a bag whose labels are all alike, or that holds one row, "
    "everybody's label is known.",
    "A guarantee: the risk was measured on this table by one method. Differential privacy is what "
    "gives guarantees.",
)


@dataclass(frozen=True)
class ExposedRow:
    """A row whose label an outsider matches rightly, and with what probability."""

    row: int
    label: float
    probability: float


@dataclass(frozen=True, eq=False)
class Audit:
    """What a release gives away: as planned first, then with each protection.

    `exposed` are the rows matched rightly and most surely, `verdict` says in sentences what was
    found, `remarks` what should be known besides, and `not_shown` what was not looked at.

    Examples
    --------
    >>> from unshuffle import make_shuffled
    >>> data = make_shuffled(60, 1, noise=0.02, bags=6, rng=0)
    >>> found = audit(data.X, data.linked_y, data.groups, rng=0, method="ls")
    >>> found.n, found.d, len(found.not_shown) > 0
    (60, 1, True)
    """

    exposures: tuple[Exposure, ...]
    exposed: tuple[ExposedRow, ...]
    r2: float
    n: int
    d: int
    verdict: tuple[str, ...]
    remarks: tuple[str, ...]
    not_shown: tuple[str, ...] = NOT_SHOWN

    @property
    def planned(self) -> Exposure:
        """The exposure of the release as planned."""
        return self.exposures[0]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as what JSON holds."""
        found = self.planned
        return {
            "verdict": list(self.verdict),
            "n": self.n,
            "d": self.d,
            "bags": found.release.n_bags,
            "r2": self.r2,
            "weights": {
                "error": found.error,
                "identified": found.identified,
                "signs_known": found.n_signs,
                "covered": found.covered,
            },
            "matches": {
                "right": found.right,
                "guessing": found.guess,
                "knowing_the_weights": found.known,
                "label_gap": found.label_gap,
                "guessing_gap": found.guess_gap,
            },
            "levels": _list_levels(found.levels),
            "levels_knowing_the_weights": _list_levels(found.known_levels),
            "calibration": [
                {"low": b.low, "high": b.high, "rows": b.n_rows, "claimed": b.claimed,
                 "right": b.right}
                for b in found.calibration
            ],
            "exposed": [
                {"row": each.row, "label": each.label, "probability": each.probability}
                for each in self.exposed
            ],
            "releases": [_as_object(each) for each in self.exposures],
            "remarks": list(self.remarks),
            "not_shown": list(self.not_shown),
        }  # fmt: skip

    def __str__(self) -> str:
        head = f"{'release':<28}  weights' error  right  guessing"
        lines = [
            f"{each.release.name:<28}  {each.error:>14.3g}  {each.right:>5.1%}  {each.guess:>8.1%}"
            for each in self.exposures
        ]
        return "\n".join([*self.verdict, "", head, *lines, "", *self.remarks, "Not shown:",
                          *(f"- {each}" for each in self.not_shown)])  # fmt: skip


def _list_levels(levels: Any) -> list[dict[str, Any]] | None:
    if levels is None:
        return None
    return [{"at_least": x.at_least, "rows": x.n_rows, "right": x.n_right} for x in levels]


def _as_object(found: Exposure) -> dict[str, Any]:
    return {
        "release": found.release.name,
        "kind": found.release.kind,
        "amount": found.release.amount,
        "bags": found.release.n_bags,
        "error": found.error,
        "identified": found.identified,
        "right": found.right,
        "guessing": found.guess,
        "knowing_the_weights": found.known,
        "label_gap": found.label_gap,
        "levels": _list_levels(found.levels),
    }


def audit(
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    rows: Sequence[int] | None = None,
    rng: np.random.Generator | int | None = None,
    n_jobs: int | None = None,
    report: Report = say_nothing,
    **options: Any,
) -> Audit:
    """Say what an outsider could recover if this linked table were released with y shuffled.

    Parameters
    ----------
    X : array (n, d)
        The features, which are released.
    y : array (n,)
        The labels, each beside its own row: order counts here, unlike everywhere else.
    groups : sequence, optional
        The bags inside which labels will be shuffled; one bag without it.
    rows : sequence of int, optional
        What the rows are called; their places, from 0, without it.
    **options
        How the outsider fits, as in `ShuffledLinearRegression`.

    Examples
    --------
    >>> from unshuffle import make_shuffled
    >>> data = make_shuffled(60, 1, noise=0.02, bags=6, rng=0)
    >>> found = audit(data.X, data.linked_y, data.groups, rng=0, method="ls")
    >>> found.planned.right > 5 * found.planned.guess
    True
    """
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    names = None if groups is None else list(groups)
    r2 = _check_table(X, y, names)
    # Nothing may hang on the order of the rows, noise that is added included.
    order = np.lexsort((y, *X.T[::-1]))
    codes = number_bags(names, len(y))[order]
    X, y = X[order], y[order]
    rng = make_rng(rng)
    truth = link(X, y)
    releases = list_releases(X, y, codes, rng)
    seed = int(rng.integers(2**63))
    asked = FitOptions(**options)
    done, lock = count(1), Lock()

    def run(release: Release, stop: Event) -> Exposure | None:
        if stop.is_set():
            return None
        found = attack(release, truth, y, asked, seed)
        with lock:
            report("attacking", next(done) / len(releases))
        return found

    exposures = tuple(each for each in run_all(run, releases, n_jobs) if each is not None)
    places = order if rows is None else np.asarray(rows)[order]
    exposed = _find_exposed(exposures[0], places)
    verdict = (
        *describe_exposure(exposures[0], [each.row for each in exposed], X.shape[1]),
        *describe_releases(exposures, (MERGED, ROUNDED, NOISY)),
    )
    remarks = _make_remarks(codes, r2)
    return Audit(exposures, exposed, r2, len(y), X.shape[1], verdict, remarks)


def _find_exposed(found: Exposure, places: np.ndarray) -> tuple[ExposedRow, ...]:
    """Return the rows matched rightly with a probability of at least a half, the surest first."""
    if found.probability is None:
        return ()
    is_exposed = found.is_right & (found.probability >= LEVELS[0])
    order = np.lexsort((places, -found.probability))
    chosen = order[is_exposed[order]][:_SHOWN_ROWS]
    return tuple(
        ExposedRow(int(places[i]), float(found.release.y[i]), float(found.probability[i]))
        for i in chosen
    )


def _check_table(X: np.ndarray, y: np.ndarray, groups: list[Any] | None) -> float:
    """Refuse what cannot be audited; return the share of the variance that the features explain."""
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y) or 0 in X.shape:
        raise InputError(
            f"an audit needs X (n, d) and y (n,), a label beside every row, got the shapes "
            f"{X.shape} and {y.shape}"
        )
    if groups is not None and len(groups) != len(y):
        raise InputError(f"groups has {len(groups)} entries but there are {len(y)} rows")
    check_values(X, y)
    n, d = X.shape
    if (y == y[0]).all():
        raise InputError(
            f"every label is {y[0]:g}: a constant label is known without a match; audit another"
        )
    if n < d + 3:
        raise InputError(
            f"{n} rows with {d} features do not show whether labels are linked; give more than "
            f"{d + 2} rows"
        )
    r2, p = _test_link(X, y, np.zeros(n, dtype=np.int64))
    _refuse_unlinked(r2, p, "")
    codes = number_bags(groups, n)
    if codes.max() > 0 and n - codes.max() - 1 - d > 2:
        within, chance = _test_link(X, y, codes)
        _refuse_unlinked(within, chance, " inside the bags")
    return r2


def _test_link(X: np.ndarray, y: np.ndarray, codes: np.ndarray) -> tuple[float, float]:
    """Return R² of labels on features, both less the means of their bags, and its p-value (F)."""
    sizes = np.bincount(codes)

    def centre(column: np.ndarray) -> np.ndarray:
        return column - (np.bincount(codes, weights=column) / sizes)[codes]

    rows = np.column_stack([centre(column) for column in X.T])
    labels = centre(y)
    total = float(labels @ labels)
    # Bags whose labels are all alike have nothing inside to be linked: nothing speaks against it.
    if total <= 1e-20 * float(y @ y):
        return 1.0, 0.0
    found, _, rank, _ = np.linalg.lstsq(rows, labels, rcond=None)
    free = len(y) - len(sizes) - int(rank)
    left = float(np.sum((labels - rows @ found) ** 2))
    r2 = max(1.0 - left / total, 0.0)
    if rank == 0 or free < 1:
        return r2, 1.0
    ratio = (r2 / rank) / max((1.0 - r2) / free, 1e-300)
    return r2, float(stats.f.sf(ratio, rank, free))


def _refuse_unlinked(r2: float, chance: float, where: str) -> None:
    if chance > _LEAST_LINK:
        raise InputError(
            f"the features show no link to the label{where} (R² {r2:.2g}, p = {chance:.2g}): "
            "perhaps the table is shuffled already; audit the linked table, before it is shuffled"
        )


def _make_remarks(codes: np.ndarray, r2: float) -> tuple[str, ...]:
    n_single = int((np.bincount(codes) == 1).sum())
    remarks = [f"On the linked table the features explain {r2:.0%} of the labels' variance."]
    if n_single:
        which = "One bag holds" if n_single == 1 else f"{n_single} bags hold"
        remarks.append(f"{which} a single row, whose label shuffling does not hide.")
    return tuple(remarks)
