"""The audit of a table before it is released with its labels shuffled."""

from unshuffle.auditing.findings import Audit, audit

__all__ = ["Audit", "audit"]
