"""Fits and their output: summary, verdict, predictions, matches, pictures, report, files."""
