"""The likelihood of data in blocks: a search on sampled rows, then a few passes over all rows.

Which labels belong to sampled rows is unknown, so a sample only shows where to look. Ascents on all
rows start there. With few bags the modes of a sample are not those of all rows. The sample is
then searched at a low power only, and weights are reordered on all rows at every higher power.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from math import factorial, log

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import Effort
from unshuffle.data.bags import Bags
from unshuffle.data.blocks.first_pass import FirstPass
from unshuffle.data.blocks.row_sample import FEW_BAGS, RowSample, add_far
from unshuffle.data.labels import Labels
from unshuffle.data.pairing import Draws
from unshuffle.data.rows import Rows
from unshuffle.data.scaling import Scaling
from unshuffle.inference.answer import declare_effects, sample_and_solve
from unshuffle.inference.block_modes import (
    BLOCK_MODES,
    FittedMode,
    continue_modes,
    permute_mode,
    refine_modes,
    search_soft_directions,
)
from unshuffle.inference.modes import (
    MODES,
    Mode,
    count_starts,
    draw_starts,
    evaluate_annealed,
    exchange,
    keep_distinct,
    maximise_all,
    run_annealed_em,
)
from unshuffle.model.block_building import build_blocks, build_sample
from unshuffle.model.block_likelihood import BlockWithinBag
from unshuffle.model.posterior import Target
from unshuffle.model.settings import Settings
from unshuffle.model.special_cases import Columns, Plain, answer_nothing
from unshuffle.objectives.losses import Squared
from unshuffle.objectives.noise import Noise
from unshuffle.objectives.penalties import no_penalty
from unshuffle.objectives.problem import Problem
from unshuffle.options import BagOffsets
from unshuffle.solvers import multistart
from unshuffle.solvers.local_search import BRIEF


@dataclass(frozen=True)
class BlockSettings:
    """The search for modes of data in blocks: on few labels first, then on more and more.

    Attributes
    ----------
    first_labels, rise : float
        Power times number of labels in the first stage, and the factor of every further stage. At a
        high power and with similar columns the likelihood is a narrow bent ridge.
    faint : float
        Below this power a mode may be the wrong one: others are looked for around it.
    n_exchanges : int
        Largest number of rounds in which weights are exchanged or reordered.
    all_orders : int
        Up to this number of columns all pairs and all orders of weights are tried. With more
        columns as many at random as for this number.
    least_squares_rows, least_squares_bin : int, float
        Sampled rows on which least squares looks for answers, and the width of its labels' bins in
        sds of all labels.
    """

    first_labels: float = 1e4
    rise: float = 10.0
    faint: float = 0.05
    n_exchanges: int = 4
    all_orders: int = 5
    least_squares_rows: int = 4000
    least_squares_bin: float = 1.0 / 32.0


BLOCKS = BlockSettings()


def build_posterior(
    first: FirstPass,
    scaling: Scaling,
    noise: Noise | None,
    known: BagOffsets,
    options: Settings,
    effort: Effort,
) -> Callable[[np.random.Generator], Solution]:
    """Return a function that samples the posterior of data in blocks, in standard units.

    `known` is what is known of offsets between bags.
    """
    if effort.n_starts is not None:
        options = replace(options, n_starts=effort.n_starts)
    built = build_blocks(first, scaling, noise, options, effort.n_jobs)
    if built is None:
        return lambda rng: solve_constant(first, scaling, noise)
    # The posterior keeps what it needs of the labels. Those of the first pass are a third of the
    # memory of a fit.
    return partial(solve_blocks, built, first.without_labels(), effort, known)


def solve_blocks(
    built: tuple[Target, BlockWithinBag, Columns],
    first: FirstPass,
    effort: Effort,
    known: BagOffsets,
    rng: np.random.Generator,
) -> Solution:
    """Sample the posterior of data in blocks, in standard units."""
    target, within_bag, columns = built
    target, options = declare_effects(target, known), target.options
    effort.report("looking for modes", 0.0)
    # With few bags the within-bag likelihood decides, of which a sample shows too little: it is
    # searched at a low power, with the rows added that are furthest from the centre.
    has_few = target.n_bags < FEW_BAGS
    is_all = int(first.sample.counts.sum()) == first.n
    rows = first.sample
    if has_few and not is_all:
        rows = add_far(rows, first.source, within_bag.centre, within_bag.factor)
    sample = build_sample(target, within_bag, rows)
    few_labels = take_few_labels(sample if has_few and not is_all else target)
    searched = few_labels if has_few else sample
    fitted = _fit_least_squares(within_bag, first.sample, rng, effort)
    starts = _choose_starts(searched, np.array([*_draw_annealed(searched, rng), *fitted]))
    effort.report("looking for modes", 0.5)
    fitted_modes, others = ascend_powers(target, few_labels, starts, rng)
    # Modes that differ only in the size of random effects count as one, with the highest value.
    best_modes = [(fitted_mode.value, fitted_mode.theta) for fitted_mode in fitted_modes]
    modes = [*keep_distinct(target, best_modes, options.n_components), *others][
        : options.n_components
    ]
    effort.report("looking for modes", 1.0)
    sampled = None if not has_few else target if is_all else sample
    found = sample_and_solve(target, columns, modes, rng, effort, sampled=sampled)
    reached = f"all {first.n} rows ({target.evaluations.n} points in blocks)."
    if not is_all:
        reached = f"{len(first.sample.hashes)} sampled rows, from there on {reached}"
    reached = f"Reached by a search on {reached}"
    return replace(found, stats=replace(found.stats, priors=(*found.stats.priors, reached)))


def solve_constant(first: FirstPass, scaling: Scaling, noise: Noise | None) -> Solution:
    """Answer where no column or no label varies."""
    has_intercept = scaling.has_intercept
    mean = (first.label_mean - scaling.label_centre) / scaling.label_scale
    centre = first.label_mean if has_intercept else 0.0
    square = first.n * (first.label_spread(centre) / scaling.label_scale) ** 2
    plain = Plain(
        n=first.n,
        d=len(scaling.scale) + has_intercept,
        mean=mean,
        square=square,
        varies=bool(np.ptp(first.label_ends) > 0),
        has_columns=bool((scaling.scale > 0).any()),
    )
    return answer_nothing(plain, has_intercept, noise)


def _draw_annealed(target: Target, rng: np.random.Generator) -> np.ndarray:
    """Return the points that annealed EM reaches from random starts, fewer with many bags."""
    n_starts = min(count_starts(target), target.options.n_refined)
    if target.n_bags >= FEW_BAGS:
        # The more bags there are, the more their means determine.
        n_starts = min(n_starts, max(n_starts * FEW_BAGS // target.n_bags, MODES.n_climbed))
    return run_annealed_em(target, draw_starts(target, n_starts, rng))


def _choose_starts(target: Target, weights: np.ndarray) -> list[np.ndarray]:
    """Return the best distinct points, all with the last noise level of annealing.

    It is not fitted to sampled rows: these lack the extremes of their distribution, and the labels
    of the extremes would pass for noise.
    """
    ends, has_few = evaluate_annealed(target, weights), target.n_bags < FEW_BAGS
    kept = keep_distinct(target, ends, MODES.n_climbed if has_few else MODES.n_followed)
    reach = np.inf if has_few else MODES.far_below
    log_sigma = 0.5 * log(MODES.annealing[-1])
    return [target.join(w, log_sigma) for value, w in kept if value > kept[0][0] - reach]


def _keep_basins(target: Target, found: list[Mode]) -> list[Mode]:
    """Return the best point of every basin, best first, without points far below the best.

    Two points are in one basin where the density halfway is not below that of the lower one.
    """
    found = keep_distinct(target, found, len(found))
    found = [mode for mode in found if mode[0] > found[0][0] - MODES.far_below]
    pairs = [(i, j) for j in range(len(found)) for i in range(j)]
    values = {}
    if pairs:
        halfway = _evaluate(target, [0.5 * (found[i][1] + found[j][1]) for i, j in pairs])
        values = dict(zip(pairs, halfway, strict=True))
    kept: list[int] = []
    for j, (value, _) in enumerate(found):
        if all(values[i, j] < min(found[i][0], value) - BLOCK_MODES.little for i in kept):
            kept.append(j)
    return [found[j] for j in kept]


def search_exchanges(
    target: Target, few_labels: Target, found: list[Mode], rng: np.random.Generator
) -> list[Mode]:
    """Search for modes from the best one with two weights exchanged, or the sign of one changed.

    Columns of one distribution hardly tell which weight belongs to which. The search is on
    `few_labels`, which may be of sampled rows. The modes are in the order of their density under
    `target`, best first.
    """
    pairs = np.array([(i, j) for i in range(target.p) for j in range(i + 1)])
    n_tried = BLOCKS.all_orders * (BLOCKS.all_orders + 1) // 2
    found, best = _sort_modes(target, found)
    for _ in range(BLOCKS.n_exchanges):
        theta, earlier = found[0][1], best
        chosen = rng.permutation(pairs)[:n_tried]
        starts = [exchange(theta, i, j) for i, j in chosen]
        found = _keep_basins(few_labels, [*found, *maximise_all(few_labels, starts)])
        found, best = _sort_modes(target, found)
        if best < earlier + BLOCK_MODES.little:
            break
    return found


def search_orders(
    target: Target, fitted_modes: list[FittedMode], n_steps: int, rng: np.random.Generator
) -> list[FittedMode]:
    """Search from the best mode with its weights in other orders, while that improves it.

    The samples of columns of one distribution differ by chance. At a high power the labels tell
    which weight belongs to which column, at a low one they do not.
    """
    for _ in range(BLOCKS.n_exchanges):
        best = fitted_modes[0]
        moved = [permute_mode(best, order) for order in draw_orders(target.p, rng)]
        values = _evaluate(target, [fitted_mode.theta for fitted_mode in moved])
        found = continue_modes(target, [moved[int(np.argmax(values))]], target.power, n_steps)
        fitted_modes = sorted(
            [*fitted_modes, *found], key=lambda fitted_mode: -fitted_mode.evidence
        )
        if fitted_modes[0].evidence < best.evidence + BLOCK_MODES.little:
            break
    return fitted_modes


def draw_orders(p: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return other orders of p columns: all of them, or as many at random as for `all_orders`."""
    if p <= BLOCKS.all_orders:
        return [np.array(order) for order in permutations(range(p))][1:]
    return [rng.permutation(p) for _ in range(factorial(BLOCKS.all_orders) - 1)]


def _sort_modes(target: Target, found: list[Mode]) -> tuple[list[Mode], float]:
    """Return modes in the order of the target's density, best first, and its log at the best."""
    values = _evaluate(target, [theta for _, theta in found])
    order = sorted(range(len(found)), key=lambda k: -values[k])
    return [found[k] for k in order], values[order[0]]


def take_few_labels(target: Target) -> Target:
    """Return the target at the power of the first stage: its labels count as `first_labels`."""
    return replace(target, power=min(target.power, BLOCKS.first_labels / target.n))


def _evaluate(target: Target, thetas: list[np.ndarray]) -> list[float]:
    """Return the log posterior of points: one pass."""
    parts = target.parts(np.array(thetas))
    return [float(value) for value in target.mix(parts[:, 0], parts[:, 1]) + parts[:, 2]]


def ascend_powers(
    target: Target, few_labels: Target, starts: list[np.ndarray], rng: np.random.Generator
) -> tuple[list[FittedMode], list[Mode]]:
    """Find modes on all rows in stages of growing power, the first on `few_labels`.

    Return the modes, and those of the first stage in other basins: at the calibrated power, which
    is low, they may be as high.
    """
    full, power = target.power, few_labels.power
    found = _keep_basins(few_labels, maximise_all(few_labels, starts))
    if target.n_bags < FEW_BAGS:
        found = search_exchanges(take_few_labels(target), few_labels, found, rng)
    n_steps = BLOCK_MODES.max_steps if power == full else BLOCK_MODES.steps_on_the_way
    fitted_modes = refine_modes(few_labels, found[: MODES.n_followed], n_steps)
    while power < full:
        stronger = replace(target, power=min(BLOCKS.rise * power, full))
        n_steps = BLOCK_MODES.max_steps if stronger.power == full else BLOCK_MODES.steps_on_the_way
        followed = continue_modes(stronger, fitted_modes, power, n_steps)
        if stronger.power < BLOCKS.faint:
            best_modes = [(fitted_mode.value, fitted_mode.theta) for fitted_mode in followed]
            seen = _keep_basins(
                stronger, [*best_modes, *search_soft_directions(stronger, fitted_modes[0], power)]
            )
            new = [mode for mode in seen if not any(mode[1] is theta for _, theta in best_modes)]
            followed += refine_modes(stronger, new, n_steps) if new else []
        fitted_modes, power = (
            sorted(followed, key=lambda fitted_mode: -fitted_mode.evidence),
            stronger.power,
        )
        if target.n_bags < FEW_BAGS and target.p > 1:
            fitted_modes = search_orders(stronger, fitted_modes, n_steps, rng)
    thetas = [fitted_mode.theta for fitted_mode in fitted_modes]
    best_modes = list(zip(_evaluate(few_labels, thetas), thetas, strict=True))
    others = _keep_basins(few_labels, [*best_modes, *found])
    others = [mode for mode in others if not any(mode[1] is theta for theta in thetas)]
    return fitted_modes, _sort_modes(take_few_labels(target), others)[0] if others else []


def _fit_least_squares(
    within_bag: BlockWithinBag, sample: RowSample, rng: np.random.Generator, effort: Effort
) -> list[np.ndarray]:
    """Return the least-squares answers of some sampled rows and all labels of their bags."""
    chosen = np.arange(min(BLOCKS.least_squares_rows, len(sample.hashes)))
    chosen = chosen[np.argsort(sample.codes[chosen], kind="stable")]
    rows = ((sample.rows[chosen] - within_bag.centre) * within_bag.factor)[:, within_bag.columns]
    codes, bags = sample.codes[chosen], np.unique(sample.codes[chosen])
    y, counts, ends = _merge_labels(within_bag, bags)
    starts = np.concatenate([np.searchsorted(codes, bags), [len(codes)]])
    masses = sample.counts[chosen].astype(float)
    bags_of_sample = Bags(
        Rows(np.asfortranarray(rows), masses, starts, np.arange(len(rows))),
        Labels(y, y, counts, ends, np.arange(len(y))),
        Draws(),
    )
    problem = Problem(bags_of_sample, Squared(), None, no_penalty(rows.shape[1]))
    settings = replace(BRIEF, max_starts=MODES.most_least_squares)
    found = multistart.solve(problem, rng, replace(effort, n_starts=None), settings)
    return [each.weights for each in found.candidates[: MODES.n_followed]]


def _merge_labels(
    within_bag: BlockWithinBag, bags: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean labels of bins of some bags, how many labels each bin has, and where bags end."""
    low, high, counts, offsets = within_bag.label_bins
    take = np.concatenate([np.arange(offsets[r], offsets[r + 1]) for r in bags])
    owner = np.repeat(np.arange(len(bags)), (offsets[1:] - offsets[:-1])[bags])
    middles, counts = 0.5 * (low + high)[take], counts[take]
    keys = np.floor(middles / BLOCKS.least_squares_bin)
    firsts = np.flatnonzero(np.append(True, (np.diff(keys) != 0) | (np.diff(owner) != 0)))
    masses = np.add.reduceat(counts, firsts)
    ends = np.searchsorted(owner[firsts], np.arange(len(bags) + 1))
    return np.add.reduceat(counts * middles, firsts) / masses, masses, ends
