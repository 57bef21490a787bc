"""Formulas: columns of a model from named columns of a frame, and contrasts of coefficients."""
