"""What a simulation says, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unshuffle.design.simulation import Expectation
from unshuffle.wording import list_names

# A difference counts from twice its Monte-Carlo error on.
_CLEAR = 2.0
# Errors below this are none, and have a logarithm.
_LEAST_ERROR = 1e-12
# The radius of the verdict "identified": an answer further off is another answer.
_GOOD_ERROR = 0.3
# Chances from which a sign is said to become known, or to stay unknown.
_LIKELY, _UNLIKELY = 0.8, 0.5
_SHOWN_NAMES = 5


def compare_runs(
    found: Sequence[Expectation], names: Sequence[str], offset: float
) -> tuple[str, ...]:
    """Say how many random runs the designed ones are worth, without offsets and with them."""
    sentences = []
    for has_offsets in (False, True):
        of_kind = [each for each in found if each.has_offsets == has_offsets]
        designed = [each for each in of_kind if each.kind == "designed"]
        one_run = [each for each in found if each.n_runs == 1]
        random = sorted(
            [each for each in of_kind if each.kind == "random" and each.n_runs > 1] + one_run,
            key=lambda each: each.n_runs,
        )
        parts = [_compare_one(each, random) for each in designed]
        if parts:
            start = f"With offsets between runs ({offset:g} of the labels' sd): "
            sentences.append((start if has_offsets else "") + "; ".join(parts) + ".")
    best = min(found, key=lambda each: (each.has_offsets, each.error))
    sentences += describe_signs(best, names)
    return tuple(sentences)


def _compare_one(designed: Expectation, random: Sequence[Expectation]) -> str:
    """Say what a number of designed runs is worth, in so many words as the errors allow."""
    same = next(each for each in random if each.n_runs == designed.n_runs)
    runs = f"{designed.n_runs} designed runs"
    errors = f"(error {designed.error:.2g} against {same.error:.2g})"
    order = compare_errors(designed, same)
    if order > 0:
        return f"{runs} do worse than {same.n_runs} random runs {errors}"
    if order == 0:
        return f"{runs} do about what {same.n_runs} random runs do {errors}"
    worth = equivalent_runs(
        [each.n_runs for each in random], [each.error for each in random], designed.error
    )
    if worth is None:
        # Beyond the last number simulated, or by chance.
        most = random[-1]
        more = "more than" if compare_errors(designed, most) < 0 else "what"
        return f"{runs} do {more} {most.n_runs} random runs do {errors}"
    return f"{runs} do what {max(round(worth), same.n_runs)} random runs do {errors}"


def compare_errors(one: Expectation, other: Expectation) -> int:
    """Return 1 or −1 where the errors of one are clearly larger or smaller, 0 where chance decides.

    Over the trials that both have, by logarithms, since a few errors of a long tail decide a mean;
    but the mean must say the same.
    """
    n_shared = min(one.trials, other.trials)
    errors, others = one.errors[:n_shared], other.errors[:n_shared]
    ratios = np.log(np.maximum(errors, _LEAST_ERROR) / np.maximum(others, _LEAST_ERROR))
    doubt = float(ratios.std(ddof=1)) / np.sqrt(n_shared)
    gap = float(ratios.mean())
    if abs(gap) <= _CLEAR * doubt or gap * float(errors.mean() - others.mean()) < 0:
        return 0
    return 1 if gap > 0 else -1


def equivalent_runs(runs: Sequence[int], errors: Sequence[float], target: float) -> float | None:
    """Return the number of runs at which a curve of errors reaches a target; None beyond its end.

    Errors fall with the runs but for chance, so that a rise counts as flat; in between they are
    straight on log scales.

    >>> equivalent_runs([1, 4, 16], [1.0, 0.5, 0.25], 0.5 ** 1.5)
    8.0
    """
    lowest = np.log(np.minimum.accumulate(np.maximum(errors, 1e-300)))
    place = np.log(np.asarray(runs, dtype=float))
    level = np.log(max(target, 1e-300))
    if level >= lowest[0]:
        return float(runs[0])
    for k in range(1, len(runs)):
        if level >= lowest[k]:
            share = (lowest[k - 1] - level) / (lowest[k - 1] - lowest[k])
            return float(np.exp(place[k - 1] + share * (place[k] - place[k - 1])).round(9))
    return None


def describe_signs(found: Expectation, names: Sequence[str]) -> list[str]:
    """Say of which weights the sign will become known, and of which it will stay unknown."""
    if found.sign_known is None:
        return []
    runs = f"{found.n_runs} {found.kind} runs" if found.n_runs > 1 else "one run"
    chances = found.sign_known.tolist()
    likely = [n for n, chance in zip(names, chances, strict=True) if chance >= _LIKELY]
    unlikely = [n for n, chance in zip(names, chances, strict=True) if chance < _UNLIKELY]
    parts = []
    if likely:
        parts.append(f"will probably be known of {list_names(likely, _SHOWN_NAMES)}")
    if unlikely:
        parts.append(f"will probably stay unknown of {list_names(unlikely, _SHOWN_NAMES)}")
    if not parts:
        parts = ["is as likely to become known as not, of every weight"]
    return [f"With {runs} the sign {' and '.join(parts)}."]


def judge_design(
    found: Sequence[Expectation], names: Sequence[str], offset: float
) -> tuple[str, ...]:
    """Say whether bags that exist will do, beside random and designed ones of their sizes."""
    sentences = []
    for has_offsets in (False, True):
        by_kind = {each.kind: each for each in found if each.has_offsets == has_offsets}
        if not by_kind:
            continue
        given = by_kind["given"]
        start = (
            f"With offsets between bags ({offset:g} of the labels' sd) this"
            if has_offsets
            else "This"
        )
        others = ", ".join(
            f"{kind} bags of these sizes {by_kind[kind].error:.2g}"
            for kind in ("random", "designed")
            if kind in by_kind
        )
        beside = f" ({others})" if others else ""
        sentences.append(
            f"{start} design {_will_it_work(given)}: expected error {given.error:.2g} ± "
            f"{given.error_mc:.1g}{beside}."
        )
        if not has_offsets:
            sentences += [
                each.replace(f"{given.n_runs} given runs", "these bags")
                for each in describe_signs(given, names)
            ]
    return tuple(sentences)


def _will_it_work(given: Expectation) -> str:
    if given.error + _CLEAR * given.error_mc < _GOOD_ERROR:
        return "will work"
    if given.error - _CLEAR * given.error_mc > _GOOD_ERROR:
        return "will not work"
    return "may or may not work"
