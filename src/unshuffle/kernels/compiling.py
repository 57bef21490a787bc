"""Options of the compiled functions; the first fit waits for compiling.

A function is compiled once for itself, and once more inside every function that calls it. So few
functions are called from Python, call trees are flat, and what a fit may not need (exact permanents
of tiny bags) is a kernel of its own. Loops compile several times faster than expressions of whole
arrays, slices, or NumPy's sorting and searching, and arrays come from Python: to make one is
compiled anew for every kind of shape. Options are few, since numba looks up what it knows of
arrays once more for each combination of them.
"""

# Dividing by zero gives infinity, as in NumPy: asking of each divisor whether it is zero would
# leave nothing to vectorise. Zeros are looked after.
_PLAIN = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
# A kernel that Python calls.
OPTIONS = {**_PLAIN, "cache": True}
# A function that only kernels call: how to call it from Python, which takes as long to compile as a
# short function itself, is left out. (Python that calls it all the same ends in a crash.)
INNER = {**_PLAIN, "no_cpython_wrapper": True}

# Sums may be reordered (they vectorise), but nothing may assume away NaN or infinity. A loop that
# adds up must not write to an array as well: the compiled code would ask how far the arrays lie
# apart before it took the vectorised loop, and the last bits would depend on where they lie.
_FREE = {"reassoc", "contract", "nsz"}
# The order of such a sum is chosen anew whenever the function is optimised. A process that compiles
# calls a function's own code, one that loads a kernel from the cache calls the copy inside it; so
# that both find the same bits, free sums stand only in kernels that Python calls ...
SUMS = {**OPTIONS, "fastmath": _FREE}
# ... and in functions that vanish in them.
INNER_SUMS = {**INNER, "fastmath": _FREE, "forceinline": True}
