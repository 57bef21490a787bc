"""Finding a graphics card: one line where there is none, never another answer."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from command_line import assert_one_line
from unshuffle import ShuffledLinearRegression, fit
from unshuffle.cli.app import run
from unshuffle.data.bags import Bag
from unshuffle.errors import InputError
from unshuffle.gpu import devices
from unshuffle.gpu.devices import CudaDevice, find_device, list_constants, read_source
from unshuffle.kernels.filling import PLACES, TAIL


class FakeRuntime:
    """What is asked of CuPy before any work."""

    class Error(RuntimeError):
        pass

    def __init__(self, n_cards):
        def count():
            if n_cards is None:
                raise self.Error("cudaErrorInsufficientDriver: driver version is insufficient")
            return n_cards

        attributes = {"MultiProcessorCount": 4, "MaxSharedMemoryPerBlockOptin": 1 << 16}
        card = SimpleNamespace(attributes=attributes)
        self.cuda = SimpleNamespace(
            runtime=SimpleNamespace(getDeviceCount=count), Device=lambda number: card
        )


@pytest.mark.parametrize(
    ("n_cards", "name", "match"),
    [
        (None, "cuda", r"no NVIDIA GPU answers \(cudaError.*nvidia-smi.*leave device out"),
        (0, "cuda", "there is no NVIDIA GPU: name one that is there, or leave device out"),
        (2, "cuda:2", "there is only 2, counted from cuda:0"),
    ],
)
def test_a_card_that_is_not_there_is_named_in_one_line(monkeypatch, n_cards, name, match):
    monkeypatch.setitem(sys.modules, "cupy", FakeRuntime(n_cards))
    with pytest.raises(InputError, match=match):
        find_device(name)


def test_a_card_that_is_there_is_found(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", FakeRuntime(2))
    found = find_device("cuda:1")
    assert isinstance(found, CudaDevice)
    assert (found.n_processors, found.shared_bytes) == (4, 1 << 16)


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "CUDA", 0, True])
def test_other_devices_are_refused(name):
    with pytest.raises(InputError, match="is not understood: give None or 'cpu'"):
        ShuffledLinearRegression(device=name).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])


@pytest.mark.parametrize("method", ["auto", "ls"])
def test_without_the_library_a_fit_says_how_to_get_it_and_never_falls_back(monkeypatch, method):
    monkeypatch.setitem(sys.modules, "cupy", None)
    X, y = np.arange(20.0)[:, None], np.arange(20.0)
    with pytest.raises(InputError, match=r"needs the library cupy: pip install 'unshuffle\[gpu\]'"):
        ShuffledLinearRegression(method, device="cuda").fit(X, y)
    with pytest.raises(InputError, match="needs the library cupy"):
        fit([Bag(X, y)], method=method, device="cuda")


def test_the_command_says_so_before_it_reads_anything(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cupy", None)
    code = run(["fit", "not-there.csv", "--label", "y", "--device", "cuda"])
    assert_one_line(code, capsys.readouterr(), ["--device cuda", "unshuffle[gpu]"])


def test_a_card_and_a_cluster_exclude_each_other(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cupy", FakeRuntime(1))
    monkeypatch.setitem(sys.modules, "distributed", object())
    assert run(["fit", "a.parquet", "--label", "y", "--device", "cuda", "--dask", "local"]) == 2
    assert "--device is for this machine" in capsys.readouterr().err


def test_the_processor_is_a_device_too():
    X, y = np.arange(20.0)[:, None], np.arange(20.0)
    fits = [ShuffledLinearRegression("ls", device=name).fit(X, y).coef_ for name in (None, "cpu")]
    assert np.array_equal(*fits)


# --- CuPy's side ------------------------------------------------------------


class FakeModule:
    """A compiler that refuses, or that takes note of what it is given."""

    def __init__(self, code, options):
        if "broken" in FakeModule.log:
            raise RuntimeError("CuPy failed to load libnvrtc.so.12")
        FakeModule.log.append(options)

    def compile(self):
        pass

    log: list = []  # noqa: RUF012


def test_kernels_are_compiled_once_for_each_number_of_columns(monkeypatch):
    cupy = FakeRuntime(1)
    cupy.RawModule = FakeModule
    monkeypatch.setattr(FakeModule, "log", [])
    device = CudaDevice(cupy, 0)
    for d in (3, 4, 3):
        device._module(d)
    assert len(FakeModule.log) == 2
    # Fused products would have other bits than the processor's.
    assert all("-fmad=false" in options for options in FakeModule.log)
    assert {"-DD=3", "-DD=4"} == {o for options in FakeModule.log for o in options if "-DD=" in o}


def test_a_missing_compiler_is_named_with_the_way_out(monkeypatch):
    cupy = FakeRuntime(1)
    cupy.RawModule = FakeModule
    monkeypatch.setattr(FakeModule, "log", ["broken"])
    with pytest.raises(InputError, match=r"libnvrtc.*pip install 'unshuffle\[gpu\]'"):
        CudaDevice(cupy, 0)._module(3)


def test_the_kernels_travel_with_the_package():
    text = read_source()
    for name in ("fill_counts", "fill_sums", "place_rows", "scan_ends", "scan_labels"):
        assert f" {name}(" in text
    assert list_constants(5) == {
        "D": "5", "TAIL": repr(TAIL), "INNER": repr(float(PLACES - 2)), "LINES": str(devices.LINES)
    }  # fmt: skip


def test_importing_the_library_does_not_import_cupy():
    code = "import sys, unshuffle.gpu.source; print('cupy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
