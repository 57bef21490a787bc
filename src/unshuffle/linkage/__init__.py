"""Regression on linked records of which some are wrong."""
