"""The audit of a release: matching attacks on it as planned, and with each protection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from threading import Event, Lock
from typing import Any

import numpy as np
from scipy import stats

from unshuffle.auditing.exposure import LEVELS, Exposure, Truth, add_control, attack, link
from unshuffle.auditing.proportions import Risk
from unshuffle.auditing.releases import MERGED, NOISY, ROUNDED, Release, list_releases, number_bags
from unshuffle.auditing.scales import AS_IS, SCALES, Scale
from unshuffle.auditing.words import (
    describe_exposure,
    describe_releases,
    describe_scales,
    describe_side_information,
)
from unshuffle.errors import InputError, quote
from unshuffle.formatting import SHOWN_ROWS
from unshuffle.objectives.checks import check_values
from unshuffle.options import FitOptions, as_bag_offsets, check_options, make_rng
from unshuffle.progress import Report, say_nothing
from unshuffle.threads import run_all

_DOING = {MERGED: "Merging bags", ROUNDED: "Rounding labels", NOISY: "Adding noise"}

CONFIDENTIAL = (
    "Confidential: this names rows and their labels. Keep it as you keep the linked table, and do "
    "not release it with the shuffled one."
)
NOT_SHOWN = (
    "Side information: an outsider who knows a few rows, a rank, a rough label or other columns "
    "from elsewhere finds more than is shown here, unless they were given as known columns.",
    "Other attacks: only linear models of the label, its logarithm and its square root are tried; "
    "a better model, or columns that are not in this table, match more.",
    "Other releases: the same rows released twice, or in bags cut in another way, say more "
    "together.",
    "Labels that need no match: in a bag whose labels are all alike, or that holds one row, "
    "every label is known.",
    "A guarantee: the risk was measured on this table by one method. Differential privacy gives "
    "guarantees.",
)


@dataclass(frozen=True)
class ExposedRow:
    """A row whose label an outsider matches rightly.

    Attributes
    ----------
    row : int
        Number of the row.
    label : float
        Its label.
    probability : float or None
        Probability of the match; None for methods without probabilities.
    id, bag : object
        Names of the row and its bag, or None.

    Examples
    --------
    >>> ExposedRow(3, 1.5, 0.9, id="a17").name
    'a17'
    """

    row: int
    label: float
    probability: float | None
    id: Any = None
    bag: Any = None

    @property
    def name(self) -> object:
        """What the row is called: its id, or its number."""
        return self.row if self.id is None else self.id


@dataclass(frozen=True, eq=False)
class Audit:
    """Exposure of a release: as planned first, then with each protection.

    Attributes
    ----------
    exposures : tuple of Exposure
        The release as planned, then with each protection.
    exposed : tuple of ExposedRow
        Rows matched rightly with a probability of at least a half, the surest first; all rows
        matched rightly where the method gives no probabilities.
    r2 : float
        R² of the linked regression.
    n, d : int
        Numbers of rows and of features.
    verdict : tuple of str
        What was found, in sentences.
    remarks : tuple of str
        What should be known besides.
    scales : tuple of Exposure
        Attacks on the release as planned with the label on every scale tried, the worst first: its
        scale is that of all else.
    not_shown : tuple of str
        What was not examined.
    accept : float or None
        The accepted risk.
    known, known_noise : tuple of str, float
        Columns that the outsider has from elsewhere, and their error.
    unaided : Exposure or None
        The attack without these columns.

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
    scales: tuple[Exposure, ...]
    not_shown: tuple[str, ...] = NOT_SHOWN
    accept: float | None = None
    known: tuple[str, ...] = ()
    known_noise: float = 0.0
    unaided: Exposure | None = None

    @property
    def planned(self) -> Exposure:
        """The exposure of the release as planned."""
        return self.exposures[0]

    @property
    def is_acceptable(self) -> bool | None:
        """Whether the risk as planned is at most the accepted one; None where none was given."""
        return None if self.accept is None else self.planned.risk.value <= self.accept

    @property
    def shown(self) -> tuple[ExposedRow, ...]:
        """The exposed rows to be shown: the surest, none without probabilities."""
        return () if self.planned.probability is None else self.exposed[:SHOWN_ROWS]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as what JSON holds.

        Returns
        -------
        dict
            Verdict, risk, matches and releases.

        Examples
        --------
        >>> from unshuffle import make_shuffled
        >>> data = make_shuffled(60, 1, noise=0.02, bags=6, rng=0)
        >>> audit(data.X, data.linked_y, data.groups, rng=0, method="ls").to_dict()["n"]
        60
        """
        found = self.planned
        has_control, sd = found.control.n > 0, found.label_sd
        return {
            "verdict": list(self.verdict),
            "n": self.n,
            "d": self.d,
            "bags": found.release.n_bags,
            "r2": self.r2,
            "scale": found.scale,
            "scales": [
                {"scale": each.scale, "right": each.right, "right_at_0.8": each.share_at(0.8)}
                for each in self.scales
            ],
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
                "low": found.matched.low,
                "high": found.matched.high,
                "control": found.control_right.value if has_control else None,
                "label_error": sd * found.label_gap,
                "guessing_error": sd * found.guess_gap,
                "control_error": found.control.gap if has_control else None,
            },
            "risk": _as_risk(found.risk),
            "accept": self.accept,
            "acceptable": self.is_acceptable,
            "known": {
                "columns": list(self.known),
                "noise": self.known_noise,
                "risk_without": None if self.unaided is None else _as_risk(self.unaided.risk),
            },
            "levels": _list_levels(found.levels),
            "levels_knowing_the_weights": _list_levels(found.known_levels),
            "calibration": [
                {"low": b.low, "high": b.high, "rows": b.n_rows, "claimed": b.claimed,
                 "right": b.right}
                for b in found.calibration
            ],
            "exposed": [
                {
                    "row": each.row,
                    "id": None if each.id is None else str(each.id),
                    "label": each.label,
                    "probability": each.probability,
                }
                for each in self.shown
            ],
            "releases": [_as_object(each) for each in self.exposures],
            "remarks": list(self.remarks),
            "not_shown": list(self.not_shown),
        }  # fmt: skip

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        head = f"{'release':<28}  coefficient error  right  guessing   risk"
        lines = [
            f"{each.release.name:<28}  {each.error:>17.3g}  {each.right:>5.1%}  {each.guess:>8.1%}"
            f"  {each.risk.value:>5.1%}"
            for each in self.exposures
        ]
        return "\n".join([*self.verdict, "", head, *lines, "", *self.remarks, "Not shown:",
                          *(f"- {each}" for each in self.not_shown)])  # fmt: skip


def _as_risk(risk: Risk) -> dict[str, Any]:
    return {
        "value": risk.value,
        "low": risk.low,
        "high": risk.high,
        "at_least": risk.at_least,
        "control_rows": risk.n_control,
    }


def _list_levels(levels: Any) -> list[dict[str, Any]] | None:
    if levels is None:
        return None
    return [{"at_least": x.at_least, "rows": x.n_rows, "right": x.n_right} for x in levels]


def _as_object(found: Exposure) -> dict[str, Any]:
    return {
        "release": found.release.name,
        "kind": found.release.kind,
        "amount": found.release.amount,
        "scale": found.scale,
        "bags": found.release.n_bags,
        "error": found.error,
        "identified": found.identified,
        "right": found.right,
        "guessing": found.guess,
        "knowing_the_weights": found.known,
        "label_gap": found.label_gap,
        "control": found.control_right.value if found.control.n else None,
        "risk": _as_risk(found.risk),
        "levels": _list_levels(found.levels),
    }


def audit(
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    rows: Sequence[int] | None = None,
    ids: Sequence[Any] | None = None,
    known: Any = None,
    known_noise: float = 0.0,
    known_names: Sequence[str] | None = None,
    accept: float | None = None,
    scale: str | None = None,
    rng: np.random.Generator | int | None = None,
    n_jobs: int | None = None,
    report: Report = say_nothing,
    **options: Any,
) -> Audit:
    """Return what an outsider could recover if this linked table were released with y shuffled.

    Parameters
    ----------
    X : array (n, d)
        The features, which are released.
    y : array (n,)
        The labels, each beside its own row: order counts here, unlike everywhere else.
    groups : sequence, optional
        The bags inside which labels will be shuffled; one bag without it.
    rows : sequence of int, optional
        The numbers of the rows; their places, from 0, without it.
    ids : sequence, optional
        The names of the rows, for `Audit.exposed`.
    known : array (n,) or (n, k), optional
        Side information: columns that are not released and that the outsider has from elsewhere,
        beside the features; a rough label may be one.
    known_noise : float
        Error of the known columns: its sd over the sd of each column.
    known_names : sequence of str, optional
        The names of the known columns.
    accept : float, optional
        The accepted risk, a share of the rows: `Audit.is_acceptable` compares, and the advice
        names steps that stay within it (0.01 without it).
    scale : "as is", "log10" or "sqrt", optional
        The scale of the label that the outsider fits. Without it every scale that the labels allow
        is tried on the release as planned, and the worst is reported; a noise given in units of the
        label leaves "as is".
    rng : None, int or Generator, default=None
        Seed of the attacks.
    n_jobs : int or None, default=None
        Threads; the result is the same for every number.
    report : callable, optional
        Told the stage, and the share of all that is done.
    **options
        How the outsider fits, as in `ShuffledLinearRegression`.

    Returns
    -------
    Audit
        What the release gives away as planned, and with each protection.

    Raises
    ------
    InputError
        For data or options that make no sense, and for labels that show no link to the features.

    Notes
    -----
    The risk is that of Giomi et al. (2023): successes on released rows beyond those on control
    rows, which the same attack meets without their having been released.

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
    ids = None if ids is None else list(ids)
    asked = FitOptions(**options)
    check_options(replace(asked, n_jobs=n_jobs))
    if accept is not None and not 0 <= accept <= 1:
        raise InputError(f"accept must be a share from 0 to 1, got {accept:g}; for 1 % give 0.01")
    _check_table(X, y, names, ids)
    aside = _check_known(known, known_noise, y)
    given = (
        [f"known {j + 1}" for j in range(aside.shape[1])] if known_names is None else known_names
    )
    columns = tuple(map(str, given))
    n_released = X.shape[1]
    X = np.column_stack([X, aside])
    _check_size(X)
    shares = _check_links(X, y, number_bags(names, len(y)), _list_scales(y, scale, asked))
    # Results must not depend on the order of the rows: they are sorted, and then shuffled, since
    # labels of equal rows are matched in the order of the table.
    rng = make_rng(rng)
    order = rng.permutation(np.lexsort((y, *X.T[::-1])))
    codes = number_bags(names, len(y))[order]
    X, y = X[order], y[order]
    planned, *others = list_releases(X, y, codes, rng)
    seed = int(rng.integers(2**63))
    if columns:
        X = _add_noise(X, n_released, known_noise, rng)
        planned, *others = (replace(each, X=X) for each in (planned, *others))
    truths = {name: link(X, y, SCALES[name]) for name in {*shares, AS_IS}}
    done, lock, n_attacks = count(1), Lock(), len(shares) + len(others)

    def run(task: tuple[Release, Truth], stop: Event) -> Exposure | None:
        if stop.is_set():
            return None
        found = attack(*task, y, asked, seed)
        if task[0] is not planned:
            found = add_control(found, y, asked, seed)
        with lock:
            report("attacking", next(done) / n_attacks)
        return found

    def run_tasks(tasks: list[tuple[Release, Truth]]) -> list[Exposure]:
        return [each for each in run_all(run, tasks, n_jobs) if each is not None]

    tried = run_tasks([(planned, truths[name]) for name in shares])
    tried.sort(key=lambda each: -each.right)
    tried[0] = add_control(tried[0], y, asked, seed)
    worst = tried[0].scale
    # Rounding and noise may leave labels without a logarithm or a root.
    rest = [
        (each, truths[worst if SCALES[worst].allows(each.y).all() else AS_IS]) for each in others
    ]
    exposures = (tried[0], *run_tasks(rest))
    unaided = None
    if columns:
        bare = replace(planned, X=X[:, :n_released])
        unaided = attack(bare, link(bare.X, y, SCALES[worst]), y, asked, seed)
        unaided = add_control(unaided, y, asked, seed)
    places = order if rows is None else np.asarray(rows)[order]
    exposed = tuple(_list_exposed(exposures[0], places, order, ids, names))
    surest = [] if exposures[0].probability is None else [each.name for each in exposed]
    verdict = (
        *describe_exposure(exposures[0], surest, X.shape[1]),
        *describe_side_information(exposures[0], unaided),
        *describe_scales(tried),
        *describe_releases(exposures, _DOING, accept),
    )
    r2 = shares[worst]
    remarks = (*_make_remarks(codes, r2, SCALES[worst]), *_describe_mixed(exposures))
    return Audit(
        exposures, exposed, r2, len(y), n_released, verdict, remarks, tuple(tried),
        accept=accept, known=columns, known_noise=float(known_noise), unaided=unaided,
    )  # fmt: skip


def _check_known(known: Any, noise: float, y: np.ndarray) -> np.ndarray:
    """Return the known columns (n, k); without any, none."""
    if not (np.isfinite(noise) and noise >= 0):
        raise InputError(
            f"known_noise must be at least 0, got {noise:g}: the sd of the error over that of the "
            "column"
        )
    if known is None:
        if noise:
            raise InputError("known_noise is the error of known columns; name some with known")
        return np.empty((len(y), 0))
    columns = np.asarray(known, dtype=float)
    columns = columns[:, None] if columns.ndim == 1 else columns
    if columns.ndim != 2 or len(columns) != len(y):
        raise InputError(f"known columns need {len(y)} rows, got an array of {columns.shape}")
    if not np.isfinite(columns).all():
        raise InputError("the known columns hold values that are missing or infinite")
    if noise == 0.0 and (columns == y[:, None]).all(axis=0).any():
        raise InputError(
            "a known column is the label itself: without error nothing is left to audit; give its "
            "error as known_noise, such as 0.5"
        )
    return columns


def _add_noise(X: np.ndarray, first: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Add the error of the known columns, those from `first` on."""
    errors = rng.standard_normal((len(X), X.shape[1] - first))
    noisy = X.copy()
    noisy[:, first:] += noise * X[:, first:].std(axis=0) * errors
    return noisy


def _list_scales(y: np.ndarray, scale: str | None, options: FitOptions) -> list[Scale]:
    """Return the scales on which labels are attacked, or say why one cannot be."""
    if scale is None:
        # Numbers in units of the label have no meaning on another scale.
        offsets = as_bag_offsets(options.bag_offsets)
        has_units = options.noise is not None or offsets.sd is not None
        names = [AS_IS] if has_units else list(SCALES)
        return [SCALES[name] for name in names if SCALES[name].allows(y).all()]
    if scale not in SCALES:
        raise InputError(f"unknown scale {quote(scale)}: give one of {', '.join(SCALES)}")
    is_wrong = ~SCALES[scale].allows(y)
    if is_wrong.any():
        raise InputError(
            f"{is_wrong.sum()} of {len(y)} labels have no {scale} (the first is "
            f"{y[np.argmax(is_wrong)]:g}): leave the scale out, or drop such rows"
        )
    return [SCALES[scale]]


def _describe_mixed(exposures: Sequence[Exposure]) -> tuple[str, ...]:
    """Name the releases that were attacked on another scale than the release as planned."""
    worst = exposures[0].scale
    names = [each.release.name for each in exposures if each.scale != worst]
    if not names:
        return ()
    return (f"Labels without {worst} were attacked as they are: {', '.join(names)}.",)


def _list_exposed(
    found: Exposure,
    places: np.ndarray,
    order: np.ndarray,
    ids: Sequence[Any] | None,
    bags: Sequence[Any] | None,
) -> Iterator[ExposedRow]:
    """Yield the rows matched rightly with a probability of at least a half, the surest first."""
    given, is_exposed = found.probability, found.is_right
    surest = places.argsort()
    if given is not None:
        is_exposed = found.is_right & (given >= LEVELS[0])
        surest = np.lexsort((places, -given))
    for i in surest[is_exposed[surest]].tolist():
        row = order[i]
        yield ExposedRow(
            int(places[i]),
            float(found.release.y[i]),
            None if given is None else float(given[i]),
            None if ids is None else ids[row],
            None if bags is None else bags[row],
        )


def _check_table(
    X: np.ndarray, y: np.ndarray, groups: list[Any] | None, ids: list[Any] | None
) -> None:
    """Refuse what cannot be audited."""
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y) or 0 in X.shape:
        raise InputError(
            f"an audit needs X (n, d) and y (n,), a label beside every row, got arrays of "
            f"{X.shape} and {y.shape}"
        )
    for name, entries in (("groups", groups), ("ids", ids)):
        if entries is not None and len(entries) != len(y):
            raise InputError(f"{name} has {len(entries)} entries but there are {len(y)} rows")
    check_values(X, y)
    if (y == y[0]).all():
        raise InputError(
            f"every label is {y[0]:g}: a constant label is known without a match; audit another"
        )


def _check_size(X: np.ndarray) -> None:
    """Refuse a table of so few rows that no link could be seen."""
    n, d = X.shape
    if n < d + 3:
        raise InputError(
            f"{n} rows with {d} features do not show whether labels are linked; give more than "
            f"{d + 2} rows"
        )


def _check_links(
    X: np.ndarray, y: np.ndarray, codes: np.ndarray, scales: Sequence[Scale]
) -> dict[str, float]:
    """Return R² on each scale on which labels are linked; refuse labels linked on none."""
    found: dict[str, float] = {}
    refused: list[InputError] = []
    for scale in scales:
        try:
            found[scale.name] = _check_link(X, scale.transform(y), codes)
        except InputError as exc:
            refused.append(exc)
    if not found:
        raise refused[0]
    return found


def _check_link(X: np.ndarray, y: np.ndarray, codes: np.ndarray) -> float:
    """Refuse labels that look shuffled; return the share of their variance that is explained."""
    n, d = X.shape
    r2, p = _test_link(X, y, np.zeros(n, dtype=np.int64))
    _refuse_unlinked(r2, p, "")
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
    # Labels that are constant in every bag are no evidence against a link.
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
    # One in a hundred unlinked tables passes this test.
    if chance > 0.01:
        raise InputError(
            f"the features show no link to the label{where} (R² {r2:.2g}, p = {chance:.2g}): "
            "perhaps the table is shuffled already; audit the linked table, before it is shuffled"
        )


def _make_remarks(codes: np.ndarray, r2: float, scale: Scale) -> tuple[str, ...]:
    n_single = int((np.bincount(codes) == 1).sum())
    remarks = [
        f"On the linked table the features explain {r2:.0%} of the variance of {scale.words}."
    ]
    if n_single:
        which = "One bag holds" if n_single == 1 else f"{n_single} bags hold"
        remarks.append(f"{which} a single row, whose label shuffling does not hide.")
    return tuple(remarks)
