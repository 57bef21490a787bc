"""Objectives of the paper's estimators: losses, noise models, penalties, and the problem."""
