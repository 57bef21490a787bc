"""A line on the terminal that tells how far work is: stage, bar, share done and time left."""

from __future__ import annotations

import math
import time
from threading import Lock
from typing import TYPE_CHECKING, Any

from unshuffle.errors import shorten
from unshuffle.formatting import show_time

if TYPE_CHECKING:
    from rich.console import Console

# A share below this is too little to tell the time left from.
_LEAST_SHARE = 0.03


class Display:
    """Shows stages as they are reported; nothing is left on the terminal when it ends.

    Between two reports the bar goes on by the time that the work before took, so that stages of
    one step do not seem to stand still.
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
        # What was shown before functions were compiled, and the seconds since its times.
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
        """Take note of a stage and of the share of it that is done."""
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
                # The rest of the work has no share in the time that compiling took.
                self._compiled = now - self._begin
                self._stage, self._done, self._ahead = self._before[:3]
                self._begin, self._reported = (now - spent for spent in self._before[3:])
            if stage == RESUMED:
                return
            # Until its last stage has ended: other fits may follow.
            self._is_in_blocks = stage == IN_BLOCKS or (self._is_in_blocks and self._done < 1.0)
            course = BLOCK_STAGES if self._is_in_blocks else STAGES
            done, ahead = measure_course(stage, share, course)
            if self._is_in_blocks and stage not in (IN_BLOCKS, COMPILING):
                # Stages are passed several times, and others belong to a sample: both go on.
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
        """Print a line above the bar, which would otherwise stand before it."""
        self._progress.console.print(text, soft_wrap=True, style="dim")

    @property
    def share(self) -> float | None:
        """The share that is done, as far as can be told; None where nothing can."""
        now = time.monotonic()
        if self._done < _LEAST_SHARE:
            return self._done or None
        pace = (self._reported - self._begin) / self._done
        if pace <= 0 or self._ahead == 0.0:
            return self._done
        waited = (now - self._reported) / (pace * self._ahead)
        # A stage that tells nothing comes so near to its end by waiting, and no nearer.
        return self._done + self._ahead * min(1 - math.exp(-waited), 0.9)

    def describe(self) -> str:
        """Say the stage, the share that is done, and the time left."""
        share, text = self.share, self._stage
        if not share:
            return f"{text} …"
        spent = time.monotonic() - self._begin
        left = f", {show_time(spent * (1 - share) / share)} left" if share >= _LEAST_SHARE else ""
        return f"{text} … {share:.0%}{left}"
