"""The audit: what an outsider could recover from a release, and what would stop it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from threading import Event, Lock
from typing import Any

import numpy as np
from scipy import stats

from unshuffle.auditing.exposure import LEVELS, Exposure, attack, link
from unshuffle.auditing.releases import MERGED, NOISY, ROUNDED, Release, list_releases, number_bags
from unshuffle.auditing.scales import AS_IS, SCALES, Scale
from unshuffle.auditing.words import describe_exposure, describe_releases, describe_scales
from unshuffle.errors import InputError, quote
from unshuffle.objectives.checks import check_values
from unshuffle.options import FitOptions, as_bag_offsets, check_options, make_rng
from unshuffle.progress import Report, say_nothing
from unshuffle.threads import run_all

# A link that chance makes once in a hundred tables without one is none to audit.
_LEAST_LINK = 0.01
_SHOWN_ROWS = 20
_DOING = {MERGED: "Merging bags", ROUNDED: "Rounding labels", NOISY: "Adding noise"}

NOT_SHOWN = (
    "Side information: somebody who knows a few rows, a rank or a rough label from elsewhere "
    "finds more than is shown here.",
    "Other attacks: only linear models of the label, its logarithm and its square root are tried; "
    "a better model, or columns that are not in this table, match more.",
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
    found, `remarks` what should be known besides, and `not_shown` what was not looked at. `scales`
    are attacks on the release as planned with the label on every scale tried, the worst first: its
    scale is that of all else.

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

    def __repr__(self) -> str:
        return str(self)

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
        "scale": found.scale,
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
    scale: str | None = None,
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
    scale : "as is", "log10" or "sqrt", optional
        The scale of the label that the outsider fits. Without it every scale that the labels allow
        is tried on the release as planned, and the worst is reported; a noise given in units of the
        label leaves "as is".
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
    asked = FitOptions(**options)
    check_options(replace(asked, n_jobs=n_jobs))
    _check_table(X, y, names)
    shares = _check_links(X, y, number_bags(names, len(y)), _list_scales(y, scale, asked))
    # Nothing may hang on the order of the rows, noise that is added included.
    order = np.lexsort((y, *X.T[::-1]))
    codes = number_bags(names, len(y))[order]
    X, y = X[order], y[order]
    rng = make_rng(rng)
    planned, *others = list_releases(X, y, codes, rng)
    seed = int(rng.integers(2**63))
    truths = {name: link(X, y, SCALES[name]) for name in {*shares, AS_IS}}
    done, lock, n_attacks = count(1), Lock(), len(shares) + len(others)

    def run(task: tuple[Release, str], stop: Event) -> Exposure | None:
        if stop.is_set():
            return None
        release, name = task
        found = attack(release, truths[name], y, asked, seed)
        with lock:
            report("attacking", next(done) / n_attacks)
        return found

    def run_tasks(tasks: list[tuple[Release, str]]) -> list[Exposure]:
        return [each for each in run_all(run, tasks, n_jobs) if each is not None]

    tried = run_tasks([(planned, name) for name in shares])
    tried.sort(key=lambda each: -each.right)
    worst = tried[0].scale
    # Rounding and noise may leave labels without a logarithm or a root.
    rest = [(each, worst if SCALES[worst].allows(each.y).all() else AS_IS) for each in others]
    exposures = (tried[0], *run_tasks(rest))
    places = order if rows is None else np.asarray(rows)[order]
    exposed = _find_exposed(exposures[0], places)
    verdict = (
        *describe_exposure(exposures[0], [each.row for each in exposed], X.shape[1]),
        *describe_scales(tried),
        *describe_releases(exposures, _DOING),
    )
    r2 = shares[worst]
    remarks = (*_make_remarks(codes, r2, SCALES[worst]), *_describe_mixed(exposures))
    return Audit(exposures, exposed, r2, len(y), X.shape[1], verdict, remarks, tuple(tried))


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


def _check_table(X: np.ndarray, y: np.ndarray, groups: list[Any] | None) -> None:
    """Refuse what cannot be audited."""
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


def _make_remarks(codes: np.ndarray, r2: float, scale: Scale) -> tuple[str, ...]:
    n_single = int((np.bincount(codes) == 1).sum())
    remarks = [
        f"On the linked table the features explain {r2:.0%} of the variance of {scale.words}."
    ]
    if n_single:
        which = "One bag holds" if n_single == 1 else f"{n_single} bags hold"
        remarks.append(f"{which} a single row, whose label shuffling does not hide.")
    return tuple(remarks)
