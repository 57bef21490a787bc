"""Inference for the shuffled model: mode search, importance sampling, replica exchange."""
