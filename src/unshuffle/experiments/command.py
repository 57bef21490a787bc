"""The command `unshuffle reproduce`: run, draw, page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unshuffle.errors import InputError, import_extra, shorten
from unshuffle.experiments import EXPERIMENTS, load_experiment

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
    help="Stop after fitting ('run'), or only draw ('draw') or write the page ('page') from rows.",
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
    """Compute the paper's figures and tables again, and put them on one page.

    A run can be stopped at any moment; the same command goes on where it stopped.
    """
    from unshuffle.experiments.runner import Scope

    scope = Scope(
        options["quick"], options["sequences"], options["array_effect"], options["array_noise"]
    )
    if options["is_list"]:
        show_list(scope)
        return
    chosen = choose_names(names)
    if step != "run":
        check_extras()
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


def check_extras() -> None:
    """Find out before hours of fitting whether the results can be drawn."""
    import_extra("matplotlib", "report", "drawing the figures (or use --step run)")
    import_extra("jinja2", "report", "the page (or use --step run)")


def reproduce_all(
    names: Sequence[str], scope: Scope, out: Path, seed: int, jobs: int, step: str | None
) -> list[str]:
    """Run, draw and write the page; return what was left out, one line each."""
    from unshuffle.experiments import runner

    planned = runner.plan_tasks(names, scope)
    tasks, missing = runner.split_by_data(planned)
    runner.prepare_folder(out, seed)
    left_out = describe_missing(planned, missing)
    todo = runner.missing_tasks(out, tasks, seed)
    if step in (None, "run"):
        run_with_progress(out, todo, len(tasks), seed, jobs)
    if step == "run":
        return left_out
    items = draw_all(names, planned, tasks, out)
    if step != "draw":
        from unshuffle.experiments.page import write_page

        write_page(out / "index.html", items, seed, scope.quick, left_out)
        click.echo(str(out / "index.html"))
    else:
        click.echo(str(out))
    return left_out


def describe_missing(planned: Sequence[Task], missing: dict[str, str]) -> list[str]:
    """Say which experiments lack which data set, and why."""
    lines = []
    for data, reason in missing.items():
        users = dict.fromkeys(t.experiment for t in planned if t.settings.get("data") == data)
        lines.append(f"{', '.join(users)} without {data}: {reason}")
    return lines


def draw_all(
    names: Sequence[str], planned: Sequence[Task], tasks: Sequence[Task], out: Path
) -> list[Any]:
    """Draw every experiment that has rows, or needs none, and save what was drawn."""
    from unshuffle.experiments import runner
    from unshuffle.experiments.drawing import figure_style, save_drawing
    from unshuffle.experiments.page import Item

    items = []
    for name in names:
        table = runner.read_table(out, name, tasks)
        if not len(table) and any(task.experiment == name for task in planned):
            continue
        experiment = load_experiment(name)
        with figure_style():
            drawing = experiment.draw(table)
        try:
            save_drawing(drawing, name, out)
        except OSError as exc:
            raise InputError(f"--out {out} cannot be written: {shorten(exc, 100)}") from exc
        click.echo(f"{name}: {drawing.verdict}", err=True)
        items.append(Item(experiment, table, drawing))
    return items


def run_with_progress(out: Path, todo: list[Task], n_planned: int, seed: int, jobs: int) -> None:
    """Compute what is missing under a progress bar that knows the whole plan."""
    from unshuffle.experiments import runner

    done = n_planned - len(todo)
    if done:
        click.echo(f"{done} of {n_planned} rows are here already", err=True)
    if not todo:
        return
    n_failed = 0
    try:
        with progress_bar(runner.expected_seconds(todo), len(todo)) as advance:

            def on_row(task: Task, row: dict[str, Any]) -> None:
                nonlocal n_failed
                n_failed += str(row["status"]).startswith("failed")
                advance(task.experiment, runner.expected_seconds([task]))

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
    from dataclasses import replace

    from unshuffle.experiments import runner
    from unshuffle.experiments.page import show_duration

    totals = {True: 0.0, False: 0.0}
    click.echo(f"{'name':<17}{'quick':>9}{'full':>9}   what (times: estimates on two cores)")
    for name in EXPERIMENTS:
        shown = []
        for quick in totals:
            tasks = runner.plan_tasks([name], replace(scope, quick=quick))
            seconds = runner.expected_seconds(tasks) / 2
            totals[quick] += seconds
            shown.append(show_duration(seconds))
        experiment = load_experiment(name)
        click.echo(f"{name:<17}{shown[0]:>9}{shown[1]:>9}   {experiment.place}: {experiment.title}")
    click.echo(f"{'all':<17}{show_duration(totals[True]):>9}{show_duration(totals[False]):>9}")
