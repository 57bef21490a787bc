"""Every compiled function of the library, and nothing else.

Each kernel has a plain, slow twin in ``tests/helpers/oracles.py``. All release the GIL, none draws
random numbers, and none allocates more than a few arrays of the length of its bag, so that
memory stays O(n) and threads neither wait for nor disturb one another.

``X`` comes as ``columns``, shape (d, n) and C-contiguous: a projection is then d passes over
contiguous memory, which the compiler vectorises; rows would be gathered one by one.
"""

from importlib import import_module
from typing import Any

# The functions and codes of each module, loaded on first use: a fit needs a few of them, and to
# declare them all takes a tenth of a second.
_PLACES = {
    "cones": "bound_cones climb_matchings",
    "descent": "advance_descent",
    "designing": "exchange_units",
    "filling": "fill_cells",
    "transport.histograms": "add_histograms find_filled list_histograms place_histograms",
    "transport.label_places": "place_labels score_labels",
    "transport.bags": "add_bags centre_bags list_problems place_bags",
    "transport.coupling": "fill_gauge",
    "transport.lanes": "fill_kernel form_couplings scale_lanes",
    "transport.lane_slopes": "correct_lanes point_slopes slope_corrections solve_lane_adjoint",
    "transport.diagonals": "add_spread_slopes band_point_slopes column_sums conductances fill_band "
    "multiply_band row_sums square_sums",
    "transport.sinkhorn": "move_potentials scale_band solve_adjoint",
    "transport.permanent": "exact_permanents",
    "mean_functions": "chain_points predict_points",
    "mixture": "student_logs",
    "moment_losses": "accumulate_tensors add_label_powers add_monomials evaluate_moments "
    "evaluate_tensors",
    "transport.assignment": "begin_scalings",
    "transport.pairings": "lay_bins lay_points score_alone take_bins take_points",
    "transport.partial_transport": "fill_partial_kernel find_band match_labels "
    "slope_coupling value_coupling",
    "projection": "gram triangulate",
    "scanning": "add_label_squares add_moments add_to_cells hash_rows order_by_bag widen_extremes",
    "sorted_cells": "curve_sorted_cells fill_sorted_cells find_place match_sorted_cells",
    "sorted_losses": "ABSOLUTE KOLMOGOROV_SMIRNOV SMALL_D SQUARED compare_sorted evaluate_sorted "
    "largest_step_gap screen_squares",
    "sorting": "sort_rows",
    "swapping": "exchange_labels swap_counts",
    "tempering": "advance_replicas",
    "weighted_losses": "compare_masses evaluate_weighted",
}
_NAMES = {name: place for place, names in _PLACES.items() for name in names.split()}
if len(_NAMES) < sum(len(names.split()) for names in _PLACES.values()):
    raise ImportError("two kernels have one name")

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    # Kept as a name of this module: it is asked for again and again.
    globals()[name] = found
    return found
