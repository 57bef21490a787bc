"""Readers of delimited text."""
