"""What an audit found, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unshuffle.auditing.exposure import Exposure

# The level and the share of rows by which protections are compared: one row in a hundred, matched
# rightly and so surely that an outsider would act on it.
_LEVEL, _LITTLE = 0.8, 0.01
_SHOWN_ROWS = 8


def describe_exposure(found: Exposure, exposed: Sequence[int], d: int) -> tuple[str, ...]:
    """Say what the release as planned gives away."""
    signs = "" if found.n_signs is None else f", and the signs of {found.n_signs} of {d} are known"
    verdict = found.verdict or "not judged"
    sentences = [
        f"An outsider recovers the weights with an error of {found.error:.2g} ({verdict}{signs}).",
        f"{_percent(found.right)} of the rows are matched to their own label, where guessing "
        f"inside bags gives {_percent(found.guess)} and knowing the true weights "
        f"{_percent(found.known)}.",
    ]
    if found.levels is None:
        sentences.append("Matches of this method carry no probabilities: use method='likelihood'.")
        return tuple(sentences)
    parts = [
        f"{each.n_rows} at {each.at_least:g} or more"
        + (f" ({_percent(each.n_right / each.n_rows)} of them right)" if each.n_rows else "")
        for each in found.levels
    ]
    sentences.append(f"Rows re-identified, of {found.n}, by probability: {'; '.join(parts)}.")
    if exposed:
        names = ", ".join(str(row) for row in exposed[:_SHOWN_ROWS])
        n_right = found.levels[0].n_right
        of_all = f", of {n_right} such rows" if n_right > _SHOWN_ROWS else ""
        sentences.append(f"Most exposed (matched rightly, the surest first{of_all}): {names}.")
    return tuple(sentences)


def describe_scales(tried: Sequence[Exposure]) -> tuple[str, ...]:
    """Say on which scales of the label the release was attacked, the worst first."""
    if len(tried) < 2:
        return ()
    told = ", ".join(f"{each.scale} {_percent(each.right)}" for each in tried)
    return (
        f"Scales of the label tried, and rows matched: {told}. All figures are for "
        f"{tried[0].scale}, the worst.",
    )


def describe_releases(found: Sequence[Exposure], kinds: Mapping[str, str]) -> tuple[str, ...]:
    """Say which protections leave few rows matched rightly and surely, and which do harm.

    `kinds` maps each kind of protection to what is done.
    """
    planned = found[0].share_at(_LEVEL)
    if planned is None:
        return ()
    what = f"of the rows matched rightly at {_LEVEL:g} or more"
    sentences = []
    if planned <= _LITTLE:
        sentences.append(f"As planned, the release leaves {_percent(planned)} {what}.")
    enough, lowering, raising = [], [], []
    for kind, doing in kinds.items():
        tried = [
            (each.share_at(_LEVEL) or 0.0, each.release.name)
            for each in found
            if each.release.kind == kind
        ]
        if not tried:
            continue
        helps = [name for share, name in tried if share <= _LITTLE]
        (least, best), (most, worst) = min(tried), max(tried)
        if helps:
            enough.append(helps[0])
        elif least < planned:
            lowering.append(f"{doing} lowers this share to {_percent(least)} ({best})")
        if most > max(planned, _LITTLE):
            change = f"from {_percent(planned)} to {_percent(most)} ({worst})"
            raising.append(f"{doing} raises this share {change}.")
    if planned > _LITTLE:
        if enough:
            first = enough[0][0].upper() + enough[0][1:]
            others = "".join(f", or {each}" for each in enough[1:])
            sentences.append(f"{first}{others}: leaves at most {100 * _LITTLE:g} % {what}.")
        elif lowering:
            sentences.append(f"No step tried leaves at most {100 * _LITTLE:g} % {what}.")
        else:
            sentences.append(f"No step tried lowers the share {what}.")
        sentences += [f"{each}; more of it is needed." for each in lowering]
    return (*sentences, *raising)


def _percent(share: float) -> str:
    return "less than 1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"
