"""How the kernels are compiled."""

OPTIONS = {"cache": True, "nogil": True}
# Whatever a function calls is optimised and written once more with it; what has one large caller is
# therefore put into it before, which takes a sixth off the time of the first fit. Only where the
# caller is compiled by `OPTIONS` as well.
INLINED = {**OPTIONS, "inline": "always"}
# Sums may be reordered (they vectorise), but nothing may assume away NaN or infinity. A loop that
# adds up must not write to an array as well: the compiled code would ask how far the arrays lie
# apart before it took the vectorised loop, and the last bits would depend on where they lie.
SUMS = {**OPTIONS, "fastmath": {"reassoc", "contract", "nsz"}}
