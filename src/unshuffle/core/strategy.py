"""The interface of a method: its properties, a check before any work, and `solve`.

Estimator, command line, comparison and report use these properties alone. None of them asks which
method it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.data.bags import Bags
from unshuffle.errors import InputError
from unshuffle.objectives.block_moments import BlockProblem
from unshuffle.objectives.losses import Loss, Squared
from unshuffle.objectives.problem import Problem
from unshuffle.options import FitOptions, as_bag_offsets
from unshuffle.progress import Report, say_nothing

# The work of a solver once its problem is built.
Task = Callable[[np.random.Generator], Solution]


@dataclass(frozen=True)
class Effort:
    """Effort of a search: starts (None: until the best is confirmed), tolerance and threads.

    `report` receives the progress.
    """

    n_starts: int | None = None
    tol: float = FitOptions.tol
    n_jobs: int | None = None
    report: Report = say_nothing


class Strategy(ABC):
    """A method: it turns a problem into a solution."""

    # Whether l1 and l2 mean something to it.
    takes_penalty: ClassVar[bool] = True
    # Whether it averages over a posterior, instead of one best answer: its value then has no unit.
    has_posterior: ClassVar[bool] = False
    # Whether the labels of a bag may share an unknown offset.
    takes_offsets: ClassVar[bool] = False
    # Whether fewer rows than weights leave it without an answer, unless l2 is given.
    needs_rows: ClassVar[bool] = True
    # Why each row must have one label of its own; None where any pairing, masses and bins will do.
    why_plain: ClassVar[str | None] = None
    # Whether it takes bags of which only the mean label is known.
    takes_known_means: ClassVar[bool] = False
    # Whether its posterior is evaluated in passes over blocks, which a graphics card can make.
    has_passes: ClassVar[bool] = False
    # Whether its search evaluates single points. A pass over blocks costs as much as many
    # points, and rows then stay in memory where they fit.
    asks_single_points: ClassVar[bool] = False
    # Most rows for which a comparison includes it without being asked (None: any number).
    compared_rows: ClassVar[int | None] = None

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which it is reported."""

    @property
    def loss(self) -> Loss:
        """The loss whose units and centring the problem takes."""
        return Squared()

    @property
    def degree(self) -> int:
        """How its value scales with the labels; log evidence has no unit."""
        return 0 if self.has_posterior else self.loss.degree or 0

    def noise_moments(self, bags: Bags) -> int:
        """Return how many moments of given noise it needs: two for the starts, or more."""
        return 2

    @abstractmethod
    def solve(self, problem: Problem, rng: np.random.Generator, effort: Effort) -> Solution:
        """Solve a problem in standard units."""

    def for_blocks(self, options: FitOptions) -> BlockStrategy | None:
        """Return what solves data in blocks with these options; None where all rows are needed."""
        return None

    def declare(self, options: FitOptions) -> Self:
        """Return the method for a model that is declared to hold, or refuse the declaration."""
        if options.model_holds and options.method != "auto":
            raise InputError(
                f"method '{self.name}' takes no model_holds: leave it out, or use method "
                "'likelihood'"
            )
        return self

    def check(self, bags: Bags, options: FitOptions) -> None:
        """Refuse data that the method cannot take, too few rows, and options that it lacks."""
        if bags.known_means is not None and not self.takes_known_means:
            raise InputError(
                f"method '{self.name}' compares single labels, and of some bags only the mean is "
                "known: use method 'likelihood' or 'means'"
            )
        why = self.why_plain or self.loss.why_plain
        if why is not None and not bags.is_plain:
            raise InputError(
                f"method '{self.name}' needs one label for each row, since {why}: use method "
                "'likelihood' or 'ls'"
            )
        self.check_penalties(options)
        self.check_offsets(bags.n_bags, options)
        d = bags.d + options.fit_intercept
        if self.needs_rows and bags.n < d and not options.l2:
            raise InputError(
                f"n_samples = {bags.n} cannot fix {d} weights (the intercept counts): add rows, "
                "use fewer features, or give a penalty l2 > 0"
            )

    def check_penalties(self, options: FitOptions) -> None:
        """Refuse penalties where they mean nothing."""
        if not self.takes_penalty and (options.l1 or options.l2):
            raise InputError(
                f"method '{self.name}' has no penalties: leave l1 and l2 at 0, or use method 'ls'"
            )

    def check_offsets(self, n_bags: int, options: FitOptions) -> None:
        """Refuse declared offsets where the method has none; no offsets are what others assume."""
        offsets = as_bag_offsets(options.bag_offsets)
        if not offsets.is_declared:
            return
        if not self.takes_offsets:
            raise InputError(
                f"method '{self.name}' has no offsets between bags: leave bag_offsets at 'auto', "
                "or use method 'likelihood'"
            )
        if offsets.sd is None and n_bags == 1:
            raise InputError(
                "bag_offsets='estimate' needs several bags, and there is one: name the bags, or "
                "leave bag_offsets at 'auto'"
            )


class BlockStrategy(Strategy):
    """A method that solves data in blocks too."""

    @abstractmethod
    def prepare_blocks(self, problem: BlockProblem, effort: Effort) -> Task:
        """Return the work on data in blocks, which keeps only what it needs of them."""
