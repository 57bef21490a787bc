"""Progress of a fit: the stage, and the share of it that is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from threading import Lock
from typing import Any

from unshuffle.errors import InputError, shorten

# Called with the name of the stage and the share of it that is done, from 0 to 1. It may raise,
# which ends the fit.
Report = Callable[[str, float], None]

COMPILING = "compiling, for the first fit only"
# Reported in place of a stage: compilation has ended, and the stage before continues.
RESUMED = ""
# Functions compiled for a fit by likelihood, those of numba included.
_N_COMPILED = 137
# Share of each stage in the time of a fit in memory. Other stages are shown by themselves.
STAGES = {
    "descending from many starts": (0.08,),
    "looking for modes": (0.45,),
    "sampling the posterior": (0.47,),
}
# Reported in place of a stage: a fit of data in blocks begins, with stages of its own.
IN_BLOCKS = "fitting in blocks"
# Share of each stage in the time of a fit in blocks; the last two stages by halves.
BLOCK_STAGES = {
    "reading": (0.02,),
    "adding up": (0.01,),
    "counting labels": (0.02,),
    "looking for modes": (0.03, 0.32),
    "sampling the posterior": (0.38, 0.22),
}


def say_nothing(stage: str, share: float) -> None:
    """Report nothing."""


def measure_course(
    stage: str, share: float, stages: Mapping[str, tuple[float, ...]] = STAGES
) -> tuple[float, float]:
    """Return the share of a whole fit that is done, and the rest of this part of the stage.

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
    """A report that writes each stage as a line, with the seconds since the beginning."""

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
    """Return the report for `verbose`: silent for 0, stages on stderr for 1, and shares from 2."""
    if not isinstance(verbose, Integral | bool) or int(verbose) < 0:
        raise InputError(
            f"verbose={shorten(repr(verbose))} is not understood: give 0 for silence, 1 for the "
            "stages of a fit, 2 for how far each is"
        )
    return Lines(_write_error, int(verbose) > 1) if verbose else say_nothing


def _write_error(text: str) -> None:
    # `sys.stderr` is read at every line: notebooks and tests replace it.
    sys.stderr.write(text)
    sys.stderr.flush()


@contextmanager
def watch_compiling(report: Report) -> Iterator[None]:
    """Report functions that numba compiles meanwhile: the first fit takes longer."""
    from numba.core import event

    class Listener(event.Listener):
        n_seen = depth = 0

        def on_start(self, event: Any) -> None:
            self.n_seen += 1
            self.depth += 1
            report(COMPILING, min(self.n_seen / _N_COMPILED, 0.99))

        def on_end(self, event: Any) -> None:
            # Compilations are nested, in one thread at a time.
            self.depth -= 1
            if self.depth == 0:
                report(RESUMED, 1.0)

    with event.install_listener("numba:compile", Listener()):
        yield
