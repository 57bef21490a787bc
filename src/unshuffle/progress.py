"""How a solver tells how far it is: a stage, and the share of it that is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from threading import Lock
from typing import Any

from unshuffle.errors import InputError, shorten

# Called with the stage in a few words and the share of it that is done, from 0 to 1. It may raise,
# which ends the fit; it must not change what is computed.
Report = Callable[[str, float], None]

COMPILING = "compiling, for the first fit only"
# In place of a stage: compiling is over, and the stage before goes on.
RESUMED = ""
# Functions that are compiled for a fit by likelihood, numba's own among them.
_N_COMPILED = 137
# What each stage takes of a fit that has all of them, on four simulations of 300 to 4000 rows
# (0.01 to 0.19, 0.18 to 0.74 and 0.25 to 0.57); another stage is shown by itself.
STAGES = {
    "descending from many starts": (0.08,),
    "looking for modes": (0.45,),
    "sampling the posterior": (0.47,),
}
# In place of a stage: the posterior of data in blocks is to come, which takes another course.
IN_BLOCKS = "fitting in blocks"
# The same there, the halves of the last two apart, on five simulations of 60 000 to 1 500 000 rows:
# the first three took 0.02 to 0.07 together, then 0.01 to 0.24 (a sample), 0.16 to 0.43, 0.19 to
# 0.61 and 0.17 to 0.27. As the first looks and most of the rest grow with the rows, they tell early
# how long it will take.
BLOCK_STAGES = {
    "reading": (0.02,),
    "adding up": (0.01,),
    "counting labels": (0.02,),
    "looking for modes": (0.03, 0.32),
    "sampling the posterior": (0.38, 0.22),
}


def say_nothing(stage: str, share: float) -> None:
    """Let a solver work in silence."""


def measure_course(
    stage: str, share: float, stages: Mapping[str, tuple[float, ...]] = STAGES
) -> tuple[float, float]:
    """Return how much of a whole fit is done, and what this part of its stage still adds.

    >>> measure_course("looking for modes", 1.0)
    (0.53, 0.0)
    """
    if stage not in stages:
        return share, 0.0
    before = 0.0
    for name, parts in stages.items():
        if name != stage:
            before += sum(parts)
            continue
        place = min(int(share * len(parts)), len(parts) - 1)
        before, left = before + sum(parts[:place]), share * len(parts) - place
        return round(before + left * parts[place], 6), round((1 - left) * parts[place], 6)
    raise AssertionError("unreachable: the stage is one of them")


class Lines:
    """Tells every stage in a line of its own, with the seconds since the beginning."""

    def __init__(self, write: Callable[[str], Any], shows_shares: bool = False) -> None:
        self._write, self._shows_shares = write, shows_shares
        self._begin, self._stage, self._lock = time.monotonic(), "", Lock()

    def __call__(self, stage: str, share: float) -> None:
        if stage == RESUMED:
            return
        with self._lock:
            is_new, self._stage = stage != self._stage, stage
        if is_new or self._shows_shares:
            seconds = time.monotonic() - self._begin
            done = f", {share:.0%} of it done" if self._shows_shares else ""
            self._write(f"unshuffle: {seconds:6.1f} s  {stage}{done}\n")


def make_report(verbose: object) -> Report:
    """Return what tells how far a fit is: nothing for 0, stages for 1, shares of them from 2 on.

    Lines go to stderr, so that results on stdout stay alone.
    """
    if not isinstance(verbose, Integral | bool) or int(verbose) < 0:
        raise InputError(
            f"verbose={shorten(repr(verbose))} is not understood: give 0 for silence, 1 for the "
            "stages of a fit, 2 for how far each is"
        )
    return Lines(_write_error, int(verbose) > 1) if verbose else say_nothing


def _write_error(text: str) -> None:
    # Asked for at every line: notebooks and tests put another stream there.
    sys.stderr.write(text)
    sys.stderr.flush()


@contextmanager
def watch_compiling(report: Report) -> Iterator[None]:
    """Tell a report of functions that are compiled meanwhile: the first fit takes longer."""
    from numba.core import event

    class Listener(event.Listener):
        n_seen = depth = 0

        def on_start(self, event: Any) -> None:
            self.n_seen += 1
            self.depth += 1
            report(COMPILING, min(self.n_seen / _N_COMPILED, 0.99))

        def on_end(self, event: Any) -> None:
            # Functions are compiled inside one another, by one thread at a time.
            self.depth -= 1
            if self.depth == 0:
                report(RESUMED, 1.0)

    with event.install_listener("numba:compile", Listener()):
        yield
