"""The progress display on a terminal: a bar, the stage, the share done and the time left."""

from __future__ import annotations

import math
import time
from threading import Lock
from typing import TYPE_CHECKING, Any

from unshuffle.errors import shorten
from unshuffle.formatting import show_time

if TYPE_CHECKING:
    from rich.console import Console

# Below this share the time left is not estimated.
_LEAST_SHARE = 0.03


class Display:
    """A rich progress bar of the stages of a fit, erased when it ends.

    Between two reports the bar advances at the pace of the work before.
    """

    def __init__(self, console: Console, text: str) -> None:
        from rich.progress import Progress, ProgressColumn
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        display = self

        class Line(ProgressColumn):
            max_refresh = 0.2

            def render(self, task: Any) -> Text:
                return Text(display.describe())

        class Bar(ProgressColumn):
            max_refresh = 0.2

            def render(self, task: Any) -> ProgressBar:
                share = display.share
                total = None if share is None else 1.0
                return ProgressBar(total=total, completed=share or 0.0, width=24, pulse=not share)

        self._begin = self._reported = time.monotonic()
        self._stage, self._done, self._ahead = shorten(text.removesuffix(" …")), 0.0, 0.0
        # Stage, share, and seconds since start and report, as they were before compilation.
        self._before: tuple[str, float, float, float, float] = (self._stage, 0.0, 0.0, 0.0, 0.0)
        self._compiled, self._is_in_blocks, self._lock = 0.0, False, Lock()
        self._progress = Progress(Bar(), Line(), console=console, transient=True)

    def __enter__(self) -> Display:
        self._progress.start()
        self._progress.add_task("", total=1.0)
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def report(self, stage: str, share: float) -> None:
        """Set the stage and the share of it that is done."""
        from unshuffle.progress import (
            BLOCK_STAGES,
            COMPILING,
            IN_BLOCKS,
            RESUMED,
            STAGES,
            measure_course,
        )

        with self._lock:
            now = time.monotonic()
            if self._stage == COMPILING and stage != COMPILING:
                # Compilation does not count in the pace of the work.
                self._compiled = now - self._begin
                self._stage, self._done, self._ahead = self._before[:3]
                self._begin, self._reported = (now - spent for spent in self._before[3:])
            if stage == RESUMED:
                return
            # The course of a fit in blocks holds until its last stage has ended.
            self._is_in_blocks = stage == IN_BLOCKS or (self._is_in_blocks and self._done < 1.0)
            course = BLOCK_STAGES if self._is_in_blocks else STAGES
            done, ahead = measure_course(stage, share, course)
            if self._is_in_blocks and stage not in (IN_BLOCKS, COMPILING):
                # Stages repeat, and a sample has stages of its own: the share never falls.
                is_further = stage in course and done >= self._done
                done, ahead = (done, ahead) if is_further else (self._done, self._ahead)
            if stage == COMPILING and self._stage != COMPILING:
                spent = (now - self._begin, now - self._reported)
                self._before = (self._stage, self._done, self._ahead, *spent)
                self._begin = now - self._compiled
            elif done < self._done or done == 0.0:
                self._begin = now  # other work has begun
            self._stage, self._done, self._ahead, self._reported = stage, done, ahead, now

    def write(self, text: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(text, soft_wrap=True, style="dim")

    @property
    def share(self) -> float | None:
        """The estimated share that is done; None while it is unknown."""
        now = time.monotonic()
        if self._done < _LEAST_SHARE:
            return self._done or None
        pace = (self._reported - self._begin) / self._done
        if pace <= 0 or self._ahead == 0.0:
            return self._done
        waited = (now - self._reported) / (pace * self._ahead)
        # A stage without reports approaches 90 % of its share by waiting.
        return self._done + self._ahead * min(1 - math.exp(-waited), 0.9)

    def describe(self) -> str:
        """Return the stage, the share that is done, and the time left as text."""
        share, text = self.share, self._stage
        if not share:
            return f"{text} …"
        spent = time.monotonic() - self._begin
        left = f", {show_time(spent * (1 - share) / share)} left" if share >= _LEAST_SHARE else ""
        return f"{text} … {share:.0%}{left}"
