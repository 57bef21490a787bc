"""From a CSV of a million rows to a fit, beside the time pandas takes to read the file.

    python benchmarks/files.py [--quick]

The command runs in a process of its own, imports included, as it does where it is installed: once
before it is timed, so that its modules are there as bytecode and its kernels compiled. Memory is
what it takes at its peak above the same imports alone; a small process starts both, since the peak
of a new process begins with that of the one that started it.
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
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

N_TIMES = 3
IMPORTS = "import unshuffle.estimator, unshuffle.io, pyarrow.csv, rich.table, click"

STARTER = """
import json, os, subprocess, sys, time
begin = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
found = {"seconds": time.perf_counter() - begin, "kilobytes": usage.ru_maxrss}
found["processor"] = usage.ru_utime + usage.ru_stime
print(json.dumps({"status": process.returncode, **found}))
"""


def write_csv(path: Path, n: int) -> None:
    """Write n rows of five features of different distributions and one shuffled label."""
    import pandas as pd

    rng = np.random.default_rng(0)
    columns = [
        rng.exponential(size=n),
        rng.normal(size=n),
        rng.uniform(size=n),
        rng.lognormal(0.0, 0.5, n),
        rng.integers(0, 2, n),
    ]
    X = np.column_stack(columns)
    y = X @ [1.0, -2.0, 0.5, 0.3, 1.0] + 0.1 * rng.standard_normal(n)
    frame = pd.DataFrame(np.column_stack([X, rng.permutation(y)]), columns=list("abcdey"))
    frame.to_csv(path, index=False)


def run(command: list[str]) -> tuple[float, float, float]:
    """Return the seconds, those of the processor, and the peak memory in megabytes of a process."""
    starter = [sys.executable, "-S", "-c", STARTER, *command]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(starter, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found = json.loads(done.stdout)
    if found["status"]:
        raise SystemExit(f"failed: {' '.join(command)}")
    return found["seconds"], found["processor"], found["kilobytes"] / 1024


def time_pandas(path: Path) -> tuple[float, float]:
    """Return the shortest of several readings by pandas, in seconds and those of the processor."""
    import pandas as pd

    times = []
    for _ in range(N_TIMES):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        pd.read_csv(path)
        times.append((time.perf_counter() - begin, time.process_time() - begin_cpu))
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    n = 100_000 if parser.parse_args().quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        write_csv(path, n)
        size = path.stat().st_size / 2**20
        pandas = time_pandas(path)
        baseline = run([sys.executable, "-c", IMPORTS])[2]
        command = [sys.executable, "-m", "unshuffle", "fit", str(path), "--label", "y", "--quiet"]
        run([*command, "--method", "ls"])
        runs = [run([*command, "--method", "ls"]) for _ in range(N_TIMES)]
        default = run(command)
    best, memory = min(runs), min(each[2] for each in runs) - baseline
    print(f"{n} rows x 6 columns, {size:.0f} MiB of text; seconds, and those of the processor")
    print(f"pandas.read_csv          {pandas[0]:6.2f} s  {pandas[1]:6.2f} s")
    for name, found, asked in (
        ("unshuffle fit, LS", best, "at most 8"),
        ("unshuffle fit", default, "at most 20 s"),
    ):
        ratios = " and ".join(
            f"{mine / theirs:.1f}" for mine, theirs in zip(found, pandas, strict=False)
        )
        print(f"{name:25s}{found[0]:6.2f} s  {found[1]:6.2f} s  {ratios} times ({asked})")
    print(f"memory above imports, LS {memory:6.0f} MiB  {memory / size:.1f} times (at most 5)")


if __name__ == "__main__":
    main()
