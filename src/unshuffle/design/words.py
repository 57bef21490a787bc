"""Expected errors and signs of a simulation, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from unshuffle.design.simulation import Expectation
from unshuffle.formatting import list_names

# Errors below this are rounding.
_LEAST_ERROR = float(np.sqrt(np.finfo(float).eps))


@dataclass(frozen=True)
class VerdictSettings:
    """Limits of the verdict on a design.

    Attributes
    ----------
    good_error : float
        A design works where the expected error, relative to the size of the coefficients, is below
        this: beyond, estimates are other answers.
    """

    good_error: float = 0.3


VERDICT = VerdictSettings()


def t_quantile(n_trials: int) -> float:
    """Return the 97.5 % quantile of Student's t for the mean of some trials."""
    return float(stdtrit(n_trials - 1, 0.975))


def compare_runs(
    found: Sequence[Expectation], names: Sequence[str], offset: float
) -> tuple[str, ...]:
    """Give the errors of designed and random runs, without offsets and with them, and compare.

    Nothing is compared within the Monte Carlo error.
    """
    sentences = []
    for has_offsets in (False, True):
        of_kind = [each for each in found if each.has_offsets == has_offsets]
        one_run = [each for each in found if each.n_runs == 1]
        random = {each.n_runs: each for each in (*one_run, *of_kind) if each.kind == "random"}
        parts, orders = [], []
        for designed in of_kind:
            if designed.kind != "designed":
                continue
            n_runs = designed.n_runs
            others = [random[n] for n in (n_runs, 2 * n_runs) if n in random]
            parts.append(", ".join(map(_show_error, (designed, *others))))
            orders += [_order(designed, each) for each in others]
        if parts:
            start = f"With offsets between runs ({offset:g} of the labels' sd), expected error: "
            sentences.append(
                (start if has_offsets else "Expected error: ") + "; ".join(parts) + "."
            )
            clear = [each for each in orders if each]
            sentences.append(
                f"Beyond the Monte Carlo error: {'; '.join(clear)}."
                if clear
                else "No difference is beyond the Monte Carlo error; more trials may show one."
            )
    best = min(found, key=lambda each: (each.has_offsets, each.error))
    sentences += describe_signs(best, names)
    return tuple(sentences)


def _show_error(each: Expectation) -> str:
    """Write an error with its Monte Carlo error, and what it belongs to."""
    return f"{each.n_runs} {each.kind} {each.error:.2g} ± {each.error_mc:.1g}"


def _order(designed: Expectation, random: Expectation) -> str:
    """Say which of the two has the smaller error; empty where chance decides."""
    order = compare_errors(designed, random)
    if order == 0:
        return ""
    relation = "better" if order < 0 else "worse"
    return f"{designed.n_runs} designed are {relation} than {random.n_runs} random"


def compare_errors(one: Expectation, other: Expectation) -> int:
    """Return 1 or −1 where the errors of one are clearly larger or smaller, 0 where chance decides.

    Over the trials that both have, by logarithms, since a few errors of a long tail decide a mean;
    but the means, as they are shown with their Monte Carlo errors, must agree.
    """
    n_shared = min(one.trials, other.trials)
    errors, others = one.errors[:n_shared], other.errors[:n_shared]
    ratios = np.log(np.maximum(errors, _LEAST_ERROR) / np.maximum(others, _LEAST_ERROR))
    doubt = float(ratios.std(ddof=1)) / np.sqrt(n_shared)
    gap = float(ratios.mean())
    shown = one.error - other.error
    clear = t_quantile(n_shared)
    is_clear = abs(shown) > clear * np.hypot(one.error_mc, other.error_mc)
    if not is_clear or abs(gap) <= clear * doubt or gap * shown < 0:
        return 0
    return 1 if gap > 0 else -1


def describe_signs(found: Expectation, names: Sequence[str]) -> list[str]:
    """Say of which coefficients the sign will be determined, and of which it will not.

    A chance counts where its 95 % interval leaves out one half.
    """
    if found.sign_known is None or found.sign_known_mc is None:
        return []
    runs = f"{found.n_runs} {found.kind} runs" if found.n_runs > 1 else "one run"
    excess = (found.sign_known - 0.5) / np.maximum(found.sign_known_mc, _LEAST_ERROR)
    clear = float(ndtri(0.975))
    likely = [n for n, each in zip(names, excess, strict=True) if each > clear]
    unlikely = [n for n, each in zip(names, excess, strict=True) if each < -clear]
    parts = []
    if likely:
        parts.append(f"probably determined of {list_names(likely)}")
    if unlikely:
        parts.append(f"probably undetermined of {list_names(unlikely)}")
    if not parts:
        return [f"{found.trials} simulated experiments leave open which signs {runs} determine."]
    return [f"With {runs} the sign is {' and '.join(parts)}."]


def show_coefficient(found: Expectation, j: int) -> str:
    """Write the chance that a sign is determined, and the width of the interval, to two digits."""
    if found.sign_known is None or found.width is None:
        return "–"
    return f"{found.sign_known[j]:.0%}, {float(f'{found.width[j]:.2g}'):g}"


def describe_bags(
    found: Sequence[Expectation], names: Sequence[str], offset: float
) -> tuple[str, ...]:
    """Compare bags that exist with random and designed ones of their sizes."""
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
            f"{kind} bags of these sizes {by_kind[kind].error:.2g} ± {by_kind[kind].error_mc:.1g}"
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
    margin = t_quantile(given.trials) * given.error_mc
    if given.error + margin < VERDICT.good_error:
        return "will work"
    if given.error - margin > VERDICT.good_error:
        return "will not work"
    return "may or may not work"
