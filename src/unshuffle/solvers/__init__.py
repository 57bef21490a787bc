"""Solvers: one file each, from a problem and a generator to a solution."""
