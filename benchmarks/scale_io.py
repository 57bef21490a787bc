"""Data of any size from files and clusters: each case beside the same fit from memory, in one run.

    python benchmarks/scale_io.py [parquet] [dask] [growth] [--rows N] [--quick]

Without a name all cases run; `--rows` is the number of rows of Parquet, Dask and the largest of
growth (10^7, 10^7 and 10^8 without it; `--quick` takes a hundredth). Five columns, 20 bags, 15 dB.
Every fit runs in a process of its own; memory is its peak above that of the imports alone. Seconds
of processor are shown beside those of the clock, since machines are noisy.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse  # noqa: E402
import json  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

D, N_BAGS = 5, 20

# Common to all processes: data of a seed, memory, and a source that makes its blocks when asked.
COMMON = """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from dataclasses import dataclass, replace
from unshuffle.results.fit import fit_source
from unshuffle.options import FitOptions, make_rng
from unshuffle.data.blocks.sources import ArraySource, Block, BLOCK_ROWS, Source
from unshuffle.data.blocks.sources import limit_threads, reduce_in_threads
from unshuffle.methods import find_block_strategy
WEIGHTS = np.array([1.0, -0.6, 0.4, 0.3, -0.2])
D, N_BAGS = 5, 20


def memory(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(field))


def make_block(place, n_rows, base={}):
    # Rows of sixteen blocks are drawn, and every block has noise of its own: labels that came again
    # with their rows would be no sample of a distribution, and more would say nothing new.
    kind = place % 16
    if kind not in base:
        rng = np.random.default_rng([7, kind])
        codes = rng.integers(0, N_BAGS, BLOCK_ROWS)
        X = rng.exponential(size=(BLOCK_ROWS, D)) + 0.1 * codes[:, None] * np.eye(D)[codes % D]
        order = np.lexsort([rng.random(BLOCK_ROWS), codes])
        mixed = np.empty(BLOCK_ROWS)
        mixed[np.argsort(codes, kind="stable")] = (X @ WEIGHTS)[order]
        base[kind] = X, mixed, codes
    X, mixed, codes = base[kind]
    noise = np.random.default_rng([8, place]).standard_normal(n_rows)
    return X[:n_rows], mixed[:n_rows] + 0.25 * noise, codes[:n_rows]


@dataclass(frozen=True, eq=False)
class Lazy(Source):
    n: int
    d: int = D
    n_bags: int = N_BAGS
    n_jobs: int | None = None
    numbers: object = None

    def add_up(self, work):
        def read(place):
            n_rows = min(BLOCK_ROWS, self.n - place * BLOCK_ROWS)
            X, y, codes = make_block(place, n_rows)
            if self.numbers is not None:
                codes = self.numbers[codes]
            return [Block(X if work.needs_rows else X[:0], y, codes, np.empty(0, np.int64))]

        places = range(-(-self.n // BLOCK_ROWS))
        return reduce_in_threads(read, places, work, limit_threads(self.n_jobs, self.n))

    def renumbered(self, codes):
        return replace(self, numbers=codes if self.numbers is None else codes[self.numbers])


def gather(n):
    parts = [make_block(k, min(BLOCK_ROWS, n - k * BLOCK_ROWS)) for k in range(-(-n // BLOCK_ROWS))]
    return [np.concatenate(each) for each in zip(*parts)]


def time_fit(source, before):
    options = FitOptions(n_jobs=getattr(source, "n_jobs", None))
    wall, cpu = time.perf_counter(), time.process_time()
    found = fit_source(source, options, find_block_strategy(options, source.n), make_rng(0))
    result = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - cpu}
    error = np.linalg.norm(found.coef - WEIGHTS) / np.linalg.norm(WEIGHTS)
    result |= {"megabytes": memory("VmHWM") - before, "error": float(error)}
    print(json.dumps(result | {"coef": found.coef.tolist()}))


def warm_up():
    time_fit(Lazy(60_000), 0.0)
    sys.stdout.flush()
    return memory("VmRSS")
"""

IN_MEMORY = """
before = warm_up()
X, y, codes = gather(int(sys.argv[1]))
time_fit(ArraySource(X, y, codes, N_BAGS, int(sys.argv[2])), before)
"""
GROWTH = """
before = warm_up()
time_fit(Lazy(int(sys.argv[1]), n_jobs=int(sys.argv[2])), before)
"""
WRITE_PARQUET = """
import pyarrow as pa, pyarrow.parquet as parquet
n, path = int(sys.argv[1]), sys.argv[2]
writer = None
for k in range(-(-n // BLOCK_ROWS)):
    X, y, codes = make_block(k, min(BLOCK_ROWS, n - k * BLOCK_ROWS))
    table = pa.table({**{f"x{j}": X[:, j] for j in range(D)}, "y": y, "bag": codes})
    writer = writer or parquet.ParquetWriter(path, table.schema)
    writer.write_table(table)
writer.close()
print("{}")
"""
FROM_PARQUET = """
import pyarrow.parquet
from unshuffle.io.sources.parquet_source import open_parquet
before = warm_up()
table = open_parquet([sys.argv[3]])
time_fit(table.as_source("y", [f"x{j}" for j in range(D)], "bag", int(sys.argv[2])), before)
"""
ON_DASK = """
from distributed import Client, LocalCluster
import dask
from unshuffle.io.dask.pieces import Piece
from unshuffle.io.dask.source import as_dask_source


def make_piece(first, last, n):
    parts = [make_block(k, min(BLOCK_ROWS, n - k * BLOCK_ROWS)) for k in range(first, last)]
    X, y, codes = (np.concatenate(each) for each in zip(*parts))
    return Piece(X, y, codes.astype(np.int32), tuple(range(N_BAGS)))


if __name__ == "__main__":
    before = warm_up()
    n = int(sys.argv[1])
    n_blocks = -(-n // BLOCK_ROWS)
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster):
        pieces = [
            dask.delayed(make_piece)(k, min(k + 8, n_blocks), n) for k in range(0, n_blocks, 8)
        ]
        time_fit(as_dask_source(pieces), before)
"""


def run(code: str, *arguments: object) -> dict:
    """Run code in a process of its own and read what it prints last."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(COMMON + code)
        file.flush()
        command = [sys.executable, "-W", "ignore", file.name, *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def make_table(title: str) -> Table:
    table = Table(title=title)
    names = ("case", "rows", "seconds", "processor", "ratio", "asked", "MB above", "error", "bits")
    for column in names:
        table.add_column(column, justify="right")
    return table


def add_row(table: Table, name: str, n: int, found: dict, base: dict, asked: str) -> None:
    ratio = found["seconds"] / base["seconds"]
    same = "same" if found["coef"] == base["coef"] else "others"
    table.add_row(
        name, f"{n:.0e}", f"{found['seconds']:.1f}", f"{found['processor']:.1f}",
        "1" if found is base else f"{ratio:.2f}", asked, f"{found['megabytes']:.0f}",
        f"{found['error']:.4f}", same,
    )  # fmt: skip


def compare_parquet(n: int) -> Table:
    """Time a fit from Parquet beside the same from memory, two threads each."""
    table = make_table("from Parquet beside memory, two threads")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        run(WRITE_PARQUET, n, path)
        base, found = run(IN_MEMORY, n, 2), run(FROM_PARQUET, n, 2, path)
    add_row(table, "memory", n, base, base, "")
    add_row(table, "Parquet", n, found, base, "≤ 1.5, ≤ 1024 MB")
    return table


def compare_dask(n: int) -> Table:
    """Time two workers of one thread beside one process of one thread."""
    table = make_table("two workers of one thread beside one process of one thread")
    base, found = run(IN_MEMORY, n, 1), run(ON_DASK, n)
    add_row(table, "one process", n, base, base, "")
    add_row(table, "two workers", n, found, base, "≤ 0.65")
    return table


def compare_growth(n: int) -> Table:
    """Time rows that are made when they are asked for, per row."""
    table = Table(title="lazily generated rows, two threads: cost per row")
    for column in ("rows", "seconds", "processor", "µs a row", "of the first", "asked", "MB above"):
        table.add_column(column, justify="right")
    first = None
    # Fewer rows are no matter of blocks.
    for size in [each for each in (n // 100, n // 10, n) if each >= 100_000]:
        found = run(GROWTH, size, 2)
        cost = 1e6 * found["processor"] / size
        first = first or cost
        table.add_row(
            f"{size:.0e}", f"{found['seconds']:.1f}", f"{found['processor']:.1f}", f"{cost:.2f}",
            f"{cost / first:.2f}", "≤ 1.20", f"{found['megabytes']:.0f}",
        )  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="parquet, growth, dask (all without a name)")
    parser.add_argument("--rows", type=lambda text: int(float(text)), help="rows of every case")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows")
    asked = parser.parse_args()
    share = 100 if asked.quick else 1
    cases = {
        "parquet": (compare_parquet, 10**7),
        "dask": (compare_dask, 10**7),
        "growth": (compare_growth, 10**8),
    }
    console = Console(width=120)
    for name in asked.cases or cases:
        if name not in cases:
            raise SystemExit(f"no case is called {name!r}; known: {', '.join(cases)}")
        compare, n = cases[name]
        console.print(compare(asked.rows or n // share))


if __name__ == "__main__":
    main()
