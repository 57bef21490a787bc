"""Solvers of the estimators without a posterior, one file each: problem → solution."""
