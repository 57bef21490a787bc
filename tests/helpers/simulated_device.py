"""A graphics card for tests where there is none: the kernels themselves, compiled as plain C++.

Blocks run one after another, each of a single thread, so that what threads share needs no care; all
else (which rows, which cells, every sum) is the code that runs on a card.
"""

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from unshuffle.gpu.devices import Device, list_constants, read_source

COMPILER = next((each for each in map(shutil.which, ("g++", "clang++", "c++")) if each), None)

SHIM = """
#include <cmath>
#include <cstring>
#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __syncthreads()
struct Dimension { long long x; };
static Dimension blockIdx = {0}, gridDim = {1}, threadIdx = {0}, blockDim = {1};
double shared[1 << 16];
template <typename T> static T atomicAdd(T *at, T value) { T old = *at; *at += value; return old; }
template <typename T> static void atomicMin(T *at, T value) { if (value < *at) *at = value; }
template <typename T> static void atomicMax(T *at, T value) { if (value > *at) *at = value; }
static long long __double_as_longlong(double value) {
    long long bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
static long long __double2ll_rn(double value) { return std::llrint(value); }
using std::log1p;
extern "C" void go_to(long long block, long long n_blocks) {
    blockIdx.x = block;
    gridDim.x = n_blocks;
}
"""


@cache
def compile_kernels(d):
    """Return the kernels for d columns as a library."""
    folder = Path(mkdtemp(prefix="unshuffle-kernels-"))
    (folder / "kernels.cpp").write_text(SHIM + read_source(), encoding="utf-8")
    constants = [f"-D{name}={value}" for name, value in list_constants(d).items()]
    plain = ["-O2", "-std=c++17", "-ffp-contract=off", "-Wno-unknown-pragmas", "-shared", "-fPIC"]
    files = ["-o", str(folder / "kernels.so"), str(folder / "kernels.cpp")]
    subprocess.run([COMPILER, *plain, *constants, *files], check=True)
    library = ctypes.CDLL(str(folder / "kernels.so"))
    shutil.rmtree(folder)
    return library


class SimulatedDevice(Device):
    """A card with little memory of its own; `log` holds the kernels run and their shared memory."""

    def __init__(self, free=1 << 40, shared_bytes=1 << 14):
        self.free, self.shared_bytes, self.n_processors = free, shared_bytes, 2
        self.log = []

    def free_bytes(self):
        return self.free

    def send(self, array):
        return np.array(array, order="C")

    def make(self, shape, dtype, is_zero=False):
        # What nobody wrote must not look like an answer.
        return np.full(shape, 0 if is_zero else 77, dtype)

    def fetch(self, array):
        return array.copy()

    def run(self, name, d, n_blocks, shared, arguments):
        assert shared <= self.shared_bytes
        self.log.append((name, n_blocks, shared))
        library = compile_kernels(d)
        values = [
            ctypes.c_longlong(each)
            if isinstance(each, int)
            else each.ctypes.data_as(ctypes.c_void_p)
            for each in arguments
        ]
        for block in range(n_blocks):
            library.go_to(ctypes.c_longlong(block), ctypes.c_longlong(n_blocks))
            getattr(library, name)(*values)
