"""Matches of labels to rows where labels stand beside their rows, but for a share of wrong links.

A label keeps its row with the posterior probability of its link in the mixture. The others are
matched among themselves. Both are averaged over draws of weights and noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log

import numpy as np
from scipy.special import expit

from unshuffle import kernels
from unshuffle.core.uncertainty import Uncertainty
from unshuffle.data.anchors import find_beside
from unshuffle.data.bags import Bags
from unshuffle.data.products import predict_rows
from unshuffle.errors import InputError
from unshuffle.linkage.given_pairs import estimate_density
from unshuffle.results.matching import (
    N_BURNT,
    N_KEPT,
    SEED,
    Match,
    add_equal,
    choose_candidates,
    choose_n_draws,
    describe_matches,
    look_up,
    number_values,
    predict_draws,
    swap_reach,
)

# Least noise sd, as a share of the range of the labels.
_LEAST_NOISE = 1e-12


def match_links(
    bags: Bags,
    w: np.ndarray,
    intercept: float,
    unsure: Uncertainty,
    wrong: float,
    *,
    tables: Sequence[np.ndarray] | None = None,
) -> Match:
    """Return the matches of labels of which a share stands beside wrong rows.

    A row keeps the label beside it where that is more likely than not; the others go by rank among
    those that are left. `tables`, one for each bag (rows × labels), stand for the probabilities
    where they are known already.
    """
    own = find_label_beside(bags)
    reference = _measure_density(bags)
    rng = np.random.default_rng(SEED)
    draws, sigma = unsure.draw(choose_n_draws(bags.n), rng)
    order, n_equal = np.empty(bags.n, dtype=int), np.empty(bags.n, dtype=int)
    labels, probability, guess = np.empty(bags.n), np.empty(bags.n), np.empty(bags.n)
    z = predict_rows(bags.X, w) + intercept
    n_kept = 0
    for r, (start, stop) in enumerate(pairwise(bags.offsets)):
        y = bags.y[start:stop]
        kind, counts = number_values(y)
        # Sorted by content: the order of equal rows does not matter.
        inside = np.lexsort([y[own[start:stop] - start], *bags.X[start:stop].T[::-1]])
        rows, beside = start + inside, own[start:stop][inside] - start
        if tables is not None:
            table, first = add_equal(tables[r], kind)[inside], np.zeros(len(y), dtype=np.int64)
            keep = look_up(table, kind[beside]) >= 0.5
        else:
            right = _link_probabilities(
                bags.X[rows], y[beside], reference[start:stop][beside], draws, sigma, wrong
            )
            keep = right.mean(axis=0) >= 0.5
        matched = _match_rest(keep, beside, z[rows])
        if tables is None:
            table, first = _draw_tables(
                right, bags.X[rows], y, kind, beside, matched, draws, sigma, rng
            )
        place = bags.rows.order[rows]
        order[place], labels[place] = bags.labels.order[start:stop][matched], y[matched]
        n_equal[place], guess[place] = counts[kind[matched]], counts[kind[matched]] / len(y)
        probability[place] = look_up(table, kind[matched] - first)
        n_kept += int((matched == beside).sum())
    verdict = describe_matches(probability, guess, n_equal, tables is not None, unsure.is_thin)
    kept = f"{n_kept} of {bags.n} rows keep the label that stood beside them."
    return Match(order, probability, labels, n_equal, (verdict[0], kept, *verdict[1:]))


def find_label_beside(bags: Bags) -> np.ndarray:
    """Return the label that stood beside each row, both in canonical order."""
    if not bags.is_plain:
        raise InputError(
            "match needs one label for each row, of the same individuals: separate samples, bins "
            "and missing labels leave nothing to match"
        )
    own = np.empty(bags.n, dtype=np.int64)
    own[find_beside(bags.rows.order, bags.labels.order)] = np.arange(bags.n)
    unit = np.repeat(np.arange(bags.n_bags), bags.sizes)
    single = np.flatnonzero(bags.sizes[unit] == 1)
    own[single] = single  # a bag of one row is a pair, wherever its label stood
    if not (unit[own] == unit).all():
        raise InputError(
            "anchors give away the label beside another row, whose link is then unknown: with "
            "mislinked give anchors as True or False for every row"
        )
    return own


def _measure_density(bags: Bags) -> np.ndarray:
    """Return the log density of each label among the labels of its bag, as the mixture has it."""
    unit = np.repeat(np.arange(bags.n_bags), bags.sizes)
    original_bags = unit if bags.original_bags is None else bags.original_bags[unit]
    means = np.bincount(original_bags, bags.y) / np.bincount(original_bags)
    return estimate_density(bags.y - means[original_bags])


def _link_probabilities(
    X: np.ndarray,
    y: np.ndarray,
    log_reference: np.ndarray,
    draws: np.ndarray,
    sigma: np.ndarray,
    wrong: float,
) -> np.ndarray:
    """Return (draws, rows) the probability that the label beside each row is its own."""
    if wrong <= 0.0 or len(y) == 1:
        return np.ones((len(draws), len(y)))
    sd = np.maximum(sigma, _floor(y))[:, None]
    gaps = (y - predict_draws(X, draws)) / sd
    linked = -0.5 * gaps**2 - np.log(sd) - 0.5 * log(2.0 * np.pi)
    return np.asarray(expit(linked + log(max(1.0 - wrong, 1e-300)) - log_reference - log(wrong)))


def _floor(y: np.ndarray) -> float:
    """Return a noise sd that divides nothing by zero."""
    size = float(np.ptp(y)) or float(np.abs(y).max()) or 1.0
    return max(_LEAST_NOISE * size, float(np.finfo(float).smallest_subnormal))


def _match_rest(keep: np.ndarray, beside: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the label of each row: its own where it is kept, by rank among the others."""
    matched = beside.copy()
    rest = np.flatnonzero(~keep)
    matched[rest[np.argsort(z[rest], kind="stable")]] = np.sort(beside[rest])
    return matched


def _draw_tables(
    right: np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    kind: np.ndarray,
    beside: np.ndarray,
    matched: np.ndarray,
    draws: np.ndarray,
    sigma: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the match probabilities of one bag (rows × candidates), and the first candidates."""
    n = len(y)
    width, first = choose_candidates(kind, kind[matched])
    counts, place = np.zeros((n, width)), kind[beside] - first
    is_seen = (place >= 0) & (place < width)
    z, floor = predict_draws(X, draws), _floor(y)
    for each, predictions, sd in zip(right, z, np.maximum(sigma, floor), strict=True):
        stays = rng.random(n) < each
        mixed = np.flatnonzero(~stays)
        if len(mixed) == 1:  # there is no other label for it
            stays[:] = True
        at = np.flatnonzero(stays & is_seen)
        counts[at, place[at]] += 1.0
        if len(mixed) > 1:
            labels = np.sort(beside[mixed])
            found, totals = np.zeros((len(mixed), width)), np.zeros(len(mixed))
            scaled = predictions[mixed] / sd
            order = np.argsort(scaled, kind="stable")
            uniforms = rng.random((N_BURNT + N_KEPT, len(mixed), 2))
            kernels.swap_counts(
                scaled, y[labels] / sd, kind[labels], order, first[mixed], 1.0,
                swap_reach(scaled), uniforms, N_BURNT, found, totals,
            )  # fmt: skip
            counts[mixed] += found / np.maximum(totals, 1e-300)[:, None]
    return counts / len(draws), first
