"""Fixtures of several files: a folder to work in, a file to read, each reader of text."""

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
