"""The command line among other programs: pipes, colours, interrupts and full disks."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import FIT, SRC, start, write_data
from unshuffle.cli.app import run


def test_no_colour_in_a_pipe_even_when_colour_is_forced(folder, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    out, err = start(["describe", "data.csv"]).communicate(timeout=60)
    assert b"\x1b" not in out + err and b"x1" in out


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize("no_colour", ["", "1"])
def test_no_colour_in_a_terminal_where_none_is_wanted(no_colour, folder, monkeypatch):
    import pty

    monkeypatch.setenv("NO_COLOR", no_colour)
    monkeypatch.setenv("TERM", "xterm-256color")
    main_end, other_end = pty.openpty()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), *sys.path])}
    command = [sys.executable, "-m", "unshuffle", "describe", "data.csv"]
    subprocess.run(command, stdout=other_end, stderr=other_end, env=env, check=True, timeout=60)
    os.close(other_end)
    text = b""
    try:
        while chunk := os.read(main_end, 65536):
            text += chunk
    except OSError:  # the terminal has been closed
        pass
    os.close(main_end)
    assert b"x1" in text
    assert (b"\x1b[" in text) == (not no_colour)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_ends_quietly(unbuffered, folder, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    process = start(["simulate", "-n", "20000"])
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()


# Of labels that have nothing to do with the rows a fit is not identified.
def write_noise(path="noise.csv"):
    lines = [f"{i % 7},{i % 11},{(i * i) % 13}" for i in range(60)]
    Path(path).write_text("\n".join(["x1,x2,y", *lines]) + "\n")


KEPT = ["--save", "m.json", "--strict"]


def assert_finished(process, code):
    """The exit code is told and the model is there, though nobody read to the end."""
    assert process.wait(timeout=100) == code
    assert Path("m.json").exists()


@pytest.mark.parametrize(("how", "code"), [([], 3), (["--json", "--method", "ls"], 0)])
def test_files_are_written_and_the_code_is_told_when_the_reader_has_gone(how, code, folder):
    write_noise()
    process = start(["fit", "noise.csv", "--label", "y", "--report", "r.html", *KEPT, *how])
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert_finished(process, code)
    assert b"Traceback" not in err and b"report written to r.html" in err
    assert Path("r.html").exists()


def test_files_are_written_when_the_reader_of_messages_has_gone(folder):
    process = start([*FIT, "--method", "ls", *KEPT])
    process.stderr.close()
    assert b"x1" in process.stdout.read()
    process.stdout.close()
    assert_finished(process, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are inherited otherwise")
@pytest.mark.parametrize("closed", [[1], [1, 2]])
def test_closed_streams_are_no_mistake(closed, folder):
    code = "import os, sys; [os.close(int(k)) for k in sys.argv.pop(1)]; "
    code += "os.execv(sys.executable, [sys.executable, '-m', 'unshuffle', *sys.argv[1:]])"
    text = "".join(map(str, closed))
    process = start([text, *FIT, "--method", "ls", *KEPT], program=["-c", code])
    out, err = process.communicate(timeout=100)
    assert_finished(process, 0)
    assert bool(out) == (1 not in closed) and bool(err) == (2 not in closed)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_disks_are_one_line(unbuffered, folder, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "w") as full:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), *sys.path])}
        command = [sys.executable, "-m", "unshuffle", "simulate", "-n", "9"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=env, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1 and b"space" in done.stderr
    assert run(["simulate", "-n", "9", "--out", "/dev/full"]) == 2
    assert "/dev/full" in capsys.readouterr().err
    assert Path("/dev/full").is_char_device()


def test_a_full_disk_leaves_the_old_file_and_nothing_else(folder, capsys, monkeypatch):
    Path("old.csv").write_text("old")
    before = sorted(os.listdir())

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert run(["simulate", "-n", "9", "--out", "old.csv"]) == 2
    assert "old.csv: cannot be written (No space left" in capsys.readouterr().err
    assert sorted(os.listdir()) == before and Path("old.csv").read_text() == "old"


def test_an_interrupt_while_writing_leaves_nothing(folder, capsys, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    before = sorted(os.listdir())
    assert run(["simulate", "-n", "9", "--out", "new.csv"]) == 130
    assert capsys.readouterr().err.endswith("unshuffle: interrupted\n")
    assert sorted(os.listdir()) == before


def test_an_interrupt_that_pyarrow_takes_is_handed_on(folder, capsys, monkeypatch):
    pa = pytest.importorskip("pyarrow")

    def cancel(*args, **how):
        raise pa.ArrowCancelled("SIGINT")

    monkeypatch.setattr("pyarrow.csv.read_csv", cancel)
    assert run(FIT) == 130


# Some 40 s of work (2000 starts take 4 s of one core), so that no signal comes too late.
ENDLESS = [*FIT, "--method", "emd", "--starts", "20000", "--report", "r.html"]
needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")


def assert_interrupted(process):
    _, err = process.communicate(timeout=120)
    # Where the interrupt came while `exec` ran a string (numba and namedtuple do), CPython ends by
    # the signal itself after the exit code is told; a shell reports 130 for both.
    assert process.returncode in (130, -signal.SIGINT)
    assert b"Traceback" not in err
    assert sorted(os.listdir()) == ["data.csv"]


@needs_signals
@pytest.mark.parametrize("delay", [0.0, 0.5])
def test_an_interrupt_while_fitting_is_exit_130(delay, folder):
    write_data("data.csv", n=3000, d=6, bags=3)
    process = start(ENDLESS)
    # What was read is printed before the fit begins.
    assert b"rows" in process.stderr.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    assert_interrupted(process)


# The command as `start` runs it, which interrupts itself when it comes to import one module.
INTERRUPTED_IMPORT = """
import os, signal, sys
from unshuffle.cli import main

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

moment = sys.argv.pop(1)
sys.meta_path.insert(0, Finder())
main()
"""


@needs_signals
@pytest.mark.parametrize(
    "module",
    ["click", "unshuffle.cli.commands.fit", "numpy", "scipy", "numba", "unshuffle.results.fit"],
)
def test_an_interrupt_while_importing_is_exit_130(module, folder):
    assert_interrupted(start([module, *ENDLESS], program=["-c", INTERRUPTED_IMPORT]))
