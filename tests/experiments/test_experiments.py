"""The experiments: rows are whole and repeatable, never mixed, and drawn as they are."""

import json
import os
import re

import numpy as np
import pytest

from experiment_rows import compute, quick_tasks, tiny_tasks, without_time
from unshuffle import datasets
from unshuffle.errors import InputError
from unshuffle.experiments import EXPERIMENTS, load_experiment, runner
from unshuffle.experiments.drawing import error_cell, save_drawing
from unshuffle.experiments.origin import reached_from, row_version
from unshuffle.experiments.paper.table2 import DATA, split
from unshuffle.experiments.rows import RowWriter, Table, from_text, read_rows, to_text
from unshuffle.experiments.runner import Scope, Task
from unshuffle.experiments.timing import expected_seconds, load_factors, measure_factors

needs_files = pytest.mark.skipif(
    not os.environ.get("UNSHUFFLE_DATA"), reason="UNSHUFFLE_DATA names no folder of data files"
)
FIGURE_4 = ("unshuffle.experiments.paper.figure4", "run_one")
NEEDS_FILES = {"table1", "table2", "negative-control"}


# ---- every experiment ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_and_is_drawn(name, tmp_path, cheap_auto):
    if name in NEEDS_FILES and not os.environ.get("UNSHUFFLE_DATA"):
        pytest.skip("UNSHUFFLE_DATA names no folder of data files")
    pytest.importorskip("matplotlib")
    tasks = tiny_tasks(name)
    compute(tmp_path, tasks)
    table = runner.read_table(tmp_path, name, tasks)
    assert len(table) == len(tasks) > 0 or name == "figure1"
    assert all(np.isfinite(row["error"]) for row in table)
    drawing = load_experiment(name).draw(table)
    assert drawing.figure is not None or drawing.sheets
    assert drawing.verdict.endswith(".") and "nan" not in drawing.verdict.split()
    endings = {path.suffix for path in save_drawing(drawing, name, tmp_path)}
    assert endings == ({".svg", ".png"} if drawing.figure else set()) | (
        {".csv", ".md", ".html"} if drawing.sheets else set()
    )


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_quick_rows_are_rows_of_the_full_run_or_marked_as_smaller(name):
    keys = load_experiment(name).keys
    full = {tuple(t.settings[k] for k in keys) for t in runner.plan_tasks([name], Scope())}
    for task in runner.plan_tasks([name], Scope(quick=True)):
        settings = dict(task.settings)
        if settings.get("data") == "power_plant" and "rows" in settings:
            settings["rows"] = 9568
        assert tuple(settings[k] for k in keys) in full


@pytest.mark.parametrize(("quick", "limit"), [(True, 600), (False, 7200)])
def test_the_plan_fits_into_its_time_on_two_cores(quick, limit):
    tasks = runner.plan_tasks(EXPERIMENTS, Scope(quick=quick))
    assert expected_seconds(tasks) / 2 < limit


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_says_where_it_stands_and_what_was_chosen(name):
    experiment = load_experiment(name)
    assert experiment.name == name
    assert re.match(r"(Figure|Table) \d+", experiment.place)
    assert experiment.caption.endswith(".") and experiment.choices.endswith(".")
    assert "trial" in experiment.keys


@pytest.mark.parametrize("name", sorted({*EXPERIMENTS} - {"figure1", "table1", "table3"}))
def test_the_verdict_is_read_off_the_table(name):
    """Where every method errs alike everywhere, nothing that the paper found is there."""
    pytest.importorskip("matplotlib")
    tasks = runner.plan_tasks([name], Scope(quick=True))
    table = Table(tuple({**t.settings, "error": 1.0} for t in tasks))
    assert (
        load_experiment(name)
        .draw(table)
        .verdict.startswith(("Agrees in part", "Does not", "Quick run of one split"))
    )


# ---- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.1, 1e-300, 3, "sm", float("inf"), np.float64(2) / 3, 'a, "b"'])
def test_a_value_survives_its_text(value):
    assert from_text(to_text(value)) == value


def test_a_half_written_row_is_never_read(tmp_path):
    path, columns = tmp_path / "rows.csv", ("name", "error")
    rows = [{"name": f"é, {i}", "error": i / 3} for i in range(4)]
    with RowWriter(path, columns) as writer:
        for row in rows:
            writer.append(row)
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = read_rows(path, columns)
        assert kept == rows[: len(kept)]
        assert len(kept) == max(whole[:cut].count(b"\n") - 1, 0)
        with RowWriter(path, columns) as writer:
            writer.append(rows[0])
        assert read_rows(path, columns) == [*kept, rows[0]]


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("name,error\na,1.0\nb\n")
    with pytest.raises(InputError, match="damaged in line 3"):
        read_rows(path, ("name", "error"))
    with pytest.raises(InputError, match="other columns"):
        read_rows(path, ("name", "value"))


def test_a_table_selects_and_averages():
    table = Table(tuple({"n": n, "error": float(n + t)} for n in (1, 2) for t in (0, 1)))
    assert table.unique("n") == [1, 2]
    assert table.mean(n=2) == 2.5
    assert np.isnan(table.mean(n=3))


# ---- repeatability ------------------------------------------------------------------------------


def test_rows_do_not_depend_on_the_number_of_processes(tmp_path):
    tasks = quick_tasks()
    tables = []
    for jobs in (1, 2):
        compute(tmp_path / str(jobs), tasks, jobs=jobs)
        tables.append(without_time(runner.read_table(tmp_path / str(jobs), "figure2b", tasks)))
    assert tables[0] == tables[1]


def test_the_generator_of_a_row_is_the_same_everywhere():
    experiment = load_experiment("figure2")
    settings = {"d": 1, "n": 10, "method": "sm", "trial": 0}
    assert runner.make_rng(0, experiment, settings).integers(2**32) == 1012084708


@pytest.mark.parametrize("change", [{"n": 11}, {"trial": 1}, {"d": 2}])
def test_other_settings_draw_other_data_and_other_methods_the_same(change):
    experiment = load_experiment("figure2")
    settings = {"d": 1, "n": 10, "method": "sm", "trial": 0}

    def draw(seed=0, **changes):
        return runner.make_rng(seed, experiment, {**settings, **changes}).integers(2**62)

    assert draw() == draw(method="ls")
    assert draw() != draw(**change)
    assert draw() != draw(seed=1)


@needs_files
def test_the_splits_of_table_2_follow_the_convention():
    X, y = datasets.load_dataset("acetylene", scale=True)
    rng = np.random.default_rng([0, 2, 4, 3])
    groups = np.empty(len(y), int)
    groups[rng.permutation(len(y))] = np.arange(len(y)) % 4
    shuffled = y.copy()
    for r in range(4):
        i = np.flatnonzero(groups == r)
        shuffled[i] = rng.permutation(shuffled[i])
    settings = {"data": DATA[2], "rows": len(y), "bags": 4, "trial": 3, "seed": 0}
    found = split(settings)
    for ours, expected in zip(found, (X, shuffled, groups), strict=False):
        np.testing.assert_array_equal(ours, expected)


def test_the_same_table_gives_the_same_bytes(tmp_path, cheap_auto):
    pytest.importorskip("matplotlib")
    tasks = tiny_tasks("figure4")
    compute(tmp_path, tasks)
    table = runner.read_table(tmp_path, "figure4", tasks)
    images = []
    for _ in range(2):
        save_drawing(load_experiment("figure4").draw(table), "figure4", tmp_path)
        images.append((tmp_path / "figures" / "figure4.svg").read_bytes())
    assert images[0] == images[1]


# ---- never mixing -------------------------------------------------------------------------------


def test_results_of_another_seed_are_refused(tmp_path):
    runner.prepare_folder(tmp_path, 0)
    with pytest.raises(InputError, match=r"seed 0, and this is seed 1: .*or give --seed 0"):
        runner.prepare_folder(tmp_path, 1)


def test_results_of_another_version_are_refused(tmp_path):
    runner.prepare_folder(tmp_path, 0)
    marker = tmp_path / runner.MARKER
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "version": "0.0.1"}))
    with pytest.raises(InputError, match=r"version 0\.0\.1"):
        runner.prepare_folder(tmp_path, 0)


def test_rows_of_another_seed_are_refused(tmp_path):
    tasks = quick_tasks(1)
    compute(tmp_path, tasks)
    with pytest.raises(InputError, match=r"row of seed 0 .*this is seed 1 .*never mixed"):
        runner.missing_tasks(tmp_path, tasks, 1)


def test_rows_of_another_version_are_refused(tmp_path):
    tasks = quick_tasks(1)
    compute(tmp_path, tasks)
    path = runner.rows_path(tmp_path, "figure2b")
    version = row_version(load_experiment("figure2b"))
    path.write_text(path.read_text().replace(version, "0.0.1", 1))
    with pytest.raises(InputError, match="never mixed"):
        runner.missing_tasks(tmp_path, tasks, 0)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_version_of_a_row_covers_what_computes_it_and_not_what_shows_it(name):
    run_one = load_experiment(name).run_one
    reached = reached_from((run_one.__module__, run_one.__name__))
    assert (run_one.__module__, run_one.__name__) in reached
    shown = {"draw", "_verdict", "EXPERIMENT", "grid", "cells", "AXES"}
    assert not shown & {definition for _, definition in reached}
    assert not any(module.endswith(".drawing") for module, _ in reached)


def test_constants_of_an_experiment_and_what_it_shares_are_in_its_version():
    names = {f"{m.rpartition('.')[2]}.{name}" for m, name in reached_from(FIGURE_4)}
    assert {"figure4.WEIGHTS", "figure3.noise_at_nsr", "simulations.fit_simulated"} <= names
    assert "figure4.LEVELS" not in names


def test_a_folder_of_another_kind_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="another kind"):
        runner.prepare_folder(tmp_path, 0)
    with pytest.raises(InputError, match="cannot be written"):
        runner.prepare_folder(tmp_path / "thesis.tex", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


# ---- small things -------------------------------------------------------------------------------


@needs_files
def test_table_1_is_the_printed_one():
    verdict = (
        load_experiment("table1")
        .draw(
            Table(tuple(runner.compute_row(t, 0) for t in runner.plan_tasks(["table1"], Scope())))
        )
        .verdict
    )
    assert verdict.startswith("Agrees:") and "13 of 13" in verdict


def test_every_experiment_and_method_has_a_measured_time():
    tasks = runner.plan_tasks(EXPERIMENTS, Scope())
    planned = {(t.experiment, str(t.settings.get("method", "-"))) for t in tasks}
    assert set(load_factors()) == planned


def test_measured_times_lead_to_the_expected_ones():
    tasks = runner.plan_tasks(["figure4"], Scope(quick=True))
    rows = [{**t.settings, "seconds": 2 * expected_seconds([t])} for t in tasks]
    factors = measure_factors("figure4", rows)
    for method, factor in factors.items():
        assert factor == pytest.approx(2 * load_factors()["figure4", method])


def test_auto_is_fitted_where_the_paper_has_its_rule():
    settings = {"n": 50, "d": 1, "bags": 1, "method": "auto", "trial": 0}
    row = runner.compute_row(Task("regimes-n-d", settings), 0)
    assert np.isfinite(row["error"]) and row["chosen"] not in ("auto", "none")


def test_a_fit_that_refuses_becomes_a_failed_row():
    task = Task("regimes-n-d", {"n": 2, "d": 4, "bags": 1, "method": "p1", "trial": 0})
    row = runner.compute_row(task, 0)
    assert np.isnan(row["error"]) and row["status"].startswith("failed: ")
    assert error_cell(row["error"]).text == "failed"
