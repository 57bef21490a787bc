"""`unshuffle reproduce`: three steps with files between them, and one page."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from experiment_rows import tiny_tasks
from unshuffle import datasets
from unshuffle.cli.app import run
from unshuffle.errors import MissingDataError
from unshuffle.experiments import EXPERIMENTS, load_experiment, runner
from unshuffle.experiments.command import choose_names
from unshuffle.experiments.paper import table2
from unshuffle.experiments.rows import Table
from unshuffle.experiments.simulations import make_row


def test_an_unknown_name_suggests_the_nearest(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["reproduce", "tabel2"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "did you mean 'table2'?" in captured.err
    assert run(["reproduce"]) == 2
    assert "--list" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_names_come_once_in_the_order_of_the_paper():
    assert choose_names(["table1", "figure2", "table1"]) == ["figure2", "table1"]
    assert choose_names(["all"]) == list(EXPERIMENTS)


def test_the_list_shows_every_name_with_its_time(capsys):
    assert run(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [*EXPERIMENTS, "all"]


@pytest.fixture(autouse=True)
def needs_extras():
    """Drawing needs the extra `report`."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")


@pytest.fixture
def small_figure2(monkeypatch):
    """The command on one experiment of a few cheap rows."""
    experiment = load_experiment("figure2")
    tasks = [t.settings for t in tiny_tasks("figure2")]
    small = replace(experiment, grid=lambda scope: tasks)
    monkeypatch.setattr("unshuffle.experiments.paper.figure2.EXPERIMENT", small)
    return small


def test_the_command_writes_one_offline_page(tmp_path, small_figure2, cheap_auto, capsys):
    out = tmp_path / "out"
    assert run(["reproduce", "figure2", "figure1", "--quick", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{out / 'index.html'}\n"
    assert "figure2: " in captured.err
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert small_figure2.caption[:40] in page
    assert not re.search(r'(src|href)="(?!#)', page)
    assert not re.search(r"<script|@import|url\(http", page)


def test_drawing_reads_the_table_only(tmp_path, small_figure2, cheap_auto, monkeypatch, capsys):
    args = ["reproduce", "figure2", "--out", str(tmp_path), "--step"]
    assert run([*args, "draw"]) == 2
    assert "lacks 8 of 8 rows" in capsys.readouterr().err
    assert run([*args, "run"]) == 0
    assert not (tmp_path / "figures").exists()
    monkeypatch.setattr(runner, "compute_row", None)
    assert run([*args, "draw"]) == 0
    assert (tmp_path / "figures" / "figure2.svg").exists()
    assert not (tmp_path / "index.html").exists()
    assert run([*args, "page"]) == 0
    assert (tmp_path / "index.html").exists()


def test_missing_data_leave_out_their_rows_and_nothing_else(tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("UNSHUFFLE_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("UNSHUFFLE_CACHE", str(tmp_path / "empty"))

    def refuse(dataset):
        raise MissingDataError(f"'{dataset.name}' could not be fetched")

    monkeypatch.setattr(datasets, "download", refuse)
    out = tmp_path / "out"
    assert run(["reproduce", "table1", "figure1", "--out", str(out)]) == 2
    errors = capsys.readouterr().err
    assert "left out: table1 without lsat: 'lsat' could not be fetched" in errors
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "could not be fetched" in page
    assert page.count("<section") == 1


def test_the_page_shows_whatever_the_folder_holds(tmp_path, small_figure2, cheap_auto, capsys):
    out = ["--out", str(tmp_path)]
    assert run(["reproduce", "figure2", *out]) == 0
    assert run(["reproduce", "figure1", *out]) == 0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\S+)">', page) == ["figure1", "figure2"]
    assert page.count("has not been run") == len(EXPERIMENTS) - 2
    # What is absent is told last, and folded.
    assert page.rindex("</section>") < page.index("<details><summary>Not on this page")


def test_the_page_says_what_is_not_drawn(tmp_path, small_figure2, cheap_auto, capsys):
    out = ["--out", str(tmp_path)]
    assert run(["reproduce", "all", *out, "--step", "page"]) == 2
    assert "nothing is drawn" in capsys.readouterr().err
    assert run(["reproduce", "figure2", *out, "--step", "run"]) == 0
    assert run(["reproduce", "figure1", *out]) == 0
    assert "has rows, but is not drawn" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_sheets_of_an_earlier_drawing_do_not_stay(tmp_path, small_figure2, cheap_auto, monkeypatch):
    args = ["reproduce", "figure2", "--out", str(tmp_path)]
    assert run(args) == 0
    assert (tmp_path / "tables" / "figure2.html").exists()
    genuine = small_figure2.draw
    bare = replace(small_figure2, draw=lambda table: replace(genuine(table), sheets=()))
    monkeypatch.setattr("unshuffle.experiments.paper.figure2.EXPERIMENT", bare)
    assert run(args) == 0
    assert not list((tmp_path / "tables").iterdir())


def test_one_split_of_table_2_is_no_agreement(tmp_path, monkeypatch, capsys):
    """Twelve cells of 65 have another colour than print."""
    experiment = load_experiment("table2")
    printed = [(name, k) for name in table2.PRINTED for k in range(len(table2.BAGS))]

    def run_one(settings, rng):
        name, k = settings["data"], table2.BAGS.index(settings["bags"])
        error = table2.PRINTED[name][k]
        if printed.index((name, k)) < 12:
            error = 0.5 if error < 0.3 else 0.1
        return make_row(error, 0.0, settings["method"], "EXACT")

    monkeypatch.setattr(runner, "split_by_data", lambda tasks: (tasks, {}))
    small = replace(experiment, run_one=run_one)
    monkeypatch.setattr("unshuffle.experiments.paper.table2.EXPERIMENT", small)
    assert run(["reproduce", "table2", "--quick", "--out", str(tmp_path)]) == 0
    found = "with the paper's rule 53 of 65 cells have the printed colour"
    assert f"table2: Quick run of one split: {found}" in capsys.readouterr().err
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<strong>Quick run of one split:</strong>" in page
    # The means of several splits can be compared with print.
    rows = [{**s, **run_one(s, None)} for s in experiment.grid(runner.Scope())]
    assert experiment.draw(Table(tuple(rows))).verdict.startswith(f"Agrees: {found}")


def test_the_time_of_all_rows_is_summed(tmp_path, small_figure2, cheap_auto, capsys):
    args = ["reproduce", "figure2", "--out", str(tmp_path), "--step", "run"]
    assert run(args) == 0
    first = capsys.readouterr().err.splitlines()
    assert run(args) == 0
    second = capsys.readouterr().err.splitlines()
    assert first[0] == "figure2 is computed"
    assert second == ["8 of 8 rows are here already", *first[1:]]
    assert re.fullmatch(r"all +8 +\d+\.\d s: about \d+ s on two cores", first[-1])


def test_fitting_needs_no_drawing_library(tmp_path):
    code = (
        "import sys; sys.modules.update(matplotlib=None, jinja2=None)\n"
        "from dataclasses import replace\n"
        "from unshuffle.cli.app import run\n"
        "from unshuffle.experiments.paper import figure2\n"
        "row = {'d': 1, 'n': 10, 'method': 'sm', 'trial': 0}\n"
        "figure2.EXPERIMENT = replace(figure2.EXPERIMENT, grid=lambda scope: [row])\n"
        f"args = ['reproduce', 'figure1', 'figure2', '--out', {str(tmp_path)!r}]\n"
        "assert run(args) == 2\n"
        "assert run([*args, '--step', 'run']) == 0\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "use --step run" in done.stderr.splitlines()[0]
    assert runner.rows_path(tmp_path, "figure2").read_text().count("\n") == 2


def test_rows_that_are_here_need_no_data(tmp_path, monkeypatch, capsys):
    """As when they were computed elsewhere: the data sets may be on that machine only."""
    settings = [t.settings for t in runner.plan_tasks(["table1"], runner.Scope())][:2]
    experiment = load_experiment("table1")
    results = {"status": "EXACT", "chosen": "ols", "error": 0.0, "value": 0.0}
    numbers = {"d": 2, "n": 15, "r2": 0.6, "sigma": 0.2}
    small = replace(
        experiment,
        grid=lambda scope: settings,
        run_one=lambda settings, rng: {**results, **numbers},
    )
    monkeypatch.setattr("unshuffle.experiments.paper.table1.EXPERIMENT", small)
    monkeypatch.setattr(runner, "dataset_path", lambda name: name)
    args = ["reproduce", "table1", "--out", str(tmp_path)]
    assert run([*args, "--step", "run"]) == 0

    def refuse(name):
        raise MissingDataError(f"{name} is not here")

    monkeypatch.setattr(runner, "dataset_path", refuse)
    monkeypatch.setattr(runner, "compute_row", None)
    assert run(args) == 0
    assert "left out" not in capsys.readouterr().err
    assert (tmp_path / "tables" / "table1.csv").read_text().count("\n") == 3
