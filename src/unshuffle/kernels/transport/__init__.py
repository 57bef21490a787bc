"""Kernels of entropic transport (Sinkhorn) and of approximate permanents built on it."""
