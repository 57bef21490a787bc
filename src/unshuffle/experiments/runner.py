"""Experiments and their rows: plan a grid of settings, compute missing rows, read them."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from unshuffle.datasets import dataset_path
from unshuffle.errors import InputError, MissingDataError, shorten
from unshuffle.experiments import load_experiment
from unshuffle.experiments.drawing import Drawing
from unshuffle.experiments.origin import library_version, row_version
from unshuffle.experiments.rows import Row, RowWriter, Settings, Table, read_rows, row_key

KIND = "unshuffle reproduction"
MARKER = "reproduction.json"


@dataclass(frozen=True)
class Scope:
    """How much to compute, and what the user brings or sets."""

    quick: bool = False
    sequences: str | None = None
    array_effect: float = 1.0
    array_noise: float = 0.5


@dataclass(frozen=True)
class Experiment:
    """One figure or table: its grid, how one row is computed, and how the table is drawn.

    `keys` are the columns that tell one row from another ("trial" is always among them), `results`
    those that `run_one` returns. Rows that differ only in a key of `paired` see the same data.
    """

    name: str
    title: str
    place: str
    caption: str
    choices: str
    keys: tuple[str, ...]
    grid: Callable[[Scope], list[Settings]]
    run_one: Callable[[Settings, np.random.Generator], Row]
    draw: Callable[[Table], Drawing]
    seconds: Callable[[Settings], float]
    results: tuple[str, ...] = ("error", "value", "chosen", "status")
    paired: tuple[str, ...] = ("method",)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its file."""
        return (*self.keys, "seed", *self.results, "seconds", "version")


@dataclass(frozen=True)
class Task:
    """One row to be computed."""

    experiment: str
    settings: Settings


def make_rng(seed: int, experiment: Experiment, settings: Settings) -> np.random.Generator:
    """Return the generator of one row: it depends on nothing but seed, experiment and settings.

    The settings are hashed as text, since Python's own hash differs from process to process.
    """
    kept = [key for key in experiment.keys if key not in experiment.paired]
    text = json.dumps([experiment.name, *zip(kept, row_key(settings, kept), strict=True)])
    digest = hashlib.sha256(text.encode()).digest()
    words = np.frombuffer(digest, dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))


def compute_row(task: Task, seed: int) -> Row:
    """Compute one row; what the fit has to say is in its `status`, so warnings are not repeated.

    Seconds are processor time of its one thread: they do not depend on the load of the machine.
    """
    experiment = load_experiment(task.experiment)
    rng = make_rng(seed, experiment, task.settings)
    started = time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        result = experiment.run_one({**task.settings, "seed": seed}, rng)
    seconds = round(time.process_time() - started, 4)
    version = row_version(experiment)
    return {**task.settings, "seed": seed, **result, "seconds": seconds, "version": version}


def plan_tasks(names: Iterable[str], scope: Scope) -> list[Task]:
    """List every row of the named experiments."""
    return [Task(name, s) for name in names for s in load_experiment(name).grid(scope)]


def split_by_data(tasks: Iterable[Task]) -> tuple[list[Task], dict[str, str]]:
    """Part the tasks that can run from the data sets that are missing, with the reason."""
    kept: list[Task] = []
    missing: dict[str, str] = {}
    here = set()
    for task in tasks:
        name = task.settings.get("data")
        if name in missing:
            continue
        if _is_from_file(task.settings) and name not in here:
            try:
                dataset_path(str(name))
            except MissingDataError as exc:
                missing[str(name)] = str(exc)
                continue
            here.add(name)
        kept.append(task)
    return kept, missing


def prepare_folder(out: Path, seed: int) -> None:
    """Make the folder, or check that it holds results of this kind, version and seed."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not (out / MARKER).exists():
            _mark(out, seed)
        (out / "rows").mkdir(exist_ok=True)
        text = (out / MARKER).read_text(encoding="utf-8")
    except OSError as exc:
        raise InputError(
            f"--out {shorten(out, 120)} cannot be written ({shorten(exc, 100)}): name another "
            "folder"
        ) from exc
    try:
        found = dict(json.loads(text))
    except (TypeError, ValueError) as exc:
        raise InputError(f"{out / MARKER} is damaged: name another --out") from exc
    for what, ours in (("seed", seed), ("version", library_version())):
        if found.get(what) != ours:
            raise InputError(
                f"--out {shorten(out, 120)} holds results of {what} {found.get(what)}, and this is "
                f"{what} {ours}: results are never mixed; name another --out"
                + (f", or give --seed {found.get('seed')}" if what == "seed" else "")
            )


def _mark(out: Path, seed: int) -> None:
    """Write down in an empty folder what its results are; a kill leaves at most a part."""
    partial = out / f"{MARKER}.part"
    if set(out.iterdir()) - {partial}:
        raise InputError(
            f"--out {shorten(out, 120)} holds files of another kind: name a new or empty folder"
        )
    partial.write_text(json.dumps({"kind": KIND, "seed": seed, "version": library_version()}))
    partial.replace(out / MARKER)


def rows_path(out: Path, name: str) -> Path:
    """Return the file that holds an experiment's rows."""
    return out / "rows" / f"{name}.csv"


def find_rows(out: Path, name: str, tasks: Iterable[Task]) -> list[Row]:
    """Return the rows of these tasks that are there, in the order of the tasks."""
    by_key, keys = _rows_by_key(out, name), load_experiment(name).keys
    wanted = [row_key(t.settings, keys) for t in tasks if t.experiment == name]
    return [by_key[key] for key in wanted if key in by_key]


def read_table(out: Path, name: str, tasks: Iterable[Task]) -> Table:
    """Read the rows of these tasks; rows beyond them are left alone.

    A data set may be missing altogether, since it cannot always be had; nothing else may.
    """
    mine = [task for task in tasks if task.experiment == name]
    rows = find_rows(out, name, mine)
    begun = {row.get("data") for row in rows}
    needed = [t for t in mine if t.settings.get("data") in begun or not _is_from_file(t.settings)]
    if len(rows) < len(needed):
        raise InputError(
            f"{rows_path(out, name)} lacks {len(needed) - len(rows)} of {len(needed)} rows: run "
            f"'unshuffle reproduce {name}' with the same --out first"
        )
    return Table(tuple(rows))


def _is_from_file(settings: Settings) -> bool:
    return "data" in settings and not settings.get("made")


def missing_tasks(out: Path, tasks: Iterable[Task], seed: int) -> list[Task]:
    """Return the tasks without a row, refusing rows of another seed or version."""
    done: dict[str, Mapping[tuple[str, ...], Row]] = {}
    lacking = []
    for task in tasks:
        name = task.experiment
        if name not in done:
            done[name] = _rows_by_key(out, name)
            _check_origin(rows_path(out, name), done[name].values(), load_experiment(name), seed)
        if row_key(task.settings, load_experiment(name).keys) not in done[name]:
            lacking.append(task)
    return lacking


def _rows_by_key(out: Path, name: str) -> dict[tuple[str, ...], Row]:
    experiment = load_experiment(name)
    rows = read_rows(rows_path(out, name), experiment.columns)
    return {row_key(row, experiment.keys): row for row in rows}


def _check_origin(path: Path, rows: Iterable[Row], experiment: Experiment, seed: int) -> None:
    version = row_version(experiment)
    for row in rows:
        if (row["seed"], str(row["version"])) != (seed, version):
            raise InputError(
                f"{path} holds a row of seed {row['seed']} and version {row['version']}, and this "
                f"is seed {seed} and version {version}: results are never mixed; name another "
                "--out, or delete that file to compute it again"
            )


def run_tasks(
    out: Path, tasks: list[Task], seed: int, jobs: int, on_row: Callable[[Task, Row], None]
) -> None:
    """Compute tasks on `jobs` processes and append each row as soon as it is there."""
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(
                RowWriter(rows_path(out, name), load_experiment(name).columns)
            )
            for name in dict.fromkeys(task.experiment for task in tasks)
        }
        for task, row in _compute(tasks, seed, jobs):
            writers[task.experiment].append(row)
            on_row(task, row)


def _compute(tasks: list[Task], seed: int, jobs: int) -> Iterator[tuple[Task, Row]]:
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, compute_row(task, seed)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare_worker)
    try:
        futures = {pool.submit(compute_row, task, seed): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as exc:
        raise InputError(
            "a worker process died, perhaps for lack of memory: rows so far are kept; run the same "
            "command again, with a smaller --jobs"
        ) from exc
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _prepare_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it even when it is killed outright."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
