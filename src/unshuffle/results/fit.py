"""Fits of bags, of a table, of a formula and of data in blocks: input → `solving` → `Fit`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from unshuffle.core.solution import Solution
from unshuffle.core.strategy import BlockStrategy
from unshuffle.core.uncertainty import root_sum_square
from unshuffle.data.bag import bag_key
from unshuffle.data.bags import Bag, Bags, join_bags, make_bags
from unshuffle.data.blocks.first_pass import FirstPass
from unshuffle.data.blocks.sources import ArraySource, Source, number_bags
from unshuffle.data.labels import Histogram
from unshuffle.data.outliers import warn_of_outliers
from unshuffle.data.pairing import Permutation
from unshuffle.data.scaling import column_spreads
from unshuffle.errors import InputError
from unshuffle.formulas.columns import read_formula, read_terms
from unshuffle.formulas.frames import find_column, read_frame
from unshuffle.io.columns.groups import check_groups
from unshuffle.methods import find_block_strategy
from unshuffle.objectives.checks import check_values
from unshuffle.objectives.noise import as_noise
from unshuffle.options import FitOptions, Options, as_bag_offsets, make_rng
from unshuffle.progress import Report, make_report, say_nothing, watch_compiling
from unshuffle.results.matching import fingerprint
from unshuffle.results.remedies import find_collinear, find_two_valued
from unshuffle.results.result import Fit, as_fit, name_draws, warn_once
from unshuffle.results.verdict import Facts
from unshuffle.solving import solve, take_bags, take_blocks

if TYPE_CHECKING:
    from unshuffle.data.links import Links, MismatchPrior

__all__ = [
    "Fit",
    "as_fit",
    "fit",
    "fit_bags",
    "fit_formula",
    "fit_source",
    "fit_table",
    "note_label",
    "warn_once",
]

# Methods keep tables of matches for at most this many rows.
_REMEMBERED_ROWS = 1000
# Posteriors keep the data of so many rows for posterior predictive checks: a thousand draws of
# their labels take 80 MB.
KEPT_ROWS = 10_000
# Rows that are standardised at a time.
_ROWS_AT_ONCE = 1 << 16


@overload
def fit(
    bags_or_formula: Iterable[Bag],
    /,
    *,
    same_individuals: bool | None = None,
    rng: np.random.Generator | int | None = None,
    verbose: int = 0,
    **options: Unpack[Options],
) -> Fit: ...


@overload
def fit(
    bags_or_formula: str,
    data: Any,
    /,
    *,
    bags: Any = None,
    anchors: Any = None,
    links: Links | None = None,
    rng: np.random.Generator | int | None = None,
    verbose: int = 0,
    **options: Unpack[Options],
) -> Fit: ...


def fit(
    bags_or_formula: Iterable[Bag] | str,
    data: Any = None,
    /,
    *,
    bags: Any = None,
    same_individuals: bool | None = None,
    anchors: Any = None,
    links: Links | None = None,
    rng: np.random.Generator | int | None = None,
    verbose: int = 0,
    **options: Unpack[Options],
) -> Fit:
    """Fit separate bags, or a formula to a frame.

    Parameters
    ----------
    bags_or_formula : iterable of Bag, or str
        Bags whose rows and labels may differ in number. Or a formula (Wilkinson and Rogers 1973)
        such as ``"log(y) ~ x1 * C(x2, Treatment('b')) + bs(x3, df=4)"``, with factors, base
        levels, interactions, transformations and splines (needs ``pip install
        'unshuffle[formula]'``).
    data : frame or mapping of str to array-like, optional
        The rows and labels that a formula names: pandas, polars, or a dictionary of columns.
    bags : str or sequence of n hashable labels, optional
        With a formula: the column of bags, or the bag of each row. Without it all rows form one
        bag.
    same_individuals : bool, optional
        Whether rows and labels of a bag are the same individuals, some of whose labels may be
        missing, or separate samples of one population. It changes model and intervals. By default
        the same individuals where the numbers of rows and labels agree in every bag, and separate
        samples otherwise.
    anchors : str or sequence, optional
        With a formula: pairs that are known, as in `ShuffledLinearRegression.fit`, or their column.
    links : Links, optional
        With a formula: what is known of links, as in `ShuffledLinearRegression.fit`.
    rng : None, int or Generator, default=None
        Seed of the starts; an int makes fits repeatable to the last digit.
    verbose : int, default=0
        1 prints each stage to stderr, 2 also its progress.
    **options
        The other options of `ShuffledLinearRegression`.

    Returns
    -------
    Fit
        Estimates, intervals, verdict and predictions. After a formula `Fit.predict` takes frames
        and rebuilds the columns.

    Raises
    ------
    InputError
        For data, formulas or options that make no sense: one line that names the way out.

    See Also
    --------
    ShuffledLinearRegression.from_formula : The same as a scikit-learn estimator.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.exponential(size=(200, 2))
    >>> bags = [Bag(X[:100], rng.permutation(X[:100] @ [1.0, 2.0])),
    ...         Bag(X[100:], rng.permutation(X[100:] @ [1.0, 2.0]))]
    >>> fit(bags, method="ls", rng=1).weights.round(3).tolist()
    [1.0, 2.0, 0.0]

    A formula takes its columns from a frame:

    >>> from unshuffle import make_shuffled
    >>> made = make_shuffled(n=300, d=2, noise=0.1, bags=10, rng=0)
    >>> frame = {"a": made.X[:, 0], "b": made.X[:, 1], "y": made.y, "pool": made.groups}
    >>> found = fit("y ~ a + b", frame, bags="pool", method="means")
    >>> found.facts.names, found.predict({"a": [1.0], "b": [0.0]}).shape
    (('a', 'b', 'intercept'), (1,))
    """
    report, asked = make_report(verbose), FitOptions(**options)
    if isinstance(bags_or_formula, str):
        if same_individuals is not None:
            raise InputError("same_individuals is for bags; a formula has one label for each row")
        if "fit_intercept" in options:
            raise InputError(
                "fit_intercept is for bags; a formula says it: write '- 1' for no intercept"
            )
        found = fit_formula(
            bags_or_formula, data, bags, asked, make_rng(rng), report, anchors, links, stacklevel=2
        )
    elif data is None and bags is None and anchors is None and links is None:
        found = _fit_separate(bags_or_formula, same_individuals, asked, make_rng(rng), report)
    else:
        raise InputError("data, bags, anchors and links go with a formula; give the bags alone")
    warn_once(found, stacklevel=2)
    return found


def _fit_separate(
    given: Iterable[Bag],
    same_individuals: bool | None,
    asked: FitOptions,
    rng: np.random.Generator,
    report: Report,
) -> Fit:
    """Fit bags whose rows and labels may differ in number."""
    bags = list(given)
    joined = join_bags(bags, same_individuals)
    for r, bag in enumerate(bags):
        # The edges and counts of a histogram were checked when it was made.
        y = np.empty(0) if bag.y is None or isinstance(bag.y, Histogram) else bag.y
        check_values(bag.X, y, place=f"bag {r}, ")
    _warn_of_outliers(bags, stacklevel=3)
    has_counts = any(b.row_counts is not None or b.label_counts is not None for b in bags)
    is_table = joined.is_plain and joined.n_anchors == 0 and not has_counts
    is_table &= joined.known_means is None
    if is_table and find_block_strategy(asked, joined.n) is not None:
        # Many rows with one label each are read in blocks, as a table is.
        X, y = np.concatenate([bag.X for bag in bags]), np.concatenate([bag.y for bag in bags])
        groups = np.repeat(np.arange(len(bags)), [len(bag.X) for bag in bags])
        return fit_table(X, y, groups, asked, rng, report=report)
    return fit_bags(joined, asked, rng, report=report, bag_names=range(len(bags)))


def fit_formula(
    text: str,
    data: Any,
    bags: Any,
    options: FitOptions,
    rng: np.random.Generator,
    report: Report,
    anchors: Any = None,
    links: Links | None = None,
    *,
    stacklevel: int,
) -> Fit:
    """Fit the columns that a formula makes of a frame; the others may name columns of it."""
    frame = read_frame(data)
    links, of_links = _take_links(links, frame)
    aside = {*of_links, *(name for name in (bags, anchors) if isinstance(name, str))}
    columns, X, y = read_formula(text, data, aside)
    check_values(X, y, columns.names)
    warn_of_outliers(X, y, columns.names, stacklevel=stacklevel + 1)
    if isinstance(bags, str):
        bags = find_column(frame, bags, "bags").to_numpy()
    if isinstance(anchors, str):
        anchors = find_column(frame, anchors, "anchors").to_numpy()
    groups = check_groups(bags, len(y))
    asked = replace(options, fit_intercept=columns.has_intercept)
    found = fit_table(
        X, y, groups, asked, rng, columns.names, report, columns.sources, anchors, links
    )
    label = columns.label if columns.is_transformed else None
    found = note_label(found, label, columns.has_logs)
    return replace(found, formula=columns, library=columns.library)


def _take_links(links: Any, frame: Any) -> tuple[Any, list[str]]:
    """Return links with the columns that they name, and these names."""
    if links is None:
        return None, []
    from unshuffle.data.links import PER_PAIR, Links  # imports SciPy, and is seldom needed

    if not isinstance(links, Links):
        return links, []
    found: dict[str, Any] = {}
    names: list[str] = []
    for role in PER_PAIR:
        name = getattr(links, role)
        if not isinstance(name, str):
            continue
        if role == "columns":
            found[role], used = read_terms(name, frame)
            names += used
        else:
            found[role] = find_column(frame, name, role).to_numpy()
            names.append(name)
    return replace(links, **found), names


def _warn_of_outliers(bags: Sequence[Bag], stacklevel: int) -> None:
    """Warn of outliers in bags; those of histograms are in bins, those of means out of sight."""
    labels = [bag.y if isinstance(bag.y, np.ndarray) else np.empty(0) for bag in bags]

    def name(sizes: Sequence[int], row: int) -> str:
        ends = np.cumsum(sizes)
        r = int(np.searchsorted(ends, row, side="right"))
        return f"bag {r}, row {row - ends[r] + sizes[r]}"

    warn_of_outliers(
        np.concatenate([bag.X for bag in bags]),
        np.concatenate(labels),
        name_row=partial(name, [len(bag.X) for bag in bags]),
        name_label=partial(name, [len(y) for y in labels]),
        stacklevel=stacklevel + 1,
    )


def fit_bags(
    bags: Bags,
    options: FitOptions,
    rng: np.random.Generator,
    names: Sequence[str] | None = None,
    report: Report = say_nothing,
    sources: Sequence[str] | None = None,
    bag_names: Sequence[Hashable] | None = None,
    links: MismatchPrior | None = None,
) -> Fit:
    """Fit bags and gather what is to be said.

    Remarks and tables call the columns by their `names`, or by number; `sources` are what the
    columns were made from, where that is another thing. `bag_names` are in the order of the first
    rows of the bags.
    """
    # Masses are whole numbers, whose sums are exact in any order.
    scales, known = _measure_scales(bags, options), bags.known_means
    low, high = bags.X.min(axis=0), bags.X.max(axis=0)
    facts = _describe(
        names,
        sources,
        options,
        scales=scales,
        n=bags.n_individuals,
        n_means=0 if known is None else known.n_bags,
        n_bags=bags.n_original_bags,
        n_anchors=bags.n_anchors,
        # Those behind a known mean are as many as its rows.
        n_labels=int(bags.labels.totals.sum()) if known is None else bags.n_individuals,
        pairing=bags.pairing,
        constants=_list_constants(low, high),
        has_positive_labels=bool(bags.labels.low.min() > 0),
        label_spread=_measure_label_spread(bags),
        **_describe_columns(bags, scales, low, high, options.fit_intercept),
    )
    # The digest serves tables of matches, which only few rows have.
    has_links = options.mislinked is not None
    mark = fingerprint(bags, has_links) if facts.n <= _REMEMBERED_ROWS else None
    if bag_names is not None:
        bag_names = [bag_names[place] for place in bags.original_places.tolist()]
    kept = bags if facts.n <= KEPT_ROWS and known is None else None
    with watch_compiling(report):
        data = [take_bags(bags, options, names, links)]
        del bags  # the solver frees what it no longer needs
        solution, method = solve(data.pop(), options, rng, names, report)
    mark = None if solution.stats.match_probabilities is None else mark
    return _gather(solution, facts, method, options, mark, bag_names, kept)


def fit_table(
    X: np.ndarray,
    y: np.ndarray,
    groups: Sequence[Hashable] | np.ndarray | None,
    options: FitOptions,
    rng: np.random.Generator,
    names: Sequence[str] | None = None,
    report: Report = say_nothing,
    sources: Sequence[str] | None = None,
    anchors: Any = None,
    links: Links | None = None,
) -> Fit:
    """Fit one label for each row, in blocks where there are many and no link is known."""
    prior = None
    if links is not None:
        from unshuffle.data.links import read_links  # imports SciPy, and is seldom needed

        prior, options, anchors = read_links(links, groups, len(y), options, anchors)
    strategy = find_block_strategy(options, len(y))
    if strategy is None or anchors is not None or options.mislinked is not None:
        bags = make_bags(X, y, groups, anchors)
        named = groups.tolist() if isinstance(groups, np.ndarray) else groups
        in_order = None if named is None else list(dict.fromkeys(named))
        return fit_bags(bags, options, rng, names, report, sources, in_order, prior)
    codes, n_bags = number_bags(groups, len(y))
    bag_names = None
    if groups is not None:
        rows = np.unique(codes, return_index=True)[1]
        bag_names = tuple(groups[row] for row in rows.tolist())
    n_jobs = None if options.n_jobs is None else int(options.n_jobs)
    source = ArraySource(X, y, codes, n_bags, n_jobs, bag_names=bag_names)
    return fit_source(source, options, strategy, rng, names, report, sources)


def fit_source(
    source: Source,
    options: FitOptions,
    strategy: BlockStrategy,
    rng: np.random.Generator,
    names: Sequence[str] | None = None,
    report: Report = say_nothing,
    sources: Sequence[str] | None = None,
) -> Fit:
    """Fit data in blocks: see `methods.find_block_strategy`."""
    with watch_compiling(report):
        data = [take_blocks(source, options, strategy, rng, names, report)]
        first, bag_names = data[0].first, source.bag_names
        if bag_names is not None:
            bag_names = tuple(bag_names[r] for r in np.argsort(first.numbers).tolist())
        facts = _describe_blocks(first, names, sources, options)
        del first  # the solver frees the labels
        solution, method = solve(data.pop(), options, rng, names, report)
    return _gather(solution, facts, method, options, bag_names=bag_names)


def _describe_blocks(
    first: FirstPass,
    names: Sequence[str] | None,
    sources: Sequence[str] | None,
    options: FitOptions,
) -> Facts:
    """Return what a first pass knows of the data."""
    scales = first.spreads(first.mean)
    if not options.fit_intercept:
        is_flat = scales == 0
        scales[is_flat] = np.abs(first.column_ends[is_flat]).max(axis=1, initial=0.0)
    low, high = first.column_ends.T
    centre = first.mean if options.fit_intercept else np.zeros(len(scales))
    gram = np.einsum("r,rjk->jk", first.sizes / first.n, first.moments(centre, scales)[1])
    return _describe(
        names,
        sources,
        options,
        scales=scales,
        n=first.n,
        n_bags=len(first.sizes),
        n_labels=first.n,
        pairing=Permutation(),
        constants=_list_constants(low, high),
        collinear=find_collinear(gram),
        two_valued=find_two_valued(first.mean, first.spreads(first.mean), low, high),
        has_positive_labels=bool(first.label_ends.min() > 0),
        label_spread=first.label_spread(first.label_mean),
    )


def _describe(
    names: Sequence[str] | None,
    sources: Sequence[str] | None,
    options: FitOptions,
    *,
    scales: np.ndarray,
    **facts: Any,
) -> Facts:
    """Gather what is known of the data before any method is."""
    shown = [f"x{j}" for j in range(len(scales))] if names is None else names
    return Facts(
        method="",
        names=(*map(str, shown), *(("intercept",) if options.fit_intercept else ())),
        scales=scales,
        noise=None,
        sources=None if sources is None else tuple(map(str, sources)),
        are_offsets_declared=as_bag_offsets(options.bag_offsets).share is not None,
        **facts,
    )


def note_label(found: Fit, label: str | None, has_logs: bool) -> Fit:
    """Return a fit that knows how its labels were transformed, and whether by a logarithm."""
    return replace(found, facts=replace(found.facts, label=label, has_logs=has_logs))


def note_rows(found: Fit, n: int) -> Fit:
    """Return a fit that says how many rows there were, where weights were shares and no counts."""
    return replace(found, facts=replace(found.facts, n=n))


def _gather(
    solution: Solution,
    facts: Facts,
    method: str,
    options: FitOptions,
    mark: str | None = None,
    bag_names: Sequence[Hashable] | None = None,
    data: Bags | None = None,
) -> Fit:
    """Add what a solver found to what is known of the data.

    Names of bags, in canonical order, stay where the effects of the bags do.
    """
    given, unsure = as_noise(options.noise), solution.uncertainty
    noise = given.sd if given is not None else None if unsure is None else unsure.noise
    told = replace(facts, method=method, noise=noise, is_noise_given=given is not None)
    source, solution = solution.pairings, replace(solution, pairings=None)
    posterior, keys = solution.posterior, None
    model = None if posterior is None else posterior.model
    if bag_names is not None and model is not None and model.bag_effects is not None:
        keys = tuple(map(bag_key, bag_names))
    found = Fit(solution, told, options, mark, data, source)
    return name_draws(found, keys, data if data is not None and data.is_plain else None)


def _measure_scales(bags: Bags, options: FitOptions) -> np.ndarray:
    """Return the spreads of the columns: the verdict measures weights in units of w_j sd(x_j).

    Taken from the canonical rows, since a sum depends on its order in the last bit.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the solver refuses such columns
        scales = column_spreads(bags)
    if not options.fit_intercept:
        # A constant column serves as the intercept, and the verdict must cover its weight.
        is_flat = scales == 0
        scales[is_flat] = np.abs(bags.X[:, is_flat]).max(axis=0, initial=0.0)
    return scales


def _measure_label_spread(bags: Bags) -> float:
    """Return the sd of all labels, bins as points; that behind known means is estimated."""
    labels = bags.labels.points
    if bags.known_means is not None:
        rows = bags.X - bags.statistics.mean
        gaps = labels.values - bags.statistics.label_mean
        return bags.known_means.label_spread(rows, gaps, bags.sizes)
    shares = labels.masses / labels.masses.sum()
    # Halved before differences are taken, which could overflow.
    halves = labels.values / 2
    gaps = (halves - (shares * halves).sum()) * np.sqrt(shares)
    return 2.0 * float(root_sum_square(gaps[:, None])[0])


def _list_constants(low: np.ndarray, high: np.ndarray) -> tuple[tuple[int, float], ...]:
    """Return the columns that do not vary, each with its value, given the extremes of all."""
    return tuple((int(j), float(low[j])) for j in np.flatnonzero(low == high))


def _describe_columns(
    bags: Bags, scales: np.ndarray, low: np.ndarray, high: np.ndarray, has_intercept: bool
) -> dict[str, tuple[int, ...]]:
    """Return the columns that depend on others, and those of two values."""
    X, masses = bags.X, bags.rows.masses / bags.rows.masses.sum()
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # Halved before the difference is taken, which could overflow.
        reach = high / 2 - low / 2
        means = np.array([float((masses * (x / 2)).sum()) for x in X.T]) * 2
        factors = np.where(scales > 0, 1.0 / scales, 0.0)
        gram = np.zeros((bags.d, bags.d))
        for at in range(0, len(X), _ROWS_AT_ONCE):
            part = slice(at, at + _ROWS_AT_ONCE)
            rows = X[part] - means if has_intercept else X[part]
            rows = rows * factors * np.sqrt(masses[part])[:, None]
            gram += rows.T @ rows
    if not (np.isfinite(gram).all() and np.isfinite(reach).all()):
        return {}  # the solver refuses such columns
    return {
        "collinear": find_collinear(gram),
        "two_valued": find_two_valued(means, scales, low, high),
    }
