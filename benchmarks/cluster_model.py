"""What a fit of very many rows would cost on a cluster: measured costs, and a simulation of passes.

    python benchmarks/cluster_model.py measure [--rows N]    costs per row and stage, on one thread
    python benchmarks/cluster_model.py sources [--rows N]    what reading costs in every pass
    python benchmarks/cluster_model.py simulate [--seed S]   10^9 and 10^11 rows on N workers

A fit is a few hundred passes. In each, every worker adds up its rows and the totals are merged in a
tree; then the host matches histograms, whose size does not grow with the rows. Half of the passes
are known before the last one's histograms are matched, and workers are at them meanwhile. A pass
takes as long as its slowest worker. Workers differ for good (machines) and from pass to pass
(neighbours), and some are lost: their rows are made again by the others, who keep them.
`docs/benchmarks.md` has the tables, and `docs/decisions/022-cluster-forecast.md` what is assumed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from math import ceil, log

import numpy as np
from rich.console import Console
from rich.table import Table

# Totals that are merged at a time, as in files/dask_passes.
FAN_IN = 8


@dataclass(frozen=True)
class Costs:
    """Seconds of one thread, measured by ``measure`` (d = 5, 20 bags, 15 dB)."""

    # Of a row in all passes together: reading and adding up, label cells, histograms.
    row: float = 6.8e-6
    # Of a row that is made or read again, of the host alone, and matching histograms there.
    remake: float = 0.2e-6
    host: float = 2.7
    matching: float = 3.8
    # Passes, and how often the next one is not known before histograms are matched.
    n_passes: int = 188
    n_waits: int = 90
    # Bytes of a total, and seconds to merge it into another. Empty cells are not sent: of a
    # million rows two thirds are empty, of more rows fewer.
    total_bytes: float = 7.8e6
    merge: float = 4.5e-3


@dataclass(frozen=True)
class Cluster:
    """Workers of one thread each, and what goes wrong with them."""

    n_workers: int
    # Seconds of a message there and back, and bytes a second between two machines.
    latency: float = 2e-3
    bandwidth: float = 1e9
    # Sd of the log speed of machines, and of one machine from pass to pass.
    machine_spread: float = 0.0
    pass_spread: float = 0.0
    # Share of the tasks that are delayed, and how many times longer they take.
    stuck_share: float = 0.0
    stuck_factor: float = 1.0
    # Workers lost in an hour of one worker.
    losses: float = 0.0


@dataclass(frozen=True, eq=False)
class Run:
    """Seconds of a simulated fit, workers lost, and the rows that each worker holds at the end."""

    seconds: float
    n_lost: int
    rows: np.ndarray


def count_levels(n_workers: int) -> int:
    """Return the merges that a total goes through before the host has it."""
    return 0 if n_workers <= 1 else ceil(round(log(n_workers) / log(FAN_IN), 9))


def merge_seconds(costs: Costs, cluster: Cluster, n_workers: int) -> float:
    """Return the seconds of a pass beside adding up: messages, and totals that travel and merge."""
    travel = costs.total_bytes / cluster.bandwidth
    levels = count_levels(n_workers)
    return cluster.latency * (1 + levels) + levels * (
        min(FAN_IN, n_workers) * (travel + costs.merge)
    )


def expect_seconds(costs: Costs, cluster: Cluster, n: float) -> float:
    """Return the seconds of a fit where all workers are alike and none is lost."""
    work = n * costs.row / cluster.n_workers / costs.n_passes
    per_pass = work + merge_seconds(costs, cluster, cluster.n_workers)
    matching = costs.matching / costs.n_passes
    in_turn = costs.n_waits * (per_pass + matching)
    return costs.host + in_turn + (costs.n_passes - costs.n_waits) * max(per_pass, matching)


def waits(costs: Costs, k: int) -> bool:
    """Whether the pass behind pass k waits until the histograms of pass k are matched."""
    return (k + 1) * costs.n_waits // costs.n_passes > k * costs.n_waits // costs.n_passes


def simulate(costs: Costs, cluster: Cluster, n: float, rng: np.random.Generator) -> Run:
    """Simulate the passes of one fit."""
    rows = np.full(cluster.n_workers, n / cluster.n_workers)
    speeds = np.exp(cluster.machine_spread * rng.standard_normal(cluster.n_workers))
    is_alive = np.ones(cluster.n_workers, dtype=bool)
    seconds, n_lost = costs.host, 0
    for k in range(costs.n_passes):
        slow = np.exp(cluster.pass_spread * rng.standard_normal(cluster.n_workers))
        stuck = np.where(
            rng.random(cluster.n_workers) < cluster.stuck_share, cluster.stuck_factor, 1
        )
        work = rows * costs.row / costs.n_passes * slow * stuck / speeds
        longest = float(work[is_alive].max())
        chance = -np.expm1(-cluster.losses / 3600.0 * longest)
        is_lost = is_alive & (rng.random(cluster.n_workers) < chance)
        if is_lost.any() and not (is_alive & ~is_lost).any():
            is_lost[np.flatnonzero(is_alive)[0]] = False  # a cluster of nobody starts anew
        if is_lost.any():
            is_alive &= ~is_lost
            moved, n_left = float(rows[is_lost].sum()), int(is_alive.sum())
            rows[is_lost] = 0.0
            rows[is_alive] += moved / n_left
            again = moved / n_left * (costs.remake + costs.row / costs.n_passes)
            longest += again / float(speeds[is_alive].min())
            n_lost += int(is_lost.sum())
        longest += merge_seconds(costs, cluster, int(is_alive.sum()))
        matching = costs.matching / costs.n_passes
        seconds += longest + matching if waits(costs, k) else max(longest, matching)
    return Run(seconds, n_lost, rows)


CALM = {"calm": {}}
WEATHER = {
    **CALM,
    "machines differ": {"machine_spread": 0.1, "pass_spread": 0.1},
    "and tasks get stuck": {
        "machine_spread": 0.1, "pass_spread": 0.1, "stuck_share": 0.01, "stuck_factor": 3.0,
    },
    "and workers are lost": {
        "machine_spread": 0.1, "pass_spread": 0.1, "stuck_share": 0.01, "stuck_factor": 3.0,
        "losses": 0.05,
    },
}  # fmt: skip


def show_simulation(seed: int) -> list[Table]:
    """Return a table for each number of rows."""
    tables = []
    for n, sizes in ((1e9, (16, 64, 256)), (1e11, (256, 1024, 4096))):
        table = Table(title=f"{n:.0e} rows: seconds of a fit, median of 20 (worst)")
        table.add_column("workers", justify="right")
        for name in WEATHER:
            table.add_column(name, justify="right")
        for n_workers in sizes:
            cells = []
            for name, changes in WEATHER.items():
                cluster = replace(Cluster(n_workers), **changes)
                runs = [
                    simulate(Costs(), cluster, n, np.random.default_rng([seed, k])).seconds
                    for k in range(1 if name in CALM else 20)
                ]
                worst = "" if name in CALM else f" ({max(runs):.0f})"
                cells.append(f"{np.median(runs):.0f}{worst}")
            table.add_row(str(n_workers), *cells)
        tables.append(table)
    return tables


def run_code(code: str, *arguments: object) -> dict:
    """Run code behind what the benchmarks of files have in common, and read what it prints last."""
    import scale_io

    return scale_io.run(code, *arguments)


def show_costs(n: int) -> tuple[Table, str]:
    """Fit rows that are made when asked for, and add up what every stage takes."""
    found = run_code(MEASURE, n)
    table = Table(title=f"{n} rows, d = 5, 20 bags, one thread: seconds of processor")
    names = ("stage", "passes", "points", "seconds", "ns a row", "and point", "MB a total")
    for column in names:
        table.add_column(column, justify="right")
    for stage, (n_passes, seconds, size) in found["stages"].items():
        points = found["points"].get(stage, 0)
        table.add_row(
            stage, str(n_passes), str(points or ""), f"{seconds:.2f}", f"{1e9 * seconds / n:.0f}",
            f"{1e9 * seconds / n / points:.2f}" if points else "", f"{size / 1e6 / n_passes:.1f}",
        )  # fmt: skip
    in_passes = sum(each[1] for each in found["stages"].values())
    host = found["seconds"] - in_passes - found["making"] - found["watching"] - found["matching"]
    others = {
        "matching histograms": found["matching"],
        "the host": host,
        "making rows: no part of it": found["making"],
    }
    for name, seconds in others.items():
        table.add_row(name, "", "", f"{seconds:.2f}", "", "", "")
    filled = [found["stages"][stage] for stage in found["points"]]
    size = sum(each[2] for each in filled) / sum(each[0] for each in filled)
    n_passes = sum(each[0] for each in found["stages"].values())
    costs = Costs(
        row=in_passes / n, remake=Costs().remake, host=host, matching=found["matching"],
        n_passes=n_passes, n_waits=n_passes - found["ahead"],
        total_bytes=size, merge=size * found["merge"],
    )  # fmt: skip
    return table, f"as the model has it: {costs}"


MEASURE = """
import pickle
from unshuffle.io.dask.passes import SentPass, _join, pack
from unshuffle.model.block_likelihood import BlockWithinBag
from unshuffle.model.histogram_likelihood import HistogramProblems

stages, points, making, watching, merging = {}, {}, [0.0], [0.0], [(0, 0.0)]
matching, ahead, is_large, is_counting = [0.0], [0], [False], [False]
n = int(sys.argv[1])
warm_up()
plain, plain_block, plain_plan = Lazy.add_up, make_block, BlockWithinBag._plan
plain_count, plain_match = BlockWithinBag._count, HistogramProblems.evaluate


def make_block(*args):
    begin = time.process_time()
    found = plain_block(*args)
    making[0] += time.process_time() - begin
    return found


def plan(self, grid, wants_slopes):
    stage = "histograms with slopes" if wants_slopes else "histograms"
    is_large[0] = isinstance(self.source, Lazy)
    if is_large[0]:
        points[stage] = points.get(stage, 0) + len(grid.bases)
        ahead[0] += is_counting[0]
    return replace(plain_plan(self, grid, wants_slopes), stage=stage)


def count(self, *args):
    ahead[0] -= isinstance(self.source, Lazy)
    is_counting[0] = True
    found = plain_count(self, *args)
    is_counting[0] = False
    return found


def match(*args):
    begin = time.process_time()
    found = plain_match(*args)
    matching[0] += is_large[0] * (time.process_time() - begin)
    return found


def watch(self, work):
    spent = [0.0]

    def add_and_time(total, block):
        begin = time.process_time()
        work.add(total, block)
        spent[0] += time.process_time() - begin

    total = plain(self, replace(work, add=add_and_time, report=lambda *_: None))
    entry = stages.setdefault(work.stage or "holding small bags", [0, 0.0, 0])
    entry[0] += 1
    entry[1] += spent[0]
    entry[2] += getattr(total, "nbytes", 0)
    if work.stage in points and total.nbytes > merging[0][0]:  # as a worker of Dask merges
        begin = time.process_time()
        sent = SentPass(work.start, work.add, work.merge, n_bags=N_BAGS, numbers=None)
        parcel = pickle.dumps(pack(total))
        pickle.dumps(_join(sent, [pickle.loads(parcel) for _ in range(8)]))
        merging[0] = total.nbytes, (time.process_time() - begin) / 8
        watching[0] += time.process_time() - begin
    return total


Lazy.add_up, BlockWithinBag._plan = watch, plan
BlockWithinBag._count, HistogramProblems.evaluate = count, match
options = FitOptions(n_jobs=1)
begin = time.process_time()
found = fit_source(Lazy(n, n_jobs=1), options, find_block_strategy(options, n), make_rng(0))
seconds = time.process_time() - begin
result = {"stages": stages, "seconds": seconds, "points": points, "making": making[0]}
result |= {"matching": matching[0], "ahead": ahead[0], "watching": watching[0]}
print(json.dumps(result | {"merge": merging[0][1] / merging[0][0]}))
"""


def show_sources(n: int) -> Table:
    """Pass over the same rows wherever they lie, and do nothing with them."""
    found = run_code(SOURCES, n)
    table = Table(title=f"{n} rows, d = 5, one thread: nanoseconds of processor a row")
    for column in ("source", "once", "in every pass"):
        table.add_column(column, justify="right")
    for name, (once, again) in found.items():
        table.add_row(name, f"{once:.0f}" if once else "", f"{again:.1f}")
    return table


SOURCES = """
import os, tempfile
import pyarrow as pa, pyarrow.csv, pyarrow.parquet
from unshuffle.io.sources.parquet_source import BlockCache, open_parquet
from unshuffle.io.sources.table_source import ColumnChoice, read_to_scratch
n, result = int(sys.argv[1]), {}
features = tuple(f"x{j}" for j in range(D))


def clock(action):
    begin = time.process_time()
    found = action()
    return 1e9 * (time.process_time() - begin) / n, found


def add_nothing(total, block):
    total[0] += float(block.X[0, 0])


def go_over(source):
    return clock(lambda: source.map_reduce(lambda: [0.0], add_nothing, lambda a, b: a))[0]


def compare(name, source, once=0.0):
    go_over(source)
    result[name] = once, min(go_over(source) for _ in range(5))


X, y, codes = gather(n)
compare("arrays", ArraySource(X, y, codes, N_BAGS, 1))
columns = {**{name: X[:, j] for j, name in enumerate(features)}, "y": y, "bag": codes}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "rows.parquet")
    pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=BLOCK_ROWS)
    source = open_parquet([path]).as_source("y", features, "bag", 1)
    compare("Parquet, decoded", replace(source, cache=BlockCache()))
    compare("Parquet, kept", replace(source, cache=BlockCache(10**10)))
    path = os.path.join(folder, "rows.csv")
    pyarrow.csv.write_csv(pa.table(columns), path)
    asked = ColumnChoice("y", features, "bag")
    once, laid = clock(lambda: read_to_scratch([path], asked, n_jobs=1))
    compare("CSV by way of a scratch file", laid.source, once)
print(json.dumps(result))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("measure", "sources", "simulate"))
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10**6)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    console = Console(width=110)
    if asked.action == "measure":
        console.print(*show_costs(asked.rows))
    elif asked.action == "sources":
        console.print(show_sources(asked.rows))
    else:
        console.print(*show_simulation(asked.seed))


if __name__ == "__main__":
    main()
