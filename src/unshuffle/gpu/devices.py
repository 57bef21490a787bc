"""The interface of a graphics card, its implementation with CuPy, and the choice of a card."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from importlib.resources import files
from typing import Any

import numpy as np

from unshuffle.errors import InputError, import_extra, shorten

# Threads of a block: three or four of them keep a processor of the card busy with 50 registers a
# thread.
LINES = 512
# More shared memory than this must be asked for.
_PLAIN_SHARED = 48 * 1024
_FILES = ("filling.cu", "scanning.cu")
_WAY_OUT = "leave device out to fit on the processor"


class Device(ABC):
    """A graphics card: arrays in its memory, and kernels that run in order."""

    # Its processors, and the shared memory in bytes that a block of threads may have.
    n_processors: int
    shared_bytes: int

    @abstractmethod
    def free_bytes(self) -> int:
        """Return how much memory is free."""

    @abstractmethod
    def send(self, array: np.ndarray) -> Any:
        """Return a copy on the card."""

    @abstractmethod
    def make(self, shape: tuple[int, ...], dtype: type, is_zero: bool = False) -> Any:
        """Return an array on the card, of anything or of zeros."""

    @abstractmethod
    def fetch(self, array: Any) -> np.ndarray:
        """Return a copy on the host, after all earlier work is done."""

    @abstractmethod
    def run(
        self, name: str, d: int, n_blocks: int, shared: int, arguments: tuple[Any, ...]
    ) -> None:
        """Run the kernel of this name, made for d columns, in so many blocks of threads.

        Arguments are arrays on the card and integers; blocks have `shared` bytes of memory.
        """


def read_source() -> str:
    """Return the source code of the kernels."""
    folder = files("unshuffle.kernels")
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in _FILES)


def list_constants(d: int) -> dict[str, str]:
    """Return the constants that the kernels are compiled with."""
    # Imported here, since declaring kernels is slow and only cards need it.
    from unshuffle.kernels.filling import PLACES, TAIL

    inner = float(PLACES - 2)
    return {"D": str(d), "TAIL": repr(TAIL), "INNER": repr(inner), "LINES": str(LINES)}


class CudaDevice(Device):
    """A card of NVIDIA, through CuPy."""

    def __init__(self, cupy: Any, number: int) -> None:
        self._cupy, self._card = cupy, cupy.cuda.Device(number)
        attributes = self._card.attributes
        self.n_processors = int(attributes["MultiProcessorCount"])
        self.shared_bytes = int(attributes["MaxSharedMemoryPerBlockOptin"])
        self._modules: dict[int, Any] = {}

    def describe(self) -> str:
        """Return the name of the card."""
        about = self._cupy.cuda.runtime.getDeviceProperties(self._card.id)
        return str(about["name"].decode())

    def free_bytes(self) -> int:
        with self._card:
            # Memory in CuPy's pool is free.
            pool = self._cupy.get_default_memory_pool()
            return int(self._card.mem_info[0] + pool.free_bytes())

    def send(self, array: np.ndarray) -> Any:
        with self._card:
            return self._within_memory(self._cupy.asarray, array)

    def make(self, shape: tuple[int, ...], dtype: type, is_zero: bool = False) -> Any:
        with self._card:
            make = self._cupy.zeros if is_zero else self._cupy.empty
            return self._within_memory(make, shape, dtype)

    def fetch(self, array: Any) -> np.ndarray:
        with self._card:
            return np.asarray(self._cupy.asnumpy(array))

    def run(
        self, name: str, d: int, n_blocks: int, shared: int, arguments: tuple[Any, ...]
    ) -> None:
        with self._card:
            kernel = self._module(d).get_function(name)
            if shared > _PLAIN_SHARED:
                kernel.max_dynamic_shared_size_bytes = shared
            values = (np.int64(each) if isinstance(each, int) else each for each in arguments)
            kernel((n_blocks,), (LINES,), tuple(values), shared_mem=shared)

    def _module(self, d: int) -> Any:
        if d not in self._modules:
            # Without fused multiply-add the results have the processor's bits.
            how = ("-fmad=false", *(f"-D{k}={v}" for k, v in list_constants(d).items()))
            try:
                module = self._cupy.RawModule(code=read_source(), options=how)
                module.compile()
            except Exception as exc:  # of the compiler, of its loading, of the driver: many kinds
                raise InputError(
                    f"device='cuda': the kernels cannot be compiled ({shorten(exc, 120)}): pip "
                    f"install 'unshuffle[gpu]' brings the compiler, or {_WAY_OUT}"
                ) from exc
            self._modules[d] = module
        return self._modules[d]

    def _within_memory(self, make: Any, *arguments: Any) -> Any:
        try:
            return make(*arguments)
        except self._cupy.cuda.memory.OutOfMemoryError as exc:
            raise InputError(
                f"device='cuda': the memory of the card is full ({shorten(exc, 120)}): end what "
                f"else runs there, or {_WAY_OUT}"
            ) from exc


def find_device(name: str | None) -> Device | None:
    """Return the card of this name ("cuda", or "cuda:1" of several); None for the processor.

    An error names what is missing in one line. Nothing is fitted elsewhere than asked.

    >>> find_device(None) is find_device("cpu") is None
    True
    """
    number = read_number(name)
    if number is None:
        return None
    cupy = import_extra("cupy", "gpu", f"device='{name}'")
    try:
        n_cards = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as exc:  # errors of the driver, which may not be there at all
        raise InputError(
            f"device='{name}': no NVIDIA GPU answers ({shorten(exc, 120)}): run where nvidia-smi "
            f"shows one, or {_WAY_OUT}"
        ) from exc
    if number >= n_cards:
        shown = "no NVIDIA GPU" if not n_cards else f"only {n_cards}, counted from cuda:0"
        raise InputError(
            f"device='{name}': there is {shown}: name one that is there, or {_WAY_OUT}"
        )
    return CudaDevice(cupy, number)


def read_number(name: object) -> int | None:
    """Return the number of the card that a name means; None for the processor.

    >>> read_number("cuda"), read_number("cuda:2"), read_number("cpu")
    (0, 2, None)
    """
    if name is None or name == "cpu":
        return None
    found = re.fullmatch(r"cuda(?::(\d+))?", name) if isinstance(name, str) else None
    if found is None:
        raise InputError(
            f"device={shorten(repr(name))} is not understood: give None or 'cpu' for the "
            "processor, or 'cuda' for an NVIDIA GPU ('cuda:1' for the second of several)"
        )
    return int(found[1] or 0)
