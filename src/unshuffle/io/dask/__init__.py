"""Dask collections as sources of blocks, and lazy predictions on them."""
