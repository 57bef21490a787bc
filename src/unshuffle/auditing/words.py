"""Sentences on the results of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unshuffle.auditing.exposure import Exposure
from unshuffle.auditing.proportions import Risk
from unshuffle.formatting import SHOWN_NAMES, show_number

# The accepted risk without another: one row in a hundred.
LITTLE = 0.01


def describe_exposure(found: Exposure, exposed: Sequence[object], d: int) -> tuple[str, ...]:
    """Say what the release as planned gives away."""
    signs = "" if found.n_signs is None else f", with the signs of {found.n_signs} of {d}"
    verdict = found.verdict or "without intervals"
    sentences = [
        f"An outsider recovers the coefficients with an error of {found.error:.2g} "
        f"({verdict}{signs}).",
        _describe_shares(found),
        describe_risk(found.risk),
        _describe_errors(found),
    ]
    if found.levels is None:
        sentences.append("Matches of this method carry no probabilities: use method='likelihood'.")
        return tuple(sentences)
    parts = [
        f"{each.n_rows} at {each.at_least:g} or more"
        + (f" ({percent(each.n_right / each.n_rows)} of them right)" if each.n_rows else "")
        for each in found.levels
    ]
    sentences.append(f"Rows re-identified, of {found.n}, by probability: {'; '.join(parts)}.")
    if exposed:
        names = ", ".join(str(row) for row in exposed[:SHOWN_NAMES])
        n_right = found.levels[0].n_right
        of_all = f", of {n_right} such rows" if n_right > SHOWN_NAMES else ""
        sentences.append(f"Most exposed (matched rightly, the surest first{of_all}): {names}.")
    return tuple(sentences)


def _describe_shares(found: Exposure) -> str:
    """Say how many rows are matched to their own label, and how many would be anyway."""
    control = found.control_right
    left_out = f"; the same attack on control rows {percent(control.value)}" if control.n else ""
    return (
        f"{percent(found.right)} of the rows are matched to their own label. Guessing inside bags "
        f"gives {percent(found.guess)}, knowing the true coefficients {percent(found.known)}"
        f"{left_out}."
    )


def describe_risk(risk: Risk) -> str:
    """Say what share of the rows is re-identified because of the release."""
    sure = f" with a probability of at least {risk.at_least:g}" if risk.at_least else ""
    beyond = (
        f", beyond the share among {risk.n_control} control rows, which were left out of the "
        "release"
        if risk.n_control
        else "; no control rows could be left out"
    )
    return f"Risk: {show_risk(risk)} of the rows are re-identified{sure}{beyond}."


def show_risk(risk: Risk) -> str:
    """Write a risk with its interval."""
    low, high = f"{100 * risk.low:.2g}", f"{100 * risk.high:.2g}"
    return f"{percent(risk.value)} (95 % interval {low} to {high} %)"


def _describe_errors(found: Exposure) -> str:
    """Say how far the label picked for a person is off, in the label's units."""
    sd = found.label_sd
    control = f", by {show_number(found.control.gap)} for control rows" if found.control.n else ""
    return (
        f"The label picked for a row is off by {show_number(sd * found.label_gap)} (root mean "
        f"square), by {show_number(sd * found.guess_gap)} when guessing inside bags{control}."
    )


def describe_scales(tried: Sequence[Exposure]) -> tuple[str, ...]:
    """Say on which scales of the label the release was attacked, the worst first."""
    if len(tried) < 2:
        return ()
    shares = ", ".join(f"{each.scale} {percent(each.right)}" for each in tried)
    return (
        f"Scales of the label tried, and rows matched: {shares}. All figures are for "
        f"{tried[0].scale}, the worst.",
    )


def describe_side_information(found: Exposure, unaided: Exposure | None) -> tuple[str, ...]:
    """Compare the risk with that of an outsider without the known columns."""
    if unaided is None:
        return ()
    return (
        f"Without the known columns {percent(unaided.right)} of the rows are matched rightly in "
        f"place of {percent(found.right)}, and the risk is {show_risk(unaided.risk)}.",
    )


def describe_releases(
    found: Sequence[Exposure], kinds: Mapping[str, str], accept: float | None
) -> tuple[str, ...]:
    """Advise on protections by their risk and by what they do to the coefficients.

    `kinds` maps each kind of protection to what is done. Without an accepted risk it is `LITTLE`.
    """
    planned, others = found[0], found[1:]
    limit = LITTLE if accept is None else accept
    accepted = f"{100 * limit:g} %"
    is_low = planned.risk.value <= limit
    sentences = []
    if accept is not None:
        sentences.append(
            f"The risk is {'within' if is_low else 'above'} the accepted {accepted}."
            + " Its interval reaches further." * (is_low and planned.risk.high > limit)
        )
    elif is_low:
        sentences.append(f"As planned, the risk is at most {accepted}.")
    by_kind = [[each for each in others if each.release.kind == kind] for kind in kinds]
    if not is_low and others:
        # The mildest step of each kind that suffices.
        enough = [next((each for each in tried if each.risk.value <= limit), None)
                  for tried in by_kind]  # fmt: skip
        chosen = [each for each in enough if each is not None]
        sentences += _advise(planned, chosen, others, accepted)
    for doing, tried in zip(kinds.values(), by_kind, strict=True):
        worst = max(tried, key=lambda each: each.risk.value, default=planned)
        if worst.risk.value > max(planned.risk.value, limit):
            change = f"from {percent(planned.risk.value)} to {percent(worst.risk.value)}"
            sentences.append(f"{doing} raises the risk {change} ({worst.release.name}).")
    return tuple(sentences)


def _advise(
    planned: Exposure, chosen: Sequence[Exposure], others: Sequence[Exposure], accepted: str
) -> list[str]:
    """Name the steps that suffice, the least harm to the coefficients first, or the best one."""
    cost = f"error of the coefficients; {planned.error:.2g} as planned"
    if chosen:
        best = sorted(chosen, key=lambda each: each.error)
        steps = "; ".join(f"{each.release.name} ({each.error:.2g})" for each in best)
        return [f"Steps that lower the risk to at most {accepted} ({cost}): {steps}."]
    least = min(others, key=lambda each: each.risk.value)
    if least.risk.value >= planned.risk.value:
        return ["No step tried lowers the risk."]
    return [
        f"No step tried lowers the risk to {accepted}. The lowest is {percent(least.risk.value)}: "
        f"{least.release.name} (error of the coefficients {least.error:.2g}; {planned.error:.2g} "
        "as planned)."
    ]


def percent(share: float) -> str:
    """Write a share in whole per cent."""
    return "less than 1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"
