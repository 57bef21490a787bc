"""How compiled functions are loaded in later processes: without the compiler's own library."""

from typing import Any

from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys


class _LoadedAlone(FunctionCache):
    """A function's cache, whose loading leaves out what only compiling needs.

    numba makes ready to compile before it looks for compiled code: that imports how all of Python
    and NumPy is written in machine code, and SciPy's linear algebra, 0.25 s of a process's first
    fit. Code that was compiled needs the allocator of arrays alone. Where there is none to be
    loaded, numba makes itself ready again before it compiles.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def load_alone(kernel: Any) -> Any:
    """Let a kernel load its compiled code alone, and return it.

    What has no cache of the kind known here (a code, plain Python where compiling is switched off,
    another numba) stays as it is.
    """
    has_parts = hasattr(FunctionCache, "_load_overload")
    if has_parts and type(getattr(kernel, "_cache", None)) is FunctionCache:
        kernel._cache = _LoadedAlone(kernel.py_func)
    return kernel


def load_stored(kernel: Any) -> None:
    """Load the compiled code that is stored for a kernel before it is called; compile nothing.

    What cannot be told of another numba is loaded, or compiled, by the first call.
    """
    cache = getattr(kernel, "_cache", None)
    if not isinstance(cache, _LoadedAlone):
        return
    try:
        codegen = kernel.targetctx.codegen()
        stored = cache._cache_file._load_index()
        ready = [key[0] for key in stored if key == cache._index_key(key[0], codegen)]
    except (AttributeError, TypeError, OSError):
        return
    for signature in ready:
        kernel.compile(signature)
