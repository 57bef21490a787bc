"""The command `unshuffle reproduce`: run, draw, page."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unshuffle.errors import InputError, import_extra, shorten
from unshuffle.experiments import EXPERIMENTS, load_experiment
from unshuffle.formatting import show_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unshuffle.experiments.runner import Scope, Task

STEPS = ("run", "draw", "page")

_EPILOG = """\b
Examples:
  unshuffle reproduce --list
  unshuffle reproduce table2 figure4 --quick
  unshuffle reproduce all --jobs 2 --out results

\b
Fit on one machine, draw on another that has the same folder:
  unshuffle reproduce all --jobs 16 --step run --out results
  unshuffle reproduce all --out results"""


@click.command(epilog=_EPILOG)
@click.argument("names", nargs=-1, metavar="NAME… | all")
@click.option("--quick", is_flag=True, help="Fewer trials and coarser grids: minutes, not hours.")
@click.option(
    "--out", default="reproduction", show_default=True, metavar="DIR", help="Folder of the results."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed.")
@click.option(
    "--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="Processes to use."
)
@click.option(
    "--step",
    type=click.Choice(STEPS),
    help="Only fit ('run', which needs no drawing library), only draw rows that are here ('draw'), "
    "or only write the page of what is drawn ('page').",
)
@click.option(
    "--sequences", metavar="FILE", help="Your own file of sequence and affinity, for table3."
)
@click.option(
    "--array-effect",
    default=1.0,
    show_default=True,
    help="table3: factor on the motif effects of the simulated array.",
)
@click.option(
    "--array-noise",
    default=0.5,
    show_default=True,
    type=click.FloatRange(min=0),
    help="table3: noise sd of the simulated array.",
)
@click.option("--list", "is_list", is_flag=True, help="List all names with the time they take.")
def reproduce(
    names: tuple[str, ...], out: str, seed: int, jobs: int, step: str | None, **options: Any
) -> None:
    """Compute the paper's figures and tables again.

    They are put on one page. A run can be stopped at any moment; the same command goes on where it
    stopped.
    """
    from unshuffle.experiments.runner import Scope

    scope = Scope(
        options["quick"], options["sequences"], options["array_effect"], options["array_noise"]
    )
    if options["is_list"]:
        show_list(scope)
        return
    chosen = choose_names(names)
    check_extras(step)
    left_out = reproduce_all(chosen, scope, Path(out), seed, jobs, step)
    for line in left_out:
        click.echo(f"left out: {line}", err=True)
    if left_out:
        raise SystemExit(2)


def choose_names(names: Sequence[str]) -> list[str]:
    """Return the experiments asked for, each once, in the paper's order."""
    if not names:
        raise InputError("nothing to reproduce: give names or 'all'; --list shows the names")
    for name in names:
        if name != "all":
            load_experiment(name)
    return [name for name in EXPERIMENTS if "all" in names or name in names]


def check_extras(step: str | None) -> None:
    """Find out before hours of fitting whether the results can be drawn."""
    if step in (None, "draw"):
        import_extra("matplotlib", "report", "drawing the figures (or use --step run)")
    if step in (None, "page"):
        import_extra("jinja2", "report", "the page (or use --step run)")


def reproduce_all(
    names: Sequence[str], scope: Scope, out: Path, seed: int, jobs: int, step: str | None
) -> list[str]:
    """Do one step, or all three; return what was left out, one line each."""
    from unshuffle.experiments import runner
    from unshuffle.experiments.page import write_page

    planned = runner.plan_tasks(names, scope)
    runner.prepare_folder(out, seed)
    todo = runner.missing_tasks(out, planned, seed)
    reasons: dict[str, str] = {}
    if step in (None, "run"):
        # Only rows still to come need their data: what is here is drawn from the rows alone.
        todo, reasons = runner.split_by_data(todo)
        run_with_progress(out, todo, planned, seed, jobs)
        if planned:
            show_times(out, names, planned)
    still = [] if step == "page" else runner.missing_tasks(out, planned, seed)
    lacking = find_lacking(still, reasons)
    left_out = [
        f"{name} without {data}: {reason}"
        for name, group in lacking.items()
        for data, reason in group.items()
    ]
    if step in (None, "draw"):
        draw_all(names, scope, out, lacking)
    if step in (None, "page"):
        click.echo(str(write_page(out, seed, left_out)))
    else:
        click.echo(str(out))
    return left_out


def find_lacking(tasks: Sequence[Task], reasons: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return the data sets of which rows are lacking, by experiment, each with the reason."""
    lacking: dict[str, dict[str, str]] = {}
    for task in tasks:
        if "data" in task.settings:
            data = task.settings["data"]
            group = lacking.setdefault(task.experiment, {})
            group[data] = reasons.get(data, "it has no rows here")
    return lacking


def draw_all(
    names: Sequence[str], scope: Scope, out: Path, lacking: dict[str, dict[str, str]]
) -> None:
    """Draw every experiment that has rows, or needs none, and save what was drawn."""
    from unshuffle.experiments import runner
    from unshuffle.experiments.drawing import figure_style
    from unshuffle.experiments.page import save_drawn

    for name in names:
        planned = runner.plan_tasks([name], scope)
        table = runner.read_table(out, name, planned)
        if planned and not len(table):
            continue
        with figure_style():
            drawing = load_experiment(name).draw(table)
        facts = {
            # Some experiments are the same in a quick run.
            "is_quick": planned != runner.plan_tasks([name], replace(scope, quick=False)),
            "left_out": [f"{data}: {reason}" for data, reason in lacking.get(name, {}).items()],
        }
        try:
            save_drawn(out, name, drawing, table.rows, **facts)
        except OSError as exc:
            raise InputError(f"--out {out} cannot be written: {shorten(exc, 100)}") from exc
        click.echo(f"{name}: {drawing.verdict}", err=True)


def show_times(out: Path, names: Sequence[str], planned: Sequence[Task]) -> None:
    """Say how long the rows took, those of earlier runs too: the sum of their own seconds."""
    from unshuffle.experiments import runner

    click.echo(f"{'name':<17}{'fits':>7}{'computing':>12}", err=True)
    n_fits, total = 0, 0.0
    for name in names:
        seconds = [float(row["seconds"]) for row in runner.find_rows(out, name, planned)]
        n_fits, total = n_fits + len(seconds), total + sum(seconds)
        if seconds:
            click.echo(f"{name:<17}{len(seconds):>7}{sum(seconds):>10.1f} s", err=True)
    half = show_time(total / 2)
    click.echo(f"{'all':<17}{n_fits:>7}{total:>10.1f} s: about {half} on two cores", err=True)


def run_with_progress(
    out: Path, todo: list[Task], planned: Sequence[Task], seed: int, jobs: int
) -> None:
    """Compute what is missing under a progress bar that knows the whole plan."""
    from unshuffle.experiments import runner
    from unshuffle.experiments.timing import expected_seconds

    n_here = sum(len(runner.find_rows(out, name, planned)) for name in EXPERIMENTS)
    if n_here:
        click.echo(f"{n_here} of {len(planned)} rows are here already", err=True)
    if not todo:
        return
    n_failed, n_left = 0, Counter(task.experiment for task in todo)
    try:
        with progress_bar(expected_seconds(todo), len(todo)) as advance:

            def on_row(task: Task, row: dict[str, Any]) -> None:
                nonlocal n_failed
                n_failed += str(row["status"]).startswith("failed")
                n_left[task.experiment] -= 1
                if not n_left[task.experiment] and not sys.stderr.isatty():
                    # A log has no bar, and a run of an hour should not be silent.
                    click.echo(f"{task.experiment} is computed", err=True)
                advance(task.experiment, expected_seconds([task]))

            runner.run_tasks(out, todo, seed, jobs, on_row)
    except KeyboardInterrupt:
        click.echo("interrupted: rows so far are kept; the same command goes on", err=True)
        raise
    if n_failed:
        click.echo(f"{n_failed} fits failed: see the column 'status' in {out}/rows", err=True)


@contextmanager
def progress_bar(total: float, n_rows: int) -> Iterator[Callable[[str, float], None]]:
    """Show a bar on stderr, weighted by expected time; silent where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[n_done]}/{task.fields[n_rows]} fits"),
        TimeElapsedColumn(),
        TextColumn("left"),
        # The speed of the last minutes, not of the last seconds: fits differ in length.
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    n_done = 0
    with Progress(
        *columns, console=console, disable=not sys.stderr.isatty(), speed_estimate_period=300
    ) as progress:
        bar = progress.add_task("starting", total=total, n_done=0, n_rows=n_rows)

        def advance(name: str, seconds: float) -> None:
            nonlocal n_done
            n_done += 1
            progress.update(bar, advance=seconds, description=name, n_done=n_done)

        yield advance


def show_list(scope: Scope) -> None:
    """List the experiments with the number of fits and the expected time on two cores."""
    from unshuffle.experiments import runner
    from unshuffle.experiments.timing import expected_seconds

    totals = {True: 0.0, False: 0.0}
    click.echo(f"{'name':<17}{'quick':>9}{'full':>9}   what (times: on two cores, as measured)")
    for name in EXPERIMENTS:
        shown = []
        for quick in totals:
            tasks = runner.plan_tasks([name], replace(scope, quick=quick))
            seconds = expected_seconds(tasks) / 2
            totals[quick] += seconds
            shown.append(show_time(seconds))
        experiment = load_experiment(name)
        click.echo(f"{name:<17}{shown[0]:>9}{shown[1]:>9}   {experiment.place}: {experiment.title}")
    click.echo(f"{'all':<17}{show_time(totals[True]):>9}{show_time(totals[False]):>9}")
