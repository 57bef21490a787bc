"""How the kernels are compiled."""

OPTIONS = {"cache": True, "nogil": True}
# Sums may be reordered (they vectorise), but nothing may assume away NaN or infinity.
SUMS = {**OPTIONS, "fastmath": {"reassoc", "contract", "nsz"}}
