"""Fixtures of several files: a folder to work in, files to read, each text reader, cheap rows."""

import pytest

from command_line import write_data
from unshuffle.files import delimited


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
        monkeypatch.setattr(delimited, "read_fast", lambda *args: None)
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
