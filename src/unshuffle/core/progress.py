"""How a solver tells how far it is: a stage, and the share of it that is done."""

from __future__ import annotations

from collections.abc import Callable

# Called with the stage in a few words and the share of it that is done, from 0 to 1. It may raise,
# which ends the fit; it must not change what is computed.
Report = Callable[[str, float], None]


def say_nothing(stage: str, share: float) -> None:
    """Let a solver work in silence."""
