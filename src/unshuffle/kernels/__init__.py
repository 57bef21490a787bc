"""Every compiled function of the library, and nothing else.

Each kernel has a plain, slow twin in ``tests/oracles.py``. All release the GIL, none draws
random numbers, and none allocates more than a few arrays of the length of its bag, so that
memory stays O(n) and threads neither wait for nor disturb one another.

``X`` comes as ``columns``, shape (d, n) and C-contiguous: a projection is then d passes over
contiguous memory, which the compiler vectorises; rows would be gathered one by one.
"""

from unshuffle.kernels.cones import bound_cones, climb_matchings
from unshuffle.kernels.descent import advance_descent
from unshuffle.kernels.designing import exchange_units
from unshuffle.kernels.filling import fill_counts, fill_sums
from unshuffle.kernels.histograms import match_histograms, place_nodes, share_out
from unshuffle.kernels.label_places import place_labels, score_labels
from unshuffle.kernels.likelihood import log_likelihood, log_likelihoods
from unshuffle.kernels.mixture import student_logs
from unshuffle.kernels.moment_losses import (
    accumulate_tensors,
    add_label_powers,
    add_monomials,
    evaluate_moments,
    evaluate_tensors,
)
from unshuffle.kernels.pairings import evaluate_pairings
from unshuffle.kernels.projection import gram, triangulate
from unshuffle.kernels.scanning import (
    add_label_squares,
    add_moments,
    add_to_cells,
    hash_rows,
    order_by_bag,
    widen_extremes,
)
from unshuffle.kernels.small_bags import match_held_bags, match_small_bags
from unshuffle.kernels.sorted_cells import (
    curve_sorted_cells,
    fill_sorted_cells,
    find_place,
    match_sorted_cells,
)
from unshuffle.kernels.sorted_losses import (
    ABSOLUTE,
    KOLMOGOROV_SMIRNOV,
    SMALL_D,
    SQUARED,
    compare_sorted,
    evaluate_sorted,
    largest_step_gap,
)
from unshuffle.kernels.sorting import sort_rows
from unshuffle.kernels.swapping import swap_counts
from unshuffle.kernels.tempering import advance_replicas
from unshuffle.kernels.weighted_losses import compare_masses, evaluate_weighted

__all__ = [
    "ABSOLUTE",
    "KOLMOGOROV_SMIRNOV",
    "SMALL_D",
    "SQUARED",
    "accumulate_tensors",
    "add_label_powers",
    "add_label_squares",
    "add_moments",
    "add_monomials",
    "add_to_cells",
    "advance_descent",
    "advance_replicas",
    "bound_cones",
    "climb_matchings",
    "compare_masses",
    "compare_sorted",
    "curve_sorted_cells",
    "evaluate_moments",
    "evaluate_pairings",
    "evaluate_sorted",
    "evaluate_tensors",
    "evaluate_weighted",
    "exchange_units",
    "fill_counts",
    "fill_sorted_cells",
    "fill_sums",
    "find_place",
    "gram",
    "hash_rows",
    "largest_step_gap",
    "log_likelihood",
    "log_likelihoods",
    "match_held_bags",
    "match_histograms",
    "match_small_bags",
    "match_sorted_cells",
    "order_by_bag",
    "place_labels",
    "place_nodes",
    "score_labels",
    "share_out",
    "sort_rows",
    "student_logs",
    "swap_counts",
    "triangulate",
    "widen_extremes",
]
