"""Designs: X, labels and bags from one table, from two, from histograms and from means."""
