"""A matching attack on a release: a fit and matches as an outsider, against the linked table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import fsum
from typing import Any

import numpy as np

from unshuffle.auditing.control import NO_CONTROL, Control, attack_control
from unshuffle.auditing.proportions import Proportion, Risk, find_risk
from unshuffle.auditing.releases import NOISY, Release
from unshuffle.auditing.scales import AS_IS, SCALES, Scale
from unshuffle.core.uncertainty import Posterior
from unshuffle.data.bags import make_bags
from unshuffle.data.products import predict_rows, solve_rows
from unshuffle.options import FitOptions
from unshuffle.results.determined import UNDETERMINED
from unshuffle.results.fit import Fit, fit_bags
from unshuffle.results.matching import match_labels
from unshuffle.results.verdict import IDENTIFIED

LEVELS = (0.5, 0.8, 0.95)
# Least probability of a match that counts as re-identification.
SURE = 0.8
# Bins of the match probability in which claims and facts are compared.
BINS = (0.0, 0.1, 0.25, 0.5, 0.8, 0.95, 1.0)


@dataclass(frozen=True, eq=False)
class Truth:
    """Least squares on the linked table, which the owner knows, and the sd of its residuals.

    Labels are on the `scale` on which the table is attacked.
    """

    weights: np.ndarray
    intercept: float
    noise: float
    scales: np.ndarray
    scale: Scale = SCALES[AS_IS]

    def make_posterior(self, release: Release) -> Posterior:
        """Return the posterior of an outsider who knows the weights and how labels were changed."""
        point = np.append(self.weights, self.intercept)[None]
        noise = self.noise
        if release.kind == NOISY and self.scale.name == AS_IS:
            noise = float(np.hypot(noise, release.amount or 0.0))
        elif release.kind == NOISY:
            left = self.scale.transform(release.y) - predict_rows(release.X, self.weights)
            noise = float(np.sqrt(np.mean((left - self.intercept) ** 2)))
        return Posterior(point, np.ones(1), np.array([noise]))


def link(X: np.ndarray, y: np.ndarray, scale: Scale = SCALES[AS_IS]) -> Truth:
    """Return least squares on the linked table, with labels on a scale."""
    y = scale.transform(y)
    rows = np.column_stack([X - X.mean(axis=0), np.ones(len(y))])
    found, rank = solve_rows(rows, y, 1e-10)
    left = y - predict_rows(rows, found)
    noise = float(np.sqrt((left**2).sum() / max(len(y) - rank, 1)))
    w = found[:-1]
    intercept = float(found[-1] - (X.mean(axis=0) * w).sum())
    return Truth(w, intercept, noise, X.std(axis=0), scale)


@dataclass(frozen=True)
class Level:
    """Rows whose match has at least this probability: how many, and how many of them are right."""

    at_least: float
    n_rows: int
    n_right: int


@dataclass(frozen=True)
class Bin:
    """Rows whose match probability is in a bin: how many, its mean, and the share that is right."""

    low: float
    high: float
    n_rows: int
    claimed: float
    right: float


@dataclass(frozen=True, eq=False)
class Exposure:
    """What an outsider recovers from one release.

    Attributes
    ----------
    release : Release
        What was released: its name, bags, rounding and noise.
    scale : str
        Scale of the label that the outsider fits, such as "log10".
    n : int
        Number of rows.
    error : float
        |ŵ − w|/|w| of the outsider's coefficients in units of w_j sd(x_j), where w is least squares
        on the linked table.
    verdict : str or None
        Verdict of the outsider's fit.
    n_signs : int or None
        Number of coefficients whose sign the outsider determines.
    covered : float or None
        Share of the coefficients inside the outsider's 95 % intervals.
    right, guess, known : float
        Share of the rows matched to their own label: by the outsider, by guessing inside bags, and
        by someone who knows the true coefficients.
    label_gap, guess_gap : float
        Root mean square distance of the matched label from the row's own, over `label_sd`: by the
        outsider, and by guessing.
    label_sd : float
        Sd of the labels.
    control : Control
        The same attack on rows that were left out of the release.
    levels, known_levels : tuple or None
        Rows matched at each probability, by the outsider and with the true coefficients.
    calibration : tuple
        Claimed and true probabilities of matches, by classes.
    probability : ndarray or None
        Probability of each row's match; None for methods without probabilities.
    is_right : ndarray
        Whether each row is matched to its own label.

    Examples
    --------
    >>> from unshuffle import audit, make_shuffled
    >>> data = make_shuffled(60, 1, noise=0.02, bags=6, rng=0)
    >>> found = audit(data.X, data.linked_y, data.groups, rng=0, method="ls").planned
    >>> found.n, found.right > found.guess
    (60, True)
    """

    release: Release
    scale: str
    n: int
    error: float
    verdict: str | None
    n_signs: int | None
    covered: float | None
    right: float
    guess: float
    known: float
    label_gap: float
    guess_gap: float
    label_sd: float
    control: Control
    levels: tuple[Level, ...] | None
    known_levels: tuple[Level, ...]
    calibration: tuple[Bin, ...]
    probability: np.ndarray | None
    is_right: np.ndarray

    @property
    def identified(self) -> bool | None:
        """Whether the outsider's fit is identified; None without intervals."""
        return None if self.verdict is None else self.verdict == IDENTIFIED

    @property
    def matched(self) -> Proportion:
        """Rows matched to their own label, whatever the probability."""
        return Proportion(int(self.is_right.sum()), self.n)

    @property
    def control_right(self) -> Proportion:
        """Control rows whose own label was picked."""
        return Proportion(self.control.count_right(0.0), self.control.n)

    @property
    def risk(self) -> Risk:
        """The risk of re-identification: matches of at least `SURE`, beyond control rows.

        Of a method without probabilities every match counts.
        """
        level = 0.0 if self.levels is None else SURE
        n_right = self.matched.count
        if self.levels is not None:
            n_right = next(each.n_right for each in self.levels if each.at_least == SURE)
        control = Proportion(self.control.count_right(level), self.control.n)
        return find_risk(Proportion(n_right, self.n), control, level)

    def share_at(self, level: float) -> float | None:
        """Return the share of all rows matched rightly with at least this probability."""
        if self.levels is None:
            return None
        found = next(each for each in self.levels if each.at_least == level)
        return found.n_right / self.n


def attack(
    release: Release, truth: Truth, y: np.ndarray, options: FitOptions, seed: int
) -> Exposure:
    """Fit a release as an outsider would, match its labels, and compare with the owner's table."""
    bags = make_bags(release.X, truth.scale.transform(release.y), release.groups)
    found = fit_bags(bags, replace(options, n_jobs=1), np.random.default_rng(seed))
    match = found.match(bags)
    informed = match_labels(bags, truth.weights, truth.intercept, truth.make_posterior(release))
    assert informed.probability is not None  # it has a posterior
    matched = release.y[match.order]
    is_right = matched == release.y
    knows = release.y[informed.order] == release.y
    spread = float(y.std())
    sizes = release.bag_sizes
    probability = match.probability
    return Exposure(
        release=release,
        scale=truth.scale.name,
        n=len(y),
        **_compare_weights(found, truth),
        right=float(is_right.mean()),
        guess=fsum((match.n_equal / sizes).tolist()) / len(y),
        known=float(knows.mean()),
        label_gap=float(np.sqrt(np.mean((matched - y) ** 2))) / spread,
        guess_gap=_guess_gap(release, y) / spread,
        label_sd=spread,
        control=NO_CONTROL,
        levels=None if probability is None else count_levels(probability, is_right),
        known_levels=count_levels(informed.probability, knows),
        calibration=() if probability is None else calibrate(probability, is_right),
        probability=probability,
        is_right=is_right,
    )


def add_control(found: Exposure, y: np.ndarray, options: FitOptions, seed: int) -> Exposure:
    """Attack control rows as well, which are left out of the release."""
    control = attack_control(found.release, SCALES[found.scale], y, options, seed)
    return replace(found, control=control)


def _compare_weights(found: Fit, truth: Truth) -> dict[str, Any]:
    d = len(truth.weights)
    size = np.linalg.norm(truth.scales * truth.weights)
    gap = np.linalg.norm(truth.scales * (found.coef - truth.weights))
    known = found.known[:d]
    facts = {"error": float(gap / size), "verdict": found.verdict}
    if None in known:
        return {**facts, "n_signs": None, "covered": None}
    low, high = found.conf_int().T
    return {
        **facts,
        "n_signs": sum(each != UNDETERMINED for each in known),
        "covered": float(np.mean((low <= truth.weights) & (truth.weights <= high))),
    }


def _guess_gap(release: Release, y: np.ndarray) -> float:
    """Return the root mean square distance of a label drawn from the row's bag to its own."""
    total = 0.0
    for rows in release.bag_rows:
        own, drawn = y[rows], release.y[rows]
        total += float(((own - drawn.mean()) ** 2).sum() + len(rows) * drawn.var())
    return float(np.sqrt(total / len(y)))


def count_levels(probability: np.ndarray, is_right: np.ndarray) -> tuple[Level, ...]:
    """Return how many matches reach each level, and how many of them are right.

    >>> count_levels(np.array([0.9, 0.6, 0.1]), np.array([True, False, True]))[0]
    Level(at_least=0.5, n_rows=2, n_right=1)
    """
    return tuple(
        Level(level, int((probability >= level).sum()), int(is_right[probability >= level].sum()))
        for level in LEVELS
    )


def calibrate(probability: np.ndarray, is_right: np.ndarray) -> tuple[Bin, ...]:
    """Return claimed and true shares of right matches, in bins that hold any rows."""
    place = np.clip(np.searchsorted(BINS, probability, side="right") - 1, 0, len(BINS) - 2)
    return tuple(
        Bin(
            BINS[k],
            BINS[k + 1],
            int((place == k).sum()),
            float(probability[place == k].mean()),
            float(is_right[place == k].mean()),
        )
        for k in range(len(BINS) - 1)
        if (place == k).any()
    )
