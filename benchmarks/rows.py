"""What the benchmarks share: where a row comes from, and rows that are written whole."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.progress import Progress


def head_commit() -> str:
    """Return the short name of this checkout's commit, with "-dirty" where code was changed since.

    "-" where there is no commit to name.
    """

    def ask(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=Path(__file__).parents[1], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        return done.stdout.strip()

    name = ask("rev-parse", "--short", "HEAD")
    changed = ask("status", "--porcelain", "--untracked-files=no", "src")
    return (name + ("-dirty" if changed else "")) or "-"


def write_rows(path: Path, fields: Iterable[str], rows: Iterable[dict]) -> None:
    """Write a table whole or not at all."""
    fields = list(fields)
    lines = [",".join(fields), *(",".join(str(row[field]) for field in fields) for row in rows)]
    path.parent.mkdir(exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text("\n".join(lines) + "\n")
    os.replace(new, path)


def run_jobs(run_one: Callable[[Any], dict], jobs: list, n_jobs: int, what: str) -> Iterator[dict]:
    """Yield the row of every job as it ends; stopping drops the jobs that have not begun."""
    with Progress() as progress:
        task = progress.add_task(what, total=len(jobs))
        pool = ProcessPoolExecutor(n_jobs)
        try:
            for future in as_completed([pool.submit(run_one, job) for job in jobs]):
                yield future.result()
                progress.advance(task)
        finally:
            pool.shutdown(cancel_futures=True)
