"""Odd text files: the table that they hold, or one clear line, and never another number.

    make fuzz                                            10 000 files, in 20 parts
    python -m pytest tests/fuzz/fuzz_files.py -k "part-3"     one part of them
    FUZZ_SEED=1 FUZZ_FILES=2000 make fuzz                others, and fewer

`odd_files.py` makes a file together with the truth. `test_odd_files.py` reads a few of them in
every run of the tests, and holds what was found.
"""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest

from odd_files import make_file
from odd_readings import check_file

N_FILES = int(os.environ.get("FUZZ_FILES", "10000"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
N_PARTS = 20


@pytest.mark.parametrize("part", [pytest.param(k, id=f"part-{k}") for k in range(N_PARTS)])
def test_an_odd_file_is_read_as_it_is_meant_or_refused_in_one_line(part, tmp_path, capsys):
    tally: Counter[str] = Counter()
    for k in range(max(1, N_FILES // N_PARTS)):
        tally.update(check_file(make_file((SEED, part, k)), tmp_path))
    with capsys.disabled():
        print(f"\npart {part}: {tally['read']} files read, {tally['refused']} refused")
        if os.environ.get("FUZZ_TALLY"):
            print(json.dumps(dict(tally.most_common()), indent=1))
    # Most files are clean, or the fuzzer tries refusals only.
    assert tally["read"] > tally["refused"]
