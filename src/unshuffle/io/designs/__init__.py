"""Designs: X, labels and bags from one table, from two tables, and for new rows."""
