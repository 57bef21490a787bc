"""An NVIDIA GPU beside the processor: filling histograms, and whole fits up to 10⁹ rows.

    python benchmarks/gpu.py [--fill N] [--both N] [--most N] [--seeds 7 8 9] [--jobs N]

Rows (five exponential columns in 20 bags, labels at 15 dB) are drawn on the card by a counter-based
generator and stay there as doubles: 48 bytes a row, 48 GB for 10⁹. Filling is timed by the card's
own clock, 64 points a pass. At `--both` rows the same data are fitted here and there, and there a
second time: all three must have the same bits. Compiled code is warm. The table is printed and
saved to results/gpu.txt. A part is left out by giving 0; the largest fit is run for every seed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from unshuffle import ShuffledLinearRegression
from unshuffle.data.blocks.first_pass import make_first_pass
from unshuffle.data.blocks.sources import BLOCK_ROWS, Block, Pass, Source, reduce_in_threads
from unshuffle.data.scaling import standardise_pass
from unshuffle.gpu.devices import Device, find_device
from unshuffle.gpu.filling import start_filling
from unshuffle.gpu.rows import DeviceRows
from unshuffle.gpu.source import ResidentSource
from unshuffle.inference.likelihood import Likelihood
from unshuffle.methods import find_block_strategy
from unshuffle.model.block_building import build_blocks
from unshuffle.options import FitOptions
from unshuffle.results.fit import fit_source

D, N_BAGS, N_POINTS, SEED = 5, 20, 64, 7
WEIGHTS = np.array([1.0, -0.6, 0.4, 0.3, -0.2])
# Exponential columns have mean and variance one, so that this is the power of the signal.
NOISE = float(np.sqrt((WEIGHTS.sum() ** 2 + WEIGHTS @ WEIGHTS) / 10**1.5))
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, eq=False)
class CopiedSource(Source):
    """Rows that lie on the card, copied here block by block when they are asked for."""

    device: Device
    rows: DeviceRows
    n: int
    d: int = D
    n_bags: int = N_BAGS

    def add_up(self, work: Pass[Any]) -> Any:
        def read(at: int) -> list[Block]:
            part = slice(at, min(at + BLOCK_ROWS, self.n))
            X = self.rows.columns[:, part if work.needs_rows else slice(0, 0)]
            part_of = np.searchsorted(self.rows.ends, np.arange(self.n)[part], side="right") - 1
            return [
                Block(
                    np.ascontiguousarray(self.device.fetch(X).T),
                    self.device.fetch(self.rows.labels[part]),
                    self.rows.bags[part_of],
                    np.empty(0, np.int64),
                )
            ]

        places = range(0, self.n, BLOCK_ROWS)
        return reduce_in_threads(read, places, work, 1)

    def renumbered(self, codes: np.ndarray) -> CopiedSource:
        return replace(self, rows=self.rows.renumbered(codes))


def draw_rows(device: Device, n: int, seed: int = SEED) -> ResidentSource:
    """Draw rows and labels on the card; the order of labels in a bag is nothing to any method."""
    import cupy

    rng = cupy.random.Generator(cupy.random.Philox4x3210(seed))
    ends = np.linspace(0, n, N_BAGS + 1).astype(np.int64)
    columns = device.make((D, n), np.float64)
    labels = device.make((n,), np.float64)
    for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        own = labels[first:last]
        own[:] = NOISE * rng.standard_normal(last - first)
        for j in range(D):
            columns[j, first:last] = rng.exponential(size=last - first)
            own += WEIGHTS[j] * columns[j, first:last]
    rows = DeviceRows(columns, labels, ends, np.arange(N_BAGS))
    return ResidentSource(CopiedSource(device, rows, n), device, rows=rows)


def time_filling(device: Device, n: int) -> Iterator[str]:
    """Yield what a pass costs per row and point."""
    import cupy

    first = make_first_pass(draw_rows(device, n), 0)
    rng, scaling = np.random.default_rng(SEED), standardise_pass(first, True)
    target, within_bag, _ = build_blocks(first, scaling, None, Likelihood())
    w = WEIGHTS * scaling.scale / scaling.label_scale
    level = np.log(NOISE / scaling.label_scale)
    near = 0.02 * rng.standard_normal((N_POINTS, D + 2))
    # Weights, log sigma and curve of every point.
    points = np.column_stack([w + near[:, :D], level + near[:, D], 0.1 * near[:, -1]])
    grid = within_bag._lay_out(target.read_points(points))
    units = device.send(within_bag.centre), device.send(within_bag.factor)
    for wants_slopes in (False, True):
        times, totals = [], []
        for _ in range(6):
            filling = start_filling(device, grid, D, wants_slopes)
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            filling.add(first.source.resident, *units)
            end.record()
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end))
            totals.append(device.fetch(filling.cells))
        cost = float(np.median(times[1:])) * 1e6 / n / N_POINTS
        same = all(np.array_equal(totals[0], each) for each in totals[1:])
        what = "numbers, places and slopes" if wants_slopes else "numbers and places"
        yield (
            f"filling {what}, n = {n:.0e}, {N_POINTS} points: {cost:.4f} ns per row and point; "
            f"six runs {'the same bits' if same else 'DIFFERENT BITS'}"
        )


def fit_both(device: Device, n: int, n_jobs: int) -> Iterator[str]:
    """Yield how the same fit goes on the card and on the processor."""
    source = draw_rows(device, n)
    rows = source.resident
    X = np.ascontiguousarray(device.fetch(rows.columns).T)
    y, groups = device.fetch(rows.labels), np.repeat(np.arange(N_BAGS), np.diff(rows.ends))
    del source, rows
    few = slice(None, None, max(1, n // 60_000))
    found = {}
    plain = ShuffledLinearRegression(random_state=0, n_jobs=n_jobs)
    plain.fit(X[few], y[few], groups[few])  # compiles what there is to compile
    for name, where in (("card", "cuda"), ("card again", "cuda"), ("processor", None)):
        model = clone(plain).set_params(device=where)
        begin = time.perf_counter()
        found[name] = model.fit(X, y, groups)
        yield f"fit of n = {n:.0e} on the {name}: {time.perf_counter() - begin:.1f} s"
    one, other = found["card"], found["processor"]
    sd = np.ptp(other.conf_int(0.68), axis=1) / 2.0
    gap = np.abs(one.coef_ - other.coef_) / sd
    again = np.array_equal(one.coef_, found["card again"].coef_)
    same = np.array_equal(one.coef_, other.coef_) and np.array_equal(
        one.conf_int(), other.conf_int()
    )
    yield (
        f"twice on the card: {'the same bits' if again else 'DIFFERENT BITS'}; card and processor: "
        f"{'the same' if same else 'different'} bits (weights at most {gap.max():.2g} sds apart)"
    )
    yield describe(one.coef_, sd)


def describe(found: np.ndarray, sd: np.ndarray) -> str:
    """Say how far weights are from the truth."""
    error = np.linalg.norm(found - WEIGHTS) / np.linalg.norm(WEIGHTS)
    off = np.abs(found - WEIGHTS) / sd
    return f"error {error:.2g} of the weights' length, at most {off.max():.2g} posterior sds"


class Clock(ResidentSource):
    """Rows on a card that keep the time which filling takes."""

    seconds, n_calls, n_points = 0.0, 0, 0

    def fill(self, grid, centre, factor, wants_slopes) -> np.ndarray:
        begin = time.perf_counter()
        cells = super().fill(grid, centre, factor, wants_slopes)
        Clock.seconds += time.perf_counter() - begin
        Clock.n_calls += 1
        Clock.n_points += len(grid.weights)
        return cells


def fit_most(device: Device, n: int, n_jobs: int, seed: int) -> Iterator[str]:
    """Yield how a fit of rows that never leave the card goes."""
    options = FitOptions(n_jobs=n_jobs)
    settings = find_block_strategy(options, n)
    begin = time.perf_counter()
    source = draw_rows(device, n, seed)
    device.fetch(source.resident.labels[-1:])  # which waits for all that was drawn
    drawn = time.perf_counter() - begin
    source = Clock(source.inner, device, rows=source.resident)
    Clock.seconds, Clock.n_calls, Clock.n_points = 0.0, 0, 0
    stages: dict[str, float] = {}
    begin = time.perf_counter()

    def report(stage: str, share: float) -> None:
        stages.setdefault(stage, time.perf_counter() - begin)

    found = fit_source(source, options, settings, np.random.default_rng(0), report=report)
    seconds = time.perf_counter() - begin
    sd = np.ptp(found.conf_int(0.68), axis=1) / 2.0
    looked = stages.get("looking for modes", float("nan"))
    yield (
        f"fit of n = {n:.0e} drawn on the card (seed {seed}; in {drawn:.1f} s, not counted): "
        f"{seconds:.1f} s, of which the first pass {looked:.1f} s and filling "
        f"{Clock.seconds:.1f} s ({Clock.n_points} points in {Clock.n_calls} passes)"
    )
    yield "stages began at " + ", ".join(f"{name} {at:.1f} s" for name, at in stages.items())
    yield describe(found.coef, sd)
    yield (
        f"estimate {found.coef.round(4)}, truth {WEIGHTS}, identified {found.identified}, "
        f"power {found.stats['likelihood_power']:.2g}, misfits {found.misfits}, "
        f"{found.stats['effective_draws']:.0f} draws"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fill", type=float, default=1e8, help="rows of the timed filling")
    parser.add_argument("--both", type=float, default=1e7, help="rows fitted here and there")
    parser.add_argument("--most", type=float, default=1e9, help="rows of the largest fit")
    parser.add_argument("--seeds", type=int, nargs="*", default=[SEED], help="of the largest fit")
    parser.add_argument("--jobs", type=int, default=-1, help="threads of the processor")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    device = find_device("cuda")
    assert device is not None
    lines = [f"{device.describe()}; {asked.jobs} threads of the processor (-1: all)"]
    print(*lines, flush=True)
    parts = [(asked.fill, time_filling, ()), (asked.both, fit_both, (asked.jobs,))]
    parts += [(asked.most, fit_most, (asked.jobs, seed)) for seed in asked.seeds]
    for n, part, how in parts:
        if n:
            for line in part(device, int(n), *how):
                print(line, flush=True)
                lines.append(line)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "gpu.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
