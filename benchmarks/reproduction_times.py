"""Refresh the times that `unshuffle reproduce --list` shows, from the rows of a run.

Run on the machine that the list is to speak of (two cores, nothing else running):

    unshuffle reproduce all --jobs 2 --out results
    python benchmarks/reproduction_times.py results
"""

import csv
import sys
from pathlib import Path

from unshuffle.experiments import EXPERIMENTS, load_experiment, timing
from unshuffle.experiments.rows import read_rows
from unshuffle.experiments.runner import rows_path


def write_times(out: Path, target: Path) -> None:
    """Write measured over modelled time of every experiment and method in a folder."""
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(timing.COLUMNS)
        for name in EXPERIMENTS:
            rows = read_rows(rows_path(out, name), load_experiment(name).columns)
            for method, factor in timing.measure_factors(name, rows).items():
                writer.writerow([name, method, f"{factor:.3g}"])


if __name__ == "__main__":
    write_times(Path(sys.argv[1]), Path(timing.__file__).with_name(timing.FILE))
