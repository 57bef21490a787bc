"""Files are written whole or not at all, whatever ends the process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import SRC
from unshuffle.errors import InputError
from unshuffle.io.writing import write_whole

# What a process does when it comes to a step of writing: it kills itself at once.
KILLED = """
import os, signal, sys
from unshuffle.io import writing
step, signal_name, path = sys.argv[1:]

def die(*args, **how):
    os.kill(os.getpid(), getattr(signal, signal_name))

setattr(os, step, die)
writing.write_whole(path, "new" * 1_000_000)
"""
STEPS = ["fsync", "link", "replace"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("exists", [True, False])
def test_a_killed_process_keeps_the_old_file_and_leaves_no_half(step, name, exists, tmp_path):
    target = tmp_path / "result.csv"
    if exists:
        target.write_text("old")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), *sys.path])}
    command = [sys.executable, "-c", KILLED, step, name, str(target)]
    done = subprocess.run(command, env=env, capture_output=True, timeout=60)
    assert done.returncode == -getattr(signal, name)
    assert target.exists() == exists
    if exists:
        assert target.read_text() == "old"
    left = [path for path in tmp_path.iterdir() if path != target]
    # Without a name there is nothing; between name and place the file is whole.
    if step != "replace" and hasattr(os, "O_TMPFILE"):
        assert left == []
    assert all(path.stat().st_size in (0, 3_000_000) for path in left)


@pytest.mark.parametrize("has_nameless", [True, False])
@pytest.mark.parametrize("step", [*STEPS, "write"])
def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(
    step, has_nameless, tmp_path, monkeypatch
):
    target = tmp_path / "result.csv"
    target.write_text("old")

    def fail(*args, **how):
        raise OSError(28, "No space left on device")

    if not has_nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    if step == "write":
        monkeypatch.setattr("unshuffle.io.writing.write_through", fail)
    else:
        monkeypatch.setattr(os, step, fail)
    if step == "link":  # a system without such links writes as before
        assert write_whole(target, "new") == target
        assert target.read_text() == "new"
    else:
        with pytest.raises(InputError, match="No space left") as caught:
            write_whole(target, "new")
        assert "\n" not in str(caught.value) and target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_content_links_and_permissions_are_as_of_an_ordinary_file(tmp_path):
    target, link, plain = tmp_path / "a.txt", tmp_path / "link.txt", tmp_path / "plain.txt"
    write_whole(target, "one\n")
    link.symlink_to(target)
    write_whole(link, b"two\n")
    assert link.is_symlink() and target.read_bytes() == b"two\n"
    plain.write_text("")
    assert target.stat().st_mode == plain.stat().st_mode


def test_a_folder_that_may_not_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="may not be written; ask for permission"):
        write_whole(tmp_path / "a.txt", "one")
    assert list(Path(tmp_path).iterdir()) == []
