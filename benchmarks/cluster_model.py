"""What a fit of very many rows would cost on a cluster: measured costs, and a simulation of passes.

    python benchmarks/cluster_model.py measure [--rows N]    costs per row and stage, on one thread
    python benchmarks/cluster_model.py simulate [--seed S]   10^9 and 10^11 rows on N workers

A fit is a few hundred passes. In each, every worker adds up its rows and the totals are merged in a
tree; then the host alone works on histograms, whose size does not grow with the rows. So a pass
takes as long as its slowest worker. Workers differ for good (machines) and from pass to pass
(neighbours), and some are lost: their rows are made again by the others, who keep them.
`docs/scale.md` has the tables and says what is assumed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from math import ceil, log

import numpy as np
from rich.console import Console
from rich.table import Table

# Totals that are merged at a time, as in files/dask_source.
FAN_IN = 8


@dataclass(frozen=True)
class Costs:
    """Seconds of one thread, measured by ``measure`` (d = 5, 20 bags, 15 dB)."""

    # Of a row in all passes together: reading and adding up, label cells, histograms.
    row: float = 11.0e-6
    # Of a row that is made or read again, and of the host beside the passes.
    remake: float = 0.2e-6
    host: float = 12.0
    n_passes: int = 185
    # Bytes of a total, and seconds to merge two.
    total_bytes: float = 6.3e6
    merge: float = 4e-3


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
    # Share of the tasks that are held up, and how many times longer they take.
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
    per_pass = merge_seconds(costs, cluster, cluster.n_workers)
    return costs.host + costs.n_passes * per_pass + n * costs.row / cluster.n_workers


def simulate(costs: Costs, cluster: Cluster, n: float, rng: np.random.Generator) -> Run:
    """Simulate the passes of one fit."""
    rows = np.full(cluster.n_workers, n / cluster.n_workers)
    speeds = np.exp(cluster.machine_spread * rng.standard_normal(cluster.n_workers))
    is_alive = np.ones(cluster.n_workers, dtype=bool)
    seconds, n_lost = costs.host, 0
    for _ in range(costs.n_passes):
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
        seconds += longest + merge_seconds(costs, cluster, int(is_alive.sum()))
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


def show_costs(n: int) -> Table:
    """Fit rows that are made when asked for, and add up what every stage takes."""
    import json
    import subprocess
    import sys
    import tempfile

    import scale_io

    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(scale_io.COMMON + MEASURE)
        file.flush()
        command = [sys.executable, "-W", "ignore", file.name, str(n)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    table = Table(title=f"{n} rows, d = 5, 20 bags, one thread: seconds of processor")
    for column in ("stage", "passes", "points", "seconds", "ns a row", "MB a total"):
        table.add_column(column, justify="right")
    for stage, (n_passes, seconds, size) in found["stages"].items():
        points = str(found["points"]) if stage == "histograms" else ""
        table.add_row(
            stage, str(n_passes), points, f"{seconds:.2f}", f"{1e9 * seconds / n:.0f}",
            f"{size / 1e6 / max(n_passes, 1):.1f}",
        )  # fmt: skip
    rest = found["seconds"] - sum(each[1] for each in found["stages"].values())
    table.add_row("the host, and making rows", "", "", f"{rest:.2f}", "", "")
    return table


MEASURE = """
stages = {}
n = int(sys.argv[1])
warm_up()
plain = Lazy.map_reduce


def watch(self, start, add, merge, *, needs_rows=True, report=lambda *_: None, stage=""):
    spent = [0.0]

    def add_and_time(total, block):
        begin = time.process_time()
        add(total, block)
        spent[0] += time.process_time() - begin

    total = plain(self, start, add_and_time, merge, needs_rows=needs_rows)
    entry = stages.setdefault(stage or "histograms", [0, 0.0, 0])
    entry[0] += 1
    entry[1] += spent[0]
    entry[2] += getattr(total, "nbytes", 0)
    return total


Lazy.map_reduce = watch
options = FitOptions()
begin = time.process_time()
found = fit_source(Lazy(n), options, find_block_settings(options, n), make_rng(0))
seconds = time.process_time() - begin
points = int(found.stats["n_evaluations"])
print(json.dumps({"stages": stages, "seconds": seconds, "points": points}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("measure", "simulate"))
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10**6)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    console = Console(width=110)
    if asked.action == "measure":
        console.print(show_costs(asked.rows))
    else:
        console.print(*show_simulation(asked.seed))


if __name__ == "__main__":
    main()
