"""A run that is killed outright goes on where it stopped, and leaves nothing running."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiment_rows import compute, quick_tasks, without_time
from unshuffle.experiments import load_experiment, runner
from unshuffle.experiments.rows import read_rows

SRC = Path(__file__).parents[2] / "src"
SCRIPT = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from experiment_rows import quick_tasks
from unshuffle.experiments import runner

if __name__ == "__main__":
    out = Path(sys.argv[1])
    runner.prepare_folder(out, 0)
    todo = runner.missing_tasks(out, quick_tasks(), 0)
    runner.run_tasks(out, todo, 0, int(sys.argv[2]), lambda task, row: time.sleep(0.2))
"""


def start_run(tmp_path, out, jobs):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parents[1] / "helpers")))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), *sys.path])}
    return subprocess.Popen([sys.executable, str(script), str(out), str(jobs)], env=env)


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def count_lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    out, tasks = tmp_path / "out", quick_tasks()
    path = runner.rows_path(out, "figure2b")
    process = start_run(tmp_path, out, jobs=1)
    try:
        wait_until(lambda: count_lines(path) >= 4)
    finally:
        process.kill()
        process.wait()
    n_done = len(read_rows(path, load_experiment("figure2b").columns))
    assert 3 <= n_done < len(tasks)
    # As if the kill had come in the middle of a write.
    with path.open("ab") as file:
        file.write(b"3,10,ols")
    assert len(compute(out, tasks)) == len(tasks) - n_done
    compute(tmp_path / "whole", tasks)
    tables = [runner.read_table(o, "figure2b", tasks) for o in (out, tmp_path / "whole")]
    assert without_time(tables[0]) == without_time(tables[1])
    assert compute(out, tasks) == []


def children_of(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_workers_end_with_a_killed_parent(tmp_path):
    out = tmp_path / "out"
    process = start_run(tmp_path, out, jobs=2)
    try:
        wait_until(lambda: count_lines(runner.rows_path(out, "figure2b")) >= 2)
        workers = children_of(process.pid)
        assert len(workers) >= 2
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), seconds=60)
