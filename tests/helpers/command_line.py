"""How the tests of the command line call it, and the data they call it on."""

import csv
import os
import subprocess
import sys
from pathlib import Path

from unshuffle import make_shuffled

SRC = Path(__file__).parents[2] / "src"
FIT = ["fit", "data.csv", "--label", "y", "--bag", "bag"]


def write_data(path="data.csv", n=120, d=2, bags=4, rng=0, names=None):
    data = make_shuffled(n, d, noise=0.05, bags=bags, intercept=1.0, rng=rng)
    names = names or [f"x{j}" for j in range(1, d + 1)]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "bag", "y"])
        for row, bag, label in zip(data.X, data.groups, data.y, strict=True):
            # Rounded, so that golden files do not depend on the last digit of a processor.
            writer.writerow([*(f"{v:.4f}" for v in row), f"pool {bag}", f"{label:.4f}"])
    return data


def write_linked(path="linked.csv"):
    """Write the same data with every label beside its own row."""
    data = write_data(path)
    names, *lines = Path(path).read_text().splitlines()
    rows = [line.rpartition(",")[0] for line in lines]
    linked = [f"{row},{y:.4f}" for row, y in zip(rows, data.linked_y, strict=True)]
    Path(path).write_text("\n".join([names, *linked]) + "\n")


def start(args, program=("-m", "unshuffle"), **how):
    """Start the command as a process of its own."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), *sys.path])}
    command = [sys.executable, *program, *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **how)


def assert_one_line(code, streams, words):
    assert code == 2
    assert streams.out == ""
    assert streams.err.count("\n") == 1 and streams.err.endswith("\n")
    assert "Traceback" not in streams.err and "\x1b" not in streams.err
    assert len(streams.err) < 1100
    for word in words:
        assert word in streams.err
