"""Fixtures of several files: a folder to work in, files to read, each text reader, cheap rows.

Also what `make quick` runs, which files come first, and how workers share the compiling.
"""

import gc
from pathlib import Path

import pytest

from command_line import write_data
from unshuffle.io.text import parsing


@pytest.fixture(autouse=True)
def no_columns(monkeypatch):
    """Workers of the test runner know a width of their own; a pipe has none."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, with a small data set."""
    monkeypatch.chdir(tmp_path)
    write_data()
    return tmp_path


READERS = ("fast", "plain")


@pytest.fixture(params=READERS)
def reader(request, monkeypatch):
    """Each text reader in turn: with pyarrow and without it."""
    if request.param == "plain":
        monkeypatch.setattr(parsing, "read_with_pyarrow", lambda *args: None)
    else:
        pytest.importorskip("pyarrow")
    return request.param


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture
def cheap_auto(monkeypatch):
    """Rows of "auto" computed by a method that takes milliseconds; all else is as it is."""
    from unshuffle.experiments import runner

    genuine = runner.compute_row

    def compute_cheaply(task, seed):
        settings = dict(task.settings)
        if settings.get("method") == "auto":
            settings["method"] = "control" if task.experiment == "table3" else "ls"
        return {**genuine(runner.Task(task.experiment, settings), seed), **task.settings}

    monkeypatch.setattr(runner, "compute_row", compute_cheaply)


# What `make quick` runs: files whose tests cost next to nothing, and from the others one or a few
# tests, so that every package and a fit of every method are touched. An entry is the beginning of
# a test's id.
QUICK = (
    "test_bags.py",
    "test_broken_files.py",
    "test_cli_golden.py::test_output_is_stable[ls]",
    "test_cli_golden.py::test_output_is_stable[means]",
    "test_cli_help.py",
    "test_cli_output.py::test_json_is_one_object_and_nothing_else[fit]",
    "test_cli_two_files.py::test_a_broken_pair_of_files_is_one_line[fit-",
    "test_cli_wrong_input.py",
    "test_closed_forms.py",
    "test_coupling.py::test_kernel_equals_dense_sinkhorn_plus_its_correction",
    "test_datasets.py",
    "test_audit.py::test_wrong_input_is_said_in_one_line",
    "test_design.py::test_exchanges_equal_those_assessed_by_the_whole_determinant",
    "test_design_matrix.py",
    "test_docs.py::test_the_page_of_commands_is_up_to_date",
    "test_equivariance.py::test_weights_follow_powers_of_two_bit_for_bit[ls]",
    "test_estimator.py::test_poor_score_is_the_only_special_tag",
    "test_estimator.py::test_pandas_labels_are_taken_by_place_not_by_index",
    "test_experiments.py::test_every_experiment_runs_and_is_drawn[figure2b]",
    "test_experiments.py::test_a_half_written_row_is_never_read",
    "test_gpu.py::test_tiles_hold_every_row_once",
    "test_gpu.py::test_sums_carry_beyond_32_bits",
    "test_gradients.py",
    "test_imports.py::test_imports_go_downward_only",
    "test_imports.py::test_importing_loads_nothing_heavy",
    "test_imports.py::test_every_public_name",
    "test_what_a_fit_says.py::test_means_with",
    "test_kernels.py",
    "test_likelihood.py::test_small_bags_equal_the_sum_over_every_permutation",
    "test_methods.py::test_weights_are_near_the_truth_on_easy_data",
    "test_methods.py::test_a_chooser_gives_what_the_method_it_chooses_gives",
    "test_order_blindness.py::test_fit_ignores_order_of_labels_rows_and_groups[ls]",
    "test_order_blindness.py::test_fit_ignores_order_of_labels_rows_and_groups[sm]",
    "test_order_blindness.py::test_fit_ignores_order_of_labels_rows_and_groups[p1]",
    "test_order_blindness.py::test_fit_of_bags_ignores_their_order",
    "test_other_files.py",
    "test_penalties.py::test_l2_on_linked_data_is_ridge_regression",
    "test_report.py::test_the_verdict_comes_before_everything_else",
    "test_reproduce_command.py::test_names_come_once_in_the_order_of_the_paper",
    "test_schema.py::test_the_schema",
    "test_replica_exchange.py::test_swaps_equal_those_computed_from_the_whole_density",
    "test_text_files.py",
    "test_threads.py::test_mapping_keeps_the_order_of_items",
    "test_verdict.py::test_verdict_and_table_never_contradict_each_other",
)


# The files that take longest, by the processor's time. They come first, so that workers, which run
# whole files, end at about the same time. The first of all needs little of what the second worker
# compiles: it runs on the first, whose share of the compiling is done earlier.
LONGEST = (
    "test_cli_streams.py",
    "test_pages.py",
    "test_dask.py",
    "test_audit.py",
    "test_report.py",
    "test_experiments.py",
    "test_sampler.py",
    "test_block_posterior.py",
    "test_cli_output.py",
    "test_methods.py",
    "test_tempered_smc.py",
    "test_theory.py",
    "test_links.py",
    "test_estimator.py",
    "test_repeatability.py",
    "test_design.py",
    "test_likelihood.py",
    "test_docs.py",
    "test_cli_writing.py",
    "test_reproduce_command.py",
    "test_blocks.py",
    "test_gpu.py",
    "test_table_source.py",
)


def _short_id(item):
    """Return a test's id without its folder."""
    path, _, name = item.nodeid.partition("::")
    return f"{Path(path).name}::{name}"


def pytest_collection_modifyitems(config, items):
    """Mark what is quick, and put the longest files first.

    An entry of QUICK that no test answers to any more is an error, not a gap.
    """
    answered = set()
    for item in items:
        name = _short_id(item)
        entries = [entry for entry in QUICK if name.startswith(entry)]
        if entries:
            item.add_marker("quick")
            answered.update(entries)
    if config.option.markexpr == "quick" and not config.option.keyword:
        missing = [entry for entry in QUICK if entry not in answered]
        if missing:
            raise pytest.UsageError(f"QUICK in tests/conftest.py names no test: {missing}")
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))


def pytest_collection():
    """Look for no garbage while modules are imported and tests collected: there is none."""
    gc.disable()


def pytest_collection_finish():
    """Look for garbage again, but not among what has been imported and collected."""
    gc.collect()
    gc.freeze()
    gc.enable()


# Compiling takes some 90 s of one core, once per machine: what it makes is kept beside the source.
# The first two workers make one half each, so that no kernel is compiled by both at the same time.
# Blocks come late: they need the likelihood's too, and large bags need what blocks compile.
SHARES = (
    ("likelihood", "ls", "sm", "certified"),
    ("separate samples", "sampler", "small bags in blocks", "many bags in blocks", "large bags"),
)
QUICK_SHARES = (("likelihood",), ("ls", "sm", "sampler"))


def pytest_sessionstart(session):
    """Let the first two workers compile a share each."""
    worker = getattr(session.config, "workerinput", {"workerid": "", "workercount": 1})
    place = int(worker["workerid"].removeprefix("gw") or len(SHARES))
    if worker["workercount"] < len(SHARES) or place >= len(SHARES):
        return
    shares = QUICK_SHARES if session.config.option.markexpr == "quick" else SHARES
    for name in shares[place]:
        compile_kernels(name)


def compile_kernels(name):
    """Fit little data in a way that needs the kernels of a method, or of a kind of data."""
    from registry_examples import fit_quietly, make_property_data
    from unshuffle import Bag, fit, make_shuffled, methods
    from unshuffle.inference.likelihood import Likelihood

    light = Likelihood(n_starts=4, n_refined=2, n_components=2, n_draws=30, max_rounds=1)
    if name == "separate samples":
        data = make_property_data("likelihood")
        fit([Bag(data.X, data.y)], method=light, same_individuals=False, rng=0)
    elif name == "large bags":
        data = make_shuffled(600, 2, noise=0.01, bags=2, rng=0)
        fit_quietly(light, data.X, data.y, data.groups)
    elif name.endswith("in blocks"):
        sizes = [20] * 40 if name.startswith("many") else [1, 2, 7, 30, 100]
        data = make_shuffled(sum(sizes), 2, bags=sizes, rng=0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(methods, "BLOCKS_ABOVE", 100)
            fit_quietly(light, data.X, data.y, data.groups)
    else:
        data = make_property_data(name)
        fit_quietly(name, data.X, data.y, data.groups)
