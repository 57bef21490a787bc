"""Count the numbers that someone chose: numeric module constants and numeric settings fields.

Run: python packaging/count_constants.py [--list] [--limit N] [FILE_OR_FOLDER…]

Prints a line for each package of ``src/unshuffle``, and the total. ``--list`` prints every name
with its place. The exit code is 1 when the total is above ``--limit``.

What counts, read from the syntax tree of each module:

- **constant**: a module-level name bound to a number. A number is a literal, a tuple or list of
  numbers, a dictionary whose values are numbers, or arithmetic and calls (``48 * 2**20``,
  ``np.uint64(7)``) that contain a literal. A tuple counts once. In ``A, B = 1, 2`` each counts.
- **setting**: a field of a dataclass with a numeric default (``field(default=…)`` and ``ClassVar``
  included). In a class whose name ends in "Settings" every such field counts. In other dataclasses
  the neutral defaults 0 and 1 do not, since they say "nothing happened" or "times one".
- **override**: a number given to a class in a module-level call, as in ``A = SearchSettings(8)``.

A name that is computed from other names without a number of its own (``np.finfo(float).eps``) is
derived and does not count. Neither do these, which are listed with their reason:

- ``GUARDS``: limits of memory, batches, rounding and input. A test shows what each guards.
- ``CODES``: names of states, versions, bit patterns, units.
- ``PUBLISHED``: numbers that a cited source prints, and designs of simulated examples.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "unshuffle"


@dataclass(frozen=True)
class Number:
    """A number that someone chose, where it stands and what kind of name it has."""

    package: str
    path: str
    line: int
    name: str
    kind: str  # "constant", "setting" or "override"

    @property
    def place(self) -> str:
        return f"{self.path}:{self.name}"


_BLOCKS, _GPU, _DASK = (
    "tests/data/test_blocks.py::",
    "tests/gpu/test_gpu.py::",
    "tests/io/test_dask.py::",
)
_KERNELS, _EXTREMES = "tests/kernels/test_kernels.py::", "tests/methods/test_extremes.py::"
_CERTIFIED, _SORTED = "tests/solvers/test_certified.py::", "tests/objectives/test_block_sorted.py::"
_LABELS, _PLOTS = "tests/data/test_labels.py::", "tests/results/test_plots.py::"
_PROPOSALS, _SAMPLER = "tests/inference/test_proposals.py::", "tests/inference/test_sampler.py::"
_REPLICAS = "tests/inference/test_replica_exchange.py::"
_LINKS = "tests/linkage/test_links.py::"
_TEXT, _TABLES = "tests/io/test_text_files.py::", "tests/io/test_table_source.py::"

# A test -> patterns of "path:name" (relative to src/unshuffle) of the limits that it is about: of
# memory and batches, which move no bit, and of what is refused or counts as rounding.
GUARDS: dict[str, tuple[str, ...]] = {
    "tests/results/test_prediction.py::test_intervals_of_new_labels_are_quantiles_of_the_mixture": (
        "core/uncertainty.py:_QUANTILE_TOL",
    ),
    "tests/objectives/test_batches.py::test_batches_of_any_size_give_the_same_bits": (
        "data/products.py:BATCH_NUMBERS",
    ),
    "tests/results/test_determined.py::"
    "test_collinear_columns_are_not_separated_and_apart_they_are": ("data/products.py:FLAT",),
    _BLOCKS + "test_the_first_pass_is_the_same_for_any_blocks_and_threads": (
        "data/blocks/sources.py:BLOCK_ROWS",
        "data/blocks/first_pass.py:_HASHED_ROWS",
        "data/blocks/first_pass.py:_MOST_WAITING",
    ),
    _BLOCKS + "test_labels_of_some_bags_at_a_time_have_the_same_cells": (
        "data/blocks/label_cells.py:ROOM",
        "data/blocks/label_cells.py:_DIVIDED",
    ),
    _BLOCKS + "test_the_sample_is_of_the_lowest_hashes_however_often_rows_repeat": (
        "data/blocks/row_sample.py:_AMPLE",
        "data/blocks/row_sample.py:MOST_LISTED",
    ),
    _BLOCKS + "test_filling_equals_its_plain_twin": (
        "kernels/filling.py:_CHUNK",
        "kernels/filling.py:_LINE",
    ),
    _SORTED + "test_blocks_orders_and_batches_give_the_same_bits": (
        "objectives/block_sorted.py:TOTAL_BYTES",
    ),
    _SORTED + "test_values_and_slopes_are_those_of_sorted_rows": ("kernels/sorted_cells.py:_TILE",),
    _GPU + "test_histograms_of_a_card_have_the_bits_of_the_processor": (
        "gpu/devices.py:*",
        "gpu/filling.py:*",
    ),
    _GPU + "test_rows_that_do_not_fit_the_card_are_sent_in_every_pass_with_the_same_bits": (
        "gpu/source.py:*",
    ),
    _GPU + "test_tiles_hold_every_row_once": ("gpu/scanning.py:_*_ROWS",),
    _DASK + "test_many_groups_are_merged_in_a_tree": (
        "io/dask/passes.py:_FAN_IN",
        "io/dask/passes.py:_LAST",
    ),
    _DASK + "test_totals_of_many_passes_come_in_order_and_only_workers_are_ahead": (
        "io/dask/passes.py:AHEAD",
    ),
    _DASK + "test_a_worker_killed_in_the_middle_changes_nothing": ("io/dask/passes.py:_RETRIES",),
    _DASK + "test_partitions_of_a_frame_give_the_first_pass_of_arrays": (
        "io/dask/passes.py:_BLOCK_ROWS",
        "io/dask/source.py:_PARTITION_ROWS",
    ),
    _DASK + "test_what_no_cluster_can_do_is_refused": ("io/dask/cluster.py:_PATIENCE",),
    "tests/io/test_parquet_source.py::test_blocks_that_are_kept_are_those_that_are_read": (
        "io/sources/parquet_source.py:CACHE_BYTES",
    ),
    "tests/io/test_parquet_source.py::test_what_has_no_room_in_memory_is_refused_with_a_way_out": (
        "io/sources/room.py:_COPIES",
    ),
    _TEXT + "test_nasty_files_read_to_the_same_bits_or_the_same_words": ("io/text/parsing.py:*",),
    _TABLES + "test_pieces_give_the_bits_of_the_whole_file": ("io/text/pieces.py:*",),
    _TABLES + "test_the_command_gives_the_same_digits_from_pieces_and_keeps_the_model": (
        "cli/load_blocks.py:MEMORY_BYTES",
    ),
    "tests/io/test_expressions.py::"
    "test_what_is_no_expression_is_refused_in_one_line_with_its_place": (
        "io/columns/expressions.py:MAX_*",
    ),
    "tests/methods/test_threads.py::test_mapping_keeps_the_order_of_items": ("threads.py:_PIECES",),
    _LINKS + "test_the_mixture_solves_least_squares_of_the_links_as_far_as_they_are_right": (
        "linkage/scale_mixture.py:_LEAST_STEP",
        "linkage/scale_mixture.py:LEAST_GAIN",
        "linkage/scale_mixture.py:_MOST_STEPS",
    ),
    _LINKS + "test_the_logistic_model_of_link_quality_is_a_penalised_maximum": (
        "linkage/link_quality.py:_MOST_STEPS",
        "linkage/link_quality.py:_LEAST_STEP",
    ),
    _LINKS + "test_safe_pairs_are_right": ("data/links.py:_SAFEST", "data/links.py:_HALVINGS"),
    _LINKS + "test_the_centre_has_the_least_expected_relative_error": (
        "linkage/regression.py:_N_WEISZFELD",
    ),
    _LINKS + "test_the_estimator_of_chambers_weighs_by_the_variance_of_each_label": (
        "linkage/adjusted_equations.py:_N_REWEIGHTED",
    ),
    "tests/linkage/test_linkage.py::test_the_density_of_labels_is_a_kernel_estimate": (
        "linkage/given_pairs.py:_N_CELLS",
        "linkage/given_pairs.py:_MARGIN",
    ),
    "tests/linkage/test_linked_sampler.py::test_the_cost_is_that_of_the_share": (
        "linkage/sampler.py:*",
    ),
    "tests/results/test_matching.py::test_ties_wider_than_the_window_are_counted_whole": (
        "results/matching.py:WINDOW",
    ),
    "tests/inference/test_draws.py::test_data_of_many_rows_are_not_kept": (
        "results/fit.py:KEPT_ROWS",
    ),
    "tests/results/test_matching.py::test_the_samplers_tables_are_used_for_the_data_of_the_fit": (
        "results/fit.py:_REMEMBERED_ROWS",
    ),
    _PLOTS + "test_long_data_are_thinned": ("results/pictures/bag_views.py:_MOST_LABELS",),
    _PLOTS
    + "test_pit_values_are_uniform_where_the_model_is_right_and_central_where_it_is_too_wide": (
        "results/pictures/bag_views.py:N_ATOMS",
    ),
    _PLOTS + "test_many_bags_go_into_panels_and_the_largest_are_shown": (
        "results/pictures/bag_plots.py:SHOWN_PANELS",
    ),
    _BLOCKS + "test_label_cells_lose_no_rank_and_no_mean": (
        "data/blocks/label_cells.py:_MOST_CELLS",
        "data/blocks/label_cells.py:_MERGE*",
        "data/blocks/label_cells.py:_WIDEST",
        "data/blocks/label_cells.py:_FAR",
        "data/blocks/label_cells.py:_MORE",
        "data/blocks/label_cells.py:_MOST_PASSES",
    ),
    "tests/inference/test_tempered_smc.py::test_far_rows_are_all_there_whatever_the_blocks": (
        "data/blocks/row_sample.py:FAR_ROWS",
        "data/blocks/row_sample.py:PARTS_OF_ROW",
    ),
    _LABELS + "test_points_of_bins_have_the_mean_and_variance_of_the_bins": (
        "data/labels.py:_MOST_POINTS",
        "data/labels.py:_POINTS_OF_ALL",
    ),
    _LABELS + "test_masses_that_are_kept_give_the_fit_of_the_items_written_out": (
        "data/bags.py:EXPANDED_ITEMS",
    ),
    _SORTED + "test_cells_ascend_and_hold_any_gap": (
        "kernels/sorted_cells.py:MIDDLE",
        "kernels/filling.py:TAIL",
    ),
    _KERNELS + "test_screening_counts_ranks_in_cells_and_is_hardly_above_the_value": (
        "kernels/sorted_losses.py:_CELLS",
    ),
    _KERNELS + "test_tensors_and_rows_and_definition_give_the_same_moments": (
        "objectives/problem.py:_TENSOR_COST",
    ),
    _PLOTS + "test_no_tick_touches_its_neighbour": ("results/pictures/drawing.py:_N_TICKS",),
    _PLOTS + "test_bags_stand_beside_the_offsets_by_name_while_they_are_few": (
        "results/pictures/bag_plots.py:_NAMED_BAGS",
    ),
    _PLOTS + "test_names_above_panels_never_touch": ("results/pictures/bag_plots.py:_LONG_NAME",),
    _PLOTS + "test_names_beside_a_grid_never_touch": (
        "results/pictures/plots.py:_WIDE_PANES",
        "results/pictures/plots.py:_FEW_TICKS",
    ),
    "tests/model/test_bag_offsets.py::test_offsets_that_are_not_there_have_no_digits": (
        "results/summary.py:_UNLIKELY",
    ),
    "tests/kernels/test_coupling.py::test_kernel_equals_dense_sinkhorn_plus_its_correction": (
        # But for the coefficients of the correction, _C1 to _C3.
        "kernels/transport/*:[!_]*",
        "kernels/transport/*:_[!C]*",
    ),
    "tests/model/test_kept_bags.py::test_values_are_the_same_for_any_blocks_threads_and_orders": (
        "model/*:MEMORY",
        "model/*:_ROOM",
        "model/*:PIECE*",
        "model/*:KEPT_*",
        "model/*:_MOST_ROOM",
        "model/*:_MOST_PLACES",
        "model/*:_MOST_CELLS",
    ),
    "tests/model/test_kept_bags.py::test_means_of_very_many_bags_are_added_up_once": (
        "model/*:_LEAST_BAGS",
    ),
    "tests/results/test_prediction.py::test_more_bags_than_effects_are_kept_for_are_refused": (
        "model/*:MOST_OFFSETS",
    ),
    "tests/model/test_misfit.py::"
    "test_nodes_keep_masses_and_means_and_are_few_however_far_values_are_apart": (
        "model/*:FINE_PER_SIGMA",
        "model/*:SMALL_ROWS",
        "model/*:_WINDOW",
    ),
    _PROPOSALS + "test_a_batch_has_the_values_of_its_points": (
        "model/*:_ROUGH*",
        "model/*:_OUTSIDE*",
    ),
    "tests/inference/test_block_posterior.py::"
    "test_departures_below_what_histograms_tell_apart_are_no_misfit": ("model/*:MOST_LABELS",),
    "tests/inference/test_block_posterior.py::test_a_mode_has_no_slope_left": (
        "inference/*:_STEEPEST",
        "inference/*:_LOG_SIGMA_STEP",
    ),
    "tests/inference/test_likelihood.py::test_centre_has_the_least_mean_distance": (
        "inference/importance.py:_NEAR",
        "inference/importance.py:_MAX_MOVES",
    ),
    _REPLICAS + "test_prior_mass_equals_a_sum_over_a_grid": ("inference/chains.py:*",),
    _REPLICAS + "test_shares_of_levels_follow_the_density_of_the_noise": (
        "inference/replica_exchange.py:_N_GRID",
    ),
    _REPLICAS + "test_respacing_spreads_refusals_evenly": (
        "inference/replica_exchange.py:_LEAST_REFUSAL",
        "inference/replica_exchange.py:_LEAST_RATE",
    ),
    _SAMPLER + "test_threads_change_no_bit": (
        "inference/replica_exchange.py:_SWAPS_AT_ONCE",
        "inference/replica_exchange.py:_MOST_KEPT",
    ),
    _SAMPLER + "test_extremes_end_in_a_finite_answer_with_intervals": (
        "inference/replica_exchange.py:_MOST_KNOWN",
        "inference/replica_exchange.py:_HOTTEST",
    ),
    _SAMPLER + "test_too_many_rows_are_refused_with_the_way_out": ("inference/*:MAX_ROWS",),
    "tests/inference/test_pairing_draws.py::test_gibbs_sampling_agrees_with_enumeration": (
        "inference/*:_LEAST_NOISE",
        "results/linked_matching.py:_LEAST_NOISE",
    ),
    "tests/inference/test_pairing_draws.py::test_gibbs_sampling_forgets_its_start_in_a_large_bag": (
        "inference/pairing_draws.py:_N_SWEEPS",
    ),
    "tests/model/test_misfit.py::test_what_is_too_far_from_a_label_to_matter_is_left_out": (
        "model/goodness_of_fit.py:_FAR",
        "model/goodness_of_fit.py:_LEAST",
    ),
    "tests/inference/test_noiseless.py::test_noiseless_data_are_recognised": (
        "inference/noiseless.py:ROUNDING",
        "inference/noiseless.py:_NEAR",
        "inference/noiseless.py:_SAME",
        "inference/noiseless.py:_WIDTH",
    ),
    "tests/inference/test_noiseless.py::"
    "test_columns_that_are_symmetric_and_alike_have_all_their_images_listed": (
        "inference/noiseless.py:_M*",
    ),
    _EXTREMES + "test_noise_of_the_size_of_the_labels_is_taken_and_any_beyond_is_refused": (
        "objectives/checks.py:MOST_NOISE",
    ),
    _EXTREMES + "test_a_penalty_beyond_the_loss_is_refused_and_one_far_above_it_taken": (
        "objectives/checks.py:MOST_PENALTY",
    ),
    _EXTREMES + "test_a_g_of_the_user_has_labels_that_can_be_squared": (
        "objectives/checks.py:MOST_LABEL",
    ),
    "tests/solvers/test_closed_forms.py::test_two_weights_pivot_on_the_larger_mean": (
        "solvers/self_moments.py:NO_MEAN",
    ),
    "tests/solvers/test_projection.py::test_every_candidate_meets_the_pooled_moments": (
        "solvers/projection.py:MET",
        "solvers/projection.py:_NEWTON_STEPS",
    ),
    "tests/objectives/test_penalties.py::test_sparse_p1_is_the_lowest_point_of_its_plane": (
        "solvers/projection.py:_SMOOTHING",
    ),
    _CERTIFIED + "test_the_proof_does_not_depend_on_how_often_it_looks_at_the_clock": (
        "solvers/certified.py:CLOCK_ROWS",
    ),
    _CERTIFIED + "test_labels_without_noise_leave_no_gap": ("solvers/certified.py:ROUNDING",),
    _CERTIFIED + "test_the_value_is_that_of_every_matching_tried": (
        "solvers/certified.py:COMPLETE_GAP",
    ),
    _CERTIFIED + "test_bounds_of_cones_equal_non_negative_least_squares": (
        "kernels/cones.py:_ZERO",
    ),
    "tests/solvers/test_descent.py::test_a_value_without_a_minimum_ends_and_is_not_converged": (
        "solvers/descent.py:MAX_ITERATIONS",
    ),
    "tests/solvers/test_descent.py::test_a_gradient_that_points_uphill_ends_where_it_began": (
        "kernels/descent.py:_MAX_HALVINGS",
    ),
    "tests/solvers/test_closed_forms.py::"
    "test_noiseless_moments_of_bags_vanish_at_the_weights_found": (
        "solvers/local_search.py:_FULL_PRECISION",
    ),
    "tests/solvers/test_levenberg_marquardt.py::"
    "test_values_too_low_to_be_told_apart_are_not_compared_by_their_ratio": (
        "solvers/levenberg_marquardt.py:_*",
    ),
    "tests/design/test_design.py::test_exchanges_equal_those_assessed_by_the_whole_determinant": (
        "kernels/designing.py:_LEAST_GAIN",
    ),
    _KERNELS + "test_sort_equals_numpy_stable_argsort": ("kernels/sorting.py:_*",),
    _KERNELS + "test_tensors_are_the_means_of_all_monomials": ("kernels/moment_losses.py:_TILE",),
    _KERNELS + "test_gram_is_the_product_of_the_columns": ("kernels/projection.py:_BLOCK",),
}

# A reason -> patterns of integers that name a state, a version or a bit pattern, and of facts of
# mathematics and units, which nobody chose.
CODES: dict[str, tuple[str, ...]] = {
    "the low half of a word": ("kernels/sorting.py:ROW",),
    "the multipliers of SplitMix64": ("kernels/scanning.py:*",),
    "a code for each loss": ("kernels/sorted_losses.py:[A-Z]*",),
    "places in an array of random numbers": ("kernels/tempering.py:*",),
    "the place of an unknown label": ("data/anchors.py:NO_LABEL",),
    "a state of the kernel": ("solvers/descent.py:_OUT_OF_ITERATIONS",),
    "how the loss scales with the labels": ("objectives/losses.py:*.degree",),
    "solved from the limits of the local correction": ("kernels/transport/correction.py:C?",),
    "exit codes": ("cli/__init__.py:_INTERRUPTED", "cli/app.py:[A-Z]*"),
    "versions of formats": (
        "results/storage.py:FORMAT_VERSION",
        "results/summary.py:SCHEMA_VERSION",
    ),
    "multiples of the golden ratio fill an interval evenly": (
        "inference/*:_GOLDEN",
        "model/*:_GOLDEN",
    ),
    "a seed, so that equal data have equal draws": (
        "inference/*:_SEED",
        "linkage/regression.py:_SEED",
        "results/*:SEED",
    ),
    "limits of number formats": (
        "data/blocks/row_sample.py:_HIGHEST",
        "io/designs/design_matrix.py:LARGEST_WHOLE",
        "gpu/scanning.py:_SIGN",
        "kernels/filling.py:PLACES",
        "kernels/filling.py:_INNER",
    ),
    "units": (
        "io/columns/dates.py:*",
        "results/paper_text.py:_BASES",
    ),
    "operands of an operation": (
        "io/columns/expressions.py:*n_operands",
        "io/columns/expressions.py:_NEGATE*",
    ),
}

# A source -> patterns of numbers that it prints, or of simulated data that are shown as an example.
PUBLISHED: dict[str, tuple[str, ...]] = {
    "designs and printed figures of the paper": ("experiments/paper/*",),
    "the design of Table 3": ("experiments/motifs.py:*", "experiments/runner.py:Scope.array_noise"),
    "measured times of experiments": ("experiments/simulations.py:MOMENT_SECONDS",),
    "nocedal2006": ("kernels/descent.py:_SUFFICIENT_DECREASE", "kernels/descent.py:_CURVATURE"),
    "terbraak2006": ("inference/moves.py:*",),
    "cameron2015": ("linkage/adjusted_equations.py:*CLUSTERS*",),
    "cohen1988": ("results/determined.py:NEGLIGIBLE_SHARE",),
    "jeffreys1961": ("results/verdict.py:_STRONG_EVIDENCE", "data/links.py:_JEFFREYS"),
    "the example of the command demo": ("cli/commands/demo.py:*", "cli/pools.py:*"),
}

# Pattern -> its kind, and its test, reason or source.
EXEMPT: dict[str, tuple[str, str]] = {
    pattern: (kind, where)
    for kind, groups in (("guard", GUARDS), ("code", CODES), ("published", PUBLISHED))
    for where, patterns in groups.items()
    for pattern in patterns
}


def is_number(node: ast.expr | None) -> bool:
    """Return whether an expression is made of numbers and has at least one literal."""
    return node is not None and _is_numeric(node) and any(map(_is_literal, ast.walk(node)))


def _is_literal(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Constant)
    return is_constant and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _is_numeric(node: ast.expr) -> bool:
    """Return whether every leaf of an expression may be a number."""
    match node:
        case ast.Constant():
            return _is_literal(node)
        case ast.UnaryOp(operand=inner):
            return _is_numeric(inner)
        case ast.BinOp(left=left, right=right):
            return _is_numeric(left) and _is_numeric(right)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return bool(parts) and all(map(_is_numeric, parts))
        case ast.Dict(values=parts):
            return bool(parts) and all(map(_is_numeric, parts))
        case ast.Call(func=called, args=arguments, keywords=[]):
            return not _is_class(called) and all(map(_is_numeric, arguments))
        case ast.Name() | ast.Attribute():
            return True
    return False


def _is_class(called: ast.expr) -> bool:
    """Return whether what is called has the name of a class."""
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name.lstrip("_")[:1].isupper()


def _makes_object(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _is_class(node.func)


def _is_neutral(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (0, 1)


def _find_constants(body: list[ast.stmt]) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and kind of the constants and overrides among statements of a module."""
    for statement in body:
        if isinstance(statement, ast.Assign):
            pairs = [(target, statement.value) for target in statement.targets]
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            pairs = [(statement.target, statement.value)]
        else:
            continue
        while pairs:
            target, value = pairs.pop()
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs += list(zip(target.elts, value.elts, strict=True))
            elif isinstance(target, ast.Name) and is_number(value):
                yield statement.lineno, target.id, "constant"
            elif isinstance(target, ast.Name) and _makes_object(value):
                given = [*value.args, *(each.value for each in value.keywords)]
                for place, each in enumerate(given):
                    if is_number(each):
                        yield statement.lineno, f"{target.id}[{place}]", "override"


def _find_fields(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and kind of the numeric fields of dataclasses."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        if not any("dataclass" in ast.unparse(each) for each in node.decorator_list):
            continue
        is_settings = node.name.endswith("Settings")
        for statement in node.body:
            if not isinstance(statement, ast.AnnAssign) or statement.value is None:
                continue
            value = statement.value
            if isinstance(value, ast.Call):  # field(default=…)
                named = {each.arg: each.value for each in value.keywords}
                value = named.get("default", value)
            if is_number(value) and (is_settings or not _is_neutral(value)):
                assert isinstance(statement.target, ast.Name)
                yield statement.lineno, f"{node.name}.{statement.target.id}", "setting"


def find_numbers(path: Path) -> list[Number]:
    """Return the numbers of a module, exempt ones as well."""
    tree = ast.parse(path.read_text("utf-8"))
    inner = path.relative_to(SOURCE)
    package = inner.parts[0] if len(inner.parts) > 1 else "(modules)"
    found = [*_find_constants(tree.body), *_find_fields(tree)]
    return [Number(package, inner.as_posix(), *each) for each in sorted(found)]


def is_exempt(number: Number) -> bool:
    """Return whether a number is in ``EXEMPT``."""
    return find_exemption(number.place) is not None


def find_exemption(place: str) -> tuple[str, str] | None:
    """Return the kind of an exempt name, and its test or reason; None where it counts."""
    return next((found for each, found in EXEMPT.items() if fnmatchcase(place, each)), None)


def count(paths: list[Path]) -> list[Number]:
    """Return the numbers of files and folders."""
    files = [each for path in paths for each in ([path] if path.is_file() else path.rglob("*.py"))]
    return [number for each in sorted(set(files)) for number in find_numbers(each)]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Count numeric constants and settings fields.")
    parser.add_argument("paths", nargs="*", type=Path, default=[SOURCE])
    parser.add_argument("--list", action="store_true", help="print every name with its place")
    parser.add_argument("--limit", type=int, help="exit with 1 when the total is above this")
    given = parser.parse_args(arguments)
    numbers = count([path.resolve() for path in given.paths])
    counted = [each for each in numbers if not is_exempt(each)]
    if given.list:
        for each in numbers:
            found = find_exemption(each.place)
            exempt = f"  exempt: {found[0]}" if found else ""
            print(f"{each.path}:{each.line}: {each.kind} {each.name}{exempt}")
    print(f"{'package':<14}{'constants':>10}{'settings':>10}{'both':>6}{'exempt':>8}")
    for package in sorted({each.package for each in numbers}):
        print(_row(package, [each for each in numbers if each.package == package]))
    print(_row("total", numbers))
    return 1 if given.limit is not None and len(counted) > given.limit else 0


def _row(name: str, numbers: list[Number]) -> str:
    kinds = Counter("exempt" if is_exempt(each) else each.kind for each in numbers)
    settings = kinds["setting"] + kinds["override"]
    both = kinds["constant"] + settings
    return f"{name:<14}{kinds['constant']:>10}{settings:>10}{both:>6}{kinds['exempt']:>8}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
